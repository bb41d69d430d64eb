//! Recovering jobs whose lease has expired: back to the ready ones, or, when their attempts are
//! used up, to the dead letters. A lease is locked and read again before it is ended, so a holder
//! that extends it in time keeps it.
//!
//! The leases are read in full, at most once a second unless one is known to expire sooner, and less
//! often when that costs much: an index would cost every claim and every heartbeat more than this.

use super::settle::{self, Ending};
use super::{again, hooks, telling, tries};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, Db, statements};
use crate::queue::rows::job_lease;
use crate::queue::rules::Rulebook;
use crate::queue::storage::marks::{LaneName, Reading};
use crate::queue::storage::{LockedLease, lock_against_rule_change};
use crate::table::{All, Moment, Table};
use agentq_core::error_class;
use agentq_core::marks::{Mark, Position};
use agentq_core::retry::{self, After, Failure, Reason, Verdict};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::Cell;
use std::collections::HashSet;

statements!("reap.sql": REAP_STALE, REAP_STALLED, REAP_FACTS, PARK, REAP, REAP_UNMOVED);

/// A claim that commits at once recovers at most this many jobs at a time.
pub const AT_MOST: i64 = 16;
/// A look keeps this many expired leases more than are to be recovered: other sessions may have some of them locked.
const LOCKED_AT_MOST: usize = 64;
/// A session that finds work at every claim looks for expired leases this often, in microseconds.
const EVERY_US: i64 = 1_000_000;
/// A job that may have stalled, and has not, is looked at again after this long, in microseconds.
const LOOK_AT_STALLED_US: i64 = 5_000_000;
/// A lease that had to be left is worth another look after this long, in microseconds.
const LEFT_US: i64 = 100_000;
/// Written into the dead letters as the one who moved them.
const REAPER: &str = "agentq";

thread_local! {
    static LAST: Cell<Micros> = const { Cell::new(0) };
    /// Jobs that could not be ended because somebody was in the way.
    static LEFT: db::PutOff<[u8; 16]> = db::PutOff::new();
}

/// Recovers what has expired, if this session has not looked for a while.
pub fn when_due(now: Micros) -> usize {
    if clock::real_now() - LAST.get() < EVERY_US { 0 } else { self::now(now, AT_MOST) }
}

/// Recovers at most `limit` of what has expired; returns how many jobs changed their state. Other
/// sessions see them only when the caller commits.
pub fn now(now: Micros, limit: i64) -> usize {
    LAST.set(clock::real_now());
    hooks::skipping(|| db::connect(|db| recover_expired(db, now, limit as usize)))
}

fn recover_expired(db: &Db, now: Micros, limit: usize) -> usize {
    let mut reading = Reading::of(LaneName::Leases);
    let next = reading.marks.as_ref().and_then(|marks| marks.first()).map(|mark| mark.from.at);
    // A session whose clock a test has moved cannot go by what others have found.
    if !clock::is_shifted() && (next.is_some_and(|next| next > now) || !reading.may_look) {
        return 0;
    }
    let look = reading.begin_look();
    let leases = Leases::read(now, limit, &Grace::current());
    reading.learn(&look, &[Mark { priority: 0, from: Position::at(leases.next) }]);
    let stalled = if leases.stalled.is_empty() { 0 } else { recover_stalled(db, leases.stalled, now, limit) };
    if leases.expired.is_empty() {
        return stalled;
    }
    let mut expired = Vec::new();
    // Locked and read again: what its holder has extended meanwhile stays as it is.
    let rows = db.run(&REAP, &[leases.expired.into(), timestamp(now).into(), (limit as i64).into()]);
    rows.each(|row| {
        expired.push((LockedLease::from_row(row), row.must::<TimestampWithTimeZone>("lease_until").into_inner()))
    });
    let mut recovered = stalled;
    for (held, lease_until) in &expired {
        let silent = (now - lease_until) as f64 / 1e6;
        let error = format!("lease of {} expired {silent:.1} s ago without an ack", held.lease_owner);
        recovered += usize::from(recover(db, held, error_class::LEASE_EXPIRED, &error, now));
    }
    recovered
}

/// Takes jobs back whose holders go on extending their leases without coming on.
fn recover_stalled(db: &Db, jobs: Vec<Uuid>, now: Micros, limit: usize) -> usize {
    let mut stalled = Vec::new();
    db.run(&REAP_STALLED, &[jobs.into(), timestamp(now).into(), (limit as i64).into()])
        .each(|row| stalled.push((LockedLease::from_row(row), row.must::<i32>("stall_seconds"))));
    let mut recovered = 0;
    for (held, seconds) in &stalled {
        let since = now - i64::from(*seconds) * 1_000_000;
        if again::last_progress(db, held.place.job_id).is_some_and(|at| at > since) {
            continue;
        }
        let error = format!("stalled: {} made no progress for {seconds} s", held.lease_owner);
        recovered += usize::from(recover(db, held, error_class::STALLED, &error, now));
    }
    recovered
}

/// Takes jobs back that name this hook and whose holders have made no progress for so many seconds. Returns how many.
pub fn without_progress(hook: &str, seconds: i64, now: Micros, limit: i64) -> usize {
    hooks::skipping(|| {
        db::connect(|db| {
            lock_against_rule_change();
            let since = now - seconds * 1_000_000;
            let mut held = Vec::new();
            db.run(&REAP_UNMOVED, &[hook.into(), timestamp(since).into(), limit.into()])
                .each(|row| held.push(LockedLease::from_row(row)));
            held.retain(|held| again::last_progress(db, held.place.job_id).is_none_or(|at| at <= since));
            let error = |held: &LockedLease| format!("stalled: {} made no progress for {seconds} s", held.lease_owner);
            held.iter().filter(|held| recover(db, held, error_class::STALLED, &error(held), now)).count()
        })
    })
}

/// What a look at the leases found.
struct Leases {
    /// The first that have expired; more than are wanted, since some may be locked.
    expired: Vec<Uuid>,
    /// Some whose holder may have made no progress for as long as the job allows.
    stalled: Vec<Uuid>,
    /// When there will be another, as things stand; a moment in the past if there is one already.
    next: Micros,
}

/// While the queue is switched off nobody can extend a lease. So each holder has the whole length of its lease again from
/// the moment when somebody switched the queue on.
struct Grace {
    since: Micros,
}

impl Grace {
    fn current() -> Grace {
        Grace { since: Settings::current().switched_at.unwrap_or(Micros::MIN) }
    }

    /// Until when a lease lasts that began, or was last extended, at this moment.
    fn end(&self, began: Micros, until: Micros) -> Micros {
        until.max(self.since.saturating_add(until - began))
    }
}

impl Leases {
    fn read(now: Micros, limit: usize, grace: &Grace) -> Leases {
        let leases = Table::open(&job_lease::TABLE);
        let moment = Moment::now();
        let mut all = All::begin(&leases, &moment);
        let (mut expired, mut stalled, mut next) = (Vec::new(), Vec::new(), Micros::MAX);
        let left: HashSet<[u8; 16]> = db::PutOff::current(&LEFT).into_iter().collect();
        while let Some(lease) = all.next() {
            pgrx::check_for_interrupts!();
            let was_extended = !lease.is_null(job_lease::heartbeat_at);
            let began = lease.time(if was_extended { job_lease::heartbeat_at } else { job_lease::picked_at });
            let until = grace.end(began, lease.time(job_lease::lease_until));
            if !left.is_empty() && left.contains(lease.id(job_lease::job_id).as_bytes()) {
                next = next.min(now + LEFT_US);
                continue;
            }
            if until <= now {
                expired.push((until, lease.id(job_lease::job_id)));
                continue;
            }
            next = next.min(until);
            let Some(seconds) = lease.maybe_int(job_lease::stall_seconds) else { continue };
            let is_begun = !lease.is_null(job_lease::started_at);
            let begun = lease.time(if is_begun { job_lease::started_at } else { job_lease::picked_at });
            let patience = begun.max(grace.since) + i64::from(seconds) * 1_000_000;
            if patience <= now && stalled.len() < limit + LOCKED_AT_MOST {
                stalled.push(lease.id(job_lease::job_id));
            }
            // One that has come on since is looked at again: nobody tells when it did.
            next = next.min(patience.max(now + LOOK_AT_STALLED_US));
        }
        drop(all);
        drop(moment);
        // Nothing to be done: whoever wants the table for himself need not wait for this transaction.
        if expired.is_empty() && stalled.is_empty() {
            leases.let_go();
        }
        expired.sort_unstable_by_key(|(until, id)| (*until, *id.as_bytes()));
        // One that is left over, or that another session has locked, is worth another look.
        next = expired.first().map_or(next, |(until, _)| *until);
        let expired = expired.into_iter().take(limit + LOCKED_AT_MOST).map(|(_, id)| id).collect();
        Leases { expired, stalled, next }
    }
}

/// Recovers jobs that a stale executor has claimed before it fell silent, though their lease goes
/// on. An executor that has claimed anything since is not silent.
pub fn of_stale_executors(threshold_seconds: i32, now: Micros, limit: i64) -> usize {
    hooks::skipping(|| db::connect(|db| recover_stale(db, threshold_seconds, now, limit)))
}

fn recover_stale(db: &Db, threshold_seconds: i32, now: Micros, limit: i64) -> usize {
    lock_against_rule_change();
    let mut stale = Vec::new();
    let args = [threshold_seconds.into(), timestamp(now).into(), limit.into()];
    db.run(&REAP_STALE, &args)
        .each(|row| stale.push((LockedLease::from_row(row), row.must::<String>("executor_name"))));
    let mut recovered = 0;
    for (held, executor) in &stale {
        let error = format!("executor {executor}, which held the job as {}, is stale", held.lease_owner);
        recovered += usize::from(recover(db, held, error_class::EXECUTOR_STALE, &error, now));
    }
    recovered
}

/// Takes a job back from a holder that fell silent, and tells of it. False: the job would end, and whoever hears of that
/// is not ready to; it is left for the next time.
fn recover(db: &Db, held: &LockedLease, class: &str, error: &str, now: Micros) -> bool {
    let is_over = take_back(db, held, class, error, now);
    if !is_over {
        db::PutOff::add(&LEFT, *held.place.job_id.as_bytes());
    } else {
        let what = serde_json::json!({"job_kind": held.place.job_kind, "lease_owner": held.lease_owner,
            "attempts": held.attempts + 1, "max_attempts": held.max_attempts, "error_class": class, "error": error});
        telling::of_job(db, "job.lease_expired", held.place.job_id, what, now);
    }
    is_over
}

fn take_back(db: &Db, held: &LockedLease, class: &str, error: &str, now: Micros) -> bool {
    let rules = Rulebook::current();
    let ending = Ending {
        outcome: "lease_expired",
        error: Some(error),
        error_class: Some(class),
        costs: 1,
        ..Ending::default()
    };
    let job_id = held.place.job_id;
    let facts = Facts::of(db, job_id);
    if facts.external_effects {
        tell_unknown(db, held, error, now);
        if !held.cancel_requested {
            park(db, held, &ending, now);
            return true;
        }
    }
    let failure = Failure {
        failures: held.attempts + 1,
        max_attempts: held.max_attempts,
        cancel_requested: held.cancel_requested,
        verdict: Verdict::Fail,
        class,
        retryable: rules.policies.class(Some(class)).retryable,
        retry_after: Some(0.0),
        chance: 0.0,
    };
    let mut after = retry::after(&failure, &tries::policy_of(&rules, &held.place));
    if retry::is_poisonous(facts.silent_before + 1, rules.max_crashes) && !held.cancel_requested {
        after = After::DeadLetter(Reason::Poison);
    }
    match after {
        After::Retry(_) => {
            settle::rest(db, held, &ending, "queued", held.place.scheduled_at, now);
            true
        }
        After::DeadLetter(reason) => {
            hooks::end_apart(job_id, || settle::bury(db, job_id, &ending, reason, REAPER, now)).is_some()
        }
        After::Cancelled { .. } | After::Failed => {
            hooks::end_apart(job_id, || settle::finish(db, job_id, "cancelled", &ending, now)).is_some()
        }
    }
}

/// What decides the fate of a job whose holder fell silent.
pub struct Facts {
    external_effects: bool,
    /// Attempts in a row that ended in the same way since the job last came on.
    pub silent_before: i64,
}

impl Facts {
    pub fn of(db: &Db, job_id: Uuid) -> Facts {
        let progress = again::last_progress(db, job_id).map(timestamp);
        let row = db.run(&REAP_FACTS, &[job_id.into(), progress.into()]);
        Facts { external_effects: row.must("external_effects"), silent_before: row.must("silent_before") }
    }
}

/// The holder may have done the work or not, and doing it twice does harm: a person has to find out.
fn park(db: &Db, held: &LockedLease, ending: &Ending<'_>, now: Micros) {
    let ending = Ending { error_class: Some(error_class::OUTCOME_UNKNOWN), ..*ending };
    settle::rest(db, held, &ending, "retry_waiting", Micros::MAX, now);
    db.run(&PARK, &[held.place.job_id.into(), error_class::OUTCOME_UNKNOWN.into()]);
}

fn tell_unknown(db: &Db, held: &LockedLease, error: &str, now: Micros) {
    let what = serde_json::json!({"job_kind": held.place.job_kind, "lease_owner": held.lease_owner, "error": error});
    telling::of_job(db, "job.outcome_unknown", held.place.job_id, what, now);
}
