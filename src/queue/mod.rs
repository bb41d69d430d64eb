//! queue: jobs, attempts, leases, dead letters and heartbeats.
//!
//! Promise: each job is done at least once, by one holder at a time, and never lost.
//! Lock order: lease, ready or waiting row, job, idempotency key (see `docs/locking.md`).
//!
//! The parts, from the lowest to the highest; each may name those before it:
//! `rules` (what holds for jobs), `waking` (who is told), `counting` (what is in use), `storage` (where jobs rest),
//! `capacity` (what a claim must pass), `ends` (how attempts end), `intake` (how jobs come in), `claim` (how they are
//! given out), `redrive` (once more), `admin` (what people set up), `chores` (what the engine does).

pub mod admin;
pub mod answer;
pub mod batch_list;
mod capabilities;
pub mod capacity;
mod chores;
pub mod claim;
mod counting;
pub mod ends;
pub mod intake;
pub mod redrive;
mod rows;
pub mod rules;
pub mod settings;
pub mod storage;
pub mod waking;

use crate::db::statements;
use crate::room::Room;

statements!("queue.sql": EXPIRE_METRIC, EXPIRE_THROTTLE);

pub static ROOM: Room = Room {
    settings: settings::KEYS,
    chores: chores::CHORES,
    expiring: &[&EXPIRE_METRIC, &EXPIRE_THROTTLE],
    at_end: &[
        counting::changes::at_end,
        storage::marks::at_end,
        claim::unflushed::at_end,
        waking::ends::at_end,
        storage::idle::at_end,
    ],
    init: || {
        redrive::init();
        admin::starters::init();
    },
    init_preloaded: || {
        waking::init();
        counting::init();
        storage::marks::init();
    },
};
