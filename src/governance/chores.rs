//! What the engine does for the loop that turns events into approved work.

use super::{clean, propose, reactions};
use crate::events;
use crate::room::{Chore, Stage, Wakes};

pub static CHORES: &[&Chore] = &[&REACT, &PROPOSE, &CLEAN_GOVERNANCE];

static REACT: Chore = Chore {
    name: "react",
    about: "Holds new events against the policy reaction_matrix, and queues a reaction for each that fits.",
    every_us: 1_000_000,
    stage: Stage::React,
    moves_jobs: false,
    wakes_on: Wakes::After(&[&events::chores::SEAL_EVENTS, &events::chores::KEEP_PARTITIONS]),
    run: reactions::turn,
};

static PROPOSE: Chore = Chore {
    name: "propose",
    about: "Turns queued reactions into proposals: gated, and approved or left for a person. Runs at once when there are new ones.",
    every_us: 1_000_000,
    stage: Stage::React,
    moves_jobs: true,
    wakes_on: Wakes::Time,
    run: propose::turn,
};

static CLEAN_GOVERNANCE: Chore = Chore {
    name: "clean_governance",
    about: "Removes reactions older than events.retention_days, and ended proposals older than events.audit_retention_days.",
    every_us: 600_000_000,
    stage: Stage::Tidy,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: clean::sweep,
};
