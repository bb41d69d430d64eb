//! What the engine does for the queue.

use super::admin::{executors, metrics, purge, schedules};
use super::capacity::{maintain, pressure};
use super::claim::routing;
use super::ends::{deadlines, late_ends, reap};
use super::storage::{marks, order, promote};
use crate::base::clock;
use crate::room::{Chore, Next, Outcome, Stage, Wakes};

/// Jobs that one transaction recovers, makes ready, or gives up.
const RECOVER_AT_MOST: i64 = 500;
const PROMOTE_AT_MOST: i64 = 1_000;
const GIVE_UP_AT_MOST: i64 = 200;
const PASS_ON_AT_MOST: i64 = 500;
/// What could not be moved is tried again after this long, in microseconds.
const AGAIN_US: i64 = 50_000;

pub static CHORES: &[&Chore] = &[
    &REAP_LEASES,
    &PROMOTE_DUE,
    &PASS_ON_ORDER,
    &TELL_ENDS,
    &ENFORCE_DEADLINES,
    &RUN_SCHEDULES,
    &CHECK_EXECUTORS,
    &CLEAN_FINISHED,
    &MEASURE,
    &WATCH_PRESSURE,
    &TEND_LIMITS,
    &WATCH_ROUTING,
];

static REAP_LEASES: Chore = Chore {
    name: "reap_leases",
    about: "Recovers jobs whose lease has expired: back to the ready ones, or to the dead letters.",
    every_us: 1_000_000,
    stage: Stage::Work,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: || {
        let rows = reap::now(clock::now(), RECOVER_AT_MOST) as i64;
        Outcome::and_more(rows, rows == RECOVER_AT_MOST)
    },
};

/// A job that is due and cannot be moved, because someone has it locked, is not tried all the time.
static PROMOTE_DUE: Chore = Chore {
    name: "promote_due",
    about: "Makes scheduled and retried jobs ready when they fall due. It also runs when the next one does.",
    every_us: 1_000_000,
    stage: Stage::Work,
    moves_jobs: true,
    wakes_on: Wakes::Moment { next: marks::next_due, pause_us: AGAIN_US },
    run: || {
        let rows = promote::promote_due(clock::now(), || promote::Due::All(PROMOTE_AT_MOST)) as i64;
        Outcome::and_more(rows, rows == PROMOTE_AT_MOST)
    },
};

/// The end of a head waits for nobody: what somebody was in the way of is done here.
static PASS_ON_ORDER: Chore = Chore {
    name: "pass_on_order",
    about: "Puts the next job at the head of ordering keys where somebody was in the way when the last one finished.",
    every_us: 1_000_000,
    stage: Stage::Work,
    moves_jobs: true,
    wakes_on: Wakes::Moment { next: order::next_due, pause_us: AGAIN_US },
    run: || {
        let rows = order::pass_on(clock::now(), PASS_ON_AT_MOST) as i64;
        Outcome::and_more(rows, rows == PASS_ON_AT_MOST)
    },
};

/// The end of a job waits for nobody who is in the way of its hook: what its mission, its parent or its letter could not be
/// told is told here.
static TELL_ENDS: Chore = Chore {
    name: "tell_ends",
    about: "Tells missions, parents, letters and compensations of jobs that ended while somebody was in the way.",
    every_us: 1_000_000,
    stage: Stage::Work,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: late_ends::tend,
};

static ENFORCE_DEADLINES: Chore = Chore {
    name: "enforce_deadlines",
    about: "Gives up jobs that were not begun by their start_by or not finished by their finish_by.",
    every_us: 1_000_000,
    stage: Stage::Work,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: || {
        let rows = deadlines::enforce(clock::now(), GIVE_UP_AT_MOST) as i64;
        Outcome::and_more(rows, rows == GIVE_UP_AT_MOST)
    },
};

static RUN_SCHEDULES: Chore = Chore {
    name: "run_schedules",
    about: "Enqueues the jobs of schedules that are due. It runs at the moment of the next slot.",
    every_us: 60_000_000,
    stage: Stage::Work,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: || {
        let (rows, next) = schedules::fire_due(clock::now());
        Outcome { rows, next: next.map_or(Next::AsUsual, Next::At) }
    },
};

static CHECK_EXECUTORS: Chore = Chore {
    name: "check_executors",
    about: "Classes executors as fresh, warning or stale, with an event for each change.",
    every_us: 10_000_000,
    stage: Stage::Work,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: executors::check_all,
};

static CLEAN_FINISHED: Chore = Chore {
    name: "clean_finished",
    about: "Removes finished jobs that are older than their queue keeps them. Dead letters stay.",
    every_us: 60_000_000,
    stage: Stage::Tidy,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: purge::sweep,
};

static MEASURE: Chore = Chore {
    name: "measure",
    about: "Writes depth, throughput, wait and run time of each kind into the metrics history.",
    every_us: metrics::EVERY_US,
    stage: Stage::Work,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: metrics::measure,
};

static WATCH_PRESSURE: Chore = Chore {
    name: "watch_pressure",
    about: "Writes the event backpressure.changed when the level of fn_backpressure_status has changed.",
    every_us: 10_000_000,
    stage: Stage::Work,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: pressure::watch,
};

static TEND_LIMITS: Chore = Chore {
    name: "tend_limits",
    about: "Writes down the gauges of rate limits, adds up what was spent of budgets, and tells listeners of rates that have opened.",
    every_us: 1_000_000,
    stage: Stage::Work,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: maintain::maintain,
};

static WATCH_ROUTING: Chore = Chore {
    name: "watch_routing",
    about: "Writes the event job.unroutable, at most once an hour for each set of capabilities, when jobs that require them wait and no live worker has announced them.",
    every_us: 30_000_000,
    stage: Stage::Work,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: routing::watch,
};
