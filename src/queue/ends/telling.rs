//! Events about jobs. Each has what its job belongs to: trace, correlation, mission, command and run.

use super::hooks;
use crate::base::clock::Micros;
use crate::db::Db;
use crate::events::Event;
use crate::queue::rows::job;
use crate::table::{Moment, Scan, Table};
use agentq_core::context::Context;
use agentq_core::jsonb::Container;
use pgrx::Uuid;
use serde_json::Value;

/// What a job belongs to.
pub fn context_of(job_id: Uuid) -> Context {
    let (jobs, moment) = (Table::open(&job::TABLE), Moment::latest());
    let mut body = Scan::by_id(&jobs, &moment, c"job_pkey", job_id);
    if !body.next() {
        return Context::default();
    }
    let context = kept(&body);
    // The job of a step says by its hook that its run is a mission.
    let hook = body.maybe_bytes(job::on_end).map(String::from_utf8_lossy);
    let mission = hook.filter(|hook| hooks::run_is_mission(hook)).and_then(|_| body.maybe_id(job::run_id));
    Context { mission_id: context.mission_id.or(mission.map(|id| id.to_string())), ..context }
}

/// What the row of a job has of it.
pub fn kept(body: &Scan<'_>) -> Context {
    let kept = body.maybe_bytes(job::context);
    kept.map(|kept| Context::from_jsonb(Container::new(kept).item())).unwrap_or_default()
}

/// Writes an event about a job.
pub fn of_job(db: &Db, kind: &str, job_id: Uuid, payload: Value, now: Micros) {
    let id = job_id.to_string();
    Event::new(kind, &id, payload).target("job", &id).context(context_of(job_id)).emit(db, now);
}
