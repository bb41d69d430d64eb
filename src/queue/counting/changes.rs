//! What this transaction has taken, given back and put into lines, until it ends.
//!
//! A slot is taken on the board before its lease is written, so that a limit is never passed. It is given back when the
//! lease has gone for everybody to see, or when the claim is rolled back.

use super::board::{self, BOARD, Counts};
use crate::journal::{self, End};
use crate::queue::waking::{self, waiters};
use crate::server::{my_database, subtransaction};
use crate::shared::is_preloaded;
use agentq_core::counters::{CounterDemand, CounterKey};
use agentq_core::line::{Line, is_budget, is_fair};
use agentq_core::turns::kind_bit;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What this transaction does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// It was taken, and counts already.
    Taken,
    Freed,
    /// What this transaction gives back was taken again by it, so that it never was free.
    Reused,
    /// An amount of a budget was used for good.
    Spent,
    /// A job was put into the line.
    Joined,
    /// A job was taken out of it.
    Left,
}

struct Change {
    subtransaction: pg_sys::SubTransactionId,
    what: What,
    key: String,
    amount: i64,
    /// Of what kind the job is that was put into a line.
    kinds: u64,
}

#[derive(Default)]
struct Transaction {
    changes: Vec<Change>,
    /// Counted under a lock that keeps leases as they are until it commits; the last one holds.
    recounts: Vec<(pg_sys::SubTransactionId, Counts)>,
}

thread_local!(static TRANSACTION: RefCell<Transaction> = RefCell::default());

/// Counts anew when this transaction commits, with what was counted under a lock on the leases.
pub fn recount_at_commit(leases: pg_sys::Oid, counts: Counts) {
    if is_preloaded() {
        journal::open();
        board::know_leases(leases);
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
pub fn reusable(key: &str) -> i64 {
    TRANSACTION.with_borrow(|transaction| {
        let sum = |what| -> i64 {
            transaction.changes.iter().filter(|c| c.what == what && c.key == key).map(|c| c.amount).sum()
        };
        match sum(What::Freed) {
            0 => 0,
            _ if is_budget(key) => 0,
            freed => freed - sum(What::Reused),
        }
    })
}

/// Takes the amount of each key, or nothing and says of which there is not enough.
pub fn take(wanted: &[CounterDemand<'_>]) -> Result<(), usize> {
    // What this transaction gives back stays in use until it commits: by the lease that is to come.
    let is_new: Vec<bool> = wanted.iter().map(|wish| reusable(wish.key) < wish.amount.max(1)).collect();
    let new: Vec<usize> = (0..wanted.len()).filter(|number| is_new[*number]).collect();
    let slots: Vec<CounterDemand<'_>> = new.iter().map(|number| wanted[*number]).collect();
    let taken = BOARD.exclusive().take(my_database(), &slots);
    if let Err(full) = taken {
        return Err(new[full]);
    }
    for (wish, is_new) in wanted.iter().zip(is_new) {
        note(if is_new { What::Taken } else { What::Reused }, wish.key, wish.amount);
    }
    Ok(())
}

/// A lease with this amount of a key has ended; it is free when this transaction commits.
pub fn free(key: &str, amount: i64) {
    note(What::Freed, key, amount);
}

/// An amount of a budget was used, and counts when this transaction commits.
pub fn spend(key: &str, amount: i64) {
    note(What::Spent, key, amount);
}

/// A job was put into a line. Those behind the head of an ordering key are not counted.
pub fn joined(line: &Line, kind: &str) {
    if !line.is_order() {
        note_kind(What::Joined, line.name(), 1, kind_bit(kind));
    }
}

/// A job was taken out of a line.
pub fn left(line: &Line) {
    if !line.is_order() {
        note(What::Left, line.name(), 1);
    }
}

fn note(what: What, key: &str, amount: i64) {
    note_kind(what, key, amount, 0);
}

fn note_kind(what: What, key: &str, amount: i64, kinds: u64) {
    if is_preloaded() {
        journal::open();
        let change = Change { subtransaction: subtransaction(), what, key: key.to_owned(), amount, kinds };
        TRANSACTION.with_borrow_mut(|transaction| transaction.changes.push(change));
    }
}

/// The names of lines of this kind into which this transaction has put jobs: nobody else knows of them yet.
pub fn entered(is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let entered = |change: &&Change| change.what == What::Joined && is_meant(&change.key);
    TRANSACTION.with_borrow(|transaction| {
        transaction.changes.iter().filter(entered).map(|change| change.key.clone()).collect()
    })
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
            let counter = CounterKey { database: my_database(), key: &change.key };
            match change.what {
                What::Taken => {}
                What::Reused | What::Spent => board.use_up(counter, change.amount),
                What::Freed => told |= board.counters.give_back(counter, change.amount),
                What::Joined => {
                    // Those who wait for a job are told of one in a fair line as of any other.
                    wanted |= !is_fair(&change.key);
                    board.block(counter, change.kinds);
                }
                What::Left => board.unblock(counter),
            }
        }
        board.tell_of_fair_lines();
    }
    if told {
        waking::tell_of_jobs_anywhere();
    }
    if wanted || told {
        waiters::wake_all();
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
            told |= board.counters.give_back(CounterKey { database, key: &change.key }, change.amount);
        }
    }
    if told {
        waiters::wake_all();
    }
}

/// What the end of a transaction, or of a part of it, means for the board.
pub fn at_end(end: End) {
    match end {
        End::Preparing if is_in_use() || will_recount() => crate::error::raise(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "a transaction that takes or frees slots of a limit, changes one, or has to do with jobs in fair lines, cannot be prepared",
            "Commit it, or leave jobs with limits, fairness keys or required capabilities to a transaction of their own.",
        ),
        // What was prepared has no part in any count.
        End::Committing | End::Preparing | End::PreparedEnded => {}
        End::Committed => {
            let transaction = TRANSACTION.take();
            if let Some((_, counts)) = transaction.recounts.last() {
                // The lock is still held, so that nobody else has taken a slot meanwhile.
                BOARD.exclusive().publish(my_database(), counts);
            }
            if !transaction.changes.is_empty() {
                settle(&transaction.changes);
            }
        }
        End::Prepared => drop(TRANSACTION.take()),
        End::RolledBack => {
            let transaction = TRANSACTION.take();
            if !transaction.changes.is_empty() {
                give_back(&transaction.changes);
                waiters::wake_all();
            }
            board::give_up_counting();
        }
        End::PartKept { part, parent } => keep_part(part, parent),
        End::PartUndone { part } => undo_part(part),
    }
}

fn keep_part(part: pg_sys::SubTransactionId, parent: pg_sys::SubTransactionId) {
    TRANSACTION.with_borrow_mut(|transaction| {
        for change in transaction.changes.iter_mut().filter(|change| change.subtransaction == part) {
            change.subtransaction = parent;
        }
        for (owner, _) in transaction.recounts.iter_mut().filter(|(owner, _)| *owner == part) {
            *owner = parent;
        }
    });
}

fn undo_part(part: pg_sys::SubTransactionId) {
    TRANSACTION.with_borrow_mut(|transaction| {
        let all = std::mem::take(&mut transaction.changes);
        let (undone, kept): (Vec<Change>, Vec<Change>) = all.into_iter().partition(|c| c.subtransaction == part);
        transaction.changes = kept;
        give_back(&undone);
        transaction.recounts.retain(|(owner, _)| *owner != part);
    });
    board::give_up_counting();
}
