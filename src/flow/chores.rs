//! What the engine does for missions, effects, steps and signals.

use super::effects::clean;
use super::missions::{late_ends, maintain, step_waits};
use super::orphans;
use crate::room::{Chore, Stage, Wakes};
use crate::shared::news::{self, News};

/// Waits are looked at at most this often, in microseconds: many commits at a time.
const END_WAITS_EVERY_US: i64 = 10_000;

pub static CHORES: &[&Chore] = &[&END_WAITS, &TEND_MISSIONS, &CLEAN_FLOW, &CLEAN_EFFECTS];

/// Runs by itself when such a step has begun, a signal for one was sent, or the next is due.
static END_WAITS: Chore = Chore {
    name: "end_waits",
    about: "Ends steps of missions that sleep or wait for a signal, when their time or their signal has come, and those whose work ended while somebody steered their mission.",
    every_us: 1_000_000,
    stage: Stage::Work,
    moves_jobs: true,
    wakes_on: Wakes::News {
        is_there: || news::is_there(News::StepWaits),
        take: || news::take(News::StepWaits),
        pause_us: END_WAITS_EVERY_US,
    },
    run: || step_waits::tend().and(late_ends::tend()),
};

static TEND_MISSIONS: Chore = Chore {
    name: "tend_missions",
    about: "Ends missions that have run out of time, takes back jobs of stopped ones, and removes old ones.",
    every_us: 1_000_000,
    stage: Stage::Tidy,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: maintain::maintain,
};

static CLEAN_FLOW: Chore = Chore {
    name: "clean_flow",
    about: "Removes steps and waits of jobs that are gone, and wakes jobs whose signal came while somebody else had them.",
    every_us: 10_000_000,
    stage: Stage::Tidy,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: orphans::clean,
};

static CLEAN_EFFECTS: Chore = Chore {
    name: "clean_effects",
    about: "Removes old effects whose jobs have been removed. What waits for a person stays.",
    every_us: 600_000_000,
    stage: Stage::Tidy,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: clean::sweep,
};
