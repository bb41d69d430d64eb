//! What the engine does for limits: writes down what has been begun under rates, adds up what was spent of budgets, and
//! tells listeners when a rate has opened again.

use super::budgets;
use crate::base::clock::{self, Micros};
use crate::db::{self, Db, statements};
use crate::events;
use crate::queue::counting::{board, changes, gauges, tables};
use crate::queue::rows::job_lease;
use crate::queue::rules::Rulebook;
use crate::queue::storage::lease;
use crate::queue::waking;
use crate::room::{Next, Outcome};
use crate::table::Table;
use agentq_core::budget::Counter;
use std::cell::Cell;

statements!("maintain.sql": BUDGET_ADD_UP, FORGET_GAUGES);

/// One transaction adds up at most this many rows of what was spent.
const AT_MOST: i64 = 10_000;
/// The counters of periods that have passed are forgotten this often, in microseconds.
const FORGET_EVERY_US: i64 = 60_000_000;

/// What could not be counted for want of room is counted again this often, in microseconds, when no more than so many lines
/// are left.
const COUNT_EVERY_US: i64 = 10_000_000;
const FEW_LINES: i64 = 4_000;

thread_local! {
    static COUNTED_AT: Cell<Micros> = const { Cell::new(0) };
    static TOLD_UNTIL: Cell<Micros> = const { Cell::new(Micros::MAX) };
    static FORGOT_AT: Cell<Micros> = const { Cell::new(0) };
}

pub fn maintain() -> Outcome {
    let (rules, now) = (Rulebook::current(), clock::now());
    if !(0..FORGET_EVERY_US).contains(&(now - FORGOT_AT.get())) {
        FORGOT_AT.set(now);
        let is_over = |counter: Counter<'_>| rules.budgets.counted(&counter, now).is_none();
        board::forget(|key| Counter::parse(key).is_some_and(is_over));
        board::tidy();
    }
    count_again(now);
    let changed = gauges::take_changed();
    changed.iter().for_each(|(key, gauge)| tables::save_gauge(key, gauge));
    let added: i64 = db::connect(|db| {
        db.run(&FORGET_GAUGES, &[now.into()]);
        add_up(db, &rules, now)
    });
    let before = TOLD_UNTIL.replace(now);
    if gauges::next_opening(before).is_some_and(|at| at <= now) {
        waking::tell_of_jobs_anywhere();
    }
    let next = match gauges::next_opening(now) {
        _ if added == AT_MOST => Next::AtOnce,
        Some(at) => Next::At(at),
        None => Next::AsUsual,
    };
    Outcome { rows: changed.len() as i64 + added, next }
}

/// Counts again what could not be counted for want of room, once there is room.
fn count_again(now: Micros) {
    if !board::is_incomplete() || (0..COUNT_EVERY_US).contains(&(now - COUNTED_AT.get())) {
        return;
    }
    COUNTED_AT.set(now);
    // Somebody who has jobs in hand for long is in the way: then another time.
    if tables::count_lines(FEW_LINES) < FEW_LINES && db::attempt(lease::keep_all_as_they_are).is_ok() {
        changes::recount_at_commit(Table::open(&job_lease::TABLE).id(), tables::count());
    }
}

/// Adds up what was spent, and tells of budgets of which more was used just now than there is. Returns how many rows it has
/// added up.
fn add_up(db: &Db, rules: &Rulebook, now: Micros) -> i64 {
    let (mut rows, mut exceeded) = (0, Vec::new());
    db.run(&BUDGET_ADD_UP, &[AT_MOST.into()]).each(|row| {
        rows += row.must::<i64>("rows");
        let (counter, used, added): (String, i64, i64) = (row.must("counter"), row.must("amount"), row.must("added"));
        let budget = Counter::parse(&counter).and_then(|parts| Some((parts, rules.budgets.counted(&parts, now)?)));
        if let Some((parts, budget)) = budget
            && used > budget.amount
            && used.saturating_sub(added) <= budget.amount
        {
            exceeded.push((parts.key.to_owned(), budgets::told(&counter, budget, used)));
        }
    });
    for (key, what) in exceeded {
        events::emit(db, "budget.exceeded", &key, what, now);
    }
    rows
}
