//! The scan marks in shared memory: where in an index a claim may begin to read.
//!
//! `agentq_core::marks` has the rules and their proof. This module gives them a place that all sessions share; `changes`
//! keeps them right at commit and rollback, `in_flight` knows which inserts are under way, and `lane` names what a mark
//! is about. Without `shared_preload_libraries` there is no shared memory: every reading then answers "unknown", and each
//! claim looks for itself.

#![allow(unsafe_code, reason = "shared memory")]

mod changes;
mod in_flight;
mod lane;

pub use changes::{at_end, brought, entered, has_entered, left, wake_all_at_commit};
pub use in_flight::announce;
pub use lane::LaneName;

use crate::base::clock::{self, Micros};
use crate::server::{self, has_fixed_snapshot};
use crate::shared::is_preloaded;
use agentq_core::marks::{LaneMarks, Mark, Marks, Position};
use pgrx::prelude::*;
use pgrx::{AssertPGRXSharedMemory, PgLwLock, pg_shmem_init};

/// Lanes remembered at once in the whole server.
const LANES: usize = 1024;

// SAFETY: the name is agentq's own.
static MARKS: PgLwLock<AssertPGRXSharedMemory<Marks<LANES>>> = unsafe { PgLwLock::new(c"agentq_marks") };

pub fn init() {
    // SAFETY: the table holds no pointers.
    pg_shmem_init!(MARKS = unsafe { AssertPGRXSharedMemory::new(Marks::default()) });
    in_flight::init();
}

/// What a scan may rely on. Taken before the scan's snapshot.
pub struct Reading {
    tag: u64,
    generation: u64,
    cap: Micros,
    usable: bool,
    pub marks: Option<Vec<Mark>>,
    pub may_look: bool,
}

impl Reading {
    pub fn of(lane: LaneName<'_>) -> Reading {
        let mut reading = Reading {
            tag: lane.tag(),
            generation: 0,
            cap: Micros::MAX,
            usable: is_preloaded() && !has_fixed_snapshot() && !clock::is_shifted(),
            marks: None,
            may_look: true,
        };
        if !is_preloaded() {
            return reading;
        }
        let now = clock::real_now();
        // Every row that enters the waiting lane lowers its mark at commit, whatever its time, so
        // that this mark needs no cap and may point at the next job to fall due; so it is with keys
        // without a head. That of the leases is no more than the time of the next to expire as of the
        // last look.
        if !matches!(lane, LaneName::Waiting | LaneName::Heads | LaneName::Leases) {
            reading.cap = in_flight::oldest_insert(now).min(now);
        }
        if let Some(lane) = MARKS.share().find(reading.tag) {
            reading.generation = lane.generation();
            reading.may_look = lane.may_look(now);
            reading.marks = lane.marks().map(<[Mark]>::to_vec).filter(|_| !LaneMarks::must_look(lane, now));
        }
        reading
    }

    /// Announces a full look; `learn` is to follow with what it found.
    pub fn begin_look(&mut self) -> Look {
        let began = clock::real_now();
        if self.usable {
            self.generation = MARKS.exclusive().begin_look(self.tag, server::my_database(), began);
        }
        Look { began }
    }

    pub fn learn(&self, look: &Look, found: &[Mark]) {
        if self.usable {
            let cost = clock::real_now() - look.began;
            MARKS.exclusive().learn(self.tag, self.generation, found, self.cap, cost);
        }
    }

    /// Nothing is left before `to` in this priority.
    pub fn raise(&self, priority: i32, to: Position) {
        if self.usable {
            MARKS.exclusive().raise(self.tag, self.generation, priority, to, self.cap);
        }
    }

    /// Nothing is left in the lane at all.
    pub fn raise_all(&self, marks: &[Mark]) {
        if self.usable && !marks.is_empty() {
            let mut all = MARKS.exclusive();
            for mark in marks {
                all.raise(self.tag, self.generation, mark.priority, Position::at(Micros::MAX), self.cap);
            }
        }
    }
}

pub struct Look {
    began: Micros,
}

/// When the next waiting job falls due, as far as the marks know.
pub fn next_due() -> Option<Micros> {
    let marks = Reading::of(LaneName::Waiting).marks?;
    marks.first().map(|mark| mark.from.at)
}
