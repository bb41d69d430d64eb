//! What a room brings with it: its settings, its chores, its part in the end of a transaction, its hooks and its shared
//! memory. `lib.rs` lists the rooms, from the lowest to the highest; nothing else names them all.

use crate::base::clock::Micros;
use crate::db::Statement;
use crate::journal::End;
use agentq_core::config::Key;
use std::sync::OnceLock;

/// A room of the house.
pub struct Room {
    /// Keys of the table `config` that it reads.
    pub settings: &'static [Key],
    /// What the engine does for it again and again.
    pub chores: &'static [&'static Chore],
    /// Statements that remove rows whose `expires_at` has passed: they take the moment and the most rows to remove, and
    /// answer with how many went.
    pub expiring: &'static [&'static Statement],
    /// What is called when a transaction ends, after somebody has opened the journal.
    pub at_end: &'static [fn(End)],
    /// Registers settings of the server and hooks of lower rooms: called whenever the library is loaded.
    pub init: fn(),
    /// Asks for shared memory and background workers: called when the server preloads the library.
    pub init_preloaded: fn(),
}

impl Room {
    /// A room that brings nothing: `..Room::EMPTY` stands for what a room does not name.
    pub const EMPTY: Room =
        Room { settings: &[], chores: &[], expiring: &[], at_end: &[], init: || (), init_preloaded: || () };
}

static ROOMS: OnceLock<&'static [&'static Room]> = OnceLock::new();

/// Makes the rooms known, and lets each register what it brings.
pub fn open_all(rooms: &'static [&'static Room]) {
    ROOMS.get_or_init(|| rooms);
    rooms.iter().for_each(|room| (room.init)());
}

/// All rooms, from the lowest to the highest.
pub fn all() -> &'static [&'static Room] {
    ROOMS.get().copied().unwrap_or_default()
}

/// Something the engine does again and again for a room, each time in a new transaction.
///
/// ```ignore
/// pub static CLEAN_NOTES: Chore = Chore {
///     name: "clean_notes",
///     about: "Removes notes older than a day.",
///     every_us: 60_000_000,
///     stage: Stage::Tidy,
///     moves_jobs: false,
///     wakes_on: Wakes::Time,
///     run: || notes::remove_old(clock::now()),
/// };
/// ```
pub struct Chore {
    pub name: &'static str,
    pub about: &'static str,
    /// Microseconds from one run to the next, unless an operator or the outcome says otherwise.
    pub every_us: i64,
    pub stage: Stage,
    /// Whether it recovers, starts, ends or removes jobs: then it rests while `queue.job_substrate.enabled` is off.
    pub moves_jobs: bool,
    pub wakes_on: Wakes,
    /// Calls one function of its room.
    pub run: fn() -> Outcome,
}

/// When in one turn of the engine a chore runs, so that what one does the next one sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Chores that let jobs go on: they recover leases, and make ready what is due.
    Work,
    /// Chores that give what happened its place in the log.
    Log,
    /// Chores that answer to what happened.
    React,
    /// Chores that remove what is over.
    Tidy,
}

/// What makes a chore run before its time.
#[derive(Clone, Copy)]
pub enum Wakes {
    /// Nothing.
    Time,
    /// A moment that `next` tells has come. It runs at most once in `pause_us` microseconds for that.
    Moment { next: fn() -> Option<Micros>, pause_us: i64 },
    /// There is news. `take` takes note of them before it runs; at most once in `pause_us` microseconds.
    News { is_there: fn() -> bool, take: fn(), pause_us: i64 },
    /// One of these chores has changed something.
    After(&'static [&'static Chore]),
}

/// What a run did, and when the next one is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Rows that were changed.
    pub rows: i64,
    pub next: Next,
}

#[derive(Clone, Copy, Debug, Default)]
pub enum Next {
    /// After the usual time.
    #[default]
    AsUsual,
    /// At once: there is more to do.
    AtOnce,
    /// At this moment, or after the usual time if that is earlier.
    At(Micros),
}

impl Outcome {
    /// What two runs did, one after the other.
    pub fn and(self, other: Outcome) -> Outcome {
        let next = match (self.next, other.next) {
            (Next::AtOnce, _) | (_, Next::AtOnce) => Next::AtOnce,
            (Next::At(one), Next::At(other)) => Next::At(one.min(other)),
            (Next::AsUsual, next) | (next, Next::AsUsual) => next,
        };
        Outcome { rows: self.rows + other.rows, next }
    }

    pub fn rows(rows: i64) -> Outcome {
        Outcome { rows, next: Next::AsUsual }
    }

    /// `more`: there is more to do at once.
    pub fn and_more(rows: i64, more: bool) -> Outcome {
        Outcome { rows, next: if more { Next::AtOnce } else { Next::AsUsual } }
    }

    /// When the next run is due.
    pub fn next_at(self, began: Micros, every_us: i64) -> Micros {
        match self.next {
            Next::AsUsual => began + every_us,
            Next::AtOnce => began,
            // A moment that has passed, and nothing was done: someone is in the way.
            Next::At(at) if at <= began && self.rows == 0 => began + 1_000_000,
            Next::At(at) => at.min(began + every_us),
        }
    }
}
