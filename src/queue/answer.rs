//! The answers that several functions share.

use crate::base::settings::SUBSTRATE_ENABLED;
use crate::db::{self, Db, statements};
use crate::error::unknown_job;
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use pgrx::Uuid;
use serde_json::json;

statements!("answer.sql": JOB_STATE);

/// Somebody has switched the function off: nothing was done.
pub fn switched_off(switch: &str) -> Jsonb {
    Jsonb::from_value(json!({
        "ok": false,
        "code": "gate_closed",
        "gate": switch,
        "message": format!("the gate {switch} is closed, so nothing was done"),
        "hint": format!("Open it with SELECT agentq.fn_config_set('{switch}', 'true')."),
    }))
}

/// Runs a job function, unless somebody has switched all of them off. Names mean the server's own objects and nothing
/// else, so that a caller can slip nothing in.
pub fn if_on(work: impl FnOnce(&Rulebook) -> Jsonb) -> Jsonb {
    db::with_own_names(|| {
        let rules = Rulebook::current();
        if rules.substrate_enabled { work(&rules) } else { switched_off(SUBSTRATE_ENABLED) }
    })
}

/// What the caller sees when it no longer, or not yet, holds the job. An unknown job is an error.
pub fn lease_lost(db: &Db, job_id: Uuid) -> Jsonb {
    let state = state_of(db, job_id).unwrap_or_else(|| unknown_job(job_id));
    Jsonb::from_value(json!({
        "ok": false,
        "code": "lease_lost",
        "job_id": job_id.to_string(),
        "state": state,
        "message": "this owner and token do not hold the job; nothing was changed",
        "hint": "Stop working on it: its lease ended, or it was given to another. Claim anew.",
    }))
}

pub fn already_finished(job_id: Uuid, state: &str) -> Jsonb {
    Jsonb::from_value(json!({
        "ok": false,
        "code": "already_finished",
        "job_id": job_id.to_string(),
        "state": state,
        "message": format!("the job is {state} and stays so"),
    }))
}

pub fn state_of(db: &Db, job_id: Uuid) -> Option<String> {
    let row = db.run(&JOB_STATE, &[job_id.into()]);
    (!row.is_empty()).then(|| row.only())
}
