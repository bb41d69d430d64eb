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
use agentq_core::context::Context;
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::Cell;
use std::time::{Duration, Instant};

statements!("late_ends.sql": END_LEAVE, ENDS_LEFT, END_TOLD);

/// How many one turn looks at. One that has worked for this long leaves the rest to the next.
const MOST: i64 = 500;
const LONGEST: Duration = Duration::from_millis(500);
/// As long as somebody is in the way of one, all are tried again after this long, in microseconds.
const AGAIN_US: i64 = 100_000;

// The end behind which the next turn goes on, so that each comes to its turn.
thread_local!(static FROM: Cell<[u8; 16]> = const { Cell::new([0; 16]) });

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

/// Tells hooks what was left, each end in a part of its own. One that fails, or in whose way somebody is, keeps no other.
pub fn tend() -> Outcome {
    db::connect(|db| {
        let (now, began, patience) = (clock::now(), Instant::now(), db::Patience::of_a_turn());
        let (mut left, mut budget) = (Vec::new(), Budget::of_a_turn());
        db.walk(&ENDS_LEFT, &[Uuid::from_bytes(FROM.get()).into(), MOST.into()], |row| {
            let end = Left::from_row(row);
            let size = end.ended.result.map_or(0, Jsonb::size) + end.ended.error.as_ref().map_or(0, String::len);
            left.push(end);
            budget.take(size)
        });
        let is_all = (left.len() as i64) < MOST && !budget.is_spent();
        let (mut told, mut waits, mut last) = (0, false, None);
        for end in &left {
            if began.elapsed() > LONGEST {
                break;
            }
            last = Some(*end.id.as_bytes());
            match tell(db, end, &patience, now) {
                true => told += 1,
                false => waits = true,
            }
        }
        let is_done = is_all && last == left.last().map(|end| *end.id.as_bytes());
        let began_behind = FROM.replace(if is_done { [0; 16] } else { last.unwrap_or_default() }) != [0; 16];
        let next = match () {
            _ if !is_done || began_behind => Next::AtOnce,
            _ if waits => Next::At(now + AGAIN_US),
            _ => Next::AsUsual,
        };
        Outcome { rows: told, next }
    })
}

fn tell(db: &Db, end: &Left, patience: &db::Patience, now: Micros) -> bool {
    let done = patience.attempt(|| {
        db.run(&END_TOLD, &[end.id.into()]);
        hooks::tell_one(db, &end.hook, std::slice::from_ref(&end.ended), now);
    });
    done.inspect_err(|error| log!("agentq: the end of job {} is told later: {}", end.ended.job_id, error.message))
        .is_ok()
}
