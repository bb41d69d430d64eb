//! One mission in one transaction: what follows from steps that have ended, or may begin.
//!
//! `Run` goes through the steps behind them level by level. It ends those that can no longer begin, prepares the others,
//! counts, and then begins them, or ends the mission. Lock order: steps by level and id, the rows of `mission_count` by
//! number, the row of the mission.

use super::ended::{EndedStep, Ending, StepEnd, StepWork};
use super::prepare::{self, Candidate, Prepared, Work as Made};
use super::rows::mission_edge;
use super::{begin, context_of, counts, finalize, stop};
use crate::base::clock::{Micros, timestamp};
use crate::base::ids::new_ids;
use crate::db::{Db, statements};
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use crate::table::{Moment, Scan, Table};
use agentq_core::context::Context;
use agentq_core::mission::plan::{self, Change, Decision};
use agentq_core::mission::status::{CountState, Required, StepStatus};
use pgrx::Uuid;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

statements!("run.sql": STEP_BUMP, STEP_DONE, STEPS_HOLD);

/// A mission, with what this transaction has found out about it so far.
pub struct Run<'a> {
    pub db: &'a Db,
    pub mission_id: Uuid,
    pub depth: i32,
    pub now: Micros,
    pub rules: Rc<Rulebook>,
    /// Steps that end, and steps whose counters have to change because a step before them has ended.
    work: StepWork,
    /// By how much each row of the counts changes.
    deltas: BTreeMap<i32, i32>,
    /// Steps that begin if the mission goes on.
    starts: Vec<(Candidate, Prepared)>,
    /// The step whose failure ends the mission, and its error.
    failing: Option<(String, String)>,
    /// Whether this transaction has stopped the mission. It holds the counts then, and must not lock a step that waits.
    is_stopped: bool,
    /// The row of the counts in which the steps that begin here are counted first: that of the first step that ended.
    shard: Option<i32>,
    /// How many such rows there are, once somebody has asked.
    shards: Option<i32>,
    /// What the mission belongs to, once somebody has asked.
    context: OnceCell<Context>,
}

impl<'a> Run<'a> {
    pub fn new(db: &'a Db, mission_id: Uuid, depth: i32, now: Micros) -> Run<'a> {
        let rules = Rulebook::current();
        let (work, deltas, starts, failing) = Default::default();
        Run {
            db,
            mission_id,
            depth,
            now,
            rules,
            work,
            deltas,
            starts,
            failing,
            is_stopped: false,
            shard: None,
            shards: None,
            context: OnceCell::new(),
        }
    }

    /// What the mission belongs to. Jobs of one mission all belong to the same, so that one which has ended says it.
    pub fn context(&self) -> &Context {
        self.context.get_or_init(|| context_of(self.db, self.mission_id))
    }

    /// The mission begins, and belongs to this.
    pub fn with_context(self, context: Context) -> Run<'a> {
        self.context.set(context).ok();
        self
    }

    /// Work of steps of the mission is over. `is_stopped`: this transaction has stopped the mission. Returns the steps of
    /// other missions that end with it.
    pub fn steps_ended(mut self, ends: StepWork, is_stopped: bool) -> Vec<StepEnd> {
        self.is_stopped = is_stopped;
        self.work = ends;
        self.go_through();
        // None of them has ended: the others have ended before, or have other work by now.
        if self.shard.is_none() { Vec::new() } else { self.settle() }
    }

    /// The mission begins, or its pause is over: these steps have been decided on. Returns the steps of other missions that
    /// end with it.
    pub fn take_up(mut self, decided: Vec<(Candidate, Decision)>) -> Vec<StepEnd> {
        self.decided(decided);
        self.go_through();
        self.settle()
    }

    /// Goes through the steps level by level.
    fn go_through(&mut self) {
        while let Some(level) = self.work.next_level() {
            pgrx::check_for_interrupts!();
            let decided = self.change(level);
            self.decided(decided);
        }
    }

    /// Tells of a step that has ended, and notes who waits for it.
    fn step_ended(&mut self, ended: EndedStep) {
        if let Some(context) = &ended.context {
            let mission_id = Some(self.mission_id.to_string());
            self.context.set(Context { mission_id, ..context.clone() }).ok();
        }
        ended.tell(self.db, &self.rules, self.mission_id, || self.context().clone(), self.now);
        if ended.status.is_failure() && ended.fails_mission && self.failing.is_none() {
            self.failing = Some((ended.name, ended.error.unwrap_or_default()));
        }
        if ended.children == 0 || self.is_stopped {
            return;
        }
        let (edges, moment) = (Table::open(&mission_edge::TABLE), Moment::now());
        let mut edge = Scan::by_id(&edges, &moment, c"mission_edge_pkey", ended.id);
        while edge.next() {
            let required = str::from_utf8(edge.bytes(mission_edge::required)).ok().and_then(Required::parse);
            let is_met = required.expect("the schema keeps other words out").is_met_by(ended.status);
            let child = edge.id(mission_edge::child_id);
            self.work.add(edge.int(mission_edge::child_level), *child.as_bytes(), is_met);
        }
    }

    /// Ends the steps of one level whose work is over, counts for the others what has ended before them, and decides on
    /// each of these. Once a failure ends the mission, nothing else in it begins.
    fn change(&mut self, level: Vec<([u8; 16], Change<Ending>)>) -> Vec<(Candidate, Decision)> {
        let mut decided = Vec::new();
        // One by one, by id: a statement for all of them joins, and its plan may be one for a small table.
        let is_one = level.len() == 1 && self.starts.is_empty();
        for ((id, change), job) in level.into_iter().zip(new_ids()) {
            let step = Uuid::from_bytes(id);
            if let Some(end) = change.end {
                if let Some(ended) = end.write(self.db, step, self.now) {
                    self.shard.get_or_insert(ended.shard);
                    *self.deltas.entry(ended.shard).or_default() -= 1;
                    self.step_ended(ended);
                }
            } else if self.failing.is_none() {
                let place = self.starts.len() + decided.len();
                decided.extend(self.bump(step, change, job, if is_one { None } else { Some(place as i32) }));
            }
        }
        decided
    }

    /// Counts for a step what has ended before it. Some: it no longer waits. `place`: which of several it would be to begin.
    fn bump(
        &mut self,
        step: Uuid,
        change: Change<Ending>,
        job: Uuid,
        place: Option<i32>,
    ) -> Option<(Candidate, Decision)> {
        let first = self.shard.unwrap_or(0);
        let counted_in = place.map_or(first, |place| (first + place) % self.shards().max(first + 1));
        // Most begin: they are written as begun at once, with the job that they get.
        let args = [
            step.into(),
            change.ended.into(),
            change.met.into(),
            job.into(),
            timestamp(self.now).into(),
            counted_in.into(),
        ];
        let row = self.db.run(&STEP_BUMP, &args);
        if row.is_empty() {
            return None;
        }
        let decision = plan::decide(row.must("need"), row.must("met"), row.must("pending"));
        (decision != Decision::Wait).then(|| (Candidate::read(&row), decision))
    }

    /// Prepares what is to begin, and ends what is not.
    fn decided(&mut self, decided: Vec<(Candidate, Decision)>) {
        let (begin, skip): (Vec<_>, Vec<_>) =
            decided.into_iter().partition(|(_, decision)| *decision == Decision::Begin);
        let unreachable = "a step before it did not end as it asks";
        let mut skipped: Vec<(Candidate, &str)> = skip.into_iter().map(|(step, _)| (step, unreachable)).collect();
        let begin = begin.into_iter().map(|(step, _)| step).collect();
        for (step, made) in prepare::all(self.db, &self.rules, self.mission_id, begin) {
            match made {
                Made::Begin(prepared) => self.starts.push((step, prepared)),
                Made::Skip => skipped.push((step, "its condition is not met")),
                Made::Done(result) => self.done(step, StepStatus::Succeeded, Some(result), None),
                Made::Broken(error) => self.done(step, StepStatus::Failed, None, Some(error)),
            }
        }
        for (step, why) in skipped {
            self.done(step, StepStatus::Skipped, None, Some(why.to_owned()));
        }
    }

    /// Ends a step that never became a job.
    fn done(&mut self, step: Candidate, status: StepStatus, result: Option<Jsonb>, error: Option<String>) {
        let args =
            [step.id.into(), status.name().into(), result.into(), error.as_deref().into(), timestamp(self.now).into()];
        self.db.run(&STEP_DONE, &args);
        self.step_ended(EndedStep::of(step, status, result, error));
    }

    /// Counts, begins what may begin, and ends the mission if nothing is left.
    fn settle(mut self) -> Vec<StepEnd> {
        if self.failing.is_some() {
            self.put_back(None);
            self.starts.clear();
            for shard in 0..self.shards() {
                self.deltas.entry(shard).or_default();
            }
        }
        for (step, _) in &self.starts {
            *self.deltas.entry(step.shard).or_default() += 1;
        }
        if self.deltas.is_empty() {
            self.deltas.insert(self.shard.unwrap_or(0), 0);
        }
        let mut is_nothing = false;
        let mut state = CountState::Running;
        for (shard, delta) in &self.deltas {
            // A mission without counts has ended, and so has everything in it.
            let Some(count) = counts::add(self.db, self.mission_id, *shard, *delta, self.failing.is_some()) else {
                return Vec::new();
            };
            is_nothing |= count.active == 0;
            state = count.state;
        }
        let mut up = Vec::new();
        if let Some((step, error)) = &self.failing {
            is_nothing |= stop::fail(self.db, self.mission_id, step, error, self.now);
        } else if state == CountState::Running {
            let starts = std::mem::take(&mut self.starts);
            up = begin::all(&self, starts);
        } else if !self.starts.is_empty() {
            is_nothing |= self.hold(state);
        }
        if is_nothing {
            up.extend(finalize::finalize(self.db, self.mission_id, self.now));
        }
        up
    }

    /// Makes the steps wait again that were about to begin. `held_at`: since when a pause holds them back.
    fn put_back(&self, held_at: Option<Micros>) {
        let ids: Vec<Uuid> = self.starts.iter().map(|(step, _)| step.id).collect();
        if !ids.is_empty() {
            self.db.run(&STEPS_HOLD, &[ids.into(), held_at.map(timestamp).into()]);
        }
    }

    /// Over how many rows this mission is counted.
    fn shards(&mut self) -> i32 {
        *self.shards.get_or_insert_with(|| counts::latest(self.mission_id).len().max(1) as i32)
    }

    /// Keeps what was to begin from beginning: the mission is paused, or about to end. True: a count has come to nothing.
    fn hold(&self, state: CountState) -> bool {
        let mut undo: BTreeMap<i32, i32> = BTreeMap::new();
        self.starts.iter().for_each(|(step, _)| *undo.entry(step.shard).or_default() -= 1);
        self.put_back((state == CountState::Paused).then_some(self.now));
        counts::add_all(self.db, self.mission_id, &undo)
    }
}
