//! Leasing the jobs that a search has taken: each that is in time and passes its gates gets a lease and a fresh token.
//! What does not is given up, put into the line where it has to wait, or left where it was.

use super::document::{self, Claimed, Lease};
use super::lanes::{Lane, Taken};
use super::search::{Ground, Round, Search};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_token;
use crate::db;
use crate::queue::capacity::budgets;
use crate::queue::capacity::gates::{Demand, Passed};
use crate::queue::ends::deadlines::{self, MissedDeadline};
use crate::queue::rows::{job, job_lease, job_line};
use crate::queue::storage::{Place, marks};
use crate::server::has_fixed_snapshot;
use crate::table::{Moment, Row, Scan, Table};
use agentq_core::line::Line;
use pgrx::Uuid;
use pgrx::prelude::*;

/// What becomes of a job that was taken.
enum Fate {
    Held(Row, Claimed),
    /// It has missed its deadline: the claim gives it up.
    Late(Uuid, MissedDeadline),
    /// It has to wait in this line.
    Waits(Place),
    /// It was put back, or is not there.
    Left,
}

impl Search<'_> {
    /// Leases the jobs that were taken.
    pub fn lease(
        &mut self,
        ground: &mut Ground<'_, '_>,
        lanes: &[Lane],
        taken: Vec<(usize, Taken)>,
        moment: &Moment,
    ) -> Round {
        let mut round = Round::default();
        if taken.is_empty() {
            return round;
        }
        // The clock is read only now: another's attempt at the same job may have ended since this call began.
        let picked_at = clock::now();
        let jobs = Table::open(&job::TABLE);
        let mut body: Option<Scan<'_>> = None;
        let mut rows = Vec::with_capacity(taken.len());
        let mut late: Vec<(Uuid, MissedDeadline)> = Vec::new();
        let mut waiting: Vec<(Place, bool)> = Vec::new();
        for (lane, taken) in taken {
            let id = taken.place.job_id;
            let body = match &mut body {
                Some(body) => {
                    body.again(id);
                    body
                }
                body => body.insert(Scan::by_id(&jobs, moment, c"job_pkey", id)),
            };
            let keyed = taken.keyed;
            match self.fate(ground, &lanes[lane], taken, body, picked_at, moment, &mut round) {
                Fate::Held(row, claimed) => {
                    rows.push(row);
                    round.claimed.push(claimed);
                }
                Fate::Late(id, missed) => late.push((id, missed)),
                Fate::Waits(place) => waiting.push((place, keyed)),
                Fate::Left => {}
            }
        }
        if !rows.is_empty() {
            ground.leases.insert_all(&rows);
        }
        if !late.is_empty() {
            round.put_aside = true;
            db::connect(|db| late.iter().for_each(|(id, missed)| deadlines::give_up(db, *id, *missed, self.now)));
        }
        if !waiting.is_empty() {
            round.put_aside = true;
            self.put_into_lines(waiting);
        }
        round
    }

    #[allow(clippy::too_many_arguments, reason = "all that is known of one job")]
    fn fate(
        &mut self,
        ground: &mut Ground<'_, '_>,
        lane: &Lane,
        taken: Taken,
        body: &mut Scan<'_>,
        picked_at: Micros,
        moment: &Moment,
        round: &mut Round,
    ) -> Fate {
        let id = taken.place.job_id;
        if !body.next() {
            if has_fixed_snapshot() {
                // This transaction has put it there, behind a job that has finished, and somebody has enqueued it since
                // the snapshot.
                round.put_aside = true;
                self.unseen.push((taken.place, taken.keyed));
            } else {
                warning!("job {id} was ready but does not exist; its ready row was dropped");
            }
            return Fate::Left;
        }
        if let Some(missed) = deadlines::missed(body, self.now) {
            return Fate::Late(id, missed);
        }
        let passed = match self.pass(ground, lane, &taken, body) {
            Ok(passed) => passed,
            // The worker itself has no slot left; others may have.
            Err(line) if self.request.worker().own_keys().iter().any(|key| key == line.name()) => {
                taken.place.enter_unseen(taken.keyed, self.now);
                self.limited_by.insert(line.name().to_owned());
                return Fate::Left;
            }
            Err(line) => return Fate::Waits(Place { line: Some(line), ..taken.place }),
        };
        let seconds = self.request.lease_seconds.unwrap_or_else(|| self.usual_length(lane));
        let until = picked_at + i64::from(seconds) * 1_000_000;
        let (owner, token) = (self.request.owner, new_token());
        let lease = Lease { owner, token, until, claimed_at: picked_at, seconds };
        let row = Row::of(&job_lease::TABLE)
            .set(job_lease::job_id, id)
            .set(job_lease::lease_token, lease.token)
            .set(job_lease::lease_until, timestamp(lease.until))
            .set(job_lease::picked_at, timestamp(picked_at))
            .set(job_lease::keyed, taken.keyed || !body.is_null(job::ordering_key) || !body.is_null(job::on_end))
            .set(job_lease::lease_owner, lease.owner)
            .set(job_lease::lease_seconds, self.unusual_length(lane))
            .set(job_lease::stall_seconds, body.maybe_int(job::stall_seconds));
        let document = document::of_job(body, &lane.queue.queue, &lease, moment);
        Fate::Held(passed.put(row), Claimed { job_id: id, token: lease.token, kind: taken.place.job_kind, document })
    }

    /// Passes a job through its gates, or says in which line it has to wait.
    fn pass(&self, ground: &mut Ground<'_, '_>, lane: &Lane, taken: &Taken, body: &Scan<'_>) -> Result<Passed, Line> {
        let worker = self.request.worker();
        let Some(gates) = &mut ground.gates else {
            return Ok(Passed { limits: worker.own_keys(), ..Passed::default() });
        };
        let wide = worker.wide_keys(&lane.queue.queue, Some(&taken.place.job_kind));
        let mut keys: Vec<(String, u32)> = wide.into_iter().map(|key| (key, 1)).collect();
        if !body.is_null(job::limit_keys) {
            let weights = body.ints(job::limit_weights).into_iter().map(|weight| weight as u32);
            keys.extend(body.texts(job::limit_keys).into_iter().zip(weights.chain(std::iter::repeat(1))));
        }
        gates.pass(&Demand { worker: worker.own_keys(), keys, cost: budgets::cost_of(body) })
    }

    /// How long a lease is if the claim says nothing about it, in seconds.
    fn usual_length(&self, lane: &Lane) -> i32 {
        lane.queue.lease_seconds.unwrap_or(self.default_lease)
    }

    /// How long the lease is, if that is not the usual length: few rows are longer for it.
    fn unusual_length(&self, lane: &Lane) -> Option<i32> {
        self.request.lease_seconds.filter(|seconds| *seconds != self.usual_length(lane))
    }

    /// Puts jobs that did not pass their gates where the next claims do not find them.
    fn put_into_lines(&mut self, waiting: Vec<(Place, bool)>) {
        marks::announce();
        let rows: Vec<Row> = waiting.iter().map(|(place, keyed)| place.line_row(*keyed)).collect();
        Table::open(&job_line::TABLE).insert_all(&rows);
        for (place, _) in &waiting {
            place.entered_line();
            self.limited_by.extend(place.line.iter().map(|line| line.name().to_owned()));
        }
    }
}
