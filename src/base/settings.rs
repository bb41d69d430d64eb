//! A session's copy of the settings and the queues, read again when another session changes them.
//!
//! The tables `config` and `queue` carry a trigger that invalidates their own catalog entry. The
//! server carries that to every session with the commit, and the callback here drops the copy: no
//! polling, no shared memory, and it works on a standby too.

use super::policies::{BudgetRow, ClassRow, LimitRow, Policies, Row};
use crate::db::{self, statement};
use agentq_core::budget::Budgets;
use agentq_core::config;
use agentq_core::limits::Rules;
use pgrx::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

statement!(SETTINGS_LOAD, "settings_load.sql", []);
statement!(POLICIES_LOAD, "policies_load.sql", []);
statement!(BUDGETS_LOAD, "budgets_load.sql", []);

#[derive(Clone, Debug, Deserialize)]
pub struct Queue {
    pub queue_id: i32,
    pub queue: String,
    pub lease_seconds: Option<i32>,
    pub max_attempts: Option<i32>,
    pub priority: Option<i32>,
    pub paused: bool,
    pub keep_seconds: Option<i64>,
    /// Whether a claim is on disk before it is answered.
    pub durable_claims: bool,
}

pub struct Settings {
    config: HashMap<String, Value>,
    queues: HashMap<String, Rc<Queue>>,
    pub substrate_enabled: bool,
    pub heartbeat_enabled: bool,
    pub worker_enabled: bool,
    pub notify_enabled: bool,
    pub notify_interval_ms: i64,
    pub keep_seconds: i64,
    pub metrics_keep_seconds: i64,
    pub reap_stale: bool,
    pub max_attempts: i32,
    pub backoff_base_sec: i64,
    pub lease_seconds: i32,
    pub payload_max_bytes: i64,
    pub checkpoint_max_bytes: i64,
    pub stale_threshold_seconds: i32,
    pub max_crashes: i64,
    pub replay_needs_approval: bool,
    pub routing_alert_seconds: i64,
    pub step_events: bool,
    pub policies: Policies,
    pub limits: Rules,
    pub budgets: Budgets,
    pub events_keep_days: i64,
    pub audit_keep_days: i64,
}

thread_local! {
    static COPY: RefCell<Option<Rc<Settings>>> = const { RefCell::new(None) };
    static WATCHED: Cell<[pg_sys::Oid; 6]> = const { Cell::new([pg_sys::InvalidOid; 6]) };
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

impl Settings {
    /// The settings in force.
    pub fn current() -> Rc<Settings> {
        hear_of_changes();
        if let Some(settings) = COPY.with_borrow(Clone::clone) {
            return settings;
        }
        listen();
        let before = CHANGES.get();
        let settings = Rc::new(Settings::load());
        // A change may have come in while loading; and under REPEATABLE READ what was read may be
        // older than a change already announced.
        if CHANGES.get() == before && !db::has_fixed_snapshot() {
            COPY.set(Some(Rc::clone(&settings)));
        }
        settings
    }

    /// The copy of this session, if it has one. Reads nothing.
    pub fn loaded() -> Option<Rc<Settings>> {
        COPY.with_borrow(Clone::clone)
    }

    /// The queue with this id.
    pub fn queue_by_id(&self, queue_id: i32) -> Option<&Rc<Queue>> {
        self.queues.values().find(|queue| queue.queue_id == queue_id)
    }

    fn load() -> Settings {
        let (oids, config, queues, policies, limits, budgets) = db::connect(|db| {
            let row = db.run(&SETTINGS_LOAD, &[]);
            let oids: [pg_sys::Oid; 6] = std::array::from_fn(|number| row.must(number + 1));
            let (config, queues) = (row.must::<pgrx::JsonB>(7).0, row.must::<pgrx::JsonB>(8).0);
            let row = db.run(&POLICIES_LOAD, &[]);
            let classes: Vec<ClassRow> = serde_json::from_value(row.must::<pgrx::JsonB>(1).0).unwrap_or_default();
            let rows: Vec<Row> = serde_json::from_value(row.must::<pgrx::JsonB>(2).0).unwrap_or_default();
            let limits: Vec<LimitRow> = serde_json::from_value(row.must::<pgrx::JsonB>(3).0).unwrap_or_default();
            let (policies, limits) = (Policies::new(classes, rows), Rules::new(limits.into_iter().map(LimitRow::rule)));
            let rows: Vec<BudgetRow> =
                serde_json::from_value(db.run(&BUDGETS_LOAD, &[]).must::<pgrx::JsonB>(1).0).unwrap_or_default();
            let budgets = Budgets::new(rows.into_iter().filter_map(BudgetRow::budget));
            (oids, config, queues, policies, limits, budgets)
        });
        WATCHED.set(oids);
        // The first call of a session: if nobody has told the launcher of this database, it is told now.
        crate::shared::seats::want();
        let config: HashMap<String, Value> = serde_json::from_value(config).unwrap_or_default();
        let queues: Vec<Queue> = serde_json::from_value(queues).unwrap_or_default();
        let flag = |key| value_of(&config, key).as_bool().unwrap_or(true);
        let number = |key| value_of(&config, key).as_i64().unwrap_or_default();
        Settings {
            substrate_enabled: flag(config::SUBSTRATE_ENABLED),
            heartbeat_enabled: flag(config::HEARTBEAT_ENABLED),
            worker_enabled: flag(config::WORKER_ENABLED),
            notify_enabled: flag(config::NOTIFY_ENABLED),
            notify_interval_ms: number(config::NOTIFY_INTERVAL),
            keep_seconds: number(config::KEEP_SECONDS),
            metrics_keep_seconds: number(config::METRICS_KEEP_SECONDS),
            reap_stale: flag(config::REAP_STALE),
            max_attempts: number(config::MAX_ATTEMPTS) as i32,
            backoff_base_sec: number(config::BACKOFF_BASE),
            lease_seconds: number(config::LEASE_DURATION) as i32,
            payload_max_bytes: number(config::PAYLOAD_MAX_BYTES),
            checkpoint_max_bytes: number(config::CHECKPOINT_MAX_BYTES),
            stale_threshold_seconds: number(config::STALE_THRESHOLD) as i32,
            max_crashes: number(config::MAX_CRASHES),
            replay_needs_approval: flag(config::REPLAY_NEEDS_APPROVAL),
            routing_alert_seconds: number(config::ROUTING_ALERT),
            events_keep_days: number(config::EVENTS_KEEP_DAYS),
            audit_keep_days: number(config::AUDIT_KEEP_DAYS),
            step_events: flag(config::STEP_EVENTS),
            budgets,
            policies,
            limits,
            queues: queues.into_iter().map(|q| (q.queue.clone(), Rc::new(q))).collect(),
            config,
        }
    }

    pub fn value(&self, key: &str) -> Value {
        value_of(&self.config, key)
    }

    pub fn queue(&self, name: &str) -> Option<&Rc<Queue>> {
        self.queues.get(name)
    }

    /// The shortest time for which any queue keeps its finished jobs.
    pub fn shortest_keep_seconds(&self) -> i64 {
        let keeps = self.queues.values().map(|queue| queue.keep_seconds.unwrap_or(self.keep_seconds));
        keeps.min().unwrap_or(self.keep_seconds)
    }

    /// Names of all queues, for an error message.
    pub fn queue_ids(&self) -> Vec<i32> {
        self.queues.values().map(|queue| queue.queue_id).collect()
    }

    pub fn queue_names(&self) -> String {
        let mut names: Vec<_> = self.queues.keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(", ")
    }
}

/// A key that someone deleted from the table falls back to its default.
fn value_of(config: &HashMap<String, Value>, key: &str) -> Value {
    config.get(key).cloned().unwrap_or_else(|| {
        config::find(key).ok().and_then(|k| serde_json::from_str(k.default).ok()).unwrap_or_default()
    })
}

/// Takes in what other sessions have announced, also in the middle of a transaction.
#[allow(unsafe_code, reason = "asking the server for its messages")]
fn hear_of_changes() {
    // SAFETY: the server does the same whenever it locks a table.
    unsafe { pg_sys::AcceptInvalidationMessages() }
}

#[allow(unsafe_code, reason = "registering with the server's invalidation")]
fn listen() {
    if LISTENING.replace(true) {
        return;
    }
    // SAFETY: the callback is a plain function that lives as long as the library.
    unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(forget), pg_sys::Datum::from(0)) }
}

/// Called by the server when a table's catalog entry is invalidated; InvalidOid stands for all.
#[pg_guard]
#[allow(unsafe_code, reason = "the signature the server calls")]
unsafe extern "C-unwind" fn forget(_arg: pg_sys::Datum, table: pg_sys::Oid) {
    let watched = WATCHED.get();
    let all = table == pg_sys::InvalidOid || watched[0] == pg_sys::InvalidOid;
    if all || watched.contains(&table) {
        CHANGES.set(CHANGES.get() + 1);
        COPY.set(None);
    }
}

/// Statement trigger on `config` and `queue`.
#[pg_trigger]
#[allow(unsafe_code, reason = "asking the server to invalidate")]
fn fn_settings_changed<'a>(
    trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, impl WhoAllocated>>, PgTriggerError> {
    let table = trigger.relation()?.oid();
    // SAFETY: the table exists and is locked by the statement that fired the trigger.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) };
    Ok(trigger.old())
}
