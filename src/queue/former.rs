//! Functions as former versions declared them. The schema of such a version calls them by these names
//! until it is updated; they are not declared any more.

use super::claim::claim;
use crate::error::required;
use crate::json::Jsonb;
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
