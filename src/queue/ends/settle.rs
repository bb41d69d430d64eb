//! Ending an attempt: the lease goes, the attempt is recorded, and the job rests again or is done.
//!
//! Every way in which a held job stops being held, other than an ack, goes through here: failure,
//! release, snooze, expiry, cancellation, dead letter.

use super::{again, hooks, telling};
use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use crate::queue::answer;
use crate::queue::capacity::limits;
use crate::queue::storage::{LockedLease, Place, lock_against_rule_change, order, place};
use crate::queue::waking::ends;
use crate::server::has_fixed_snapshot;
use agentq_core::line::Line;
use agentq_core::replay::From;
use agentq_core::retry::Reason;
use pgrx::Uuid;
use serde_json::json;

statements!("settle.sql": REST, FINISH, LOCK_FREE, LETTER_DETAILS, DEAD_LETTER, CANCEL_HELD_ALL);

/// How an attempt ended.
#[derive(Default)]
pub struct Ending<'a> {
    pub outcome: &'a str,
    pub error: Option<&'a str>,
    pub error_class: Option<&'a str>,
    /// What else is to be known of the error, such as a stack.
    pub error_detail: Option<&'a str>,
    /// 1 if it counts as an attempt without success.
    pub costs: i32,
    /// Why a job that nobody holds is cancelled; the reason for a held one is in its lease.
    pub cancel_reason: Option<&'a str>,
}

/// Gives a held job back: it rests in `state` until `scheduled_at`.
pub fn rest(db: &Db, held: &LockedLease, ending: &Ending<'_>, state: &str, scheduled_at: Micros, now: Micros) {
    limits::free_lease_of(held.place.job_id);
    db.run(
        &REST,
        &[
            held.place.job_id.into(),
            ending.outcome.into(),
            timestamp(now).into(),
            ending.error_class.into(),
            ending.error.into(),
            ending.costs.into(),
            timestamp(scheduled_at).into(),
            state.into(),
            ending.error_detail.into(),
        ],
    );
    Place { scheduled_at, ..held.place.clone() }.enter(db, now);
}

/// Ends a job for good, held or not (its place among the resting ones must be taken out before), and tells whoever
/// wants to know.
pub fn finish(db: &Db, job_id: Uuid, state: &str, ending: &Ending<'_>, now: Micros) {
    finish_untold(db, job_id, state, ending, now);
    hooks::finished(job_id, state, ending.error.or(ending.cancel_reason), now);
}

/// Cancels a job that nobody holds, if that is possible without waiting for anybody, and tells nobody.
pub fn cancel_if_free(db: &Db, job_id: Uuid, reason: &str, now: Micros) -> bool {
    lock_against_rule_change();
    let is_free = if lock_free(db, job_id) {
        matches!(seize(db, job_id), Seized::Resting(_))
    } else {
        place::take_from_line(job_id, false).is_some()
    };
    if is_free {
        let ending = Ending { outcome: "cancelled", cancel_reason: Some(reason), ..Ending::default() };
        finish_untold(db, job_id, "cancelled", &ending, now);
    }
    is_free
}

/// Asks the holders of these jobs to stop, but for those whose lease somebody has locked.
pub fn ask_to_cancel(db: &Db, jobs: Vec<Uuid>, reason: &str) {
    if !jobs.is_empty() {
        db.run(&CANCEL_HELD_ALL, &[jobs.into(), reason.into()]);
    }
}

/// Locks a job that nobody holds and that stands in no line, unless somebody else has it.
pub fn lock_free(db: &Db, job_id: Uuid) -> bool {
    !db.run(&LOCK_FREE, &[job_id.into()]).is_empty()
}

fn finish_untold(db: &Db, job_id: Uuid, state: &str, ending: &Ending<'_>, now: Micros) {
    limits::free_lease_of(job_id);
    db.run(
        &FINISH,
        &[
            job_id.into(),
            state.into(),
            ending.outcome.into(),
            timestamp(now).into(),
            ending.error_class.into(),
            ending.error.into(),
            ending.costs.into(),
            ending.cancel_reason.into(),
            ending.error_detail.into(),
        ],
    );
    order::finished(db, job_id, now);
    ends::note(job_id);
}

/// Ends a job in the dead letters and returns the id of its letter.
pub fn bury(db: &Db, job_id: Uuid, ending: &Ending<'_>, reason: Reason, moved_by: &str, now: Micros) -> Uuid {
    finish(db, job_id, "dead_letter", ending, now);
    write_letter(db, job_id, ending, reason, moved_by, now)
}

/// Writes the dead letter of a job that has ended, and tells of it.
pub fn write_letter(db: &Db, job_id: Uuid, ending: &Ending<'_>, reason: Reason, moved_by: &str, now: Micros) -> Uuid {
    let letter = crate::base::ids::new_id();
    let error = ending.error.filter(|e| !e.trim().is_empty()).unwrap_or("no error was given");
    db.run(&DEAD_LETTER, &[letter.into(), job_id.into(), error.into(), moved_by.into(), timestamp(now).into()]);
    // The letter may outlive the job, and the steps do not.
    let plan = again::plan(db, job_id, &From::Beginning).and_then(Result::ok);
    let unsafe_steps = plan.map(|plan| plan.unsafe_steps).filter(|steps| !steps.is_empty());
    let args = [letter.into(), reason.name().into(), ending.error_class.into(), unsafe_steps.into()];
    let details = db.run(&LETTER_DETAILS, &args);
    let pgrx::JsonB(details) = details.only();
    let tell = |kind: &str, severity: &str| {
        let mut what = details.clone();
        what["severity"] = json!(severity);
        telling::of_job(db, kind, job_id, what, now);
    };
    if reason == Reason::Poison {
        tell("job.poisoned", "critical");
    }
    tell("job.dead_lettered", "error");
    letter
}

/// A job that someone wants to end or change, as it was found.
pub enum Seized {
    /// With the line behind the head of its ordering key, if it stood there.
    Resting(Option<Line>),
    Held(LockedLease),
    Finished(String),
}

/// Takes a job out of the place where it rests, or locks its lease, or says how it ended. A job
/// that moves meanwhile is looked for again.
pub fn seize(db: &Db, job_id: Uuid) -> Seized {
    for _ in 0..100 {
        if let Some(place) = place::take_resting(db, job_id) {
            return Seized::Resting(place.line);
        }
        if let Some(held) = LockedLease::lock(db, job_id, None, None) {
            return Seized::Held(held);
        }
        match answer::state_of(db, job_id) {
            None => crate::error::unknown_job(job_id),
            Some(state) if is_finished(&state) => return Seized::Finished(state),
            // A fixed snapshot would show the same again.
            Some(_) if has_fixed_snapshot() => break,
            Some(_) => continue,
        }
    }
    crate::error::run_again(format!("job {job_id} keeps moving"))
}

fn is_finished(state: &str) -> bool {
    agentq_core::state::JobState::parse(state).is_some_and(|state| state.is_finished())
}
