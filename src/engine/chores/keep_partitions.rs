//! Makes the partitions of events ahead of time, and drops those whose time is over.

use super::{Chore, Next, Outcome};
use crate::base::clock;
use crate::base::settings::Settings;
use crate::db;
use crate::events::partitions;

pub static CHORE: Chore = Chore {
    name: "keep_partitions",
    activity: c"agentq: keep_partitions",
    about: "Makes the partitions of events for the days to come, and drops those that are older than events.retention_days and events.audit_retention_days.",
    every_us: 60_000_000,
    run,
};

fn run() -> Outcome {
    let settings = Settings::current();
    let kept = db::connect(|db| partitions::keep(db, &settings, clock::now()));
    Outcome { rows: kept.changes, next: if kept.more { Next::AtOnce } else { Next::AsUsual } }
}
