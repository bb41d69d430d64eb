//! The answers that several functions share.

use crate::base::settings::Settings;
use crate::db::{self, Db, statement};
use crate::error::unknown_job;
use crate::json::Jsonb;
use agentq_core::config;
use pgrx::Uuid;
use serde_json::json;

statement!(JOB_STATE, "sql/job_state.sql", [UUIDOID]);

/// The gate of a function is closed: nothing was done.
pub fn gate_closed(gate: &str) -> Jsonb {
    Jsonb::from_value(json!({
        "ok": false,
        "code": "gate_closed",
        "gate": gate,
        "message": format!("the gate {gate} is closed, so nothing was done"),
        "hint": format!("Open it with SELECT agentq.fn_config_set('{gate}', 'true')."),
    }))
}

/// Runs a job function, unless the master gate is closed. Names are looked for where the server has
/// its own and nowhere else, so that a caller can slip nothing in.
pub fn gated(work: impl FnOnce(&Settings) -> Jsonb) -> Jsonb {
    db::with_own_names(|| {
        let settings = Settings::current();
        if settings.substrate_enabled { work(&settings) } else { gate_closed(config::SUBSTRATE_ENABLED) }
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
    (!row.is_empty()).then(|| row.must(1))
}
