//! The scan marks in shared memory, and what keeps them right at commit and rollback.
//!
//! `agentq_core::mark` has the rules and their proof; this module gives them a place that all
//! sessions share, the moments of commit and rollback, and the list of inserts in flight. Without
//! `shared_preload_libraries` there is no shared memory: every reading then answers "unknown", and
//! each claim looks for itself.

#![allow(unsafe_code, reason = "shared memory and transaction callbacks")]

use crate::base::clock::{self, Micros};
use crate::base::settings::Settings;
use crate::db;
use crate::shared::{is_preloaded, notices, seats, waiters};
use agentq_core::mark::{LATE_US, Lane, Position, Slot, Table};
use pgrx::prelude::*;
use pgrx::{AssertPGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use std::cell::{Cell, RefCell};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// Lanes remembered at once in the whole server.
const LANES: usize = 1024;
/// Sessions whose inserts in flight can be seen. One beyond treats each of its inserts as late.
const SEATS: usize = 4096;
/// A session that has begun to insert but has not yet read the clock.
const BEGINNING: i64 = i64::MIN;
const IDLE: i64 = i64::MAX;

// SAFETY: the names are agentq's own.
static MARKS: PgLwLock<AssertPGRXSharedMemory<Table<LANES>>> = unsafe { PgLwLock::new(c"agentq_marks") };
static IN_FLIGHT: PgAtomic<[AtomicI64; SEATS]> = unsafe { PgAtomic::new(c"agentq_in_flight") };

pub fn init() {
    // SAFETY: the table holds no pointers.
    pg_shmem_init!(MARKS = unsafe { AssertPGRXSharedMemory::new(Table::default()) });
    pg_shmem_init!(IN_FLIGHT = [const { AtomicI64::new(IDLE) }; SEATS]);
}

/// Names a lane: the ready rows of a queue (of one kind, or of any), or one of the two others.
#[derive(Clone, Copy, Hash)]
pub enum LaneName<'a> {
    Kind(i32, &'a str),
    Any(i32),
    /// Jobs of a queue, of one kind or any, that wait for a slot of this key.
    Blocked(&'a str, i32, Option<&'a str>),
    Waiting,
    Leases,
}

/// The tags of the lanes of one queue and kind, and of any kind: a session has mostly to do with one of them.
struct Tags {
    database: pg_sys::Oid,
    queue_id: i32,
    kind: String,
    of_kind: u64,
    of_any: u64,
}

thread_local!(static TAGS: RefCell<Option<Tags>> = const { RefCell::new(None) });

impl LaneName<'_> {
    pub fn tag(self) -> u64 {
        // SAFETY: a plain variable of the server's.
        let database = unsafe { pg_sys::MyDatabaseId };
        TAGS.with_borrow_mut(|kept| {
            let here = |tags: &&mut Tags, queue_id: i32| tags.database == database && tags.queue_id == queue_id;
            match (self, kept.as_mut()) {
                (LaneName::Kind(queue_id, kind), Some(tags)) if here(&tags, queue_id) && tags.kind == kind => {
                    tags.of_kind
                }
                (LaneName::Any(queue_id), Some(tags)) if here(&tags, queue_id) => tags.of_any,
                (LaneName::Kind(queue_id, kind), _) => {
                    let (of_kind, of_any) = (self.hashed(), LaneName::Any(queue_id).hashed());
                    *kept = Some(Tags { database, queue_id, kind: kind.to_owned(), of_kind, of_any });
                    of_kind
                }
                _ => self.hashed(),
            }
        })
    }

    fn hashed(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        // SAFETY: a plain variable of the server's.
        unsafe { pg_sys::MyDatabaseId }.to_u32().hash(&mut hasher);
        self.hash(&mut hasher);
        hasher.finish().max(1)
    }
}

/// What a scan may rely on. Taken before the scan's snapshot.
pub struct Reading {
    tag: u64,
    generation: u64,
    cap: Micros,
    usable: bool,
    pub slots: Option<Vec<Slot>>,
    pub may_look: bool,
}

impl Reading {
    pub fn of(lane: LaneName<'_>) -> Reading {
        let mut reading = Reading {
            tag: lane.tag(),
            generation: 0,
            cap: IDLE,
            usable: is_preloaded() && !db::has_fixed_snapshot() && !clock::is_shifted(),
            slots: None,
            may_look: true,
        };
        if !is_preloaded() {
            return reading;
        }
        let now = clock::real_now();
        // Every row that enters the waiting lane lowers its mark at commit, whatever its time, so
        // that this mark needs no cap and may point at the next job to fall due. That of the leases
        // is no more than the time of the next to expire as of the last look.
        if !matches!(lane, LaneName::Waiting | LaneName::Leases) {
            reading.cap = oldest_insert(now).min(now);
        }
        if let Some(lane) = MARKS.share().find(reading.tag) {
            reading.generation = lane.generation();
            reading.may_look = lane.may_look(now);
            reading.slots = lane.slots().map(<[Slot]>::to_vec).filter(|_| !Lane::must_look(lane, now));
        }
        reading
    }

    /// Announces a full look; `learn` is to follow with what it found.
    pub fn begin_look(&mut self) -> Look {
        let began = clock::real_now();
        if self.usable {
            self.generation = MARKS.exclusive().begin_look(self.tag, began);
        }
        Look { began }
    }

    pub fn learn(&self, look: &Look, found: &[Slot]) {
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
    pub fn raise_all(&self, slots: &[Slot]) {
        if self.usable && !slots.is_empty() {
            let mut marks = MARKS.exclusive();
            for slot in slots {
                marks.raise(self.tag, self.generation, slot.priority, Position::at(IDLE), self.cap);
            }
        }
    }
}

pub struct Look {
    began: Micros,
}

/// When the oldest insert in flight began, leaving out those that will count as late anyway.
fn oldest_insert(now: Micros) -> Micros {
    // SAFETY: a plain variable of the server's.
    let seats = (unsafe { pg_sys::MaxBackends } as usize + 1).min(SEATS);
    let seen = IN_FLIGHT.get()[..seats].iter().map(|seat| seat.load(SeqCst));
    seen.filter(|began| *began == BEGINNING || now - began <= LATE_US).min().unwrap_or(IDLE)
}

/// A row that this transaction put into, or took out of, a lane.
struct Moved {
    tag: u64,
    priority: i32,
    position: Position,
}

/// Jobs of one kind that this transaction has made ready.
struct Brought {
    queue_id: i32,
    kind: String,
    jobs: usize,
    /// Whether not everybody can run one of them.
    for_some: bool,
}

#[derive(Default)]
struct Transaction {
    began: Micros,
    entered: Vec<Moved>,
    /// Whether any row entered behind the present moment.
    behind: bool,
    left: Vec<Moved>,
    brought: Vec<Brought>,
    /// Whether a job was put among the waiting ones.
    waits: bool,
    /// Whether something else changed for which waiting claims must look again.
    stirs: bool,
}

thread_local! {
    static TRANSACTION: RefCell<Transaction> = RefCell::default();
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

fn seat() -> Option<&'static AtomicI64> {
    // SAFETY: a plain variable of the server's.
    IN_FLIGHT.get().get(unsafe { pg_sys::MyBackendId } as usize)
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

/// When the next waiting job falls due, as far as the marks know.
pub fn next_due() -> Option<Micros> {
    let slots = Reading::of(LaneName::Waiting).slots?;
    slots.first().map(|slot| slot.from.at)
}

/// Says that this transaction is about to put rows into a lane. To be called before the time that
/// those rows carry is read.
pub fn announce() {
    if !is_preloaded() {
        return;
    }
    listen();
    TRANSACTION.with_borrow_mut(|transaction| {
        if transaction.began == 0 {
            if let Some(seat) = seat() {
                seat.store(BEGINNING, SeqCst);
                transaction.began = clock::real_now();
                seat.store(transaction.began, SeqCst);
            } else {
                transaction.began = BEGINNING;
            }
        }
    });
}

fn note(list: &mut Vec<Moved>, tag: u64, priority: i32, position: Position) {
    match list.iter_mut().find(|m| m.tag == tag && m.priority == priority) {
        Some(moved) => moved.position = moved.position.min(position),
        None => list.push(Moved { tag, priority, position }),
    }
}

/// A row has been put into these lanes. `behind`: at a time that may lie before the present.
pub fn entered(lanes: &[LaneName<'_>], priority: i32, position: Position, behind: bool) {
    if !is_preloaded() {
        return;
    }
    listen();
    TRANSACTION.with_borrow_mut(|transaction| {
        transaction.behind |= behind || clock::is_shifted();
        transaction.waits |= lanes.iter().any(|lane| matches!(lane, LaneName::Waiting));
        for lane in lanes {
            note(&mut transaction.entered, lane.tag(), priority, position);
        }
    });
}

/// A job has been made ready: claims that wait for it are woken when this transaction commits.
/// `for_some`: not everybody can run it, so that all of them are to look.
pub fn brought(queue_id: i32, kind: &str, for_some: bool) {
    if !is_preloaded() {
        return;
    }
    TRANSACTION.with_borrow_mut(|transaction| {
        match transaction.brought.iter_mut().find(|b| b.queue_id == queue_id && b.kind == kind) {
            Some(brought) => (brought.jobs, brought.for_some) = (brought.jobs + 1, brought.for_some || for_some),
            None => transaction.brought.push(Brought { queue_id, kind: kind.to_owned(), jobs: 1, for_some }),
        }
    });
}

/// Something has changed for which every waiting claim must look again when this transaction commits.
pub fn stir() {
    if is_preloaded() {
        listen();
        TRANSACTION.with_borrow_mut(|transaction| transaction.stirs = true);
    }
}

/// Tells those who wait what this transaction has brought.
fn tell(transaction: &Transaction) {
    let mut wake_engine = transaction.waits || transaction.stirs;
    // Without the engine nobody would tell.
    let notify = Settings::loaded().is_none_or(|settings| settings.notify_enabled) && seats::engine_runs();
    for brought in &transaction.brought {
        let tag = LaneName::Kind(brought.queue_id, &brought.kind).tag();
        let called = if brought.for_some { usize::MAX } else { brought.jobs };
        waiters::wake(&[tag, LaneName::Any(brought.queue_id).tag()], called);
        if notify {
            wake_engine |= notices::add(tag, brought.queue_id, &brought.kind, brought.jobs);
        }
    }
    if transaction.stirs {
        seats::want();
        seats::bring_news();
        waiters::wake_all();
    }
    if wake_engine {
        seats::wake_engine();
    }
}

/// Whether this transaction has put rows into a lane, which the marks do not know before it commits.
pub fn has_entered() -> bool {
    TRANSACTION.with_borrow(|transaction| !transaction.entered.is_empty())
}

/// A row has been taken out of these lanes; it comes back if the transaction is rolled back.
pub fn left(lanes: &[LaneName<'_>], priority: i32, position: Position) {
    if !is_preloaded() {
        return;
    }
    listen();
    TRANSACTION.with_borrow_mut(|transaction| {
        for lane in lanes {
            note(&mut transaction.left, lane.tag(), priority, position);
        }
    });
}

fn lower(moved: &[Moved]) {
    if !moved.is_empty() {
        let mut marks = MARKS.exclusive();
        for row in moved {
            marks.lower(row.tag, row.priority, row.position);
        }
    }
}

/// What was taken is there again: for the marks, and for claims that wait.
fn put_back(left: &[Moved]) {
    lower(left);
    for row in left {
        waiters::wake(&[row.tag], usize::MAX);
    }
}

/// Runs after the transaction's changes have become visible to others, or have been undone.
#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::*;
    if !matches!(event, XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE) {
        return;
    }
    let mut transaction = TRANSACTION.take();
    if event == XACT_EVENT_COMMIT {
        let entered = std::mem::take(&mut transaction.entered);
        let late = clock::real_now().saturating_sub(transaction.began) > LATE_US;
        if late || transaction.behind {
            lower(&entered);
        } else {
            let mut uncovered = entered;
            if !uncovered.is_empty() {
                let marks = MARKS.share();
                uncovered.retain(|row| !marks.covers(row.tag, row.priority, row.position));
            }
            lower(&uncovered);
        }
    } else {
        put_back(&transaction.left);
    }
    if transaction.began != 0
        && let Some(seat) = seat()
    {
        seat.store(IDLE, SeqCst);
    }
    if event == XACT_EVENT_COMMIT {
        tell(&transaction);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subtransaction_end(
    event: pg_sys::SubXactEvent::Type,
    _sub: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    if event == pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB {
        TRANSACTION.with_borrow(|transaction| put_back(&transaction.left));
    }
}
