//! Cancels, moves and changes jobs that others work on; crosswise, two at a time in either order, so that sessions wait for each
//! other in a ring and the server has to break it.

use super::Manner;
use super::client::{Client, Trouble};
use crate::dice::Dice;
use crate::ledger::Entry;
use std::time::Duration;
use uuid::Uuid;

pub struct Meddler<'m> {
    client: Client,
    dice: Dice,
    manner: &'m Manner,
}

impl<'m> Meddler<'m> {
    pub fn new(mut client: Client, dice: Dice, manner: &'m Manner) -> Meddler<'m> {
        // A job that was claimed since the look at it cannot be changed.
        client.own_fault = if manner.forgiving { &["55000", "P0002"] } else { &["55000"] };
        Meddler { client, dice, manner }
    }

    pub fn run(&mut self) {
        while !self.client.is_over() {
            let jobs = self.some_jobs();
            match jobs.as_slice() {
                [one, other, ..] if self.manner.crosswise => self.change_both(*one, *other),
                _ if self.dice.percent(15) => self.redrive(),
                _ if self.dice.percent(10) => self.cancel_a_trip(),
                [one, ..] => match self.dice.below(3) {
                    0 => self.cancel(*one),
                    1 => drop(self.client.ask("SELECT agentq.fn_job_move_to_dead_letter($1, 'hopeless')", &[one])),
                    _ => drop(self.client.ask("SELECT agentq.fn_job_change($1, '{\"priority\": 50}')", &[one])),
                },
                [] => {}
            }
            self.client.rest(Duration::from_millis(if self.manner.crosswise { 5 } else { 40 }));
        }
    }

    /// Jobs that nobody holds, a few; for crosswise meddling the same few for all.
    fn some_jobs(&mut self) -> Vec<Uuid> {
        let skip = if self.manner.crosswise { 0 } else { self.dice.below(30) };
        let sql = format!(
            "SELECT coalesce(array_agg(job_id ORDER BY job_id), '{{}}')
             FROM (SELECT job_id FROM agentq_internal.job_ready WHERE job_kind IN ('plain', 'ordered', 'limited') LIMIT 4 OFFSET {skip}) few"
        );
        let mut jobs: Vec<Uuid> = self.client.ask(&sql, &[]).map(|row| row.get(0)).unwrap_or_default();
        if self.dice.percent(50) {
            jobs.reverse();
        }
        jobs
    }

    pub fn cancel(&mut self, job: Uuid) {
        self.client.write(&[Entry::Cancelling { job }]);
        let answer = self.client.ask("SELECT agentq.fn_job_cancel($1, 'not needed')->>'code'", &[&job]);
        if answer.is_ok_and(|row| row.get::<_, String>(0) == "cancelled") {
            self.client.write(&[Entry::Cancelled { job }]);
        }
    }

    /// Tries a dead letter again: a job more with its key.
    fn redrive(&mut self) {
        let sql = "SELECT l.dead_letter_id, l.idempotency_key, l.ordering_key
            FROM (SELECT 1) one LEFT JOIN LATERAL (
                SELECT dead_letter_id, letter.idempotency_key, ordering_key
                FROM agentq.job_dead_letter letter JOIN agentq_internal.job USING (job_id)
                WHERE redriven_as IS NULL AND letter.job_kind IN ('plain', 'ordered', 'limited')
                ORDER BY random() LIMIT 1) l ON true";
        let Ok(row) = self.client.ask(sql, &[]) else { return };
        let (Some(letter), Some(key)) = (row.get::<_, Option<Uuid>>(0), row.get::<_, Option<String>>(1)) else {
            return;
        };
        let order: Option<String> = row.get(2);
        self.client.write(&[Entry::Enqueueing { keys: vec![key.clone()] }]);
        let sql = "SELECT r->>'code', r->>'job_id' FROM agentq.fn_dead_letter_redrive($1, p_options => '{\"allow_non_idempotent\": true}') r";
        match self.client.ask(sql, &[&letter]) {
            Ok(row) => {
                let (code, job): (String, Option<String>) = (row.get(0), row.get(1));
                let job = job.and_then(|job| job.parse().ok()).filter(|_| code == "redriven");
                self.client.write(&[match job {
                    Some(job) => Entry::Enqueued { key, job, order, duplicate: false },
                    None => Entry::NotEnqueued { keys: vec![key] },
                }]);
            }
            Err(Trouble::Refused) => self.client.write(&[Entry::NotEnqueued { keys: vec![key] }]),
            Err(Trouble::Unknown | Trouble::Over) => {}
        }
    }

    /// Cancels a trip: what it has booked is given back.
    fn cancel_a_trip(&mut self) {
        let sql = "SELECT (SELECT mission_id FROM agentq.mission WHERE title = 'trip' AND status = 'running'
            ORDER BY random() LIMIT 1)";
        let Ok(Some(trip)) = self.client.ask(sql, &[]).map(|row| row.get::<_, Option<Uuid>>(0)) else { return };
        self.client.ask("SELECT agentq.fn_mission_cancel($1, 'storm', 'compensate_then_stop')", &[&trip]).ok();
    }

    fn change_both(&mut self, one: Uuid, other: Uuid) {
        let change = |job: Uuid| format!("SELECT agentq.fn_job_change('{job}', '{{\"priority\": 100}}')");
        let first = self.client.begin(&change(one));
        std::thread::sleep(Duration::from_millis(2));
        match first.and_then(|()| self.client.run(&change(other))) {
            Ok(()) => drop(self.client.commit()),
            Err(_) => self.client.roll_back(),
        }
    }
}
