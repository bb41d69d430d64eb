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
const KEYS: usize = 16_384;
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

#[derive(Clone, Copy, Default)]
struct Database {
    id: u32,
    /// The table of its leases: another one means that the extension was made anew.
    leases: u32,
    state: State,
    /// Whether there was no room to count a job that waits, so that the tables must be asked.
    crowded: bool,
}

struct Board {
    counters: Counters<KEYS>,
    databases: [Database; DATABASES],
}

impl Default for Board {
    fn default() -> Self {
        Board { counters: Counters::default(), databases: [Database::default(); DATABASES] }
    }
}

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
    /// A slot that this transaction gives back was taken again by it, so that it never was free.
    Reused,
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
    /// Counted under a lock that keeps leases as they are until it commits; the last one holds.
    recounts: Vec<(pg_sys::SubTransactionId, Vec<Count>)>,
}

thread_local! {
    static TRANSACTION: RefCell<Transaction> = RefCell::default();
    /// The table whose leases are counted. Once they are, they are for as long as the server lives.
    static KNOWN: Cell<u32> = const { Cell::new(0) };
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

/// Sees to it that slots are counted, of the leases in this table; `count` is called if nobody has done so.
/// False: there is no room for this database, or no shared memory at all.
pub fn ensure(leases: pg_sys::Oid, count: impl FnOnce() -> Vec<Count>) -> bool {
    if !is_preloaded() {
        return false;
    }
    let leases = leases.to_u32();
    if KNOWN.get() == leases {
        return true;
    }
    listen();
    let me = process::Process::me().pid;
    loop {
        let state = BOARD.exclusive().of_leases(my_database(), leases).map(|database| database.state);
        match state {
            None if tidy() == 0 => return false,
            None => continue,
            Some(State::Known) => {
                KNOWN.set(leases);
                return true;
            }
            Some(State::Counting(pid)) if pid != me && process::Process::with_pid(pid).is_alive() => {
                process::sleep(1_000)
            }
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
    // SAFETY: looks an id up among the server's databases.
    let is_gone = |id: &u32| unsafe {
        let key = pg_sys::Datum::from(pg_sys::Oid::from_u32(*id));
        let none = pg_sys::Datum::from(0);
        !pg_sys::SearchSysCacheExists(pg_sys::SysCacheIdentifier::DATABASEOID as i32, key, none, none, none)
    };
    let gone: Vec<u32> = known.into_iter().filter(is_gone).collect();
    let mut board = BOARD.exclusive();
    gone.iter().for_each(|id| board.forget(*id));
    gone.len()
}

impl Board {
    /// Sets the counters of a database. False: there is no room for those of slots in use.
    fn publish(&mut self, id: u32, counts: &[Count]) -> bool {
        self.counters.clear(id);
        let (mut all, mut crowded) = (true, false);
        for count in counts {
            let slot = Slot { database: id, key: &count.key };
            all &= count.active == 0 || self.counters.add_active(slot, count.active.into());
            crowded |= count.blocked > 0 && !self.counters.add_blocked(slot, count.blocked as i32);
        }
        if let Some(database) = self.database(id) {
            database.state = if all { State::Known } else { State::Unknown };
            database.crowded = crowded;
        }
        all
    }
}

/// Counts anew when this transaction commits, with what was counted under a lock on the leases.
pub fn recount_at_commit(leases: pg_sys::Oid, counts: Vec<Count>) {
    if is_preloaded() {
        listen();
        BOARD.exclusive().of_leases(my_database(), leases.to_u32());
        TRANSACTION.with_borrow_mut(|transaction| transaction.recounts.push((subtransaction(), counts)));
    }
}

/// Whether this transaction has taken slots, or given any back.
pub fn is_in_use() -> bool {
    TRANSACTION.with_borrow(|transaction| !transaction.changes.is_empty())
}

/// Whether this transaction has changed limits.
pub fn will_recount() -> bool {
    TRANSACTION.with_borrow(|transaction| !transaction.recounts.is_empty())
}

/// Slots of this key that this transaction gives back and has not taken again.
fn reusable(key: &str) -> u32 {
    TRANSACTION.with_borrow(|transaction| {
        let count = |what| transaction.changes.iter().filter(|c| c.what == what && c.key == key).count() as u32;
        count(What::Freed).saturating_sub(count(What::Reused))
    })
}

/// Takes one slot of each key, or none and says which is full.
pub fn take(wanted: &[(String, u32)]) -> Result<(), usize> {
    let database = my_database();
    // What this transaction gives back stays in use until it commits: by the lease that is to come.
    let is_new: Vec<bool> = wanted.iter().map(|(key, _)| reusable(key) == 0).collect();
    let new: Vec<usize> = (0..wanted.len()).filter(|number| is_new[*number]).collect();
    let slots: Vec<(Slot<'_>, u32)> =
        new.iter().map(|number| (Slot { database, key: &wanted[*number].0 }, wanted[*number].1)).collect();
    let taken = BOARD.exclusive().counters.take(&slots);
    if let Err(full) = taken {
        return Err(new[full]);
    }
    for ((key, _), is_new) in wanted.iter().zip(is_new) {
        note(if is_new { What::Taken } else { What::Reused }, key);
    }
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

/// Slots in use that this transaction could not take.
pub fn active(key: &str) -> u32 {
    BOARD.share().counters.active(Slot { database: my_database(), key }).saturating_sub(reusable(key))
}

/// How many of this key's slots are in use, and how many jobs wait for one.
pub fn counted(key: &str) -> (u32, u32) {
    let (board, slot) = (BOARD.share(), Slot { database: my_database(), key });
    (board.counters.active(slot), board.counters.blocked(slot))
}

/// The keys for which jobs wait. None: there was no room to remember them all.
pub fn waited_for() -> Option<Vec<String>> {
    let (board, me) = (BOARD.share(), my_database());
    if board.databases.iter().any(|database| database.id == me && database.crowded) {
        return None;
    }
    Some(board.counters.waited_for(me).map(|(key, _)| key.to_owned()).collect())
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
                What::Reused => drop(board.counters.add_active(slot, 1)),
                What::Freed => {
                    board.counters.add_active(slot, -1);
                    wanted |= board.counters.blocked(slot) > 0;
                }
                What::Blocked => {
                    wanted = true;
                    if !board.counters.add_blocked(slot, 1)
                        && let Some(database) = board.database(database)
                    {
                        database.crowded = true;
                    }
                }
                What::Unblocked => drop(board.counters.add_blocked(slot, -1)),
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

/// Lets another count, if this process was about to.
fn give_up_counting() {
    if COUNTING.replace(false) {
        let mut board = BOARD.exclusive();
        let me = State::Counting(process::Process::me().pid);
        if let Some(database) = board.database(my_database()).filter(|database| database.state == me) {
            database.state = State::Unknown;
        }
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
            if let Some((_, counts)) = transaction.recounts.last() {
                // The lock is still held, so that nobody else has taken a slot meanwhile.
                BOARD.exclusive().publish(my_database(), counts);
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
            give_up_counting();
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
            for (owner, _) in transaction.recounts.iter_mut().filter(|(owner, _)| *owner == sub) {
                *owner = parent;
            }
        }
        SUBXACT_EVENT_ABORT_SUB => {
            let (undone, kept) =
                std::mem::take(&mut transaction.changes).into_iter().partition(|c| c.subtransaction == sub);
            transaction.changes = kept;
            give_back(&undone);
            transaction.recounts.retain(|(owner, _)| *owner != sub);
            give_up_counting();
        }
        _ => {}
    });
}
