//! What the tables say of each key: counted where shared memory does not know it, or does not exist.

use super::board::{self, Count, Counts};
use super::gauges;
use crate::base::clock;
use crate::db::{self, statements};
use crate::json::Jsonb;
use crate::queue::rows::{budget_spent, budget_use, job_lease, job_line, limit_gauge};
use crate::queue::rules::Rulebook;
use crate::shared::is_preloaded;
use crate::table::{All, Layout, Moment, RowReader, Table};
use agentq_core::budget::{Counter, Reserved};
use agentq_core::line::Line;
use agentq_core::rate::Gauge;
use agentq_core::turns::kind_bit;
use std::cell::RefCell;
use std::collections::BTreeMap;

statements!("tables.sql": LINE_NAMES, GAUGE_SAVE);

/// How many names of lines one claim reads from the table: of limits and budgets; of fair lines a page, and as many pages.
const NAMES_AT_MOST: usize = 256;
const PAGE: usize = 64;
const PAGES_AT_MOST: usize = 16;
/// Comes after all names.
const LAST: &str = "\u{10ffff}";

thread_local! {
    /// Where the last reading of names has stopped, by the range that it was about.
    static LINES_TO: RefCell<BTreeMap<String, String>> = RefCell::default();
    static FAIR_LINES_TO: RefCell<BTreeMap<String, String>> = RefCell::default();
}

/// What the tables say of each key.
pub fn count() -> Counts {
    let rules = Rulebook::current();
    let moment = Moment::latest();
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut add = |key: String, active: i64, in_line: u32, kinds: u64| {
        let count = counts.entry(key).or_default();
        (count.active, count.in_line) = (count.active + active, count.in_line + in_line);
        count.kinds |= kinds;
    };
    each(&job_lease::TABLE, &moment, |lease| {
        lease.texts(job_lease::limits).into_iter().for_each(|key| add(key, 1, 0, 0));
        let reserved = lease.texts(job_lease::reserved);
        let reserved = reserved.iter().filter_map(|text| Reserved::parse(text));
        reserved.for_each(|reserved| add(reserved.counter, reserved.amount, 0, 0));
    });
    each(&job_line::TABLE, &moment, |row| {
        let line = Line::parse(row.text(job_line::line));
        if !line.is_order() {
            add(line.name().to_owned(), 0, 1, kind_bit(&row.text(job_line::job_kind)));
        }
    });
    let now = clock::now();
    let mut spent = |counter: String, amount: i64| {
        let is_counted = Counter::parse(&counter).and_then(|name| rules.budgets.counted(&name, now)).is_some();
        if is_counted {
            add(counter, amount, 0, 0);
        }
    };
    each(&budget_spent::TABLE, &moment, |row| spent(row.text(budget_spent::counter), row.long(budget_spent::amount)));
    each(&budget_use::TABLE, &moment, |row| spent(row.text(budget_use::counter), row.long(budget_use::amount)));
    if is_preloaded() {
        gauges::load(written_gauges(&moment).into_iter().collect(), now);
    }
    let keys = counts.into_iter().map(|(key, count)| Count { key, ..count }).collect();
    Counts { keys, named: rules.limits.named() }
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

/// The names of the lines of limits and budgets in which jobs stand, from the table itself; not all, if there are very many,
/// but others each time.
pub fn line_names() -> Vec<String> {
    // Between them are fair lines, and those behind the heads of ordering keys.
    let ranges = [("", "fair:"), ("fair;", "order:"), ("order;", LAST)];
    LINES_TO.with_borrow_mut(|to| ranges.iter().flat_map(|(from, end)| names(to, from, end, NAMES_AT_MOST)).collect())
}

/// The names of fair lines of a queue for which `may` holds, from the table itself; at most so many, others each time.
pub fn fair_line_names(queue: i32, most: usize, may: impl Fn(&str) -> bool) -> Vec<String> {
    let (from, end) = (format!("fair:{queue}|"), format!("fair:{queue}}}"));
    let mut found: Vec<String> = Vec::new();
    FAIR_LINES_TO.with_borrow_mut(|to| {
        for _ in 0..PAGES_AT_MOST {
            let page = names(to, &from, &end, PAGE);
            let is_last = page.len() < PAGE;
            found.extend(page.into_iter().filter(|name| may(name)));
            if is_last || found.len() >= most {
                break;
            }
        }
    });
    found.sort();
    found.dedup();
    found
}

/// Names of lines from one to another, from where the last reading has stopped.
fn names(to: &mut BTreeMap<String, String>, from: &str, end: &str, most: usize) -> Vec<String> {
    let start = to.get(from).cloned().unwrap_or_else(|| from.to_owned());
    let read = |from: &str, end: &str, most: usize| {
        let mut names: Vec<String> = Vec::new();
        let args = [from.into(), end.into(), (most as i64).into()];
        db::connect(|db| db.run(&LINE_NAMES, &args).each(|row| names.push(row.only())));
        names
    };
    let mut found = read(&start, end, most);
    if found.len() < most && start != from {
        // Up to where it began, and that one too.
        found.extend(read(from, &format!("{start}\u{1}"), most - found.len()));
    }
    to.insert(from.to_owned(), found.last().cloned().unwrap_or_else(|| from.to_owned()));
    found
}

/// How many lines stand in the table, at most `most`.
pub fn count_lines(most: i64) -> i64 {
    db::connect(|db| db.run(&LINE_NAMES, &["".into(), LAST.into(), most.into()]).len() as i64)
}
