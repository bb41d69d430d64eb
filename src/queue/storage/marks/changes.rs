//! What this transaction has put into lanes and taken out of them. When it ends, this module puts the marks right and
//! wakes those who wait.

use super::{LaneName, MARKS, in_flight};
use crate::base::clock::{self, Micros};
use crate::journal::{self, End};
use crate::queue::waking::{self, notices, waiters};
use crate::server::my_database;
use crate::shared::{is_preloaded, seats};
use agentq_core::marks::{LATE_US, Position};
use std::cell::RefCell;

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
    /// Whether only some workers can run one of them.
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
    /// Whether a job was put among the waiting ones, or an ordering key among those without a head.
    waits: bool,
    /// Whether something else changed for which waiting claims must look again.
    wakes_all: bool,
}

thread_local!(static TRANSACTION: RefCell<Transaction> = RefCell::default());

/// Notes when this transaction has begun to put rows into lanes; `now` is asked once.
pub fn begin(now: impl FnOnce() -> Micros) {
    journal::open();
    TRANSACTION.with_borrow_mut(|transaction| {
        if transaction.began == 0 {
            transaction.began = now();
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
    journal::open();
    TRANSACTION.with_borrow_mut(|transaction| {
        transaction.behind |= behind || clock::is_shifted();
        transaction.waits |= lanes.iter().any(|lane| matches!(lane, LaneName::Waiting | LaneName::Heads));
        for lane in lanes {
            note(&mut transaction.entered, lane.tag(), priority, position);
        }
    });
}

/// Notes that a job was made ready, to wake claims that wait for it when this transaction commits. `for_some`: only
/// some workers can run it, so that all of these claims have to look.
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
pub fn wake_all_at_commit() {
    if is_preloaded() {
        journal::open();
        TRANSACTION.with_borrow_mut(|transaction| transaction.wakes_all = true);
    }
}

/// Tells those who wait what this transaction has brought.
fn tell(transaction: &Transaction) {
    let mut wake_engine = transaction.waits || transaction.wakes_all;
    let notify = waking::tells_listeners();
    for brought in &transaction.brought {
        let tag = LaneName::Kind(brought.queue_id, &brought.kind).tag();
        let called = if brought.for_some { usize::MAX } else { brought.jobs };
        waiters::wake(&[tag, LaneName::Any(brought.queue_id).tag()], called);
        if notify {
            wake_engine |= notices::add(tag, brought.queue_id, &brought.kind, brought.jobs);
        }
    }
    if transaction.wakes_all {
        seats::request_engine();
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
    journal::open();
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

/// What the end of a transaction, or of a part of it, means for the marks: its changes have become visible to others, or
/// have been undone.
pub fn at_end(end: End) {
    match end {
        End::Committed => {
            let mut transaction = TRANSACTION.take();
            let entered = std::mem::take(&mut transaction.entered);
            let late = clock::real_now().saturating_sub(transaction.began) > LATE_US;
            lower(&if late || transaction.behind { entered } else { uncovered(entered) });
            transaction.end_flight();
            tell(&transaction);
        }
        End::Prepared | End::RolledBack => {
            let transaction = TRANSACTION.take();
            put_back(&transaction.left);
            transaction.end_flight();
        }
        End::PartUndone { .. } => TRANSACTION.with_borrow(|transaction| put_back(&transaction.left)),
        End::PreparedEnded => doubt(),
        End::Committing | End::Preparing | End::PartKept { .. } => {}
    }
}

/// Jobs may have come to any lane of this database, or be due at another time: whoever waits for one looks again, and so do
/// the engine and the listeners.
fn doubt() {
    MARKS.exclusive().doubt(my_database());
    seats::bring_news();
    waiters::wake_all();
    waking::tell_of_jobs_anywhere();
    seats::wake_engine();
}

/// Those rows that no mark would lead a claim to.
fn uncovered(mut entered: Vec<Moved>) -> Vec<Moved> {
    if !entered.is_empty() {
        let marks = MARKS.share();
        entered.retain(|row| !marks.covers(row.tag, row.priority, row.position));
    }
    entered
}

impl Transaction {
    fn end_flight(&self) {
        if self.began != 0 {
            in_flight::end();
        }
    }
}
