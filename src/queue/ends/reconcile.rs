//! Jobs whose outcome is unknown: parked when their holder fell silent, because their effects must not
//! happen twice, until somebody who has looked says what became of them.

use super::settle::{self, Ending};
use super::{telling, tries};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required, unknown_job};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::rules::Rulebook;
use crate::queue::storage::{Place, place};
use agentq_core::error_class::LEASE_EXPIRED;
use agentq_core::input;
use agentq_core::retry::{self, After, Failure, Reason, Verdict};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("reconcile.sql": PARKED, UNPARK);

const VERDICTS: [&str; 3] = ["done", "not_done", "retry"];

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_reconcile(
    p_job_id: Option<Uuid>,
    p_verdict: Option<&str>,
    p_note: default!(Option<&str>, "NULL"),
    p_by: default!(Option<&str>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_reconcile: p_verdict, p_note, p_by);
    answer::if_on(|rules| {
        let job_id = required("p_job_id", p_job_id);
        let verdict = input::one_of("p_verdict", required("p_verdict", p_verdict), &VERDICTS).or_raise();
        let note = p_note;
        let by = p_by.map(|by| input::name("p_by", by, input::LONGEST_NAME).or_raise());
        let by = by.map_or_else(actor, str::to_owned);
        let now = clock::now();
        db::answer(|db| {
            let Some(parked) = Parked::lock(db, job_id, now) else {
                let state = answer::state_of(db, job_id).unwrap_or_else(|| unknown_job(job_id));
                return Jsonb::from_value(json!({
                    "ok": false, "code": "not_parked", "job_id": job_id.to_string(), "state": state,
                    "message": "the job does not wait for a reconciliation; nothing was changed",
                }));
            };
            let what = json!({"verdict": verdict, "note": note, "by": by});
            telling::of_job(db, "job.reconciled", job_id, what, now);
            let state = parked.end(db, rules, verdict, note, &by, now);
            Jsonb::from_value(json!({
                "ok": true, "code": "reconciled", "verdict": verdict, "job_id": job_id.to_string(), "state": state,
            }))
        })
    })
}

/// A parked job, taken out of its place.
struct Parked {
    place: Place,
    attempts: i32,
    max_attempts: i32,
    last_error: Option<String>,
}

/// Whether a job is parked: nobody knows what became of it.
pub fn is_parked(db: &Db, job_id: Uuid) -> bool {
    !db.run(&PARKED, &[job_id.into()]).is_empty()
}

impl Parked {
    fn lock(db: &Db, job_id: Uuid, now: Micros) -> Option<Parked> {
        if !is_parked(db, job_id) {
            return None;
        }
        // Somebody else may have been quicker, and may have let it run again: what its row says counts once its place is
        // ours.
        let place = place::take_resting(db, job_id)?;
        let row = db.run(&PARKED, &[job_id.into()]);
        if row.is_empty() {
            place.enter(db, now);
            return None;
        }
        let (attempts, max_attempts, last_error) =
            (row.must("attempts"), row.must("max_attempts"), row.get("last_error"));
        Some(Parked { place, attempts, max_attempts, last_error })
    }

    fn end(&self, db: &Db, rules: &Rulebook, verdict: &str, note: Option<&str>, by: &str, now: Micros) -> &'static str {
        let job_id = self.place.job_id;
        let after = match verdict {
            "done" => {
                let ending = Ending { outcome: "succeeded", ..Ending::default() };
                settle::finish(db, job_id, "succeeded", &ending, now);
                return "succeeded";
            }
            "retry" => After::Retry(0.0),
            _ => self.next_try(rules),
        };
        let reason = match after {
            After::Retry(seconds) => {
                let at = now + (seconds * 1e6) as i64;
                let state = if at <= now { "queued" } else { "retry_waiting" };
                db.run(&UNPARK, &[job_id.into(), timestamp(at).into(), state.into()]);
                Place { scheduled_at: at, ..self.place.clone() }.enter(db, now);
                return state;
            }
            After::DeadLetter(reason) => reason,
            After::Cancelled { .. } | After::Failed => Reason::Manual,
        };
        let error = note.or(self.last_error.as_deref());
        let ending = Ending { outcome: "dead_letter", error, error_class: Some(LEASE_EXPIRED), ..Ending::default() };
        settle::bury(db, job_id, &ending, reason, by, now);
        "dead_letter"
    }

    /// What the lost attempt leads to. It has been counted already.
    fn next_try(&self, rules: &Rulebook) -> After {
        let failure = Failure {
            failures: self.attempts,
            max_attempts: self.max_attempts,
            cancel_requested: false,
            verdict: Verdict::Fail,
            class: LEASE_EXPIRED,
            retryable: rules.policies.class(Some(LEASE_EXPIRED)).retryable,
            retry_after: None,
            chance: 0.5,
        };
        retry::after(&failure, &tries::policy_of(rules, &self.place))
    }
}
