//! Recovering jobs whose lease has expired: back to the ready ones, or, when their attempts are
//! used up, to the dead letters. A lease is locked and read again before it is ended, so a holder
//! that extends it in time keeps it.
//!
//! The leases are read in full, at most once a second unless one is known to expire sooner, and less
//! often when that costs much: an index would cost every claim and every heartbeat more than this.

use super::hints::{LaneName, Reading};
use super::rows::job_lease;
use super::settle::{self, Ending, Held};
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, statement};
use crate::table::{All, Moment, Table};
use agentq_core::mark::{Position, Slot};
use agentq_core::state::{AfterFailure, after_failure};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::Cell;

statement!(REAP_STALE, "sql/reap_stale.sql", [INT4OID, TIMESTAMPTZOID, INT8OID]);
statement!(REAP, "sql/reap.sql", [UUIDARRAYOID, TIMESTAMPTZOID]);

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
    db::connect(|db| recover_expired(db, now, limit as usize))
}

fn recover_expired(db: &Db, now: Micros, limit: usize) -> usize {
    let mut reading = Reading::of(LaneName::Leases);
    let next = reading.slots.as_ref().and_then(|slots| slots.first()).map(|slot| slot.from.at);
    // A session whose clock a test has moved cannot go by what others have found.
    if !clock::is_shifted() && (next.is_some_and(|next| next > now) || !reading.may_look) {
        return 0;
    }
    let look = reading.begin_look();
    let leases = Leases::read(now, limit);
    reading.learn(&look, &[Slot { priority: 0, from: Position::at(leases.next) }]);
    if leases.expired.is_empty() {
        return 0;
    }
    let mut expired = Vec::new();
    // Locked and read again: what its holder has extended meanwhile stays as it is.
    let rows = db.run(&REAP, &[leases.expired.into(), timestamp(now).into()]);
    rows.each(|row| expired.push((Held::from_row(row), row.must::<TimestampWithTimeZone>(11).into_inner())));
    for (held, lease_until) in &expired {
        let silent = (now - lease_until) as f64 / 1e6;
        let error = format!("lease of {} expired {silent:.1} s ago without an ack", held.lease_owner);
        recover(db, held, "lease_expired", &error, now);
    }
    expired.len()
}

/// What a look at the leases found.
struct Leases {
    /// The first that have expired.
    expired: Vec<Uuid>,
    /// When there will be another, as things stand; a moment in the past if there is one already.
    next: Micros,
}

impl Leases {
    fn read(now: Micros, limit: usize) -> Leases {
        let leases = Table::open(&job_lease::TABLE);
        let moment = Moment::now();
        let mut all = All::begin(&leases, &moment);
        let (mut expired, mut next) = (Vec::new(), Micros::MAX);
        while let Some(lease) = all.next() {
            pgrx::check_for_interrupts!();
            let until = lease.time(job_lease::lease_until);
            if until <= now {
                expired.push((until, lease.id(job_lease::job_id)));
            } else {
                next = next.min(until);
            }
        }
        expired.sort_unstable_by_key(|(until, id)| (*until, *id.as_bytes()));
        // One that is left over, or that another session has locked, is worth another look.
        next = expired.first().map_or(next, |(until, _)| *until);
        Leases { expired: expired.into_iter().take(limit).map(|(_, id)| id).collect(), next }
    }
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
