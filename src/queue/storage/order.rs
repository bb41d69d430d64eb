//! Ordering keys: jobs of a queue with the same key run one at a time, in order, across retries.
//!
//! One job of each key is at its head, and only that one is where claims find it, or waits for its time
//! or its next try. The others stand in the line behind it, until the head has finished and the next is
//! put in its place, by the same transaction. An enqueue shares the key's row while it puts its job behind
//! the head, so that a head that finishes meanwhile waits for it and sees it.

use super::place::Place;
use crate::base::clock::Micros;
use crate::db::{self, Db, statements};
use crate::error::run_again;
use crate::queue::rows::job_line;
use crate::table::{Deleted, Key, Moment, Scan, Table};
use agentq_core::line::Line;
use pgrx::Uuid;
use std::collections::HashSet;

statements!("order.sql": ORDER_LEAD, ORDER_FOLLOW, ORDER_LOCK, ORDER_TRY, ORDER_IS_HEAD, ORDER_PASS, ORDER_END, ORDER_OF);

/// Which of these new jobs, each with its queue and ordering key, stand behind others of their key.
pub fn followers(mut ordered: Vec<(i32, &str, Uuid)>) -> HashSet<Uuid> {
    if ordered.is_empty() {
        return HashSet::new();
    }
    // All sessions keep this order, so that two batches with the same keys cannot wait for each other.
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
        advance(db, row.must("queue_id"), &row.must::<String>("ordering_key"), job_id, now);
    }
}

/// Whether the job may be ended without waiting for anybody: not while someone is putting another behind it.
/// Whoever ends jobs on behalf of all asks this first, and leaves such a job for later.
pub fn may_finish_now(db: &Db, job_id: Uuid) -> bool {
    let row = db.run(&ORDER_OF, &[job_id.into()]);
    if row.is_empty() {
        return true;
    }
    let (queue_id, key): (i32, String) = (row.must("queue_id"), row.must("ordering_key"));
    let is_there = |statement| !db.run(statement, &[queue_id.into(), key.as_str().into(), job_id.into()]).is_empty();
    is_there(&ORDER_TRY) || !is_there(&ORDER_IS_HEAD)
}

/// Puts the next job of each key in the place of those that have finished together. It keeps one order of keys, so that
/// two sessions which do this cannot wait for each other, nor for a batch that is being enqueued.
pub fn advance_all(mut heads: Vec<(i32, String, Uuid)>, now: Micros) {
    if heads.is_empty() {
        return;
    }
    heads.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    db::connect(|db| heads.iter().for_each(|(queue_id, key, job_id)| advance(db, *queue_id, key, *job_id, now)));
}

/// Puts the next job of a key in the place of one that was at its head and has finished.
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
    let lines = Table::open(&job_line::TABLE);
    let line = Line::behind(key);
    loop {
        pgrx::check_for_interrupts!();
        let moment = Moment::latest();
        let equal = [Key::Text(line.name()), Key::Int(queue_id)];
        let mut scan = Scan::begin(&lines, &moment, c"job_line_any_idx", &equal, None);
        if !scan.next() {
            return None;
        }
        // Someone may be cancelling it: then there is another.
        if lines.delete(&scan, true) == Deleted::Yes {
            let place = Place {
                job_id: scan.id(job_line::job_id),
                queue_id,
                job_kind: scan.text(job_line::job_kind),
                priority: scan.int(job_line::priority),
                scheduled_at: scan.time(job_line::scheduled_at),
                line: Some(line.clone()),
            };
            place.left();
            return Some((Place { line: None, ..place }, scan.bool(job_line::keyed)));
        }
    }
}
