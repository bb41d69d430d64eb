//! Jobs through connections that stay open: many at once and one by one, with failures, heartbeats and duplicates among them.

use crate::dice::Dice;
use postgres::{Client, Error, NoTls};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

const BATCH: u64 = 20;
/// Jobs that are there at once: the active set.
const STANDING: u64 = 4000;

#[derive(Default)]
pub struct Done {
    enqueued: AtomicU64,
    acked: AtomicU64,
    /// One has failed: the others need not go on.
    failed: AtomicBool,
}

impl Done {
    pub fn acked(&self) -> u64 {
        self.acked.load(SeqCst)
    }

    fn noting(&self, outcome: Result<(), Error>) -> Result<(), Error> {
        outcome.inspect_err(|_| self.failed.store(true, SeqCst))
    }
}

pub struct Load<'d> {
    pub url: String,
    pub jobs: u64,
    pub done: &'d Done,
}

impl<'d> Load<'d> {
    pub fn start<'s>(&self, scope: &'s Scope<'s, 'd>) -> Vec<ScopedJoinHandle<'s, Result<(), Error>>> {
        let mut threads = Vec::new();
        for _ in 0..2 {
            let (url, jobs, done) = (self.url.clone(), self.jobs, self.done);
            threads.push(scope.spawn(move || done.noting(produce(&url, jobs, done))));
        }
        for number in 0..3 {
            let (url, jobs, done) = (self.url.clone(), self.jobs, self.done);
            threads.push(scope.spawn(move || done.noting(work(&url, number, jobs, done))));
        }
        threads
    }
}

fn connect(url: &str) -> Result<Client, Error> {
    Client::connect(&format!("{url} application_name='soak'"), NoTls)
}

fn produce(url: &str, jobs: u64, done: &Done) -> Result<(), Error> {
    let mut client = connect(url)?;
    let mut dice = Dice::new(1);
    while done.enqueued.load(SeqCst) < jobs && !done.failed.load(SeqCst) {
        if done.enqueued.load(SeqCst) > done.acked() + STANDING {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        let tenant = dice.below(20);
        let wish = |n: u64| match n % 5 {
            0 => json!({"job_kind": "limited", "limit_keys": [format!("tenant:{tenant}")], "cost": {"usd": 1}}),
            1 => json!({"job_kind": "keyed", "idempotency_key": format!("key {n} {}", done.enqueued.load(SeqCst))}),
            2 => json!({"job_kind": "fair", "fairness_key": format!("turn:{tenant}")}),
            _ => {
                json!({"job_kind": "plain", "payload_json": {"n": n, "text": "a payload of some length, as jobs have"}})
            }
        };
        let documents = Value::Array((0..BATCH).map(wish).collect());
        let row = client.query_one("SELECT (agentq.fn_job_enqueue_batch($1)->>'created')::bigint", &[&documents])?;
        done.enqueued.fetch_add(row.get::<_, i64>(0) as u64, SeqCst);
    }
    Ok(())
}

fn work(url: &str, number: usize, jobs: u64, done: &Done) -> Result<(), Error> {
    let mut client = connect(url)?;
    let mut dice = Dice::new(number as u64 + 10);
    let me = format!("soak {number}");
    while done.acked() < jobs && !done.failed.load(SeqCst) {
        let most = if dice.percent(20) { 1 } else { BATCH as i32 };
        let claim =
            client.query_one("SELECT agentq.fn_job_claim_batch($1, $2, p_wait => '0.2 s')->'jobs'", &[&me, &most])?;
        let held = claim.get::<_, Option<Value>>(0);
        let held = held.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut acks = Vec::new();
        for job in held {
            let (id, token) =
                (job["job_id"].as_str().unwrap_or_default(), job["lease_token"].as_str().unwrap_or_default());
            match dice.below(200) {
                0 => fail(&mut client, id, &me, token)?,
                1 => {
                    client.execute(&format!("SELECT agentq.fn_job_heartbeat('{id}', $1)"), &[&me])?;
                    acks.push(json!({"job_id": id, "lease_token": token}));
                }
                _ => acks.push(json!({"job_id": id, "lease_token": token})),
            }
        }
        let row = client
            .query_one("SELECT (agentq.fn_job_ack_batch($1, $2)->>'acked')::bigint", &[&me, &Value::Array(acks)])?;
        done.acked.fetch_add(row.get::<_, i64>(0) as u64, SeqCst);
    }
    Ok(())
}

/// One that comes back at once: nothing is lost by it.
fn fail(client: &mut Client, id: &str, me: &str, token: &str) -> Result<(), Error> {
    let sql = format!("SELECT agentq.fn_job_release('{id}', $1, '{token}')");
    client.execute(&sql, &[&me]).map(drop)
}
