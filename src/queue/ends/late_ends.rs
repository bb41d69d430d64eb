//! Ends of jobs whose hook could not be told at once, because somebody was in its way: written down, and told by the engine
//! when nobody is in the way any more. In whatever way a job ends, its end is there as soon as its transaction has committed;
//! what follows from it may come a moment later.

use super::hooks::{self, Ended};
use crate::base::clock::{self, Micros};
use crate::base::ids::new_id;
use crate::db::{self, Budget, Db, Rows, statements};
use crate::json::Jsonb;
use crate::queue::storage::marks::wake_all_at_commit;
use crate::room::{Next, Outcome};
use crate::server;
use agentq_core::context::Context;
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::Cell;
use std::time::{Duration, Instant};

statements!("late_ends.sql": END_LEAVE, ENDS_LEFT, END_TOLD);

/// How many one turn looks at. One that has worked for this long leaves the rest to the next.
const MOST: i64 = 500;
const LONGEST: Duration = Duration::from_millis(500);
/// After a turn in which somebody was in the way of one, the next comes after this long, in microseconds.
const AGAIN_US: i64 = 100_000;
const CLAIMS_EVERY_US: i64 = 1_000_000;

thread_local! {
    /// The end behind which the next turn goes on, so that each comes to its turn.
    static FROM: Cell<[u8; 16]> = const { Cell::new([0; 16]) };
    /// When this session's claims did it last.
    static TENDED: Cell<Micros> = const { Cell::new(0) };
    /// Ends in whose way somebody was, or whose hook fails.
    static LEFT: db::PutOff<[u8; 16]> = db::PutOff::new();
}

/// Writes down what a hook could not be told.
pub fn leave(db: &Db, hook: &str, ended: &[Ended]) {
    for end in ended {
        let context = end.context.to_jsonb().ok();
        let args = [
            new_id().into(),
            hook.into(),
            end.about.as_str().into(),
            end.job_id.into(),
            end.state.as_str().into(),
            end.result.into(),
            end.error.as_deref().into(),
            context.as_deref().map(Jsonb::from_container).into(),
        ];
        db.run(&END_LEAVE, &args);
    }
    wake_all_at_commit();
}

/// An end that was left.
struct Left {
    id: Uuid,
    hook: String,
    ended: Ended,
}

impl Left {
    fn from_row(row: &Rows) -> Left {
        let context: Option<Jsonb> = row.get("context");
        Left {
            id: row.must("end_id"),
            hook: row.must("hook"),
            ended: Ended {
                job_id: row.must("job_id"),
                about: row.must("about"),
                state: row.must("state"),
                result: row.get::<Jsonb>("result").map(Jsonb::copied),
                error: row.get("error"),
                context: context.map(|context| Context::from_jsonb(context.item())).unwrap_or_default(),
            },
        }
    }
}

/// Where no engine runs, claims do what `tend` does, once a second in each session. A transaction that keeps one snapshot may
/// meet an end that somebody has told since, and leaves them all.
pub fn tend_when_due(now: Micros) {
    if server::has_fixed_snapshot() {
        return;
    }
    if (0..CLAIMS_EVERY_US).contains(&(now - TENDED.replace(now))) {
        return;
    }
    tend();
}

/// Tells hooks what was left, each end in a part of its own. One that fails, or in whose way somebody is, keeps no other.
pub fn tend() -> Outcome {
    db::connect(|db| {
        let (now, began, patience) = (clock::now(), Instant::now(), db::Patience::of_a_turn());
        let (mut left, mut budget) = (Vec::new(), Budget::of_a_turn());
        let alone: Vec<Uuid> = db::PutOff::current(&LEFT).into_iter().map(Uuid::from_bytes).collect();
        let mut waits = !alone.is_empty();
        db.walk(&ENDS_LEFT, &[Uuid::from_bytes(FROM.get()).into(), alone.into(), MOST.into()], |row| {
            let end = Left::from_row(row);
            let size = end.ended.result.map_or(0, Jsonb::size) + end.ended.error.as_ref().map_or(0, String::len);
            left.push(end);
            budget.take(size)
        });
        let is_all = (left.len() as i64) < MOST && !budget.is_spent();
        let (mut told, mut last) = (0, None);
        for end in &left {
            if began.elapsed() > LONGEST {
                break;
            }
            last = Some(*end.id.as_bytes());
            match tell(db, end, &patience, now) {
                true => told += 1,
                false => {
                    db::PutOff::add(&LEFT, *end.id.as_bytes());
                    waits = true;
                }
            }
        }
        let is_done = is_all && last == left.last().map(|end| *end.id.as_bytes());
        let began_behind = FROM.replace(if is_done { [0; 16] } else { last.unwrap_or_default() }) != [0; 16];
        let next = match () {
            // Where none could be told, going on at once would only turn in a circle.
            _ if (!is_done || began_behind) && (told > 0 || !waits) => Next::AtOnce,
            _ if waits => Next::At(now + AGAIN_US),
            _ => Next::AsUsual,
        };
        Outcome { rows: told, next }
    })
}

fn tell(db: &Db, end: &Left, patience: &db::Patience, now: Micros) -> bool {
    let done = hooks::apart_within(patience, || {
        db.run(&END_TOLD, &[end.id.into()]);
        hooks::tell_left(db, &end.hook, &end.ended, now);
    });
    done.inspect_err(|error| log!("agentq: the end of job {} is told later: {}", end.ended.job_id, error.message))
        .is_ok()
}
