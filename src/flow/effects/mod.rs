//! Effects: what jobs change outside, and how that is compensated.
//!
//! An effect is planned before it is done, begun and ended under the lease of its job, and kept with its outcome.
//! What has succeeded and has a declared compensation can be compensated: in reverse order of declaration, each by a
//! job of its own, the next when the one before has succeeded.
//! Lock order: the lease of the job, the chain of compensations, effects, then new jobs as an enqueue.

pub mod chain;
pub mod clean;
pub mod compensate;
mod drift;
pub mod manifest;
pub mod perform;
pub mod plan;

pub use compensate::{Compensation, compensate};

use crate::base::clock::Micros;
use crate::db::Db;
use crate::events::Event;
use crate::queue::ends::hooks;
use serde_json::Value;

/// The hook of jobs that carry out compensations.
const ON_END: &str = "effects";

pub fn init() {
    hooks::register(ON_END, chain::jobs_ended);
}

/// Writes down what was done, and by whom, to be kept longer than other events.
fn audit(db: &Db, kind: &str, subject: &str, payload: Value, now: Micros) {
    Event::new(kind, subject, payload).purpose("audit").emit(db, now);
}
