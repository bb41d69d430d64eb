//! What the tables say of each key: counted where shared memory does not know it, or does not exist.

use super::board::{self, Count};
use super::gauges;
use crate::base::clock;
use crate::db::{self, statements};
use crate::json::Jsonb;
use crate::queue::rows::{budget_spent, budget_use, job_lease, job_line, limit_gauge};
use crate::queue::rules::Rulebook;
use crate::shared::is_preloaded;
use crate::table::{All, Layout, Moment, RowReader, Table};
use agentq_core::budget::{Counter, Reserved};
use agentq_core::line::{Line, is_fair};
use agentq_core::rate::Gauge;
use std::collections::BTreeMap;

statements!("tables.sql": LINE_NAMES, GAUGE_SAVE);

/// What the tables say of each key.
pub fn count() -> Vec<Count> {
    let rules = Rulebook::current();
    let moment = Moment::latest();
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut add = |key: String, active: i64, in_line: u32| {
        let count = counts.entry(key).or_default();
        (count.active, count.in_line) = (count.active + active, count.in_line + in_line);
    };
    each(&job_lease::TABLE, &moment, |lease| {
        lease.texts(job_lease::limits).into_iter().for_each(|key| add(key, 1, 0));
        let reserved = lease.texts(job_lease::reserved);
        let reserved = reserved.iter().filter_map(|text| Reserved::parse(text));
        reserved.for_each(|reserved| add(reserved.counter, reserved.amount, 0));
    });
    each(&job_line::TABLE, &moment, |row| {
        let line = Line::parse(row.text(job_line::line));
        if !line.is_order() {
            add(line.name().to_owned(), 0, 1);
        }
    });
    let now = clock::now();
    let mut spent = |counter: String, amount: i64| {
        let is_counted = Counter::parse(&counter).and_then(|name| rules.budgets.counted(&name, now)).is_some();
        if is_counted {
            add(counter, amount, 0);
        }
    };
    each(&budget_spent::TABLE, &moment, |row| spent(row.text(budget_spent::counter), row.long(budget_spent::amount)));
    each(&budget_use::TABLE, &moment, |row| spent(row.text(budget_use::counter), row.long(budget_use::amount)));
    if is_preloaded() {
        gauges::load(written_gauges(&moment).into_iter().collect(), now);
    }
    counts.into_iter().map(|(key, count)| Count { key, ..count }).collect()
}

/// Calls `row` with every row of a table.
pub fn each(layout: &'static Layout, moment: &Moment, mut row: impl FnMut(&RowReader)) {
    let table = Table::open(layout);
    let mut all = All::begin(&table, moment);
    while let Some(reader) = all.next() {
        row(reader);
    }
}

/// The gauges as they were last written down.
pub fn written_gauges(moment: &Moment) -> BTreeMap<String, Gauge> {
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
    board::ensure(Table::open(&job_lease::TABLE).id(), count)
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

/// The names of the lines in which jobs stand, from the table itself: of the fair ones, or of those for limits and
/// budgets.
pub fn line_names(fair: bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    db::connect(|db| db.run(&LINE_NAMES, &[]).each(|row| names.push(row.only())));
    names.retain(|name| is_fair(name) == fair);
    names
}
