//! Pausing a mission, and letting it go on.
//!
//! A pause holds back the steps that have not become jobs. Of the whole, it also reaches the missions inside, and takes the
//! jobs that nobody holds out of the queue; those that come back later the engine takes out. `paused_with` of a mission says
//! that jobs of it may be out of the queue: while it is paused, and after that until all of them are back. Lock order: as for a stop, the
//! deepest mission first, in each the counts, its row, and then its jobs, without waiting for anybody who has one.

use super::control::{already, told, unless_refused};
use super::ended::EndedSteps;
use super::finalize::{self, Mission};
use super::prepare::Candidate;
use super::run::Run;
use super::stop::with_inner;
use super::unknown_mission;
use super::{counts, gate};
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::error::required;
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::ends::dormant;
use crate::queue::storage::lock_against_rule_change;
use agentq_core::mission::plan::Decision;
use agentq_core::mission::status::{CountState, MissionStatus};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;
use std::cell::Cell;

statements!("pause.sql": MISSION_PAUSE, MISSION_RESUME, HELD_STEPS, PAUSED_WITH, FREE_JOBS, JOBS_HELD, MISSION_RELEASED, MISSED_INNER, MISSIONS_HELD);

/// The gate at which jobs of a paused mission wait.
const GATE: &str = "pause";
/// How many paused missions the engine looks at in one run.
const AT_ONCE: i64 = 20;

/// As the schema of the version before declares it.
#[pg_extern(sql = false)]
fn fn_mission_pause(p_mission: Option<Uuid>, p_reason: Option<&str>) -> Jsonb {
    pause_whole(p_mission, p_reason, None)
}

#[pg_extern(name = "fn_mission_pause", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn pause_whole(
    p_mission: Option<Uuid>,
    p_reason: default!(Option<&str>, "NULL"),
    p_whole: default!(Option<bool>, "false"),
) -> Jsonb {
    bounded!(fn_mission_pause: p_reason);
    answer::if_on(|_| {
        let (mission_id, reason) = (required("p_mission", p_mission), p_reason);
        let now = clock::now();
        if p_whole != Some(true) {
            return db::answer(|db| unless_refused(|| pause(db, mission_id, reason, None, now)));
        }
        let pause_all = |db: &Db| {
            // Before any row: a change of limits is over by now, or waits for this transaction.
            lock_against_rule_change();
            let mut answer = None;
            for mission in with_inner(db, mission_id) {
                answer = Some(pause(db, mission, reason, Some(mission_id), now));
                // One that was paused alone before stays as it is.
                if Mission::lock(db, mission).is_some_and(|mission| mission.paused && mission.is_paused_whole) {
                    hold_jobs(db, mission, now);
                }
            }
            answer.unwrap_or_else(|| unknown_mission(mission_id))
        };
        db::answer(|db| unless_refused(|| pause_all(db)))
    })
}

/// Holds back the steps of a mission that have not become jobs. `with`: the mission whose pause has reached it.
fn pause(db: &Db, mission_id: Uuid, reason: Option<&str>, with: Option<Uuid>, now: Micros) -> Jsonb {
    gate::pass_alone(mission_id);
    let paused = counts::set_state(db, mission_id, CountState::Paused, &[CountState::Running]);
    let mission = Mission::lock(db, mission_id).unwrap_or_else(|| unknown_mission(mission_id));
    // One that was paused alone, and not with what it has in it, can be so now.
    let reaches_further = with == Some(mission_id) && !mission.is_paused_whole;
    if mission.paused && !reaches_further {
        return told(db, "already_paused", mission_id);
    }
    if mission.status != MissionStatus::Running || paused == 0 {
        return already(mission_id, mission.status, mission.last_error.is_some());
    }
    db.run(&MISSION_PAUSE, &[mission_id.into(), timestamp(now).into(), reason.into(), with.into()]);
    let what = json!({"reason": reason, "whole": with.is_some(), "with": with.map(|id| id.to_string())});
    finalize::audit(db, "mission.paused", mission_id, what, None, now);
    told(db, "paused", mission_id)
}

/// Takes the jobs of a paused mission out of the queue that nobody holds.
fn hold_jobs(db: &Db, mission_id: Uuid, now: Micros) {
    for job in free_jobs(db, mission_id) {
        pgrx::check_for_interrupts!();
        let why = json!({"gate": GATE, "message": "its mission is paused", "mission_id": mission_id.to_string(),
            "hint": "It goes on with fn_mission_resume."});
        dormant::suspend(db, job, why, now);
    }
}

/// The jobs of open steps that nobody holds.
fn free_jobs(db: &Db, mission_id: Uuid) -> Vec<Uuid> {
    let mut jobs = Vec::new();
    db.run(&FREE_JOBS, &[mission_id.into()]).each(|row| jobs.push(row.only()));
    jobs
}

thread_local!(static LOOKED_TO: Cell<[u8; 16]> = const { Cell::new([0; 16]) });

/// Does what a pause or a resume of a whole mission has left: takes jobs out of the queue that have come back to it, pauses
/// missions that began just when those around them were paused, and lets jobs go that somebody had locked when their mission
/// was resumed. Some missions at a time; one that somebody has locked is left for the next time.
pub fn go_on(db: &Db, now: Micros) {
    lock_against_rule_change();
    let from = Uuid::from_bytes(LOOKED_TO.get());
    let mut missed: Vec<(Uuid, Uuid)> = Vec::new();
    db.run(&MISSED_INNER, &[from.into(), AT_ONCE.into()])
        .each(|row| missed.push((row.must("inner"), row.must("root"))));
    for (inner, root) in missed {
        pause(db, inner, Some("the mission around it is paused"), Some(root), now);
    }
    let mut missions: Vec<(Uuid, bool)> = Vec::new();
    db.run(&MISSIONS_HELD, &[from.into(), AT_ONCE.into()])
        .each(|row| missions.push((row.must("mission_id"), row.must("is_paused"))));
    let last = missions.last().filter(|_| missions.len() as i64 == AT_ONCE);
    LOOKED_TO.set(last.map_or([0; 16], |(id, _)| *id.as_bytes()));
    for (mission, is_paused) in missions {
        if is_paused {
            hold_jobs(db, mission, now);
        } else {
            release_jobs(db, mission, now);
        }
    }
}

/// Lets the jobs of a mission run again that its pause has kept from it. Those that somebody has locked are left to the
/// engine: the mission stays marked until all are free.
fn release_jobs(db: &Db, mission_id: Uuid, now: Micros) {
    free_jobs(db, mission_id).into_iter().for_each(|job| dormant::release(db, job, GATE, now));
    if db.run(&JOBS_HELD, &[mission_id.into(), GATE.into()]).is_empty() {
        db.run(&MISSION_RELEASED, &[mission_id.into()]);
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_resume(p_mission: Option<Uuid>) -> Jsonb {
    answer::if_on(|_| {
        let mission_id = required("p_mission", p_mission);
        let now = clock::now();
        let resume_all = |db: &Db| {
            lock_against_rule_change();
            let inner = pass_with_inner(db, mission_id);
            // All of them before what follows from it: that locks missions further out.
            let mut ended = EndedSteps::default();
            for mission in inner {
                resume(db, mission, &mut ended, now);
            }
            ended.run(db, now);
            let mut ended = EndedSteps::default();
            let answer = resume(db, mission_id, &mut ended, now);
            ended.run(db, now);
            answer
        };
        db::answer(|db| unless_refused(|| resume_all(db)))
    })
}

/// Passes the gates of the missions that were paused with this one, the deepest first, as everybody does, and then its own. No
/// pause of the whole is under way from then on; one that has come in between has paused more, which are passed before it, too.
fn pass_with_inner(db: &Db, mission_id: Uuid) -> Vec<Uuid> {
    let paused_with = || {
        let mut inner: Vec<Uuid> = Vec::new();
        db.run(&PAUSED_WITH, &[mission_id.into()]).each(|row| inner.push(row.only()));
        inner
    };
    let mut passed: Vec<Uuid> = Vec::new();
    loop {
        let inner = paused_with();
        for mission in &inner {
            if !passed.contains(mission) {
                gate::pass_alone(*mission);
                passed.push(*mission);
            }
        }
        let has_passed = gate::has_passed_alone(mission_id);
        let inner = paused_with();
        if !has_passed || inner.iter().all(|mission| passed.contains(mission)) {
            return inner;
        }
        gate::step_back(mission_id);
    }
}

/// Lets a mission go on. The ends of steps of other missions that follow from it are left to the caller.
fn resume(db: &Db, mission_id: Uuid, ended: &mut EndedSteps, now: Micros) -> Jsonb {
    gate::pass_alone(mission_id);
    // Those who are putting steps aside are waited for, and then their steps are seen.
    counts::set_state(db, mission_id, CountState::Running, &[CountState::Paused]);
    let mission = Mission::lock(db, mission_id).unwrap_or_else(|| unknown_mission(mission_id));
    if !mission.status.goes_on() {
        return already(mission_id, mission.status, false);
    }
    if !mission.paused {
        return told(db, "not_paused", mission_id);
    }
    db.run(&MISSION_RESUME, &[mission_id.into(), timestamp(now).into()]);
    finalize::audit(db, "mission.resumed", mission_id, json!({}), None, now);
    if mission.is_paused_whole {
        release_jobs(db, mission_id, now);
    }
    let mut held = Vec::new();
    db.run(&HELD_STEPS, &[mission_id.into()]).each(|row| held.push((Candidate::read(row), Decision::Begin)));
    let ends = Run::new(db, mission_id, mission.depth, now).take_up(held);
    ends.into_iter().for_each(|end| ended.add_end(end));
    told(db, "resumed", mission_id)
}
