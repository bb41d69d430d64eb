//! Turns queued reactions into proposals.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::db;
use crate::governance::propose;

pub static CHORE: Chore = Chore {
    name: "propose",
    activity: c"agentq: propose",
    about: "Turns queued reactions into proposals: gated, and approved or left for a person. Runs at once when there are new ones.",
    every_us: 1_000_000,
    run,
};

fn run() -> Outcome {
    // Somebody who proposes in a long transaction must not keep the engine from its other chores.
    let proposed = db::with_setting(c"lock_timeout", c"250ms", || propose::propose(clock::now()));
    Outcome { rows: proposed.processed, next: if proposed.more { Next::AtOnce } else { Next::AsUsual } }
}
