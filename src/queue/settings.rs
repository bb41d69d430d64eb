//! The keys of the table `config` that the queue reads.

use agentq_core::bounds;
use agentq_core::config::{Key, Kind};

pub const NOTIFY_INTERVAL: &str = "queue.notify.interval_ms";
pub const STALE_THRESHOLD: &str = "queue.heartbeat.stale_threshold_seconds";
pub const EXECUTORS_KEEP_SECONDS: &str = "queue.heartbeat.keep_seconds";
pub const REAP_STALE: &str = "queue.heartbeat.reap_stale";
pub const KEEP_SECONDS: &str = "queue.retention.keep_seconds";
pub const METRICS_KEEP_SECONDS: &str = "engine.metrics.keep_seconds";
pub const MAX_ATTEMPTS: &str = "queue.retry.max_attempts_default";
pub const BACKOFF_BASE: &str = "queue.retry.backoff_base_sec";
pub const MAX_CRASHES: &str = "queue.poison.max_crashes";
pub const REPLAY_NEEDS_APPROVAL: &str = "queue.replay.require_approval";
pub const ROUTING_ALERT: &str = "queue.routing.alert_after_seconds";
pub const LEASE_DURATION: &str = "queue.lease.duration_sec";
pub const CHECKPOINT_MAX_BYTES: &str = bounds::CHECKPOINT_SETTING;

pub static KEYS: &[Key] = &[
    Key {
        name: NOTIFY_INTERVAL,
        kind: Kind::Integer(1, 60_000),
        default: "20",
        description: "Milliseconds between two NOTIFYs of the engine, at least; what comes meanwhile is told together.",
    },
    Key {
        name: STALE_THRESHOLD,
        kind: Kind::Integer(1, 86_400),
        default: "300",
        description: "An executor silent for longer is in warning, for twice as long is stale.",
    },
    Key {
        name: EXECUTORS_KEEP_SECONDS,
        kind: Kind::Integer(60, 315_360_000),
        default: "604800",
        description: "Seconds a stale executor is remembered; then the engine removes it.",
    },
    Key {
        name: REAP_STALE,
        kind: Kind::Boolean,
        default: "false",
        description: "Whether jobs held by a stale executor are recovered before their lease expires.",
    },
    Key {
        name: KEEP_SECONDS,
        kind: Kind::Integer(0, 315_360_000),
        default: "604800",
        description: "Seconds a finished job is kept when its queue does not say; then the engine removes it.",
    },
    Key {
        name: METRICS_KEEP_SECONDS,
        kind: Kind::Integer(60, 315_360_000),
        default: "604800",
        description: "Seconds the metrics history is kept.",
    },
    Key {
        name: MAX_ATTEMPTS,
        kind: Kind::Integer(1, 1_000),
        default: "5",
        description: "Attempts a job gets when neither it nor its queue says.",
    },
    Key {
        name: BACKOFF_BASE,
        kind: Kind::Integer(0, 86_400),
        default: "10",
        description: "Seconds to wait after the first failure; doubles with each further one, up to 1024 times.",
    },
    Key {
        name: MAX_CRASHES,
        kind: Kind::Integer(0, 1_000),
        default: "3",
        description: "A job whose lease has expired this many times in a row takes its workers down, and ends in the dead letters; 0: never for that reason.",
    },
    Key {
        name: REPLAY_NEEDS_APPROVAL,
        kind: Kind::Boolean,
        default: "false",
        description: "Whether a job that was replayed before is replayed again only with an approval.",
    },
    Key {
        name: ROUTING_ALERT,
        kind: Kind::Integer(1, 604_800),
        default: "300",
        description: "Seconds after which jobs that require capabilities which no live worker has announced raise the event job.unroutable.",
    },
    Key {
        name: LEASE_DURATION,
        kind: Kind::Integer(1, 86_400),
        default: "300",
        description: "Seconds a claim holds a job when neither it nor the queue says.",
    },
    Key {
        name: CHECKPOINT_MAX_BYTES,
        kind: bounds::SETTING,
        default: "1048576",
        description: "Largest checkpoint, in bytes.",
    },
];
