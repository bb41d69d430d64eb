//! The board in shared memory: how much of each limit and budget is in use, and how many jobs stand in each line.
//!
//! The truth is in the tables: each lease says which slots it holds and what it has reserved. The board is the count of
//! them. After a restart, and when the extension was made anew, one session counts the tables before anybody takes or
//! gives back a slot; `ensure` sees to that.

#![allow(unsafe_code, reason = "shared memory")]

use super::gauges;
use crate::server::{self, is_on_standby, my_database};
use crate::shared::is_preloaded;
use crate::shared::process::sleep;
use crate::shared::zeroed::{ValidAsZero, Zeroed, init_zeroed};
use agentq_core::counters::{CounterDemand, CounterKey, Counters};
use agentq_core::line::is_fair;
use agentq_core::turns::FairLines;
use pgrx::prelude::*;
use pgrx::{PgAtomic, PgLwLock, pg_shmem_init};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Keys that can be in use at once in the whole server, and fair lines in which jobs can wait. A database alone may have three
/// quarters of them; what is not used of it takes no memory.
pub const KEYS: usize = 16_384;
const LINES: usize = 65_536;
/// Databases whose slots are counted.
const DATABASES: usize = 1_024;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(i32)]
enum State {
    /// Nobody has counted since the server started.
    #[default]
    Unknown = 0,
    /// This process counts.
    Counting(i32),
    Known,
}

#[derive(Clone, Copy, Default)]
struct Database {
    id: u32,
    /// The table of its leases: another one means that the extension was made anew.
    leases: u32,
    state: State,
    /// Whether there was no room to count a job in a line, so that claims must ask the tables: in the line of a key, and in a
    /// fair one.
    crowded: bool,
    fair_crowded: bool,
    /// Whether there was no room for all that was in use when it was counted. Until it is counted again, a key that
    /// is not known may be in use, and nothing of it is given out.
    overflowed: bool,
}

pub struct Board {
    pub counters: Counters<KEYS>,
    pub fair: FairLines<LINES>,
    databases: [Database; DATABASES],
}

// SAFETY: numbers, and states of which the first is 0.
unsafe impl ValidAsZero for Board {}

impl Board {
    /// None: there are more databases than can be remembered.
    fn database(&mut self, id: u32) -> Option<&mut Database> {
        let place = self.databases.iter().position(|database| database.id == id);
        let place = place.or_else(|| self.databases.iter().position(|database| database.id == 0))?;
        self.databases[place].id = id;
        Some(&mut self.databases[place])
    }

    /// This database's counters, for the leases in this table.
    fn of_leases(&mut self, id: u32, leases: u32) -> Option<&mut Database> {
        if self.database(id)?.leases != leases {
            self.clear(id);
            *self.database(id)? = Database { id, leases, ..Database::default() };
        }
        self.database(id)
    }

    fn clear(&mut self, id: u32) {
        self.counters.clear(id);
        self.fair.clear(id);
    }

    fn forget(&mut self, id: u32) {
        self.clear(id);
        if let Some(database) = self.databases.iter_mut().find(|database| database.id == id) {
            *database = Database::default();
        }
    }
}

// SAFETY: the name is agentq's own.
pub static BOARD: PgLwLock<Zeroed<Board>> = unsafe { PgLwLock::new(c"agentq_slots") };
/// Whether jobs stand in any fair line, so that most claims need not ask the board.
static FAIR_LINES_WAITED_IN: PgAtomic<AtomicBool> = unsafe { PgAtomic::new(c"agentq_fair_lines_waited_in") };

pub fn init() {
    init_zeroed!(BOARD);
    pg_shmem_init!(FAIR_LINES_WAITED_IN = AtomicBool::new(false));
}

/// How much of a key is in use, and how many jobs stand in its line.
#[derive(Default)]
pub struct Count {
    pub key: String,
    pub active: i64,
    pub in_line: u32,
    /// Of what kinds the jobs in a fair line are.
    pub kinds: u64,
}

/// What is to be on the board of a database.
#[derive(Default)]
pub struct Counts {
    pub keys: Vec<Count>,
    /// The keys that rules name: they have their place whether they are in use or not.
    pub named: Vec<String>,
}

thread_local! {
    /// The table whose leases are counted. Once they are, they are for as long as the server lives.
    static KNOWN: Cell<u32> = const { Cell::new(0) };
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

/// Sees to it that slots are counted, of the leases in this table; `count` is called if nobody has done so.
/// False: there is no room for this database, or no shared memory at all; or this is a standby, where leases come and
/// go without anybody to count them, so that what was counted would be wrong once it is promoted.
pub fn ensure(leases: pg_sys::Oid, count: impl FnOnce() -> Counts) -> bool {
    if !is_preloaded() {
        return false;
    }
    let leases = leases.to_u32();
    if KNOWN.get() == leases {
        return true;
    }
    if is_on_standby() {
        return false;
    }
    crate::journal::open();
    let me = server::my_pid();
    loop {
        let state = BOARD.exclusive().of_leases(my_database(), leases).map(|database| database.state);
        match state {
            None if tidy() == 0 => return false,
            None => continue,
            Some(State::Known) => {
                KNOWN.set(leases);
                return true;
            }
            Some(State::Counting(pid)) if pid != me && server::has_process(pid) => sleep(1_000),
            Some(State::Counting(_) | State::Unknown) => {
                // Someone else may have begun since.
                let mut board = BOARD.exclusive();
                if let Some(database) = board.of_leases(my_database(), leases).filter(|now| Some(now.state) == state) {
                    database.state = State::Counting(me);
                    break;
                }
            }
        }
    }
    COUNTING.set(true);
    gauges::forget(my_database());
    let counts = count();
    let mut board = BOARD.exclusive();
    // A change of the limits may have counted meanwhile, and others have gone on from there.
    let mine = board.of_leases(my_database(), leases).is_some_and(|database| database.state == State::Counting(me));
    if mine {
        board.publish(my_database(), &counts);
    }
    drop(board);
    COUNTING.set(false);
    KNOWN.set(leases);
    true
}

/// Forgets databases that are gone; returns how many.
pub fn tidy() -> usize {
    let known = {
        let board = BOARD.share();
        let mut known = board.counters.databases();
        known.extend(board.databases.iter().map(|database| database.id).filter(|id| *id != 0));
        known.sort_unstable();
        known.dedup();
        known
    };
    let gone: Vec<u32> = known.into_iter().filter(|id| !server::has_database(*id)).collect();
    gone.iter().for_each(|id| gauges::forget(*id));
    let mut board = BOARD.exclusive();
    gone.iter().for_each(|id| board.forget(*id));
    gone.len()
}

impl Board {
    /// Says whether jobs may stand in fair lines. Those for which there was no room are not counted.
    pub fn tell_of_fair_lines(&self) {
        let crowded = || self.databases.iter().any(|database| database.fair_crowded);
        FAIR_LINES_WAITED_IN.get().store(self.fair.is_waited_in() || crowded(), SeqCst);
    }

    /// Sets the counters of a database.
    pub fn publish(&mut self, id: u32, counts: &Counts) {
        self.clear(id);
        let counter = |key| CounterKey { database: id, key };
        // Rules first, then what is in use: jobs in lines can be found without the board.
        for key in &counts.named {
            self.counters.name(counter(key));
        }
        let (mut overflowed, mut crowded, mut fair_crowded) = (false, false, false);
        for count in counts.keys.iter().filter(|count| count.active != 0) {
            overflowed |= !self.counters.add_active(counter(&count.key), count.active);
        }
        for count in counts.keys.iter().filter(|count| count.in_line > 0) {
            let jobs = count.in_line as i32;
            if count.active != 0 && !self.counters.knows(counter(&count.key)) {
                // With a place for its line it would seem that nothing of it is in use.
                crowded = true;
            } else if is_fair(&count.key) {
                fair_crowded |= !self.fair.change(counter(&count.key), jobs, count.kinds);
            } else {
                crowded |= !self.counters.change_line(counter(&count.key), jobs);
            }
        }
        if let Some(database) = self.database(id) {
            database.state = State::Known;
            (database.overflowed, database.crowded, database.fair_crowded) = (overflowed, crowded, fair_crowded);
        }
        self.note_forgotten();
        self.tell_of_fair_lines();
    }

    /// Remembers whose jobs in lines were forgotten to make room for what is in use.
    fn note_forgotten(&mut self) {
        if let Some(id) = self.counters.take_forgotten()
            && let Some(database) = self.database(id)
        {
            database.crowded = true;
        }
    }

    /// Takes the amount of each, or nothing and says of which there is not enough.
    pub fn take(&mut self, id: u32, wanted: &[CounterDemand<'_>]) -> Result<(), usize> {
        let is_counted = |wish: &CounterDemand<'_>| self.is_counted(CounterKey { database: id, key: wish.key });
        if let Some(number) = wanted.iter().position(|wish| !is_counted(wish)) {
            return Err(number);
        }
        let taken = self.counters.take(id, wanted);
        self.note_forgotten();
        taken
    }

    /// Whether the board says of a key how much is in use: where not all could be counted, only of what has its place since
    /// then. No other key gets one before all is counted again.
    fn is_counted(&self, counter: CounterKey<'_>) -> bool {
        let database = self.databases.iter().find(|database| database.id == counter.database);
        database.is_none_or(|database| !database.overflowed) || self.counters.knows(counter)
    }

    /// An amount of a key is in use, whatever there is of it.
    pub fn use_up(&mut self, counter: CounterKey<'_>, amount: i64) {
        if (!self.is_counted(counter) || !self.counters.add_active(counter, amount))
            && let Some(database) = self.database(counter.database)
        {
            database.overflowed = true;
        }
        self.note_forgotten();
    }

    /// A job of these kinds has come into a line.
    pub fn block(&mut self, counter: CounterKey<'_>, kinds: u64) {
        let is_fair = is_fair(counter.key);
        let has_room = if is_fair {
            self.fair.change(counter, 1, kinds)
        } else {
            self.is_counted(counter) && self.counters.change_line(counter, 1)
        };
        if !has_room && let Some(database) = self.database(counter.database) {
            database.crowded |= !is_fair;
            database.fair_crowded |= is_fair;
        }
    }

    /// A job has left a line. One that is not known there was not counted.
    pub fn unblock(&mut self, counter: CounterKey<'_>) {
        let Some(database) = self.databases.iter().find(|database| database.id == counter.database).copied() else {
            return;
        };
        if is_fair(counter.key) {
            if !database.fair_crowded || self.fair.in_line(counter) > 0 {
                self.fair.change(counter, -1, 0);
            }
        } else if !database.crowded || self.counters.in_line(counter) > 0 {
            self.counters.change_line(counter, -1);
        }
    }

    pub fn is_crowded(&self, id: u32, fair: bool) -> bool {
        let is_crowded = |database: &Database| if fair { database.fair_crowded } else { database.crowded };
        self.databases.iter().any(|database| database.id == id && is_crowded(database))
    }
}

/// Whether something of this database could not be counted for want of room, so that it is worth counting again.
pub fn is_incomplete() -> bool {
    if !is_preloaded() {
        return false;
    }
    let (board, me) = (BOARD.share(), my_database());
    let is_incomplete = |database: &Database| database.crowded || database.fair_crowded || database.overflowed;
    board.databases.iter().any(|database| database.id == me && is_incomplete(database))
}

/// Makes room for what is counted of the leases in this table.
pub fn know_leases(leases: pg_sys::Oid) {
    BOARD.exclusive().of_leases(my_database(), leases.to_u32());
}

/// Forgets what is in use of these keys: they are not counted any more.
pub fn forget(is_meant: impl Fn(&str) -> bool) {
    if is_preloaded() {
        BOARD.exclusive().counters.forget(my_database(), is_meant);
    }
}

/// Lets another count, if this process was about to.
pub fn give_up_counting() {
    if COUNTING.replace(false) {
        let mut board = BOARD.exclusive();
        let me = State::Counting(server::my_pid());
        if let Some(database) = board.database(my_database()).filter(|database| database.state == me) {
            database.state = State::Unknown;
        }
    }
}

/// Whether jobs stand in a fair line of any database.
pub fn has_fair_lines() -> bool {
    FAIR_LINES_WAITED_IN.get().load(SeqCst)
}
