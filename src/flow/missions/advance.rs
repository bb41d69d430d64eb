//! A job has ended: its step ends, and so do those that can no longer begin; others begin; the mission may end.

use super::begin;
use super::prepare::{self, Candidate, Prepared, Work as Made};
use super::rows::mission_edge;
use super::{counts, finalize, step_of, stop};
use crate::base::clock::{Micros, timestamp};
use crate::base::ids::new_ids;
use crate::db::{self, Db, Rows, statements};
use crate::events::Event;
use crate::flow::settings::STEP_EVENTS;
use crate::json::Jsonb;
use crate::queue::ends::hooks::Ended;
use crate::queue::rules::Rulebook;
use crate::table::{Moment, Scan, Table};
use agentq_core::mission::plan::{self, Decision, Work};
use pgrx::Uuid;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

statements!("advance.sql": STEP_END, ITEM_END, ITEMS_LOCK, ITEMS_RESULT, STEP_BUMP, STEP_DONE, STEPS_HOLD);

/// Results up to so many bytes are told with the event of a step.
const SMALL_RESULT: usize = 2_000;

/// How a step ends.
pub struct End {
    pub step: Uuid,
    pub status: &'static str,
    pub result: Option<Jsonb>,
    pub error: Option<String>,
    /// The job, or the mission, that was its work; None: a list.
    pub by: Option<Uuid>,
}

/// A step that has ended.
struct Over {
    id: Uuid,
    status: &'static str,
    children: i32,
    shard: i32,
    fails_mission: bool,
    name: String,
    kind: String,
    result: Option<Jsonb>,
    error: Option<String>,
    job: Option<Uuid>,
}

/// What a job's state means for its step.
fn status_of(state: &str) -> &'static str {
    match state {
        "succeeded" => "succeeded",
        "cancelled" => "cancelled",
        _ => "failed",
    }
}

/// The hook: jobs of steps have ended.
pub fn jobs_ended(db: &Db, ended: &[Ended], now: Micros) {
    let mut steps: Vec<(Uuid, Option<i32>, &Ended)> =
        ended.iter().filter_map(|job| step_of(&job.about).map(|(step, item)| (step, item, job))).collect();
    steps.sort_by_key(|(step, item, _)| (*step.as_bytes(), *item));
    let mut line = Line::default();
    // How many items of which list have ended, by the row that counts them.
    let mut lists: BTreeMap<[u8; 16], BTreeMap<i32, i32>> = BTreeMap::new();
    for (step, item, job) in steps {
        let status = status_of(&job.state);
        let error = job.error.clone().or_else(|| (status != "succeeded").then(|| format!("its job is {}", job.state)));
        match item {
            None => line.end(db, End { step, status, result: job.result, error, by: Some(job.job_id) }, now),
            Some(item) => {
                if let Some(shard) = end_item(db, step, item, status, job, error.as_deref(), now) {
                    *lists.entry(*step.as_bytes()).or_default().entry(shard).or_default() -= 1;
                }
            }
        }
    }
    // Each list's rows by number, and then once the list: two that end items of the same lists do not meet crosswise.
    for (step, shards) in lists {
        let step = Uuid::from_bytes(step);
        let counted = shards.into_iter().filter_map(|(shard, delta)| counts::add(db, step, shard, delta, false));
        if counted.fold(false, |nothing, count| nothing | (count.active == 0)) {
            end_list(db, step).into_iter().for_each(|end| line.end(db, end, now));
        }
    }
    line.run(db, now);
}

/// Ends an item of a list; says in which row it is counted. None: it has ended, or has another job by now.
fn end_item(
    db: &Db,
    step: Uuid,
    item: i32,
    status: &str,
    job: &Ended,
    error: Option<&str>,
    now: Micros,
) -> Option<i32> {
    let args = [
        step.into(),
        item.into(),
        status.into(),
        job.result.into(),
        error.into(),
        timestamp(now).into(),
        job.job_id.into(),
    ];
    let row = db.run(&ITEM_END, &args);
    (!row.is_empty()).then(|| item % plan::shards(row.only::<i32>() as usize))
}

/// The end of a step that works through a list, if all its items have ended.
pub fn end_list(db: &Db, step: Uuid) -> Option<End> {
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
            return Some(End { step, status: "failed", result: None, error, by: None });
        }
    };
    let needed = needed.unwrap_or(all);
    let error = (well < needed)
        .then(|| format!("{well} of {all} items succeeded, and {needed} were needed: {}", first.unwrap_or_default()));
    let status = match error {
        None => "succeeded",
        Some(_) if cancelled => "cancelled",
        Some(_) => "failed",
    };
    Some(End { step, status, result, error, by: None })
}

/// Missions that have steps to be ended, in the order in which they are locked.
#[derive(Default)]
pub struct Line {
    missions: BTreeMap<(Reverse<i32>, [u8; 16]), Vec<Over>>,
    /// Missions that this transaction has stopped, so that nothing in them begins.
    pub stopped: BTreeSet<[u8; 16]>,
}

impl Line {
    /// Ends a step. One that has ended, or has other work by now, is left alone.
    pub fn end(&mut self, db: &Db, end: End, now: Micros) {
        let args = [
            end.step.into(),
            end.status.into(),
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
        let over = Over {
            id: end.step,
            status: end.status,
            children: row.must("children"),
            shard: row.must("shard"),
            fails_mission: row.must("fails_mission"),
            name: row.must("name"),
            kind: row.must("kind"),
            result: end.result,
            error: end.error,
            job: end.by,
        };
        self.missions.entry((Reverse(row.must("depth")), *mission.as_bytes())).or_default().push(over);
    }

    /// Goes through the missions. The end of one may end a step of the mission around it.
    pub fn run(mut self, db: &Db, now: Micros) {
        while let Some(((Reverse(depth), mission), ended)) = self.missions.pop_first() {
            pgrx::check_for_interrupts!();
            let mut run = Run::new(db, Uuid::from_bytes(mission), depth, now);
            run.is_stopped = self.stopped.contains(&mission);
            for up in run.go(ended, Vec::new()) {
                self.end(db, up, now);
            }
        }
    }
}

/// One mission in one transaction.
pub struct Run<'a> {
    pub db: &'a Db,
    pub mission_id: Uuid,
    pub depth: i32,
    pub now: Micros,
    pub rules: Rc<Rulebook>,
    work: Work<[u8; 16]>,
    deltas: BTreeMap<i32, i32>,
    starts: Vec<(Candidate, Prepared)>,
    /// The step whose failure ends the mission, and its error.
    failing: Option<(String, String)>,
    /// Whether this transaction has stopped it, and so has its counts: then no step that waits may be locked.
    is_stopped: bool,
    /// The row in which the steps that end here are counted, and how many such rows there are, once it was asked.
    shard: i32,
    shards: Option<i32>,
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
            shard: 0,
            shards: None,
        }
    }

    /// Takes in steps that have ended, and steps that have been decided on; returns what that ends around the mission.
    fn go(mut self, ended: Vec<Over>, decided: Vec<(Candidate, Decision)>) -> Vec<End> {
        let shard = ended.first().map_or(0, |over| over.shard);
        for over in ended {
            *self.deltas.entry(over.shard).or_default() -= 1;
            self.over(over);
        }
        self.shard = shard;
        self.decided(decided);
        while self.failing.is_none()
            && let Some(level) = self.work.next_level()
        {
            pgrx::check_for_interrupts!();
            let decided = self.bump(&level);
            self.decided(decided);
        }
        self.settle()
    }

    /// The beginning of a mission, or what a pause has held back.
    pub fn take_up(self, decided: Vec<(Candidate, Decision)>) -> Vec<End> {
        self.go(Vec::new(), decided)
    }

    /// Tells of a step that has ended, and notes who waits for it.
    fn over(&mut self, over: Over) {
        let failed = ["failed", "cancelled"].contains(&over.status);
        self.tell(&over);
        if failed && over.fails_mission && self.failing.is_none() {
            self.failing = Some((over.name.clone(), over.error.clone().unwrap_or_default()));
        }
        if over.children == 0 || self.is_stopped {
            return;
        }
        let (edges, moment) = (Table::open(&mission_edge::TABLE), Moment::now());
        let mut edge = Scan::by_id(&edges, &moment, c"mission_edge_pkey", over.id);
        while edge.next() {
            let required = String::from_utf8_lossy(edge.bytes(mission_edge::required));
            let child = edge.id(mission_edge::child_id);
            self.work.add(edge.int(mission_edge::child_level), *child.as_bytes(), plan::meets(&required, over.status));
        }
    }

    fn tell(&self, over: &Over) {
        let kind = match over.status {
            "succeeded" if self.rules.flag(STEP_EVENTS) => "step.succeeded",
            "failed" => "step.failed",
            _ => return,
        };
        let mut what = json!({"mission_id": self.mission_id.to_string(), "step": over.name, "kind": over.kind,
            "step_id": over.id.to_string(), "status": over.status});
        if let Some(job) = over.job {
            what["job_id"] = json!(job.to_string());
        }
        if let Some(error) = &over.error {
            what["error"] = json!(agentq_core::error::shown(error));
        }
        if let Some(result) = over.result.filter(|result| result.size() <= SMALL_RESULT) {
            what["result"] = result.parse("a result").unwrap_or(Value::Null);
        }
        let subject = self.mission_id.to_string();
        Event::new(kind, &subject, what).mission_id(Some(self.mission_id)).emit(self.db, self.now);
    }

    /// Counts for the steps of one level what has ended before them, and decides on each.
    fn bump(&mut self, level: &[([u8; 16], i32, i32)]) -> Vec<(Candidate, Decision)> {
        let shards = if level.len() + self.starts.len() > 1 { self.shards() } else { 1 };
        let mut shard = self.shard + self.starts.len() as i32;
        let mut decided = Vec::new();
        // One by one, by id: a statement for all of them joins, and its plan may be one for a small table.
        for ((id, ended, met), job) in level.iter().zip(new_ids()) {
            let step = Uuid::from_bytes(*id);
            let (counted_in, at) = (shard % shards.max(self.shard + 1), timestamp(self.now));
            // Most begin: they are written as begun at once, with the job that they get.
            let args = [step.into(), (*ended).into(), (*met).into(), job.into(), at.into(), counted_in.into()];
            let row = self.db.run(&STEP_BUMP, &args);
            if row.is_empty() {
                continue;
            }
            let decision = plan::decide(row.must("need"), row.must("met"), row.must("pending"));
            if decision != Decision::Wait {
                decided.push((candidate(&row), decision));
                shard += 1;
            }
        }
        decided
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
                Made::Done(result) => self.done(step, "succeeded", Some(result), None),
                Made::Broken(error) => self.done(step, "failed", None, Some(error)),
            }
        }
        for (step, why) in skipped {
            self.done(step, "skipped", None, Some(why.to_owned()));
        }
    }

    /// Ends a step that never became a job.
    fn done(&mut self, step: Candidate, status: &'static str, result: Option<Jsonb>, error: Option<String>) {
        let args = [step.id.into(), status.into(), result.into(), error.as_deref().into(), timestamp(self.now).into()];
        self.db.run(&STEP_DONE, &args);
        self.over(step.over(status, result, error));
    }

    /// Counts, begins what may begin, and ends the mission if nothing is left.
    fn settle(mut self) -> Vec<End> {
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
            self.deltas.insert(self.shard, 0);
        }
        let mut is_nothing = false;
        let mut state = String::new();
        for (shard, delta) in &self.deltas {
            // Without it the mission has ended, and so has everything in it.
            let Some(count) = counts::add(self.db, self.mission_id, *shard, *delta, self.failing.is_some()) else {
                return Vec::new();
            };
            is_nothing |= count.active == 0;
            state = count.state;
        }
        let mut up = Vec::new();
        if let Some((step, error)) = &self.failing {
            is_nothing |= stop::fail(self.db, self.mission_id, step, error, self.now);
        } else if state == "running" {
            let starts = std::mem::take(&mut self.starts);
            up = begin::all(&self, starts);
        } else if !self.starts.is_empty() {
            is_nothing |= self.hold(&state);
        }
        if is_nothing {
            up.extend(finalize::finalize(self.db, self.mission_id, self.now));
        }
        up
    }

    /// Makes steps wait again that were about to begin; held back since then, if that is said.
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

    /// What was to begin does not: the mission is paused, or about to end. True: a count has come to nothing.
    fn hold(&self, state: &str) -> bool {
        let mut undo: BTreeMap<i32, i32> = BTreeMap::new();
        self.starts.iter().for_each(|(step, _)| *undo.entry(step.shard).or_default() -= 1);
        self.put_back((state == "paused").then_some(self.now));
        let counted =
            undo.iter().filter_map(|(shard, delta)| counts::add(self.db, self.mission_id, *shard, *delta, false));
        counted.fold(false, |nothing, count| nothing | (count.active == 0))
    }
}

impl Candidate {
    fn over(self, status: &'static str, result: Option<Jsonb>, error: Option<String>) -> Over {
        Over {
            id: self.id,
            status,
            children: self.children,
            shard: self.shard,
            fails_mission: self.fails_mission,
            name: self.name,
            kind: self.kind,
            result,
            error,
            job: None,
        }
    }
}

/// A step that may begin, as the statements about them answer it.
pub fn candidate(row: &Rows) -> Candidate {
    Candidate {
        id: row.must("step_id"),
        children: row.must("children"),
        fails_mission: row.must("fails_mission"),
        name: row.must("name"),
        kind: row.must("kind"),
        executor: row.get("executor"),
        params: row.must("params"),
        spec: row.get::<Jsonb>("spec").map(|spec| agentq_core::mission::template::Spec::from_jsonb(spec.item())),
        job: row.get("job_id"),
        shard: row.must("shard"),
    }
}
