//! Steps that begin: each becomes a job or a mission, one for each item of a list, or a wait.

use super::ended::StepEnd;
use super::prepare::{Candidate, Prepared};
use super::rows::mission_item;
use super::run::Run;
use super::start::{self, Start};
use super::{check, counts, hook_of, step_waits};
use crate::base::clock::{Micros, timestamp};
use crate::base::ids::{new_id, new_ids, parse_id};
use crate::db::statements;
use crate::json::Jsonb;
use crate::queue::intake::job_options::JobOptions;
use crate::queue::intake::new_job::{self, NewJob};
use crate::queue::rules::Queue;
use crate::queue::storage::marks;
use crate::table::{Row, Table};
use agentq_core::context::Context;
use agentq_core::input;
use agentq_core::mission::plan;
use agentq_core::mission::status::{CountState, StepStatus};
use agentq_core::mission::template::{MOST_STEPS, Spec};
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
        let id = job.or_else(|| ids.next()).unwrap_or_else(new_id);
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
            Prepared::Missions(template, inputs) => ended.extend(begin_missions(run, step, *template, inputs)),
            Prepared::Wait(wait) => {
                mark(run, step, None, None, None);
                step_waits::register(run.db, step.id, wait, run.now);
            }
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
    let id = new_id();
    mark(run, step, None, Some(id), None);
    match check::read(&run.rules, template) {
        Ok(read) => {
            let terms = Start { id: Some(id), title: Some(step.name.clone()), ..inner(run, step, given) };
            start::submit(run.db, &read, template, &terms, run.now).ended
        }
        Err(refusal) => vec![broken(step, Some(id), refusal.message)],
    }
}

/// Starts a mission for each item of a list.
fn begin_missions(run: &Run<'_>, step: &Candidate, template: Jsonb, inputs: &[Jsonb]) -> Vec<StepEnd> {
    let read = check::read(&run.rules, template).map_err(|refusal| refusal.message).and_then(|read| {
        let (items, steps) = (inputs.len(), inputs.len() * read.steps.len());
        if steps <= MOST_STEPS {
            Ok(read)
        } else {
            Err(format!("for_each: {items} missions have {steps} steps, and at most {MOST_STEPS} begin at once"))
        }
    });
    let read = match read {
        Ok(read) => read,
        Err(message) => {
            mark(run, step, None, None, Some(0));
            return vec![broken(step, None, message)];
        }
    };
    let ids: Vec<Uuid> = new_ids().take(inputs.len()).collect();
    begin_list(run, step, &ids);
    let mut ended = Vec::new();
    for (item, (id, given)) in ids.into_iter().zip(inputs).enumerate() {
        pgrx::check_for_interrupts!();
        let title = Some(format!("{} {item}", step.name));
        let terms = Start { id: Some(id), title, parent_item: Some(item as i32), ..inner(run, step, *given) };
        ended.extend(start::submit(run.db, &read, template, &terms, run.now).ended);
    }
    ended
}

/// How a mission inside this one is started.
fn inner(run: &Run<'_>, step: &Candidate, given: Jsonb) -> Start {
    Start {
        parent_step: Some(step.id),
        depth: run.depth + 1,
        actor: Some(ACTOR.to_owned()),
        timeout_seconds: step.spec.as_ref().and_then(|spec| spec.timeout_seconds),
        input: Some(given),
        command_id: run.context().command_id.as_deref().and_then(parse_id),
        context: run.context().clone(),
        ..Start::default()
    }
}

/// The end of a step whose mission cannot be started. It was checked when it was submitted; a queue may have gone since.
fn broken(step: &Candidate, by: Option<Uuid>, error: String) -> StepEnd {
    let (status, error) = (StepStatus::Failed, Some(error));
    StepEnd { step: step.id, item: None, status, result: None, error, by, context: None }
}

fn write(run: &Run<'_>, tasks: &[Task<'_>]) {
    if tasks.is_empty() {
        return;
    }
    marks::announce();
    let none = Spec::default();
    // That the mission is its run each job says already.
    let context = Context { mission_id: None, ..run.context().clone() };
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
                    retry: spec.retry.clone(),
                    context: context.clone(),
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
