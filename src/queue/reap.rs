//! Recovering jobs whose lease has expired: back to the ready ones, or, when their attempts are
//! used up, to the dead letters. A lease is locked and read again before it is ended, so a holder
//! that extends it in time keeps it.

use super::hints::{LaneName, Reading};
use super::settle::{self, Ending, Held};
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, statement};
use agentq_core::mark::{Position, Slot};
use agentq_core::state::{AfterFailure, after_failure};
use pgrx::prelude::*;
use std::cell::Cell;

statement!(NEXT_EXPIRY, "sql/next_expiry.sql", [TIMESTAMPTZOID, TIMESTAMPTZOID]);
statement!(REAP_STALE, "sql/reap_stale.sql", [INT4OID, TIMESTAMPTZOID, INT8OID]);
statement!(REAP, "sql/reap.sql", [TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID]);

/// A claim that commits at once recovers at most so many at a time.
pub const AT_MOST: i64 = 16;
/// A session that finds work at every claim looks for expired leases this often, in microseconds.
const EVERY_US: i64 = 1_000_000;
/// Written into the dead letters as the one who moved them.
const REAPER: &str = "agentq";

thread_local!(static LAST: Cell<Micros> = const { Cell::new(0) });

/// Recovers what has expired, if this session has not looked for a while.
pub fn when_due(now: Micros) -> usize {
    if clock::real_now() - LAST.get() < EVERY_US { 0 } else { self::now(now, AT_MOST) }
}

/// Recovers at most `limit` of what has expired; returns how many jobs changed their state. Other
/// sessions see them only when the caller commits.
pub fn now(now: Micros, limit: i64) -> usize {
    LAST.set(clock::real_now());
    db::connect(|db| recover_expired(db, now, limit))
}

fn recover_expired(db: &Db, now: Micros, limit: i64) -> usize {
    let mut reading = Reading::of(LaneName::Leases);
    let from = reading.slots.as_ref().and_then(|slots| slots.first()).map_or(Position::START, |s| s.from);
    let look = reading.slots.is_none().then(|| reading.begin_look());
    let mut expired = Vec::new();
    let rows = db.run(&REAP, &[timestamp(from.at).into(), timestamp(now).into(), limit.into()]);
    rows.each(|row| expired.push((Held::from_row(row), row.must::<TimestampWithTimeZone>(11).into_inner())));
    if expired.is_empty() {
        // An expired lease that another session has locked stays in front of the mark. One that
        // commits late behind it is found by the lane's next full look.
        let next = db.run(&NEXT_EXPIRY, &[timestamp(from.at).into(), timestamp(now).into()]);
        let next = if next.is_empty() { now } else { next.must::<TimestampWithTimeZone>(1).into_inner() };
        match look {
            Some(look) => reading.learn(&look, &[Slot { priority: 0, from: Position::at(next) }]),
            None => reading.raise(0, Position::at(next)),
        }
    }
    for (held, lease_until) in &expired {
        let silent = (now - lease_until) as f64 / 1e6;
        let error = format!("lease of {} expired {silent:.1} s ago without an ack", held.lease_owner);
        recover(db, held, "lease_expired", &error, now);
    }
    expired.len()
}

/// Recovers jobs that a stale executor has claimed before it fell silent, though their lease goes
/// on. An executor that has claimed anything since is not silent.
pub fn of_stale_executors(threshold_seconds: i32, now: Micros, limit: i64) -> usize {
    db::connect(|db| {
        let mut stale = Vec::new();
        let args = [threshold_seconds.into(), timestamp(now).into(), limit.into()];
        db.run(&REAP_STALE, &args).each(|row| stale.push((Held::from_row(row), row.must::<String>(11))));
        for (held, executor) in &stale {
            let error = format!("executor {executor}, which held the job as {}, is stale", held.lease_owner);
            recover(db, held, "executor_stale", &error, now);
        }
        stale.len()
    })
}

fn recover(db: &Db, held: &Held, class: &str, error: &str, now: Micros) {
    let ending = Ending {
        outcome: "lease_expired",
        error: Some(error),
        error_class: Some(class),
        costs: 1,
        ..Ending::default()
    };
    match after_failure(held.attempts + 1, held.max_attempts, held.cancel_requested, 0) {
        AfterFailure::Retry { .. } => {
            settle::rest(db, held, &ending, "queued", held.place.scheduled_at, now);
        }
        AfterFailure::DeadLetter => {
            settle::bury(db, held.place.job_id, &ending, REAPER, now);
        }
        AfterFailure::Cancel => {
            settle::finish(db, held.place.job_id, "cancelled", &ending, now);
        }
    }
}
