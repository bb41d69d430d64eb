//! Ordering keys: jobs of a queue with the same key run one at a time, in order, across retries.
//!
//! One job of each key is at its head, and only that one is where claims find it, or waits for its time
//! or its next try. The others stand in the line behind it, until the head has finished and the next is
//! put in its place, by the same transaction if it can. An enqueue shares the key's row while it puts its job behind
//! the head, so that nobody removes that row meanwhile.
//!
//! The end of a head waits for nobody. Where someone is in its way, it notes that the key is without a head, and the
//! engine, or the next claim, goes on from there (`pass_on`).

use super::marks::{self, LaneName, Reading};
use super::place::Place;
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::error::run_again;
use crate::queue::rows::job_line;
use crate::server::has_fixed_snapshot;
use crate::shared::is_preloaded;
use crate::table::{Deleted, Key, Moment, Scan, Table};
use agentq_core::backoff::backoff_seconds;
use agentq_core::line::Line;
use agentq_core::marks::{Mark, Position};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::Cell;
use std::collections::HashSet;

statements!("order.sql": ORDER_LEAD, ORDER_FOLLOW, ORDER_HOLD, ORDER_HOLD_ALONE, ORDER_IS_HEAD, ORDER_PASS, ORDER_END, ORDER_OF,
    ORDER_OWE, ORDER_DUE, ORDER_NEXT_DUE, ORDER_PAID, ORDER_LATER);

/// A key in whose way somebody still is, is tried again after this long, in microseconds, and then ever later.
const AGAIN_US: i64 = 50_000;
const AGAIN_AT_MOST_US: i64 = 5_000_000;
/// A session that finds work at every claim, and has no marks to go by, looks for keys without a head this often, in
/// microseconds.
const EVERY_US: i64 = 1_000_000;

thread_local!(static LAST: Cell<Micros> = const { Cell::new(0) });

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

/// Puts the next job of each key in the place of those that have finished together.
pub fn advance_all(heads: Vec<(i32, String, Uuid)>, now: Micros) {
    if !heads.is_empty() {
        db::connect(|db| heads.iter().for_each(|(queue_id, key, job_id)| advance(db, *queue_id, key, *job_id, now)));
    }
}

/// Puts the next job of a key in the place of one that was at its head and has finished, or leaves that for later.
fn advance(db: &Db, queue_id: i32, key: &str, job_id: Uuid, now: Micros) {
    while passed(db, queue_id, key, job_id, now) == Passed::Blocked {
        let at = clock::real_now();
        let noted = db.run(&ORDER_OWE, &[timestamp(at).into(), job_id.into(), queue_id.into(), key.into()]);
        // The schema of the version before has no place for it: there the statement has waited.
        if noted.must("is_noted") {
            return marks::entered(&[LaneName::Heads], 0, Position { at, id: *job_id.as_bytes() }, true);
        }
    }
}

/// What came of putting the next job at the head of a key.
#[derive(PartialEq, Eq)]
enum Passed {
    /// The key has a new head, or no job; or the one that has finished was not its head.
    Done,
    /// Somebody is putting a job behind the one that has finished, or is changing the one that is next.
    Blocked,
}

fn passed(db: &Db, queue_id: i32, key: &str, job_id: Uuid, now: Micros) -> Passed {
    let is_there = |statement| !db.run(statement, &[queue_id.into(), key.into(), job_id.into()]).is_empty();
    if !is_there(&ORDER_HOLD) {
        // An old snapshot may not show it as the head that it is.
        let may_be_head = has_fixed_snapshot() || is_there(&ORDER_IS_HEAD);
        return if may_be_head { Passed::Blocked } else { Passed::Done };
    }
    // Those who are putting a job behind this one do not hinder a next one that is there.
    let mut next = take_next(queue_id, key);
    if matches!(next, Next::Nobody) {
        // But only when there are none of them is there really nobody.
        if !is_there(&ORDER_HOLD_ALONE) {
            return Passed::Blocked;
        }
        next = take_next(queue_id, key);
    }
    match next {
        Next::Locked => return Passed::Blocked,
        Next::Nobody => drop(db.run(&ORDER_END, &[queue_id.into(), key.into()])),
        Next::Job(next, keyed) => {
            db.run(&ORDER_PASS, &[queue_id.into(), key.into(), next.job_id.into()]);
            next.enter_unseen(keyed, now);
        }
    }
    Passed::Done
}

/// The first of those that stand behind a head.
enum Next {
    Nobody,
    /// Somebody is changing or cancelling it, and no other may overtake it.
    Locked,
    /// Taken out of the line, with whether it has an idempotency key.
    Job(Place, bool),
}

/// Takes the first of those that stand behind the head, also in a transaction that keeps an old snapshot.
fn take_next(queue_id: i32, key: &str) -> Next {
    let lines = Table::open(&job_line::TABLE);
    let line = Line::behind(key);
    loop {
        pgrx::check_for_interrupts!();
        let moment = Moment::latest();
        let equal = [Key::Text(line.name()), Key::Int(queue_id)];
        let mut scan = Scan::begin(&lines, &moment, c"job_line_any_idx", &equal, None);
        if !scan.next() {
            return Next::Nobody;
        }
        match lines.delete(&scan, false) {
            Deleted::Locked => return Next::Locked,
            Deleted::No => continue,
            Deleted::Yes => {}
        }
        let place = Place {
            job_id: scan.id(job_line::job_id),
            queue_id,
            job_kind: scan.text(job_line::job_kind),
            priority: scan.int(job_line::priority),
            scheduled_at: scan.time(job_line::scheduled_at),
            line: Some(line.clone()),
        };
        place.left();
        return Next::Job(Place { line: None, ..place }, scan.bool(job_line::keyed));
    }
}

/// When a key without a head is to be looked at next, as far as the marks know.
pub fn next_due() -> Option<Micros> {
    Reading::of(LaneName::Heads).marks?.first().map(|mark| mark.from.at)
}

/// As `pass_on`, unless that is not known to be of use and this session has just done it.
pub fn pass_on_when_due(now: Micros, limit: i64) -> usize {
    if is_preloaded() || clock::real_now() - LAST.get() >= EVERY_US { pass_on(now, limit) } else { 0 }
}

/// Puts the next jobs at the heads of keys where somebody was in the way when the last one finished; at most `limit`.
/// Returns how many keys have gone on. Other sessions see them only when the caller commits.
pub fn pass_on(now: Micros, limit: i64) -> usize {
    let real_now = clock::real_now();
    LAST.set(real_now);
    let mut reading = Reading::of(LaneName::Heads);
    let from = match reading.marks.as_deref() {
        Some([mark]) if mark.from.at > real_now => return 0,
        Some([mark]) => mark.from,
        _ => Position::START,
    };
    // What others have put behind a head since an old snapshot is not seen there.
    if has_fixed_snapshot() {
        return 0;
    }
    db::connect(|db| {
        let look = reading.marks.is_none().then(|| reading.begin_look());
        let (from_at, from_id) = (timestamp(from.at), Uuid::from_bytes(from.id));
        let mut due = Vec::new();
        let args = [from_at.into(), from_id.into(), timestamp(real_now).into(), limit.into()];
        db.run(&ORDER_DUE, &args).each(|row| {
            let at = row.must::<TimestampWithTimeZone>("due_at").into_inner();
            let key = (row.must::<i32>("queue_id"), row.must::<String>("ordering_key"));
            due.push((at, row.must::<Uuid>("job_id"), key, row.must::<i32>("tries")));
        });
        if due.is_empty() {
            let next = db.run(&ORDER_NEXT_DUE, &[from_at.into(), from_id.into()]);
            let next = if next.is_empty() {
                Position::at(Micros::MAX)
            } else {
                let at = next.must::<TimestampWithTimeZone>("due_at").into_inner();
                Position { at, id: *next.must::<Uuid>("job_id").as_bytes() }
            };
            match look {
                Some(look) => reading.learn(&look, &[Mark { priority: 0, from: next }]),
                None => reading.raise(0, next),
            }
            return 0;
        }
        let mut gone_on = 0;
        for (at, job_id, (queue_id, key), tries) in due {
            marks::left(&[LaneName::Heads], 0, Position { at, id: *job_id.as_bytes() });
            if passed(db, queue_id, &key, job_id, now) == Passed::Done {
                db.run(&ORDER_PAID, &[timestamp(at).into(), job_id.into()]);
                gone_on += 1;
                continue;
            }
            // Others come first meanwhile, however many there are of these.
            let later = real_now + backoff_seconds(AGAIN_US, i64::from(tries) + 1).min(AGAIN_AT_MOST_US);
            db.run(&ORDER_LATER, &[timestamp(at).into(), job_id.into(), timestamp(later).into()]);
            marks::entered(&[LaneName::Heads], 0, Position { at: later, id: *job_id.as_bytes() }, true);
        }
        gone_on
    })
}
