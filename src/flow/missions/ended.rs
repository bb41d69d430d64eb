//! Steps that have ended, mission by mission.
//!
//! `EndedSteps` writes the end of each step at once, and then goes through their missions. The end of a mission may end a
//! step of the mission around it, so that one call may go up through several. Missions are locked in the order that the
//! whole room keeps: the deepest first, then by id.

use super::prepare::Candidate;
use super::run::Run;
use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use crate::events::Event;
use crate::flow::settings::STEP_EVENTS;
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use agentq_core::mission::status::StepStatus;
use pgrx::Uuid;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

statements!("ended.sql": STEP_END);

/// The event of a step carries results of at most this many bytes.
const SMALL_RESULT: usize = 2_000;

/// How a step is to end.
pub struct StepEnd {
    pub step: Uuid,
    pub status: StepStatus,
    pub result: Option<Jsonb>,
    pub error: Option<String>,
    /// The job, or the mission, that was its work; None: a list.
    pub by: Option<Uuid>,
}

/// A step whose row says that it has ended.
pub struct EndedStep {
    pub id: Uuid,
    pub status: StepStatus,
    /// How many steps wait for it.
    pub children: i32,
    /// The row of `mission_count` in which it was counted.
    pub shard: i32,
    pub fails_mission: bool,
    pub name: String,
    pub error: Option<String>,
    kind: String,
    result: Option<Jsonb>,
    /// The job, or the mission, that was its work.
    by: Option<Uuid>,
}

impl EndedStep {
    /// A step that ended without ever having become a job.
    pub fn of(step: Candidate, status: StepStatus, result: Option<Jsonb>, error: Option<String>) -> EndedStep {
        EndedStep {
            id: step.id,
            status,
            children: step.children,
            shard: step.shard,
            fails_mission: step.fails_mission,
            name: step.name,
            kind: step.kind,
            result,
            error,
            by: None,
        }
    }

    /// Writes the event about its end, if there is one for this status.
    pub fn tell(&self, db: &Db, rules: &Rulebook, mission_id: Uuid, now: Micros) {
        let kind = match self.status {
            StepStatus::Succeeded if rules.flag(STEP_EVENTS) => "step.succeeded",
            StepStatus::Failed => "step.failed",
            _ => return,
        };
        let subject = mission_id.to_string();
        let mut what = json!({"mission_id": subject, "step": self.name, "kind": self.kind,
            "step_id": self.id.to_string(), "status": self.status.name()});
        if let Some(by) = self.by {
            what["job_id"] = json!(by.to_string());
        }
        if let Some(error) = &self.error {
            what["error"] = json!(agentq_core::error::shown(error));
        }
        if let Some(result) = self.result.filter(|result| result.size() <= SMALL_RESULT) {
            what["result"] = result.parse("a result").unwrap_or(Value::Null);
        }
        Event::new(kind, &subject, what).mission_id(Some(mission_id)).emit(db, now);
    }
}

/// Steps that have ended in this transaction, by mission, in the order in which the missions are locked.
#[derive(Default)]
pub struct EndedSteps {
    missions: BTreeMap<(Reverse<i32>, [u8; 16]), Vec<EndedStep>>,
    /// Missions that this transaction has stopped, so that nothing in them begins.
    stopped: BTreeSet<[u8; 16]>,
}

impl EndedSteps {
    /// Ends these steps, and all that follows from it.
    pub fn settle(db: &Db, ends: impl IntoIterator<Item = StepEnd>, now: Micros) {
        let mut ended = EndedSteps::default();
        ends.into_iter().for_each(|end| ended.end(db, end, now));
        ended.run(db, now);
    }

    /// Ends a step. One that has ended, or has other work by now, is left alone.
    pub fn end(&mut self, db: &Db, end: StepEnd, now: Micros) {
        let args = [
            end.step.into(),
            end.status.name().into(),
            end.result.into(),
            end.error.as_deref().into(),
            timestamp(now).into(),
            end.by.into(),
        ];
        let row = db.run(&STEP_END, &args);
        if row.is_empty() {
            return;
        }
        let mission: Uuid = row.must("mission_id");
        let ended = EndedStep {
            id: end.step,
            status: end.status,
            children: row.must("children"),
            shard: row.must("shard"),
            fails_mission: row.must("fails_mission"),
            name: row.must("name"),
            kind: row.must("kind"),
            result: end.result,
            error: end.error,
            by: end.by,
        };
        self.missions.entry((Reverse(row.must("depth")), *mission.as_bytes())).or_default().push(ended);
    }

    /// This transaction has stopped the mission.
    pub fn mark_stopped(&mut self, mission_id: Uuid) {
        self.stopped.insert(*mission_id.as_bytes());
    }

    /// Goes through the missions, the deepest first.
    pub fn run(mut self, db: &Db, now: Micros) {
        while let Some(((Reverse(depth), mission), ended)) = self.missions.pop_first() {
            pgrx::check_for_interrupts!();
            let is_stopped = self.stopped.contains(&mission);
            for up in Run::new(db, Uuid::from_bytes(mission), depth, now).steps_ended(ended, is_stopped) {
                self.end(db, up, now);
            }
        }
    }
}
