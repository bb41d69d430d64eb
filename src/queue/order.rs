//! Ordering keys: jobs of a queue with the same key run one at a time, in order, across retries.
//!
//! One job of each key is at its head, and only that one is where claims find it, or waits for its time
//! or its next try. The others stand among the blocked ones, until the head has finished and the next is
//! put in its place, by the same transaction. An enqueue shares the key's row while it puts its job behind
//! the head, so that a head that finishes meanwhile waits for it and sees it.

use super::new_job::NewJob;
use super::place::Place;
use super::rows::job_blocked;
use crate::base::clock::Micros;
use crate::db::{self, Db, statement};
use crate::error::run_again;
use crate::table::{Deleted, Key, Moment, Scan, Table};
use pgrx::Uuid;
use std::collections::HashSet;

statement!(ORDER_LEAD, "sql/order_lead.sql", [INT4OID, TEXTOID, UUIDOID]);
statement!(ORDER_FOLLOW, "sql/order_follow.sql", [INT4OID, TEXTOID]);
statement!(ORDER_LOCK, "sql/order_lock.sql", [INT4OID, TEXTOID, UUIDOID]);
statement!(ORDER_TRY, "sql/order_try.sql", [INT4OID, TEXTOID, UUIDOID]);
statement!(ORDER_IS_HEAD, "sql/order_is_head.sql", [INT4OID, TEXTOID, UUIDOID]);
statement!(ORDER_PASS, "sql/order_pass.sql", [INT4OID, TEXTOID, UUIDOID]);
statement!(ORDER_END, "sql/order_end.sql", [INT4OID, TEXTOID]);
statement!(ORDER_OF, "sql/order_of.sql", [UUIDOID]);

pub const LONGEST_KEY: usize = 90;
/// What the key begins with, where a blocked row or a lease names it.
const START: &str = "order:";

/// The key that a blocked row or a lease names, if it is one of these.
pub fn key_in(name: &str) -> Option<&str> {
    name.strip_prefix(START)
}

pub fn name_of(key: &str) -> String {
    format!("{START}{key}")
}

/// Which of these new jobs stand behind others of their key.
pub fn followers(jobs: &[NewJob<'_>]) -> HashSet<Uuid> {
    let mut ordered: Vec<(i32, &str, Uuid)> =
        jobs.iter().filter_map(|job| Some((job.queue.queue_id, job.terms.ordering_key.as_deref()?, job.id))).collect();
    if ordered.is_empty() {
        return HashSet::new();
    }
    // In one order for all, so that two batches with the same keys cannot wait for each other.
    ordered.sort_by(|one, other| (one.0, one.1, one.2.as_bytes()).cmp(&(other.0, other.1, other.2.as_bytes())));
    db::connect(|db| ordered.iter().filter(|(queue, key, id)| !leads(db, *queue, key, *id)).map(|job| job.2).collect())
}

/// Makes the job the head of its key, if that has none.
fn leads(db: &Db, queue_id: i32, key: &str, job_id: Uuid) -> bool {
    for _ in 0..100 {
        if !db.run(&ORDER_LEAD, &[queue_id.into(), key.into(), job_id.into()]).is_empty() {
            return true;
        }
        // Waits for a head that is finishing; there may be none after that.
        if !db.run(&ORDER_FOLLOW, &[queue_id.into(), key.into()]).is_empty() {
            return false;
        }
    }
    run_again(format!("the ordering key \"{}\" keeps changing hands", agentq_core::error::shown(key)))
}

/// A job has finished: the next of its key, if it has one and was at its head, takes its place.
pub fn finished(db: &Db, job_id: Uuid, now: Micros) {
    let row = db.run(&ORDER_OF, &[job_id.into()]);
    if !row.is_empty() {
        advance(db, row.must(1), &row.must::<String>(2), job_id, now);
    }
}

/// Whether the job may be ended without waiting for anybody: not while someone is putting another behind it.
/// Whoever ends jobs on behalf of all asks this first, and leaves such a job for later.
pub fn may_finish_now(db: &Db, job_id: Uuid) -> bool {
    let row = db.run(&ORDER_OF, &[job_id.into()]);
    if row.is_empty() {
        return true;
    }
    let (queue_id, key): (i32, String) = (row.must(1), row.must(2));
    let is_there = |statement| !db.run(statement, &[queue_id.into(), key.as_str().into(), job_id.into()]).is_empty();
    is_there(&ORDER_TRY) || !is_there(&ORDER_IS_HEAD)
}

/// Lets the next ones in behind jobs that have finished together: in one order for all, so that two who do
/// cannot wait for each other, nor for a batch that is enqueued.
pub fn advance_all(mut heads: Vec<(i32, String, Uuid)>, now: Micros) {
    if heads.is_empty() {
        return;
    }
    heads.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    db::connect(|db| heads.iter().for_each(|(queue_id, key, job_id)| advance(db, *queue_id, key, *job_id, now)));
}

/// The same, for a job whose key is known.
pub fn advance(db: &Db, queue_id: i32, key: &str, job_id: Uuid, now: Micros) {
    // Waits for those who are putting a job behind this one, and then sees what they have put.
    if db.run(&ORDER_LOCK, &[queue_id.into(), key.into(), job_id.into()]).is_empty() {
        return;
    }
    match next(queue_id, key) {
        None => drop(db.run(&ORDER_END, &[queue_id.into(), key.into()])),
        Some((next, keyed)) => {
            db.run(&ORDER_PASS, &[queue_id.into(), key.into(), next.job_id.into()]);
            next.enter_unseen(keyed, now);
        }
    }
}

/// Takes the first of those that stand behind the head, also in a transaction that keeps an old snapshot.
fn next(queue_id: i32, key: &str) -> Option<(Place, bool)> {
    let blocked = Table::open(&job_blocked::TABLE);
    let name = name_of(key);
    loop {
        pgrx::check_for_interrupts!();
        let moment = Moment::latest();
        let equal = [Key::Text(&name), Key::Int(queue_id)];
        let mut scan = Scan::begin(&blocked, &moment, c"job_blocked_any_idx", &equal, None);
        if !scan.next() {
            return None;
        }
        // Someone may be cancelling it: then there is another.
        if blocked.delete(&scan, true) == Deleted::Yes {
            let place = Place {
                job_id: scan.id(job_blocked::job_id),
                queue_id,
                job_kind: String::from_utf8_lossy(scan.bytes(job_blocked::job_kind)).into_owned(),
                priority: scan.int(job_blocked::priority),
                scheduled_at: scan.time(job_blocked::scheduled_at),
                blocked_by: Some(name.clone()),
            };
            place.left_ready();
            return Some((Place { blocked_by: None, ..place }, scan.bool(job_blocked::keyed)));
        }
    }
}
