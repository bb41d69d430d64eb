//! Enqueues the jobs of schedules whose time has come.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::queue::schedules;

pub static CHORE: Chore = Chore {
    name: "run_schedules",
    activity: c"agentq: run_schedules",
    about: "Enqueues the jobs of schedules that are due. It runs at the moment of the next slot.",
    every_us: 60_000_000,
    run,
};

fn run() -> Outcome {
    let (rows, next) = schedules::fire_due(clock::now());
    Outcome { rows, next: next.map_or(Next::AsUsual, Next::At) }
}
