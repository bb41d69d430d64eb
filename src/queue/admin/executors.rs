//! Signs of life of the executors.

use crate::base::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::{HEARTBEAT_ENABLED, Settings};
use crate::base::signal::check_signal;
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::events;
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::ends::reap;
use crate::queue::rules::Rulebook;
use crate::queue::settings::EXECUTORS_KEEP_SECONDS;
use crate::room::Outcome;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("executors.sql": TICK, STALE_CHECK, CLASS_EXECUTORS, FORGET_EXECUTORS);

/// One run recovers at most this many jobs of stale executors.
const RECOVER_AT_MOST: i64 = 500;
/// Executors that one transaction classes anew, and that it forgets.
const CLASS_AT_MOST: i64 = 1_000;

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
    bounded!(fn_queue_heartbeat_tick: p_executor_name, p_executor_kind, p_status, p_lease_owner, p_metadata);
    let rules = Rulebook::current();
    if !rules.heartbeat_enabled {
        return answer::switched_off(HEARTBEAT_ENABLED);
    }
    let name = required("p_executor_name", p_executor_name);
    input::name("p_executor_name", name, input::LONGEST_NAME).or_raise();
    let kind = required("p_executor_kind", p_executor_kind);
    input::one_of("executor kind", kind, &input::EXECUTOR_KINDS).or_raise();
    let status = input::one_of("tick status", p_status.unwrap_or("ok"), &input::TICK_STATUSES).or_raise();
    let owner = p_lease_owner.map(|owner| input::name("p_lease_owner", owner, input::LONGEST_NAME).or_raise());
    let metadata = p_metadata.unwrap_or_else(|| Jsonb::from_value(serde_json::json!({})));
    check_signal("p_metadata", metadata, rules.payload_max_bytes).or_raise();
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
        db.run(&TICK, &args).only()
    })
}

/// Gives a sign of life for one of the SQL workers.
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
    let threshold = p_threshold_seconds.unwrap_or_else(|| Rulebook::current().stale_threshold_seconds);
    if threshold < 1 {
        Err(Refusal::new(
            format!("p_threshold_seconds must be 1 or more, but is {threshold}"),
            "Leave it out to use queue.heartbeat.stale_threshold_seconds.",
        ))
        .or_raise()
    }
    let now = timestamp(clock::now());
    actor::answer(|db| db.run(&STALE_CHECK, &[threshold.into(), now.into()]).only())
}

/// Classes the executors by their last sign of life, tells of every change as an event, and, where that is switched on,
/// recovers the jobs of those that have gone silent.
pub fn check_all() -> Outcome {
    let (rules, now) = (Rulebook::current(), clock::now());
    let (mut changed, mut forgotten) = (0, 0);
    db::connect(|db| {
        let args = [rules.stale_threshold_seconds.into(), timestamp(now).into(), CLASS_AT_MOST.into()];
        db.run(&CLASS_EXECUTORS, &args).each(|row| {
            let (name, was, is): (String, String, String) =
                (row.must("executor_name"), row.must("was"), row.must("now_is"));
            let more = json!({"executor_kind": row.must::<String>("executor_kind"), "was": was, "is": is,
                "silent_seconds": row.must::<f64>("silent")});
            events::emit(db, &format!("executor.{is}"), &name, more, now);
            changed += 1;
        });
        let silent_since = timestamp(now - Settings::current().number(EXECUTORS_KEEP_SECONDS) * 1_000_000);
        forgotten = db.run(&FORGET_EXECUTORS, &[silent_since.into(), CLASS_AT_MOST.into()]).only::<i64>();
    });
    // While the queue is switched off its jobs stay as they are.
    let recovered = if rules.reap_stale && rules.substrate_enabled {
        reap::of_stale_executors(rules.stale_threshold_seconds, now, RECOVER_AT_MOST) as i64
    } else {
        0
    };
    Outcome::and_more(changed + forgotten + recovered, changed.max(forgotten) == CLASS_AT_MOST)
}
