//! Functions as former versions declared them. The schema of such a version calls them by these names
//! until it is updated; they are not declared any more.

use super::claim::claim;
use super::dead_letters;
use super::finish::{self, Failed};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use agentq_core::input;
use pgrx::Uuid;
use pgrx::prelude::*;

/// Up to 0.2.0.
#[pg_extern(sql = false)]
fn fn_job_claim(owner: Option<&str>, kind: Option<&str>, seconds: Option<i32>, options: Option<Jsonb>) -> Jsonb {
    claim(owner, None, kind, seconds, options, None)
}

/// Up to 0.2.0.
#[pg_extern(sql = false)]
fn fn_job_claim_batch(
    owner: Option<&str>,
    limit: Option<i32>,
    kind: Option<&str>,
    seconds: Option<i32>,
    options: Option<Jsonb>,
) -> Jsonb {
    claim(owner, Some(required("p_limit", limit)), kind, seconds, options, None)
}

/// Up to 0.4.0.
#[pg_extern(sql = false)]
fn fn_job_fail_or_retry(
    job_id: Option<Uuid>,
    owner: Option<&str>,
    error: Option<&str>,
    error_class: Option<&str>,
    token: Option<Uuid>,
) -> Jsonb {
    let (job_id, owner) = (required("p_job_id", job_id), required("p_lease_owner", owner));
    let class = error_class.map(|class| input::name("p_error_class", class, input::LONGEST_NAME).or_raise());
    finish::fail(job_id, owner, token, &Failed::with(error.unwrap_or_default(), class))
}

/// Up to 0.4.0.
#[pg_extern(sql = false)]
fn fn_dead_letter_triage(letter: Option<Uuid>, status: Option<&str>, note: Option<&str>, by: Option<&str>) -> Jsonb {
    dead_letters::triage(letter, status, note, by, None)
}
