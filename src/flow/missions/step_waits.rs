//! Steps without a worker: they sleep, or wait for a signal, and the engine ends them.
//!
//! Whoever begins such a step only writes down what it waits for, so that the end of one step never waits for somebody who
//! is sending a signal. The engine then looks whether the signal is there already, and opens the wait to senders. A sender
//! leaves what it has sent with the oldest open wait, and the engine ends the step. Locks: the wait, the channel of its
//! signal, then what the end of a step takes.

use super::ended::{EndedSteps, StepEnd};
use super::patience;
use super::prepare::StepWait;
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, Rows, statements};
use crate::flow::signals;
use crate::flow::wake;
use crate::json::Jsonb;
use crate::room::{Next, Outcome};
use agentq_core::mission::status::StepStatus;
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;
use std::ffi::CStr;

statements!("step_waits.sql": STEP_WAIT_ADD, STEP_WAITS_DUE, STEP_WAIT_OPEN, STEP_WAIT_LATER, STEP_WAIT_OVER, STEP_WAIT_NEXT, STEP_WAITS_TAKE_BACK, STEP_WAIT_GIVE);

/// How many waits one run looks at.
const AT_MOST: i64 = 100;
/// How long the engine waits for a row that somebody else has locked; after so many of them it leaves the rest for later.
const PATIENCE: &CStr = c"50ms";
const MOST_IN_THE_WAY: usize = 5;
/// A wait that somebody was in the way of is looked at again after this long, in microseconds.
const AGAIN_US: i64 = 500_000;

/// Writes down what a step waits for.
pub fn register(db: &Db, step: Uuid, wait: &StepWait, now: Micros) {
    let (name, key) = wait.signal.clone().unzip();
    // A sleep is looked at when it is over, and a signal at once: it may be there already.
    let due = if name.is_some() { now } else { wait.until.unwrap_or(now) };
    let until = wait.until.map(timestamp);
    db.run(
        &STEP_WAIT_ADD,
        &[step.into(), until.into(), name.into(), key.into(), timestamp(due).into(), timestamp(now).into()],
    );
    wake::note();
}

/// Leaves a signal with the step that has waited for it longest, if that waits longer than every job. Its channel is locked.
pub fn give(db: &Db, name: &str, key: &str, what: Jsonb, now: Micros) -> Option<Uuid> {
    let row = db.run(&STEP_WAIT_GIVE, &[name.into(), key.into(), what.into(), timestamp(now).into()]);
    if row.is_empty() {
        return None;
    }
    wake::note();
    Some(row.only())
}

/// Removes the waits of a mission that is stopped, but for those that the engine is just ending. Returns their steps, and
/// where each is counted.
pub fn take_back(db: &Db, mission_id: Uuid) -> Vec<(Uuid, i32)> {
    let mut taken = Vec::new();
    db.run(&STEP_WAITS_TAKE_BACK, &[mission_id.into()])
        .each(|row| taken.push((row.must("step_id"), row.must("shard"))));
    taken
}

/// A wait that is due.
struct Due {
    step: Uuid,
    signal: Option<(String, String)>,
    until: Option<Micros>,
    /// What a sender has left with it.
    result: Option<Jsonb>,
}

impl Due {
    fn read(row: &Rows) -> Due {
        let until = row.get::<TimestampWithTimeZone>("until").map(TimestampWithTimeZone::into_inner);
        let signal = row.get::<String>("name").zip(row.get::<String>("key"));
        Due { step: row.must("step_id"), signal, until, result: row.get("result") }
    }

    /// How its step ends, if it does.
    fn end(&self, db: &Db, now: Micros) -> Option<StepEnd> {
        let is_over = self.until.is_some_and(|until| until <= now);
        let Some((name, key)) = &self.signal else {
            let slept = self.until.map(timestamp);
            return Some(self.ended(StepStatus::Succeeded, Some(Jsonb::from_value(json!({"until": slept}))), None));
        };
        if let Some(result) = self.result.or_else(|| signals::take_for_step(db, name, key, self.step, now)) {
            return Some(self.ended(StepStatus::Succeeded, Some(result), None));
        }
        if is_over {
            let of = if key.is_empty() { String::new() } else { format!(" with the key {key}") };
            let error = format!("no signal {name}{of} came in time");
            return Some(self.ended(StepStatus::Failed, None, Some(error)));
        }
        db.run(&STEP_WAIT_OPEN, &[self.step.into(), timestamp(now).into()]);
        None
    }

    fn ended(&self, status: StepStatus, result: Option<Jsonb>, error: Option<String>) -> StepEnd {
        StepEnd { step: self.step, item: None, status, result, error, by: None, context: None }
    }
}

/// Ends the steps whose time or signal has come.
pub fn tend() -> Outcome {
    db::connect(|db| {
        let now = clock::now();
        let mut due: Vec<Due> = Vec::new();
        db.run(&STEP_WAITS_DUE, &[timestamp(now).into(), AT_MOST.into()]).each(|row| due.push(Due::read(row)));
        let many = due.len() as i64 == AT_MOST;
        let ended = settle(db, &due, now).unwrap_or_else(|| {
            patience::begin_anew();
            one_by_one(db, &due, now)
        });
        if many {
            return Outcome::and_more(ended, true);
        }
        let next = db.run(&STEP_WAIT_NEXT, &[]).maybe_only::<TimestampWithTimeZone>();
        Outcome { rows: ended, next: next.map_or(Next::AsUsual, |at| Next::At(at.into_inner())) }
    })
}

/// Ends these, all together. None: somebody is in the way of one of them, and nothing was done.
fn settle(db: &Db, due: &[Due], now: Micros) -> Option<i64> {
    let done = db::attempt(|| {
        db::with_setting(c"lock_timeout", PATIENCE, || {
            let ends: Vec<StepEnd> = due.iter().filter_map(|wait| wait.end(db, now)).collect();
            let steps: Vec<Uuid> = ends.iter().map(|end| end.step).collect();
            let count = steps.len() as i64;
            if count > 0 {
                db.run(&STEP_WAIT_OVER, &[steps.into()]);
                EndedSteps::settle(db, ends, now);
            }
            count
        })
    });
    done.ok()
}

/// Ends one of them, so that whoever is in the way of another does not hold it up; those are looked at again later. One, as
/// a transaction that ends steps of several missions one by one would lock them in no order.
fn one_by_one(db: &Db, due: &[Due], now: Micros) -> i64 {
    let mut in_the_way = 0;
    for wait in due {
        match settle(db, std::slice::from_ref(wait), now) {
            Some(0) => {}
            Some(ended) => return ended,
            None => {
                db.run(&STEP_WAIT_LATER, &[wait.step.into(), timestamp(now + AGAIN_US).into()]);
                in_the_way += 1;
                if in_the_way == MOST_IN_THE_WAY {
                    break;
                }
            }
        }
    }
    in_the_way as i64
}
