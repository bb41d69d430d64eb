//! Limits on how many jobs are held at once, or begun in a time: the rules, the keys of jobs, and what workers
//! report of the other side. `gates` holds claims to them.

use super::budgets;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::json::Jsonb;
use crate::queue::counting::{asking, changes, count_first, gauges, tables};
use crate::queue::rows::job_lease;
use crate::queue::rules::Rulebook;
use crate::queue::storage::marks::wake_all_at_commit;
use crate::queue::storage::{Place, lease, lock_against_rule_change};
use crate::queue::waking::waiters;
use crate::server;
use crate::shared::is_preloaded;
use crate::table::{Moment, Scan, Table};
use agentq_core::limits::{self, LONGEST_KEY};
use agentq_core::line;
use agentq_core::rate::Gauge;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("limits.sql": LIMIT_SET, LIMIT_PRESET, LIMIT_KNOWN, LIMIT_MARK, LIMIT_REMOVE, LIMITLESS, REPORTS_FORGET, pub RULES_LOCK, pub BUDGETS_LOCK);

/// Beginnings of keys that jobs have without being told.
const RESERVED: [&str; 4] = ["queue:", "kind:", "worker_type:", "worker:"];
/// A job may be enqueued with at most this many keys.
const MOST_KEYS: usize = 16;
/// What the other side says is believed for at most a day, in microseconds. Then somebody tries, and reports again.
const REPORT_AHEAD_US: i64 = 86_400_000_000;
/// One part of a claim looks for freed slots of at most this many keys.
pub const OPEN_AT_ONCE: usize = 16;

/// Checks the keys that a job is enqueued with: a list, or an object that gives each its weight. Sorted.
pub fn check_keys(at: Reader<'_>) -> Result<Vec<(String, u32)>, Refusal> {
    let at = at.hint(
        "For example: {\"limit_keys\": [\"tenant:42\", \"provider:anthropic\"]}, or {\"limit_keys\": {\"provider:anthropic\": 1500}}.",
    );
    let wrong = || at.must_be(&format!("a list of at most {MOST_KEYS} texts, or an object with their weights"));
    let mut keys: Vec<(String, u32)> = Vec::new();
    if at.is_object() {
        if at.map()?.len() > MOST_KEYS {
            return Err(wrong());
        }
        for (key, weight) in at.members()? {
            let weight =
                weight.hint("It says how much of a rate the job takes, such as the tokens it is expected to use.");
            let key = check_key(key).map_err(|refusal| weight.told(refusal))?;
            keys.push((key, weight.whole(1..=i32::MAX)? as u32));
        }
    } else {
        for key in at.list("texts", 0..=MOST_KEYS).map_err(|_| wrong())? {
            keys.push((check_key(key.text()?).map_err(|refusal| key.told(refusal))?, 1));
        }
    }
    keys.sort();
    keys.dedup_by(|one, other| one.0 == other.0);
    Ok(keys)
}

/// Checks a key that a caller gives to a job.
pub fn check_key(key: &str) -> Result<String, Refusal> {
    let key = input::name("a limit key", key, LONGEST_KEY)?;
    if key == limits::GLOBAL
        || RESERVED.iter().chain(&line::RESERVED).any(|start| key.starts_with(start))
        || key.contains('*')
    {
        return Err(Refusal::new(
            format!("the limit key \"{}\" cannot be given to a job", agentq_core::error::shown(key)),
            "global, queue:, kind:, worker_type:, worker:, order:, fair: and budget: are agentq's own, and * is for rules. Use one such as tenant:42.",
        ));
    }
    Ok(key.to_owned())
}

/// Who claims, as far as limits are concerned.
#[derive(Clone, Copy)]
pub struct Worker<'a> {
    pub owner: &'a str,
    pub worker_type: Option<&'a str>,
}

impl Worker<'_> {
    /// The keys that every job has which this worker claims from a queue.
    pub fn wide_keys(&self, queue: &str, kind: Option<&str>) -> Vec<String> {
        let mut keys = self.own_keys();
        keys.extend([limits::GLOBAL.to_owned(), limits::queue_key(queue)]);
        keys.extend(kind.map(limits::kind_key));
        keys
    }

    /// The keys that are about the worker and not about its jobs.
    pub fn own_keys(&self) -> Vec<String> {
        let keys = |worker_type| [limits::worker_type_key(worker_type), limits::worker_key(worker_type, self.owner)];
        self.worker_type.map(keys).into_iter().flatten().collect()
    }
}

/// Frees the slots that a lease has of these keys, when the transaction commits. They must have been counted while the
/// lease was there.
pub fn free(keys: &[String]) {
    if !keys.is_empty() && count_first() {
        keys.iter().for_each(|key| changes::free(key, 1));
    }
}

/// Frees the slots of the lease that a job has, if it has one, and what it has reserved: a statement is about to end
/// it.
pub fn free_lease_of(job_id: Uuid) {
    let (leases, moment) = (Table::open(&job_lease::TABLE), Moment::now());
    let mut lease = Scan::by_id(&leases, &moment, c"job_lease_pkey", job_id);
    if lease.next() {
        free(&lease.texts(job_lease::limits));
        budgets::refund(&lease.texts(job_lease::reserved));
    }
}

fn alone() {
    if server::has_fixed_snapshot() {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "limits cannot be changed in a transaction of REPEATABLE READ or SERIALIZABLE, which does not see all that is held",
            "Change them under READ COMMITTED.",
        )
    }
    if changes::is_in_use() {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "limits cannot be changed in a transaction that has claimed or ended jobs under limits, or has to do with jobs in fair lines",
            "Change them in a transaction of their own.",
        )
    }
}

/// Changes rules or budgets, alone, and makes everything fit them.
pub fn change_rules(change: impl FnOnce(&Db) -> Jsonb) -> Jsonb {
    alone();
    wake_all_at_commit();
    // This waits for claims that do not know the rule yet, and claims to come wait for it.
    lease::keep_all_as_they_are();
    db::answer(|db| {
        let answer = change(db);
        settle(db);
        answer
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_set(p_key: Option<&str>, p_limit: Option<Jsonb>) -> Jsonb {
    bounded!(fn_limit_set: p_key, p_limit);
    let key = input::name("p_key", required("p_key", p_key), LONGEST_KEY).or_raise();
    check_rule_key(key).or_raise();
    let limit = required("p_limit", p_limit);
    limit.reader("p_limit").and_then(check).or_raise();
    change_rules(|db| {
        let now = timestamp(clock::now());
        // Rules that a report has made must not hide this one.
        if key.ends_with('*') {
            db.run(&REPORTS_FORGET, &[key.into()]);
        }
        db.run(&LIMIT_SET, &[key.into(), limit.into(), now.into()]).only()
    })
}

/// Limits that suit a fleet of agents: key, most at once, most that wait, and what it is about.
const PRESET: [(&str, i32, Option<i32>, &str); 6] = [
    ("global", 200, Some(1000), "all jobs"),
    ("venture:*", 10, Some(50), "each venture"),
    ("stage:*", 20, None, "each stage"),
    ("worker:ceo_handler:*", 5, None, "each CEO handler"),
    ("worker:vp_handler:*", 10, None, "each VP handler"),
    ("worker:crew_executor:*", 1, None, "each crew executor"),
];

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_preset() -> Jsonb {
    let answer = |set: Vec<&str>, kept: Vec<&str>| {
        let code = if set.is_empty() { "unchanged" } else { "set" };
        Jsonb::from_value(json!({"ok": true, "code": code, "rules": set.len(), "set": set, "kept": kept}))
    };
    let keys = || PRESET.iter().map(|(key, ..)| *key);
    let names: Vec<String> = keys().map(str::to_owned).collect();
    // Where all of them are there, nobody has to wait for this.
    if db::connect(|db| db.run(&LIMIT_KNOWN, &[names.into()]).len()) == PRESET.len() {
        return answer(Vec::new(), keys().collect());
    }
    change_rules(|db| {
        let now = timestamp(clock::now());
        let is_new = |(key, slots, pending, what): &&(&str, i32, Option<i32>, &str)| {
            let args = [(*key).into(), (*slots).into(), (*pending).into(), (*what).into(), now.into()];
            !db.run(&LIMIT_PRESET, &args).is_empty()
        };
        let (set, kept): (Vec<_>, Vec<_>) = PRESET.iter().partition(is_new);
        let names = |rules: Vec<&(&'static str, i32, Option<i32>, &str)>| rules.iter().map(|rule| rule.0).collect();
        answer(names(set), names(kept))
    })
}

/// Makes leases, lines and counters fit rules that have changed.
fn settle(db: &Db) {
    // What is held already counts.
    db.run(&LIMIT_MARK, &[]);
    let_go(db, clock::now());
    changes::recount_at_commit(Table::open(&job_lease::TABLE).id(), tables::count());
    gauges::look_again();
}

/// Makes jobs ready again that wait in the line of a key which has no limit any more.
fn let_go(db: &Db, now: Micros) {
    let mut free = Vec::new();
    let no_budgets = Rulebook::current().budgets.is_empty();
    db.run(&LIMITLESS, &[no_budgets.into()]).each(|row| free.push(Place::from_row(row)));
    for place in free {
        place.enter(db, now);
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_remove(p_key: Option<&str>) -> Jsonb {
    bounded!(fn_limit_remove: p_key);
    let key = input::name("p_key", required("p_key", p_key), LONGEST_KEY).or_raise();
    change_rules(|db| {
        let removed = !db.run(&LIMIT_REMOVE, &[key.into()]).is_empty();
        Jsonb::from_value(json!({"ok": removed, "code": if removed { "removed" } else { "not_found" }, "key": key}))
    })
}

/// Slots in use as the board counts them.
#[pg_extern(schema = "agentq_internal", security_definer, volatile)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_counted(p_key: Option<&str>) -> Option<i64> {
    let key = p_key?;
    (!server::is_on_standby() && count_first()).then(|| asking::counted(key).0)
}

/// What the gauge of a key's rate shows.
#[pg_extern(security_definer, volatile)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_gauge(p_key: Option<&str>, p_weight: default!(Option<i32>, "1")) -> Option<Jsonb> {
    bounded!(fn_limit_gauge: p_key);
    let (key, now, settings) = (p_key?, clock::now(), Rulebook::current());
    if server::is_on_standby() {
        return None;
    }
    let rule = settings.limits.of(key)?;
    let gauge = if count_first() { gauges::get(key) } else { Some(tables::written_gauge(key)) };
    let (rate, weight) = (rule.rate, p_weight.unwrap_or(1).max(1) as u32);
    let mut gauge = gauge.or(rate.map(|_| Gauge::default()))?;
    let opens = gauge.opens(rate.as_ref(), weight, now);
    let left = rate.map(|rate| gauge.left(&rate, now));
    let never = opens == Some(Micros::MAX);
    Some(Jsonb::from_value(
        json!({"open": opens.is_none(), "opens_at": opens.filter(|_| !never).map(timestamp), "left": left}),
    ))
}

/// A worker tells what the other side said: that it lets nobody through before a moment, or how much is left.
#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_report(
    p_key: Option<&str>,
    p_retry_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    p_remaining: default!(Option<i64>, "NULL"),
) -> Jsonb {
    bounded!(fn_limit_report: p_key);
    let key = input::name("p_key", required("p_key", p_key), LONGEST_KEY).or_raise();
    if check_key(key).is_err() {
        Err(Refusal::new(
            format!("\"{}\" is no key that a job is given", agentq_core::error::shown(key)),
            "Report on one key, such as provider:anthropic. To hold up a queue, a kind or everything is for operators: agentq.fn_queue_pause, agentq.fn_limit_set.",
        ))
        .or_raise()
    }
    if p_retry_at.is_none() && p_remaining.is_none() {
        Err(Refusal::new(
            "fn_limit_report was told nothing",
            "Give p_retry_at, from which moment on the other side lets jobs through again, or p_remaining, how much it still lets through.",
        ))
        .or_raise()
    }
    if let Some(remaining) = p_remaining.filter(|remaining| *remaining < 0) {
        Err(Refusal::new(format!("p_remaining must be 0 or more, but is {remaining}"), "0 means that nothing is left."))
            .or_raise()
    }
    let now = clock::now();
    // Taken before the rules are read: a change of rules is over by now, or waits for this transaction.
    lock_against_rule_change();
    // Workers report on what operators have ruled about: else one of them could fill the server with keys of its own.
    let rules = Rulebook::current();
    let Some(rule) = rules.limits.of(key) else {
        return Jsonb::from_value(json!({"ok": false, "code": "no_rule", "key": key,
            "hint": "No rule is about this key. An operator sets one: agentq.fn_limit_set(key, '{}'), or a pattern such as provider:*."}));
    };
    let rate = rule.rate;
    let until = p_retry_at.map(|at| at.into_inner().min(now + REPORT_AHEAD_US));
    let report = |gauge: &mut Gauge| {
        if let Some(until) = until {
            gauge.close(until, now);
            gauge.look_again();
        }
        if let (Some(rate), Some(remaining)) = (&rate, p_remaining) {
            gauge.remain(rate, u32::try_from(remaining).unwrap_or(u32::MAX), now);
        }
    };
    let told = if count_first() {
        // At once, and for all: it is true whatever becomes of this transaction.
        gauges::report(key, rules.limits.pattern_of(key), now, report)
    } else {
        // The lock keeps claims from counting what is about to change.
        db::connect(|db| db.run(&RULES_LOCK, &[]).len());
        let mut gauge = tables::written_gauge(key);
        report(&mut gauge);
        tables::save_gauge(key, &gauge);
        true
    };
    if is_preloaded() {
        waiters::wake_all();
    }
    let heeded = told && (p_retry_at.is_some() || rate.is_some());
    let mut answer = json!({"ok": heeded, "code": if heeded { "reported" } else { "not_heeded" }, "key": key,
        "closed_until": until.filter(|_| told).map(timestamp)});
    if !heeded {
        answer["hint"] = json!(if told {
            "What remains is of use for a key with a rate only: set one with agentq.fn_limit_set, or give p_retry_at."
        } else {
            "More keys are closed, or have a rate in use, than the server counts at once; those of one pattern close a quarter of them at most. A key with a rule of its own always closes: agentq.fn_limit_set."
        });
    }
    Jsonb::from_value(answer)
}

pub fn check_rule_key(key: &str) -> Result<(), Refusal> {
    let start = key.strip_suffix('*').unwrap_or(key);
    if start.contains('*') || (key.ends_with('*') && !start.ends_with(':')) {
        return Err(Refusal::new(
            format!("\"{}\" is no key of a limit", agentq_core::error::shown(key)),
            "A pattern ends with :*, as in tenant:*, and there is no other *.",
        ));
    }
    Ok(())
}

fn check(limit: Reader<'_>) -> Result<(), Refusal> {
    limit.object(&[
        "max_concurrent",
        "max_pending",
        "max_age_seconds",
        "rate",
        "per_seconds",
        "burst",
        "algorithm",
        "weight",
        "description",
    ])?;
    check_rate(&limit)?;
    for key in ["max_concurrent", "max_pending", "rate", "burst"] {
        limit.member(key).hint("0 lets no job through; null takes the limit away.").whole(0..=i32::MAX)?;
    }
    check_description(&limit)
}

pub fn check_description(at: &Reader<'_>) -> Result<(), Refusal> {
    let description = at.member("description").hint("Put it in double quotes.");
    description.read(|text| input::reference(text.path(), Some(text.text()?)).map(drop)).map(drop)
}

/// What a rule says of a rate, and of a share.
fn check_rate(limit: &Reader<'_>) -> Result<(), Refusal> {
    const YEAR: f64 = 31_622_400.0;
    for (key, range) in [("per_seconds", 0.001..=YEAR), ("max_age_seconds", 0.0..=YEAR), ("weight", 0.001..=1_000.0)] {
        limit
            .member(key)
            .hint("For example: {\"rate\": 50, \"per_seconds\": 60}, or {\"weight\": 2}.")
            .number(range)?;
    }
    limit.member("algorithm").word(&["token_bucket", "sliding_window"]).map(drop)
}
