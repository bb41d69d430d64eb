//! Many sessions at once: nothing is lost, nothing is done twice.

use agentq_tests::{Database, attempts, claimed, database, drain, enqueue_all, id, json, text, until_someone_waits};
use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

#[test]
fn one_job_and_fifty_sessions_make_one_holder() {
    const SESSIONS: usize = 50;
    let db = database();
    db.session().enqueue("x");
    let start = Barrier::new(SESSIONS);
    let holders: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SESSIONS)
            .map(|n| {
                let (db, start) = (&db, &start);
                scope.spawn(move || {
                    let mut s = db.session();
                    start.wait();
                    usize::from(s.claim(&format!("worker {n}"))["code"] == "claimed")
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no error")).sum()
    });
    assert_eq!(holders, 1);
    db.assert_sound();
}

#[test]
fn eight_workers_do_a_thousand_jobs_once_each() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_job_enqueue('k' || n % 3, p_priority => n % 4) FROM generate_series(1, 1000) n");
    let claims = [
        "fn_job_claim_batch('$me', 1)",
        "fn_job_claim_batch('$me', 10)",
        "fn_job_claim_batch('$me', 3, p_options => '{\"kinds\": [\"k0\", \"k1\", \"k2\"]}')",
        "fn_job_claim_batch('$me', 2)",
    ];
    let mut done: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let db = &db;
                let claim = claims[n % claims.len()].replace("$me", &format!("worker {n}"));
                scope.spawn(move || work_until_empty(db, n, &claim))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no error")).collect()
    });
    done.sort();
    let before = done.len();
    done.dedup();
    assert_eq!((before, done.len()), (1000, 1000));
    assert_eq!(s.count("agentq.job_queue WHERE state = 'succeeded'"), 1000);
    assert_eq!(s.count("agentq.job_attempt"), 1000);
    db.assert_sound();
}

fn work_until_empty(db: &Database<'_>, worker: usize, claim: &str) -> Vec<String> {
    let mut s = db.session();
    let mut done = Vec::new();
    loop {
        let answer = s.call(claim);
        if answer["code"] == "empty" {
            return done;
        }
        let jobs: Vec<String> =
            answer["jobs"].as_array().expect("jobs").iter().map(|job| text(job, "job_id")).collect();
        let owner = format!("worker {worker}");
        let acked = s.json("SELECT agentq.fn_job_ack_batch($1, $2)", &[&owner, &json!(jobs)]);
        assert_eq!(acked["acked"], json!(jobs.len()), "{acked}");
        done.extend(jobs);
    }
}

#[test]
fn expired_leases_are_recovered_once_by_many_sessions_at_once() {
    let db = database();
    let mut s = db.session();
    enqueue_all(&mut s, &["x"; 60], "");
    s.call("fn_job_claim_batch('silent', 60, NULL, 10)");
    let start = Barrier::new(6);
    let mut taken: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let mut s = db.session();
                    s.shift_clock(60);
                    start.wait();
                    drain(&mut s, "fn_job_claim('bob')", "job_id")
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no error")).collect()
    });
    // A session may have seen nothing while the others had everything in hand.
    let mut last = db.session();
    last.shift_clock(60);
    taken.extend(drain(&mut last, "fn_job_claim('bob')", "job_id"));
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 60);
    assert_eq!(s.count("agentq.job_attempt WHERE outcome = 'lease_expired'"), 60);
    assert_eq!(s.count("agentq.job_attempt"), 120);
    db.assert_sound();
}

#[test]
fn of_two_sessions_that_end_the_same_job_one_finds_it_finished() {
    let db = database();
    for (first, second) in [
        ("fn_job_cancel('$job')", "fn_job_cancel('$job')"),
        ("fn_job_cancel('$job')", "fn_job_move_to_dead_letter('$job', 'hopeless')"),
        ("fn_job_move_to_dead_letter('$job', 'hopeless')", "fn_job_cancel('$job')"),
    ] {
        let mut s = db.session();
        let job = s.enqueue("x");
        s.run("BEGIN");
        s.call(&first.replace("$job", &job));
        let answer = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| db.session().call(&second.replace("$job", &job)));
            until_someone_waits(&mut db.session());
            s.run("COMMIT");
            waiting.join().expect("it answers")
        });
        assert_eq!(answer["code"], "already_finished", "{first} and {second}: {answer}");
        assert!(attempts(&mut s, &job).is_empty());
    }
    db.assert_sound();
}

#[test]
fn producers_and_workers_at_the_same_time_leave_nothing_behind() {
    let db = database();
    let producing = AtomicI64::new(3);
    let mut done: Vec<String> = std::thread::scope(|scope| {
        for n in 0..3 {
            let (db, producing) = (&db, &producing);
            scope.spawn(move || {
                let mut s = db.session();
                for job in 0..200 {
                    s.call(&format!("fn_job_enqueue('x', p_priority => {})", (job + n) % 5));
                }
                producing.fetch_sub(1, SeqCst);
            });
        }
        let workers: Vec<_> = (0..3)
            .map(|n| {
                let (db, producing) = (&db, &producing);
                scope.spawn(move || {
                    let mut done = Vec::new();
                    loop {
                        let over = producing.load(SeqCst) == 0;
                        let claim = format!("fn_job_claim_batch('worker {n}', 5)");
                        let round = work_until_empty(db, n, &claim);
                        if over && round.is_empty() {
                            return done;
                        }
                        done.extend(round);
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|thread| thread.join().expect("no error")).collect()
    });
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 600);
    assert_eq!(db.session().count("agentq.job_queue WHERE state = 'succeeded'"), 600);
    db.assert_sound();
}

#[test]
fn a_hundred_sessions_enqueue_and_claim_at_the_same_instant() {
    const SESSIONS: usize = 100;
    let db = database();
    let start = Barrier::new(SESSIONS);
    std::thread::scope(|scope| {
        for n in 0..SESSIONS {
            let (db, start) = (&db, &start);
            scope.spawn(move || {
                let mut s = db.session();
                start.wait();
                s.enqueue(&format!("k{}", n % 3));
                s.claim(&format!("worker {n}"));
            });
        }
    });
    let mut s = db.session();
    let held = s.count("agentq.job_queue WHERE state = 'leased'");
    let left = drain(&mut s, "fn_job_claim('last')", "job_id").len() as i64;
    assert_eq!(held + left, SESSIONS as i64);
    let job = id(&s.call("fn_job_enqueue('x')"));
    assert_eq!(id(&claimed(&mut s, "last")), job);
    db.assert_sound();
}
