//! The settings in force, as this session keeps them, and the keys that every room reads.

use super::cache::Cache;
use super::clock::Micros;
use super::{config, version};
use crate::db::{self, statements};
use agentq_core::bounds;
use agentq_core::config::{Key, Kind};
use agentq_core::version::Schema;
use pgrx::prelude::*;
use serde_json::Value;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::OnceLock;

statements!("settings.sql": SETTINGS_LOAD);

pub const SUBSTRATE_ENABLED: &str = "queue.job_substrate.enabled";
pub const WORKER_ENABLED: &str = "queue.worker.enabled";
pub const NOTIFY_ENABLED: &str = "queue.notify.enabled";
pub const HEARTBEAT_ENABLED: &str = "queue.heartbeat.enabled";
pub const PAYLOAD_MAX_BYTES: &str = bounds::PAYLOAD_SETTING;

pub static KEYS: &[Key] = &[
    Key {
        name: SUBSTRATE_ENABLED,
        kind: Kind::Boolean,
        default: "true",
        description: "Switch of the fn_job_* functions.",
    },
    Key {
        name: WORKER_ENABLED,
        kind: Kind::Boolean,
        default: "true",
        description: "Switch of the engine: its chores, its SQL workers and fn_engine_tick.",
    },
    Key {
        name: NOTIFY_ENABLED,
        kind: Kind::Boolean,
        default: "true",
        description: "Switch of the NOTIFYs that the engine sends on agentq_job_ready.",
    },
    Key {
        name: HEARTBEAT_ENABLED,
        kind: Kind::Boolean,
        default: "true",
        description: "Switch of fn_queue_heartbeat_tick.",
    },
    Key {
        name: PAYLOAD_MAX_BYTES,
        kind: bounds::SETTING,
        default: "262144",
        description: "Largest payload_json or result, in bytes.",
    },
];

/// What the table `config` says.
pub struct Settings {
    /// Whether the schema is that of the version before.
    is_previous: bool,
    values: HashMap<String, Value>,
    /// The four switches.
    pub substrate_enabled: bool,
    /// When somebody last switched the queue on or off.
    pub switched_at: Option<Micros>,
    pub worker_enabled: bool,
    pub notify_enabled: bool,
    pub heartbeat_enabled: bool,
    pub payload_max_bytes: i64,
}

thread_local!(static SETTINGS: Cache<Settings> = const { Cache::new(&[c"config"], Settings::load) });

static FIRST_READ: OnceLock<fn()> = OnceLock::new();

/// Has `tell` called whenever a session reads its settings: at its first call, and when they have changed.
pub fn when_read(tell: fn()) {
    FIRST_READ.get_or_init(|| tell);
}

impl Settings {
    /// The settings in force.
    pub fn current() -> Rc<Settings> {
        SETTINGS.with(Cache::current)
    }

    /// The copy of this session, if it has one that holds. Reads nothing.
    pub fn loaded() -> Option<Rc<Settings>> {
        SETTINGS.with(Cache::loaded)
    }

    fn load() -> Settings {
        let (version, values, switched_at) = db::connect(|db| {
            let row = db.run(&SETTINGS_LOAD, &[]);
            let values = row.get::<pgrx::JsonB>("values").map_or(Value::Null, |values| values.0);
            let switched_at = row.get::<TimestampWithTimeZone>("switched_at").map(TimestampWithTimeZone::into_inner);
            (row.must::<String>("version"), values, switched_at)
        });
        version::must_be_served(&version);
        if let Some(tell) = FIRST_READ.get() {
            tell();
        }
        let mut settings = Settings {
            is_previous: version::schema(&version) == Schema::Previous,
            values: serde_json::from_value(values).unwrap_or_default(),
            substrate_enabled: true,
            switched_at,
            worker_enabled: true,
            notify_enabled: true,
            heartbeat_enabled: true,
            payload_max_bytes: 0,
        };
        settings.substrate_enabled = settings.flag(SUBSTRATE_ENABLED);
        settings.worker_enabled = settings.flag(WORKER_ENABLED);
        settings.notify_enabled = settings.flag(NOTIFY_ENABLED);
        settings.heartbeat_enabled = settings.flag(HEARTBEAT_ENABLED);
        settings.payload_max_bytes = settings.number(PAYLOAD_MAX_BYTES);
        settings
    }

    /// The value of a key. One that someone deleted from the table has its default.
    pub fn value(&self, key: &str) -> Value {
        let default = || config::find(key).map(Key::default_value).unwrap_or_default();
        self.values.get(key).cloned().unwrap_or_else(default)
    }

    pub fn flag(&self, key: &str) -> bool {
        self.value(key).as_bool().unwrap_or(true)
    }

    pub fn number(&self, key: &str) -> i64 {
        self.value(key).as_i64().unwrap_or_default()
    }
}

/// Whether the schema is that of the version before, until somebody updates the extension.
pub fn is_schema_previous() -> bool {
    version::HAS_PREVIOUS && Settings::current().is_previous
}
