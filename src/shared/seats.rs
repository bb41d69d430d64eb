//! Who runs the engine: the launcher, and for each database its worker and its SQL workers.

use super::process::Process;
use super::{Text, is_preloaded};
use crate::base::clock::Micros;
use crate::server::my_database;
use pgrx::prelude::*;
use pgrx::{AssertPGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Databases that the engine can look after.
pub const DATABASES: usize = 128;
/// Chores that a database can have.
pub const CHORES: usize = 32;
/// Sessions that can hold a database at once; one more finds the engine in its way.
pub const HOLDERS: usize = 8;
/// SQL workers that a database can have.
pub const SQL_WORKERS: usize = 16;

/// How it stands with the engine of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Someone has said that the extension is there, or it has not been looked for yet.
    Wanted,
    Starting,
    Running,
    /// The extension is not there.
    Absent,
    /// It could not be started, or it ended by itself; it will be tried again.
    Waiting,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Wanted => "wanted",
            State::Starting => "starting",
            State::Running => "running",
            State::Absent => "absent",
            State::Waiting => "waiting",
        }
    }
}

/// The last run of a chore.
#[derive(Clone, Copy)]
pub struct Live {
    pub last_run_at: Micros,
    pub next_run_at: Micros,
    pub micros: i64,
    pub rows: i64,
    pub runs: i64,
    pub failures: i32,
}

const NEVER: Live = Live { last_run_at: 0, next_run_at: 0, micros: 0, rows: 0, runs: 0, failures: 0 };

/// A worker that runs jobs in the server, and the job it is at.
#[derive(Clone, Copy)]
pub struct SqlSeat {
    pub process: Process,
    pub starting: bool,
    pub retry_at: Micros,
    pub failures: u32,
    pub job: Option<[u8; 16]>,
    pub token: [u8; 16],
    pub since: Micros,
}

const NO_SQL: SqlSeat =
    SqlSeat { process: Process::NONE, starting: false, retry_at: 0, failures: 0, job: None, token: [0; 16], since: 0 };

#[derive(Clone, Copy)]
pub struct Seat {
    pub database: u32,
    pub state: State,
    pub worker: Process,
    pub started_at: Micros,
    pub restarts: u32,
    pub failures: u32,
    pub retry_at: Micros,
    /// Since when it waits for a background worker that is free; 0: it does not.
    pub waits_since: Micros,
    /// Sessions that want the database for themselves, such as one that drops it.
    pub holders: [Process; HOLDERS],
    /// Whether its worker was asked to leave, so that its end is no failure.
    pub excused: bool,
    pub trouble: Text<200>,
    pub has_handlers: bool,
    /// Whether something has changed for which the worker should run its chores at once.
    pub news: bool,
    pub chores: [Live; CHORES],
    pub sql: [SqlSeat; SQL_WORKERS],
}

pub const NO_SEAT: Seat = Seat {
    database: 0,
    state: State::Wanted,
    worker: Process::NONE,
    started_at: 0,
    restarts: 0,
    failures: 0,
    retry_at: 0,
    waits_since: 0,
    holders: [Process::NONE; HOLDERS],
    excused: false,
    trouble: Text::EMPTY,
    has_handlers: false,
    news: false,
    chores: [NEVER; CHORES],
    sql: [NO_SQL; SQL_WORKERS],
};

impl Seat {
    pub fn is_held(&self) -> bool {
        self.holders.iter().any(|holder| holder.is_some())
    }

    /// Enters this process as a holder.
    pub fn hold(&mut self) {
        if let Some(place) = self.holders.iter_mut().find(|holder| !holder.is_some()) {
            *place = Process::me();
        }
    }

    /// Takes out the holders that fulfil a condition.
    pub fn release(&mut self, which: impl Fn(Process) -> bool) {
        for holder in self.holders.iter_mut().filter(|holder| holder.is_some() && which(**holder)) {
            *holder = Process::NONE;
        }
    }
}

#[derive(Clone, Copy)]
pub struct Seats {
    pub launcher: Process,
    pub launcher_started_at: Micros,
    seats: [Seat; DATABASES],
}

const NO_SEATS: Seats = Seats { launcher: Process::NONE, launcher_started_at: 0, seats: [NO_SEAT; DATABASES] };

// SAFETY: the name is agentq's own.
static SEATS: PgLwLock<AssertPGRXSharedMemory<Seats>> = unsafe { PgLwLock::new(c"agentq_seats") };

pub fn init() {
    // SAFETY: the seats hold no pointers.
    pg_shmem_init!(SEATS = unsafe { AssertPGRXSharedMemory::new(NO_SEATS) });
    pg_shmem_init!(AT_WORK = [const { AtomicU64::new(0) }; DATABASES]);
}

impl Seats {
    pub fn find(&mut self, database: u32) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.database == database)
    }

    /// The seat of a database, made if there is room.
    pub fn find_or_make(&mut self, database: u32) -> Option<&mut Seat> {
        let known = self.seats.iter().position(|seat| seat.database == database);
        let free = |seat: &Seat| seat.database == 0;
        // A database without the extension keeps its seat only while there is room.
        let idle = |seat: &Seat| seat.state == State::Absent && !seat.worker.is_some() && !seat.is_held();
        let place = known.or_else(|| self.seats.iter().position(free)).or_else(|| self.seats.iter().position(idle))?;
        let seat = &mut self.seats[place];
        if seat.database != database {
            *seat = Seat { database, ..NO_SEAT };
        }
        Some(seat)
    }

    pub fn all(&mut self) -> impl Iterator<Item = &mut Seat> {
        self.seats.iter_mut().filter(|seat| seat.database != 0)
    }
}

/// Reads or changes the seats, alone.
pub fn with<R>(work: impl FnOnce(&mut Seats) -> R) -> R {
    work(&mut SEATS.exclusive())
}

/// Reads or changes the seat of a database, if it has one.
pub fn with_seat<R>(database: u32, work: impl FnOnce(&mut Seat) -> R) -> Option<R> {
    if !is_preloaded() {
        return None;
    }
    with(|seats| seats.find(database).map(work))
}

/// The workers that are at work, apart from the seats: claims and commits ask for them all the time.
static AT_WORK: PgAtomic<[AtomicU64; DATABASES]> = unsafe { PgAtomic::new(c"agentq_at_work") };

/// Database and number of the process, in one word.
fn at_work(database: u32, process: Process) -> u64 {
    u64::from(database) << 32 | process.number() as u64
}

/// Enters this process as the engine's worker of its database.
pub fn begin_work() {
    let mine = at_work(my_database(), Process::me());
    let free = |place: &&AtomicU64| place.compare_exchange(0, mine, SeqCst, SeqCst).is_ok();
    AT_WORK.get().iter().find(free);
}

/// Takes this process out again.
pub fn end_work() {
    let mine = at_work(my_database(), Process::me());
    for place in AT_WORK.get() {
        place.compare_exchange(mine, 0, SeqCst, SeqCst).ok();
    }
}

fn worker() -> Option<Process> {
    if !is_preloaded() {
        return None;
    }
    let words = AT_WORK.get().iter().map(|place| place.load(SeqCst));
    words.filter(|word| word >> 32 == u64::from(my_database())).map(|word| Process::numbered(word as u32 as i32)).next()
}

/// Whether the engine of this database is at work.
pub fn engine_runs() -> bool {
    worker().is_some()
}

/// Wakes the engine of this database.
pub fn wake_engine() {
    worker().unwrap_or(Process::NONE).wake();
}

/// Says that this database has the extension, for the launcher to start its engine.
pub fn request_engine() {
    if !is_preloaded() {
        return;
    }
    let launcher = with(|seats| {
        let launcher = seats.launcher;
        let seat = seats.find_or_make(my_database())?;
        let news = seat.state == State::Absent || seat.state == State::Wanted;
        if seat.state == State::Absent {
            seat.state = State::Wanted;
        }
        news.then_some(launcher)
    });
    launcher.unwrap_or(Process::NONE).wake();
}

/// Whether the engine of this database runs.
pub fn is_running_here() -> bool {
    is_preloaded()
        && with_seat(my_database(), |seat| seat.state == State::Running && seat.worker.is_some()).unwrap_or(false)
}

/// Says that something has changed for which the engine of this database should run its chores.
pub fn bring_news() {
    with_seat(my_database(), |seat| seat.news = true);
}
