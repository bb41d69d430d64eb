//! Ends of steps that came while somebody steered their mission: written down in place of being carried out, and carried out by
//! the engine when nobody is in the way any more.

use super::ended::{EndedSteps, Ending, StepEnd, StepWork};
use super::{gate, patience};
use crate::base::clock::{self, Micros};
use crate::base::ids::new_id;
use crate::db::{self, Budget, Db, Rows, statements};
use crate::flow::wake;
use crate::json::Jsonb;
use crate::room::{Next, Outcome};
use agentq_core::context::Context;
use agentq_core::mission::status::StepStatus;
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::Cell;
use std::time::{Duration, Instant};

statements!("late_ends.sql": LATE_END_ADD, LATE_MISSIONS, LATE_ENDS_OF, LATE_ENDS_OVER);

/// How many missions one run looks at, and how many ends of one it carries out at once.
const MOST_MISSIONS: i64 = 500;
const MOST_ENDS: i64 = 50;
/// A run that has worked this long leaves the rest to the next.
const LONGEST: Duration = Duration::from_millis(500);
/// While somebody steers a mission that has such ends, its gate is tried this often, in microseconds.
const AGAIN_US: i64 = 100_000;

// Missions whose ends failed.
thread_local! {
    static LEFT: db::PutOff<[u8; 16]> = db::PutOff::new();
    /// Where the next run begins, so that each comes to its turn.
    static FROM: Cell<[u8; 16]> = const { Cell::new([0; 16]) };
}

/// Writes the ends of steps of one mission down.
pub fn leave(db: &Db, mission: Uuid, mut ends: StepWork) {
    while let Some(level) = ends.next_level() {
        for (step, change) in level {
            let step = Uuid::from_bytes(step);
            match change.end {
                Some(Ending::Step(end)) => add(db, mission, &end),
                Some(Ending::Items(items)) => {
                    for end in items {
                        let (item, by) = (Some(end.item), Some(end.by));
                        let (status, result, error, context) = (end.status, end.result, end.error, end.context);
                        add(db, mission, &StepEnd { step, item, status, result, error, by, context });
                    }
                }
                None => {}
            }
        }
    }
    wake::note();
}

fn add(db: &Db, mission: Uuid, end: &StepEnd) {
    let context = end.context.as_ref().and_then(|context| context.to_jsonb().ok());
    let args = [
        mission.into(),
        new_id().into(),
        end.step.into(),
        end.item.into(),
        end.status.name().into(),
        end.result.into(),
        end.error.as_deref().into(),
        end.by.into(),
        context.as_deref().map(Jsonb::from_container).into(),
    ];
    db.run(&LATE_END_ADD, &args);
}

fn read(row: &Rows) -> (Uuid, StepEnd) {
    let context: Option<Jsonb> = row.get("context");
    let end = StepEnd {
        step: row.must("step_id"),
        item: row.get("item"),
        status: row.word("status", StepStatus::parse),
        result: row.get::<Jsonb>("result").map(Jsonb::copied),
        error: row.get("error"),
        by: row.get("by_id"),
        context: context.map(|context| Context::from_jsonb(context.item())),
    };
    (row.must("end_id"), end)
}

/// Carries out what was left, mission by mission. One that somebody steers, or whose ends fail, keeps no other from it.
pub fn tend() -> Outcome {
    db::connect(|db| {
        let (now, began, patience) = (clock::now(), Instant::now(), db::Patience::of_a_turn());
        let mut budget = Budget::of_a_turn();
        let left: Vec<Uuid> = db::PutOff::current(&LEFT).into_iter().map(Uuid::from_bytes).collect();
        let mut missions: Vec<Uuid> = Vec::new();
        let args = [Uuid::from_bytes(FROM.get()).into(), left.into(), MOST_MISSIONS.into()];
        db.run(&LATE_MISSIONS, &args).each(|row| missions.push(row.only()));
        let (mut carried_out, mut is_shut, mut more) = (0, false, false);
        let mut last = if missions.len() as i64 >= MOST_MISSIONS { missions.last().copied() } else { None };
        more |= last.is_some() || FROM.get() != [0; 16];
        for mission in missions {
            if began.elapsed() > LONGEST || budget.is_spent() {
                (last, more) = (Some(mission), true);
                break;
            }
            if !gate::passes(mission) {
                is_shut = true;
                continue;
            }
            let mut all: Vec<(Uuid, StepEnd)> = Vec::new();
            db.walk(&LATE_ENDS_OF, &[mission.into(), MOST_ENDS.into()], |row| {
                let (id, end) = read(row);
                let size = end.result.map_or(0, Jsonb::size) + end.error.as_ref().map_or(0, String::len);
                all.push((id, end));
                budget.take(size)
            });
            more |= all.len() as i64 == MOST_ENDS || budget.is_spent();
            carried_out += carry_out(db, mission, all, &patience, now);
        }
        FROM.set(last.map_or([0; 16], |mission| *mission.as_bytes()));
        let next = match () {
            // Where none could be carried out, going on at once would only turn in a circle.
            _ if more && (carried_out > 0 || !is_shut) => Next::AtOnce,
            _ if is_shut => Next::At(now + AGAIN_US),
            _ => Next::AsUsual,
        };
        Outcome { rows: carried_out, next }
    })
}

/// Carries out these ends of a mission together; or one by one, if that fails.
fn carry_out(db: &Db, mission: Uuid, all: Vec<(Uuid, StepEnd)>, patience: &db::Patience, now: Micros) -> i64 {
    let attempt = |some: &[(Uuid, StepEnd)]| {
        // Each mission has the time that an ack would have had for it.
        patience::begin_anew();
        let done = patience.attempt(|| {
            let ids: Vec<Uuid> = some.iter().map(|(id, _)| *id).collect();
            db.run(&LATE_ENDS_OVER, &[mission.into(), ids.into()]);
            EndedSteps::settle(db, some.iter().map(|(_, end)| end.clone()), now);
        });
        done.inspect_err(|error| log!("agentq: ends of mission {mission} are left for later: {}", error.message))
            .is_ok()
    };
    if all.is_empty() || attempt(&all) {
        return all.len() as i64;
    }
    let done = if all.len() > 1 { all.chunks(1).filter(|one| attempt(one)).count() } else { 0 };
    if done < all.len() {
        db::PutOff::add(&LEFT, *mission.as_bytes());
    }
    done as i64
}
