//! flow: what a job has already done, several jobs with an order, what they wait for, and what they change outside.
//!
//! Promise: a crash costs at most the step in flight.

pub mod actions;
pub mod checkpoints;
pub mod effects;
pub mod leftovers;
pub mod missions;
pub mod record;
pub mod signals;
pub mod sleep;
pub mod steps;

use crate::queue::replay::{self, Steps};

/// Tells the queue what this room knows of jobs.
pub fn init() {
    replay::know_steps(Steps { recorded: record::recorded, take_over: record::take_over });
    missions::init();
    effects::init();
}
