//! Limits on how many jobs are held at once: the rules, and the slots that claims take and ends give back.
//!
//! A lease says of which keys it holds a slot. `shared::slots` counts them; where there is no shared
//! memory, a claim locks the rules it is under and counts the leases itself.

use super::change::whole;
use super::order;
use super::place::Place;
use super::rows::{job_blocked, job_lease, limit_rule};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, Db, statement};
use crate::error::{OrRaise, raise, required};
use crate::json::Jsonb;
use crate::shared::slots::{self, Count};
use crate::table::{All, Moment, Table};
use agentq_core::limits::{self, LONGEST_KEY, Rule, Rules};
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

statement!(LIMIT_SET, "sql/limit_set.sql", [TEXTOID, JSONBOID, TIMESTAMPTZOID]);
statement!(LIMIT_MARK, "sql/limit_mark.sql", []);
statement!(BLOCKED_KEYS, "sql/blocked_keys.sql", []);
statement!(LIMIT_REMOVE, "sql/limit_remove.sql", [TEXTOID]);
statement!(LIMITLESS, "sql/limitless.sql", []);
statement!(LIMIT_LOCK, "sql/limit_lock.sql", [TEXTARRAYOID]);
statement!(LEASE_LIMITS, "sql/lease_limits.sql", [UUIDOID]);

/// Beginnings of keys that jobs have without being told.
const RESERVED: [&str; 5] = ["queue:", "kind:", "worker_type:", "worker:", "order:"];
/// Keys that a job may be enqueued with.
const MOST_KEYS: usize = 16;
/// Keys for whose freed slots one claim looks.
pub const OPEN_AT_ONCE: usize = 16;

/// Checks the keys that a job is enqueued with.
pub fn check_keys(value: &Value) -> Result<Vec<String>, Refusal> {
    let wrong = || {
        Refusal::new(
            format!(
                "limit_keys must be a list of at most {MOST_KEYS} texts, not {}",
                agentq_core::error::shown(&value.to_string())
            ),
            "For example: {\"limit_keys\": [\"tenant:42\", \"provider:anthropic\"]}.",
        )
    };
    let list = value.as_array().filter(|list| list.len() <= MOST_KEYS).ok_or_else(wrong)?;
    let mut keys = Vec::with_capacity(list.len());
    for key in list {
        let key = input::name("a limit key", key.as_str().ok_or_else(wrong)?, LONGEST_KEY)?;
        if key == limits::GLOBAL || RESERVED.iter().any(|start| key.starts_with(start)) || key.contains('*') {
            return Err(Refusal::new(
                format!("the limit key \"{}\" cannot be given to a job", agentq_core::error::shown(key)),
                "global, queue:, kind:, worker_type:, worker: and order: are agentq's own, and * is for rules. Use one such as tenant:42.",
            ));
        }
        keys.push(key.to_owned());
    }
    keys.sort();
    keys.dedup();
    Ok(keys)
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

/// Those of these keys that a rule limits, with their slots.
pub fn limited(rules: &Rules, keys: Vec<String>) -> Vec<(String, u32)> {
    keys.into_iter().filter_map(|key| rules.slots(&key).map(|slots| (key, slots))).collect()
}

/// Slots in use, and jobs that wait for one, as the tables say.
fn count() -> Vec<Count> {
    let mut counts: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let (leases, blocked) = (Table::open(&job_lease::TABLE), Table::open(&job_blocked::TABLE));
    let moment = Moment::latest();
    {
        let mut all = All::begin(&leases, &moment);
        while let Some(lease) = all.next() {
            for key in lease.texts(job_lease::limits) {
                counts.entry(key).or_default().0 += 1;
            }
        }
    }
    {
        let mut all = All::begin(&blocked, &moment);
        while let Some(row) = all.next() {
            let key = String::from_utf8_lossy(row.bytes(job_blocked::blocked_by)).into_owned();
            if order::key_in(&key).is_none() {
                counts.entry(key).or_default().1 += 1;
            }
        }
    }
    counts.into_iter().map(|(key, (active, blocked))| Count { key, active, blocked }).collect()
}

/// How a claim takes slots.
pub enum Slots {
    /// As shared memory counts them.
    Shared,
    /// As this claim has counted them, with the rules locked.
    Counted(BTreeMap<String, (u32, u32)>),
}

impl Slots {
    pub fn open(leases: &Table, rules: &Rules) -> Slots {
        if slots::will_recount() {
            raise(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this transaction has changed limits, and so cannot claim",
                "Commit the change first.",
            )
        }
        if slots::ensure(leases.id(), count) {
            return Slots::Shared;
        }
        // Nobody else holds a slot of these rules that is not to be seen yet.
        db::connect(|db| db.run(&LIMIT_LOCK, &[rules.names().into()]).len());
        Slots::Counted(count().into_iter().map(|count| (count.key, (count.active, count.blocked))).collect())
    }

    /// Takes one slot of each key, or none and says which is full.
    pub fn take(&mut self, wanted: &[(String, u32)]) -> Result<(), usize> {
        let Slots::Counted(counts) = self else { return slots::take(wanted) };
        if let Some(full) =
            wanted.iter().position(|(key, most)| counts.get(key).is_some_and(|c| c.0 >= *most) || *most == 0)
        {
            return Err(full);
        }
        wanted.iter().for_each(|(key, _)| counts.entry(key.clone()).or_default().0 += 1);
        Ok(())
    }

    fn active(&self, key: &str) -> u32 {
        match self {
            Slots::Shared => slots::active(key),
            Slots::Counted(counts) => counts.get(key).map_or(0, |count| count.0),
        }
    }

    /// The first of these keys that has no slot left.
    pub fn full<'a>(&self, keys: &'a [(String, u32)]) -> Option<&'a str> {
        keys.iter().find(|(key, most)| self.active(key) >= *most).map(|(key, _)| key.as_str())
    }

    /// Slots that are left for these keys; None: any number.
    pub fn room(&self, keys: &[(String, u32)]) -> Option<u32> {
        keys.iter().map(|(key, most)| most.saturating_sub(self.active(key))).min()
    }

    /// Keys for which jobs wait: those that have a slot, or no rule any more, and those that have none.
    pub fn waited_for(&self, rules: &Rules) -> (Vec<String>, Vec<String>) {
        let waited_for = match self {
            Slots::Shared => slots::waited_for().unwrap_or_else(blocked_keys),
            Slots::Counted(counts) => {
                counts.iter().filter(|(_, count)| count.1 > 0).map(|(key, _)| key.clone()).collect()
            }
        };
        waited_for.into_iter().partition(|key| rules.slots(key).is_none_or(|slots| self.active(key) < slots))
    }
}

/// The keys that jobs wait for, from the table itself.
fn blocked_keys() -> Vec<String> {
    let mut keys = Vec::new();
    db::connect(|db| db.run(&BLOCKED_KEYS, &[]).each(|row| keys.push(row.must(1))));
    keys
}

/// The rules in force, also in a transaction whose snapshot is older than they are.
pub fn rules_in_force(settings: &Settings) -> Option<Rules> {
    if !settings.has_policies || !super::hints::has_fixed_snapshot() {
        return None;
    }
    let table = Table::open(&limit_rule::TABLE);
    let moment = Moment::latest();
    let mut all = All::begin(&table, &moment);
    let mut rules = Vec::new();
    while let Some(row) = all.next() {
        let number = |column| (!row.is_null(column)).then(|| row.int(column) as u32);
        let key = String::from_utf8_lossy(row.bytes(limit_rule::limit_key)).into_owned();
        let rule = Rule {
            max_concurrent: number(limit_rule::max_concurrent),
            max_pending: number(limit_rule::max_pending),
            taken_by_hand: number(limit_rule::taken_by_hand).unwrap_or_default(),
        };
        rules.push((key, rule));
    }
    Some(Rules::new(rules))
}

/// A lease with these keys ends: its slots are free when the transaction commits. Slots must have been
/// counted while the lease was there.
pub fn free(keys: &[String]) {
    if !keys.is_empty() && count_first() {
        keys.iter().for_each(|key| slots::free(key));
    }
}

/// Sees to it that slots are counted, before a lease that has some, or a job that waits for one, goes.
pub fn count_first() -> bool {
    slots::ensure(Table::open(&job_lease::TABLE).id(), count)
}

/// Frees the slots of a lease that is about to be ended by a statement, if the job has one.
pub fn free_lease_of(db: &Db, job_id: Uuid) {
    if Settings::current().has_policies {
        let row = db.run(&LEASE_LIMITS, &[job_id.into()]);
        if !row.is_empty() {
            free(&row.get::<Vec<String>>(1).unwrap_or_default());
        }
    }
}

/// Takes the lock that a change of rules waits for, before a row of the leases is locked.
pub fn hold_still() {
    drop(Table::open(&job_lease::TABLE));
}

#[allow(unsafe_code, reason = "locking a table")]
fn keep_leases_as_they_are() {
    let leases = Table::open(&job_lease::TABLE);
    // SAFETY: the table is open; the lock is kept to the end of the transaction.
    unsafe { pg_sys::LockRelationOid(leases.id(), pg_sys::ShareRowExclusiveLock as i32) }
}

fn alone() {
    if super::hints::has_fixed_snapshot() {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "limits cannot be changed in a transaction of REPEATABLE READ or SERIALIZABLE, which does not see all that is held",
            "Change them under READ COMMITTED.",
        )
    }
    if slots::is_in_use() {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "limits cannot be changed in a transaction that has claimed or ended jobs under limits",
            "Change them in a transaction of their own.",
        )
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_set(p_key: Option<&str>, p_limit: Option<Jsonb>) -> Jsonb {
    let key = input::name("p_key", required("p_key", p_key), LONGEST_KEY).or_raise();
    check_rule_key(key).or_raise();
    let limit = required("p_limit", p_limit).parse("p_limit").and_then(check).or_raise();
    alone();
    let now = timestamp(clock::now());
    // Claims that do not know the rule yet are waited for, and those to come wait for it.
    keep_leases_as_they_are();
    db::answer(|db| {
        let answer: Jsonb = db.run(&LIMIT_SET, &[key.into(), Jsonb::from_value(limit).into(), now.into()]).must(1);
        settle(db);
        super::hints::stir();
        answer
    })
}

/// Brings leases, blocked jobs and counters into line with rules that have changed.
fn settle(db: &Db) {
    // What is held already counts.
    db.run(&LIMIT_MARK, &[]);
    let_go(db, clock::now());
    slots::recount_at_commit(Table::open(&job_lease::TABLE).id(), count());
}

/// Makes jobs ready again that wait for a slot of a key which has no limit any more.
fn let_go(db: &Db, now: Micros) {
    let mut free = Vec::new();
    db.run(&LIMITLESS, &[]).each(|row| free.push(Place::from_row(row, 1)));
    for place in free {
        place.enter(db, now);
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_remove(p_key: Option<&str>) -> Jsonb {
    let key = required("p_key", p_key);
    alone();
    super::hints::stir();
    keep_leases_as_they_are();
    db::answer(|db| {
        let removed = !db.run(&LIMIT_REMOVE, &[key.into()]).is_empty();
        settle(db);
        Jsonb::from_value(json!({"ok": removed, "code": if removed { "removed" } else { "not_found" }, "key": key}))
    })
}

/// Slots in use as shared memory counts them.
#[pg_extern(security_definer, volatile)]
#[search_path(pg_catalog, pg_temp)]
fn fn_limit_counted(p_key: Option<&str>) -> Option<i64> {
    let key = p_key?;
    (!db::is_on_standby() && count_first()).then(|| i64::from(slots::counted(key).0))
}

fn check_rule_key(key: &str) -> Result<(), Refusal> {
    let start = key.strip_suffix('*').unwrap_or(key);
    if start.contains('*') || (key.ends_with('*') && !start.ends_with(':')) {
        return Err(Refusal::new(
            format!("\"{}\" is no key of a limit", agentq_core::error::shown(key)),
            "A pattern ends with :*, as in tenant:*, and there is no other *.",
        ));
    }
    Ok(())
}

fn check(limit: Value) -> Result<Value, Refusal> {
    let Value::Object(map) = &limit else {
        return Err(payload::refuse_not_object("p_limit", "this"));
    };
    input::known_options("p_limit", map.keys(), &["max_concurrent", "max_pending", "description"])?;
    for key in ["max_concurrent", "max_pending"] {
        let value = map.get(key).filter(|value| !value.is_null()).map(|value| whole(key, value)).transpose()?;
        if let Some(value) = value.filter(|value| *value < 0) {
            return Err(Refusal::new(
                format!("{key} must be 0 or more, but is {value}"),
                "0 lets no job through; null takes the limit away.",
            ));
        }
    }
    match map.get("description") {
        None | Some(Value::Null | Value::String(_)) => Ok(limit),
        Some(other) => {
            Err(Refusal::new(format!("description must be a text, not {other}"), "Put it in double quotes."))
        }
    }
}
