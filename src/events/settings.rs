//! The keys of the table `config` that the events room reads.

use agentq_core::config::{Key, Kind};

pub const EVENTS_KEEP_DAYS: &str = "events.retention_days";
pub const AUDIT_KEEP_DAYS: &str = "events.audit_retention_days";

pub static KEYS: &[Key] = &[
    Key {
        name: EVENTS_KEEP_DAYS,
        kind: Kind::Integer(0, 36_500),
        default: "30",
        description: "Days for which events and steps of agents are kept, at least; then the engine drops their partition. 0: for ever.",
    },
    Key {
        name: AUDIT_KEEP_DAYS,
        kind: Kind::Integer(0, 36_500),
        default: "400",
        description: "Days for which audits are kept, at least; then the engine drops their partition. 0: for ever.",
    },
];
