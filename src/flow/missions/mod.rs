//! Missions: steps with an order between them, each a job when those before it allow it.
//!
//! Promise: a step becomes a job once, in the transaction that ends the last step it waited for, and a mission ends with
//! its last step. Nobody polls.
//!
//! Lock order, after all rows of jobs: missions from the deepest to the outermost, then by id; in each mission first the
//! steps by level and id, then the rows of `mission_count` by number, then the row of the mission. Whoever ends a step goes
//! through all three. Cancel, pause and resume begin with the counts and lock no step that waits for others, so that they
//! never wait for one who waits for them.

mod advance;
mod begin;
mod check;
mod control;
mod counts;
mod ended;
mod finalize;
mod fork;
mod gate;
mod insert;
mod inspect;
pub mod late_ends;
mod lists;
pub mod maintain;
mod patience;
mod pause;
mod prepare;
mod recover;
mod retry;
mod rows;
mod run;
mod scheduled;
mod start;
pub mod step_waits;
mod stop;
mod wait;

pub use {
    check::{check, check_with_key},
    control::unless_refused,
    finalize::{compensated, lock},
    gate::pass_alone,
    start::{Start, start},
};

use crate::db::{Db, statements};
use crate::error::raise;
use crate::queue::ends::hooks;
use agentq_core::context::Context;
use agentq_core::mission::status::MissionStatus;
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("missions.sql": JOB_HOOK, STEP_MISSION, MISSION_SHOWN, MISSION_FRESH, MISSION_CONTEXT, MISSION_STATUS);

/// The name of the hook that ends steps.
const HOOK: &str = "mission";

pub fn init() {
    hooks::register_for_missions(HOOK, advance::jobs_ended);
    hooks::before_each_that_was_left(patience::begin_anew);
    scheduled::init();
}

/// The mission and the step whose work this job is.
pub fn mission_of_job(db: &Db, job_id: Uuid) -> Option<(Uuid, Uuid)> {
    let row = db.run(&JOB_HOOK, &[job_id.into()]);
    if row.is_empty() {
        return None;
    }
    let hook: String = row.only();
    let (step, _) = step_of(hook.strip_prefix(HOOK)?.strip_prefix(':')?)?;
    mission_of_step(db, step).map(|mission| (mission, step))
}

/// Whether this job is the work of a step of a mission that somebody has cancelled.
pub fn is_cancelled(db: &Db, job_id: Uuid) -> bool {
    use MissionStatus::{Cancelled, Cancelling, Compensating};
    let mission = mission_of_job(db, job_id).map(|(mission, _)| mission);
    mission
        .and_then(|mission| status_of(db, mission))
        .is_some_and(|s| matches!(s, Cancelling | Compensating | Cancelled))
}

/// The mission that a step belongs to.
pub fn mission_of_step(db: &Db, step: Uuid) -> Option<Uuid> {
    let row = db.run(&STEP_MISSION, &[step.into()]);
    (!row.is_empty()).then(|| row.only())
}

/// What a job's hook is about: the step, and the item if it works through a list.
fn step_of(about: &str) -> Option<(Uuid, Option<i32>)> {
    let (step, item) = about.split_once(':').map_or((about, None), |(step, item)| (step, item.parse().ok()));
    Some((crate::base::ids::parse_id(step)?, item))
}

fn hook_of(step: Uuid, item: Option<usize>) -> String {
    match item {
        None => format!("{HOOK}:{step}"),
        Some(item) => format!("{HOOK}:{step}:{item}"),
    }
}

/// How a mission stands. None: there is no such mission.
fn status_of(db: &Db, mission_id: Uuid) -> Option<MissionStatus> {
    let row = db.run(&MISSION_STATUS, &[mission_id.into()]);
    (!row.is_empty()).then(|| row.word("status", MissionStatus::parse))
}

/// What a mission belongs to, itself included.
pub fn context_of(db: &Db, mission_id: Uuid) -> Context {
    let row = db.run(&MISSION_CONTEXT, &[mission_id.into()]);
    let own = Context { mission_id: Some(mission_id.to_string()), ..Context::default() };
    if row.is_empty() {
        return own;
    }
    Context {
        trace_id: row.get("trace_id"),
        traceparent: row.get("traceparent"),
        correlation_id: row.get("correlation_id"),
        command_id: row.get("command_id"),
        ..own
    }
}

/// How a mission stands, as people are shown it. None: there is no such mission.
fn shown_status(db: &Db, mission_id: Uuid) -> Option<String> {
    let row = db.run(&MISSION_SHOWN, &[mission_id.into()]);
    (!row.is_empty()).then(|| row.only())
}

/// How a mission stands that this transaction has started, as people are shown it.
fn fresh_status(db: &Db, mission_id: Uuid) -> Option<String> {
    let row = db.run(&MISSION_FRESH, &[mission_id.into()]);
    (!row.is_empty()).then(|| row.only())
}

/// Raises the error for a mission id that nobody knows.
pub fn unknown_mission(mission_id: Uuid) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
        format!("there is no mission {mission_id}"),
        "Use the mission_id that agentq.fn_mission_start returned. Ended missions may have been removed.",
    )
}
