//! Writing the rows of a new mission.

use super::counts;
use super::prepare::Candidate;
use super::rows::{mission_edge, mission_step};
use crate::base::clock::{Micros, timestamp};
use crate::base::ids::new_ids;
use crate::error::OrRaise;
use crate::json::Jsonb;
use crate::table::{Row, Table};
use agentq_core::Refusal;
use agentq_core::mission::plan::{self, Decision};
use agentq_core::mission::status::{CountState, StepStatus};
use agentq_core::mission::template::{Spec, Template};
use pgrx::Uuid;
use serde_json::Value;

/// A step whose end is taken over from another mission.
#[derive(Clone)]
pub struct Taken {
    pub step: Uuid,
    pub status: StepStatus,
    pub result: Option<Value>,
    pub error: Option<String>,
}

/// Where the steps go.
pub struct Target<'a> {
    pub mission_id: Uuid,
    pub depth: i32,
    pub template: &'a Template<'a>,
    /// By the number of the step; empty: none.
    pub taken: &'a [Option<Taken>],
    pub paused: bool,
}

fn kept(spec: &Spec) -> Vec<u8> {
    spec.to_jsonb().map_err(Refusal::from).or_raise()
}

/// Writes steps, edges and counts; returns the steps that need not wait.
pub fn steps(into: &Target<'_>, now: Micros) -> Vec<(Candidate, Decision)> {
    let template = into.template;
    let order = template.order();
    // In the order of their levels, which is the order in which they are locked.
    let mut ids = vec![Uuid::from_bytes([0; 16]); template.steps.len()];
    order.iter().zip(new_ids()).for_each(|(number, id)| ids[*number] = id);
    let mut children = vec![0; template.steps.len()];
    let mut edges = Vec::new();
    for (number, step) in template.steps.iter().enumerate() {
        for parent in &step.parents {
            children[parent.step] += 1;
            edges.push(
                Row::of(&mission_edge::TABLE)
                    .set(mission_edge::parent_id, ids[parent.step])
                    .set(mission_edge::child_id, ids[number])
                    .set(mission_edge::child_level, step.level)
                    .set(mission_edge::required, parent.required.name()),
            );
        }
    }
    let taken = |number: usize| into.taken.get(number).and_then(Option::as_ref);
    let shards = plan::shards(template.steps.len());
    let mut jobs = new_ids();
    let mut decided: Vec<(Candidate, Decision)> = Vec::new();
    let mut rows = Vec::with_capacity(template.steps.len());
    for number in order {
        let step = &template.steps[number];
        let over = step.parents.iter().filter_map(|parent| taken(parent.step).map(|taken| (parent, taken)));
        let (mut met, mut pending) = (0, step.parents.len() as i32);
        for (parent, taken) in over {
            pending -= 1;
            met += i32::from(parent.required.is_met_by(taken.status));
        }
        let params = Jsonb::from_item(step.params);
        let mut row = Row::of(&mission_step::TABLE)
            .set(mission_step::step_id, ids[number])
            .set(mission_step::mission_id, into.mission_id)
            .set(mission_step::position, number as i32)
            .set(mission_step::level, step.level)
            .set(mission_step::depth, into.depth)
            .set(mission_step::need, step.need)
            .set(mission_step::met, met)
            .set(mission_step::pending, pending)
            .set(mission_step::children, children[number])
            .set(mission_step::fails_mission, step.fails_mission)
            .set(mission_step::created_at, timestamp(now))
            .set(mission_step::name, step.name.as_str())
            .set(mission_step::kind, step.kind.as_str())
            .set(mission_step::executor, step.executor.as_deref())
            .set(mission_step::params, params);
        if let Some(spec) = &step.spec {
            row = row.set(mission_step::spec, Jsonb::from_container(&kept(spec)));
        }
        row = match taken(number) {
            Some(taken) => row
                .set(mission_step::shard, 0)
                .set(mission_step::status, taken.status.name())
                .set(mission_step::ended_at, timestamp(now))
                .set(mission_step::taken_from, taken.step)
                .set(mission_step::last_error, taken.error.as_deref())
                .set(mission_step::result, taken.result.clone().map(Jsonb::from_value)),
            None => {
                let decision = plan::decide(step.need, met, pending);
                let shard = decided.len() as i32 % shards;
                let is_plain = step.spec.is_none() && step.executor.is_none() && !into.paused;
                let job = if is_plain && decision == Decision::Begin { jobs.next() } else { None };
                if decision != Decision::Wait {
                    decided.push((
                        Candidate {
                            id: ids[number],
                            children: children[number],
                            fails_mission: step.fails_mission,
                            name: step.name.clone(),
                            kind: step.kind.clone(),
                            executor: step.executor.clone(),
                            params,
                            spec: step.spec.as_deref().cloned(),
                            shard,
                            job,
                        },
                        decision,
                    ));
                }
                let row = row.set(mission_step::shard, shard);
                match job {
                    None => row.set(mission_step::status, StepStatus::Waiting.name()),
                    Some(job) => row
                        .set(mission_step::status, StepStatus::Queued.name())
                        .set(mission_step::job_id, job)
                        .set(mission_step::queued_at, timestamp(now)),
                }
            }
        };
        rows.push(row);
    }
    Table::open(&mission_step::TABLE).insert_all(&rows);
    if !edges.is_empty() {
        Table::open(&mission_edge::TABLE).insert_all(&edges);
    }
    counts::create(into.mission_id, shards, |_| 0, CountState::first(into.paused));
    decided
}
