//! What a holder may do with a job it keeps: start it, extend its lease, save its checkpoint. Fenced by owner and
//! token: anyone else is told `lease_lost`, and nothing changes.

use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::signal::check_signal;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::capacity::budgets;
use crate::queue::rules::Rulebook;
use crate::queue::settings::CHECKPOINT_MAX_BYTES;
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("lease.sql": START, EXTEND, KEEP, LEASE_OF, CHECKPOINT);

/// As the schema of the version before declares it.
#[pg_extern(sql = false)]
fn fn_job_start(p_job_id: Option<Uuid>, p_lease_owner: Option<&str>, p_lease_token: Option<Uuid>) -> Jsonb {
    start_run(p_job_id, p_lease_owner, p_lease_token, None, None)
}

#[pg_extern(name = "fn_job_start", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn start_run(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_run_id: default!(Option<&str>, "NULL"),
    p_meta: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_start: p_lease_owner, p_run_id, p_meta);
    answer::if_on(|rules| {
        let job_id = required("p_job_id", p_job_id);
        let owner = required("p_lease_owner", p_lease_owner);
        let run_id = p_run_id.map(|run| input::name("p_run_id", run, input::LONGEST_KEY).or_raise());
        p_meta.into_iter().for_each(|meta| check_signal("p_meta", meta, rules.payload_max_bytes).or_raise());
        let now = timestamp(clock::now());
        db::answer(|db| {
            let args = [job_id.into(), owner.into(), p_lease_token.into(), now.into(), run_id.into(), p_meta.into()];
            let row = db.run(&START, &args);
            if row.is_empty() { answer::lease_lost(db, job_id, Some(owner), p_lease_token) } else { row.only() }
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_heartbeat(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_checkpoint: default!(Option<Jsonb>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_heartbeat: p_lease_owner, p_checkpoint);
    answer::if_on(|rules| {
        let job_id = required("p_job_id", p_job_id);
        let owner = required("p_lease_owner", p_lease_owner);
        let seconds = p_lease_seconds.map(|s| input::lease_seconds(s).or_raise());
        p_checkpoint.into_iter().for_each(|checkpoint| check_checkpoint(rules, checkpoint).or_raise());
        let at = clock::now();
        let now = timestamp(at);
        db::answer(|db| {
            let args = [
                job_id.into(),
                owner.into(),
                p_lease_token.into(),
                now.into(),
                seconds.into(),
                rules.lease_seconds.into(),
            ];
            let row = db.run(&EXTEND, &args);
            if row.is_empty() {
                return answer::lease_lost(db, job_id, Some(owner), p_lease_token);
            }
            let answer: Jsonb = row.only();
            if let Some(checkpoint) = p_checkpoint {
                save_checkpoint(db, job_id, checkpoint, at);
            }
            let over = budgets::exceeded(rules, job_id, at);
            if over.is_empty() { answer } else { answer.with("over_budget", Jsonb::from_value(json!(over))) }
        })
    })
}

/// A lease that its holder keeps while it says something about its job.
pub struct Kept {
    pub token: Uuid,
    pub cancel_requested: bool,
}

/// Holds the lease, if this owner (and, where given, this token) has it, to the end of the transaction. It can be
/// extended meanwhile, but neither ended nor recovered by another session. None: it has another holder, or none.
pub fn keep(db: &Db, job_id: Uuid, owner: Option<&str>, token: Option<Uuid>) -> Option<Kept> {
    let row = db.run(&KEEP, &[job_id.into(), owner.into(), token.into()]);
    (!row.is_empty()).then(|| Kept { token: row.must("lease_token"), cancel_requested: row.must("cancel_requested") })
}

/// The token of the lease, if this owner (and, where given, this token) has it. Locks nothing.
pub fn token_of(db: &Db, job_id: Uuid, owner: &str, token: Option<Uuid>) -> Option<Uuid> {
    let row = db.run(&LEASE_OF, &[job_id.into(), owner.into(), token.into()]);
    (!row.is_empty()).then(|| row.only())
}

/// Refuses a checkpoint that is too large.
pub fn check_checkpoint(rules: &Rulebook, checkpoint: Jsonb) -> Result<(), Refusal> {
    let (size, most) = (checkpoint.size(), rules.checkpoint_max_bytes);
    if size as i64 <= most {
        return Ok(());
    }
    Err(payload::refuse_too_large("p_checkpoint", size, most, CHECKPOINT_MAX_BYTES))
}

/// Saves a checkpoint in place of the one before.
pub fn save_checkpoint(db: &Db, job_id: Uuid, checkpoint: Jsonb, now: Micros) {
    db.run(&CHECKPOINT, &[job_id.into(), timestamp(now).into(), checkpoint.into()]);
}
