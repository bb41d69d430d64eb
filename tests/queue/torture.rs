//! Random calls of several sessions, many of them rolled back, and a count of what is left.

use agentq_tests::dice::Dice;
use agentq_tests::process::RaiseAtEnd;
use agentq_tests::{Session, Value, database, eventually, json, text};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::Duration;

/// What all threads have committed.
#[derive(Default)]
struct Tally {
    created: AtomicI64,
    claims: AtomicI64,
    over: AtomicBool,
}

/// One thread of the torture.
struct Torturer<'t> {
    s: Session,
    me: String,
    dice: Dice,
    tally: &'t Tally,
    held: Vec<Value>,
    known: Vec<String>,
}

impl Torturer<'_> {
    /// Makes one call, by itself or in a transaction, which is rolled back at times. None: it was.
    fn call(&mut self, call: &str) -> Option<Value> {
        let (before, after, kept) = match self.dice.below(10) {
            0 => ("BEGIN", "ROLLBACK", false),
            1 => ("BEGIN; SAVEPOINT a", "ROLLBACK TO a; COMMIT", false),
            2 => ("BEGIN; SAVEPOINT a", "RELEASE a; COMMIT", true),
            3 => ("BEGIN", "COMMIT", true),
            _ => return Some(self.s.call(call)),
        };
        self.s.run(before);
        let answer = self.s.call(call);
        if self.dice.below(4) == 0 {
            std::thread::sleep(Duration::from_millis(self.dice.below(5) as u64));
        }
        self.s.run(after);
        kept.then_some(answer)
    }

    fn enqueue(&mut self) {
        let kind = *self.dice.one_of(&["a", "b", "c"]);
        let priority = *self.dice.one_of(&[0, 5, 100, 100, 100, 900]);
        let key = match self.dice.below(4) {
            0 => format!("'key {}'", self.dice.below(40)),
            _ => "NULL".to_owned(),
        };
        let at = *self.dice.one_of(&["NULL", "NULL", "agentq.fn_clock_now() + '30 ms'", "'2020-01-01'"]);
        let call = format!(
            "fn_job_enqueue('{kind}', {key}, p_priority => {priority}, p_scheduled_at => {at}, p_max_attempts => 4)"
        );
        if let Some(answer) = self.call(&call)
            && answer["code"] == "enqueued"
        {
            self.tally.created.fetch_add(1, SeqCst);
            self.known.push(text(&answer, "job_id"));
        }
    }

    fn enqueue_batch(&mut self) {
        let jobs: Vec<Value> = (0..self.dice.below(6))
            .map(|_| match self.dice.below(2) {
                0 => json!({"job_kind": "b", "idempotency_key": format!("key {}", self.dice.below(40))}),
                _ => json!({"job_kind": "c", "priority": 5}),
            })
            .collect();
        if let Some(answer) = self.call(&format!("fn_job_enqueue_batch('{}')", json!(jobs))) {
            self.tally.created.fetch_add(answer["created"].as_i64().expect("a number"), SeqCst);
        }
    }

    fn claim(&mut self) {
        let shape = *self.dice.one_of(&[
            "1",
            "1, 'a'",
            "4",
            "3, 'b'",
            "2, p_options => '{\"kinds\": [\"a\", \"c\"]}'",
            // A lease that runs out while the torture goes on.
            "1, NULL, 1",
        ]);
        let call = format!("fn_job_claim_batch('{}', {shape})", self.me);
        if let Some(answer) = self.call(&call) {
            let jobs = answer["jobs"].as_array().expect("jobs");
            self.tally.claims.fetch_add(jobs.len() as i64, SeqCst);
            self.held.extend(jobs.iter().cloned());
        }
    }

    fn end(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let job = self.held.swap_remove(self.dice.below(self.held.len()));
        let (job_id, token) = (text(&job, "job_id"), text(&job, "lease_token"));
        let me = &self.me;
        let call = match self.dice.below(8) {
            0 | 1 => format!("fn_job_fail_or_retry('{job_id}', '{me}', 'boom', NULL, '{token}')"),
            2 => format!("fn_job_release('{job_id}', '{me}', '{token}')"),
            3 => format!("fn_job_snooze('{job_id}', '{me}', agentq.fn_clock_now() + '20 ms', '{token}')"),
            4 => format!("fn_job_heartbeat('{job_id}', '{me}', 2, '{{\"n\": 1}}', '{token}')"),
            // Forgotten: its lease will expire, now or at the end.
            5 => return,
            _ => format!("fn_job_ack('{job_id}', '{me}', NULL, '{token}')"),
        };
        match self.call(&call) {
            None => self.held.push(job),
            Some(answer) if answer["code"] == "extended" => self.held.push(job),
            Some(_) => {}
        }
    }

    fn meddle(&mut self) {
        if self.known.is_empty() {
            return;
        }
        let job = self.dice.one_of(&self.known).clone();
        let call = match self.dice.below(4) {
            0 => format!("fn_job_move_to_dead_letter('{job}', 'hopeless')"),
            _ => format!("fn_job_cancel('{job}', 'not needed')"),
        };
        self.call(&call);
    }

    fn run(&mut self) {
        while !self.tally.over.load(SeqCst) {
            match self.dice.below(20) {
                0..=4 => self.enqueue(),
                5 => self.enqueue_batch(),
                6..=11 => self.claim(),
                12..=18 => self.end(),
                _ => self.meddle(),
            }
        }
    }
}

const UNFINISHED: &str = "agentq.job_queue WHERE state NOT IN ('succeeded', 'cancelled', 'dead_letter')";

#[test]
fn under_torture_every_job_ends_exactly_once() {
    const THREADS: u64 = 6;
    const JOBS: i64 = 1500;
    let db = database();
    db.session().call("fn_config_set('queue.retry.backoff_base_sec', '0')");
    let tally = Tally::default();
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (db, tally) = (&db, &tally);
            scope.spawn(move || {
                let mut torturer = Torturer {
                    s: db.session(),
                    me: format!("worker {n}"),
                    dice: Dice::new(n + 1),
                    tally,
                    held: Vec::new(),
                    known: Vec::new(),
                };
                torturer.run();
            });
        }
        let _over = RaiseAtEnd(&tally.over);
        let count = || (tally.created.load(SeqCst), tally.claims.load(SeqCst));
        eventually(
            "the torture was not mild",
            || matches!(count(), (created, claims) if created > JOBS && claims > created / 2),
        );
    });

    // Whatever is left is done by one who comes long after. An expired lease that someone had locked
    // when it was looked for is found a little later.
    let mut s = db.session();
    s.shift_clock(100_000);
    let mut drained = 0;
    eventually("every job is done", || {
        let answer = s.call("fn_job_claim_batch('last', 50)");
        drained += answer["count"].as_i64().expect("a number");
        let jobs: Vec<&Value> = answer["jobs"].as_array().expect("jobs").iter().map(|job| &job["job_id"]).collect();
        s.json("SELECT agentq.fn_job_ack_batch('last', $1)", &[&json!(jobs)]);
        answer["code"] == "empty" && s.count(UNFINISHED) == 0
    });
    db.assert_sound();
    let (created, claims) = (tally.created.load(SeqCst), tally.claims.load(SeqCst) + drained);
    assert_eq!(s.count("agentq.job_queue"), created);
    assert_eq!(s.count("agentq_internal.job_done"), created);
    // Every claim that committed is an attempt, and every attempt has ended.
    assert_eq!(s.count("agentq.job_attempt"), claims);
    assert_eq!(s.count("agentq.job_attempt WHERE outcome IS NULL"), 0);
    let miscounted = s.count(
        "(SELECT q.job_id FROM agentq.job_queue q LEFT JOIN agentq.job_attempt a USING (job_id)
          GROUP BY q.job_id, q.state, q.attempts
          HAVING q.attempts <> count(*) FILTER (WHERE a.outcome IN ('failed', 'lease_expired'))
              OR (q.state = 'succeeded') <> (count(*) FILTER (WHERE a.outcome = 'succeeded') = 1)
              OR max(a.attempt_no) <> count(a.attempt_no)) t",
    );
    assert_eq!(miscounted, 0);
    assert_eq!(s.count("agentq.job_dead_letter"), s.count("agentq.job_queue WHERE state = 'dead_letter'"));
    assert_eq!(s.count("agentq_internal.job_key"), 0);
}
