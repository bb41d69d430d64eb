//! What a job must pass before it is held: slots of limits, rates, and budgets.
//!
//! A lease says of which keys it holds a slot, and what it has reserved. The board in shared memory counts them; where
//! there is none, a claim locks the rules and budgets it is under, and counts the tables itself.

use super::limits::{BUDGETS_LOCK, RULES_LOCK};
use crate::base::clock::Micros;
use crate::db;
use crate::error::raise;
use crate::queue::counting::gauges::{self, RateDemand};
use crate::queue::counting::tables::{self, each, save_gauge, written_gauges};
use crate::queue::counting::{Count, asking, board, changes};
use crate::queue::rows::{budget, job_lease, limit_rule};
use crate::queue::rules::{BudgetRow, LimitRow};
use crate::server::has_fixed_snapshot;
use crate::table::{Moment, Row, Table};
use agentq_core::budget::{Budget, Budgets, Counter, Reserved};
use agentq_core::counters::CounterDemand;
use agentq_core::limits::{Rule, Rules};
use agentq_core::line::{Line, is_fair};
use agentq_core::rate::Gauge;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a job asks for.
pub struct Demand {
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
    refused: &'a Refused,
}

/// By key, what the jobs asked for that a claim has refused, so that it does not come back to them.
pub type Refused = RefCell<BTreeMap<String, i64>>;

pub struct Gates<'a> {
    rules: &'a Rules,
    budgets: &'a Budgets,
    now: Micros,
    /// None: shared memory counts.
    counted: Option<Counted<'a>>,
}

impl<'a> Gates<'a> {
    pub fn open(
        leases: &Table,
        rules: &'a Rules,
        budgets: &'a Budgets,
        refused: &'a Refused,
        now: Micros,
    ) -> Gates<'a> {
        if changes::will_recount() {
            raise(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this transaction has changed limits or budgets, and so cannot claim",
                "Commit the change first.",
            )
        }
        if board::ensure(leases.id(), tables::count) {
            return Gates { rules, budgets, now, counted: None };
        }
        // With these rules locked, nobody holds a slot of them that this session cannot see yet.
        db::connect(|db| {
            db.run(&RULES_LOCK, &[]);
            db.run(&BUDGETS_LOCK, &[]);
        });
        let counts = tables::count().keys.into_iter().map(|count| (count.key.clone(), count)).collect();
        let gauges = written_gauges(&Moment::latest());
        Gates { rules, budgets, now, counted: Some(Counted { counts, gauges, refused }) }
    }

    /// Whether nothing is left of a key, for any job.
    fn is_used_up(&self, key: &str, most: i64) -> bool {
        match &self.counted {
            None => asking::is_used_up(key, most),
            Some(counted) => counted.active(key) >= most,
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
            None => asking::is_full(key, most),
            Some(counted) => {
                let needed = counted.refused.borrow().get(key).copied().unwrap_or_default();
                counted.active(key) + needed.max(1) > most
            }
        }
    }

    fn gauge(&self, key: &str) -> Option<Gauge> {
        match &self.counted {
            None => gauges::get(key),
            Some(counted) => counted.gauges.get(key).copied(),
        }
    }

    /// The name of the first of these limits, or of their budgets, that lets no job through.
    pub fn closed(&self, keys: &[String]) -> Option<String> {
        keys.iter().find_map(|key| {
            if !self.is_open(key) {
                return Some(key.clone());
            }
            let exhausted = |budget: &&Budget| {
                let counter = budget.counter(key, self.now);
                self.is_used_up(&counter, budget.amount).then_some(counter)
            };
            self.budgets.of(key).iter().find_map(exhausted)
        })
    }

    /// Slots that are left for these keys; None: any number.
    pub fn room(&self, keys: &[String]) -> Option<usize> {
        let active = |key: &str| match &self.counted {
            None => asking::active(key),
            Some(counted) => counted.active(key),
        };
        let left = |key: &String| self.rules.slots(key).map(|most| (i64::from(most) - active(key)).max(0) as usize);
        keys.iter().filter_map(left).min()
    }

    /// The names of lines in which jobs wait: of those that let jobs through now, and of those that do not.
    pub fn waited_for(&self) -> (Vec<String>, Vec<String>) {
        let waited_for = match &self.counted {
            None => asking::waited_for().unwrap_or_else(tables::line_names),
            Some(counted) => {
                let waits = |(key, count): &(&String, &Count)| count.in_line > 0 && !is_fair(key);
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

    /// Passes a job through all its gates, or says in which line it has to wait.
    pub fn pass(&mut self, job: &Demand) -> Result<Passed, Line> {
        let ruled: Vec<(&str, u32, &Rule)> =
            job.keys.iter().filter_map(|(key, weight)| Some((key.as_str(), *weight, self.rules.of(key)?))).collect();
        let reserved = self.reservations(job);
        let slots = ruled
            .iter()
            .filter_map(|(key, _, rule)| Some(CounterDemand { key, most: i64::from(rule.slots()?), amount: 1 }));
        let budgeted = reserved.iter().map(|(reserved, most)| CounterDemand {
            key: &reserved.counter,
            most: *most,
            amount: reserved.amount,
        });
        let unruled: Vec<&String> = job.worker.iter().filter(|key| self.rules.slots(key).is_none()).collect();
        let named = unruled.iter().map(|key| CounterDemand { key, most: i64::MAX, amount: 1 });
        let amounts: Vec<CounterDemand<'_>> = slots.chain(budgeted).chain(named).collect();
        let rates: Vec<RateDemand<'_>> =
            ruled.iter().map(|(key, weight, rule)| RateDemand { key, rate: rule.rate, weight: *weight }).collect();
        match &mut self.counted {
            None => {
                let mut full = None;
                let take = || changes::take(&amounts).inspect_err(|number| full = Some(amounts[*number].key));
                if let Err(number) = gauges::take(&rates, self.now, take) {
                    return Err(Line::parse(full.unwrap_or_else(|| rates[number].key)));
                }
            }
            Some(counted) => counted.take(&rates, &amounts, self.now)?,
        }
        let limited = ruled.iter().filter(|(_, _, rule)| rule.max_concurrent.is_some()).map(|rule| rule.0.to_owned());
        Ok(Passed {
            limits: limited.chain(unruled.into_iter().cloned()).collect(),
            reserved: reserved.iter().map(|(reserved, _)| reserved.text()).collect(),
        })
    }

    /// What a job reserves of each of its budgets, each with all that the budget has.
    fn reservations(&self, job: &Demand) -> Vec<(Reserved, i64)> {
        if self.budgets.is_empty() {
            return Vec::new();
        }
        let budgets = job.keys.iter().flat_map(|(key, _)| self.budgets.of(key).into_iter().map(move |b| (key, b)));
        let reserve = |(key, budget): (&String, &Budget)| {
            let cost = job.cost.iter().find(|(unit, _)| *unit == budget.unit).map_or(0, |(_, amount)| *amount);
            (Reserved { counter: budget.counter(key, self.now), amount: cost, is_told: false }, budget.amount)
        };
        budgets.map(reserve).collect()
    }
}

impl Counted<'_> {
    fn active(&self, key: &str) -> i64 {
        self.counts.get(key).map_or(0, |count| count.active)
    }

    fn take(&mut self, rates: &[RateDemand<'_>], amounts: &[CounterDemand<'_>], now: Micros) -> Result<(), Line> {
        for demand in rates {
            let mut gauge = self.gauges.get(demand.key).copied().unwrap_or_default();
            if gauge.opens(demand.rate.as_ref(), demand.weight, now).is_some() {
                self.save(demand.key, gauge);
                return Err(Line::parse(demand.key));
            }
        }
        if let Some(full) = amounts.iter().find(|demand| self.active(demand.key) + demand.amount.max(1) > demand.most) {
            self.refused.borrow_mut().insert(full.key.to_owned(), full.amount);
            return Err(Line::parse(full.key));
        }
        for demand in amounts {
            self.counts.entry(demand.key.to_owned()).or_default().active += demand.amount;
        }
        for demand in rates {
            if let Some(rate) = &demand.rate {
                let mut gauge = self.gauges.get(demand.key).copied().unwrap_or_default();
                gauge.take(rate, demand.weight, now);
                self.save(demand.key, gauge);
            }
        }
        Ok(())
    }

    fn save(&mut self, key: &str, gauge: Gauge) {
        self.gauges.insert(key.to_owned(), gauge);
        save_gauge(key, &gauge);
    }
}

/// The budgets in force, also in a transaction whose snapshot is older than they are. None: those of the rulebook.
pub fn newer_budgets() -> Option<Budgets> {
    if !has_fixed_snapshot() {
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

/// The limits in force, also in a transaction whose snapshot is older than they are. None: those of the rulebook.
pub fn newer_limits() -> Option<Rules> {
    if !has_fixed_snapshot() {
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
                pending_by_hand: number(limit_rule::pending_by_hand).unwrap_or_default(),
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
