//! What the engine does for missions, effects, steps and signals.

use super::effects::clean;
use super::missions::maintain;
use super::orphans;
use crate::room::{Chore, Stage, Wakes};

pub static CHORES: &[&Chore] = &[&TEND_MISSIONS, &CLEAN_FLOW, &CLEAN_EFFECTS];

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
