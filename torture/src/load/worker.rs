//! Claims jobs and ends them in every way there is: acks, also with a row of its own in the same transaction, acks that claim the
//! next, failures, releases, snoozes, late acks; or it falls silent. Before and after each call it writes down what it knows.

use super::Manner;
use super::client::{Client, Trouble};
use crate::dice::Dice;
use crate::ledger::{End, Entry, Micros, now};
use crate::outside::Outside;
use serde_json::Value;
use std::time::Duration;
use uuid::Uuid;

/// Short, so that what a dead worker held comes back while the torture goes on.
const LEASE_SECONDS: i32 = 2;

/// The answer, and when each lease in it runs out, in microseconds since 1970.
const UNTIL: &str = "ARRAY(SELECT (extract(epoch FROM (j->>'lease_until')::timestamptz) * 1000000)::bigint";

/// A job that the worker was told it holds.
#[derive(Clone, Debug)]
pub struct Held {
    pub job: Uuid,
    pub token: Uuid,
    pub task: Task,
}

/// What a job is about.
#[derive(Clone, Debug)]
pub enum Task {
    Plain,
    /// Books a room.
    Book,
    /// Pays for it.
    Pay,
    /// Gives back the room with this key.
    Unbook(String),
    /// Takes everybody down who tries it.
    Deadly,
    /// Never works out.
    Hopeless,
}

impl Task {
    fn of(job: &Value) -> Task {
        match job["job_kind"].as_str().unwrap_or_default() {
            "book" => Task::Book,
            "pay" => Task::Pay,
            "deadly" => Task::Deadly,
            "hopeless" => Task::Hopeless,
            "unbook" => Task::Unbook(job["payload_json"]["idempotency_key"].as_str().unwrap_or_default().to_owned()),
            _ => Task::Plain,
        }
    }
}

pub struct Worker<'m> {
    pub(super) client: Client,
    pub lease_seconds: i32,
    pub(super) dice: Dice,
    pub(super) manner: &'m Manner,
    pub(super) outside: Outside,
}

impl<'m> Worker<'m> {
    pub fn new(client: Client, dice: Dice, manner: &'m Manner) -> Worker<'m> {
        let outside = Outside::beside(client.folder()).open().expect("a folder for what lies outside");
        Worker { client, lease_seconds: LEASE_SECONDS, dice, manner, outside }
    }

    pub fn run(&mut self) {
        if self.manner.hastily {
            // Some statements of every session end in the middle.
            let limit = 1 + self.dice.below(12);
            self.client.greeting.push_str(&format!("; SET statement_timeout = {limit}"));
        }
        while !self.client.is_over() {
            let mut held = self.claim();
            while let Some(job) = held.pop() {
                held.extend(self.work(job));
            }
        }
    }

    /// Claims one job or several.
    pub fn claim(&mut self) -> Vec<Held> {
        let most = match self.dice.below(10) {
            _ if self.manner.plainly => 1,
            0..6 => 1,
            6..8 => 4,
            _ => 8,
        };
        self.client.write(&[Entry::Claiming { most }]);
        let me = self.client.name.clone();
        let answer = if self.manner.plainly {
            let sql = format!(
                "SELECT jsonb_build_array(a), {UNTIL} FROM (SELECT a AS j) one WHERE a->>'code' = 'claimed')
                 FROM agentq.fn_job_claim($1, NULL, $2) a"
            );
            self.client.ask(&sql, &[&me, &self.lease_seconds])
        } else {
            let wait = if self.dice.percent(50) { "'0.1 s'" } else { "NULL" };
            let sql = format!(
                "SELECT a->'jobs', {UNTIL} FROM jsonb_array_elements(a->'jobs') j)
                 FROM agentq.fn_job_claim_batch($1, $2, NULL, $3, NULL, {wait}) a"
            );
            self.client.ask(&sql, &[&me, &(most as i32), &self.lease_seconds])
        };
        let held = match answer {
            Ok(row) => self.claimed(row.get(0), row.get(1)),
            Err(Trouble::Refused) => {
                self.client.write(&[Entry::NotClaimed]);
                Vec::new()
            }
            Err(Trouble::Unknown | Trouble::Over) => Vec::new(),
        };
        if held.is_empty() {
            self.client.rest(Duration::from_millis(5));
        }
        held
    }

    /// Writes down what a claim was told, and returns it.
    fn claimed(&mut self, jobs: Option<Value>, until: Option<Vec<Micros>>) -> Vec<Held> {
        let at = now();
        let jobs = jobs.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        let id = |job: &Value, field: &str| job[field].as_str().and_then(|id| id.parse::<Uuid>().ok());
        let mut held = Vec::new();
        let mut entries = Vec::new();
        for (document, until) in jobs.iter().zip(until.unwrap_or_default()) {
            let (Some(job), Some(token)) = (id(document, "job_id"), id(document, "lease_token")) else { continue };
            entries.push(Entry::Claimed { job, token, until, at });
            held.push(Held { job, token, task: Task::of(document) });
        }
        entries.push(Entry::NotClaimed);
        self.client.write(&entries);
        held
    }

    /// Does something with a held job; returns what it holds then beside the rest.
    fn work(&mut self, held: Held) -> Vec<Held> {
        std::thread::sleep(Duration::from_micros(self.dice.below(2000)));
        match &held.task {
            Task::Plain => {}
            // Its lease runs out, as that of a process that has died.
            Task::Deadly if !self.manner.dutifully => return Vec::new(),
            Task::Hopeless if !self.manner.dutifully => {
                self.end(held, End::Fail, false);
                return Vec::new();
            }
            Task::Deadly | Task::Hopeless => {}
            Task::Book => self.book(&held),
            Task::Unbook(key) => self.unbook(&held, key),
            Task::Pay if self.dice.percent(35) => {
                self.give_up(held);
                return Vec::new();
            }
            Task::Pay => {}
        }
        if self.manner.dutifully {
            self.end(held, End::Ack, false);
            return Vec::new();
        }
        match self.dice.below(100) {
            // What may be tried for ever.
            0..8 if !matches!(held.task, Task::Unbook(_)) => self.end(held, End::Fail, false),
            8..12 => self.end(held, End::Release, false),
            12..15 if !self.manner.plainly => self.end(held, End::Snooze, false),
            // Falls silent: the lease runs out.
            15..18 => {}
            // Sleeps through its lease and then acks all the same. Rarely: nobody works meanwhile.
            18 if self.dice.percent(40) => {
                self.client.rest(Duration::from_millis(self.lease_seconds as u64 * 1000 + 300));
                self.end(held, End::Ack, true);
            }
            20..30 => {
                self.extend(&held);
                self.end(held, End::Ack, false);
            }
            30..45 if !self.manner.plainly => return self.ack_and_claim(held),
            45..65 => self.end(held, End::Ack, true),
            _ => self.end(held, End::Ack, false),
        }
        Vec::new()
    }

    fn extend(&mut self, held: &Held) {
        let me = self.client.name.clone();
        let answer = self.client.ask(
            "SELECT a->>'code', (extract(epoch FROM (a->>'lease_until')::timestamptz) * 1000000)::bigint
             FROM agentq.fn_job_heartbeat($1, $2, $3, p_lease_token => $4) a",
            &[&held.job, &me, &self.lease_seconds, &held.token],
        );
        let Ok(row) = answer else { return };
        let (code, until): (String, Option<Micros>) = (row.get(0), row.get(1));
        let (job, token) = (held.job, held.token);
        match (code.as_str(), until) {
            ("extended", Some(until)) => self.client.write(&[Entry::Extended { job, token, until }]),
            ("lease_lost", _) => self.client.write(&[Entry::Lost { job, token, at: now() }]),
            _ => {}
        }
    }

    /// Ends the attempt, an ack perhaps with a row of its own in the same transaction: both are there, or neither.
    pub fn end(&mut self, held: Held, end: End, with_own_row: bool) {
        let sql = match end {
            End::Ack => "SELECT agentq.fn_job_ack($1, $2, '{\"done\": true}', $3)->>'code'",
            End::Fail => "SELECT agentq.fn_job_fail_or_retry($1, $2, 'it broke', NULL, $3)->>'code'",
            End::Release => "SELECT agentq.fn_job_release($1, $2, $3)->>'code'",
            End::Snooze => "SELECT agentq.fn_job_snooze($1, $2, agentq.fn_clock_now() + '0.2 s', $3)->>'code'",
        };
        self.end_by(held, end, sql, with_own_row);
    }

    /// Fails for good.
    fn give_up(&mut self, held: Held) {
        let sql = "SELECT agentq.fn_job_fail_or_retry($1, $2, 'no money', 'validation_error', $3)->>'code'";
        self.end_by(held, End::Fail, sql, false);
    }

    fn end_by(&mut self, held: Held, end: End, sql: &str, with_own_row: bool) {
        let Held { job, token, .. } = held;
        let me = self.client.name.clone();
        self.client.write(&[Entry::Ending { job, token, end, at: now(), with_own_row }]);
        let own = format!("INSERT INTO torture.own_row VALUES ('{job}', '{token}')");
        let begun = if with_own_row { self.client.begin(&own) } else { Ok(()) };
        let asked = begun.and_then(|()| self.client.ask(sql, &[&job, &me, &token]));
        let code = asked.map(|row| row.get::<_, String>(0));
        let held_still = code.as_ref().is_ok_and(|code| code != "lease_lost" && code != "already_finished");
        let (code, committed) = match (with_own_row, code) {
            (false, code) => (code, Ok(())),
            (true, Ok(code)) if held_still => (Ok(code), self.client.commit()),
            (true, code) => {
                self.client.roll_back();
                (code, Ok(()))
            }
        };
        match (code, committed) {
            // A commit that did not answer: unknown.
            (Ok(_), Err(Trouble::Unknown | Trouble::Over)) | (Err(Trouble::Over), _) => {}
            (Err(Trouble::Unknown), _) if !with_own_row => {}
            // In a transaction nothing happens before its COMMIT is sent.
            (Err(_), _) | (Ok(_), Err(Trouble::Refused)) => self.client.write(&[Entry::NotEnded { job, token }]),
            (Ok(code), Ok(())) => self.told(held, end, &code),
        }
    }

    fn told(&mut self, Held { job, token, .. }: Held, end: End, code: &str) {
        let entry = match (end, code) {
            (_, "lease_lost") => Entry::Lost { job, token, at: now() },
            (End::Ack, "succeeded")
            | (End::Fail, "retry_waiting" | "dead_letter" | "failed" | "cancelled" | "queued")
            | (End::Release, "released" | "cancelled")
            | (End::Snooze, "snoozed" | "cancelled") => Entry::Ended { job, token, end },
            // Somebody has cancelled it, or moved it to the dead letters.
            (_, "already_finished") => Entry::Lost { job, token, at: now() },
            _ => Entry::Surprised {
                code: code.to_owned(),
                message: format!("an answer that is not expected of {end:?}"),
                during: job.to_string(),
            },
        };
        self.client.write(&[entry]);
    }

    fn ack_and_claim(&mut self, held: Held) -> Vec<Held> {
        let (job, token) = (held.job, held.token);
        let me = self.client.name.clone();
        let ending = Entry::Ending { job, token, end: End::Ack, at: now(), with_own_row: false };
        self.client.write(&[ending, Entry::Claiming { most: 1 }]);
        let sql = format!(
            "SELECT a->'ack'->>'code', jsonb_build_array(a->'job'),
                    {UNTIL} FROM (SELECT a->'job' AS j) one WHERE a->>'code' = 'claimed')
             FROM agentq.fn_job_ack_and_claim($1, $2, NULL, $3, NULL, $4) a"
        );
        match self.client.ask(&sql, &[&job, &me, &token, &self.lease_seconds]) {
            Ok(row) => {
                let code: Option<String> = row.get(0);
                self.told(held, End::Ack, code.as_deref().unwrap_or("no code"));
                self.claimed(row.get(1), row.get(2))
            }
            Err(Trouble::Refused) => {
                self.client.write(&[Entry::NotEnded { job, token }, Entry::NotClaimed]);
                Vec::new()
            }
            Err(Trouble::Unknown | Trouble::Over) => Vec::new(),
        }
    }
}
