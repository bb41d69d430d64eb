//! Slots of concurrency limits, as all sessions count them.
//!
//! The truth is in the leases: each says which slots it holds. This is the count of them, which a claim
//! asks and raises before it holds a job, so that a limit is never passed. It is exact: a slot is taken
//! here before its lease is written, and given back when the lease has gone for everybody to see, or when
//! the claim is rolled back. After a restart it is counted anew from the leases, before anybody takes or
//! gives back a slot.

use super::{is_preloaded, my_database, process, waiters};
use agentq_core::limits::{Counters, Slot};
use pgrx::prelude::*;
use pgrx::{AssertPGRXSharedMemory, PgLwLock, pg_shmem_init};
use std::cell::{Cell, RefCell};

/// Keys that can be in use at once in the whole server.
const KEYS: usize = 4096;
/// Databases whose slots are counted.
const DATABASES: usize = 128;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Nobody has counted since the server started.
    #[default]
    Unknown,
    /// This process counts.
    Counting(i32),
    Known,
}

struct Board {
    counters: Counters<KEYS>,
    databases: [(u32, State); DATABASES],
}

impl Default for Board {
    fn default() -> Self {
        Board { counters: Counters::default(), databases: [(0, State::Unknown); DATABASES] }
    }
}

impl Board {
    /// None: there are more databases than can be remembered.
    fn state(&mut self, database: u32) -> Option<&mut State> {
        let place = self.databases.iter().position(|(id, _)| *id == database);
        let place = place.or_else(|| self.databases.iter().position(|(id, _)| *id == 0))?;
        self.databases[place].0 = database;
        Some(&mut self.databases[place].1)
    }
}

// SAFETY: the name is agentq's own.
static BOARD: PgLwLock<AssertPGRXSharedMemory<Board>> = unsafe { PgLwLock::new(c"agentq_slots") };

pub fn init() {
    // SAFETY: the board holds no pointers.
    pg_shmem_init!(BOARD = unsafe { AssertPGRXSharedMemory::new(Board::default()) });
}

/// What this transaction does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A slot was taken, and counts already.
    Taken,
    Freed,
    Blocked,
    Unblocked,
}

struct Change {
    subtransaction: pg_sys::SubTransactionId,
    what: What,
    key: String,
}

/// How many hold a slot of a key, and how many wait for one.
pub struct Count {
    pub key: String,
    pub active: u32,
    pub blocked: u32,
}

#[derive(Default)]
struct Transaction {
    changes: Vec<Change>,
    /// Counted under a lock that keeps leases as they are until it commits.
    recount: Option<(pg_sys::SubTransactionId, Vec<Count>)>,
}

thread_local! {
    static TRANSACTION: RefCell<Transaction> = RefCell::default();
    /// Once they are counted, they are for as long as the server lives.
    static KNOWN: Cell<bool> = const { Cell::new(false) };
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

fn listen() {
    if !LISTENING.replace(true) {
        // SAFETY: the callbacks are plain functions that live as long as the library.
        unsafe {
            pg_sys::RegisterXactCallback(Some(at_transaction_end), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(at_subtransaction_end), std::ptr::null_mut());
        }
    }
}

fn subtransaction() -> pg_sys::SubTransactionId {
    // SAFETY: reads a number of the transaction.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}

/// Sees to it that slots are counted; `count` is called if nobody has done so. False: there is no room
/// for this database, or no shared memory at all.
pub fn ensure(count: impl FnOnce() -> Vec<Count>) -> bool {
    if !is_preloaded() {
        return false;
    }
    if KNOWN.get() {
        return true;
    }
    listen();
    let me = process::Process::me().pid;
    loop {
        let mut board = BOARD.exclusive();
        let Some(state) = board.state(my_database()) else { return false };
        match *state {
            State::Known => {
                KNOWN.set(true);
                return true;
            }
            State::Counting(pid) if pid != me && process::Process::with_pid(pid).is_alive() => {}
            State::Counting(_) | State::Unknown => {
                *state = State::Counting(me);
                break;
            }
        }
        drop(board);
        process::sleep(1_000);
    }
    COUNTING.set(true);
    publish(count());
    COUNTING.set(false);
    KNOWN.set(true);
    true
}

fn publish(counts: Vec<Count>) {
    let database = my_database();
    let mut board = BOARD.exclusive();
    board.counters.clear(database);
    for count in &counts {
        let slot = Slot { database, key: &count.key };
        board.counters.add_active(slot, count.active.into());
        board.counters.add_blocked(slot, count.blocked.into());
    }
    if let Some(state) = board.state(database) {
        *state = State::Known;
    }
}

/// Counts anew when this transaction commits, with what was counted under a lock on the leases.
pub fn recount_at_commit(counts: Vec<Count>) {
    if is_preloaded() {
        listen();
        TRANSACTION.with_borrow_mut(|transaction| transaction.recount = Some((subtransaction(), counts)));
    }
}

/// Whether this transaction has taken slots, or given any back.
pub fn is_in_use() -> bool {
    TRANSACTION.with_borrow(|transaction| !transaction.changes.is_empty())
}

fn will_recount() -> bool {
    TRANSACTION.with_borrow(|transaction| transaction.recount.is_some())
}

/// Takes one slot of each key, or none and says which is full.
pub fn take(wanted: &[(String, u32)]) -> Result<(), usize> {
    let database = my_database();
    let slots: Vec<(Slot<'_>, u32)> = wanted.iter().map(|(key, most)| (Slot { database, key }, *most)).collect();
    BOARD.exclusive().counters.take(&slots)?;
    wanted.iter().for_each(|(key, _)| note(What::Taken, key));
    Ok(())
}

/// A lease with a slot of this key has ended; the slot is free when this transaction commits.
pub fn free(key: &str) {
    note(What::Freed, key);
}

/// A job was put among, or taken from, those that wait for a slot of this key.
pub fn blocked(key: &str) {
    note(What::Blocked, key);
}

pub fn unblocked(key: &str) {
    note(What::Unblocked, key);
}

fn note(what: What, key: &str) {
    if is_preloaded() {
        listen();
        let change = Change { subtransaction: subtransaction(), what, key: key.to_owned() };
        TRANSACTION.with_borrow_mut(|transaction| transaction.changes.push(change));
    }
}

pub fn active(key: &str) -> u32 {
    BOARD.share().counters.active(Slot { database: my_database(), key })
}

/// How many of this key's slots are in use, and how many jobs wait for one.
pub fn counted(key: &str) -> (u32, u32) {
    let (board, slot) = (BOARD.share(), Slot { database: my_database(), key });
    (board.counters.active(slot), board.counters.blocked(slot))
}

/// The keys for which jobs wait, each with its slots in use.
pub fn waited_for() -> Vec<(String, u32)> {
    BOARD.share().counters.waited_for(my_database()).map(|(key, active)| (key.to_owned(), active)).collect()
}

/// Applies what a transaction that has committed did, beyond what counts already.
fn settle(changes: &[Change]) {
    let database = my_database();
    let mut wanted = false;
    {
        let mut board = BOARD.exclusive();
        for change in changes {
            let slot = Slot { database, key: &change.key };
            match change.what {
                What::Taken => {}
                What::Freed => {
                    board.counters.add_active(slot, -1);
                    wanted |= board.counters.blocked(slot) > 0;
                }
                What::Blocked => {
                    board.counters.add_blocked(slot, 1);
                    wanted = true;
                }
                What::Unblocked => board.counters.add_blocked(slot, -1),
            }
        }
    }
    if wanted {
        waiters::wake_all();
    }
}

fn give_back(changes: &[Change]) {
    if !changes.iter().any(|change| change.what == What::Taken) {
        return;
    }
    let database = my_database();
    let mut board = BOARD.exclusive();
    for change in changes.iter().filter(|change| change.what == What::Taken) {
        board.counters.add_active(Slot { database, key: &change.key }, -1);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::*;
    match event {
        XACT_EVENT_PRE_PREPARE if is_in_use() || will_recount() => crate::error::raise(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "a transaction that takes or frees slots of a limit, or changes one, cannot be prepared",
            "Commit it, or leave jobs with limits to a transaction of their own.",
        ),
        XACT_EVENT_COMMIT => {
            let transaction = TRANSACTION.take();
            if let Some((_, counts)) = transaction.recount {
                // The lock is still held, so that nobody else has taken a slot meanwhile.
                publish(counts);
                let mut board = BOARD.exclusive();
                for change in transaction.changes.iter().filter(|change| change.what == What::Taken) {
                    board.counters.add_active(Slot { database: my_database(), key: &change.key }, 1);
                }
            }
            if !transaction.changes.is_empty() {
                settle(&transaction.changes);
            }
        }
        XACT_EVENT_ABORT => {
            let transaction = TRANSACTION.take();
            if !transaction.changes.is_empty() {
                give_back(&transaction.changes);
                waiters::wake_all();
            }
            if COUNTING.replace(false)
                && let Some(state) = BOARD.exclusive().state(my_database())
            {
                *state = State::Unknown;
            }
        }
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subtransaction_end(
    event: pg_sys::SubXactEvent::Type,
    sub: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    use pg_sys::SubXactEvent::*;
    TRANSACTION.with_borrow_mut(|transaction| match event {
        SUBXACT_EVENT_COMMIT_SUB => {
            for change in transaction.changes.iter_mut().filter(|change| change.subtransaction == sub) {
                change.subtransaction = parent;
            }
            if let Some((owner, _)) = &mut transaction.recount
                && *owner == sub
            {
                *owner = parent;
            }
        }
        SUBXACT_EVENT_ABORT_SUB => {
            let (undone, kept) =
                std::mem::take(&mut transaction.changes).into_iter().partition(|c| c.subtransaction == sub);
            transaction.changes = kept;
            give_back(&undone);
            transaction.recount.take_if(|(owner, _)| *owner == sub);
        }
        _ => {}
    });
}
