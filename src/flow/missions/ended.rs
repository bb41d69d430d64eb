//! Steps that have ended, mission by mission.
//!
//! `EndedSteps` collects whose work is over, and then goes through their missions. The end of a mission may end a step of
//! the mission around it, so that one call may go up through several. Nothing is locked before its turn: missions come the
//! deepest first, then by id, and in each its steps by level and id, those that end as well as those that wait for them.

use super::lists::{self, ItemEnd};
use super::prepare::Candidate;
use super::rows::mission_step;
use super::run::Run;
use super::{gate, late_ends};
use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use crate::events::Event;
use crate::flow::settings::STEP_EVENTS;
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use crate::table::{Moment, Scan, Table};
use agentq_core::context::Context;
use agentq_core::mission::plan::Work;
use agentq_core::mission::status::StepStatus;
use pgrx::Uuid;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

statements!("ended.sql": STEP_END);

/// The event of a step carries results of at most this many bytes.
const SMALL_RESULT: usize = 2_000;

/// How a step is to end.
#[derive(Clone)]
pub struct StepEnd {
    pub step: Uuid,
    /// Only this item of the list that it works through has ended.
    pub item: Option<i32>,
    pub status: StepStatus,
    pub result: Option<Jsonb>,
    pub error: Option<String>,
    /// The job, or the mission, that was its work; None: a list.
    pub by: Option<Uuid>,
    /// What that job belonged to, and so the whole mission; None: the mission has to be asked.
    pub context: Option<Context>,
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
    pub context: Option<Context>,
}

/// Work of a step that is over.
pub enum Ending {
    Step(Box<StepEnd>),
    /// Items of the list that it works through.
    Items(Vec<ItemEnd>),
}

impl Ending {
    fn of(end: StepEnd) -> Ending {
        let (Some(item), Some(by)) = (end.item, end.by) else { return Ending::Step(Box::new(end)) };
        let StepEnd { status, result, error, context, .. } = end;
        Ending::Items(vec![ItemEnd { item, status, result, error, by, context }])
    }

    /// What two ends of one step come to: their items, or the end of the whole.
    fn and(self, other: Ending) -> Ending {
        match (self, other) {
            (Ending::Items(mut items), Ending::Items(more)) => {
                items.extend(more);
                Ending::Items(items)
            }
            (_, last) => last,
        }
    }

    /// Writes the end of the step. None: it goes on, has ended before, or has other work by now.
    pub fn write(self, db: &Db, step: Uuid, now: Micros) -> Option<EndedStep> {
        let end = match self {
            Ending::Step(end) => *end,
            Ending::Items(items) => lists::end_items(db, step, &items, now)?,
        };
        let args = [
            step.into(),
            end.status.name().into(),
            end.result.into(),
            end.error.as_deref().into(),
            timestamp(now).into(),
            end.by.into(),
        ];
        let row = db.run(&STEP_END, &args);
        (!row.is_empty()).then(|| EndedStep {
            id: step,
            status: end.status,
            children: row.must("children"),
            shard: row.must("shard"),
            fails_mission: row.must("fails_mission"),
            name: row.must("name"),
            kind: row.must("kind"),
            result: end.result,
            error: end.error,
            by: end.by,
            context: end.context,
        })
    }
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
            context: None,
        }
    }

    /// Writes the event about its end, if there is one for this status.
    pub fn tell(&self, db: &Db, rules: &Rulebook, mission_id: Uuid, context: impl FnOnce() -> Context, now: Micros) {
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
        Event::new(kind, &subject, what).target("mission_step", &self.id.to_string()).context(context()).emit(db, now);
    }
}

/// What is to become of the steps of one mission.
pub type StepWork = Work<[u8; 16], Ending>;

/// Work of steps that is over in this transaction, by mission, in the order in which the missions are locked.
#[derive(Default)]
pub struct EndedSteps {
    missions: BTreeMap<(Reverse<i32>, [u8; 16]), StepWork>,
    /// Missions that this transaction has stopped, so that nothing in them begins.
    stopped: BTreeSet<[u8; 16]>,
}

impl EndedSteps {
    /// Ends these steps, and all that follows from it.
    pub fn settle(db: &Db, ends: impl IntoIterator<Item = StepEnd>, now: Micros) {
        let mut ended = EndedSteps::default();
        ends.into_iter().for_each(|end| ended.add_end(end));
        ended.run(db, now);
    }

    /// Notes the end of a step, or of one of its items.
    pub fn add_end(&mut self, end: StepEnd) {
        self.add(end.step, Ending::of(end));
    }

    /// Notes that work of a step is over. `run` ends the step, when its turn comes.
    pub fn add(&mut self, step: Uuid, ending: Ending) {
        // These three never change, so that it takes no lock to read them.
        let (steps, moment) = (Table::open(&mission_step::TABLE), Moment::now());
        let mut row = Scan::by_id(&steps, &moment, c"mission_step_pkey", step);
        if row.next() {
            let mission = row.id(mission_step::mission_id);
            let work = self.missions.entry((Reverse(row.int(mission_step::depth)), *mission.as_bytes())).or_default();
            work.end(row.int(mission_step::level), *step.as_bytes(), ending, Ending::and);
        }
    }

    /// This transaction has stopped the mission.
    pub fn mark_stopped(&mut self, mission_id: Uuid) {
        self.stopped.insert(*mission_id.as_bytes());
    }

    /// Goes through the missions, the deepest first. One that somebody steers is left to the engine.
    pub fn run(mut self, db: &Db, now: Micros) {
        while let Some(((Reverse(depth), mission), ends)) = self.missions.pop_first() {
            pgrx::check_for_interrupts!();
            if !gate::passes(Uuid::from_bytes(mission)) {
                late_ends::leave(db, Uuid::from_bytes(mission), ends);
                continue;
            }
            let is_stopped = self.stopped.contains(&mission);
            for up in Run::new(db, Uuid::from_bytes(mission), depth, now).steps_ended(ends, is_stopped) {
                self.add_end(up);
            }
        }
    }
}
