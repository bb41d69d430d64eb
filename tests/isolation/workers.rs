//! Two workers with different jobs, each in a transaction of its own, in every interleaving of their calls.
//!
//! They lock nothing of each other's. Under SERIALIZABLE the server may still end one of them: its predicate locks are
//! on pages of indexes, where the rows of both lie side by side.

use agentq_tests::{Session, Value, database};

const CALLS: [&str; 4] = ["fn_job_claim", "fn_job_heartbeat", "fn_job_ack", "COMMIT"];

/// A worker, how far it has come, and with which job.
struct Worker {
    session: Session,
    name: &'static str,
    next: usize,
    job: String,
    /// What the server, or agentq, said when it would not go on.
    refused: Option<String>,
}

impl Worker {
    fn begin(&mut self, level: &str) {
        (self.next, self.refused) = (0, None);
        self.session.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM agentq.queue"));
    }

    /// Makes the next call. One that was refused does nothing more.
    fn step(&mut self) {
        let call = CALLS[self.next];
        self.next += 1;
        if self.refused.is_some() {
            return;
        }
        let (name, job) = (self.name, &self.job);
        let came = match call {
            "COMMIT" => self.session.0.batch_execute("COMMIT").map(|()| Value::Null),
            "fn_job_claim" => ask(&mut self.session, &format!("fn_job_claim('{name}')")),
            call => ask(&mut self.session, &format!("{call}('{job}', '{name}')")),
        };
        match came {
            Ok(answer) if call == "fn_job_claim" => {
                assert_eq!(answer["code"], "claimed", "{name}: {answer}");
                self.job = answer["job_id"].as_str().expect("an id").to_owned();
            }
            Ok(answer) => assert!(answer.is_null() || answer["ok"] == true, "{name}: {call}: {answer}"),
            Err(error) => {
                let error = error.as_db_error().unwrap_or_else(|| panic!("not the server's: {error:?}"));
                assert_eq!(error.code().code(), "40001", "{name}: {call}: {error:?}");
                let hint = error.hint().unwrap_or_default();
                let is_ours = hint.starts_with("Run the transaction again") && !error.message().contains("serialize");
                // At its end a transaction is in the server's hands alone.
                assert!(is_ours || call == "COMMIT", "{name}: {call}: {error:?}");
                self.refused = Some(call.to_owned());
                self.session.0.batch_execute("ROLLBACK").expect("a rollback");
            }
        }
    }
}

fn ask(session: &mut Session, call: &str) -> Result<Value, postgres::Error> {
    session.0.query_one(&format!("SELECT agentq.{call}"), &[]).map(|row| row.get(0))
}

/// Every order in which the calls of two workers can come: who is next, again and again.
fn interleavings() -> Vec<Vec<usize>> {
    (0..1_u32 << (2 * CALLS.len()))
        .filter(|bits| bits.count_ones() as usize == CALLS.len())
        .map(|bits| (0..2 * CALLS.len()).map(|place| (bits >> place & 1) as usize).collect())
        .collect()
}

/// Plays every interleaving at this level; returns how many there were, and what was refused.
fn play(level: &str) -> (usize, Vec<String>) {
    let db = database();
    let worker = |name| Worker { session: db.session(), name, next: 0, job: String::new(), refused: None };
    let mut workers = [worker("one"), worker("two")];
    let (orders, mut refused) = (interleavings(), Vec::new());
    for order in &orders {
        workers[0].session.run("SELECT agentq.fn_job_enqueue('x', 'key-' || i) FROM generate_series(1, 2) i");
        workers.iter_mut().for_each(|worker| worker.begin(level));
        order.iter().for_each(|number| workers[*number].step());
        assert_ne!(workers[0].job, workers[1].job, "{order:?}");
        // Who was refused runs its transaction again.
        for worker in &mut workers {
            if let Some(why) = worker.refused.take() {
                refused.push(why);
                worker.begin(level);
                (0..CALLS.len()).for_each(|_| worker.step());
                assert_eq!(worker.refused, None, "{order:?}");
            }
        }
        assert_eq!(workers[0].session.count("agentq.job_queue WHERE state <> 'succeeded'"), 0, "{order:?}");
    }
    db.assert_sound();
    (orders.len(), refused)
}

#[test]
fn workers_with_different_jobs_do_not_meet_below_serializable() {
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        assert_eq!(play(level).1, Vec::<String>::new(), "{level}");
    }
}

#[test]
fn at_serializable_workers_with_different_jobs_may_be_refused_and_run_again() {
    let (played, refused) = play("SERIALIZABLE");
    println!("{} of {played} interleavings at SERIALIZABLE: one worker was refused", refused.len());
    // Not all of them: who claims before the other has read any lease goes on.
    assert!(!refused.is_empty() && refused.len() < played, "{} of {played}", refused.len());
}

#[test]
fn at_serializable_workers_that_commit_each_call_finish_every_job_by_calling_again() {
    let db = database();
    let (mut one, mut two) = (db.session(), db.session());
    for session in [&mut one, &mut two] {
        session.run("SET default_transaction_isolation = 'serializable'");
    }
    one.run("SELECT agentq.fn_job_enqueue('x', 'key-' || i) FROM generate_series(1, 40) i");
    std::thread::scope(|scope| {
        scope.spawn(|| work(&mut one, "one"));
        work(&mut two, "two");
    });
    assert_eq!(one.count("agentq_internal.job_done"), 40);
    db.assert_sound();
}

/// Works off twenty jobs, and shows how often a call had to be made again.
fn work(session: &mut Session, name: &str) {
    let mut again = 0;
    let mut insist = |call: &str| loop {
        match ask(session, call) {
            Ok(answer) => return answer,
            Err(error) => {
                let code = error.code().map(|code| code.code().to_owned());
                assert_eq!(code.as_deref(), Some("40001"), "{call}: {error:?}");
                again += 1;
            }
        }
    };
    for _ in 0..20 {
        let claim = insist(&format!("fn_job_claim('{name}')"));
        let job = claim["job_id"].as_str().unwrap_or_else(|| panic!("no job: {claim}")).to_owned();
        for call in ["fn_job_heartbeat", "fn_job_ack"] {
            let answer = insist(&format!("{call}('{job}', '{name}')"));
            assert_eq!(answer["ok"], true, "{call}: {answer}");
        }
    }
    println!("{name}: of 60 single calls at SERIALIZABLE {again} were made again");
}
