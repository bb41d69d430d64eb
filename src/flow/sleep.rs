//! Durable sleep: a job gives its worker free, and goes on later where it was.
//!
//! A sleep is remembered like a step. The first call ends the attempt, which costs none; the call of the attempt that
//! comes after the time is told that it woke. Until when it sleeps is what the first call said. Locks: the lease, the
//! row of the step, then what giving a job back takes.

use super::step_rows::{self, Wanted};
use super::steps::options;
use crate::base::bounds::bounded;
use crate::base::clock::check_moment;
use crate::base::clock::{self, Micros, timestamp};
use crate::db;
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::ends::{dormant, lease};
use crate::queue::storage::LockedLease;
use agentq_core::reader::Reader;
use agentq_core::retry::LONGEST_WAIT;
use agentq_core::steps::{Inputs, LONGEST_NAME, Next};
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::prelude::*;
use serde_json::json;

/// Sleeps that have no name of their own are counted.
const UNNAMED: &str = "sleep";

/// Microseconds of a time that a job is to wait.
pub fn check_wait(what: &str, wait: &Interval) -> Result<i64, Refusal> {
    let seconds = wait.as_micros() as f64 / 1e6;
    if (0.0..=LONGEST_WAIT).contains(&seconds) {
        return Ok(wait.as_micros() as i64);
    }
    Err(Refusal::new(
        format!("{what} must be from 0 to 3650 days, but is {wait}"),
        "Say how long from now, as in interval '30 seconds'.",
    ))
}

fn until(p_until: Option<TimestampWithTimeZone>, p_for: Option<Interval>, now: Micros) -> Result<Micros, Refusal> {
    match (p_until, p_for) {
        (Some(at), None) => check_moment("p_until", at.into_inner()),
        (None, Some(wait)) => Ok(now + check_wait("p_for", &wait)?),
        _ => Err(Refusal::new(
            "say until when the job is to sleep, or for how long, but not both or neither",
            "For example: fn_job_sleep(job, owner, p_for => '1 hour').",
        )),
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_sleep(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_until: default!(Option<TimestampWithTimeZone>, "NULL"),
    p_for: default!(Option<Interval>, "NULL"),
    p_name: default!(Option<&str>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_sleep: p_lease_owner, p_name, p_options);
    answer::if_on(|_| {
        let job_id = required("p_job_id", p_job_id);
        let owner = required("p_lease_owner", p_lease_owner);
        let name = p_name.map(|name| input::name("p_name", name, LONGEST_NAME).or_raise());
        let mut options = options(p_options, &["index", "repeat", "ordered"]);
        options.repeat |= name.is_none() && options.index.is_none();
        let name = name.unwrap_or(UNNAMED);
        let now = clock::now();
        let until = until(p_until, p_for, now).or_raise();
        let inputs = Inputs::of(Reader::empty("p_inputs").item());
        db::answer(|db| {
            let Some(held) = LockedLease::lock(db, job_id, Some(owner), p_lease_token) else {
                return answer::lease_lost(db, job_id, Some(owner), p_lease_token);
            };
            let Some(kept) = lease::keep(db, job_id, Some(owner), p_lease_token) else {
                return answer::lease_lost(db, job_id, Some(owner), p_lease_token);
            };
            let (token, until) = (kept.token, Some(until));
            let wanted = Wanted { job_id, token, name, kind: "sleep", inputs: &inputs, options: &options, until };
            let (next, step) = wanted.begin(db, wanted.occurrence(db), now);
            let until = step.until.unwrap_or(now);
            if next == Next::Run && until > now {
                let why = json!({"gate": "sleep", "message": format!("it sleeps ({name})"), "step": name,
                    "hint": "It goes on by itself; fn_job_change wakes it for a look, after which it sleeps on."});
                if let Some(cancelled) = dormant::rest_until(db, &held, "slept", until, why, now) {
                    return cancelled;
                }
                return Jsonb::from_value(json!({
                    "ok": true, "code": "slept", "job_id": job_id.to_string(), "state": "queued", "step": name,
                    "occurrence": step.occurrence, "until": timestamp(until),
                    "message": "the job sleeps and is no longer held: stop working on it",
                }));
            }
            if next == Next::Run {
                step_rows::end(db, job_id, name, step.occurrence, Ok(None), now);
            }
            Jsonb::from_value(json!({
                "ok": true, "code": "woke", "job_id": job_id.to_string(), "step": name, "occurrence": step.occurrence,
                "until": timestamp(until), "cancel_requested": kept.cancel_requested,
            }))
        })
    })
}
