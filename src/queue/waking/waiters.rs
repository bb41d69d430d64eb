//! Claims that wait for a job: who waits for which lanes, and whom a commit wakes.
//!
//! A waiter joins before it looks for jobs, so that a commit after its look finds it here. A commit
//! wakes as many waiters as it brought jobs, those that have waited longest first. A waiter that was
//! woken but leaves without a job passes the call on.

#![allow(unsafe_code, reason = "shared memory, and a callback at exit")]

use crate::server::my_database;
use crate::shared::is_preloaded;
use crate::shared::process::Process;
use pgrx::prelude::*;
use pgrx::{AssertPGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Claims that can wait at once in the whole server.
const PLACES: usize = 1024;
/// Lanes that a waiter names. One that has more is woken by any job of its database.
const LANES: usize = 16;

#[derive(Clone, Copy)]
struct Waiter {
    process: Process,
    database: u32,
    /// 0: all lanes.
    lanes: u8,
    tags: [u64; LANES],
    woken: bool,
    turn: u64,
    /// Whether it waits for the end of something, and not for a job to claim.
    for_end: bool,
}

const NOBODY: Waiter =
    Waiter { process: Process::NONE, database: 0, lanes: 0, tags: [0; LANES], woken: false, turn: 0, for_end: false };

#[derive(Clone, Copy)]
struct WaitList {
    waiters: [Waiter; PLACES],
    turns: u64,
}

// SAFETY: the names are agentq's own.
static WAIT_LIST: PgLwLock<AssertPGRXSharedMemory<WaitList>> = unsafe { PgLwLock::new(c"agentq_waiters") };
/// How many of them wait for the end of something.
static FOR_ENDS: PgAtomic<AtomicU32> = unsafe { PgAtomic::new(c"agentq_waiting_for_ends") };
/// How many there are, so that a commit need not look when there is none.
static COUNT: PgAtomic<AtomicU32> = unsafe { PgAtomic::new(c"agentq_waiting") };

thread_local!(static MY_PLACE: Cell<Option<usize>> = const { Cell::new(None) });

pub fn init() {
    // SAFETY: the list holds no pointers.
    pg_shmem_init!(
        WAIT_LIST = unsafe { AssertPGRXSharedMemory::new(WaitList { waiters: [NOBODY; PLACES], turns: 0 }) }
    );
    pg_shmem_init!(COUNT = AtomicU32::new(0));
    pg_shmem_init!(FOR_ENDS = AtomicU32::new(0));
}

/// How many claims wait in this database.
pub fn count() -> usize {
    if !is_preloaded() || COUNT.get().load(SeqCst) == 0 {
        return 0;
    }
    let list = WAIT_LIST.share();
    let is_claim = |waiter: &&Waiter| waiter.process.is_some() && !waiter.for_end && waiter.database == my_database();
    list.waiters.iter().filter(is_claim).count()
}

/// A place among the waiters, for as long as this value lives.
pub struct Waiting(());

impl Waiting {
    /// A place among the claims that wait. None: there is no place, or no shared memory.
    pub fn join(tags: &[u64]) -> Option<Waiting> {
        Waiting::enter(tags, false)
    }

    /// A place among those who wait for the end of something. None: as for a claim.
    pub fn for_end(tag: u64) -> Option<Waiting> {
        Waiting::enter(&[tag], true)
    }

    fn enter(tags: &[u64], for_end: bool) -> Option<Waiting> {
        // A handler's own claim, inside the process that waits for handlers' jobs, has no place.
        if !is_preloaded() || MY_PLACE.get().is_some() {
            return None;
        }
        leave_at_exit();
        let mut waiter = Waiter { process: Process::me(), database: my_database(), for_end, ..NOBODY };
        if tags.len() <= LANES {
            waiter.lanes = tags.len() as u8;
            waiter.tags[..tags.len()].copy_from_slice(tags);
        }
        let mut list = WAIT_LIST.exclusive();
        let place = list.waiters.iter().position(|waiter| !waiter.process.is_some())?;
        list.turns += 1;
        waiter.turn = list.turns;
        list.waiters[place] = waiter;
        COUNT.get().fetch_add(1, SeqCst);
        FOR_ENDS.get().fetch_add(u32::from(for_end), SeqCst);
        MY_PLACE.set(Some(place));
        Some(Waiting(()))
    }

    /// Whether a commit has called since the last time this was asked.
    pub fn was_woken(&self) -> bool {
        let Some(place) = MY_PLACE.get() else { return true };
        let mut list = WAIT_LIST.exclusive();
        std::mem::take(&mut list.waiters[place].woken)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives up this process's place. A call that nobody has answered goes to another waiter.
fn leave() {
    let Some(place) = MY_PLACE.take() else { return };
    let left = {
        let mut list = WAIT_LIST.exclusive();
        let left = std::mem::replace(&mut list.waiters[place], NOBODY);
        COUNT.get().fetch_sub(1, SeqCst);
        FOR_ENDS.get().fetch_sub(u32::from(left.for_end), SeqCst);
        left
    };
    if left.for_end {
        // All of those who wait for one end are called.
        return;
    }
    if left.woken && left.lanes == 0 {
        wake_all();
    } else if left.woken {
        for tag in &left.tags[..left.lanes as usize] {
            wake(&[*tag], 1);
        }
    }
}

fn leave_at_exit() {
    thread_local!(static REGISTERED: Cell<bool> = const { Cell::new(false) });
    if !REGISTERED.replace(true) {
        // SAFETY: the callback is a plain function that lives as long as the library.
        unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::from(0)) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _arg: pg_sys::Datum) {
    leave();
}

/// Wakes as many claims as there are new jobs in any of these lanes of one job.
pub fn wake(tags: &[u64], jobs: usize) {
    if !is_preloaded() || COUNT.get().load(SeqCst) == 0 {
        return;
    }
    let mut called = Vec::new();
    {
        let mut list = WAIT_LIST.exclusive();
        let mut fitting: Vec<(u64, usize)> = list
            .waiters
            .iter()
            .enumerate()
            .filter(|(_, waiter)| waiter.process.is_some() && !waiter.for_end && !waiter.woken && fits(waiter, tags))
            .map(|(place, waiter)| (waiter.turn, place))
            .collect();
        fitting.sort_unstable();
        for (_, place) in fitting.into_iter().take(jobs) {
            list.waiters[place].woken = true;
            called.push(list.waiters[place].process);
        }
    }
    called.into_iter().for_each(Process::wake);
}

fn fits(waiter: &Waiter, tags: &[u64]) -> bool {
    if waiter.lanes == 0 {
        return waiter.database == my_database();
    }
    waiter.tags[..waiter.lanes as usize].iter().any(|tag| tags.contains(tag))
}

/// Whether anybody waits for the end of something.
pub fn any_for_ends() -> bool {
    is_preloaded() && FOR_ENDS.get().load(SeqCst) > 0
}

/// Wakes all who wait for one of these ends.
pub fn wake_for_ends(tags: &[u64]) {
    wake_those(|waiter| waiter.for_end && tags.contains(&waiter.tags[0]));
}

/// Wakes all who wait for the end of anything in this database.
pub fn wake_all_for_ends() {
    if any_for_ends() {
        wake_those(|waiter| waiter.for_end && waiter.database == my_database());
    }
}

/// Wakes every claim that waits in this database: something changed that may concern any of them.
pub fn wake_all() {
    if !is_preloaded() || COUNT.get().load(SeqCst) == 0 {
        return;
    }
    wake_those(|waiter| !waiter.for_end && waiter.database == my_database());
}

fn wake_those(are_meant: impl Fn(&Waiter) -> bool) {
    let mut called = Vec::new();
    {
        let mut list = WAIT_LIST.exclusive();
        for waiter in list.waiters.iter_mut().filter(|waiter| waiter.process.is_some() && are_meant(waiter)) {
            waiter.woken = true;
            called.push(waiter.process);
        }
    }
    called.into_iter().for_each(Process::wake);
}
