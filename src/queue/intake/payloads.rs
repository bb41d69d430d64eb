//! Many jobs that differ in nothing but their payloads: what they have in common is said, and checked, once.

use super::batch::{self, Options};
use super::job_spec::{self, JOB_KEYS};
use crate::base::ids::{new_id, new_ids};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::{answer, batch_list};
use agentq_core::{Refusal, input, payload};
use pgrx::prelude::*;
use serde_json::Value;

/// What a job has for itself, or what has a parameter here.
const OWN: [&str; 3] = ["job_kind", "idempotency_key", "payload_json"];

#[pg_extern(security_definer)]
fn fn_job_enqueue_payloads(
    p_job_kind: Option<&str>,
    p_payloads: Option<Jsonb>,
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    answer::if_on(|rules| {
        let kind = required("p_job_kind", p_job_kind);
        let payloads = batch_list::checked("p_payloads", required("p_payloads", p_payloads), "[{\"to\": \"ada\"}]");
        let (job, options) = read_options(kind, p_options).or_raise();
        let job = job_spec::read(rules, new_id(), job.container().item()).or_raise();
        let read = payloads.container().elements().zip(new_ids()).map(|(item, id)| {
            let payload = job_spec::checked_payload(item, rules.payload_max_bytes)?;
            batch::admit(rules, job.again(id, payload))
        });
        batch::enqueue_read(c"fn_job_enqueue_payloads()", read.collect(), options)
    })
}

/// What all of the jobs have in common, as one job, and what is asked of the batch.
fn read_options(kind: &str, options: Option<Jsonb>) -> Result<(Jsonb, Options), Refusal> {
    let mut common = match options.map(|options| options.parse("p_options")).transpose()? {
        None => serde_json::Map::new(),
        Some(Value::Object(common)) => common,
        Some(_) => return Err(payload::refuse_not_object("p_options", "this")),
    };
    let of_a_job = JOB_KEYS.into_iter().filter(|key| !OWN.contains(key));
    let accepted: Vec<&str> = of_a_job.chain(batch::OPTIONS).collect();
    input::known_options("p_options", common.keys(), &accepted)?;
    let of_the_batch = batch::OPTIONS.into_iter().filter_map(|key| common.remove_entry(key)).collect();
    common.insert("job_kind".to_owned(), kind.into());
    Ok((Jsonb::from_value(Value::Object(common)), Options::read(Value::Object(of_the_batch))?))
}
