//! Named queues: made, given defaults, paused and resumed.

use crate::base::clock::{self, timestamp};
use crate::base::text::shorten;
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::capacity::limits::check_description;
use crate::queue::rules::Rulebook;
use crate::queue::storage::marks::wake_all_at_commit;
use agentq_core::{Refusal, input, payload};
use pgrx::prelude::*;
use serde_json::Value;

statements!("queues.sql": QUEUE_SET, QUEUE_PAUSE);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_set(p_queue: Option<&str>, p_options: default!(Option<Jsonb>, "'{}'")) -> Jsonb {
    let queue = input::name("p_queue", required("p_queue", p_queue), input::LONGEST_NAME).or_raise();
    let options = p_options.unwrap_or_else(|| Jsonb::from_value(serde_json::json!({})));
    options.parse("p_options").and_then(check).or_raise();
    let now = timestamp(clock::now());
    db::answer(|db| db.run(&QUEUE_SET, &[queue.into(), options.into(), now.into()]).only())
}

fn check(options: Value) -> Result<(), Refusal> {
    let Value::Object(map) = &options else {
        return Err(payload::refuse_not_object("p_options", "this"));
    };
    input::known_options(
        "p_options",
        map.keys(),
        &["lease_seconds", "max_attempts", "priority", "description", "keep_seconds", "durable_claims"],
    )?;
    let number = |key: &str| map.get(key).filter(|v| !v.is_null()).map(|v| input::whole(key, v)).transpose();
    number("lease_seconds")?.map(input::lease_seconds).transpose()?;
    number("max_attempts")?.map(input::max_attempts).transpose()?;
    number("priority")?.map(input::priority).transpose()?;
    number("keep_seconds")?.map(input::keep_seconds).transpose()?;
    check_description(map)?;
    match map.get("durable_claims") {
        None | Some(Value::Null | Value::Bool(_)) => Ok(()),
        Some(other) => Err(Refusal::new(
            format!("durable_claims must be true or false, not {other}"),
            "With false, a crash of the server may undo the claims of its last moments.",
        )),
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_pause(p_queue: Option<&str>, p_reason: default!(Option<&str>, "NULL")) -> Jsonb {
    pause(p_queue, true, p_reason.map(shorten))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_resume(p_queue: Option<&str>) -> Jsonb {
    pause(p_queue, false, None)
}

fn pause(queue: Option<&str>, paused: bool, reason: Option<&str>) -> Jsonb {
    let queue = required("p_queue", queue);
    Rulebook::current().queue(queue).or_raise();
    let now = timestamp(clock::now());
    // Claims that wait for jobs of the queue look again when it is resumed.
    wake_all_at_commit();
    db::answer(|db| db.run(&QUEUE_PAUSE, &[queue.into(), paused.into(), reason.into(), now.into()]).only())
}
