//! Claims that wait inside the server.

use agentq_tests::engine::database;
use agentq_tests::{Cluster, Database, Options, Session, Value, eventually, id};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Starts a claim in a session of its own, and waits until it waits.
fn waiting(db: &Database<'_>, call: &str) -> JoinHandle<(Value, Duration)> {
    let before = waiters(db);
    let mut s = db.session();
    let call = call.to_owned();
    let claim = std::thread::spawn(move || {
        let began = Instant::now();
        (s.call(&call), began.elapsed())
    });
    eventually("the claim waits", || waiters(db) > before || claim.is_finished());
    claim
}

fn waiters(db: &Database<'_>) -> i64 {
    db.session().text("SELECT waiting_claims FROM agentq.v_engine_status").parse().expect("a number")
}

const CLAIM: &str = "fn_job_claim('w', 'x', p_wait => '30 s')";

#[track_caller]
fn gets(claim: JoinHandle<(Value, Duration)>, job: &str) {
    let (answer, took) = claim.join().expect("the claim ends");
    assert_eq!(answer["job_id"], job, "{answer} after {took:?}");
    // Far less than the ten seconds after which it would have looked by itself.
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn a_waiting_claim_gets_the_job_that_commits() {
    let db = database();
    let mut producer = db.session();
    for shape in [
        CLAIM,
        "fn_job_claim('w', p_wait => '30 s')",
        "fn_job_claim('w', p_options => '{\"kinds\": [\"x\", \"y\"]}', p_wait => '30 s')",
    ] {
        let claim = waiting(&db, shape);
        producer.run("BEGIN");
        let job = producer.enqueue("x");
        std::thread::sleep(Duration::from_millis(300));
        assert!(!claim.is_finished(), "it has not committed yet");
        producer.run("COMMIT");
        gets(claim, &job);
    }
    db.assert_sound();
}

#[test]
fn a_waiting_claim_gets_jobs_that_fall_due() {
    let db = database();
    let mut producer = db.session();
    let claim = waiting(&db, CLAIM);
    let job = id(&producer.call("fn_job_enqueue('x', p_scheduled_at => clock_timestamp() + interval '1.2 s')"));
    gets(claim, &job);
    // One that was scheduled before the claim came.
    let job = id(&producer.call("fn_job_enqueue('x', p_scheduled_at => clock_timestamp() + interval '1.2 s')"));
    gets(waiting(&db, CLAIM), &job);
}

#[test]
fn a_waiting_claim_gets_jobs_that_come_back() {
    let db = database();
    let mut holder = db.session();
    holder.call("fn_config_set('queue.retry.backoff_base_sec', '1')");
    let job = holder.enqueue("x");
    holder.call("fn_job_claim('h', 'x')");
    let claim = waiting(&db, CLAIM);
    holder.call(&format!("fn_job_release('{job}', 'h')"));
    gets(claim, &job);
    holder.call(&format!("fn_job_fail_or_retry('{job}', 'w', 'no')"));
    gets(waiting(&db, "fn_job_claim('gone', 'x', 1, p_wait => '30 s')"), &job);
    gets(waiting(&db, CLAIM), &job);
    holder.call(&format!("fn_job_snooze('{job}', 'w', clock_timestamp() + interval '1 s')"));
    gets(waiting(&db, CLAIM), &job);
}

#[test]
fn a_waiting_claim_wakes_when_its_queue_is_resumed() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_pause('default')");
    let job = s.enqueue("x");
    let claim = waiting(&db, CLAIM);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!claim.is_finished());
    s.call("fn_queue_resume('default')");
    gets(claim, &job);
}

#[test]
fn a_job_of_another_kind_wakes_nobody_and_time_runs_out() {
    let db = database();
    let claim = waiting(&db, "fn_job_claim_batch('w', 5, 'x', p_wait => '1.5 s')");
    db.session().enqueue("y");
    let (answer, took) = claim.join().expect("it ends");
    assert_eq!((answer["code"].as_str(), answer["count"].as_i64()), (Some("empty"), Some(0)));
    assert!(took >= Duration::from_millis(1400), "{took:?}");
    assert_eq!(waiters(&db), 0);
}

#[test]
fn dozens_of_waiting_claims_get_a_job_each() {
    let db = database();
    let claims: Vec<_> = (0..48).map(|_| waiting(&db, CLAIM)).collect();
    assert_eq!(waiters(&db), 48);
    db.session().run("SELECT agentq.fn_job_enqueue('x') FROM generate_series(1, 30)");
    let mut producer = db.session();
    for _ in 0..18 {
        producer.enqueue("x");
    }
    let mut jobs: Vec<String> = claims
        .into_iter()
        .map(|claim| {
            let (answer, took) = claim.join().expect("it ends");
            assert!(took < Duration::from_secs(9), "{took:?}");
            id(&answer)
        })
        .collect();
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), 48);
    db.assert_sound();
}

#[test]
fn a_cancelled_or_killed_claim_leaves_at_once_and_passes_its_call_on() {
    let db = database();
    let mut admin = db.session();
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        let mut doomed = db.session();
        let pid = doomed.text("SELECT pg_backend_pid()");
        let claim = std::thread::spawn(move || doomed.0.simple_query(&format!("SELECT agentq.{CLAIM}")).is_err());
        eventually("it waits", || waiters(&db) == 1);
        let began = Instant::now();
        admin.run(&format!("SELECT {end}({pid})"));
        assert!(claim.join().expect("it ends"), "it was not cancelled");
        assert!(began.elapsed() < Duration::from_secs(5));
        eventually("its place is free", || waiters(&db) == 0);
    }
    // A call goes to the one who has waited longest; if that one ends, to the next.
    let mut doomed = db.session();
    let pid = doomed.text("SELECT pg_backend_pid()");
    let first = std::thread::spawn(move || doomed.0.simple_query(&format!("SELECT agentq.{CLAIM}")).is_err());
    eventually("it waits", || waiters(&db) == 1);
    let second = waiting(&db, CLAIM);
    admin.run("BEGIN");
    let job = admin.enqueue("x");
    admin.run(&format!("SELECT pg_terminate_backend({pid})"));
    admin.run("COMMIT");
    first.join().expect("it ends");
    let (answer, _) = second.join().expect("it ends");
    let taken = answer["job_id"] == job.as_str();
    assert!(taken || db.session().state(&job) == "leased", "{answer}");
}

#[test]
fn a_claim_that_cannot_see_new_jobs_does_not_wait_for_them() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    let failure = s.fails(&format!("SELECT agentq.{CLAIM}"));
    assert_eq!(failure.code, "22023");
    assert!(failure.hint.contains("READ COMMITTED"), "{failure:?}");
    s.run("ROLLBACK");
    for wait in ["-1 s", "61 s", "1 month"] {
        let failure = s.fails(&format!("SELECT agentq.fn_job_claim('w', p_wait => '{wait}')"));
        assert_eq!(failure.code, "22023", "{failure:?}");
        assert!(failure.message.starts_with("p_wait must be from 0 to 60 seconds"), "{failure:?}");
    }
}

#[test]
fn a_waiting_claim_keeps_no_due_job_of_another_kind_from_others() {
    let db = database();
    let mut s = db.session();
    s.call("fn_engine_chore_set('promote_due', p_enabled => false)");
    s.call("fn_job_enqueue('other', p_scheduled_at => clock_timestamp() + interval '0.5 s')");
    let claim = waiting(&db, "fn_job_claim('w', 'x', p_wait => '4 s')");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(s.call("fn_job_claim('w', 'other')")["code"], "claimed");
    assert_eq!(claim.join().expect("it ends").0["code"], "empty");
}

#[test]
fn without_the_preload_a_waiting_claim_looks_again() {
    let cluster = Cluster::start("polling", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let mut worker: Session = db.session();
    let claim = std::thread::spawn(move || worker.call(CLAIM));
    std::thread::sleep(Duration::from_millis(700));
    let job = db.session().enqueue("x");
    assert_eq!(claim.join().expect("it ends")["job_id"], job.as_str());
}

#[test]
fn waiting_claims_sleep() {
    let db = database();
    let mut doomed: Vec<(String, JoinHandle<_>)> = Vec::new();
    for _ in 0..20 {
        let mut s = db.session();
        let pid = s.text("SELECT pg_backend_pid()");
        let call = "SELECT agentq.fn_job_claim('w', 'x', p_wait => '5 s')";
        doomed.push((pid, std::thread::spawn(move || s.0.simple_query(call).is_ok())));
    }
    eventually("they wait", || waiters(&db) == 20);
    // Claims that looked again and again would take all the CPU there is.
    let used = || -> u64 { doomed.iter().map(|(pid, _)| used(pid)).sum() };
    let before = used();
    std::thread::sleep(Duration::from_secs(2));
    let after = used();
    assert!(after - before < 40, "{} hundredths of a second", after - before);
    for (_, claim) in doomed {
        assert!(claim.join().expect("it ends"));
    }
}

#[test]
fn a_claim_that_is_rolled_back_wakes_one_that_waits() {
    let db = database();
    let mut other = db.session();
    let job = other.enqueue("x");
    other.run("BEGIN");
    other.call("fn_job_claim('other', 'x')");
    let claim = waiting(&db, CLAIM);
    other.run("ROLLBACK");
    gets(claim, &job);
}

/// Hundredths of a second of CPU that a process has used.
fn used(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

#[test]
fn a_due_job_that_cannot_be_moved_keeps_nobody_busy() {
    let db = database();
    let (mut holder, mut s) = (db.session(), db.session());
    holder.call("fn_job_enqueue('held', p_scheduled_at => clock_timestamp() + interval '0.5 s')");
    holder.run("BEGIN; SELECT * FROM agentq.job_waiting FOR UPDATE");
    let pid = s.text("SELECT pg_backend_pid()");
    let claim = std::thread::spawn(move || s.call("fn_job_claim('w', 'x', p_wait => '4 s')"));
    std::thread::sleep(Duration::from_millis(1200));
    let worker = agentq_tests::engine::worker_pid(&mut db.session());
    let before = used(&pid) + used(&worker);
    std::thread::sleep(Duration::from_secs(2));
    let after = used(&pid) + used(&worker);
    assert!(after - before < 40, "{} hundredths of a second", after - before);
    assert_eq!(claim.join().expect("it ends")["code"], "empty");
    holder.run("ROLLBACK");
    eventually("it is made ready", || db.session().count("agentq.job_ready") == 1);
}
