//! The inserts in flight: which sessions are about to put rows into a lane, and since when.

#![allow(unsafe_code, reason = "shared memory")]

use super::changes;
use crate::base::clock::{self, Micros};
use crate::server;
use crate::shared::is_preloaded;
use agentq_core::marks::LATE_US;
use pgrx::prelude::*;
use pgrx::{PgAtomic, pg_shmem_init};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// Sessions whose inserts in flight can be seen. One beyond treats each of its inserts as late.
const SESSIONS: usize = 4096;
/// A session that has begun to insert but has not yet read the clock.
const BEGINNING: i64 = i64::MIN;
const IDLE: i64 = i64::MAX;

// SAFETY: the name is agentq's own.
static IN_FLIGHT: PgAtomic<[AtomicI64; SESSIONS]> = unsafe { PgAtomic::new(c"agentq_in_flight") };

pub fn init() {
    pg_shmem_init!(IN_FLIGHT = [const { AtomicI64::new(IDLE) }; SESSIONS]);
}

fn mine() -> Option<&'static AtomicI64> {
    IN_FLIGHT.get().get(server::my_backend())
}

/// When the oldest insert in flight began, leaving out those that will count as late anyway.
pub fn oldest_insert(now: Micros) -> Micros {
    let sessions = (server::most_backends() + 1).min(SESSIONS);
    let seen = IN_FLIGHT.get()[..sessions].iter().map(|session| session.load(SeqCst));
    seen.filter(|began| *began == BEGINNING || now - began <= LATE_US).min().unwrap_or(IDLE)
}

/// Says that this transaction is about to put rows into a lane. To be called before the time that those rows carry is
/// read.
pub fn announce() {
    if is_preloaded() {
        changes::begin(|| match mine() {
            Some(mine) => {
                mine.store(BEGINNING, SeqCst);
                let now = clock::real_now();
                mine.store(now, SeqCst);
                now
            }
            None => BEGINNING,
        });
    }
}

/// This transaction puts no more rows in.
pub fn end() {
    if let Some(mine) = mine() {
        mine.store(IDLE, SeqCst);
    }
}
