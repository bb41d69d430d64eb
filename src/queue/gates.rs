//! What a job must pass before it is held: slots of limits, rates, and budgets.
//!
//! A lease says of which keys it holds a slot, and what it has reserved. `shared` counts them; where there is no
//! shared memory, a claim locks the rules and budgets it is under, and counts the tables itself.

use super::limits::{BUDGETS_LOCK, GAUGE_SAVE, RULES_LOCK};
use super::order;
use super::rows::{budget, budget_spent, budget_use, job_blocked, job_lease, limit_gauge, limit_rule};
use crate::base::clock::{self, Micros};
use crate::base::policies::{BudgetRow, LimitRow};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::error::raise;
use crate::json::Jsonb;
use crate::shared::gauges::{self, Wish};
use crate::shared::slots::{self, Count};
use crate::table::{All, Moment, Row, Table};
use agentq_core::budget::{Budgets, Counter, Reserved};
use agentq_core::counters::Wanted;
use agentq_core::lane;
use agentq_core::limits::Rules;
use agentq_core::rate::Gauge;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

statement!(BLOCKED_KEYS, "sql/blocked_keys.sql", []);

/// What the tables say of each key.
pub fn count() -> Vec<Count> {
    let settings = Settings::current();
    let moment = Moment::latest();
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut add = |key: String, active: i64, blocked: u32| {
        let count = counts.entry(key).or_default();
        (count.active, count.blocked) = (count.active + active, count.blocked + blocked);
    };
    each(&job_lease::TABLE, &moment, |lease| {
        lease.texts(job_lease::limits).into_iter().for_each(|key| add(key, 1, 0));
        let reserved = lease.texts(job_lease::reserved);
        let reserved = reserved.iter().filter_map(|text| Reserved::parse(text));
        reserved.for_each(|reserved| add(reserved.counter, reserved.amount, 0));
    });
    each(&job_blocked::TABLE, &moment, |row| {
        let key = row.text(job_blocked::blocked_by);
        if order::key_in(&key).is_none() {
            add(key, 0, 1);
        }
    });
    let now = clock::now();
    let mut spent = |counter: String, amount: i64| {
        let is_counted = Counter::parse(&counter).and_then(|name| settings.budgets.counted(&name, now)).is_some();
        if is_counted {
            add(counter, amount, 0);
        }
    };
    each(&budget_spent::TABLE, &moment, |row| spent(row.text(budget_spent::counter), row.long(budget_spent::amount)));
    each(&budget_use::TABLE, &moment, |row| spent(row.text(budget_use::counter), row.long(budget_use::amount)));
    if crate::shared::is_preloaded() {
        gauges::load(written_gauges(&moment).into_iter().collect(), now);
    }
    counts.into_iter().map(|(key, count)| Count { key, ..count }).collect()
}

fn each(layout: &'static crate::table::Layout, moment: &Moment, mut row: impl FnMut(&crate::table::Reader)) {
    let table = Table::open(layout);
    let mut all = All::begin(&table, moment);
    while let Some(reader) = all.next() {
        row(reader);
    }
}

/// The gauges as they were last written down.
fn written_gauges(moment: &Moment) -> BTreeMap<String, Gauge> {
    let mut written = BTreeMap::new();
    each(&limit_gauge::TABLE, moment, |row| {
        let gauge = Jsonb::from_container(row.bytes(limit_gauge::gauge)).parse("gauge").ok();
        if let Some(gauge) = gauge.and_then(|gauge| serde_json::from_value(gauge).ok()) {
            written.insert(row.text(limit_gauge::limit_key), gauge);
        }
    });
    written
}

/// Sees to it that everything is counted, before something that counts comes or goes.
pub fn count_first() -> bool {
    slots::ensure(Table::open(&job_lease::TABLE).id(), count)
}

/// What a job wants.
pub struct Wishes {
    /// The keys of its worker: its lease names them also where there is no rule, so that a later one counts it.
    pub worker: Vec<String>,
    /// The keys that it has, each with its weight.
    pub keys: Vec<(String, u32)>,
    /// What it is expected to cost, in millionths of each unit.
    pub cost: Vec<(String, i64)>,
}

/// What a lease is to remember.
#[derive(Default)]
pub struct Passed {
    pub limits: Vec<String>,
    pub reserved: Vec<String>,
}

impl Passed {
    pub fn put(self, mut row: Row) -> Row {
        if !self.limits.is_empty() {
            row = row.set(job_lease::limits, self.limits);
        }
        if !self.reserved.is_empty() {
            row = row.set(job_lease::reserved, self.reserved);
        }
        row
    }
}

/// What this claim has counted itself, with the rules locked.
struct Counted<'a> {
    counts: BTreeMap<String, Count>,
    gauges: BTreeMap<String, Gauge>,
    needed: &'a Needed,
}

/// What the jobs wanted that a claim has refused, so that it does not come back to them.
pub type Needed = RefCell<BTreeMap<String, i64>>;

pub struct Gates<'a> {
    rules: &'a Rules,
    budgets: &'a Budgets,
    now: Micros,
    /// None: shared memory counts.
    counted: Option<Counted<'a>>,
}

impl<'a> Gates<'a> {
    pub fn open(leases: &Table, rules: &'a Rules, budgets: &'a Budgets, needed: &'a Needed, now: Micros) -> Gates<'a> {
        if slots::will_recount() {
            raise(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this transaction has changed limits or budgets, and so cannot claim",
                "Commit the change first.",
            )
        }
        if slots::ensure(leases.id(), count) {
            return Gates { rules, budgets, now, counted: None };
        }
        // Nobody else holds a slot of these rules that is not to be seen yet.
        db::connect(|db| {
            db.run(&RULES_LOCK, &[]);
            db.run(&BUDGETS_LOCK, &[]);
        });
        let counts = count().into_iter().map(|count| (count.key.clone(), count)).collect();
        let gauges = written_gauges(&Moment::latest());
        Gates { rules, budgets, now, counted: Some(Counted { counts, gauges, needed }) }
    }

    /// Whether nothing is left of a key, for any job.
    fn is_used_up(&self, key: &str, most: i64) -> bool {
        match &self.counted {
            None => slots::is_used_up(key, most),
            Some(counted) => counted.counts.get(key).map_or(0, |count| count.active) >= most,
        }
    }

    /// Whether a slot of a key may be taken, and its rate is open.
    fn is_open(&self, key: &str) -> bool {
        let Some(rule) = self.rules.of(key) else { return true };
        let has_slot = rule.slots().is_none_or(|slots| !self.is_used_up(key, slots.into()));
        has_slot && self.gauge(key).is_none_or(|mut gauge| gauge.opens(rule.rate.as_ref(), 1, self.now).is_none())
    }

    /// Whether there is not enough of a key for the job that was refused last.
    fn is_full(&self, key: &str, most: i64) -> bool {
        match &self.counted {
            None => slots::is_full(key, most),
            Some(counted) => {
                let needed = counted.needed.borrow().get(key).copied().unwrap_or_default();
                counted.counts.get(key).map_or(0, |count| count.active) + needed.max(1) > most
            }
        }
    }

    fn gauge(&self, key: &str) -> Option<Gauge> {
        match &self.counted {
            None => gauges::get(key),
            Some(counted) => counted.gauges.get(key).copied(),
        }
    }

    /// The first of these keys, or of their budgets, that lets no job through.
    pub fn closed(&self, keys: &[String]) -> Option<String> {
        keys.iter().find_map(|key| {
            if !self.is_open(key) {
                return Some(key.clone());
            }
            let exhausted = |budget: &&agentq_core::budget::Budget| {
                let counter = budget.counter(key, self.now);
                self.is_used_up(&counter, budget.amount).then_some(counter)
            };
            self.budgets.of(key).iter().find_map(exhausted)
        })
    }

    /// Slots that are left for these keys; None: any number.
    pub fn room(&self, keys: &[String]) -> Option<usize> {
        let active = |key: &str| match &self.counted {
            None => slots::active(key),
            Some(counted) => counted.counts.get(key).map_or(0, |count| count.active),
        };
        let left = |key: &String| self.rules.slots(key).map(|most| (i64::from(most) - active(key)).max(0) as usize);
        keys.iter().filter_map(left).min()
    }

    /// Keys for which jobs wait: those that let jobs through now, and those that do not.
    pub fn waited_for(&self) -> (Vec<String>, Vec<String>) {
        let waited_for = match &self.counted {
            None => slots::waited_for().unwrap_or_else(|| blocked_keys(false)),
            Some(counted) => {
                let waits = |(key, count): &(&String, &Count)| count.blocked > 0 && !key.starts_with(lane::START);
                counted.counts.iter().filter(waits).map(|(key, _)| key.clone()).collect()
            }
        };
        waited_for.into_iter().partition(|key| match Counter::parse(key) {
            None => self.is_open(key),
            Some(counter) => {
                let budget = self.budgets.counted(&counter, self.now);
                budget.is_none_or(|budget| !self.is_full(key, budget.amount))
            }
        })
    }

    /// Passes a job through all its gates, or says which is closed.
    pub fn pass(&mut self, job: &Wishes) -> Result<Passed, String> {
        let ruled: Vec<(&str, u32, &agentq_core::limits::Rule)> =
            job.keys.iter().filter_map(|(key, weight)| Some((key.as_str(), *weight, self.rules.of(key)?))).collect();
        let reserved = self.reservations(job);
        let slots =
            ruled.iter().filter_map(|(key, _, rule)| Some(Wanted { key, most: i64::from(rule.slots()?), amount: 1 }));
        let budgeted = reserved.iter().map(|(reserved, most)| Wanted {
            key: &reserved.counter,
            most: *most,
            amount: reserved.amount,
        });
        let unruled: Vec<&String> = job.worker.iter().filter(|key| self.rules.slots(key).is_none()).collect();
        let named = unruled.iter().map(|key| Wanted { key, most: i64::MAX, amount: 1 });
        let wanted: Vec<Wanted<'_>> = slots.chain(budgeted).chain(named).collect();
        let wishes: Vec<Wish<'_>> =
            ruled.iter().map(|(key, weight, rule)| Wish { key, rate: rule.rate, weight: *weight }).collect();
        match &mut self.counted {
            None => {
                let mut full = None;
                let take = || slots::take(&wanted).inspect_err(|number| full = Some(wanted[*number].key.to_owned()));
                if let Err(number) = gauges::take(&wishes, self.now, take) {
                    return Err(full.unwrap_or_else(|| wishes[number].key.to_owned()));
                }
            }
            Some(counted) => counted.take(&wishes, &wanted, self.now)?,
        }
        let limited = ruled.iter().filter(|(_, _, rule)| rule.max_concurrent.is_some()).map(|rule| rule.0.to_owned());
        Ok(Passed {
            limits: limited.chain(unruled.into_iter().cloned()).collect(),
            reserved: reserved.iter().map(|(reserved, _)| reserved.text()).collect(),
        })
    }

    /// What a job reserves of each of its budgets, of which there is so much.
    fn reservations(&self, job: &Wishes) -> Vec<(Reserved, i64)> {
        if self.budgets.is_empty() {
            return Vec::new();
        }
        let budgets = job.keys.iter().flat_map(|(key, _)| self.budgets.of(key).into_iter().map(move |b| (key, b)));
        let reserve = |(key, budget): (&String, &agentq_core::budget::Budget)| {
            let cost = job.cost.iter().find(|(unit, _)| *unit == budget.unit).map_or(0, |(_, amount)| *amount);
            (Reserved { counter: budget.counter(key, self.now), amount: cost, is_told: false }, budget.amount)
        };
        budgets.map(reserve).collect()
    }
}

impl Counted<'_> {
    fn take(&mut self, wishes: &[Wish<'_>], wanted: &[Wanted<'_>], now: Micros) -> Result<(), String> {
        for wish in wishes {
            let mut gauge = self.gauges.get(wish.key).copied().unwrap_or_default();
            if gauge.opens(wish.rate.as_ref(), wish.weight, now).is_some() {
                self.save(wish.key, gauge);
                return Err(wish.key.to_owned());
            }
        }
        let active = |key: &str| self.counts.get(key).map_or(0, |count| count.active);
        if let Some(full) = wanted.iter().find(|wish| active(wish.key) + wish.amount.max(1) > wish.most) {
            self.needed.borrow_mut().insert(full.key.to_owned(), full.amount);
            return Err(full.key.to_owned());
        }
        for wish in wanted {
            self.counts.entry(wish.key.to_owned()).or_default().active += wish.amount;
        }
        for wish in wishes {
            if let Some(rate) = &wish.rate {
                let mut gauge = self.gauges.get(wish.key).copied().unwrap_or_default();
                gauge.take(rate, wish.weight, now);
                self.save(wish.key, gauge);
            }
        }
        Ok(())
    }

    fn save(&mut self, key: &str, gauge: Gauge) {
        self.gauges.insert(key.to_owned(), gauge);
        save_gauge(key, &gauge);
    }
}

/// Writes a gauge down.
pub fn save_gauge(key: &str, gauge: &Gauge) {
    let gauge = Jsonb::from_value(serde_json::to_value(gauge).unwrap_or_default());
    db::connect(|db| {
        db.run(&GAUGE_SAVE, &[key.into(), gauge.into()]);
    });
}

/// A gauge as it was last written down.
pub fn written_gauge(key: &str) -> Gauge {
    written_gauges(&Moment::latest()).get(key).copied().unwrap_or_default()
}

/// The keys that jobs wait for, or the lanes that they wait in, from the table itself.
pub fn blocked_keys(lanes: bool) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    db::connect(|db| db.run(&BLOCKED_KEYS, &[]).each(|row| keys.push(row.must(1))));
    keys.retain(|key| key.starts_with(lane::START) == lanes);
    keys
}

/// The budgets in force, also in a transaction whose snapshot is older than they are.
pub fn budgets_in_force() -> Option<Budgets> {
    if !db::has_fixed_snapshot() {
        return None;
    }
    let mut budgets = Vec::new();
    each(&budget::TABLE, &Moment::latest(), |row| {
        let row = BudgetRow {
            limit_key: row.text(budget::limit_key),
            unit: row.text(budget::unit),
            period: row.text(budget::period),
            amount: row.numeric(budget::amount),
            when_exhausted: row.text(budget::when_exhausted),
        };
        budgets.extend(row.budget());
    });
    Some(Budgets::new(budgets))
}

/// The rules in force, also in a transaction whose snapshot is older than they are.
pub fn rules_in_force() -> Option<Rules> {
    if !db::has_fixed_snapshot() {
        return None;
    }
    let mut rules = Vec::new();
    each(&limit_rule::TABLE, &Moment::latest(), |row| {
        let number = |column| (!row.is_null(column)).then(|| row.int(column) as u32);
        rules.push(
            LimitRow {
                limit_key: row.text(limit_rule::limit_key),
                max_concurrent: number(limit_rule::max_concurrent),
                max_pending: number(limit_rule::max_pending),
                taken_by_hand: number(limit_rule::taken_by_hand).unwrap_or_default(),
                rate: number(limit_rule::rate),
                per_seconds: row.maybe_float(limit_rule::per_seconds),
                burst: number(limit_rule::burst),
                algorithm: (!row.is_null(limit_rule::algorithm)).then(|| row.text(limit_rule::algorithm)),
                weight: row.maybe_float(limit_rule::weight),
                max_age_seconds: row.maybe_float(limit_rule::max_age_seconds),
            }
            .rule(),
        );
    });
    Some(Rules::new(rules))
}
