//! The configuration keys: their names, kinds, bounds and defaults. This is the only list.

use crate::error::{Refusal, shown};
use crate::jsonb;
use crate::reader::Reader;

/// What a key accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    /// A whole number between the two bounds, both included.
    Integer(i64, i64),
}

pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// The default as JSON text, as the table stores it.
    pub default: &'static str,
    pub description: &'static str,
}

pub const SUBSTRATE_ENABLED: &str = "queue.job_substrate.enabled";
pub const HEARTBEAT_ENABLED: &str = "queue.heartbeat.enabled";
pub const WORKER_ENABLED: &str = "queue.worker.enabled";
pub const NOTIFY_ENABLED: &str = "queue.notify.enabled";
pub const NOTIFY_INTERVAL: &str = "queue.notify.interval_ms";
pub const REAP_STALE: &str = "queue.heartbeat.reap_stale";
pub const KEEP_SECONDS: &str = "queue.retention.keep_seconds";
pub const METRICS_KEEP_SECONDS: &str = "engine.metrics.keep_seconds";
pub const STALE_THRESHOLD: &str = "queue.heartbeat.stale_threshold_seconds";
pub const MAX_ATTEMPTS: &str = "queue.retry.max_attempts_default";
pub const BACKOFF_BASE: &str = "queue.retry.backoff_base_sec";
pub const MAX_CRASHES: &str = "queue.poison.max_crashes";
pub const REPLAY_NEEDS_APPROVAL: &str = "queue.replay.require_approval";
pub const ROUTING_ALERT: &str = "queue.routing.alert_after_seconds";
pub const LEASE_DURATION: &str = "queue.lease.duration_sec";
pub const PAYLOAD_MAX_BYTES: &str = "queue.payload.max_bytes";
pub const CHECKPOINT_MAX_BYTES: &str = "queue.checkpoint.max_bytes";
pub const EVENT_BATCH: &str = "governance.event_batch";
pub const REACTION_BATCH: &str = "governance.reaction_batch";
pub const MAX_DEPTH: &str = "governance.max_depth";

pub const EVENTS_KEEP_DAYS: &str = "events.retention_days";
pub const AUDIT_KEEP_DAYS: &str = "events.audit_retention_days";
pub const STEP_EVENTS: &str = "flow.step_events";
pub const COMPENSATION_MAX_DEPTH: &str = "flow.compensation.max_depth";
pub const COMPENSATE_UNKNOWN: &str = "flow.compensation.include_unknown";
pub const EFFECTS_KEEP_SECONDS: &str = "flow.effects.keep_seconds";
pub const RESULT_MAX_BYTES: &str = "flow.result.max_bytes";

pub const KEYS: &[Key] = &[
    Key {
        name: SUBSTRATE_ENABLED,
        kind: Kind::Boolean,
        default: "true",
        description: "Master gate of the fn_job_* functions.",
    },
    Key {
        name: WORKER_ENABLED,
        kind: Kind::Boolean,
        default: "true",
        description: "Gate of the engine: its chores, its SQL workers and fn_engine_tick.",
    },
    Key {
        name: NOTIFY_ENABLED,
        kind: Kind::Boolean,
        default: "true",
        description: "Gate of the NOTIFYs that the engine sends on agentq_job_ready.",
    },
    Key {
        name: NOTIFY_INTERVAL,
        kind: Kind::Integer(1, 60_000),
        default: "20",
        description: "Milliseconds between two NOTIFYs of the engine, at least; what comes meanwhile is told together.",
    },
    Key {
        name: HEARTBEAT_ENABLED,
        kind: Kind::Boolean,
        default: "true",
        description: "Gate of fn_queue_heartbeat_tick.",
    },
    Key {
        name: STALE_THRESHOLD,
        kind: Kind::Integer(1, 86_400),
        default: "300",
        description: "An executor silent for longer is in warning, for twice as long is stale.",
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
        description: "A job whose lease has expired so often in a row takes its workers down, and ends in the dead letters; 0: never for that reason.",
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
        description: "Jobs that require capabilities which no live worker has announced raise the event job.unroutable after so many seconds.",
    },
    Key {
        name: LEASE_DURATION,
        kind: Kind::Integer(1, 86_400),
        default: "300",
        description: "Seconds a claim holds a job when neither it nor the queue says.",
    },
    Key {
        name: PAYLOAD_MAX_BYTES,
        kind: Kind::Integer(1_024, 67_108_864),
        default: "262144",
        description: "Largest payload_json or result, in bytes.",
    },
    Key {
        name: CHECKPOINT_MAX_BYTES,
        kind: Kind::Integer(1_024, 67_108_864),
        default: "1048576",
        description: "Largest checkpoint, in bytes.",
    },
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
        description: "A manifest may have chains of so many compensations that follow each other.",
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
        kind: Kind::Integer(1_024, 67_108_864),
        default: "262144",
        description: "Largest result of a step or an action, and largest payload of a signal, in bytes.",
    },
];

impl Kind {
    fn accepts(self) -> String {
        match self {
            Kind::Boolean => "true or false".to_owned(),
            Kind::Integer(low, high) => format!("a whole number from {low} to {high}"),
        }
    }
}

pub fn find(name: &str) -> Result<&'static Key, Refusal> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        Refusal::new(
            format!("there is no configuration key \"{}\"", shown(name)),
            format!("The keys are: {}.", names.join(", ")),
        )
    })
}

/// Accepts a value for a key, or says what the key accepts. None: a value that cannot be read.
pub fn check(name: &str, value: Option<Reader<'_>>) -> Result<(), Refusal> {
    let key = find(name)?;
    let fits = value.as_ref().is_some_and(|value| match key.kind {
        Kind::Boolean => value.flag().is_ok(),
        Kind::Integer(low, high) => value.whole(low..=high).is_ok(),
    });
    if fits {
        return Ok(());
    }
    Err(Refusal::new(
        format!(
            "configuration key \"{name}\" does not accept {}",
            value.map_or("this value".to_owned(), |value| jsonb::shown(value.item()))
        ),
        format!("It accepts {}. {}", key.kind.accepts(), key.description),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::document;
    use serde_json::{Value, json};

    fn check(name: &str, value: Option<&Value>) -> Result<(), Refusal> {
        super::check(name, value.map(|value| Reader::at("p_value", document(value))))
    }

    #[test]
    fn every_default_is_acceptable_to_its_own_key() {
        for key in KEYS {
            let value: Value = serde_json::from_str(key.default).unwrap();
            assert_eq!(check(key.name, Some(&value)), Ok(()), "{}", key.name);
        }
    }

    #[test]
    fn an_unknown_key_lists_the_known_ones() {
        let refusal = check("queue.lease", Some(&json!(1))).unwrap_err();
        assert!(refusal.message.contains("queue.lease"));
        for key in KEYS {
            assert!(refusal.hint.contains(key.name));
        }
    }

    #[test]
    fn a_value_of_the_wrong_kind_or_out_of_bounds_is_refused() {
        for (key, value) in [
            (SUBSTRATE_ENABLED, json!("true")),
            (SUBSTRATE_ENABLED, json!(1)),
            (LEASE_DURATION, json!(true)),
            (LEASE_DURATION, json!(0)),
            (LEASE_DURATION, json!(1.5)),
            (LEASE_DURATION, json!("300")),
            (LEASE_DURATION, json!(null)),
            (MAX_ATTEMPTS, json!(-1)),
        ] {
            assert!(check(key, Some(&value)).is_err() && check(key, None).is_err(), "{key} = {value}");
        }
    }
}
