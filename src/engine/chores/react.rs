//! Reads new events and queues the reactions that they call for.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::governance::reactions;

pub static CHORE: Chore = Chore {
    name: "react",
    activity: c"agentq: react",
    about: "Holds new events against the policy reaction_matrix, and queues a reaction for each that fits.",
    every_us: 1_000_000,
    run,
};

fn run() -> Outcome {
    let reacted = reactions::react(clock::now());
    Outcome { rows: reacted.events, next: if reacted.more { Next::AtOnce } else { Next::AsUsual } }
}
