//! How a job is tried again: as it says itself, or as its kind, its queue or the default say.

use crate::json::Jsonb;
use crate::queue::rows::job;
use crate::queue::rules::{PolicyRow, Rulebook};
use crate::queue::storage::Place;
use crate::table::{Moment, Scan, Table};
use agentq_core::retry::Policy;

pub fn policy_of(rules: &Rulebook, place: &Place) -> Policy {
    rules.retry_policy(own(place).as_ref(), place.queue_id, &place.job_kind)
}

/// What the job itself says. What cannot be read is as if it said nothing: it was checked when the job came.
fn own(place: &Place) -> Option<PolicyRow> {
    let (jobs, moment) = (Table::open(&job::TABLE), Moment::latest());
    let mut body = Scan::by_id(&jobs, &moment, c"job_pkey", place.job_id);
    let policy = body.next().then(|| body.maybe_bytes(job::retry).map(Jsonb::from_container))??;
    serde_json::from_value(policy.parse("retry").ok()?).ok()
}
