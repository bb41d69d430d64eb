//! The keys of the table `config` that the governance room reads.

use agentq_core::config::{Key, Kind};

pub const EVENT_BATCH: &str = "governance.event_batch";
pub const REACTION_BATCH: &str = "governance.reaction_batch";
pub const MAX_DEPTH: &str = "governance.max_depth";

pub static KEYS: &[Key] = &[
    Key {
        name: EVENT_BATCH,
        kind: Kind::Integer(1, 10_000),
        default: "25",
        description: "Events that the chore react reads in one transaction.",
    },
    Key {
        name: REACTION_BATCH,
        kind: Kind::Integer(1, 10_000),
        default: "25",
        description: "Reactions that the chore propose turns into proposals in one transaction.",
    },
    Key {
        name: MAX_DEPTH,
        kind: Kind::Integer(1, 100),
        default: "5",
        description: "How many times over the loop may react to what it has itself caused.",
    },
];
