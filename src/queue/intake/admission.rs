//! Whether new work is let in: the bounds on how many jobs may wait, by the keys of limits.
//!
//! What waits is counted at most once a second in each session, and less often where that takes long, because
//! counting costs as much as there is. So a bound may be passed by what all producers enqueue meanwhile.

use super::job_spec;
use super::new_job::NewJob;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::base::settings::SUBSTRATE_ENABLED;
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::capacity::budgets;
use crate::queue::capacity::limits::Worker;
use crate::queue::rules::Rulebook;
use agentq_core::Refusal;
use agentq_core::admission::{self, Verdict};
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;

statements!("admission.sql": PENDING, OLDEST);

/// For how long a session believes what it has counted: in microseconds, or in multiples of the time that counting took,
/// whichever is longer.
const BELIEVED_US: i64 = 1_000_000;
const BELIEVED_TIMES: i64 = 20;

/// Something that was counted, and until when it is believed.
#[derive(Clone, Copy, Default)]
struct Believed<T> {
    value: T,
    from: Micros,
    until: Micros,
}

impl<T: Copy> Believed<T> {
    /// A test that moves its clock counts anew.
    fn is_believed(&self, now: Micros) -> bool {
        (self.from..self.until).contains(&now)
    }

    fn count(count: impl FnOnce() -> T) -> Believed<T> {
        let (from, began) = (clock::now(), clock::real_now());
        let value = count();
        Believed { value, from, until: from + BELIEVED_US.max((clock::real_now() - began) * BELIEVED_TIMES) }
    }
}

#[derive(Default)]
struct LastCounts {
    /// How many wait, and how many are finished per second.
    pending: HashMap<String, Believed<(i64, f64)>>,
    /// How long the oldest job that may run has waited, in seconds.
    oldest: HashMap<String, Believed<f64>>,
}

thread_local!(static LAST_COUNTS: RefCell<LastCounts> = RefCell::default());

/// How long the oldest job with this key that may run has waited.
fn oldest(key: &str, now: Micros) -> f64 {
    let known = LAST_COUNTS.with_borrow(|counted| counted.oldest.get(key).copied());
    let believed = known.filter(|believed| believed.is_believed(now)).unwrap_or_else(|| {
        Believed::count(|| {
            let read = |db: &db::Db| db.run(&OLDEST, &[key.into(), timestamp(now).into()]).maybe_only::<f64>();
            db::connect(read).unwrap_or_default()
        })
    });
    LAST_COUNTS.with_borrow_mut(|counted| counted.oldest.insert(key.to_owned(), believed));
    believed.value
}

/// What waits with this key, as last counted, with what this session has let in since.
fn pending(key: &str, now: Micros, new: i64) -> (i64, f64) {
    let known = LAST_COUNTS.with_borrow(|counted| counted.pending.get(key).copied());
    let mut believed = known.filter(|believed| believed.is_believed(now)).unwrap_or_else(|| {
        Believed::count(|| {
            db::connect(|db| {
                let row = db.run(&PENDING, &[vec![key.to_owned()].into()]);
                (row.must::<i64>("waiting"), row.must::<f64>("per_second"))
            })
        })
    });
    let before = believed.value;
    believed.value.0 += new;
    LAST_COUNTS.with_borrow_mut(|counted| counted.pending.insert(key.to_owned(), believed));
    before
}

/// What becomes of a job that is to be enqueued; `new`: 1 if it is counted as let in.
pub fn verdict(rules: &Rulebook, job: &NewJob<'_>, new: i64) -> Verdict {
    if rules.limits.is_empty() && rules.budgets.is_empty() {
        return Verdict::Accept;
    }
    let nobody = Worker { owner: "", worker_type: None };
    let mut keys = nobody.wide_keys(&job.queue.queue, Some(job.kind));
    keys.extend(job.options.limit_keys.iter().cloned());
    let now = clock::now();
    if let Some(reason) = budgets::refusal(rules, &keys, &job.options.cost, now) {
        return Verdict::Refuse { reason };
    }
    let mut bounded = Vec::new();
    for key in keys {
        let Some(rule) = rules.limits.of(&key) else { continue };
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
    // The job is let in, and so counts under every one of them.
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

/// Why one job of a batch is not let in now.
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
    let rules = Rulebook::current();
    let job = required("p_job", p_job);
    let job = job_spec::read(&rules, new_id(), job.container().item()).or_raise();
    if !rules.substrate_enabled {
        let reason = format!("the gate {} is closed", SUBSTRATE_ENABLED);
        return Jsonb::from_value(json!({"ok": true, "code": "checked", "verdict": "refuse", "reason": reason}));
    }
    let (verdict, reason, retry_after) = match verdict(&rules, &job, 0) {
        Verdict::Accept => ("accept", None, None),
        Verdict::Defer { reason, retry_after } => ("defer", Some(reason), Some(retry_after)),
        Verdict::Refuse { reason } => ("refuse", Some(reason), None),
    };
    Jsonb::from_value(json!({"ok": true, "code": "checked", "verdict": verdict, "reason": reason,
        "retry_after_seconds": retry_after, "paused": job.queue.paused}))
}
