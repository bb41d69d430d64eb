//! The ends of an attempt that a person or a worker decides, other than an ack: failure, release, snooze, cancel
//! and dead letter.

use super::answer;
use super::enqueue::check_schedule;
use super::settle::{self, Ending, Found, Held};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, Db, statement};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use agentq_core::input;
use agentq_core::state::{AfterFailure, after_failure};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statement!(CANCEL_HELD, "sql/cancel_held.sql", [UUIDOID, TIMESTAMPTZOID, TEXTOID]);
statement!(JOB_PURGE, "sql/job_purge.sql", [TIMESTAMPTZOID, INT8OID, UUIDOID]);

/// Errors are kept whole up to a bound, so that a worker cannot fill the disk with stack traces.
const LONGEST_ERROR: usize = 65_536;

fn shorten(error: &str) -> &str {
    let mut end = error.len().min(LONGEST_ERROR);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    &error[..end]
}

fn state_answer(code: &str, state: &str, job_id: Uuid, more: Value) -> Jsonb {
    let mut answer = json!({"ok": true, "code": code, "job_id": job_id.to_string(), "state": state});
    if let (Some(answer), Value::Object(more)) = (answer.as_object_mut(), more) {
        answer.extend(more);
    }
    Jsonb::from_value(answer)
}

fn iso(at: Micros) -> Value {
    json!(timestamp(at))
}

/// Runs `end` on a job that this owner and token hold, or answers `lease_lost`.
fn with_held(
    job_id: Option<Uuid>,
    owner: Option<&str>,
    token: Option<Uuid>,
    end: impl FnOnce(&Db, &Settings, &Held, Micros) -> Jsonb,
) -> Jsonb {
    answer::gated(|settings| {
        let job_id = required("p_job_id", job_id);
        let owner = required("p_lease_owner", owner);
        db::answer(|db| match Held::lock(db, job_id, Some(owner), token) {
            Some(held) => end(db, settings, &held, clock::now()),
            None => answer::lease_lost(db, job_id),
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_fail_or_retry(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_error: Option<&str>,
    p_error_class: default!(Option<&str>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    fail(
        required("p_job_id", p_job_id),
        required("p_lease_owner", p_lease_owner),
        p_error.unwrap_or_default(),
        p_error_class.map(|c| input::name("p_error_class", c, input::LONGEST_NAME).or_raise()),
        p_lease_token,
    )
}

/// Ends an attempt as failed: the job waits for its next try, or ends in the dead letters.
pub fn fail(job_id: Uuid, owner: &str, error: &str, error_class: Option<&str>, token: Option<Uuid>) -> Jsonb {
    let error = if error.trim().is_empty() { "no error was given" } else { shorten(error) };
    let ending = Ending { outcome: "failed", error: Some(error), error_class, costs: 1, ..Ending::default() };
    with_held(Some(job_id), Some(owner), token, |db, settings, held, now| {
        let job_id = held.place.job_id;
        let attempts = held.attempts + 1;
        match after_failure(attempts, held.max_attempts, held.cancel_requested, settings.backoff_base_sec) {
            AfterFailure::Retry { backoff_sec } => {
                let at = now + backoff_sec * 1_000_000;
                settle::rest(db, held, &ending, "retry_waiting", at, now);
                let more = json!({"attempts": attempts, "max_attempts": held.max_attempts,
                    "backoff_sec": backoff_sec, "scheduled_at": iso(at)});
                state_answer("retry_waiting", "retry_waiting", job_id, more)
            }
            AfterFailure::DeadLetter => {
                let letter = settle::bury(db, job_id, &ending, &held.lease_owner, now);
                let more = json!({"attempts": attempts, "max_attempts": held.max_attempts,
                    "dead_letter_id": letter.to_string()});
                state_answer("dead_letter", "dead_letter", job_id, more)
            }
            AfterFailure::Cancel => {
                settle::finish(db, job_id, "cancelled", &ending, now);
                state_answer("cancelled", "cancelled", job_id, json!({"attempts": attempts}))
            }
        }
    })
}

/// Gives a held job back without cost, unless someone asked to cancel it meanwhile.
fn give_back(db: &Db, held: &Held, outcome: &str, at: Micros, now: Micros) -> Jsonb {
    let job_id = held.place.job_id;
    if held.cancel_requested {
        let ending = Ending { outcome: "cancelled", ..Ending::default() };
        settle::finish(db, job_id, "cancelled", &ending, now);
        return state_answer("cancelled", "cancelled", job_id, json!({"attempts": held.attempts}));
    }
    settle::rest(db, held, &Ending { outcome, ..Ending::default() }, "queued", at, now);
    state_answer(outcome, "queued", job_id, json!({"attempts": held.attempts, "scheduled_at": iso(at)}))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_release(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    with_held(p_job_id, p_lease_owner, p_lease_token, |db, _, held, now| {
        give_back(db, held, "released", held.place.scheduled_at, now)
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_snooze(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_until: Option<TimestampWithTimeZone>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    let until = check_schedule(required("p_until", p_until).into_inner()).or_raise();
    with_held(p_job_id, p_lease_owner, p_lease_token, |db, _, held, now| give_back(db, held, "snoozed", until, now))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_cancel(p_job_id: Option<Uuid>, p_reason: default!(Option<&str>, "NULL")) -> Jsonb {
    answer::gated(|_| {
        let job_id = required("p_job_id", p_job_id);
        let reason = p_reason.map(shorten);
        let now = clock::now();
        db::answer(|db| match settle::seize(db, job_id) {
            Found::Resting => {
                let ending = Ending { outcome: "cancelled", cancel_reason: reason, ..Ending::default() };
                settle::finish(db, job_id, "cancelled", &ending, now);
                state_answer("cancelled", "cancelled", job_id, json!({}))
            }
            Found::Held(held) => {
                db.run(&CANCEL_HELD, &[job_id.into(), timestamp(now).into(), reason.into()]);
                state_answer("cancel_requested", &held.state, job_id, json!({"lease_owner": held.lease_owner}))
            }
            Found::Finished(state) => answer::already_finished(job_id, &state),
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_move_to_dead_letter(
    p_job_id: Option<Uuid>,
    p_final_error: Option<&str>,
    p_moved_by: default!(Option<&str>, "NULL"),
) -> Jsonb {
    answer::gated(|_| {
        let job_id = required("p_job_id", p_job_id);
        let error = required("p_final_error", p_final_error);
        input::name("p_final_error", error, usize::MAX).or_raise();
        let moved_by = p_moved_by.map(|by| input::name("p_moved_by", by, input::LONGEST_NAME).or_raise());
        let ending = Ending { outcome: "dead_letter", error: Some(shorten(error)), ..Ending::default() };
        let now = clock::now();
        db::answer(|db| {
            if let Found::Finished(state) = settle::seize(db, job_id) {
                answer::already_finished(job_id, &state)
            } else {
                let by = moved_by.map_or_else(db::session_user, str::to_owned);
                let letter = settle::bury(db, job_id, &ending, &by, now);
                state_answer("dead_letter", "dead_letter", job_id, json!({"dead_letter_id": letter.to_string()}))
            }
        })
    })
}

/// Removes finished jobs. Their dead letters stay.
#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_purge(p_older_than: Option<pgrx::datum::Interval>, p_limit: default!(Option<i32>, "10000")) -> Jsonb {
    answer::gated(|_| {
        let age = required("p_older_than", p_older_than);
        if age.as_micros() < 0 {
            Err(agentq_core::Refusal::new(
                format!("p_older_than must not be negative, but is {age}"),
                "For example: SELECT agentq.fn_job_purge('7 days').",
            ))
            .or_raise()
        }
        let limit = input::purge_limit(required("p_limit", p_limit)).or_raise();
        let before = i64::try_from(i128::from(clock::now()) - age.as_micros()).unwrap_or(Micros::MIN + 1);
        let args = [timestamp(before).into(), i64::from(limit).into(), youngest_id(before).into()];
        db::answer(|db| db.run(&JOB_PURGE, &args).must(1))
    })
}

/// No job that finished before this moment has a larger id, since ids carry the time at which their
/// job was made: there a purge may stop. A session with a moved clock reads to the end.
pub fn youngest_id(at: Micros) -> Uuid {
    const UNIX_TO_SERVER_EPOCH_MS: i64 = 946_684_800_000;
    let mut id = [0xff; 16];
    if !clock::is_shifted() {
        let ms = (at / 1000 + UNIX_TO_SERVER_EPOCH_MS).max(0) as u64;
        id[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
    }
    Uuid::from_bytes(id)
}
