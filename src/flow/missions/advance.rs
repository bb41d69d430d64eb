//! The hook of missions: jobs of steps have ended.
//!
//! A job is the work of a step, or of one item of the list that a step works through.

use super::ended::{EndedSteps, Ending, StepEnd};
use super::lists::ItemEnd;
use super::step_of;
use crate::base::clock::Micros;
use crate::db::Db;
use crate::queue::ends::hooks::Ended;
use agentq_core::mission::status::StepStatus;
use agentq_core::state::JobState;
use pgrx::Uuid;
use std::collections::BTreeMap;

/// Ends the steps and items whose work these jobs were, and all that follows from it.
pub fn jobs_ended(db: &Db, ended: &[Ended], now: Micros) {
    let mut all = EndedSteps::default();
    let mut lists: BTreeMap<[u8; 16], Vec<ItemEnd>> = BTreeMap::new();
    for job in ended {
        let Some((step, item)) = step_of(&job.about) else { continue };
        let status = JobState::parse(&job.state).map_or(StepStatus::Failed, StepStatus::of_job);
        let untold = || (status != StepStatus::Succeeded).then(|| format!("its job is {}", job.state));
        let (result, error, by) = (job.result, job.error.clone().or_else(untold), job.job_id);
        let context = Some(job.context.clone());
        match item {
            None => {
                let by = Some(by);
                all.add_end(StepEnd { step, item, status, result, error, by, context })
            }
            Some(item) => {
                let items = lists.entry(*step.as_bytes()).or_default();
                items.push(ItemEnd { item, status, result, error, by, context })
            }
        }
    }
    for (step, items) in lists {
        all.add(Uuid::from_bytes(step), Ending::Items(items));
    }
    all.run(db, now);
}
