//! Jobs that sleep: until a time, or until somebody wakes them.
//!
//! Going to sleep ends the attempt, and does not count as one. The row of the job says why it sleeps, for
//! fn_job_explain. That reason holds as long as the job's schedule is the one with which it went to sleep, so that
//! nobody has to take it back. Waking never waits for a lock: whoever has the job meanwhile is about to run it, or to
//! put it elsewhere.

use super::fail;
use super::settle::{self, Ending};
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, Db, Rows, statements};
use crate::json::Jsonb;
use crate::queue::storage::{LockedLease, Place, lock_against_rule_change, place};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::Value;

statements!("dormant.sql": WAITS_FOR, WAKE, ASLEEP, NAPPED, SUSPEND, IS_ASLEEP, RELEASE);

/// Without end: until somebody wakes it.
pub const FOR_EVER: Micros = Micros::MAX;

/// Gives a held job back until `at`. Its attempt gets this outcome; `why` is what fn_job_explain shows. Some: it was
/// cancelled instead, as somebody had asked.
pub fn rest_until(db: &Db, held: &LockedLease, outcome: &str, at: Micros, why: Value, now: Micros) -> Option<Jsonb> {
    if held.cancel_requested {
        return Some(fail::give_back(db, held, outcome, now, now));
    }
    settle::rest(db, held, &Ending { outcome, ..Ending::default() }, "queued", at, now);
    db.run(&WAITS_FOR, &[held.place.job_id.into(), Jsonb::from_value(why).into()]);
    None
}

/// Whether this attempt has ended because its job went to sleep.
pub fn ended_attempt(job_id: Uuid, token: Uuid) -> bool {
    db::connect(|db| !db.run(&NAPPED, &[job_id.into(), token.into()]).is_empty())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Yes,
    /// It does not sleep, so there is nothing to do.
    Awake,
    /// Somebody else has it locked.
    Busy,
}

/// Makes a job that sleeps ready at once. The caller must have called `lock_against_rule_change` before.
pub fn wake(db: &Db, job_id: Uuid, now: Micros) -> Woken {
    let row = db.run(&WAKE, &[job_id.into(), timestamp(now).into()]);
    if row.is_empty() {
        return if db.run(&ASLEEP, &[job_id.into()]).is_empty() { Woken::Awake } else { Woken::Busy };
    }
    rise(db, &row, now);
    Woken::Yes
}

/// Puts a job that was taken from the sleeping ones where its schedule says.
fn rise(db: &Db, row: &Rows, now: Micros) {
    let place = Place::from_row(row);
    let slept_until = row.must::<TimestampWithTimeZone>("slept_until").into_inner();
    Place { scheduled_at: slept_until, ..place.clone() }.left_waiting();
    place.enter(db, now);
}

/// Keeps a job that nobody holds from running until `release`, unless it sleeps already or somebody else has it. `why` names
/// the gate that it waits at. It keeps its attempts, and the time at which it would have run.
pub fn suspend(db: &Db, job_id: Uuid, why: Value, now: Micros) {
    lock_against_rule_change();
    if !db.run(&IS_ASLEEP, &[job_id.into(), timestamp(now).into()]).is_empty() {
        return;
    }
    let place = if settle::lock_free(db, job_id) {
        place::take_resting(db, job_id)
    } else {
        place::take_from_line(job_id, false)
    };
    if let Some(place) = place {
        db.run(&SUSPEND, &[job_id.into(), timestamp(FOR_EVER).into(), Jsonb::from_value(why).into()]);
        Place { scheduled_at: FOR_EVER, line: None, ..place }.enter(db, now);
    }
}

/// Lets a job run again that waits at this gate.
pub fn release(db: &Db, job_id: Uuid, gate: &str, now: Micros) {
    lock_against_rule_change();
    let row = db.run(&RELEASE, &[job_id.into(), gate.into()]);
    if !row.is_empty() {
        rise(db, &row, now);
    }
}
