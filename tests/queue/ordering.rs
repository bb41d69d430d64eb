//! Ordering keys: one at a time, in order, across retries.

use agentq_tests::{
    Cluster, Options, PATIENCE, Session, claimed, database, eventually, expect, id, json, refused, until_someone_waits,
};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[track_caller]
fn enqueue(s: &mut Session, key: &str, more: &str) -> String {
    id(&s.call(&format!("fn_job_enqueue('x', p_options => '{{\"ordering_key\": \"{key}\"}}'{more})")))
}

#[track_caller]
fn ack(s: &mut Session, job: &str) {
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
}

#[test]
fn jobs_with_one_key_run_one_at_a_time_in_order() {
    let db = database();
    let mut s = db.session();
    let jobs: Vec<String> = (0..4).map(|_| enqueue(&mut s, "a", "")).collect();
    let other = enqueue(&mut s, "b", "");
    let plain = s.enqueue("x");
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
    // Others are not held up.
    assert_eq!(id(&claimed(&mut s, "bob")), other);
    assert_eq!(id(&claimed(&mut s, "bob")), plain);
    assert_eq!(s.claim("bob")["code"], "empty");
    for (number, job) in jobs.iter().enumerate() {
        ack(&mut s, job);
        match jobs.get(number + 1) {
            Some(next) => assert_eq!(id(&claimed(&mut s, "bob")), *next),
            None => assert_eq!(s.claim("bob")["code"], "empty"),
        }
        db.assert_sound();
    }
    ack(&mut s, &other);
    assert_eq!(s.count("agentq_internal.job_order"), 0);
    // The key is new again.
    let again = enqueue(&mut s, "a", "");
    assert_eq!(id(&claimed(&mut s, "bob")), again);
}

#[test]
fn a_retry_keeps_its_place_and_every_end_lets_the_next_one_in() {
    let db = database();
    let mut s = db.session();
    for end in [
        "fn_job_fail_or_retry('JOB', 'bob', 'boom', 'validation_error')",
        "fn_job_fail_or_retry('JOB', 'bob', 'boom', p_verdict => 'discard')",
        "fn_job_move_to_dead_letter('JOB', 'no')",
        "fn_job_ack_batch('bob', '[\"JOB\"]')",
        "fn_job_ack_and_claim('JOB', 'bob', p_job_kind => 'none')",
    ] {
        let jobs: Vec<String> = (0..2).map(|_| enqueue(&mut s, "a", "")).collect();
        claimed(&mut s, "bob");
        // Failed, given back, silent: the second waits all the while.
        expect(
            &mut s,
            "retry_waiting",
            &format!("fn_job_fail_or_retry('{}', 'bob', 'boom', p_retry_after => '1 hour')", jobs[0]),
        );
        assert_eq!(s.claim("bob")["code"], "empty", "{end}");
        s.shift_clock(3601);
        assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
        expect(&mut s, "released", &format!("fn_job_release('{}', 'bob')", jobs[0]));
        assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
        s.shift_clock(4000);
        assert_eq!(id(&claimed(&mut s, "bob")), jobs[0], "{end}");
        s.call(&end.replace("JOB", &jobs[0]));
        assert_eq!(id(&claimed(&mut s, "bob")), jobs[1], "{end}");
        ack(&mut s, &jobs[1]);
        s.shift_clock(0);
        db.assert_sound();
    }
}

#[test]
fn what_stands_behind_can_be_changed_cancelled_and_miss_its_deadline() {
    let db = database();
    let mut s = db.session();
    let head = enqueue(&mut s, "a", "");
    let jobs: Vec<String> = (0..4).map(|_| enqueue(&mut s, "a", "")).collect();
    let options = "jsonb_build_object('ordering_key', 'a', 'start_by', now() + interval '1 s')";
    let late = id(&s.call(&format!("fn_job_enqueue('x', p_options => {options})")));
    expect(&mut s, "changed", &format!("fn_job_change('{}', '{{\"priority\": 1}}')", jobs[2]));
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{}')", jobs[0]));
    s.shift_clock(5);
    s.call("fn_engine_tick('enforce_deadlines')");
    s.shift_clock(0);
    assert_eq!(s.state(&late), "dead_letter");
    db.assert_sound();
    // The head itself may be cancelled before it runs: the most urgent is next, then the oldest.
    assert_eq!(s.call("fn_job_claim_batch('nobody', 10, 'other')")["count"], json!(0));
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{head}')"));
    for job in [&jobs[2], &jobs[1], &jobs[3]] {
        assert_eq!(id(&claimed(&mut s, "bob")), *job);
        ack(&mut s, job);
    }
    assert_eq!(s.count("agentq_internal.job_order"), 0);
    db.assert_sound();
}

#[test]
fn an_ack_waits_for_no_producer_and_what_that_puts_behind_is_not_forgotten() {
    let db = database();
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        let (mut s, mut open) = (db.session(), db.session());
        let head = enqueue(&mut s, "a", "");
        claimed(&mut s, "bob");
        open.run("BEGIN");
        let behind = enqueue(&mut open, "a", "");
        let mut acker = db.session();
        acker.run(&format!("SET lock_timeout = '2s'; SET default_transaction_isolation = '{level}'"));
        ack(&mut acker, &head);
        // Nothing is there to be claimed, however often somebody asks, and all is in order.
        assert_eq!(s.claim("bob")["code"], "empty", "{level}");
        db.assert_sound();
        // Another comes in meanwhile, and need not wait either.
        acker.run("SET default_transaction_isolation = 'read committed'");
        let second = enqueue(&mut acker, "a", "");
        assert_eq!(s.call(&format!("fn_job_explain('{second}')"))["gates"][0]["gate"], "ordering_key");
        // It goes on although the producer has not ended: who has not committed has not come yet.
        assert_eq!(claimed_in_time(&mut s), second, "{level}");
        open.run("COMMIT");
        ack(&mut s, &second);
        assert_eq!(claimed_in_time(&mut s), behind, "{level}");
        ack(&mut s, &behind);
        // And one that is rolled back is.
        let head = enqueue(&mut s, "a", "");
        claimed(&mut s, "bob");
        open.run("BEGIN");
        enqueue(&mut open, "a", "");
        ack(&mut acker, &head);
        open.run("ROLLBACK");
        eventually("the key is free", || {
            assert_eq!(s.claim("bob")["code"], "empty");
            s.count("agentq_internal.job_order_due") == 0
        });
        assert_eq!(s.count("agentq_internal.job_order"), 0);
    }
    db.assert_sound();
}

/// The next job that bob gets. What somebody was in the way of is tried again after a while.
#[track_caller]
fn claimed_in_time(s: &mut Session) -> String {
    let mut job = String::new();
    eventually("a job", || {
        let claim = s.claim("bob");
        job = claim["job_id"].as_str().unwrap_or_default().to_owned();
        claim["code"] == "claimed"
    });
    job
}

/// The job that is next is being changed in an open transaction: no other overtakes it, and nobody waits.
#[test]
fn a_next_one_that_somebody_changes_holds_up_its_own_key_only() {
    let db = database();
    let (mut s, mut open) = (db.session(), db.session());
    s.run("SET lock_timeout = '2s'");
    let heads = [enqueue(&mut s, "a", ""), enqueue(&mut s, "b", ", p_max_attempts => 1")];
    let jobs: Vec<String> = ["a", "a", "b", "b"].iter().map(|key| enqueue(&mut s, key, "")).collect();
    expect(&mut s, "claimed", "fn_job_claim('bob', 'x')");
    expect(&mut s, "claimed", "fn_job_claim('eve', 'x', 1)");
    let plain = id(&s.call("fn_job_enqueue('y', p_max_attempts => 1)"));
    expect(&mut s, "claimed", "fn_job_claim('eve', 'y', 1)");
    open.run("BEGIN");
    for job in [&jobs[0], &jobs[2]] {
        expect(&mut open, "changed", &format!("fn_job_change('{job}', '{{\"payload_json\": {{}}}}')"));
    }
    ack(&mut s, &heads[0]);
    s.shift_clock(2);
    let ticked = s.call("fn_engine_tick('reap_leases')");
    assert_eq!(ticked["failed"], json!(0), "{ticked}");
    assert_eq!((s.state(&heads[1]).as_str(), s.state(&plain).as_str()), ("dead_letter", "dead_letter"));
    assert_eq!(s.claim("bob")["code"], "empty");
    let ticked = s.call("fn_engine_tick()");
    assert_eq!(ticked["failed"], json!(0), "{ticked}");
    db.assert_sound();
    open.run("COMMIT");
    let mut next = vec![claimed_in_time(&mut s), claimed_in_time(&mut s)];
    next.sort();
    assert_eq!(next, [jobs[0].clone(), jobs[2].clone()]);
    for (job, behind) in [(&jobs[0], &jobs[1]), (&jobs[2], &jobs[3])] {
        ack(&mut s, job);
        assert_eq!(claimed_in_time(&mut s), *behind);
        ack(&mut s, behind);
    }
    assert_eq!(s.count("agentq_internal.job_order"), 0);
    db.assert_sound();
}

/// Without an engine the claims of one who is never without work do it; and a server that stops forgets nothing.
#[test]
fn keys_without_a_head_go_on_without_the_engine_and_after_a_crash() {
    for preload in [true, false] {
        let options = Options { without_preload: !preload, ..Options::default() };
        let mut cluster = Cluster::start("ordering_left", &options);
        cluster.make_template();
        let (mut s, mut open) = (cluster.session("agentq_template"), cluster.session("agentq_template"));
        let head = enqueue(&mut s, "a", "");
        claimed(&mut s, "bob");
        open.run("BEGIN");
        let behind = enqueue(&mut open, "a", "");
        ack(&mut s, &head);
        open.run("COMMIT");
        if preload {
            cluster.crash_and_restart();
            s = cluster.session("agentq_template");
        }
        let began = std::time::Instant::now();
        loop {
            s.enqueue("other");
            if id(&claimed(&mut s, "bob")) == behind {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "preload {preload}");
        }
        assert_eq!(s.texts("SELECT problem FROM agentq.fn_queue_verify()"), [] as [&str; 0]);
    }
}

#[test]
fn two_new_jobs_of_one_key_agree_on_their_head() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    a.run("BEGIN");
    let first = enqueue(&mut a, "k", "");
    let second = std::thread::spawn(move || enqueue(&mut b, "k", ""));
    until_someone_waits(&mut db.session());
    a.run("COMMIT");
    let second = second.join().expect("no panic");
    assert_eq!(id(&claimed(&mut a, "bob")), first);
    assert_eq!(a.claim("bob")["code"], "empty");
    ack(&mut a, &first);
    assert_eq!(id(&claimed(&mut a, "bob")), second);
    db.assert_sound();
}

#[test]
fn a_batch_and_a_queue_of_its_own() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let batch = s.call(
        r#"fn_job_enqueue_batch('[{"job_kind": "x", "ordering_key": "a"}, {"job_kind": "x", "ordering_key": "a"},
            {"job_kind": "x", "ordering_key": "a", "queue": "mail"}, {"job_kind": "x"}]')"#,
    );
    assert_eq!(batch["created"], json!(4));
    assert_eq!(s.call("fn_job_claim_batch('bob', 10)")["count"], json!(2));
    assert_eq!(s.call("fn_job_claim_batch('bob', 10, p_options => '{\"queues\": [\"mail\"]}')")["count"], json!(1));
    for (options, message) in
        [(r#"{"ordering_key": 1}"#, "ordering_key must be a text"), (r#"{"ordering_key": ""}"#, "must not be empty")]
    {
        refused(&mut s, &format!("SELECT agentq.fn_job_enqueue('x', p_options => '{options}')"), "22023", message, "");
    }
    let sql = "SELECT agentq.fn_job_enqueue('x', p_options => '{\"limit_keys\": [\"order:a\"]}')";
    refused(&mut s, sql, "22023", "cannot be given to a job", "");
    db.assert_sound();
}

#[test]
fn many_workers_keep_every_key_in_order_through_retries_and_a_crash() {
    const JOBS: usize = 240;
    let mut cluster = Cluster::start("ordering", &Options::default());
    cluster.make_template();
    let mut s = cluster.session("agentq_template");
    let mut expected: HashMap<String, Vec<String>> = HashMap::new();
    for number in 0..JOBS {
        let key = format!("k{}", number % 8);
        let job = enqueue(&mut s, &key, "");
        expected.entry(key).or_default().push(job);
    }
    let run = |cluster: &Cluster, upto: usize, done: &Mutex<Vec<String>>| {
        let count = AtomicUsize::new(done.lock().expect("a list").len());
        std::thread::scope(|scope| {
            for number in 0..12 {
                let mut s = cluster.session("agentq_template");
                let count = &count;
                scope.spawn(move || {
                    while count.load(SeqCst) < upto {
                        let claim = s.claim("bob");
                        if claim["code"] != "claimed" {
                            continue;
                        }
                        let job = id(&claim);
                        if number % 3 == 0 && claim["attempt"] == json!(1) {
                            s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', p_retry_after => '0.02 s')"));
                            continue;
                        }
                        // Written down before it is acked: only one of a key is in hand at a time.
                        done.lock().expect("a list").push(job.clone());
                        ack(&mut s, &job);
                        count.fetch_add(1, SeqCst);
                    }
                });
            }
        });
    };
    let done = Mutex::new(Vec::new());
    run(&cluster, JOBS / 2, &done);
    cluster.crash_and_restart();
    let mut s = cluster.session("agentq_template");
    // What was in hand at the crash is given back.
    s.run("SELECT agentq.fn_job_release(job_id, 'bob') FROM agentq_internal.job_lease");
    assert_eq!(s.texts("SELECT problem FROM agentq.fn_queue_verify()"), [] as [&str; 0]);
    run(&cluster, JOBS, &done);
    let mut by_key: HashMap<String, Vec<String>> = HashMap::new();
    for job in done.into_inner().expect("a list") {
        let key = s.text(&format!("SELECT ordering_key FROM agentq_internal.job WHERE job_id = '{job}'"));
        by_key.entry(key).or_default().push(job);
    }
    assert_eq!(by_key, expected);
    assert_eq!(s.texts("SELECT problem FROM agentq.fn_queue_verify()"), [] as [&str; 0]);
    assert_eq!(s.count("agentq_internal.job_order"), 0);
}

#[test]
fn the_server_ends_heads_that_a_producer_is_behind() {
    let db = database();
    let (mut s, mut open) = (db.session(), db.session());
    // Two heads that the server itself would end: one out of attempts, one out of time.
    let silent = enqueue(&mut s, "a", ", p_max_attempts => 1");
    expect(&mut s, "claimed", "fn_job_claim('bob', 'x', 1)");
    let options = "jsonb_build_object('ordering_key', 'b', 'start_by', now() + interval '1 s')";
    let late = id(&s.call(&format!("fn_job_enqueue('x', p_options => {options})")));
    open.run("BEGIN");
    let behind = [enqueue(&mut open, "a", ""), enqueue(&mut open, "b", "")];
    s.run("SET lock_timeout = '2s'");
    s.shift_clock(2);
    assert_eq!(s.claim("cat")["code"], "empty");
    let ticked = s.call("fn_engine_tick()");
    assert_eq!(ticked["failed"], json!(0), "{ticked}");
    assert_eq!((s.state(&silent).as_str(), s.state(&late).as_str()), ("dead_letter", "dead_letter"));
    open.run("COMMIT");
    let mut next = [claimed_in_time(&mut s), claimed_in_time(&mut s)];
    next.sort();
    assert_eq!(next, behind);
    db.assert_sound();
}

#[test]
fn batches_of_acks_and_of_enqueues_do_not_meet_crosswise() {
    let db = database();
    let mut s = db.session();
    let keys = ["d", "c", "b", "a"];
    keys.iter().for_each(|key| drop(enqueue(&mut s, key, "")));
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (mut s, done) = (db.session(), &done);
            scope.spawn(move || {
                while done.load(SeqCst) < 400 {
                    s.call(
                        r#"fn_job_enqueue_batch('[{"job_kind": "x", "ordering_key": "d"}, {"job_kind": "x", "ordering_key": "c"},
                            {"job_kind": "x", "ordering_key": "b"}, {"job_kind": "x", "ordering_key": "a"}]')"#,
                    );
                }
            });
        }
        let done = &done;
        scope.spawn(move || {
            while done.load(SeqCst) < 400 {
                s.call("fn_job_claim_batch('bob', 10)");
                let acked =
                    s.call("fn_job_ack_batch('bob', (SELECT coalesce(jsonb_agg(job_id), '[]') FROM agentq_internal.job_lease))");
                done.fetch_add(acked["acked"].as_u64().unwrap_or_default() as usize, SeqCst);
            }
        });
    });
    db.assert_sound();
}
