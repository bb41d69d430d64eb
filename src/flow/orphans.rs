//! What jobs leave behind: steps and waits of jobs that are gone, channels that nobody uses, and wake-ups that could not
//! be given at once.
//!
//! The queue removes finished jobs and knows nothing of their steps. So the steps are read in the order of their jobs'
//! ids, some at the front, where the oldest jobs are and most that is to be removed, and some from where the last run
//! stopped. Each run reads a bounded number and waits for nobody.

use super::signals;
use crate::base::clock::{self, Micros};
use crate::db::{self, Db, Statement, statements};
use crate::queue::ends::dormant::{self, Woken};
use crate::queue::storage::lock_against_rule_change;
use crate::room::Outcome;
use pgrx::Uuid;
use std::cell::{Cell, RefCell};

statements!("orphans.sql": CLEAN_STEPS, CLEAN_WAITS, CLEAN_CHANNELS, SIGNALS_UNWOKEN, SIGNAL_WOKEN);

/// Jobs looked at in one go, and rows removed.
const JOBS: i32 = 500;
const ROWS: i64 = 5_000;
const CHANNELS: i64 = 200;
const WAKES: i64 = 100;

const START: [u8; 16] = [0; 16];

thread_local! {
    static STEPS_TO: Cell<[u8; 16]> = const { Cell::new(START) };
    static WAITS_TO: Cell<[u8; 16]> = const { Cell::new(START) };
    static CHANNELS_TO: RefCell<(String, String)> = const { RefCell::new((String::new(), String::new())) };
}

/// One bounded run of the engine's.
pub fn clean() -> Outcome {
    db::connect(|db| clean_some(db, clock::now()))
}

fn clean_some(db: &Db, now: Micros) -> Outcome {
    let woken = wake_late(db, now);
    let mut removed = 0;
    let mut more = false;
    for (statement, swept_to) in [(&CLEAN_STEPS, &STEPS_TO), (&CLEAN_WAITS, &WAITS_TO)] {
        let (front, stopped, _) = sweep(db, statement, START);
        removed += front;
        more |= front >= ROWS;
        // A front that reaches the end has seen all there is.
        let from = swept_to.get();
        let from = if stopped == START || from > stopped { from } else { stopped };
        if stopped != START {
            let (gone, stopped, full) = sweep(db, statement, from);
            removed += gone;
            more |= gone >= ROWS || gone > 0 && full;
            swept_to.set(if gone >= ROWS { from } else { stopped });
        }
    }
    free_channels(db);
    Outcome::and_more(woken + removed, more)
}

/// Removes some of what belongs to jobs that are gone; says how much, where it stopped (the start: at the end), and
/// whether it has looked at as many as it may.
fn sweep(db: &Db, statement: &Statement, from: [u8; 16]) -> (i64, [u8; 16], bool) {
    let row = db.run(statement, &[Uuid::from_bytes(from).into(), JOBS.into(), ROWS.into()]);
    let (seen, gone): (i64, i64) = (row.must("seen"), row.must("removed"));
    let full = seen >= i64::from(JOBS);
    let last = row.get::<Uuid>("last").filter(|_| full).map_or(START, |id| *id.as_bytes());
    (gone, last, full)
}

/// Wakes jobs that could not be woken when their signal came.
fn wake_late(db: &Db, now: Micros) -> i64 {
    let mut late: Vec<(Uuid, Uuid)> = Vec::new();
    db.run(&SIGNALS_UNWOKEN, &[WAKES.into()]).each(|row| late.push((row.must("signal_id"), row.must("taken_by"))));
    if late.is_empty() {
        return 0;
    }
    lock_against_rule_change();
    let mut woken = 0;
    for (signal, job) in late {
        if dormant::wake(db, job, now) != Woken::Busy {
            db.run(&SIGNAL_WOKEN, &[signal.into()]);
            woken += 1;
        }
    }
    woken
}

/// Removes channels on which nothing is sent and nobody waits.
fn free_channels(db: &Db) {
    let from = CHANNELS_TO.with_borrow(Clone::clone);
    let mut seen: Vec<(String, String, bool)> = Vec::new();
    db.run(&CLEAN_CHANNELS, &[from.0.as_str().into(), from.1.as_str().into(), CHANNELS.into()])
        .each(|row| seen.push((row.must("name"), row.must("key"), row.must("locked"))));
    for (name, key, _) in seen.iter().filter(|(_, _, locked)| *locked) {
        signals::free_channel(db, name, key);
    }
    let last = seen.pop().filter(|_| seen.len() as i64 + 1 >= CHANNELS);
    CHANNELS_TO.set(last.map_or_else(Default::default, |(name, key, _)| (name, key)));
}
