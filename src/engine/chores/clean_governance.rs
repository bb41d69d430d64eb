//! Removes reactions and ended proposals that are older than the events and audits that are kept.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::base::settings::Settings;
use crate::governance::clean;

/// Rows of each table that are removed in one transaction.
const AT_MOST: i64 = 1_000;

pub static CHORE: Chore = Chore {
    name: "clean_governance",
    activity: c"agentq: clean_governance",
    about: "Removes reactions older than events.retention_days, and ended proposals older than events.audit_retention_days.",
    every_us: 600_000_000,
    run,
};

fn run() -> Outcome {
    let rows = clean::sweep(&Settings::current(), AT_MOST, clock::now());
    Outcome { rows, next: if rows >= AT_MOST { Next::AtOnce } else { Next::AsUsual } }
}
