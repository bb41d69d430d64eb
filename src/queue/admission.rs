//! Whether new work is let in: the bounds on how many jobs may wait, by the keys of limits.
//!
//! What waits is counted at most once a second in each session, and less often where that takes long, because
//! counting costs as much as there is. So a bound may be passed by what all producers enqueue meanwhile.

use super::budgets;
use super::limits::Worker;
use super::new_job::NewJob;
use super::submitted;
use crate::base::clock::{self, Micros, timestamp};
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
statement!(OLDEST, "sql/oldest.sql", [TEXTOID, TIMESTAMPTZOID], freely);

/// What was counted is believed for so long, in microseconds, or for so many times as long as counting took.
const KEPT_US: i64 = 1_000_000;
const KEPT_TIMES: i64 = 20;

/// Something that was counted, and until when it is believed.
#[derive(Clone, Copy, Default)]
struct Kept<T> {
    value: T,
    from: Micros,
    until: Micros,
}

impl<T: Copy> Kept<T> {
    /// A test that moves its clock counts anew.
    fn is_believed(&self, now: Micros) -> bool {
        (self.from..self.until).contains(&now)
    }

    fn count(count: impl FnOnce() -> T) -> Kept<T> {
        let (from, began) = (clock::now(), clock::real_now());
        let value = count();
        Kept { value, from, until: from + KEPT_US.max((clock::real_now() - began) * KEPT_TIMES) }
    }
}

#[derive(Default)]
struct Counted {
    /// How many wait, and how many are finished per second.
    pending: HashMap<String, Kept<(i64, f64)>>,
    /// How long the oldest job that may run has waited, in seconds.
    oldest: HashMap<String, Kept<f64>>,
}

thread_local!(static COUNTED: RefCell<Counted> = RefCell::default());

/// How long the oldest job with this key that may run has waited.
fn oldest(key: &str, now: Micros) -> f64 {
    let known = COUNTED.with_borrow(|counted| counted.oldest.get(key).copied());
    let kept = known.filter(|kept| kept.is_believed(now)).unwrap_or_else(|| {
        Kept::count(|| {
            let read = |db: &db::Db| db.run(&OLDEST, &[key.into(), timestamp(now).into()]).get::<f64>(1);
            db::connect(read).unwrap_or_default()
        })
    });
    COUNTED.with_borrow_mut(|counted| counted.oldest.insert(key.to_owned(), kept));
    kept.value
}

/// What waits with this key, as last counted, with what this session has let in since.
fn pending(key: &str, now: Micros, new: i64) -> (i64, f64) {
    let known = COUNTED.with_borrow(|counted| counted.pending.get(key).copied());
    let mut kept = known.filter(|kept| kept.is_believed(now)).unwrap_or_else(|| {
        Kept::count(|| {
            db::connect(|db| {
                let row = db.run(&PENDING, &[vec![key.to_owned()].into()]);
                (row.must::<i64>(1), row.must::<f64>(2))
            })
        })
    });
    let before = kept.value;
    kept.value.0 += new;
    COUNTED.with_borrow_mut(|counted| counted.pending.insert(key.to_owned(), kept));
    before
}

/// What becomes of a job that is to be enqueued; `new`: 1 if it is counted as let in.
pub fn verdict(settings: &Settings, job: &NewJob<'_>, new: i64) -> Verdict {
    if settings.limits.is_empty() && settings.budgets.is_empty() {
        return Verdict::Accept;
    }
    let nobody = Worker { owner: "", worker_type: None };
    let mut keys = nobody.wide_keys(&job.queue.queue, Some(job.kind));
    keys.extend(job.terms.limit_keys.iter().cloned());
    let now = clock::now();
    if let Some(reason) = budgets::refusal(settings, &keys, &job.terms.cost, now) {
        return Verdict::Refuse { reason };
    }
    let mut bounded = Vec::new();
    for key in keys {
        let Some(rule) = settings.limits.of(&key) else { continue };
        if rule.max_concurrent == Some(0) {
            return Verdict::Refuse { reason: format!("the limit {key} lets no job through") };
        }
        if let Some(most) = rule.max_age_seconds
            && let Some(defer) = admission::aged(&key, oldest(&key, now), most)
        {
            return defer;
        }
        if let Some(most) = rule.max_pending {
            let (waiting, rate) = pending(&key, now, 0);
            if let Some(defer) = admission::bounded(&key, waiting, i64::from(most), rate) {
                return defer;
            }
            bounded.push(key);
        }
    }
    // Let in, and so counted, under every one of them.
    for key in &bounded {
        pending(key, now, new);
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
