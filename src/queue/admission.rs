//! Whether new work is let in: the bounds on how many jobs may wait, by the keys of limits.
//!
//! What waits is counted at most once a second in each session, because counting costs as much as there
//! is. So a bound may be passed by what all producers enqueue in a second.

use super::budgets;
use super::limits::Worker;
use super::new_job::NewJob;
use super::submitted;
use crate::base::clock::{self, Micros};
use crate::base::ids::new_id;
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use agentq_core::admission::{self, Verdict};
use agentq_core::{Refusal, config};
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;

statement!(PENDING, "sql/pending.sql", [TEXTARRAYOID], freely);

const KEPT_US: i64 = 1_000_000;

#[derive(Default)]
struct Counted {
    at: Micros,
    pending: HashMap<String, i64>,
    /// Jobs finished per second.
    rate: f64,
}

thread_local!(static COUNTED: RefCell<Counted> = RefCell::default());

/// What waits with this key, as of the last second, with what this session has let in since.
fn pending(key: &str, new: i64) -> (i64, f64) {
    let now = clock::real_now();
    COUNTED.with_borrow_mut(|counted| {
        if now - counted.at > KEPT_US {
            *counted = Counted { at: now, ..Counted::default() };
        }
        if !counted.pending.contains_key(key) {
            let (found, rate) = db::connect(|db| {
                let row = db.run(&PENDING, &[vec![key.to_owned()].into()]);
                (row.must::<i64>(1), row.must::<f64>(2))
            });
            counted.pending.insert(key.to_owned(), found);
            counted.rate = rate;
        }
        let waiting = counted.pending.entry(key.to_owned()).or_default();
        let before = *waiting;
        *waiting += new;
        (before, counted.rate)
    })
}

/// What becomes of a job that is to be enqueued; `new`: 1 if it is counted as let in.
pub fn verdict(settings: &Settings, job: &NewJob<'_>, new: i64) -> Verdict {
    if settings.limits.is_empty() && settings.budgets.is_empty() {
        return Verdict::Accept;
    }
    let nobody = Worker { owner: "", worker_type: None };
    let mut keys = nobody.wide_keys(&job.queue.queue, Some(job.kind));
    keys.extend(job.terms.limit_keys.iter().cloned());
    if let Some(reason) = budgets::refusal(settings, &keys, &job.terms.cost, clock::now()) {
        return Verdict::Refuse { reason };
    }
    let mut bounded = Vec::new();
    for key in keys {
        let Some(rule) = settings.limits.of(&key) else { continue };
        if rule.max_concurrent == Some(0) {
            return Verdict::Refuse { reason: format!("the limit {key} lets no job through") };
        }
        if let Some(most) = rule.max_pending {
            let (waiting, rate) = pending(&key, 0);
            if let Some(defer) = admission::bounded(&key, waiting, i64::from(most), rate) {
                return defer;
            }
            bounded.push(key);
        }
    }
    // Let in, and so counted, under every one of them.
    for key in &bounded {
        pending(key, new);
    }
    Verdict::Accept
}

/// The answer to an enqueue that is not let in now.
pub fn answer(verdict: &Verdict) -> Jsonb {
    Jsonb::from_value(told(verdict))
}

fn told(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Accept => json!({"ok": true, "code": "accept"}),
        Verdict::Defer { reason, retry_after } => json!({"ok": false, "code": "deferred", "message": reason,
            "retry_after_seconds": retry_after, "hint": "Nothing was enqueued. Try again after that time."}),
        Verdict::Refuse { reason } => json!({"ok": false, "code": "refused", "message": reason,
            "hint": "Nothing was enqueued. Raise the limit with agentq.fn_limit_set, or the budget with agentq.fn_budget_set, if the job is to run."}),
    }
}

/// The same for one job of a batch.
pub fn refusal(verdict: Verdict) -> Option<Refusal> {
    match verdict {
        Verdict::Accept => None,
        Verdict::Defer { reason, retry_after } => {
            Some(Refusal::new(reason, format!("Try again after {retry_after} seconds.")))
        }
        Verdict::Refuse { reason } => Some(Refusal::new(
            reason,
            "Raise the limit with agentq.fn_limit_set, or the budget with agentq.fn_budget_set.",
        )),
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_admission_check(p_job: Option<Jsonb>) -> Jsonb {
    let settings = Settings::current();
    let job = required("p_job", p_job);
    let job = submitted::read(&settings, new_id(), job.container().item()).or_raise();
    if !settings.substrate_enabled {
        let reason = format!("the gate {} is closed", config::SUBSTRATE_ENABLED);
        return Jsonb::from_value(json!({"ok": true, "code": "checked", "verdict": "refuse", "reason": reason}));
    }
    let (verdict, reason, retry_after) = match verdict(&settings, &job, 0) {
        Verdict::Accept => ("accept", None, None),
        Verdict::Defer { reason, retry_after } => ("defer", Some(reason), Some(retry_after)),
        Verdict::Refuse { reason } => ("refuse", Some(reason), None),
    };
    Jsonb::from_value(json!({"ok": true, "code": "checked", "verdict": verdict, "reason": reason,
        "retry_after_seconds": retry_after, "paused": job.queue.paused}))
}
