//! Gives committed events their place in the log, and tells listeners how far it has come.

use super::{Chore, Next, Outcome};
use crate::db;
use crate::events::seal;

/// Runs by itself when events are committed; the interval is for those that nobody told of.
pub static CHORE: Chore = Chore {
    name: "seal_events",
    activity: c"agentq: seal_events",
    about: "Gives committed events their place in the log, and tells listeners of agentq_event the last one.",
    every_us: 1_000_000,
    run,
};

fn run() -> Outcome {
    match db::connect(|db| seal::seal(db, seal::AT_MOST)) {
        None => Outcome::default(),
        Some(turn) => Outcome { rows: turn.count, next: if turn.more { Next::AtOnce } else { Next::AsUsual } },
    }
}
