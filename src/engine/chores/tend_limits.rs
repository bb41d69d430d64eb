//! Writes down what has been begun under rate limits, adds up what was spent of budgets, and tells listeners when a
//! rate has opened again.

use super::{Chore, Next, Outcome};
use crate::base::clock::{self, Micros};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::queue::gates;
use crate::shared::{gauges, slots};
use agentq_core::budget::Counter;
use std::cell::Cell;

statement!(BUDGET_ADD_UP, "../sql/budget_add_up.sql", [INT8OID]);
statement!(FORGET_GAUGES, "../sql/forget_gauges.sql", [INT8OID]);

/// Rows of what was spent that are added up in one transaction.
const AT_MOST: i64 = 10_000;

pub static CHORE: Chore = Chore {
    name: "tend_limits",
    activity: c"agentq: tend_limits",
    about: "Writes down the gauges of rate limits, adds up what was spent of budgets, and tells listeners of rates that have opened.",
    every_us: 1_000_000,
    run,
};

/// The counters of periods that have passed are forgotten this often, in microseconds.
const FORGET_EVERY_US: i64 = 60_000_000;

thread_local! {
    static TOLD_UNTIL: Cell<Micros> = const { Cell::new(Micros::MAX) };
    static FORGOT_AT: Cell<Micros> = const { Cell::new(0) };
}

fn run() -> Outcome {
    let settings = Settings::current();
    let now = clock::now();
    if !(0..FORGET_EVERY_US).contains(&(now - FORGOT_AT.get())) {
        FORGOT_AT.set(now);
        let is_over = |counter: Counter<'_>| settings.budgets.counted(&counter, now).is_none();
        slots::forget(|key| Counter::parse(key).is_some_and(is_over));
    }
    let changed = gauges::take_changed();
    changed.iter().for_each(|(key, gauge)| gates::save_gauge(key, gauge));
    let added: i64 = db::connect(|db| {
        db.run(&FORGET_GAUGES, &[now.into()]);
        db.run(&BUDGET_ADD_UP, &[AT_MOST.into()]).must(1)
    });
    let before = TOLD_UNTIL.replace(now);
    if gauges::next_opening(before).is_some_and(|at| at <= now) {
        slots::tell_listeners();
    }
    let next = match gauges::next_opening(now) {
        _ if added == AT_MOST => Next::AtOnce,
        Some(at) => Next::At(at),
        None => Next::AsUsual,
    };
    Outcome { rows: changed.len() as i64 + added, next }
}
