//! Claims that wait inside the server.

use agentq_tests::engine::{database, worker_pid};
use agentq_tests::process::cpu_used;
use agentq_tests::{Cluster, Database, Options, Session, Value, eventually, id, sooner_than, timed, until_waiting};
use std::thread::JoinHandle;
use std::time::Duration;

/// Starts a claim in a session of its own, and waits until it waits.
pub fn waiting(db: &Database<'_>, call: &str) -> JoinHandle<(Value, Duration)> {
    let before = waiters(db);
    let claim = started(db, call);
    eventually("the claim waits", || waiters(db) > before || claim.is_finished());
    claim
}

fn started(db: &Database<'_>, call: &str) -> JoinHandle<(Value, Duration)> {
    let (mut s, call) = (db.session(), call.to_owned());
    std::thread::spawn(move || timed(|| s.call(&call)))
}

fn waiters(db: &Database<'_>) -> i64 {
    db.session().text("SELECT waiting_claims FROM agentq.v_engine_status").parse().expect("a number")
}

pub const CLAIM: &str = "fn_job_claim('w', 'x', p_wait => '60 s')";
/// A waiting claim looks by itself ten seconds after it has begun to wait.
const BY_ITSELF: Duration = Duration::from_secs(9);

/// Each claim gets its job, and once at least because it was told of it. The job is done then.
#[track_caller]
pub fn is_told(db: &Database<'_>, mut once: impl FnMut() -> (JoinHandle<(Value, Duration)>, String)) {
    let mut s = db.session();
    sooner_than(BY_ITSELF, "it was told, and did not just look again", || {
        let (claim, job) = once();
        let (answer, took) = claim.join().expect("the claim ends");
        assert_eq!(answer["job_id"], job, "{answer} after {took:?}");
        s.call(&format!("fn_job_ack('{job}', 'w')"));
        took
    });
}

#[test]
fn a_waiting_claim_gets_the_job_that_commits() {
    let db = database();
    let mut producer = db.session();
    for shape in [
        CLAIM,
        "fn_job_claim('w', p_wait => '60 s')",
        "fn_job_claim('w', p_options => '{\"kinds\": [\"x\", \"y\"]}', p_wait => '60 s')",
    ] {
        is_told(&db, || {
            let claim = waiting(&db, shape);
            producer.run("BEGIN");
            let job = producer.enqueue("x");
            std::thread::sleep(Duration::from_millis(300));
            assert!(!claim.is_finished(), "it has not committed yet");
            producer.run("COMMIT");
            (claim, job)
        });
    }
    db.assert_sound();
}

#[test]
fn a_waiting_claim_gets_jobs_that_fall_due() {
    let db = database();
    let mut producer = db.session();
    let enqueue = "fn_job_enqueue('x', p_scheduled_at => clock_timestamp() + interval '1.2 s')";
    is_told(&db, || (waiting(&db, CLAIM), id(&producer.call(enqueue))));
    // One that was scheduled before the claim came.
    is_told(&db, || {
        let job = id(&producer.call(enqueue));
        (waiting(&db, CLAIM), job)
    });
}

#[test]
fn a_waiting_claim_gets_jobs_that_come_back() {
    let db = database();
    let mut holder = db.session();
    holder.call("fn_config_set('queue.retry.backoff_base_sec', '1')");
    let mut held = |owner: &str, seconds: i32| {
        let job = holder.enqueue("x");
        holder.call(&format!("fn_job_claim('{owner}', 'x', {seconds})"));
        job
    };
    let mut boss = db.session();
    is_told(&db, || {
        let job = held("h", 600);
        let claim = waiting(&db, CLAIM);
        boss.call(&format!("fn_job_release('{job}', 'h')"));
        (claim, job)
    });
    is_told(&db, || {
        let job = held("h", 600);
        boss.call(&format!("fn_job_fail_or_retry('{job}', 'h', 'no')"));
        (waiting(&db, CLAIM), job)
    });
    is_told(&db, || {
        let job = held("gone", 1);
        (waiting(&db, CLAIM), job)
    });
    is_told(&db, || {
        let job = held("h", 600);
        boss.call(&format!("fn_job_snooze('{job}', 'h', clock_timestamp() + interval '1 s')"));
        (waiting(&db, CLAIM), job)
    });
}

#[test]
fn a_waiting_claim_wakes_when_its_queue_is_resumed() {
    let db = database();
    let mut s = db.session();
    is_told(&db, || {
        s.call("fn_queue_pause('default')");
        let job = s.enqueue("x");
        let claim = waiting(&db, CLAIM);
        std::thread::sleep(Duration::from_millis(300));
        assert!(!claim.is_finished());
        s.call("fn_queue_resume('default')");
        (claim, job)
    });
}

#[test]
fn a_job_of_another_kind_wakes_nobody_and_time_runs_out() {
    let db = database();
    let claim = waiting(&db, "fn_job_claim_batch('w', 5, 'x', p_wait => '1.5 s')");
    db.session().enqueue("y");
    let (answer, took) = claim.join().expect("it ends");
    assert_eq!((answer["code"].as_str(), answer["count"].as_i64()), (Some("empty"), Some(0)));
    assert!(took >= Duration::from_millis(1500), "{took:?}");
    assert_eq!(waiters(&db), 0);
}

#[test]
fn dozens_of_waiting_claims_get_a_job_each() {
    let db = database();
    sooner_than(BY_ITSELF, "each was told, and did not just look again", || {
        let claims: Vec<_> = (0..48).map(|_| started(&db, CLAIM)).collect();
        eventually("all wait", || waiters(&db) == 48);
        db.session().run("SELECT agentq.fn_job_enqueue('x') FROM generate_series(1, 30)");
        let mut producer = db.session();
        for _ in 0..18 {
            producer.enqueue("x");
        }
        let answers: Vec<_> = claims.into_iter().map(|claim| claim.join().expect("it ends")).collect();
        let mut jobs: Vec<String> = answers.iter().map(|(answer, _)| id(answer)).collect();
        jobs.sort();
        jobs.dedup();
        assert_eq!(jobs.len(), 48);
        answers.iter().map(|(_, took)| *took).max().unwrap_or_default()
    });
    db.assert_sound();
}

#[test]
fn a_cancelled_or_killed_claim_leaves_at_once_and_passes_its_call_on() {
    let db = database();
    let mut admin = db.session();
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        sooner_than(BY_ITSELF, "it leaves at once, and not when it looks again", || {
            let mut doomed = db.session();
            let pid = doomed.text("SELECT pg_backend_pid()");
            let claim =
                std::thread::spawn(move || timed(|| doomed.0.simple_query(&format!("SELECT agentq.{CLAIM}")).is_err()));
            eventually("it waits", || waiters(&db) == 1);
            admin.run(&format!("SELECT {end}({pid})"));
            let (was_cancelled, took) = claim.join().expect("it ends");
            assert!(was_cancelled, "it was not cancelled");
            eventually("its place is free", || waiters(&db) == 0);
            took
        });
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
    let claim = waiting(&db, CLAIM);
    eventually("the other one is claimed", || s.call("fn_job_claim('w', 'other')")["code"] == "claimed");
    assert!(!claim.is_finished(), "it waits for its own");
    s.enqueue("x");
    assert_eq!(claim.join().expect("it ends").0["code"], "claimed");
}

#[test]
fn without_the_preload_a_waiting_claim_looks_again() {
    let cluster = Cluster::start("polling", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let mut worker: Session = db.session();
    let claim = std::thread::spawn(move || worker.call(CLAIM));
    until_waiting(&mut db.session());
    let job = db.session().enqueue("x");
    assert_eq!(claim.join().expect("it ends")["job_id"], job.as_str());
}

/// The CPU time that these processes use in two seconds, in hundredths of a second, must be next to nothing: claims that
/// looked again and again would take all there is.
fn assert_at_rest(pids: &[String]) {
    let used = || -> u64 { pids.iter().map(|pid| cpu_used(pid)).sum() };
    let before = used();
    std::thread::sleep(Duration::from_secs(2));
    let after = used();
    assert!(after - before < 40, "{} hundredths of a second", after - before);
}

#[test]
fn waiting_claims_sleep() {
    let db = database();
    let mut claims: Vec<(String, JoinHandle<_>)> = Vec::new();
    for _ in 0..20 {
        let mut s = db.session();
        let pid = s.text("SELECT pg_backend_pid()");
        claims.push((pid, std::thread::spawn(move || s.call(CLAIM))));
    }
    eventually("they wait", || waiters(&db) == 20);
    let (pids, claims): (Vec<String>, Vec<_>) = claims.into_iter().unzip();
    assert_at_rest(&pids);
    db.session().run("SELECT agentq.fn_job_enqueue('x') FROM generate_series(1, 20)");
    for claim in claims {
        assert_eq!(claim.join().expect("it ends")["code"], "claimed");
    }
}

#[test]
fn a_claim_that_is_rolled_back_wakes_one_that_waits() {
    let db = database();
    let mut other = db.session();
    is_told(&db, || {
        let job = other.enqueue("x");
        other.run("BEGIN");
        other.call("fn_job_claim('other', 'x')");
        let claim = waiting(&db, CLAIM);
        other.run("ROLLBACK");
        (claim, job)
    });
}

#[test]
fn a_due_job_that_cannot_be_moved_keeps_nobody_busy() {
    let db = database();
    let (mut holder, mut s, mut look) = (db.session(), db.session(), db.session());
    holder.call("fn_job_enqueue('held', p_scheduled_at => clock_timestamp() + interval '0.5 s')");
    holder.run("BEGIN; SELECT * FROM agentq_internal.job_waiting FOR UPDATE");
    let pid = s.text("SELECT pg_backend_pid()");
    let claim = std::thread::spawn(move || s.call(CLAIM));
    until_waiting(&mut look);
    let due = "agentq_internal.job_waiting WHERE scheduled_at < clock_timestamp() - interval '0.5 s'";
    eventually("the job is due", || look.count(due) == 1);
    assert_at_rest(&[pid, worker_pid(&mut look)]);
    assert!(!claim.is_finished(), "there was nothing to claim");
    look.enqueue("x");
    assert_eq!(claim.join().expect("it ends")["code"], "claimed");
    holder.run("ROLLBACK");
    eventually("it is made ready", || look.count("agentq_internal.job_ready") == 1);
}
