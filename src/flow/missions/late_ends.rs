//! Ends of steps that came while somebody steered their mission: written down in place of being carried out, and carried out by
//! the engine when nobody is in the way any more.

use super::ended::{EndedSteps, Ending, StepEnd, StepWork};
use super::gate;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::db::{self, Db, Rows, statements};
use crate::flow::wake;
use crate::json::Jsonb;
use crate::room::{Next, Outcome};
use agentq_core::backoff::backoff_seconds;
use agentq_core::context::Context;
use agentq_core::mission::status::StepStatus;
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("late_ends.sql": LATE_END_ADD, LATE_ENDS_DUE, LATE_END_OVER, LATE_END_LATER, LATE_END_NEXT);

/// How many one run carries out.
const AT_MOST: i64 = 100;
/// The first and the longest pause after which an end is tried again, in microseconds.
const AGAIN_US: i64 = 20_000;
const AGAIN_AT_MOST_US: i64 = 2_000_000;

/// Writes the ends of steps of one mission down.
pub fn leave(db: &Db, mission: Uuid, mut ends: StepWork, now: Micros) {
    while let Some(level) = ends.next_level() {
        for (step, change) in level {
            let step = Uuid::from_bytes(step);
            match change.end {
                Some(Ending::Step(end)) => add(db, mission, &end, now),
                Some(Ending::Items(items)) => {
                    for end in items {
                        let (item, by) = (Some(end.item), Some(end.by));
                        let (status, result, error, context) = (end.status, end.result, end.error, end.context);
                        add(db, mission, &StepEnd { step, item, status, result, error, by, context }, now);
                    }
                }
                None => {}
            }
        }
    }
    wake::note();
}

fn add(db: &Db, mission: Uuid, end: &StepEnd, now: Micros) {
    let context = end.context.as_ref().and_then(|context| context.to_jsonb().ok());
    let args = [
        new_id().into(),
        mission.into(),
        end.step.into(),
        end.item.into(),
        end.status.name().into(),
        end.result.into(),
        end.error.as_deref().into(),
        end.by.into(),
        context.as_deref().map(Jsonb::from_container).into(),
        timestamp(now).into(),
    ];
    db.run(&LATE_END_ADD, &args);
}

/// An end that was written down.
struct Late {
    id: Uuid,
    mission: Uuid,
    tries: i32,
    end: StepEnd,
}

impl Late {
    fn read(row: &Rows) -> Late {
        let context: Option<Jsonb> = row.get("context");
        let end = StepEnd {
            step: row.must("step_id"),
            item: row.get("item"),
            status: row.word("status", StepStatus::parse),
            result: row.get("result"),
            error: row.get("error"),
            by: row.get("by_id"),
            context: context.map(|context| Context::from_jsonb(context.item())),
        };
        Late { id: row.must("end_id"), mission: row.must("mission_id"), tries: row.must("tries"), end }
    }
}

/// Carries out what is due. One that somebody is in the way of is put off, and keeps no other from it.
pub fn tend() -> Outcome {
    db::connect(|db| {
        let (now, patience) = (clock::now(), db::Patience::of_a_turn());
        let mut due: Vec<Late> = Vec::new();
        db.run(&LATE_ENDS_DUE, &[timestamp(now).into(), AT_MOST.into()]).each(|row| due.push(Late::read(row)));
        let (many, mut carried_out) = (due.len() as i64 == AT_MOST, 0);
        for late in due {
            let done = gate::passes(late.mission)
                && patience
                    .attempt(|| {
                        db.run(&LATE_END_OVER, &[late.id.into()]);
                        EndedSteps::settle(db, Some(late.end), now);
                    })
                    .inspect_err(|error| log!("agentq: the end of a step is left for later: {}", error.message))
                    .is_ok();
            if done {
                carried_out += 1;
            } else {
                let pause = backoff_seconds(AGAIN_US, i64::from(late.tries) + 1).min(AGAIN_AT_MOST_US);
                db.run(&LATE_END_LATER, &[late.id.into(), timestamp(now + pause).into()]);
            }
        }
        let next = db.run(&LATE_END_NEXT, &[]).maybe_only::<TimestampWithTimeZone>();
        let next = if many { Next::AtOnce } else { next.map_or(Next::AsUsual, |at| Next::At(at.into_inner())) };
        Outcome { rows: carried_out, next }
    })
}
