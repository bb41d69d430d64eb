//! Stopping a mission.
//!
//! No further step becomes a job, and the jobs that no worker holds are cancelled. What workers hold goes on to its end, and
//! the last of these ends the mission. Missions inside it are stopped first, the deepest before the others.

use super::ended::{EndedSteps, StepEnd};
use super::finalize::{self, Mission};
use super::lists::end_list;
use super::{counts, gate, step_waits};
use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use crate::queue::ends::settle::{ask_to_cancel, cancel_if_free};
use crate::queue::storage::lock_against_rule_change;
use agentq_core::mission::plan;
use agentq_core::mission::status::{CountState, MissionStatus};
use pgrx::Uuid;
use std::cmp::Reverse;
use std::collections::BTreeMap;

statements!("stop.sql": MISSION_FAIL, MISSION_CANCEL, QUEUED_STEPS, QUEUED_ITEMS, STEP_CANCEL, ITEM_CANCEL, OPEN_CHILDREN, HELD_JOBS);

/// What the holders of its jobs hear where nobody said why a mission is cancelled.
pub const CANCELLED: &str = "the mission was cancelled";

/// What stops a mission.
pub enum Why<'a> {
    Cancel { reason: Option<&'a str>, by: &'a str, mode: Option<&'a str> },
    Fail { error: &'a str },
}

/// What came of stopping a mission.
pub enum Stopped {
    Unknown,
    /// It had ended before, or was about to: its status, which stays.
    Already(MissionStatus),
    Done,
}

/// Stops a mission, and first the missions in it.
pub fn stop(db: &Db, mission_id: Uuid, why: &Why<'_>, now: Micros) -> Stopped {
    // Before any row, as everybody who cancels a job does it: a change of limits and this call wait for each other here.
    lock_against_rule_change();
    let mut ended = EndedSteps::default();
    let mut result = Stopped::Unknown;
    for mission in with_inner(db, mission_id) {
        let own = mission == mission_id;
        let outer = Why::Cancel { reason: Some("the mission around it was stopped"), by: "mission", mode: None };
        let (stopped, up) = one(db, mission, if own { why } else { &outer }, now);
        ended.mark_stopped(mission);
        up.into_iter().for_each(|up| ended.add_end(up));
        result = stopped;
    }
    ended.run(db, now);
    result
}

/// A mission and the open ones inside it, in the order in which missions are locked: the deepest first, then by id.
pub fn with_inner(db: &Db, mission_id: Uuid) -> Vec<Uuid> {
    let mut all: Vec<(Reverse<usize>, [u8; 16])> = Vec::new();
    let mut next = vec![(0, mission_id)];
    while let Some((depth, outer)) = next.pop() {
        pgrx::check_for_interrupts!();
        db.run(&OPEN_CHILDREN, &[outer.into()]).each(|row| next.push((depth + 1, row.only())));
        all.push((Reverse(depth), *outer.as_bytes()));
    }
    all.sort_unstable();
    all.into_iter().map(|(_, id)| Uuid::from_bytes(id)).collect()
}

fn one(db: &Db, mission_id: Uuid, why: &Why<'_>, now: Micros) -> (Stopped, Option<StepEnd>) {
    gate::pass_alone(mission_id);
    counts::set_state(db, mission_id, CountState::Stopping, &[CountState::Running, CountState::Paused]);
    let Some(mission) = Mission::lock(db, mission_id) else {
        return (Stopped::Unknown, None);
    };
    if !mission.status.goes_on() {
        return (Stopped::Already(mission.status), None);
    }
    match why {
        Why::Cancel { reason, by, mode } => {
            db.run(&MISSION_CANCEL, &[mission_id.into(), (*reason).into(), (*by).into(), (*mode).into()]);
            take_back(db, mission_id, CANCELLED, now);
            tell_holders(db, mission_id, reason.unwrap_or(CANCELLED));
        }
        Why::Fail { error } => {
            note_failure(db, mission_id, None, error);
            take_back(db, mission_id, "the mission failed", now);
        }
    }
    let up = finalize::finalize(db, mission_id, now);
    (Stopped::Done, up)
}

/// The failure of a step has made the mission fail, and the caller has written so into its counts. True: a count has come
/// to nothing.
pub fn fail(db: &Db, mission_id: Uuid, step: &str, error: &str, now: Micros) -> bool {
    note_failure(db, mission_id, Some(step), error);
    take_back(db, mission_id, "the mission failed", now)
}

/// Writes down why a mission fails. The first reason stays.
pub fn note_failure(db: &Db, mission_id: Uuid, step: Option<&str>, error: &str) {
    db.run(&MISSION_FAIL, &[mission_id.into(), step.into(), error.into()]);
}

/// Tells those who hold jobs of a cancelled mission to stop, without waiting for anybody. Whoever is just making a call about
/// its job hears of it from the engine's next round on; until then, and after, no new effect begins.
pub fn tell_holders(db: &Db, mission_id: Uuid, why: &str) {
    let mut held = Vec::new();
    db.run(&HELD_JOBS, &[mission_id.into()]).each(|row| held.push(row.only::<Uuid>()));
    ask_to_cancel(db, held, why);
}

/// Cancels the jobs that no worker holds, and what waits without one, without waiting for anybody. A job that another session is just claiming runs; if
/// that session gives it back, the engine cancels it later. True: a count has come to nothing.
pub fn take_back(db: &Db, mission_id: Uuid, why: &str, now: Micros) -> bool {
    let at = timestamp(now);
    let mut deltas: BTreeMap<i32, i32> = BTreeMap::new();
    let mut steps: Vec<(Uuid, Uuid, i32)> = Vec::new();
    db.run(&QUEUED_STEPS, &[mission_id.into()])
        .each(|row| steps.push((row.must("step_id"), row.must("job_id"), row.must("shard"))));
    for (step, job, shard) in steps {
        pgrx::check_for_interrupts!();
        if cancel_if_free(db, job, why, now)
            && !db.run(&STEP_CANCEL, &[step.into(), job.into(), why.into(), at.into()]).is_empty()
        {
            *deltas.entry(shard).or_default() -= 1;
        }
    }
    for (step, shard) in step_waits::take_back(db, mission_id) {
        if !db.run(&STEP_CANCEL, &[step.into(), None::<Uuid>.into(), why.into(), at.into()]).is_empty() {
            *deltas.entry(shard).or_default() -= 1;
        }
    }
    let mut items: Vec<(Uuid, i32, Uuid, i32, i32)> = Vec::new();
    db.run(&QUEUED_ITEMS, &[mission_id.into()]).each(|row| {
        items.push((
            row.must("step_id"),
            row.must("item"),
            row.must("job_id"),
            row.must("item_count"),
            row.must("shard"),
        ))
    });
    for (step, item, job, count, shard) in items {
        pgrx::check_for_interrupts!();
        if !cancel_if_free(db, job, why, now)
            || db.run(&ITEM_CANCEL, &[step.into(), item.into(), job.into(), why.into(), at.into()]).is_empty()
        {
            continue;
        }
        let left = counts::add(db, step, item % plan::shards(count as usize), -1, false);
        if left.is_some_and(|left| left.active == 0)
            && end_list(db, step).is_some()
            && !db.run(&STEP_CANCEL, &[step.into(), None::<Uuid>.into(), why.into(), at.into()]).is_empty()
        {
            *deltas.entry(shard).or_default() -= 1;
        }
    }
    counts::add_all(db, mission_id, &deltas)
}
