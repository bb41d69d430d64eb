//! A job that has been checked and is to be written: the row that says what it is, and its place.

use super::job_options::JobOptions;
use crate::base::clock::{Micros, timestamp};
use crate::json::Jsonb;
use crate::queue::counting::count_first;
use crate::queue::rows::{job, job_deadline, job_line, job_ready, job_waiting};
use crate::queue::rules::Queue;
use crate::queue::storage::{Place, order};
use crate::table::{Common, Row, Table};
use agentq_core::line::Line;
use pgrx::Uuid;
use std::rc::Rc;

#[derive(Clone)]
pub struct NewJob<'a> {
    pub id: Uuid,
    pub queue: Rc<Queue>,
    pub kind: &'a str,
    pub key: Option<&'a str>,
    /// None: the role that opened the session.
    pub actor: Option<&'a str>,
    pub source_ref: Option<&'a str>,
    pub target_ref: Option<&'a str>,
    pub payload_ref: Option<&'a str>,
    pub priority: i32,
    pub max_attempts: i32,
    /// None: at once.
    pub asked_at: Option<Micros>,
    pub run_id: Option<Uuid>,
    pub payload: Jsonb,
    pub options: JobOptions,
}

impl NewJob<'_> {
    /// Another job that has all of this but the payload.
    pub fn again(&self, id: Uuid, payload: Jsonb) -> Self {
        NewJob { id, payload, ..self.clone() }
    }

    pub fn scheduled_at(&self, now: Micros) -> Micros {
        self.asked_at.unwrap_or(now)
    }

    fn place(&self, now: Micros) -> Place {
        Place {
            job_id: self.id,
            queue_id: self.queue.queue_id,
            job_kind: self.kind.to_owned(),
            priority: self.priority,
            scheduled_at: self.scheduled_at(now),
            line: None,
        }
    }

    fn row(&self, now: Micros, with: &With) -> Row {
        let row = Row::of(&job::TABLE)
            .set(job::job_id, with.id)
            .set(job::queue_id, self.queue.queue_id)
            .set(job::priority, self.priority)
            .set(job::attempts, 0)
            .set(job::max_attempts, self.max_attempts)
            .set(job::scheduled_at, timestamp(self.scheduled_at(now)))
            .set(job::created_at, timestamp(now))
            .set(job::run_id, self.run_id)
            .set(job::job_kind, with.kind)
            .set(job::actor, with.actor)
            .set(job::idempotency_key, self.key)
            .set(job::source_ref, self.source_ref)
            .set(job::target_ref, self.target_ref)
            .set(job::payload_ref, self.payload_ref)
            .set(job::payload_json, self.payload);
        // Most jobs name no other actor, and their rows are shorter for it.
        let row = if with.enqueued_by.is_some() { row.set(job::enqueued_by, with.enqueued_by) } else { row };
        self.options.put(row)
    }
}

/// Values that the rows of a job, or of the jobs of a batch, have in common.
#[derive(Clone, Copy)]
struct With {
    id: Option<Common>,
    kind: Option<Common>,
    actor: Option<Common>,
    /// Who has enqueued it, if the job names somebody else as its actor.
    enqueued_by: Option<Common>,
}

impl With {
    fn of(jobs: &[NewJob<'_>], session_user: &str) -> Vec<With> {
        let session_user = Common::of(session_user);
        let mut all: Vec<With> = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            let before = number.checked_sub(1).filter(|before| jobs[*before].kind == job.kind);
            let kind = before.map_or_else(|| Common::of(job.kind), |before| all[before].kind);
            let actor = job.actor.map_or(session_user, Common::of);
            let enqueued_by = job.actor.and(session_user);
            all.push(With { id: Common::of(job.id), kind, actor, enqueued_by });
        }
        all
    }
}

/// Writes new jobs. Their keys must have been taken.
pub fn write(jobs: &[NewJob<'_>], now: Micros, session_user: &str) {
    let table = Table::open(&job::TABLE);
    let with = With::of(jobs, session_user);
    let rows: Vec<Row> = jobs.iter().zip(&with).map(|(job, with)| job.row(now, with)).collect();
    table.insert_all(&rows);
    let (mut ready, mut waiting, mut in_line) = (Vec::with_capacity(jobs.len()), Vec::new(), Vec::new());
    let mut places: Vec<Place> = jobs.iter().map(|job| job.place(now)).collect();
    let ordered =
        jobs.iter().filter_map(|job| Some((job.queue.queue_id, job.options.ordering_key.as_deref()?, job.id)));
    let followers = order::followers(ordered.collect());
    for ((job, place), with) in jobs.iter().zip(&mut places).zip(&with) {
        if followers.contains(&job.id) {
            place.line = job.options.ordering_key.as_deref().map(Line::behind);
        } else if place.scheduled_at <= now {
            place.line = job.options.fair_line(place.queue_id);
        }
        if place.line.is_some() {
            in_line.push(place.line_row(job.key.is_some()));
        } else if place.scheduled_at <= now {
            ready.push(place.ready_row_with(job.key.is_some(), with.id, with.kind))
        } else {
            waiting.push(place.waiting_row())
        }
    }
    if !ready.is_empty() {
        Table::open(&job_ready::TABLE).insert_all(&ready);
    }
    if !waiting.is_empty() {
        Table::open(&job_waiting::TABLE).insert_all(&waiting);
    }
    if places.iter().any(Place::is_in_fair_line) {
        count_first();
    }
    if !in_line.is_empty() {
        Table::open(&job_line::TABLE).insert_all(&in_line);
    }
    write_deadlines(jobs);
    for (job, place) in jobs.iter().zip(&places) {
        // A time that was asked for may lie before the present.
        match &place.line {
            Some(line) if !line.is_fair() => place.entered_line(),
            _ if place.scheduled_at <= now => place.entered_ready(job.asked_at.is_some()),
            _ => place.entered_waiting(),
        }
    }
}

/// Writes down when these jobs must have been begun and finished.
fn write_deadlines(jobs: &[NewJob<'_>]) {
    let row = |id: Uuid, at: Option<Micros>, what: &str| {
        at.map(|at| {
            Row::of(&job_deadline::TABLE)
                .set(job_deadline::deadline_at, timestamp(at))
                .set(job_deadline::job_id, id)
                .set(job_deadline::what, what)
        })
    };
    let rows = jobs.iter().flat_map(|job| {
        [row(job.id, job.options.start_by, "start"), row(job.id, job.options.finish_by, "finish")].into_iter().flatten()
    });
    let rows: Vec<Row> = rows.collect();
    if !rows.is_empty() {
        Table::open(&job_deadline::TABLE).insert_all(&rows);
    }
}
