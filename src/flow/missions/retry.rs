//! Failed steps once more, in place: the mission goes on from there.
//!
//! A failure has stopped whatever had not ended: such steps wait again, and begin if those before them have ended as they
//! ask. The mission around a failed one has failed with it, and is taken up in the same way, with the step whose work the
//! inner one is under way again. Locks: as the end of a step, the missions from the deepest to the outermost, in each first
//! all its steps by level and id, then its row. Their counts are gone, and are made anew.

use super::control::unless_refused;
use super::ended::EndedSteps;
use super::finalize::{self, Mission};
use super::prepare::Candidate;
use super::run::Run;
use super::{counts, gate, unknown_mission};
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::error::{raise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use agentq_core::error::shown;
use agentq_core::mission::plan::{self, Decision};
use agentq_core::mission::status::{CountState, MissionStatus, StepStatus};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("retry.sql": RETRY_STEPS, RETRY_RESET, RETRY_UNDER_WAY, RETRY_COUNTERS, RETRY_MISSION, RETRY_CHAIN, RETRY_OUTER, RETRY_ITEM, RETRY_READY);

/// A step of a failed mission.
struct Step {
    id: Uuid,
    name: String,
    status: StepStatus,
    fails_mission: bool,
}

impl Step {
    /// Whether its failure has ended the mission.
    fn has_failed(&self) -> bool {
        self.status == StepStatus::Failed && self.fails_mission
    }

    /// Whether the failure has stopped it before it could begin, or while its job waited.
    fn was_stopped(&self) -> bool {
        self.status == StepStatus::Cancelled
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_retry(p_mission: Option<Uuid>, p_step: default!(Option<&str>, "NULL")) -> Jsonb {
    bounded!(fn_mission_retry: p_step);
    answer::if_on(|_| {
        let mission_id = required("p_mission", p_mission);
        db::answer(|db| unless_refused(|| retry(db, mission_id, p_step, clock::now())))
    })
}

fn refusal(code: &str, mission_id: Uuid, message: String, hint: &str, more: serde_json::Value) -> Jsonb {
    let answer =
        json!({"ok": false, "code": code, "mission_id": mission_id.to_string(), "message": message, "hint": hint});
    Jsonb::from_value(answer).merged(Jsonb::from_value(more))
}

fn retry(db: &Db, mission_id: Uuid, step: Option<&str>, now: Micros) -> Jsonb {
    gate::pass_alone(mission_id);
    let steps = lock_steps(db, mission_id);
    let mission = Mission::lock(db, mission_id).unwrap_or_else(|| unknown_mission(mission_id));
    if mission.status != MissionStatus::Failed {
        let message = format!("the mission is {}: only what has failed is tried again", mission.status.name());
        return refusal("not_failed", mission_id, message, "fn_mission_explain says how it stands.", json!({}));
    }
    if !db.run(&RETRY_CHAIN, &[mission_id.into()]).is_empty() {
        let message = "its effects were compensated, so that what it had done is no longer there".to_owned();
        let hint = "Fork it: agentq.fn_mission_fork runs the steps anew whose effects were undone.";
        return refusal("compensated", mission_id, message, hint, json!({}));
    }
    if let Some(name) = step.filter(|name| !steps.iter().any(|step| step.name == *name)) {
        raise(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("there is no step \"{}\" in mission {mission_id}", shown(name)),
            "SELECT name FROM agentq.v_mission_step WHERE mission_id = … lists them.",
        )
    }
    let is_meant = |found: &&Step| step.is_none_or(|name| found.name == name);
    let again: Vec<&Step> = steps.iter().filter(is_meant).filter(|step| step.has_failed()).collect();
    if again.is_empty() {
        let message = "no step of it has failed in a way that ended the mission".to_owned();
        let hint = "A mission that ran out of time is forked: agentq.fn_mission_fork.";
        return refusal("not_failed", mission_id, message, hint, json!({}));
    }
    let others = steps.iter().filter(|step| step.has_failed() && !again.iter().any(|found| found.id == step.id));
    let others: Vec<&str> = others.map(|step| step.name.as_str()).collect();
    if !others.is_empty() {
        let message = "other steps have failed, too, and would end the mission again".to_owned();
        let hint = "Leave p_step out to try all of them again.";
        return refusal("others_failed", mission_id, message, hint, json!({"steps": others}));
    }
    let names: Vec<&str> = again.iter().map(|step| step.name.as_str()).collect();
    if let Err(message) = reopen_outer(db, &mission, mission_id, now) {
        let hint = "Fork the outermost mission: agentq.fn_mission_fork.";
        return refusal("outer_went_on", mission_id, message, hint, json!({}));
    }
    let told = json!({"ok": true, "code": "retried", "mission_id": mission_id.to_string(), "steps": names});
    finalize::audit(db, "mission.retried", mission_id, json!({"steps": names}), None, now);
    let anew: Vec<Uuid> = again.iter().map(|step| step.id).collect();
    take_up(db, mission_id, &mission, &steps, &anew, None, now);
    Jsonb::from_value(told)
}

/// All steps of a mission, locked by level and id.
fn lock_steps(db: &Db, mission_id: Uuid) -> Vec<Step> {
    let mut steps = Vec::new();
    db.run(&RETRY_STEPS, &[mission_id.into()]).each(|row| {
        steps.push(Step {
            id: row.must("step_id"),
            name: row.must("name"),
            status: row.word("status", StepStatus::parse),
            fails_mission: row.must("fails_mission"),
        })
    });
    steps
}

/// Takes up the mission around this one, which has failed with it. An error: it has gone on, or has failed otherwise.
fn reopen_outer(db: &Db, mission: &Mission, mission_id: Uuid, now: Micros) -> Result<(), String> {
    let Some(parent) = mission.parent_step else { return Ok(()) };
    let row = db.run(&RETRY_OUTER, &[parent.into(), mission_id.into()]);
    if row.is_empty() {
        return Err("the mission around it no longer waits for it".to_owned());
    }
    let outer_id: Uuid = row.must("mission_id");
    let item = row.get::<i32>("item").zip(row.get::<i32>("item_count"));
    gate::pass_alone(outer_id);
    let steps = lock_steps(db, outer_id);
    let outer = Mission::lock(db, outer_id).unwrap_or_else(|| unknown_mission(outer_id));
    let ours = steps.iter().find(|step| step.id == parent);
    if outer.status != MissionStatus::Failed || !ours.is_some_and(Step::has_failed) {
        return Err(format!("the mission around it, {outer_id}, is {} and has not failed by it", outer.status.name()));
    }
    if steps.iter().any(|step| step.has_failed() && step.id != parent) {
        return Err(format!("other steps of the mission around it, {outer_id}, have failed, too"));
    }
    if !db.run(&RETRY_CHAIN, &[outer_id.into()]).is_empty() {
        return Err(format!("the effects of the mission around it, {outer_id}, were compensated"));
    }
    reopen_outer(db, &outer, outer_id, now)?;
    finalize::audit(db, "mission.retried", outer_id, json!({"inner": mission_id.to_string()}), None, now);
    if let Some((item, count)) = item {
        // The others of the list stay as they ended.
        db.run(&RETRY_ITEM, &[parent.into(), item.into()]);
        let shards = plan::shards(count as usize);
        counts::create(parent, shards, |shard| i32::from(shard == item % shards), CountState::Running);
    }
    take_up(db, outer_id, &outer, &steps, &[], Some(parent), now);
    Ok(())
}

/// Lets a mission go on: the steps `anew` run again, `under_way` goes on, and what was stopped waits for its turn.
fn take_up(
    db: &Db,
    mission_id: Uuid,
    mission: &Mission,
    steps: &[Step],
    anew: &[Uuid],
    under_way: Option<Uuid>,
    now: Micros,
) {
    let at = timestamp(now);
    let stopped = steps.iter().filter(|step| step.was_stopped()).map(|step| step.id);
    let reset: Vec<Uuid> = anew.iter().copied().chain(stopped).collect();
    let shards = plan::shards(steps.len());
    db.run(&RETRY_RESET, &[reset.clone().into()]);
    if let Some(step) = under_way {
        db.run(&RETRY_UNDER_WAY, &[step.into()]);
    }
    db.run(&RETRY_COUNTERS, &[reset.into()]);
    db.run(&RETRY_MISSION, &[mission_id.into(), at.into()]);
    // What is under way is counted in the first row, as its step says.
    let active = |shard: i32| i32::from(shard == 0 && under_way.is_some());
    counts::create(mission_id, shards, active, CountState::Running);
    let mut decided = Vec::new();
    db.run(&RETRY_READY, &[mission_id.into()]).each(|row| {
        let decision = plan::decide(row.must("need"), row.must("met"), row.must("pending"));
        if decision != Decision::Wait {
            decided.push((Candidate::read(row), decision));
        }
    });
    EndedSteps::settle(db, Run::new(db, mission_id, mission.depth, now).take_up(decided), now);
}
