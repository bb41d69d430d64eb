//! Makes waiting jobs ready when their time has come, and so wakes the claims that wait for them.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::queue::place::{self, Due};

/// Jobs made ready in one transaction.
const AT_MOST: i64 = 1_000;

pub static CHORE: Chore = Chore {
    name: "promote_due",
    activity: c"agentq: promote_due",
    about: "Makes scheduled and retried jobs ready when they fall due. It also runs when the next one does.",
    every_us: 1_000_000,
    run,
};

fn run() -> Outcome {
    let rows = place::promote_due(clock::now(), || Due::All(AT_MOST)) as i64;
    Outcome { rows, next: if rows == AT_MOST { Next::AtOnce } else { Next::AsUsual } }
}
