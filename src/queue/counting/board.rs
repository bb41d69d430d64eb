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
use agentq_core::counters::{CounterKey, Counters};
use pgrx::prelude::*;
use pgrx::{PgAtomic, PgLwLock, pg_shmem_init};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Keys that can be in use at once in the whole server.
pub const KEYS: usize = 16_384;
/// Databases whose slots are counted.
const DATABASES: usize = 128;

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
    /// Whether there was no room to count a job in a line, so that claims must ask the tables.
    crowded: bool,
}

pub struct Board {
    pub counters: Counters<KEYS>,
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
            self.counters.clear(id);
            *self.database(id)? = Database { id, leases, ..Database::default() };
        }
        self.database(id)
    }

    fn forget(&mut self, id: u32) {
        self.counters.clear(id);
        if let Some(database) = self.databases.iter_mut().find(|database| database.id == id) {
            *database = Database::default();
        }
    }
}

// SAFETY: the name is agentq's own.
pub static BOARD: PgLwLock<Zeroed<Board>> = unsafe { PgLwLock::new(c"agentq_slots") };
/// Whether jobs stand in any fair line, so that most claims need not ask the board.
static FAIR_LINES_WAITED_IN: PgAtomic<AtomicBool> = unsafe { PgAtomic::new(c"agentq_fair_lines_waited_in") };
/// Whether there was no room for what is in use somewhere, so that nobody may rely on having asked before.
static INCOMPLETE: PgAtomic<AtomicBool> = unsafe { PgAtomic::new(c"agentq_slots_incomplete") };

pub fn init() {
    init_zeroed!(BOARD);
    pg_shmem_init!(FAIR_LINES_WAITED_IN = AtomicBool::new(false));
    pg_shmem_init!(INCOMPLETE = AtomicBool::new(false));
}

/// How much of a key is in use, and how many jobs stand in its line.
#[derive(Default)]
pub struct Count {
    pub key: String,
    pub active: i64,
    pub in_line: u32,
}

thread_local! {
    /// The table whose leases are counted. Once they are, they are for as long as the server lives.
    static KNOWN: Cell<u32> = const { Cell::new(0) };
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

/// Sees to it that slots are counted, of the leases in this table; `count` is called if nobody has done so.
/// False: there is no room for this database, or no shared memory at all; or this is a standby, where leases come and
/// go without anybody to count them, so that what was counted would be wrong once it is promoted.
pub fn ensure(leases: pg_sys::Oid, count: impl FnOnce() -> Vec<Count>) -> bool {
    if !is_preloaded() {
        return false;
    }
    let leases = leases.to_u32();
    if KNOWN.get() == leases && !INCOMPLETE.get().load(SeqCst) {
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
    let known = !mine || board.publish(my_database(), &counts);
    drop(board);
    COUNTING.set(false);
    if known {
        KNOWN.set(leases);
    }
    known
}

/// Forgets databases that are gone; returns how many.
fn tidy() -> usize {
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
    pub fn tell_of_fair_lines(&self) {
        FAIR_LINES_WAITED_IN.get().store(self.counters.is_waited().1, SeqCst);
    }

    /// Sets the counters of a database. False: there is no room for those of slots in use.
    pub fn publish(&mut self, id: u32, counts: &[Count]) -> bool {
        self.counters.clear(id);
        let (mut all, mut crowded) = (true, false);
        // What is in use goes first: jobs in lines can be found without the board.
        for count in counts.iter().filter(|count| count.active != 0) {
            all &= self.counters.add_active(CounterKey { database: id, key: &count.key }, count.active);
        }
        for count in counts.iter().filter(|count| count.in_line > 0) {
            crowded |= !self.counters.restore_line(CounterKey { database: id, key: &count.key }, count.in_line);
        }
        self.tell_of_fair_lines();
        if !all {
            INCOMPLETE.get().store(true, SeqCst);
        }
        if let Some(database) = self.database(id) {
            database.state = if all { State::Known } else { State::Unknown };
            database.crowded = crowded;
        }
        all
    }
}

impl Board {
    pub fn block(&mut self, counter: CounterKey<'_>) {
        if !self.counters.change_line(counter, 1)
            && let Some(database) = self.database(counter.database)
        {
            database.crowded = true;
        }
    }

    pub fn is_crowded(&self, id: u32) -> bool {
        self.databases.iter().any(|database| database.id == id && database.crowded)
    }
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
