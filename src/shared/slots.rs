//! Slots of concurrency limits, amounts of budgets, and jobs in lanes of their own, as all sessions count them.
//!
//! The truth is in the tables: each lease says which slots it holds and what it has reserved. This is the
//! count of them, which a claim asks and raises before it holds a job, so that a limit is never passed. It is
//! exact: a slot is taken here before its lease is written, and given back when the lease has gone for
//! everybody to see, or when the claim is rolled back. After a restart it is counted anew from the tables,
//! before anybody takes or gives back a slot.

use super::zeroed::{ValidAsZero, Zeroed, init_zeroed};
use super::{gauges, is_preloaded, my_database, notices, process, seats, waiters};
use crate::base::settings::Settings;
use crate::db::is_on_standby;
use agentq_core::counters::{Counters, Slot, Turn, Wanted};
use agentq_core::{budget, lane};
use pgrx::prelude::*;
use pgrx::{PgAtomic, PgLwLock, pg_shmem_init};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Keys that can be in use at once in the whole server.
const KEYS: usize = 16_384;
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
    /// Whether there was no room to count a job that waits, so that the tables must be asked.
    crowded: bool,
}

struct Board {
    counters: Counters<KEYS>,
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
static BOARD: PgLwLock<Zeroed<Board>> = unsafe { PgLwLock::new(c"agentq_slots") };
/// Whether jobs wait in any lane of their own, so that most claims need not ask the board.
static LANES_WAITED_IN: PgAtomic<AtomicBool> = unsafe { PgAtomic::new(c"agentq_lanes_waited_in") };
/// Whether there was no room for what is in use somewhere, so that nobody may rely on having asked before.
static INCOMPLETE: PgAtomic<AtomicBool> = unsafe { PgAtomic::new(c"agentq_slots_incomplete") };

pub fn init() {
    init_zeroed!(BOARD);
    pg_shmem_init!(LANES_WAITED_IN = AtomicBool::new(false));
    pg_shmem_init!(INCOMPLETE = AtomicBool::new(false));
}

/// What this transaction does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// It was taken, and counts already.
    Taken,
    Freed,
    /// What this transaction gives back was taken again by it, so that it never was free.
    Reused,
    /// So much of a budget was used for good.
    Spent,
    Blocked,
    Unblocked,
}

struct Change {
    subtransaction: pg_sys::SubTransactionId,
    what: What,
    key: String,
    amount: i64,
}

/// How much of a key is in use, and how many jobs wait for it.
#[derive(Default)]
pub struct Count {
    pub key: String,
    pub active: i64,
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
    // SAFETY: looks an id up among the server's databases.
    let is_gone = |id: &u32| unsafe {
        let key = pg_sys::Datum::from(pg_sys::Oid::from_u32(*id));
        let none = pg_sys::Datum::from(0);
        !pg_sys::SearchSysCacheExists(pg_sys::SysCacheIdentifier::DATABASEOID as i32, key, none, none, none)
    };
    let gone: Vec<u32> = known.into_iter().filter(is_gone).collect();
    gone.iter().for_each(|id| gauges::forget(*id));
    let mut board = BOARD.exclusive();
    gone.iter().for_each(|id| board.forget(*id));
    gone.len()
}

impl Board {
    fn tell_of_lanes(&self) {
        LANES_WAITED_IN.get().store(self.counters.is_waited().1, SeqCst);
    }

    /// Sets the counters of a database. False: there is no room for those of slots in use.
    fn publish(&mut self, id: u32, counts: &[Count]) -> bool {
        self.counters.clear(id);
        let (mut all, mut crowded) = (true, false);
        // What is in use first: those who wait can be found without this table.
        for count in counts.iter().filter(|count| count.active != 0) {
            all &= self.counters.add_active(Slot { database: id, key: &count.key }, count.active);
        }
        for count in counts.iter().filter(|count| count.blocked > 0) {
            crowded |= !self.counters.restore_blocked(Slot { database: id, key: &count.key }, count.blocked);
        }
        self.tell_of_lanes();
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

/// Counts anew when this transaction commits, with what was counted under a lock on the leases.
pub fn recount_at_commit(leases: pg_sys::Oid, counts: Vec<Count>) {
    if is_preloaded() {
        listen();
        BOARD.exclusive().of_leases(my_database(), leases.to_u32());
        TRANSACTION.with_borrow_mut(|transaction| {
            // A change of rules stands alone, so that what was noted are the jobs which it has let go: they are
            // counted with the rest.
            transaction.changes.clear();
            transaction.recounts.push((subtransaction(), counts));
        });
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

/// What this transaction gives back of this key and has not taken again. What was reserved of a budget may have
/// been used, so that it does not count.
fn reusable(key: &str) -> i64 {
    TRANSACTION.with_borrow(|transaction| {
        let sum = |what| -> i64 {
            transaction.changes.iter().filter(|c| c.what == what && c.key == key).map(|c| c.amount).sum()
        };
        match sum(What::Freed) {
            0 => 0,
            _ if key.starts_with(budget::START) => 0,
            freed => freed - sum(What::Reused),
        }
    })
}

/// Takes so much of each key, or nothing and says of which there is not enough.
pub fn take(wanted: &[Wanted<'_>]) -> Result<(), usize> {
    // What this transaction gives back stays in use until it commits: by the lease that is to come.
    let is_new: Vec<bool> = wanted.iter().map(|wish| reusable(wish.key) < wish.amount.max(1)).collect();
    let new: Vec<usize> = (0..wanted.len()).filter(|number| is_new[*number]).collect();
    let slots: Vec<Wanted<'_>> = new.iter().map(|number| wanted[*number]).collect();
    let taken = BOARD.exclusive().counters.take(my_database(), &slots);
    if let Err(full) = taken {
        return Err(new[full]);
    }
    for (wish, is_new) in wanted.iter().zip(is_new) {
        note(if is_new { What::Taken } else { What::Reused }, wish.key, wish.amount);
    }
    Ok(())
}

/// A lease with so much of this key has ended; it is free when this transaction commits.
pub fn free(key: &str, amount: i64) {
    note(What::Freed, key, amount);
}

/// So much of a budget was used, and counts when this transaction commits.
pub fn spend(key: &str, amount: i64) {
    note(What::Spent, key, amount);
}

/// A job was put among, or taken from, those that wait for this key, or in this lane.
pub fn blocked(key: &str) {
    note(What::Blocked, key, 1);
}

pub fn unblocked(key: &str) {
    note(What::Unblocked, key, 1);
}

fn note(what: What, key: &str, amount: i64) {
    if is_preloaded() {
        listen();
        let change = Change { subtransaction: subtransaction(), what, key: key.to_owned(), amount };
        TRANSACTION.with_borrow_mut(|transaction| transaction.changes.push(change));
    }
}

/// What is in use of a key that this transaction could not take.
pub fn active(key: &str) -> i64 {
    BOARD.share().counters.active(Slot { database: my_database(), key }) - reusable(key)
}

/// Whether there is not enough of a key for the job that was refused last, or for any.
pub fn is_full(key: &str, most: i64) -> bool {
    BOARD.share().counters.is_full(Slot { database: my_database(), key }, most, reusable(key))
}

/// Whether nothing is left of a key. If so, whoever waits is told when there is something again.
pub fn is_used_up(key: &str, most: i64) -> bool {
    let (slot, back) = (Slot { database: my_database(), key }, reusable(key));
    let (used_up, wanted) = {
        let board = BOARD.share();
        (board.counters.is_used_up(slot, most, back), board.counters.is_wanted(slot))
    };
    if !used_up || wanted {
        return used_up;
    }
    // It may have come back since.
    let mut board = BOARD.exclusive();
    let used_up = board.counters.is_used_up(slot, most, back);
    if used_up {
        board.counters.want(slot);
    }
    used_up
}

/// How much of this key is in use, and how many jobs wait for it.
pub fn counted(key: &str) -> (i64, u32) {
    let (board, slot) = (BOARD.share(), Slot { database: my_database(), key });
    (board.counters.active(slot), board.counters.blocked(slot))
}

/// The keys for which jobs wait. None: there was no room to remember them all.
pub fn waited_for() -> Option<Vec<String>> {
    let (board, me) = (BOARD.share(), my_database());
    if board.is_crowded(me) {
        return None;
    }
    let mut keys: Vec<String> = board.counters.waited_for(me).map(str::to_owned).collect();
    for key in entered(|key| !key.starts_with(lane::START)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Some(keys)
}

/// Whether jobs may wait in lanes of their own.
pub fn has_lanes() -> bool {
    LANES_WAITED_IN.get().load(SeqCst) || !entered(|key| key.starts_with(lane::START)).is_empty()
}

/// The keys and lanes of this kind for which this transaction has made jobs wait: nobody else knows of them yet.
fn entered(is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let entered = |change: &&Change| change.what == What::Blocked && is_meant(&change.key);
    TRANSACTION.with_borrow(|transaction| {
        transaction.changes.iter().filter(entered).map(|change| change.key.clone()).collect()
    })
}

/// The lanes of a queue in which jobs wait and that this worker may read, those that have had least first, so
/// many at most; and what those without a fairness key have had. `slots`: how many slots a fairness key has, if
/// it has a limit. None: there was no room to remember them all.
pub fn lanes(
    queue: i32,
    most: usize,
    capabilities: &[String],
    slots: impl Fn(&str) -> Option<u32>,
) -> Option<(Vec<Turn>, (u64, u64))> {
    let (board, me) = (BOARD.share(), my_database());
    if board.is_crowded(me) {
        return None;
    }
    let full: RefCell<BTreeSet<String>> = RefCell::default();
    let is_full = |counters: &Counters<KEYS>, key: &str| {
        let slot = Slot { database: me, key };
        let most = if key.is_empty() { None } else { slots(key) };
        let is_full = most.is_some_and(|most| counters.is_used_up(slot, most.into(), reusable(key)));
        if is_full && !counters.is_wanted(slot) {
            full.borrow_mut().insert(key.to_owned());
        }
        is_full
    };
    let may = |counters: &Counters<KEYS>, lane: lane::Lane<'_>| {
        lane.admits(capabilities) && !is_full(counters, lane.fairness_key)
    };
    let mut found = board.counters.lanes(me, queue, most, may);
    let turn = board.counters.turn_without_key(me, queue);
    for name in entered(|key| key.starts_with(lane::START)) {
        if !found.iter().any(|other| other.lane == name)
            && let Some(lane) = lane::Lane::parse(&name).filter(|lane| lane.queue_id == queue)
            && may(&board.counters, lane)
        {
            found.push(Turn { had: turn, turn, group: lane.group(), lane: name.clone() });
        }
    }
    let had = board.counters.had_without_key(me, queue);
    drop(board);
    // What has come back in between, a waiting claim is to look for again.
    if full.take().into_iter().any(|key| !slots(&key).is_some_and(|most| is_used_up(&key, most.into()))) {
        waiters::wake_all();
    }
    Some((found, (had, turn)))
}

/// So many jobs of a group of a queue's lanes were given out, each with this share of its turn.
pub fn served(queue: i32, group: u32, share: u64, jobs: u64) {
    BOARD.exclusive().counters.served(my_database(), queue, group, share, jobs);
}

/// Those without a fairness key had nothing when their turn came.
pub fn passed_over(queue: i32) {
    BOARD.exclusive().counters.passed_over(my_database(), queue);
}

/// Applies what a transaction that has committed did, beyond what counts already.
fn settle(changes: &[Change]) {
    if changes.iter().all(|change| change.what == What::Taken) {
        return;
    }
    let (mut wanted, mut told) = (false, false);
    {
        let mut board = BOARD.exclusive();
        for change in changes {
            let slot = Slot { database: my_database(), key: &change.key };
            match change.what {
                What::Taken => {}
                What::Reused | What::Spent => drop(board.counters.add_active(slot, change.amount)),
                What::Freed => told |= board.counters.give_back(slot, change.amount),
                What::Blocked => {
                    // Those who wait for a job are told of one in a lane of its own as of any other.
                    wanted |= !change.key.starts_with(lane::START);
                    board.block(slot);
                }
                What::Unblocked => drop(board.counters.add_blocked(slot, -1)),
            }
        }
        board.tell_of_lanes();
    }
    if told {
        tell_listeners();
    }
    if wanted || told {
        waiters::wake_all();
    }
}

impl Board {
    fn block(&mut self, slot: Slot<'_>) {
        if !self.counters.add_blocked(slot, 1)
            && let Some(database) = self.database(slot.database)
        {
            database.crowded = true;
        }
    }

    fn is_crowded(&self, id: u32) -> bool {
        self.databases.iter().any(|database| database.id == id && database.crowded)
    }
}

/// Forgets what is in use of these keys: they are not counted any more.
pub fn forget(is_meant: impl Fn(&str) -> bool) {
    if is_preloaded() {
        BOARD.exclusive().counters.forget(my_database(), is_meant);
    }
}

/// Tells listeners that jobs which waited for a limit may run: of which queue and kind they are, is not known.
pub fn tell_listeners() {
    let notify = Settings::loaded().is_none_or(|settings| settings.notify_enabled) && seats::engine_runs();
    if notify && notices::add(1, 0, "", 1) {
        seats::wake_engine();
    }
}

fn give_back(changes: &[Change]) {
    if !changes.iter().any(|change| change.what == What::Taken) {
        return;
    }
    let (database, mut told) = (my_database(), false);
    {
        let mut board = BOARD.exclusive();
        for change in changes.iter().filter(|change| change.what == What::Taken) {
            told |= board.counters.give_back(Slot { database, key: &change.key }, change.amount);
        }
    }
    if told {
        waiters::wake_all();
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
            "a transaction that takes or frees slots of a limit, changes one, or has to do with jobs in lanes of their own, cannot be prepared",
            "Commit it, or leave jobs with limits, fairness keys or required capabilities to a transaction of their own.",
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
