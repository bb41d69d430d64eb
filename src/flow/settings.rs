//! The keys of the table `config` that the flow room reads.

use agentq_core::bounds;
use agentq_core::config::{Key, Kind};

pub const STEP_EVENTS: &str = "flow.step_events";
pub const COMPENSATION_MAX_DEPTH: &str = "flow.compensation.max_depth";
pub const COMPENSATE_UNKNOWN: &str = "flow.compensation.include_unknown";
pub const EFFECTS_KEEP_SECONDS: &str = "flow.effects.keep_seconds";
pub const RESULT_MAX_BYTES: &str = bounds::RESULT_SETTING;

pub static KEYS: &[Key] = &[
    Key {
        name: STEP_EVENTS,
        kind: Kind::Boolean,
        default: "true",
        description: "Whether a mission's step that succeeds writes the event step.succeeded.",
    },
    Key {
        name: COMPENSATION_MAX_DEPTH,
        kind: Kind::Integer(1, 100),
        default: "2",
        description: "A manifest may have chains of at most this many compensations that follow each other.",
    },
    Key {
        name: COMPENSATE_UNKNOWN,
        kind: Kind::Boolean,
        default: "false",
        description: "Whether effects that were begun and never ended are compensated as well, when nothing else is asked for.",
    },
    Key {
        name: EFFECTS_KEEP_SECONDS,
        kind: Kind::Integer(0, 3_153_600_000),
        default: "31536000",
        description: "Seconds an effect is kept after its end, and as long as its job is; then the engine removes it. One that waits for a person stays.",
    },
    Key {
        name: RESULT_MAX_BYTES,
        kind: bounds::SETTING,
        default: "262144",
        description: "Largest result of a step or an action, and largest payload of a signal, in bytes.",
    },
];
