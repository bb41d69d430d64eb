//! The answers that several functions share.

use crate::base::settings::SUBSTRATE_ENABLED;
use crate::db::{self, Db, statements};
use crate::error::unknown_job;
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use agentq_core::state::JobState;
use pgrx::Uuid;
use serde_json::json;

statements!("answer.sql": JOB_STATE, LOST_LEASE);

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

/// Why a caller does not hold a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// This very attempt has acked it.
    OwnEnd,
    /// It has finished in another way.
    Finished,
    /// Another attempt is under way.
    GivenOn,
    /// The attempt has ended, and the job waits for another.
    Ended,
    NeverHeld,
}

impl Lost {
    /// A stable word, and what to tell people.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Lost::OwnEnd => ("finished", "this attempt has finished the job already; nothing was changed"),
            Lost::Finished => ("finished", "the job has finished without this owner and token; nothing was changed"),
            Lost::GivenOn => ("given_on", "the job was given to another attempt; nothing was changed"),
            Lost::Ended => ("ended", "this attempt has ended, by its lease or by a call; nothing was changed"),
            Lost::NeverHeld => ("never_held", "this owner and token do not hold the job; nothing was changed"),
        }
    }
}

/// A lease that a caller does not hold.
pub struct LostLease {
    pub lost: Lost,
    /// How the job stands.
    pub state: String,
    /// The error with which somebody else has ended the caller's attempt: a deadline, a stall, an expiry.
    verdict: Option<Jsonb>,
}

/// Finds out why this owner and token do not hold a job, and how it stands. None: there is no such job.
pub fn why_lost(db: &Db, job_id: Uuid, owner: Option<&str>, token: Option<Uuid>) -> Option<LostLease> {
    let row = db.run(&LOST_LEASE, &[job_id.into(), owner.into(), token.into()]);
    if row.is_empty() {
        return None;
    }
    let state: String = row.must("state");
    let is_finished = JobState::parse(&state).is_some_and(JobState::is_finished);
    let lost = match (is_finished, row.must::<bool>("is_own_end"), row.must::<bool>("was_held")) {
        (true, true, _) => Lost::OwnEnd,
        (true, false, _) => Lost::Finished,
        (false, _, true) if row.must::<bool>("is_held") => Lost::GivenOn,
        (false, _, true) => Lost::Ended,
        (false, _, false) => Lost::NeverHeld,
    };
    Some(LostLease { lost, state, verdict: row.get("verdict") })
}

/// What the caller sees when it no longer, or not yet, holds the job. An unknown job is an error.
pub fn lease_lost(db: &Db, job_id: Uuid, owner: Option<&str>, token: Option<Uuid>) -> Jsonb {
    let LostLease { lost, state, verdict } = why_lost(db, job_id, owner, token).unwrap_or_else(|| unknown_job(job_id));
    if lost == Lost::OwnEnd {
        return already_finished(job_id, &state);
    }
    let (why, message) = lost.words();
    let answer = Jsonb::from_value(json!({
        "ok": false,
        "code": "lease_lost",
        "job_id": job_id.to_string(),
        "state": state,
        "why": why,
        "message": message,
        "hint": "Stop working on it, and claim anew.",
    }));
    verdict.map_or(answer, |verdict| answer.merged(verdict))
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
