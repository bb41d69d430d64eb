//! The partitions of events: made ahead of time, dropped when their time is over.
//!
//! Events of a time that has no partition lie in the rest of their class, so nothing is ever refused,
//! and a time of which the rest has events gets no partition any more. The rest is emptied when all
//! of it is over. The present gets no partition either, because an event that is on its way to the
//! rest while one is attached would be refused. Before anything is dropped, all events have their place
//! in the log, and the drop is an audit itself.
//!
//! Locks: the sealer's row first, so that nobody seals meanwhile, and with it the rows of the chains; then
//! the parent and the partition, for a fifth of a second at most, after which the next run tries again.
//! Only when they are locked is it known that no event is on its way into the partition: what has
//! come by then gets its place, and then the partition goes. One run does this for one class.

#![allow(unsafe_code, reason = "locking tables by their ids")]

use super::settings::{AUDIT_KEEP_DAYS, EVENTS_KEEP_DAYS};
use super::{Event, feed, seal};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, Db, statements};
use crate::error::raise;
use crate::room::Outcome;
use crate::server::{is_background_worker, is_in_transaction_block};
use crate::shared::seats;
use agentq_core::chain::Chain;
use agentq_core::partition::{self, DAY_US, Span};
use pgrx::prelude::*;
use serde_json::json;

statements!("partitions.sql": PARTITIONS, PARTITION_ADD, PARTITION_OIDS, PARTITION_DROP, LOG_OVER, LOG_DROP, REST_END, KEYS_FORGET);

/// One run seals at most this many events, and forgets at most this many keys.
const AT_MOST: i64 = 10_000;
/// The sealer gets at most this many turns before a partition is dropped.
const TURNS: usize = 3;
/// An event of a time that begins within this many microseconds may be written before its partition is there.
const SOON_US: i64 = 60_000_000;
const UNIX_TO_SERVER_EPOCH_US: i64 = 946_684_800_000_000;

/// A partition that is there.
struct Partition {
    class: String,
    name: String,
    span: Span,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
struct Upkeep {
    changes: i64,
    /// Whether there is more to drop.
    more: bool,
}

/// Makes what is wanted, and drops what is over, one partition at a time.
pub fn keep() -> Outcome {
    let done = db::connect(|db| make_and_drop(db, &Settings::current(), clock::now()));
    Outcome::and_more(done.changes, done.more)
}

fn make_and_drop(db: &Db, settings: &Settings, now: Micros) -> Upkeep {
    // Their locks are everybody's, and are not to be kept by who has a transaction open.
    if is_in_transaction_block() && seats::is_running_here() {
        return Upkeep::default();
    }
    // A restore brings its own partitions: the engine makes none before somebody uses events.
    if is_background_worker() && !feed::is_used() {
        return Upkeep::default();
    }
    let there = partitions(db);
    let mut done = Upkeep::default();
    for chain in Chain::ALL {
        let keep_days = match chain {
            Chain::Usual => settings.number(EVENTS_KEEP_DAYS),
            Chain::Audit => settings.number(AUDIT_KEEP_DAYS),
        };
        let made = make(db, chain, &there, now, keep_days);
        if made > 0 {
            // Their locks go before those of the other class are taken: who writes events of both does it in any order.
            return Upkeep { changes: done.changes + made, more: true };
        }
        let Some(horizon) = partition::horizon(now, keep_days) else { continue };
        let dropped = drop_over(db, chain, &there, horizon, now);
        if dropped.changes > 0 {
            return Upkeep { changes: done.changes + dropped.changes, more: true };
        }
        done.more |= dropped.more;
        for purpose in if chain == Chain::Audit { &["audit"][..] } else { &["event", "agent_step"] } {
            let args = [(*purpose).into(), chain.name().into(), AT_MOST.into()];
            done.changes += db.run(&KEYS_FORGET, &args).only::<i64>();
        }
    }
    done
}

fn partitions(db: &Db) -> Vec<Partition> {
    let mut there = Vec::new();
    db.run(&PARTITIONS, &[]).each(|row| {
        let at = |column| row.must::<TimestampWithTimeZone>(column).into_inner();
        there.push(Partition {
            class: row.must("class"),
            name: row.must("partition"),
            span: Span { from: at("lower"), to: at("upper") },
        });
    });
    there
}

/// Makes the partitions of the next days. One that cannot be made now is left for the next run.
fn make(db: &Db, chain: Chain, there: &[Partition], now: Micros, keep_days: i64) -> i64 {
    // Days are days of 1970's calendar, and the server counts from 2000.
    let unix = |span: &Span| Span {
        from: span.from.saturating_add(UNIX_TO_SERVER_EPOCH_US),
        to: span.to.saturating_add(UNIX_TO_SERVER_EPOCH_US),
    };
    let now = now + UNIX_TO_SERVER_EPOCH_US;
    let mut spans: Vec<Span> = there.iter().filter(|p| p.class == chain.name()).map(|p| unix(&p.span)).collect();
    let (mut cursor, mut made) = (partition::start_of_day(now + SOON_US) + DAY_US, 0);
    while let Some(span) = partition::next_wanted(&spans, cursor, now, keep_days) {
        let at = |at: i64| timestamp(at - UNIX_TO_SERVER_EPOCH_US);
        let args = [chain.name().into(), at(span.from).into(), at(span.to).into()];
        match db::attempt(|| db.run(&PARTITION_ADD, &args).only::<bool>()) {
            Ok(true) => {
                made += 1;
                spans.push(span);
                cursor = span.to;
            }
            // The rest has events of that time.
            Ok(false) => cursor = partition::start_of_day(span.from) + DAY_US,
            Err(error) => {
                warning!("agentq: the partition of events from {} was not made: {}", at(span.from), error.message);
                break;
            }
        }
    }
    made
}

/// Drops the oldest partition of a class that is over, or empties its rest, or drops a part of its log.
fn drop_over(db: &Db, chain: Chain, there: &[Partition], horizon: Micros, now: Micros) -> Upkeep {
    let over =
        there.iter().find(|p| p.class == chain.name() && p.span.to <= horizon).map(|p| (p.name.clone(), p.span.to));
    let is_rest = over.is_none();
    let over = over.or_else(|| {
        let end = rest_end(db, chain).filter(|end| *end < horizon)?;
        Some((format!("event_{}_rest", chain.name()), end + 1))
    });
    let Some((name, to)) = over else { return drop_log(db, chain, horizon) };
    if !seal::sees_others() || !seal::hold(db) {
        return Upkeep::default();
    }
    // Before the lock, so that little is left to do while others wait.
    match seal_up(db) {
        Some(true) => {}
        all => return Upkeep { changes: 0, more: all.is_some() },
    }
    let dropped = db::attempt(|| {
        lock(db, chain, &name);
        // The rest may have got a younger event meanwhile.
        let is_over = !is_rest || rest_end(db, chain).is_some_and(|end| end < to);
        if !is_over || seal_up(db) != Some(true) {
            // An error, so that the locks go with it.
            raise(PgSqlErrorCode::ERRCODE_OBJECT_IN_USE, "events have come in meanwhile", "The next run tries again.")
        }
        db.run(&PARTITION_DROP, &[chain.name().into(), name.as_str().into(), timestamp(to).into()]);
    });
    if let Err(error) = dropped {
        warning!("agentq: {name} was not dropped: {}", error.message);
        return Upkeep::default();
    }
    let what = json!({"class": chain.name(), "before": timestamp(to).to_iso_string()});
    Event::new("event.dropped", &name, what).audit().emit(db, now);
    Upkeep { changes: 1, more: true }
}

/// When the last event of a class happened that has no partition.
fn rest_end(db: &Db, chain: Chain) -> Option<Micros> {
    db.run(&REST_END, &[chain.name().into()]).maybe_only::<TimestampWithTimeZone>().map(|end| end.into_inner())
}

/// Seals until everything has its place that had been committed when the last turn began. False: there
/// is more than a few turns can do. None: somebody else seals.
fn seal_up(db: &Db) -> Option<bool> {
    for _ in 0..TURNS {
        let turn = seal::seal(db, AT_MOST)?;
        if turn.fresh && !turn.more {
            return Some(true);
        }
    }
    Some(false)
}

/// Locks a partition against everybody, and before it the parent, as a drop does. Gives up soon.
fn lock(db: &Db, chain: Chain, name: &str) {
    let row = db.run(&PARTITION_OIDS, &[chain.name().into(), name.into()]);
    let tables: [Option<pg_sys::Oid>; 2] = [row.get("parent"), row.get("partition")];
    db::with_setting(c"lock_timeout", c"200ms", || {
        for table in tables.into_iter().flatten() {
            // SAFETY: a lock by the id of a table, which is held to the end of the transaction.
            unsafe { pg_sys::LockRelationOid(table, pg_sys::AccessExclusiveLock as i32) }
        }
    });
}

fn drop_log(db: &Db, chain: Chain, horizon: Micros) -> Upkeep {
    if !db.run(&LOG_OVER, &[chain.name().into()]).only::<bool>() || !seal::hold(db) {
        return Upkeep::default();
    }
    let dropped = db::attempt(|| {
        let row = db.run(&LOG_DROP, &[chain.name().into(), timestamp(horizon).into()]);
        row.maybe_only::<String>().is_some()
    });
    match dropped {
        Ok(dropped) => Upkeep { changes: i64::from(dropped), more: dropped },
        Err(error) => {
            warning!("agentq: a part of the log was not dropped: {}", error.message);
            Upkeep::default()
        }
    }
}
