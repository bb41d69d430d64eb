//! A job that has been checked and is to be written: the row that says what it is, and its place.

use super::place::Place;
use super::rows::{job, job_blocked, job_ready, job_waiting};
use super::terms::{self, Terms};
use super::{gates, order};
use crate::base::clock::{Micros, timestamp};
use crate::base::settings::Queue;
use crate::json::Jsonb;
use crate::table::{Common, Row, Table};
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
    pub terms: Terms,
}

impl NewJob<'_> {
    /// Another job of the same sort.
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
            blocked_by: None,
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
        self.terms.put(row)
    }
}

/// Values that the rows of a job, or of the jobs of a batch, have in common.
#[derive(Clone, Copy)]
struct With {
    id: Option<Common>,
    kind: Option<Common>,
    actor: Option<Common>,
}

impl With {
    fn of(jobs: &[NewJob<'_>], session_user: &str) -> Vec<With> {
        let session_user = Common::of(session_user);
        let mut all: Vec<With> = Vec::with_capacity(jobs.len());
        for (number, job) in jobs.iter().enumerate() {
            let before = number.checked_sub(1).filter(|before| jobs[*before].kind == job.kind);
            let kind = before.map_or_else(|| Common::of(job.kind), |before| all[before].kind);
            let actor = job.actor.map_or(session_user, Common::of);
            all.push(With { id: Common::of(job.id), kind, actor });
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
    let (mut ready, mut waiting, mut blocked) = (Vec::with_capacity(jobs.len()), Vec::new(), Vec::new());
    let mut places: Vec<Place> = jobs.iter().map(|job| job.place(now)).collect();
    let followers = order::followers(jobs);
    for ((job, place), with) in jobs.iter().zip(&mut places).zip(&with) {
        if followers.contains(&job.id) {
            place.blocked_by = job.terms.ordering_key.as_deref().map(order::name_of);
        } else if place.scheduled_at <= now {
            place.blocked_by = job.terms.lane(place.queue_id);
        }
        if place.blocked_by.is_some() {
            blocked.push(place.blocked_row(job.key.is_some()));
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
    if places.iter().any(Place::is_in_lane) {
        gates::count_first();
    }
    if !blocked.is_empty() {
        Table::open(&job_blocked::TABLE).insert_all(&blocked);
    }
    terms::write_deadlines(jobs);
    for (job, place) in jobs.iter().zip(&places) {
        // A time that was asked for may lie before the present.
        match &place.blocked_by {
            Some(_) if !place.is_in_lane() => place.entered_blocked(),
            _ if place.scheduled_at <= now => place.entered_ready(job.asked_at.is_some()),
            _ => place.entered_waiting(),
        }
    }
}
