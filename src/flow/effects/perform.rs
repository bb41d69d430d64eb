//! Carrying out an effect: begun, and ended with success or failure, by the holder of its job. Fenced by the lease.
//!
//! An effect that was begun under a lease that is gone may have happened or not. It is not begun again, unless its
//! type is declared idempotent, until somebody who has looked says what became of it.

use super::{About, audit};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::PAYLOAD_MAX_BYTES;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::flow::missions::{is_cancelled, unless_refused};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::rules::Rulebook;
use crate::queue::storage::LockedLease;
use agentq_core::effects::{self, Begin, Status};
use agentq_core::{input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("perform.sql": EFFECT_JOB, EFFECT_LOCK, EFFECT_BEGIN, EFFECT_END, EFFECT_GET);

const VERDICTS: [&str; 2] = ["done", "not_done"];

/// An effect whose row is locked.
struct Effect {
    id: Uuid,
    status: Status,
    idempotent: bool,
    mission_id: Option<Uuid>,
    job_id: Uuid,
    /// The lease of its job now, if it is held.
    lease: Option<Uuid>,
    begun_under_this_lease: bool,
    /// Whether a chain that runs has yet to compensate it, or is at it.
    in_running_chain: bool,
    /// Its members, for answers.
    told: Value,
}

impl Effect {
    fn lock(db: &Db, id: Uuid) -> Effect {
        let row = db.run(&EFFECT_LOCK, &[id.into()]);
        if row.is_empty() {
            unknown(id)
        }
        Effect {
            id,
            status: row.word("status", Status::parse),
            idempotent: row.must("idempotent"),
            mission_id: row.get("mission_id"),
            job_id: row.must("job_id"),
            lease: row.get("lease_token"),
            begun_under_this_lease: row.must("is_mine"),
            in_running_chain: row.must("in_chain"),
            told: row.must::<pgrx::JsonB>("told").0,
        }
    }

    fn answer(&self, ok: bool, code: &str, more: Value) -> Jsonb {
        let mut answer = json!({
            "ok": ok, "code": code, "effect_id": self.id.to_string(), "effect_type": self.told["effect_type"],
            "idempotency_key": self.told["idempotency_key"], "status": self.status.name(),
        });
        if let (Some(answer), Value::Object(more)) = (answer.as_object_mut(), more) {
            answer.extend(more);
        }
        Jsonb::from_value(answer)
    }

    /// Writes down what somebody has decided about it.
    fn audit(&self, db: &Db, kind: &str, what: Value, now: Micros) {
        let (subject, mission, job) = (self.id.to_string(), self.mission_id, Some(self.job_id));
        audit(db, kind, About { kind: "effect", subject: &subject, mission, job }, what, now);
    }

    fn end(&self, db: &Db, status: Status, result: Option<Jsonb>, error: Option<&str>, now: Micros) {
        let args = [self.id.into(), status.name().into(), result.into(), error.into(), timestamp(now).into()];
        db.run(&EFFECT_END, &args);
    }
}

fn unknown(id: Uuid) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
        format!("there is no effect {id}"),
        "Use the effect_id that agentq.fn_effect_plan returned.",
    )
}

fn job_of(db: &Db, id: Uuid) -> Uuid {
    let row = db.run(&EFFECT_JOB, &[id.into()]);
    if row.is_empty() { unknown(id) } else { row.only() }
}

/// Runs `work` on an effect whose job this owner and token hold, or answers `lease_lost`.
fn with_held(
    effect_id: Option<Uuid>,
    owner: Option<&str>,
    token: Option<Uuid>,
    work: impl FnOnce(&Db, &LockedLease, &Effect, Micros) -> Jsonb,
) -> Jsonb {
    answer::if_on(|_| {
        let id = required("p_effect_id", effect_id);
        let owner = required("p_lease_owner", owner);
        db::answer(|db| {
            let job_id = job_of(db, id);
            match LockedLease::lock(db, job_id, Some(owner), token) {
                Some(held) => work(db, &held, &Effect::lock(db, id), clock::now()),
                None => answer::lease_lost(db, job_id, Some(owner), token),
            }
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_begin(
    p_effect_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_effect_begin: p_lease_owner);
    with_held(p_effect_id, p_lease_owner, p_lease_token, |db, held, effect, now| {
        match effects::begin(effect.status, effect.begun_under_this_lease, effect.idempotent) {
            Begin::Run { .. } if held.cancel_requested || is_cancelled(db, held.place.job_id) => {
                let more = json!({
                    "cancel_requested": true,
                    "message": "somebody has cancelled the job or its mission, so no effect begins any more",
                    "hint": "Stop, and give the job up with agentq.fn_job_fail_or_retry or agentq.fn_job_release.",
                });
                effect.answer(false, "cancel_requested", more)
            }
            Begin::Run { again } => {
                let begun = db.run(&EFFECT_BEGIN, &[effect.id.into(), effect.lease.into(), timestamp(now).into()]);
                let more = json!({
                    "status": Status::Executing.name(), "payload": effect.told["payload"], "begun": begun.only::<i32>(),
                    "again": again, "cancel_requested": held.cancel_requested,
                });
                effect.answer(true, "run", more)
            }
            Begin::Done => effect.answer(true, "done", json!({"result": effect.told["result"]})),
            Begin::InProgress => {
                let more = json!({
                    "begun_at": effect.told["begun_at"],
                    "message": "this attempt has begun the effect and not ended it",
                    "hint": "End it with agentq.fn_effect_finish or agentq.fn_effect_fail.",
                });
                effect.answer(false, "in_progress", more)
            }
            Begin::UnknownOutcome => {
                let more = json!({
                    "begun_at": effect.told["begun_at"], "payload": effect.told["payload"],
                    "message": "an earlier attempt began the effect and fell silent, so it may have happened",
                    "hint": "Ask the other side by idempotency_key; then call agentq.fn_effect_finish if it happened, or agentq.fn_effect_fail and begin again.",
                });
                effect.answer(false, "unknown_outcome", more)
            }
            Begin::Undone => undone(effect),
        }
    })
}

fn undone(effect: &Effect) -> Jsonb {
    let message = format!("the effect is {} and is not carried out again", effect.status.name());
    effect.answer(false, "undone", json!({"message": message}))
}

/// The answer to ending an effect that is not being carried out.
fn not_executing(effect: &Effect) -> Jsonb {
    match effect.status {
        Status::Planned | Status::Failed => effect.answer(
            false,
            "not_begun",
            json!({"message": "the effect has not been begun", "hint": "Call agentq.fn_effect_begin first."}),
        ),
        Status::Succeeded | Status::Executing => {
            effect.answer(false, "already_succeeded", json!({"result": effect.told["result"]}))
        }
        Status::Compensating | Status::Compensated | Status::CompensationFailed | Status::CompensationSkipped => {
            undone(effect)
        }
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_finish(
    p_effect_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_result: default!(Option<Jsonb>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_effect_finish: p_lease_owner, p_result);
    check_result(p_result);
    with_held(p_effect_id, p_lease_owner, p_lease_token, |db, held, effect, now| match effect.status {
        Status::Executing => {
            effect.end(db, Status::Succeeded, p_result, None, now);
            let more = json!({"status": Status::Succeeded.name(), "cancel_requested": held.cancel_requested});
            effect.answer(true, "succeeded", more)
        }
        _ => not_executing(effect),
    })
}

fn check_result(result: Option<Jsonb>) {
    let most = Rulebook::current().payload_max_bytes;
    if let Some(size) = result.map(Jsonb::size).filter(|size| *size as i64 > most) {
        Err(payload::refuse_too_large("p_result", size, most, PAYLOAD_MAX_BYTES)).or_raise()
    }
    // Whoever compensates it reads it.
    result.into_iter().for_each(|result| drop(result.reader("p_result").or_raise()));
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_fail(
    p_effect_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_error: Option<&str>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_effect_fail: p_lease_owner, p_error);
    let error = p_error.filter(|error| !error.trim().is_empty()).unwrap_or("no error was given");
    with_held(p_effect_id, p_lease_owner, p_lease_token, |db, held, effect, now| match effect.status {
        Status::Executing => {
            effect.end(db, Status::Failed, None, Some(error), now);
            let more = json!({"status": Status::Failed.name(), "cancel_requested": held.cancel_requested});
            effect.answer(true, "failed", more)
        }
        _ => not_executing(effect),
    })
}

/// Somebody who has looked says whether an effect happened.
#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_reconcile(
    p_effect_id: Option<Uuid>,
    p_verdict: Option<&str>,
    p_result: default!(Option<Jsonb>, "NULL"),
    p_note: default!(Option<&str>, "NULL"),
    p_by: default!(Option<&str>, "NULL"),
) -> Jsonb {
    bounded!(fn_effect_reconcile: p_verdict, p_result, p_note, p_by);
    answer::if_on(|_| {
        let id = required("p_effect_id", p_effect_id);
        let verdict = input::one_of("p_verdict", required("p_verdict", p_verdict), &VERDICTS).or_raise();
        check_result(p_result);
        let by = p_by.map(|by| input::name("p_by", by, input::LONGEST_NAME).or_raise());
        let by = by.map_or_else(actor, str::to_owned);
        let now = clock::now();
        // What is refused keeps no lock: the job is ended by whoever holds it.
        let decide = |db: &Db| {
            // Whoever holds the job is at it, and is waited for.
            LockedLease::lock(db, job_of(db, id), None, None);
            let effect = Effect::lock(db, id);
            if effect.status != Status::Executing || effect.begun_under_this_lease {
                let message = "the outcome of the effect is not unknown; nothing was changed";
                return effect.answer(false, "not_unknown", json!({"message": message}));
            }
            if effect.in_running_chain {
                let message = "it is about to be compensated, whatever became of it; nothing was changed";
                return effect.answer(false, "compensating", json!({"message": message}));
            }
            let status = if verdict == "done" { Status::Succeeded } else { Status::Failed };
            let note = p_note;
            match status {
                Status::Succeeded => effect.end(db, status, p_result, None, now),
                _ => effect.end(db, status, None, Some(note.unwrap_or("it did not happen")), now),
            }
            let what = json!({"verdict": verdict, "note": note, "by": by});
            effect.audit(db, "effect.reconciled", what, now);
            effect.answer(true, "reconciled", json!({"status": status.name(), "verdict": verdict}))
        };
        db::answer(|db| unless_refused(|| decide(db)))
    })
}

/// Somebody decides that an effect stays as it is: no compensation is tried, or tried again.
#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_skip(p_effect_id: Option<Uuid>, p_reason: Option<&str>, p_by: default!(Option<&str>, "NULL")) -> Jsonb {
    bounded!(fn_effect_skip: p_reason, p_by);
    answer::if_on(|_| {
        let id = required("p_effect_id", p_effect_id);
        let reason = input::name("p_reason", required("p_reason", p_reason), usize::MAX).or_raise();
        let by = p_by.map(|by| input::name("p_by", by, input::LONGEST_NAME).or_raise());
        let by = by.map_or_else(actor, str::to_owned);
        let now = clock::now();
        // What is refused keeps no lock: the job is ended by whoever holds it.
        let decide = |db: &Db| {
            LockedLease::lock(db, job_of(db, id), None, None);
            let effect = Effect::lock(db, id);
            let may_stay = match effect.status {
                Status::Succeeded | Status::CompensationFailed => true,
                Status::Executing => !effect.begun_under_this_lease,
                _ => false,
            };
            if effect.in_running_chain {
                let message = "it is about to be compensated; nothing was changed";
                return effect.answer(false, "compensating", json!({"message": message}));
            }
            if !may_stay {
                let message = format!("the effect is {}: there is nothing to skip", effect.status.name());
                return effect.answer(false, "not_skippable", json!({"message": message}));
            }
            effect.end(db, Status::CompensationSkipped, None, Some(reason), now);
            effect.audit(db, "effect.compensation_skipped", json!({"reason": reason, "by": by}), now);
            let status = Status::CompensationSkipped.name();
            effect.answer(true, "skipped", json!({"status": status, "reason": reason}))
        };
        db::answer(|db| unless_refused(|| decide(db)))
    })
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_get(p_effect_id: Option<Uuid>) -> Jsonb {
    let id = required("p_effect_id", p_effect_id);
    db::answer(|db| {
        let row = db.run(&EFFECT_GET, &[id.into()]);
        if row.is_empty() { unknown(id) } else { row.only() }
    })
}
