//! Effects: what jobs change outside, and how that is compensated.
//!
//! An effect is planned before it is done, begun and ended under the lease of its job, and kept with its outcome.
//! What has succeeded and has a declared compensation can be compensated: in reverse order of declaration, each by a
//! job of its own, the next when the one before has succeeded.
//! Lock order: the lease of the job, the chain of compensations, effects, then new jobs as an enqueue.

mod capabilities;
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
use crate::flow::missions;
use crate::queue::ends::{hooks, telling};
use agentq_core::context::Context;
use pgrx::Uuid;
use serde_json::Value;

/// The hook of jobs that carry out compensations.
const ON_END: &str = "effects";

pub fn init() {
    hooks::register_for_missions(ON_END, chain::jobs_ended);
}

/// What an event is about.
#[derive(Clone, Copy)]
struct About<'a> {
    /// effect, chain, job or manifest.
    kind: &'a str,
    subject: &'a str,
    /// The mission and the job to which it belongs.
    mission: Option<Uuid>,
    job: Option<Uuid>,
}

/// Writes down what was done, and by whom, to be kept longer than other events.
fn audit(db: &Db, kind: &str, about: About<'_>, payload: Value, now: Micros) {
    let context = match (about.mission, about.job) {
        (Some(mission), _) => missions::context_of(db, mission),
        (None, Some(job)) => telling::context_of(job),
        (None, None) => Context::default(),
    };
    let event = Event::new(kind, about.subject, payload).audit().target(about.kind, about.subject);
    event.context(context).emit(db, now);
}
