//! Steps that begin: each becomes a job, a job for each item of a list, or a mission.

use super::ended::StepEnd;
use super::prepare::{Candidate, Prepared};
use super::rows::mission_item;
use super::run::Run;
use super::start::{self, Start};
use super::{check, counts, hook_of};
use crate::base::clock::{Micros, timestamp};
use crate::base::ids::new_ids;
use crate::db::statements;
use crate::json::Jsonb;
use crate::queue::intake::job_options::JobOptions;
use crate::queue::intake::new_job::{self, NewJob};
use crate::queue::rules::Queue;
use crate::queue::storage::marks;
use crate::table::{Row, Table};
use agentq_core::input;
use agentq_core::mission::plan;
use agentq_core::mission::status::{CountState, StepStatus};
use agentq_core::mission::template::Spec;
use pgrx::Uuid;
use std::rc::Rc;

statements!("begin.sql": STEP_BEGIN);

/// Who has enqueued the jobs of steps, as their rows say it.
const ACTOR: &str = "mission";

/// A job to be written, together with the texts that its row refers to.
struct Task<'a> {
    id: Uuid,
    step: &'a Candidate,
    item: Option<usize>,
    payload: Jsonb,
    source: String,
}

/// Begins steps that the caller has counted. Returns the ends of those that end at once.
pub fn all(run: &Run<'_>, starts: Vec<(Candidate, Prepared)>) -> Vec<StepEnd> {
    let mut ended = Vec::new();
    let mut ids = new_ids();
    let mut tasks: Vec<Task<'_>> = Vec::with_capacity(starts.len());
    let mut task = |step, job: Option<Uuid>, item, payload, source: &str| {
        let id = job.or_else(|| ids.next()).unwrap_or_else(crate::base::ids::new_id);
        tasks.push(Task { id, step, item, payload, source: source.to_owned() });
        id
    };
    for (step, prepared) in &starts {
        let source = format!("mission_step:{}", step.id);
        match prepared {
            Prepared::Job(payload) => {
                let job = task(step, step.job, None, *payload, &source);
                if step.job.is_none() {
                    mark(run, step, Some(job), None, None);
                }
            }
            Prepared::Items(payloads) => {
                let each = payloads.iter().enumerate();
                let each: Vec<Uuid> =
                    each.map(|(item, payload)| task(step, None, Some(item), *payload, &source)).collect();
                begin_list(run, step, &each);
            }
            Prepared::Mission(template, input) => ended.extend(begin_mission(run, step, *template, *input)),
        }
    }
    write(run, &tasks);
    ended
}

/// Writes that a step has begun, and what its work is.
fn mark(run: &Run<'_>, step: &Candidate, job: Option<Uuid>, mission: Option<Uuid>, items: Option<i32>) {
    let at = timestamp(run.now);
    let args = [step.id.into(), job.into(), mission.into(), items.into(), step.shard.into(), at.into()];
    run.db.run(&STEP_BEGIN, &args);
}

fn begin_list(run: &Run<'_>, step: &Candidate, jobs: &[Uuid]) {
    let rows = jobs.iter().enumerate().map(|(item, job)| {
        Row::of(&mission_item::TABLE)
            .set(mission_item::step_id, step.id)
            .set(mission_item::item, item as i32)
            .set(mission_item::job_id, *job)
            .set(mission_item::status, StepStatus::Queued.name())
    });
    let rows: Vec<Row> = rows.collect();
    Table::open(&mission_item::TABLE).insert_all(&rows);
    let (items, shards) = (jobs.len() as i32, plan::shards(jobs.len()));
    // Item n is counted in row n modulo their number.
    counts::create(step.id, shards, |shard| items / shards + i32::from(shard < items % shards), CountState::Running);
    mark(run, step, None, None, Some(items));
}

/// Starts the mission that is a step's work. It may end at once, if none of its steps has to be done.
fn begin_mission(run: &Run<'_>, step: &Candidate, template: Jsonb, given: Jsonb) -> Vec<StepEnd> {
    let spec = step.spec.clone().unwrap_or_default();
    let id = crate::base::ids::new_id();
    mark(run, step, None, Some(id), None);
    let terms = Start {
        id: Some(id),
        title: Some(step.name.clone()),
        parent_step: Some(step.id),
        depth: run.depth + 1,
        actor: Some(ACTOR.to_owned()),
        timeout_seconds: spec.timeout_seconds,
        input: Some(given),
        ..Start::default()
    };
    match check::read(&run.rules, template) {
        Ok(read) => start::submit(run.db, &read, template, &terms, run.now).ended,
        // It was checked when it was submitted; a queue may have gone since.
        Err(refusal) => {
            let (status, error) = (StepStatus::Failed, Some(refusal.message));
            vec![StepEnd { step: step.id, status, result: None, error, by: Some(id) }]
        }
    }
}

fn write(run: &Run<'_>, tasks: &[Task<'_>]) {
    if tasks.is_empty() {
        return;
    }
    marks::announce();
    let none = Spec::default();
    let jobs: Vec<NewJob<'_>> = tasks
        .iter()
        .map(|task| {
            let spec = task.step.spec.as_ref().unwrap_or(&none);
            let queue = queue(run, spec);
            NewJob {
                id: task.id,
                kind: &task.step.kind,
                key: None,
                actor: Some(ACTOR),
                source_ref: Some(&task.source),
                target_ref: Some(&task.step.name),
                payload_ref: None,
                priority: spec.priority.or(queue.priority).unwrap_or(input::DEFAULT_PRIORITY),
                max_attempts: spec.max_attempts.unwrap_or_else(|| run.rules.max_attempts_of(&queue, &task.step.kind)),
                asked_at: None,
                run_id: Some(run.mission_id),
                payload: task.payload,
                options: JobOptions {
                    finish_by: spec.timeout_seconds.map(|seconds| run.now + (seconds * 1e6) as Micros),
                    stall_seconds: spec.stall_seconds,
                    on_end: Some(hook_of(task.step.id, task.item)),
                    ..JobOptions::default()
                },
                queue,
            }
        })
        .collect();
    new_job::write(&jobs, run.now, ACTOR);
}

/// The queue of a step; the default one, if its own is not there any more.
fn queue(run: &Run<'_>, spec: &Spec) -> Rc<Queue> {
    let named = spec.queue.as_deref().and_then(|name| run.rules.queues.get(name));
    let queue = named.or_else(|| run.rules.queues.get(input::DEFAULT_QUEUE));
    Rc::clone(queue.expect("there is always the default queue"))
}
