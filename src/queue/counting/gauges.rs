//! What has been begun under each rate limit, and what the other side said, as all sessions know it.
//!
//! A claim asks and counts here, in one step with the slots, so that no rate is passed. Nothing is given back
//! when a claim is rolled back: its worker may have begun. The engine writes the gauges down every second;
//! after a restart they are read again.

#![allow(unsafe_code, reason = "shared memory")]

use crate::server::my_database;
use crate::shared::is_preloaded;
use crate::shared::zeroed::{ValidAsZero, Zeroed, init_zeroed};
use agentq_core::counters::CounterKey;
use agentq_core::gauges::Gauges;
use agentq_core::rate::{Gauge, Rate};
use pgrx::PgLwLock;
use pgrx::prelude::*;

type Micros = i64;

/// Keys with a rate that can be in use at once in the whole server.
const KEYS: usize = 4_096;

// SAFETY: the name is agentq's own.
static GAUGES: PgLwLock<Zeroed<Gauges<KEYS>>> = unsafe { PgLwLock::new(c"agentq_gauges") };

// SAFETY: numbers, and flags that are false as 0.
unsafe impl ValidAsZero for Gauges<KEYS> {}

pub fn init() {
    init_zeroed!(GAUGES);
}

/// One job's part of a key's rate.
pub struct RateDemand<'a> {
    pub key: &'a str,
    pub rate: Option<Rate>,
    pub weight: u32,
}

fn counter(key: &str) -> CounterKey<'_> {
    CounterKey { database: my_database(), key }
}

/// Counts the job under each rate if all of them, and `and_then`, let it through; or says which does not.
/// Keys without a rate may be closed by what the other side said.
pub fn take(
    demands: &[RateDemand<'_>],
    now: Micros,
    and_then: impl FnOnce() -> Result<(), usize>,
) -> Result<(), usize> {
    if demands.iter().all(|demand| demand.rate.is_none()) && GAUGES.share().is_empty() {
        return and_then();
    }
    let mut gauges = GAUGES.exclusive();
    for (number, demand) in demands.iter().enumerate() {
        if demand.rate.is_none() && gauges.get(counter(demand.key)).is_none() {
            continue;
        }
        let opens =
            gauges.change(counter(demand.key), now).map(|gauge| gauge.opens(demand.rate.as_ref(), demand.weight, now));
        // A job that there is no room to count is not let through.
        if opens != Some(None) {
            return Err(number);
        }
    }
    // The gauge of one of these keys may have been put in the place of another's, which was idle.
    let is_gone = |demand: &RateDemand<'_>| demand.rate.is_some() && gauges.get(counter(demand.key)).is_none();
    if let Some(number) = demands.iter().position(is_gone) {
        return Err(number);
    }
    and_then()?;
    for demand in demands {
        if let (Some(rate), Some(gauge)) = (&demand.rate, gauges.change(counter(demand.key), now)) {
            gauge.take(rate, demand.weight, now);
        }
    }
    Ok(())
}

pub fn get(key: &str) -> Option<Gauge> {
    let gauges = GAUGES.share();
    if gauges.is_empty() { None } else { gauges.get(counter(key)) }
}

/// Notes what the other side said of a key. `pattern`: what the keys begin with that have their rule in common with this one.
/// False: there is no room for it, or none for more keys that are closed.
pub fn report(key: &str, pattern: Option<&str>, now: Micros, change: impl FnOnce(&mut Gauge)) -> bool {
    let mut gauges = GAUGES.exclusive();
    gauges.may_close(counter(key), pattern, now) && gauges.change(counter(key), now).map(change).is_some()
}

/// Takes in what was written down before the server started, where nothing is known yet.
pub fn load(written: Vec<(String, Gauge)>, now: Micros) {
    let mut gauges = GAUGES.exclusive();
    for (key, gauge) in written {
        if gauges.get(counter(&key)).is_none()
            && !gauge.is_idle(now)
            && let Some(empty) = gauges.change(counter(&key), now)
        {
            *empty = gauge;
        }
    }
}

/// What is to be written down.
pub fn take_changed() -> Vec<(String, Gauge)> {
    if !is_preloaded() || GAUGES.share().is_empty() {
        return Vec::new();
    }
    GAUGES.exclusive().take_changed(my_database())
}

/// Rules have changed: every key is asked again.
pub fn look_again() {
    if is_preloaded() && !GAUGES.share().is_empty() {
        GAUGES.exclusive().look_again(my_database());
    }
}

/// The first moment after this one at which a key opens that is closed.
pub fn next_opening(after: Micros) -> Option<Micros> {
    if !is_preloaded() {
        return None;
    }
    let gauges = GAUGES.share();
    if gauges.is_empty() { None } else { gauges.next_opening(my_database(), after) }
}

/// Forgets the gauges of a database that is gone, or whose extension was made anew.
pub fn forget(database: u32) {
    GAUGES.exclusive().clear(database);
}
