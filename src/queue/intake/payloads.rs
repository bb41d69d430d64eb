//! Many jobs that differ in nothing but their payloads: the caller says once what they have in common, and it is
//! checked once.

use super::admission::Admission;
use super::batch::{self, Options};
use super::job_spec::{self, JOB_KEYS};
use crate::base::bounds::bounded;
use crate::base::ids::{new_id, new_ids};
use crate::error::{OrRaise, required};
use crate::json::{self, Jsonb};
use crate::queue::{answer, batch_list};
use agentq_core::Refusal;
use agentq_core::jsonb::Item;
use pgrx::prelude::*;

/// Keys that the options must not have: each job has its own, or they have a parameter here.
const OWN: [&str; 3] = ["job_kind", "idempotency_key", "payload_json"];

#[pg_extern(security_definer)]
fn fn_job_enqueue_payloads(
    p_job_kind: Option<&str>,
    p_payloads: Option<Jsonb>,
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_enqueue_payloads: p_job_kind, p_payloads, p_options);
    answer::if_on(|rules| {
        let kind = required("p_job_kind", p_job_kind);
        let payloads = batch_list::checked("p_payloads", required("p_payloads", p_payloads), "[{\"to\": \"ada\"}]");
        let (job, options) = read_options(kind, p_options).or_raise();
        let job = job_spec::read(rules, new_id(), job.container().item()).or_raise();
        let mut admission = Admission::default();
        let read = payloads.container().elements().zip(new_ids()).map(|(item, id)| {
            let payload = job_spec::checked_payload(item, rules.payload_max_bytes)?;
            batch::admit(&mut admission, rules, job.again(id, payload))
        });
        batch::enqueue_read(c"fn_job_enqueue_payloads()", read.collect(), options)
    })
}

/// What all of the jobs have in common, as one job, and what is asked of the batch.
fn read_options(kind: &str, options: Option<Jsonb>) -> Result<(Jsonb, Options), Refusal> {
    let of_a_job = JOB_KEYS.into_iter().filter(|key| !OWN.contains(key));
    let accepted: Vec<&str> = of_a_job.chain(batch::OPTIONS).collect();
    let options = json::options(options, &accepted)?;
    let of_the_job = options.members()?.filter(|(key, _)| !batch::OPTIONS.contains(key));
    let mut members: Vec<(&str, Item<'_>)> = of_the_job.map(|(key, value)| (key, value.item())).collect();
    members.push(("job_kind", kind.into()));
    Ok((Jsonb::from_container(&json::object(&mut members)), Options::read(&options)?))
}
