//! Ack and the next claim in one call: one round trip and one commit instead of two.
//!
//! The answer has both parts. An ack that comes too late (`lease_lost`) does not keep the worker
//! from its next job.

use super::claim;
use super::options::Arguments;
use crate::base::bounds::bounded;
use crate::error::required;
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::ends::ack;
use agentq_core::jsonb::Item;
use pgrx::Uuid;
use pgrx::prelude::*;

#[pg_extern(security_definer)]
fn fn_job_ack_and_claim(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_result: default!(Option<Jsonb>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_job_kind: default!(Option<&str>, "NULL"),
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    answer::if_on(|rules| {
        bounded!(fn_job_ack_and_claim: p_lease_owner, p_result, p_job_kind, p_options);
        let owner = required("p_lease_owner", p_lease_owner);
        let acked = p_job_id.map(|job_id| ack::one(rules, job_id, owner, p_result, p_lease_token));
        let claimed = claim(Arguments {
            owner: Some(owner),
            batch: None,
            kind: p_job_kind,
            lease_seconds: p_lease_seconds,
            options: p_options,
            wait: None,
        });
        let found = claimed.container();
        let code = found.get("code").unwrap_or(Item::Null);
        let job = if code == Item::from("claimed") { found.item() } else { Item::Null };
        together(acked, claimed, &[("job", job)])
    })
}

#[pg_extern(security_definer)]
fn fn_job_ack_and_claim_batch(
    p_lease_owner: Option<&str>,
    p_jobs: Option<Jsonb>,
    p_limit: Option<i32>,
    p_job_kind: default!(Option<&str>, "NULL"),
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_ack_and_claim_batch: p_lease_owner, p_jobs, p_job_kind, p_options);
    answer::if_on(|rules| {
        let owner = required("p_lease_owner", p_lease_owner);
        let limit = required("p_limit", p_limit);
        let acked = p_jobs.map(|jobs| ack::many(rules, owner, jobs));
        let claimed = claim(Arguments {
            owner: Some(owner),
            batch: Some(limit),
            kind: p_job_kind,
            lease_seconds: p_lease_seconds,
            options: p_options,
            wait: None,
        });
        let found = ["count", "jobs", "acks"].into_iter();
        let found: Vec<_> = found.filter_map(|key| Some((key, claimed.container().get(key)?))).collect();
        together(acked, claimed, &found)
    })
}

/// The answer to both: the claim's code, and the queues that are paused, if it says so.
fn together(acked: Option<Jsonb>, claimed: Jsonb, found: &[(&str, Item<'_>)]) -> Jsonb {
    let claim = claimed.container();
    let mut members = vec![
        ("ok", true.into()),
        ("code", claim.get("code").unwrap_or(Item::Null)),
        ("ack", acked.map_or(Item::Null, |acked| acked.container().item())),
    ];
    members.extend_from_slice(found);
    members.extend(claim.get("paused").map(|paused| ("paused", paused)));
    Jsonb::from_container(&json::object(&mut members))
}
