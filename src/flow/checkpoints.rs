//! Checkpoints by themselves: saved by a holder without a heartbeat, and read by whoever is to go on.
//!
//! The queue keeps them, hands them out with a claim, and bounds their size.

use super::steps::with_lease;
use crate::base::bounds::bounded;
use crate::base::clock;
use crate::db::{self, statements};
use crate::error::{OrRaise, required, unknown_job};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::ends::lease;
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("checkpoints.sql": CHECKPOINT_LOAD);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_checkpoint_save(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_checkpoint: Option<Jsonb>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_checkpoint_save: p_lease_owner, p_checkpoint);
    let checkpoint = required("p_checkpoint", p_checkpoint);
    with_lease(p_job_id, p_lease_owner, p_lease_token, |db, rules, job_id, kept| {
        lease::check_checkpoint(rules, checkpoint).or_raise();
        let now = clock::now();
        lease::save_checkpoint(db, job_id, checkpoint, now);
        Jsonb::from_value(json!({
            "ok": true, "code": "saved", "job_id": job_id.to_string(), "saved_at": clock::timestamp(now),
            "bytes": checkpoint.size(), "cancel_requested": kept.cancel_requested,
        }))
    })
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_checkpoint_load(p_job_id: Option<Uuid>) -> Jsonb {
    let job_id = required("p_job_id", p_job_id);
    db::answer(|db| {
        let row = db.run(&CHECKPOINT_LOAD, &[job_id.into()]);
        if !row.is_empty() {
            return row.only();
        }
        answer::state_of(db, job_id).unwrap_or_else(|| unknown_job(job_id));
        Jsonb::from_value(json!({
            "ok": true, "code": "none", "job_id": job_id.to_string(), "checkpoint": Value::Null, "saved_at": Value::Null,
        }))
    })
}
