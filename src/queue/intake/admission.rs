//! Whether new work is let in: the bounds on how many jobs may wait, by the keys of limits.
//!
//! What waits is counted at most once a second in each session, and less often where that takes long, because
//! counting costs as much as there is. So a bound may be passed by what all producers enqueue meanwhile. Nobody is refused
//! for what was counted before, which may have been claimed or rolled back since: a refusal counts anew.

use super::job_spec;
use super::new_job::NewJob;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::base::settings::SUBSTRATE_ENABLED;
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::capacity::budgets;
use crate::queue::capacity::limits::Worker;
use crate::queue::counting::{asking, count_first, tables};
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

/// What waits with this key, and how many are finished per second.
#[derive(Clone, Copy)]
struct Waiting {
    count: i64,
    per_second: f64,
    /// Whether it was counted just now, and not only believed.
    is_new: bool,
}

/// What waits with this key, as last counted, with what this session has let in since.
fn believed(key: &str, most: i64, now: Micros) -> Waiting {
    let known = LAST_COUNTS.with_borrow(|counted| counted.pending.get(key).copied());
    match known.filter(|believed| believed.is_believed(now)) {
        Some(Believed { value: (count, per_second), .. }) => Waiting { count, per_second, is_new: false },
        None => counted(key, most),
    }
}

/// What waits with this key now, counted a little further than the bound.
fn counted(key: &str, most: i64) -> Waiting {
    let believed = Believed::count(|| {
        db::connect(|db| {
            let row = db.run(&PENDING, &[key.into(), (most + 1).into()]);
            (row.must::<i64>("waiting"), row.must::<f64>("per_second"))
        })
    });
    LAST_COUNTS.with_borrow_mut(|counted| counted.pending.insert(key.to_owned(), believed));
    let (count, per_second) = believed.value;
    Waiting { count, per_second, is_new: true }
}

/// The jobs of one call that ask to be let in, one after the other. Those that were are not written yet, so that nobody else
/// counts them.
#[derive(Default)]
pub struct Admission {
    let_in: HashMap<String, i64>,
}

impl Admission {
    /// What becomes of a job that is to be enqueued.
    pub fn verdict(&mut self, rules: &Rulebook, job: &NewJob<'_>) -> Verdict {
        match self.look(rules, job) {
            Ok(bounded) => {
                // The job is let in, and so counts under every one of them.
                bounded.into_iter().for_each(|key| self.count(key));
                Verdict::Accept
            }
            Err(verdict) => verdict,
        }
    }

    fn count(&mut self, key: String) {
        LAST_COUNTS.with_borrow_mut(|counts| {
            if let Some(believed) = counts.pending.get_mut(&key) {
                believed.value.0 += 1;
            }
        });
        *self.let_in.entry(key).or_default() += 1;
    }

    /// The keys under which the number of waiting jobs is bounded, or why the job is not let in.
    fn look(&self, rules: &Rulebook, job: &NewJob<'_>) -> Result<Vec<String>, Verdict> {
        if rules.limits.is_empty() && rules.budgets.is_empty() {
            return Ok(Vec::new());
        }
        let nobody = Worker { owner: "", worker_type: None };
        let mut keys = nobody.wide_keys(&job.queue.queue, Some(job.kind));
        keys.extend(job.options.limit_keys.iter().cloned());
        let now = clock::now();
        if let Some(reason) = budgets::refusal(rules, &keys, &job.options.cost, now) {
            return Err(Verdict::Refuse { reason });
        }
        let mut bounded = Vec::new();
        for key in keys {
            let Some(rule) = rules.limits.of(&key) else { continue };
            if rule.max_concurrent == Some(0) {
                return Err(Verdict::Refuse { reason: format!("the limit {key} lets no job through") });
            }
            if let Some(most) = rule.max_age_seconds
                && let Some(defer) = admission::aged(&key, oldest(&key, now), most)
            {
                return Err(defer);
            }
            if let Some(most) = rule.max_pending {
                let most = i64::from(most) - i64::from(rule.pending_by_hand);
                self.too_many(&key, most.max(0), now).map_or(Ok(()), Err)?;
                bounded.push(key);
            }
        }
        Ok(bounded)
    }

    /// Whether too many wait with this key.
    fn too_many(&self, key: &str, most: i64, now: Micros) -> Option<Verdict> {
        let look = |waiting: Waiting| admission::bounded(key, waiting.count, most, waiting.per_second);
        let waiting = believed(key, most, now);
        let defer = look(waiting)?;
        if waiting.is_new {
            return Some(defer);
        }
        let own = self.let_in.get(key).copied().unwrap_or_default();
        let counted = counted(key, most);
        LAST_COUNTS.with_borrow_mut(|counts| {
            counts.pending.entry(key.to_owned()).and_modify(|believed| believed.value.0 += own);
        });
        look(Waiting { count: counted.count + own, ..counted })
    }
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

/// Why one job of a batch is not let in now, and after how many seconds it may be.
pub fn refusal(verdict: Verdict) -> Option<(Refusal, Option<i64>)> {
    match verdict {
        Verdict::Accept => None,
        Verdict::Defer { reason, retry_after } => {
            let hint = format!("Try again after {retry_after} seconds.");
            Some((Refusal::new(reason, hint), Some(retry_after)))
        }
        Verdict::Refuse { reason } => {
            let hint = "Raise the limit with agentq.fn_limit_set, or the budget with agentq.fn_budget_set.";
            Some((Refusal::new(reason, hint), None))
        }
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_admission_check(p_job: Option<Jsonb>) -> Jsonb {
    bounded!(fn_admission_check: p_job);
    let rules = Rulebook::current();
    let job = required("p_job", p_job);
    let job = job_spec::read(&rules, new_id(), job.container().item()).or_raise();
    if !rules.substrate_enabled {
        let reason = format!("the gate {} is closed", SUBSTRATE_ENABLED);
        return Jsonb::from_value(
            json!({"ok": true, "code": "checked", "verdict": "refuse", "admitted": false, "reason": reason}),
        );
    }
    let (verdict, reason, retry_after) = match Admission::default().look(&rules, &job).err().unwrap_or(Verdict::Accept)
    {
        Verdict::Accept => ("accept", None, None),
        Verdict::Defer { reason, retry_after } => ("defer", Some(reason), Some(retry_after)),
        Verdict::Refuse { reason } => ("refuse", Some(reason), None),
    };
    let (slots, admitted) = (slots(&rules, &job), verdict == "accept");
    let tightest = slots.iter().min_by_key(|(_, active, allowed)| allowed - active);
    let waits = job.queue.paused || tightest.is_some_and(|(_, active, allowed)| active >= allowed);
    let each = slots.iter().map(|(key, active, allowed)| json!({"key": key, "active": active, "allowed": allowed}));
    Jsonb::from_value(json!({"ok": true, "code": "checked", "verdict": verdict, "admitted": admitted, "reason": reason,
        "retry_after_seconds": retry_after, "paused": job.queue.paused,
        "will": admitted.then_some(if waits { "wait" } else { "run" }), "active": tightest.map(|(_, active, _)| active),
        "allowed": tightest.map(|(.., allowed)| allowed), "limits": each.collect::<Vec<_>>()}))
}

/// Of each key of a job under a limit: how many are held, and how many may be.
fn slots(rules: &Rulebook, job: &NewJob<'_>) -> Vec<(String, i64, i64)> {
    let nobody = Worker { owner: "", worker_type: None };
    let mut keys = nobody.wide_keys(&job.queue.queue, Some(job.kind));
    keys.extend(job.options.limit_keys.iter().cloned());
    let of = |key: String| rules.limits.slots(&key).map(|allowed| (key, i64::from(allowed)));
    let limited: Vec<(String, i64)> = keys.into_iter().filter_map(of).collect();
    if limited.is_empty() {
        return Vec::new();
    }
    let counted = if count_first() { None } else { Some(tables::count()) };
    let active = |key: &str| match &counted {
        None => asking::counted(key).0,
        Some(counts) => counts.keys.iter().find(|count| count.key == key).map_or(0, |count| count.active),
    };
    let with_active = |(key, allowed): (String, i64)| {
        let active = active(&key);
        (key, active, allowed)
    };
    limited.into_iter().map(with_active).collect()
}
