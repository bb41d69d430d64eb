//! Named queues: made, given defaults, paused and resumed.

use crate::base::bounds::bounded;
use crate::base::clock::{self, timestamp};
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::capacity::limits::check_description;
use crate::queue::rules::Rulebook;
use crate::queue::storage::marks::wake_all_at_commit;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::prelude::*;

statements!("queues.sql": QUEUE_SET, QUEUE_PAUSE);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_set(p_queue: Option<&str>, p_options: default!(Option<Jsonb>, "'{}'")) -> Jsonb {
    bounded!(fn_queue_set: p_queue, p_options);
    let queue = input::name("p_queue", required("p_queue", p_queue), input::LONGEST_NAME).or_raise();
    let options = p_options.unwrap_or_else(|| Jsonb::from_value(serde_json::json!({})));
    options.reader("p_options").and_then(check).or_raise();
    let now = timestamp(clock::now());
    db::answer(|db| db.run(&QUEUE_SET, &[queue.into(), options.into(), now.into()]).only())
}

fn check(options: Reader<'_>) -> Result<(), Refusal> {
    options.object(&["lease_seconds", "max_attempts", "priority", "description", "keep_seconds", "durable_claims"])?;
    options.member("lease_seconds").hint(input::LEASE_HINT).whole(input::LEASES)?;
    options.member("max_attempts").hint(input::ATTEMPTS_HINT).whole(input::ATTEMPTS)?;
    options.member("priority").hint(input::PRIORITY_HINT).whole(input::PRIORITIES)?;
    options.member("keep_seconds").hint(input::KEEP_HINT).whole(0..=i32::MAX)?;
    check_description(&options)?;
    let durable = options.member("durable_claims");
    durable.hint("With false, a crash of the server may undo the claims of its last moments.").flag()?;
    Ok(())
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_pause(p_queue: Option<&str>, p_reason: default!(Option<&str>, "NULL")) -> Jsonb {
    bounded!(fn_queue_pause: p_queue, p_reason);
    pause(p_queue, true, p_reason)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_queue_resume(p_queue: Option<&str>) -> Jsonb {
    bounded!(fn_queue_resume: p_queue);
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
