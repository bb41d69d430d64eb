//! flow: what a job has already done, several jobs with an order, what they wait for, and what they change outside.
//!
//! Promise: a crash costs at most the step in flight.

mod actions;
mod checkpoints;
mod children;
mod chores;
mod effects;
pub mod missions;
mod orphans;
mod settings;
mod signals;
mod sleep;
mod step_rows;
mod steps;
mod wake;

use crate::db::statements;
use crate::queue::ends::again::{self, Steps};
use crate::room::Room;

statements!("flow.sql": EXPIRE_ACTION, EXPIRE_SIGNAL);

pub static ROOM: Room = Room {
    settings: settings::KEYS,
    chores: chores::CHORES,
    expiring: &[&EXPIRE_ACTION, &EXPIRE_SIGNAL],
    at_end: &[wake::at_end],
    init,
    ..Room::EMPTY
};

/// Tells the queue what this room knows of jobs.
fn init() {
    again::know_steps(Steps {
        recorded: step_rows::recorded,
        take_over: step_rows::take_over,
        last_done_at: step_rows::last_done_at,
    });
    missions::init();
    children::init();
    effects::init();
}
