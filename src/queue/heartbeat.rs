//! Signs of life of the executors.

use super::answer;
use super::enqueue::check_signal;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use agentq_core::{Refusal, config, input};
use pgrx::Uuid;
use pgrx::prelude::*;

statement!(TICK, "sql/tick.sql", [TEXTOID, TEXTOID, TEXTOID, UUIDOID, TEXTOID, JSONBOID, TIMESTAMPTZOID]);
statement!(STALE_CHECK, "sql/stale_check.sql", [INT4OID, TIMESTAMPTZOID]);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_heartbeat_tick(
    p_executor_name: Option<&str>,
    p_executor_kind: Option<&str>,
    p_status: default!(Option<&str>, "'ok'"),
    p_current_job_id: default!(Option<Uuid>, "NULL"),
    p_lease_owner: default!(Option<&str>, "NULL"),
    p_metadata: default!(Option<Jsonb>, "'{}'"),
) -> Jsonb {
    let settings = Settings::current();
    if !settings.heartbeat_enabled {
        return answer::gate_closed(config::HEARTBEAT_ENABLED);
    }
    let name = required("p_executor_name", p_executor_name);
    input::name("p_executor_name", name, input::LONGEST_NAME).or_raise();
    let kind = required("p_executor_kind", p_executor_kind);
    input::one_of("executor kind", kind, &input::EXECUTOR_KINDS).or_raise();
    let status = input::one_of("tick status", p_status.unwrap_or("ok"), &input::TICK_STATUSES).or_raise();
    let owner = p_lease_owner.map(|owner| input::name("p_lease_owner", owner, input::LONGEST_NAME).or_raise());
    let metadata = p_metadata.unwrap_or_else(|| Jsonb::from_value(serde_json::json!({})));
    check_signal("p_metadata", metadata, settings.payload_max_bytes).or_raise();
    let now = timestamp(clock::now());
    db::answer(|db| {
        let args = [
            name.into(),
            kind.into(),
            status.into(),
            p_current_job_id.into(),
            owner.into(),
            metadata.into(),
            now.into(),
        ];
        db.run(&TICK, &args).must(1)
    })
}

/// A sign of life that the engine gives for one of its own.
pub fn tick_for(name: &str, kind: &str, job: Option<Uuid>, now: Micros) {
    let metadata = Jsonb::from_value(serde_json::json!({}));
    db::connect(|db| {
        let args =
            [name.into(), kind.into(), "ok".into(), job.into(), name.into(), metadata.into(), timestamp(now).into()];
        db.run(&TICK, &args);
    });
}

/// Reads only, with the caller's own rights, and so works on a standby.
#[pg_extern(stable)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_stale_check(p_threshold_seconds: default!(Option<i32>, "NULL")) -> Jsonb {
    let threshold = p_threshold_seconds.unwrap_or_else(|| Settings::current().stale_threshold_seconds);
    if threshold < 1 {
        Err(Refusal::new(
            format!("p_threshold_seconds must be 1 or more, but is {threshold}"),
            "Leave it out to use queue.heartbeat.stale_threshold_seconds.",
        ))
        .or_raise()
    }
    let now = timestamp(clock::now());
    db::answer(|db| db.run(&STALE_CHECK, &[threshold.into(), now.into()]).must(1))
}
