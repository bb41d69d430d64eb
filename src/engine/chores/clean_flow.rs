//! Looks after what the flow room leaves behind.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::db;
use crate::flow::leftovers;

pub static CHORE: Chore = Chore {
    name: "clean_flow",
    activity: c"agentq: clean_flow",
    about: "Removes steps and waits of jobs that are gone, and wakes jobs whose signal came while somebody else had them.",
    every_us: 10_000_000,
    run,
};

fn run() -> Outcome {
    let (rows, more) = db::connect(|db| leftovers::clean(db, clock::now()));
    Outcome { rows, next: if more { Next::AtOnce } else { Next::AsUsual } }
}
