//! Named queues: made, given defaults, paused and resumed.

use super::change::whole;
use super::enqueue::find_queue;
use super::finish::shorten;
use super::hints;
use super::limits::check_description;
use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use agentq_core::{Refusal, input, payload};
use pgrx::prelude::*;
use serde_json::Value;

statement!(QUEUE_SET, "sql/queue_set.sql", [TEXTOID, JSONBOID, TIMESTAMPTZOID]);
statement!(QUEUE_PAUSE, "sql/queue_pause.sql", [TEXTOID, BOOLOID, TEXTOID, TIMESTAMPTZOID]);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_set(p_queue: Option<&str>, p_options: default!(Option<Jsonb>, "'{}'")) -> Jsonb {
    let queue = input::name("p_queue", required("p_queue", p_queue), input::LONGEST_NAME).or_raise();
    let options = p_options.unwrap_or_else(|| Jsonb::from_value(serde_json::json!({})));
    options.parse("p_options").and_then(check).or_raise();
    let now = timestamp(clock::now());
    db::answer(|db| db.run(&QUEUE_SET, &[queue.into(), options.into(), now.into()]).must(1))
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
    let number = |key: &str| map.get(key).filter(|v| !v.is_null()).map(|v| whole(key, v)).transpose();
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
    find_queue(&Settings::current(), queue).or_raise();
    let now = timestamp(clock::now());
    // Claims that wait for jobs of the queue look again when it is resumed.
    hints::stir();
    db::answer(|db| db.run(&QUEUE_PAUSE, &[queue.into(), paused.into(), reason.into(), now.into()]).must(1))
}
