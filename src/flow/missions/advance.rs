//! The hook of missions: jobs of steps have ended.
//!
//! A job is the work of a step, or of one item of the list that a step works through. The end of the last item ends the
//! step. Lists are counted as missions are (`counts`): their rows by number, then the row of the step.

use super::ended::{EndedSteps, StepEnd};
use super::{counts, step_of};
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::json::Jsonb;
use crate::queue::ends::hooks::Ended;
use agentq_core::mission::plan;
use agentq_core::mission::status::StepStatus;
use agentq_core::state::JobState;
use pgrx::Uuid;
use std::collections::BTreeMap;

statements!("advance.sql": ITEM_END, ITEMS_LOCK, ITEMS_RESULT);

/// Ends the steps and items whose work these jobs were, and all that follows from it.
pub fn jobs_ended(db: &Db, ended: &[Ended], now: Micros) {
    let mut steps: Vec<(Uuid, Option<i32>, &Ended)> =
        ended.iter().filter_map(|job| step_of(&job.about).map(|(step, item)| (step, item, job))).collect();
    steps.sort_by_key(|(step, item, _)| (*step.as_bytes(), *item));
    let mut all = EndedSteps::default();
    // What each list's rows of counts lose, by the step.
    let mut lists: BTreeMap<[u8; 16], BTreeMap<i32, i32>> = BTreeMap::new();
    for (step, item, job) in steps {
        let status = JobState::parse(&job.state).map_or(StepStatus::Failed, StepStatus::of_job);
        let untold = || (status != StepStatus::Succeeded).then(|| format!("its job is {}", job.state));
        let error = job.error.clone().or_else(untold);
        match item {
            None => all.end(db, StepEnd { step, status, result: job.result, error, by: Some(job.job_id) }, now),
            Some(item) => {
                if let Some(shard) = end_item(db, step, item, status, job, error.as_deref(), now) {
                    *lists.entry(*step.as_bytes()).or_default().entry(shard).or_default() -= 1;
                }
            }
        }
    }
    // List by list, each one's rows by number and then the list: two that end items of the same lists never wait for each
    // other crosswise.
    for (step, shards) in lists {
        let step = Uuid::from_bytes(step);
        if counts::add_all(db, step, &shards) {
            end_list(db, step).into_iter().for_each(|end| all.end(db, end, now));
        }
    }
    all.run(db, now);
}

/// Ends an item of a list; answers in which row it is counted. None: it has ended, or has another job by now.
fn end_item(
    db: &Db,
    step: Uuid,
    item: i32,
    status: StepStatus,
    job: &Ended,
    error: Option<&str>,
    now: Micros,
) -> Option<i32> {
    let args = [
        step.into(),
        item.into(),
        status.name().into(),
        job.result.into(),
        error.into(),
        timestamp(now).into(),
        job.job_id.into(),
    ];
    let row = db.run(&ITEM_END, &args);
    (!row.is_empty()).then(|| item % plan::shards(row.only::<i32>() as usize))
}

/// The end of a step that works through a list, if all its items have ended.
pub fn end_list(db: &Db, step: Uuid) -> Option<StepEnd> {
    // Of those who end the last items, the last to come here sees that there are none.
    if db.run(&ITEMS_LOCK, &[step.into()]).is_empty() || !counts::are_all_nothing(step) {
        return None;
    }
    counts::remove(db, step);
    // All results together may be more than the server can hold. Whoever ends the last item must not suffer from it.
    let read = db::attempt(|| {
        let row = db.run(&ITEMS_RESULT, &[step.into()]);
        let numbers = (row.must::<i64>("succeeded"), row.must::<i64>("items"), row.get::<i64>("needed"));
        (row.get::<Jsonb>("result"), numbers, row.get::<String>("first_error"), row.must::<bool>("was_cancelled"))
    });
    let (result, (well, all, needed), first, cancelled) = match read {
        Ok(read) => read,
        Err(failure) => {
            let error = Some(format!("its results cannot be put together: {}", failure.message));
            return Some(StepEnd { step, status: StepStatus::Failed, result: None, error, by: None });
        }
    };
    let needed = needed.unwrap_or(all);
    let error = (well < needed)
        .then(|| format!("{well} of {all} items succeeded, and {needed} were needed: {}", first.unwrap_or_default()));
    let status = StepStatus::of_list(error.is_none(), cancelled);
    Some(StepEnd { step, status, result, error, by: None })
}
