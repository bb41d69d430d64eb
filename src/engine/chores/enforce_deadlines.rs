//! Gives up jobs that were not begun or not finished in time.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::queue::deadlines;

/// Deadlines looked at in one transaction.
const AT_MOST: i64 = 200;

pub static CHORE: Chore = Chore {
    name: "enforce_deadlines",
    activity: c"agentq: enforce_deadlines",
    about: "Gives up jobs that were not begun by their start_by or not finished by their finish_by.",
    every_us: 1_000_000,
    run,
};

fn run() -> Outcome {
    let rows = deadlines::enforce(clock::now(), AT_MOST) as i64;
    Outcome { rows, next: if rows == AT_MOST { Next::AtOnce } else { Next::AsUsual } }
}
