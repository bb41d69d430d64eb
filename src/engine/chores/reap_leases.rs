//! Recovers jobs whose lease has expired.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::queue::reap;

/// Jobs recovered in one transaction.
const AT_MOST: i64 = 500;

pub static CHORE: Chore = Chore {
    name: "reap_leases",
    activity: c"agentq: reap_leases",
    about: "Recovers jobs whose lease has expired: back to the ready ones, or to the dead letters.",
    every_us: 1_000_000,
    run,
};

fn run() -> Outcome {
    let rows = reap::now(clock::now(), AT_MOST) as i64;
    Outcome { rows, next: if rows == AT_MOST { Next::AtOnce } else { Next::AsUsual } }
}
