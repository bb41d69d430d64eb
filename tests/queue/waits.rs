//! Waiting for the end of a job, and claiming one given job.

use agentq_tests::{
    Cluster, Database, Options, Value, claimed, database, expect, id, json, refused, sooner_than, timed, until_waiting,
};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// A session that waits for the end of a job, for a minute at most.
fn waiter(db: &Database<'_>, job: &str) -> JoinHandle<(Value, Duration)> {
    let (mut s, call) = (db.session(), format!("fn_job_wait('{job}', '60 s')"));
    spawn(move || timed(|| s.call(&call)))
}

#[test]
fn a_wait_ends_with_the_commit_that_ends_the_job() {
    let db = database();
    let mut s = db.session();
    sooner_than(Duration::from_secs(4), "those who wait are told, and do not look by themselves", || {
        let job = s.enqueue("a");
        let (one, other) = (waiter(&db, &job), waiter(&db, &job));
        until_waiting(&mut s);
        claimed(&mut s, "bob");
        s.run("BEGIN");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob', '{{\"n\": 7}}')"));
        assert!(!one.is_finished(), "nothing is told before the commit");
        s.run("COMMIT");
        let mut longest = Duration::ZERO;
        for waiter in [one, other] {
            let (answer, took) = waiter.join().unwrap();
            assert_eq!(
                (&answer["ok"], &answer["code"], &answer["result"]["n"]),
                (&json!(true), &json!("succeeded"), &json!(7))
            );
            longest = longest.max(took);
        }
        longest
    });
    db.assert_sound();
}

#[test]
fn a_wait_tells_of_every_end() {
    let db = database();
    let mut s = db.session();
    for (end, code, error) in [
        ("fn_job_fail_or_retry('JOB', 'bob', 'no way', 'invalid_input')", "dead_letter", "no way"),
        ("fn_job_fail_or_retry('JOB', 'bob', 'not now', p_verdict => 'discard')", "failed", "not now"),
        ("fn_job_fail_or_retry('JOB', 'bob', 'withdrawn', p_verdict => 'cancel')", "cancelled", "withdrawn"),
        ("fn_job_move_to_dead_letter('JOB', 'by hand', 'ann')", "dead_letter", "by hand"),
    ] {
        let job = s.enqueue("a");
        let waits = waiter(&db, &job);
        until_waiting(&mut s);
        claimed(&mut s, "bob");
        s.call(&end.replace("JOB", &job));
        let (answer, _) = waits.join().unwrap();
        assert_eq!(
            (&answer["ok"], &answer["code"], &answer["error"]),
            (&json!(false), &json!(code), &json!(error)),
            "{answer}"
        );
        assert_eq!(answer["dead_letter_id"].is_string(), code != "failed", "{answer}");
    }
    // One that has ended before is not waited for; one that has not is pending.
    let job = s.enqueue("a");
    let pending = s.call(&format!("fn_job_wait('{job}', '0')"));
    assert_eq!(
        (&pending["ok"], &pending["code"], &pending["state"]),
        (&json!(true), &json!("pending"), &json!("queued"))
    );
    assert_eq!(s.call(&format!("fn_job_wait('{job}', '50 ms')"))["code"], "pending");
    s.call(&format!("fn_job_cancel('{job}', 'not needed')"));
    let over = s.call(&format!("fn_job_wait('{job}')"));
    assert_eq!((&over["code"], &over["error"]), (&json!("cancelled"), &json!("not needed")));
}

#[test]
fn a_rolled_back_end_is_none_and_without_the_preload_a_wait_looks_by_itself() {
    let cluster = Cluster::start("waits", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let (mut s, mut other) = (cluster.session("agentq_template"), cluster.session("agentq_template"));
    let job = s.enqueue("a");
    claimed(&mut s, "bob");
    s.run("BEGIN");
    s.call(&format!("fn_job_ack('{job}', 'bob')"));
    s.run("ROLLBACK");
    assert_eq!(other.call(&format!("fn_job_wait('{job}', '100 ms')"))["code"], "pending");
    let call = format!("fn_job_wait('{job}', '60 s')");
    let waits = spawn(move || other.call(&call));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(waits.join().unwrap()["code"], "succeeded");
}

#[test]
fn a_wait_that_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("a");
    let call = |wait: &str| format!("SELECT agentq.fn_job_wait('{job}', '{wait}')");
    refused(&mut s, &call("61 s"), "22023", "p_wait must be from 0 to 60 seconds", "call again");
    refused(&mut s, &call("-1 s"), "22023", "p_wait must be from 0 to 60 seconds", "call again");
    refused(&mut s, "SELECT agentq.fn_job_wait(gen_random_uuid(), '0')", "P0002", "there is no job", "job_id");
    s.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    let failure = s.fails(&call("1 s"));
    assert!(failure.code == "22023" && failure.hint.contains("READ COMMITTED"), "{failure:?}");
    s.run("ROLLBACK");
}

#[test]
fn one_given_job_is_claimed_whatever_stands_before_it() {
    let db = database();
    let mut s = db.session();
    let jobs: Vec<String> = (0..5).map(|_| s.enqueue("a")).collect();
    let claim = |job: &str| format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{job}\"}}')");
    let held = expect(&mut s, "claimed", &claim(&jobs[3]));
    assert_eq!((id(&held), held["lease_seconds"].as_i64()), (jobs[3].clone(), Some(300)));
    let again = s.call(&claim(&jobs[3]));
    assert_eq!((&again["code"], &again["state"]), (&json!("empty"), &json!("leased")));
    // What another session is claiming is not waited for.
    let mut other = db.session();
    other.run("BEGIN");
    expect(&mut other, "claimed", &claim(&jobs[1]));
    assert_eq!(s.call(&claim(&jobs[1]))["code"], "empty");
    other.run("ROLLBACK");
    expect(&mut s, "claimed", &claim(&jobs[1]));
    // A job whose time has not come, whose queue is paused, or that has ended is not given out.
    let later = id(&s.call("fn_job_enqueue('a', p_scheduled_at => now() + interval '1 hour')"));
    assert_eq!(s.call(&claim(&later))["code"], "empty");
    s.call("fn_queue_pause('default')");
    let paused = s.call(&claim(&jobs[0]));
    assert_eq!((&paused["code"], &paused["paused"]), (&json!("empty"), &json!(["default"])));
    s.call("fn_queue_resume('default')");
    s.call(&format!("fn_job_ack('{}', 'bob')", jobs[3]));
    assert_eq!(s.call(&claim(&jobs[3]))["state"], "succeeded");
    db.assert_sound();
}

#[test]
fn a_given_job_passes_the_gates_that_others_pass() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('tenant:1', '{\"max_concurrent\": 1}')");
    let limited = ", p_options => '{\"limit_keys\": [\"tenant:1\"]}'";
    let jobs: Vec<String> = (0..3).map(|_| id(&s.call(&format!("fn_job_enqueue('a' {limited})")))).collect();
    let claim = |job: &str| format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{job}\"}}')");
    expect(&mut s, "claimed", &claim(&jobs[2]));
    let kept_back = s.call(&claim(&jobs[1]));
    assert_eq!((&kept_back["code"], &kept_back["limited"]), (&json!("empty"), &json!(["tenant:1"])));
    s.call(&format!("fn_job_ack('{}', 'bob')", jobs[2]));
    // It stands in the line of its limit now, and may be taken from there.
    expect(&mut s, "claimed", &claim(&jobs[1]));
    // The second with an ordering key waits for the first.
    let order = ", p_options => '{\"ordering_key\": \"k\"}'";
    let ordered: Vec<String> = (0..2).map(|_| id(&s.call(&format!("fn_job_enqueue('o' {order})")))).collect();
    assert_eq!(s.call(&claim(&ordered[1]))["code"], "empty");
    expect(&mut s, "claimed", &claim(&ordered[0]));
    s.call(&format!("fn_job_ack('{}', 'bob')", ordered[0]));
    expect(&mut s, "claimed", &claim(&ordered[1]));
    // Only who can run it gets it; one with a fairness key need not wait for its turn.
    let able = id(&s.call("fn_job_enqueue('c', p_options => '{\"requires\": [\"gpu\"], \"fairness_key\": \"f:1\"}')"));
    assert_eq!(s.call(&claim(&able))["code"], "empty");
    expect(
        &mut s,
        "claimed",
        &format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{able}\", \"capabilities\": [\"gpu\"]}}')"),
    );
    let both = format!("SELECT agentq.fn_job_claim('bob', 'a', p_options => '{{\"job_id\": \"{able}\"}}')");
    refused(&mut s, &both, "22023", "p_options.job_id names one job", "alone");
    refused(
        &mut s,
        "SELECT agentq.fn_job_claim('bob', p_options => '{\"job_id\": \"7\"}')",
        "22023",
        "p_options.job_id must be a uuid",
        "fn_job_enqueue",
    );
    db.assert_sound();
}
