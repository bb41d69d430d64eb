//! Which job a claim gets: priority, then schedule, then age.

use agentq_tests::{claimed, database, drain, enqueue_all, eventually, expect, id, json, text};

const CLAIM: &str = "fn_job_claim('bob')";

#[test]
fn a_claim_of_an_empty_queue_says_so() {
    let db = database();
    let mut s = db.session();
    assert_eq!(s.claim("bob"), json!({"ok": true, "code": "empty"}));
    let batch = expect(&mut s, "empty", "fn_job_claim_batch('bob', 10)");
    assert_eq!((batch["count"].clone(), batch["jobs"].clone()), (json!(0), json!([])));
}

#[test]
fn priority_goes_before_schedule_and_schedule_before_age() {
    let db = database();
    let mut s = db.session();
    for (kind, priority, minutes_ago) in
        [("fourth", 100, 1), ("last", 200, 60), ("third", 100, 5), ("second", 5, 1), ("first", 0, 0)]
    {
        s.call(&format!(
            "fn_job_enqueue('{kind}', p_priority => {priority},
             p_scheduled_at => agentq.fn_clock_now() - interval '{minutes_ago} minutes')"
        ));
    }
    s.enqueue("fifth");
    assert_eq!(drain(&mut s, CLAIM, "job_kind"), ["first", "second", "third", "fourth", "fifth", "last"]);
}

#[test]
fn jobs_of_the_same_priority_go_in_the_order_they_came() {
    let db = database();
    let (mut producer, mut worker) = (db.session(), db.session());
    let jobs: Vec<String> = (0..50).map(|_| producer.enqueue("x")).collect();
    assert_eq!(drain(&mut worker, CLAIM, "job_id"), jobs);
}

#[test]
fn jobs_of_the_same_schedule_go_in_the_order_of_their_ids() {
    let db = database();
    let mut s = db.session();
    let kinds = ["a", "b", "c", "d", "e", "f"];
    let mut jobs = enqueue_all(&mut s, &kinds, ", p_scheduled_at => '2020-01-01'");
    jobs.sort();
    assert_eq!(drain(&mut s, CLAIM, "job_id"), jobs);
}

#[test]
fn jobs_of_a_batch_are_claimed_one_by_one_in_its_order_also_those_that_come_back() {
    let db = database();
    let (mut producer, mut worker, mut other) = (db.session(), db.session(), db.session());
    let jobs = (0..60).map(|_| r#"{"job_kind": "x"}"#).collect::<Vec<_>>().join(",");
    let batch = expect(&mut producer, "enqueued", &format!("fn_job_enqueue_batch('[{jobs}]')"));
    let jobs: Vec<String> = batch["jobs"].as_array().unwrap().iter().map(id).collect();
    for job in &jobs[..20] {
        assert_eq!(id(&claimed(&mut worker, "bob")), *job);
    }
    other.run("BEGIN");
    for job in &jobs[20..30] {
        assert_eq!(id(&claimed(&mut other, "eve")), *job);
    }
    for job in &jobs[30..32] {
        assert_eq!(id(&claimed(&mut worker, "bob")), *job, "others are not waited for");
    }
    other.run("ROLLBACK");
    let rest: Vec<String> = jobs[20..30].iter().chain(&jobs[32..]).cloned().collect();
    assert_eq!(drain(&mut worker, CLAIM, "job_id"), rest);
}

#[test]
fn an_urgent_job_that_comes_later_is_next() {
    let db = database();
    let (mut producer, mut worker) = (db.session(), db.session());
    enqueue_all(&mut producer, &["x"; 10], "");
    for urgent in ["one", "two", "three"] {
        assert_eq!(claimed(&mut worker, "bob")["job_kind"], "x");
        producer.call(&format!("fn_job_enqueue('{urgent}', p_priority => 1)"));
        assert_eq!(claimed(&mut worker, "bob")["job_kind"], json!(urgent));
    }
}

#[test]
fn a_schedule_in_the_past_goes_before_jobs_that_came_meanwhile() {
    let db = database();
    let (mut producer, mut worker) = (db.session(), db.session());
    enqueue_all(&mut producer, &["x"; 10], "");
    for _ in 0..3 {
        claimed(&mut worker, "bob");
        producer.call("fn_job_enqueue('overdue', p_scheduled_at => agentq.fn_clock_now() - interval '1 day')");
        assert_eq!(claimed(&mut worker, "bob")["job_kind"], "overdue");
    }
}

#[test]
fn a_claim_by_kind_takes_the_best_of_that_kind_only() {
    let db = database();
    let mut s = db.session();
    enqueue_all(&mut s, &["mail", "sms"], ", p_priority => 50");
    enqueue_all(&mut s, &["mail", "mailbox"], ", p_priority => 1");
    let by_kind = "fn_job_claim('bob', 'mail')";
    let first = expect(&mut s, "claimed", by_kind);
    assert_eq!((first["job_kind"].clone(), first["priority"].clone()), (json!("mail"), json!(1)));
    assert_eq!(expect(&mut s, "claimed", by_kind)["priority"], json!(50));
    assert_eq!(s.call(by_kind)["code"], "empty");
    assert_eq!(drain(&mut s, CLAIM, "job_kind"), ["mailbox", "sms"]);
}

#[test]
fn several_kinds_in_one_claim_compete_by_priority_and_age() {
    let db = database();
    let mut s = db.session();
    enqueue_all(&mut s, &["a", "b", "other", "c"], "");
    enqueue_all(&mut s, &["c", "b"], ", p_priority => 1");
    let claim = "fn_job_claim('bob', p_options => '{\"kinds\": [\"c\", \"b\", \"a\"]}')";
    assert_eq!(drain(&mut s, claim, "job_kind"), ["c", "b", "a", "b", "c"]);
    assert_eq!(drain(&mut s, CLAIM, "job_kind"), ["other"]);
}

#[test]
fn several_queues_in_one_claim_compete_by_priority_first() {
    let db = database();
    let mut s = db.session();
    for queue in ["mail", "sms", "unread"] {
        s.call(&format!("fn_queue_set('{queue}')"));
    }
    for (kind, queue, priority) in [
        ("fifth", "mail", 100),
        ("sixth", "sms", 100),
        ("never", "unread", 0),
        ("fourth", "sms", 9),
        ("second", "mail", 2),
        ("first", "sms", 1),
        ("third", "mail", 9),
    ] {
        // The two of priority 9 differ in their schedule, against the order they came in.
        let at = if kind == "third" { "2020-01-01" } else { "2020-01-02" };
        s.call(&format!(
            "fn_job_enqueue('{kind}', p_priority => {priority}, p_scheduled_at => '{at}',
             p_options => '{{\"queue\": \"{queue}\"}}')"
        ));
    }
    let claim = "fn_job_claim('bob', p_options => '{\"queues\": [\"mail\", \"sms\"]}')";
    assert_eq!(drain(&mut s, claim, "job_kind"), ["first", "second", "third", "fourth", "fifth", "sixth"]);
}

#[test]
fn a_claim_that_names_no_queue_reads_the_default_one() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    s.call("fn_job_enqueue('x', p_options => '{\"queue\": \"mail\"}')");
    assert_eq!(s.claim("bob")["code"], "empty");
    let claim = expect(&mut s, "claimed", "fn_job_claim('bob', p_options => '{\"queues\": [\"mail\"]}')");
    assert_eq!(claim["queue"], "mail");
}

#[test]
fn kinds_and_queues_in_one_claim_name_every_combination() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    for queue in ["default", "mail"] {
        for kind in ["a", "b", "c"] {
            s.call(&format!("fn_job_enqueue('{kind}', p_options => '{{\"queue\": \"{queue}\"}}')"));
        }
    }
    let batch = s.call(
        "fn_job_claim_batch('bob', 10, p_options => '{\"queues\": [\"mail\", \"default\"], \"kinds\": [\"a\", \"c\"]}')",
    );
    let got: Vec<String> = batch["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| format!("{} {}", text(job, "queue"), text(job, "job_kind")))
        .collect();
    assert_eq!(got, ["default a", "default c", "mail a", "mail c"]);
}

#[test]
fn a_scheduled_job_is_given_out_when_its_time_has_come() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    s.call("fn_job_enqueue('later', p_scheduled_at => agentq.fn_clock_now() + '100 s')");
    s.call("fn_job_enqueue('much later', p_scheduled_at => agentq.fn_clock_now() + '1000 s')");
    // Leases so long that none expires while the clock moves.
    let claim = "fn_job_claim('bob', NULL, 86400)";
    assert_eq!(worker.claim("bob")["code"], "empty");
    worker.shift_clock(90);
    assert_eq!(worker.claim("bob")["code"], "empty");
    worker.shift_clock(110);
    assert_eq!(drain(&mut worker, claim, "job_kind"), ["later"]);
    worker.shift_clock(1100);
    assert_eq!(drain(&mut worker, claim, "job_kind"), ["much later"]);
    db.assert_sound();
}

#[test]
fn a_scheduled_job_is_found_when_due_by_a_session_that_kept_asking() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue('soon', p_scheduled_at => agentq.fn_clock_now() + '300 ms')");
    assert_eq!(s.claim("bob")["code"], "empty");
    let mut found = json!(null);
    eventually("the job is due", || {
        found = s.claim("bob");
        found["code"] == "claimed"
    });
    // Not before its time, whatever the time is by now.
    let early = format!("SELECT picked_at < scheduled_at FROM agentq.job_queue WHERE job_id = '{}'", id(&found));
    assert_eq!(s.text(&early), "f");
}

#[test]
fn an_urgent_job_goes_first_among_many_that_fall_due_together() {
    let db = database();
    let mut s = db.session();
    s.run(
        "SELECT agentq.fn_job_enqueue('patient', p_scheduled_at => agentq.fn_clock_now() + '10 s')
         FROM generate_series(1, 100)",
    );
    s.call("fn_job_enqueue('urgent', p_priority => 0, p_scheduled_at => agentq.fn_clock_now() + '11 s')");
    s.shift_clock(60);
    assert_eq!(claimed(&mut s, "bob")["job_kind"], "urgent");
    assert_eq!(drain(&mut s, CLAIM, "job_kind").len(), 100);
}

#[test]
fn a_released_job_keeps_its_place_and_a_retried_one_gets_that_of_its_new_schedule() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('queue.retry.backoff_base_sec', '0')");
    let jobs = enqueue_all(&mut s, &["a", "b", "c"], "");
    claimed(&mut s, "bob");
    expect(&mut s, "released", &format!("fn_job_release('{}', 'bob')", jobs[0]));
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
    expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{}', 'bob', 'boom')", jobs[0]));
    assert_eq!(drain(&mut s, CLAIM, "job_kind"), ["b", "c", "a"]);
}

#[test]
fn a_hundred_different_priorities_are_kept_in_order() {
    let db = database();
    let (mut producer, mut worker) = (db.session(), db.session());
    // More than a lane of marks can remember, in an order that is neither up nor down.
    for n in 0..100 {
        producer.call(&format!("fn_job_enqueue('x', p_priority => {})", n * 37 % 100));
    }
    let mut order = Vec::new();
    while let Some(priority) = worker.call("fn_job_claim('bob', 'x')")["priority"].as_i64() {
        order.push(priority);
    }
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_claim_looks_behind_every_priority_that_another_session_holds_uncommitted() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    for priority in 0..50 {
        first.call(&format!("fn_job_enqueue('x', p_priority => {priority})"));
    }
    first.run("BEGIN");
    for priority in 0..40 {
        assert_eq!(claimed(&mut first, "ann")["priority"], json!(priority));
    }
    assert_eq!(second.call("fn_job_claim('bob', 'x')")["priority"], json!(40));
    assert_eq!(second.claim("bob")["priority"], json!(41));
    first.run("COMMIT");
}

#[test]
fn a_batch_claim_fills_up_from_as_many_priorities_as_there_are() {
    let db = database();
    let mut s = db.session();
    for priority in 0..60 {
        s.call(&format!("fn_job_enqueue('x', p_priority => {priority})"));
    }
    assert_eq!(s.call("fn_job_claim_batch('bob', 50)")["count"], json!(50));
}

#[test]
fn a_claim_of_several_queues_looks_behind_every_job_that_another_session_holds_uncommitted() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    first.call("fn_queue_set('mail')");
    first.run("SELECT agentq.fn_job_enqueue('x') FROM generate_series(1, 150)");
    first.run("BEGIN");
    assert_eq!(first.call("fn_job_claim_batch('ann', 100)")["count"], json!(100));
    let claim = "fn_job_claim('bob', p_options => '{\"queues\": [\"mail\", \"default\"]}')";
    assert_eq!(second.call(claim)["code"], "claimed");
    first.run("COMMIT");
}

#[test]
fn what_another_session_is_claiming_is_passed_over_without_waiting() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    let jobs = enqueue_all(&mut first, &["a", "b"], "");
    first.run("BEGIN");
    assert_eq!(id(&claimed(&mut first, "ann")), jobs[0]);
    assert_eq!(id(&claimed(&mut second, "bob")), jobs[1]);
    assert_eq!(second.claim("bob")["code"], "empty");
    first.run("COMMIT");
    db.assert_sound();
}

#[test]
fn a_transaction_claims_its_own_uncommitted_jobs_in_their_order() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    enqueue_all(&mut s, &["plain"; 5], "");
    // The marks of the lane are set by a claim, and know one priority.
    claimed(&mut other, "cat");
    s.run("BEGIN");
    s.call("fn_job_enqueue('urgent', p_priority => 1)");
    assert_eq!(claimed(&mut s, "bob")["job_kind"], "urgent");
    s.run("COMMIT");
}

#[test]
fn a_transaction_that_gives_a_job_back_can_claim_it_again_at_once() {
    let db = database();
    let mut s = db.session();
    let jobs = enqueue_all(&mut s, &["a", "b", "c", "d"], "");
    claimed(&mut s, "bob");
    s.run("BEGIN");
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[1]);
    expect(&mut s, "released", &format!("fn_job_release('{}', 'bob')", jobs[1]));
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[1]);
    s.run("COMMIT");
}
