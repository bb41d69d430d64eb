//! Budgets: what jobs may cost. A claim reserves what a job is expected to cost, its worker tells what it did
//! cost, and what was reserved and not used goes back when the attempt ends.
//!
//! What was spent is written as new rows, never as a change to one row, so that workers do not wait for each other; the
//! engine adds them up.

use super::limits;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::counting::{asking, changes, count_first, tables};
use crate::queue::rows::{budget_spent, job, job_lease};
use crate::queue::rules::Rulebook;
use crate::queue::storage::LockedLease;
use crate::table::{self, Moment, Row, Scan, Table};
use agentq_core::budget::{Budget, Counter, PERIODS, Period, Reserved, millionths};
use agentq_core::limits::LONGEST_KEY;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Map, Value, json};

statements!("budgets.sql": BUDGET_SET, BUDGET_REMOVE, LEASE_RESERVED);

/// The longest name of a unit, and the largest amount of one.
const LONGEST_UNIT: usize = agentq_core::bounds::UNIT;
const LARGEST: f64 = 1e12;
/// One job has a cost in at most this many units.
const MOST_UNITS: usize = 16;

/// Checks what a job is expected to cost, or did: an amount of each unit.
pub fn check_amounts(at: Reader<'_>) -> Result<Map<String, Value>, Refusal> {
    let hint = "Give an amount of each unit: {\"tokens\": 5000, \"usd\": 0.12, \"tool_calls\": 3}.";
    let at = at.hint(hint);
    if at.map()?.len() > MOST_UNITS {
        return Err(at.must_be(&format!("an object of at most {MOST_UNITS} amounts")));
    }
    let mut amounts = Map::new();
    for (unit, amount) in at.members()? {
        check_unit(unit).map_err(|refusal| amount.told(refusal))?;
        let amount = amount.hint(hint);
        amount.number(0.0..=LARGEST)?;
        amounts.insert(unit.to_owned(), amount.value()?);
    }
    Ok(amounts)
}

fn check_unit(unit: &str) -> Result<&str, Refusal> {
    let unit = input::name("a unit", unit, LONGEST_UNIT)?;
    if !unit.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
        return Err(Refusal::new(
            format!("\"{}\" is no name of a unit", agentq_core::error::shown(unit)),
            "Use small letters, digits and _, as in tokens, usd or tool_calls.",
        ));
    }
    Ok(unit)
}

/// What a job is expected to cost, in millionths of each unit.
pub fn cost_of(body: &table::RowReader) -> Vec<(String, i64)> {
    let Some(bytes) = body.maybe_bytes(job::cost) else { return Vec::new() };
    let cost = Jsonb::from_container(bytes).parse("cost").unwrap_or_default();
    let amounts = cost.as_object().into_iter().flatten();
    amounts.filter_map(|(unit, amount)| Some((unit.clone(), millionths(amount.as_f64()?)))).collect()
}

/// Why a job of this cost is not let in, if a budget of these keys says so.
pub fn refusal(rules: &Rulebook, keys: &[String], cost: &Option<Map<String, Value>>, now: Micros) -> Option<String> {
    let amount = |budget: &Budget| {
        let amount = cost.as_ref().and_then(|cost| cost.get(&budget.unit)?.as_f64());
        millionths(amount.unwrap_or_default())
    };
    let budgets = keys.iter().flat_map(|key| rules.budgets.of(key).into_iter().map(move |budget| (key, budget)));
    for (key, budget) in budgets {
        let (wants, unit) = (amount(budget), &budget.unit);
        let period = match budget.period {
            Period::Total => "in all".to_owned(),
            period => format!("for each {}", period.name()),
        };
        if wants > budget.amount {
            let (wants, most) = (shown(wants), shown(budget.amount));
            return Some(format!("the job costs {wants} {unit}, and the budget of {key} {period} is {most}"));
        }
        if budget.refuses && spent_of(&budget.counter(key, now)).saturating_add(wants.max(1)) > budget.amount {
            let until = budget.period.ends(now).map(|end| format!(", until {}", timestamp(end).to_iso_string()));
            let until = until.unwrap_or_default();
            return Some(format!("the budget of {key}, {} {unit} {period}, is exhausted{until}", shown(budget.amount)));
        }
    }
    None
}

/// What is used or reserved of a counter.
fn spent_of(counter: &str) -> i64 {
    if count_first() {
        return asking::counted(counter).0;
    }
    let counts = tables::count();
    counts.keys.iter().find(|count| count.key == counter).map_or(0, |count| count.active)
}

fn shown(amount: i64) -> String {
    let (whole, rest) = (amount / 1_000_000, amount % 1_000_000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:06}").trim_end_matches('0').to_owned() }
}

/// Gives back what a lease has reserved that ends without success, but for what its worker has told of.
pub fn refund(reserved: &[String]) {
    if !reserved.is_empty() && count_first() {
        for reserved in reserved.iter().filter_map(|text| Reserved::parse(text)) {
            changes::free(&reserved.counter, reserved.amount);
        }
    }
}

/// Counts what a lease has reserved that ends with success as used, unless its worker has told what it used. Returns
/// rows that the caller has to write.
pub fn settle(reserved: &[String], job_id: Uuid, now: Micros) -> Vec<Row> {
    let mut rows = Vec::new();
    if reserved.is_empty() {
        return rows;
    }
    refund(reserved);
    for reserved in reserved.iter().filter_map(|text| Reserved::parse(text)) {
        if !reserved.is_told && reserved.amount > 0 {
            rows.push(spend(&reserved.counter, reserved.amount, job_id, now));
        }
    }
    rows
}

/// Counts what was used, and returns the row that says so.
fn spend(counter: &str, amount: i64, job_id: Uuid, now: Micros) -> Row {
    changes::spend(counter, amount);
    Row::of(&budget_spent::TABLE)
        .set(budget_spent::spent_at, timestamp(now))
        .set(budget_spent::amount, amount)
        .set(budget_spent::job_id, job_id)
        .set(budget_spent::counter, counter)
}

pub fn write(rows: &[Row]) {
    if !rows.is_empty() {
        Table::open(&budget_spent::TABLE).insert_all(rows);
    }
}

/// A holder tells what its job has used since it last told.
#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_usage(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_usage: Option<Jsonb>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_usage: p_lease_owner, p_usage);
    answer::if_on(|rules| {
        let (job_id, owner) = (required("p_job_id", p_job_id), required("p_lease_owner", p_lease_owner));
        let usage = required("p_usage", p_usage).reader("p_usage").and_then(check_amounts);
        let (usage, now) = (usage.or_raise(), clock::now());
        db::answer(|db| {
            let Some(held) = LockedLease::lock(db, job_id, Some(owner), p_lease_token) else {
                return answer::lease_lost(db, job_id, Some(owner), p_lease_token);
            };
            count_first();
            let mut reserved = reserved_by(job_id);
            let (mut rows, mut counted, mut over) = (Vec::new(), Vec::new(), Vec::new());
            for reserved in &mut reserved {
                let unit = Counter::parse(&reserved.counter).map_or("", |counter| counter.unit).to_owned();
                let Some(used) = usage.get(&unit).and_then(Value::as_f64).map(millionths) else { continue };
                let back = used.min(reserved.amount);
                changes::free(&reserved.counter, back);
                (reserved.amount, reserved.is_told) = (reserved.amount - back, true);
                if used > 0 {
                    rows.push(spend(&reserved.counter, used, job_id, now));
                }
                counted.push(json!({"budget": reserved.counter, "used": used as f64 / 1e6}));
                // What this call brings counts when it commits.
                over.extend(told_if_over(rules, &reserved.counter, used - back, now));
            }
            write(&rows);
            if !counted.is_empty() {
                let texts: Vec<String> = reserved.iter().map(Reserved::text).collect();
                db.run(&LEASE_RESERVED, &[job_id.into(), texts.into()]);
            }
            Jsonb::from_value(json!({
                "ok": true, "code": "counted", "job_id": job_id.to_string(), "budgets": counted,
                "cancel_requested": held.cancel_requested, "over_budget": over,
            }))
        })
    })
}

/// The budgets under which a job is held, and of which more was used than there is. Its holder is to stop.
pub fn exceeded(rules: &Rulebook, job_id: Uuid, now: Micros) -> Vec<Value> {
    if rules.budgets.is_empty() {
        return Vec::new();
    }
    reserved_by(job_id).iter().filter_map(|reserved| told_if_over(rules, &reserved.counter, 0, now)).collect()
}

/// The budget of a counter, if with this much more than is counted it is exceeded.
fn told_if_over(rules: &Rulebook, counter: &str, more: i64, now: Micros) -> Option<Value> {
    let budget = rules.budgets.counted(&Counter::parse(counter)?, now)?;
    let used = spent_of(counter).saturating_add(more);
    (used > budget.amount).then(|| told(counter, budget, used))
}

/// A budget of which this much was used.
pub fn told(counter: &str, budget: &Budget, used: i64) -> Value {
    let (amount, used) = (budget.amount as f64 / 1e6, used as f64 / 1e6);
    json!({"budget": counter, "unit": budget.unit, "period": budget.period.name(), "amount": amount, "used": used})
}

/// What the lease of a job has reserved.
fn reserved_by(job_id: Uuid) -> Vec<Reserved> {
    let (leases, moment) = (Table::open(&job_lease::TABLE), Moment::now());
    let mut lease = Scan::by_id(&leases, &moment, c"job_lease_pkey", job_id);
    let texts = if lease.next() { lease.texts(job_lease::reserved) } else { Vec::new() };
    texts.iter().filter_map(|text| Reserved::parse(text)).collect()
}

fn check_period(period: &str) -> Result<&str, Refusal> {
    input::one_of("p_period", period, &PERIODS)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_budget_set(p_key: Option<&str>, p_unit: Option<&str>, p_period: Option<&str>, p_budget: Option<Jsonb>) -> Jsonb {
    bounded!(fn_budget_set: p_key, p_unit, p_period, p_budget);
    let key = input::name("p_key", required("p_key", p_key), LONGEST_KEY).or_raise();
    limits::check_rule_key(key).or_raise();
    let unit = check_unit(required("p_unit", p_unit)).or_raise();
    let period = check_period(required("p_period", p_period)).or_raise();
    let budget = required("p_budget", p_budget);
    budget.reader("p_budget").and_then(check).or_raise();
    limits::change_rules(|db| {
        let now = timestamp(clock::now());
        let args = [key.into(), unit.into(), period.into(), budget.into(), now.into()];
        db.run(&BUDGET_SET, &args).only()
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_budget_remove(p_key: Option<&str>, p_unit: Option<&str>, p_period: Option<&str>) -> Jsonb {
    bounded!(fn_budget_remove: p_key, p_unit, p_period);
    let key = input::name("p_key", required("p_key", p_key), LONGEST_KEY).or_raise();
    let unit = input::name("p_unit", required("p_unit", p_unit), LONGEST_UNIT).or_raise();
    let period = check_period(required("p_period", p_period)).or_raise();
    limits::change_rules(|db| {
        let removed = !db.run(&BUDGET_REMOVE, &[key.into(), unit.into(), period.into()]).is_empty();
        let code = if removed { "removed" } else { "not_found" };
        Jsonb::from_value(json!({"ok": removed, "code": code, "key": key, "unit": unit, "period": period}))
    })
}

fn check(budget: Reader<'_>) -> Result<(), Refusal> {
    budget.object(&["amount", "when_exhausted", "description"])?;
    let amount = budget.needed("amount").hint("For example: {\"amount\": 100, \"when_exhausted\": \"wait\"}.");
    amount.number(0.0..=LARGEST)?;
    budget.member("when_exhausted").word(&["wait", "refuse"])?;
    limits::check_description(&budget)
}
