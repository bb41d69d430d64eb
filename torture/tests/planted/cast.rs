//! One job of each fate, made on purpose: what a random run may have or not, every planted fault finds here.
//!
//! The ledgers of the cast are as honest as those of the load. A job is found again by its key, which is the name of its fate.

use agentq_tests::eventually;
use agentq_torture::dice::Dice;
use agentq_torture::ledger::End;
use agentq_torture::load::Manner;
use agentq_torture::load::client::Client;
use agentq_torture::load::meddler::Meddler;
use agentq_torture::load::producer::{Producer, Wish};
use agentq_torture::load::worker::{Held, Worker};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use uuid::Uuid;

/// Long enough that no lease runs out while the cast is at work.
const LONG: i32 = 3600;

struct Cast<'m> {
    producer: Producer<'m>,
    worker: Worker<'m>,
}

/// Plays every part in a database in which nobody else works.
pub fn play(url: &str, folder: &Path) {
    let client = |name: &str| {
        let ledger = folder.join(format!("{name}.ledger"));
        Client::new(url, name, &ledger, Arc::new(AtomicBool::new(false))).expect("a ledger")
    };
    let (usual, one_by_one) = (Manner::default(), Manner { plainly: true, dutifully: true, ..Manner::default() });
    let mut worker = Worker::new(client("cast-worker"), Dice::new(1), &one_by_one);
    worker.lease_seconds = LONG;
    let producer = Producer::new(client("cast-producer"), Dice::new(1), &usual);
    let mut cast = Cast { producer, worker };

    cast.enqueue("acked", json!({}));
    cast.end_next(End::Ack);
    cast.enqueue("acked with a row", json!({}));
    let held = cast.claim();
    cast.worker.end(held, End::Ack, true);
    cast.enqueue("released", json!({}));
    cast.end_next(End::Release);
    cast.end_next(End::Ack);
    cast.enqueue("failed", json!({}));
    cast.end_next(End::Fail);
    cast.end_next(End::Ack);
    cast.enqueue("dead", json!({"max_attempts": 1}));
    cast.end_next(End::Fail);
    cast.enqueue("limited", json!({"limit_keys": ["tenant:0"], "cost": {"usd": 1}}));
    cast.end_next(End::Ack);
    cast.enqueue("expired", json!({}));
    cast.worker.lease_seconds = 1;
    let silent = cast.claim();
    cast.worker.lease_seconds = LONG;
    let again = cast.claim();
    assert_eq!(silent.job, again.job, "it is claimed again when its lease has run out");
    cast.worker.end(again, End::Ack, false);
    // Held at the same time.
    cast.enqueue("one of two", json!({}));
    cast.enqueue("the other", json!({}));
    let both = [cast.claim(), cast.claim()];
    both.into_iter().for_each(|held| cast.worker.end(held, End::Ack, false));
    cast.producer.mission();
    (0..4).for_each(|_| cast.end_next(End::Ack));
    cast.producer.trip();
    let booking = cast.claim();
    cast.worker.book(&booking);
    cast.worker.end(booking, End::Ack, false);
    // Paid for.
    cast.end_next(End::Ack);

    cast.enqueue("cancelled", json!({}));
    let mut looker = postgres::Client::connect(url, postgres::NoTls).expect("the server accepts");
    let sql = "SELECT job_id FROM agentq.job_queue WHERE idempotency_key = 'cancelled'";
    let doomed: Uuid = looker.query_one(sql, &[]).expect("the job").get(0);
    Meddler::new(client("cast-meddler"), Dice::new(1), &usual).cancel(doomed);
}

impl Cast<'_> {
    fn enqueue(&mut self, key: &str, more: Value) {
        let mut document = json!({"job_kind": "cast", "idempotency_key": key});
        if let (Some(document), Value::Object(more)) = (document.as_object_mut(), more) {
            document.extend(more);
        }
        self.producer.enqueue(&[Wish { key: key.to_owned(), order: None, document }], true);
    }

    /// Claims the next job, which may have to come back first.
    fn claim(&mut self) -> Held {
        let mut held = Vec::new();
        eventually("there is a job to claim", || {
            held = self.worker.claim();
            !held.is_empty()
        });
        held.swap_remove(0)
    }

    fn end_next(&mut self, end: End) {
        let held = self.claim();
        self.worker.end(held, end, false);
    }
}
