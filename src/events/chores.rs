//! What the engine does for events.

use super::{feed, partitions, seal};
use crate::room::{Chore, Stage, Wakes};

/// Events are sealed at most this often, in microseconds: many commits at a time.
const SEAL_EVERY_US: i64 = 20_000;

pub static CHORES: &[&Chore] = &[&SEAL_EVENTS, &KEEP_PARTITIONS];

/// Runs by itself when events are committed; the interval is for those that nobody told of.
pub static SEAL_EVENTS: Chore = Chore {
    name: "seal_events",
    about: "Gives committed events their place in the log, and tells listeners of agentq_event the last one.",
    every_us: 1_000_000,
    stage: Stage::Log,
    moves_jobs: false,
    wakes_on: Wakes::News { is_there: feed::has_news, take: feed::take_news, pause_us: SEAL_EVERY_US },
    run: seal::turn,
};

pub static KEEP_PARTITIONS: Chore = Chore {
    name: "keep_partitions",
    about: "Makes the partitions of events for the days to come, and drops those that are older than events.retention_days and events.audit_retention_days.",
    every_us: 60_000_000,
    stage: Stage::Tidy,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: partitions::keep,
};
