//! Holding a job: leases, fencing, heartbeats, giving back, and what happens to the silent.

use agentq_tests::{
    Session, attempts, claimed, database, drain, enqueue_all, eventually, everything, expect, id, json, text, token,
    until_someone_waits,
};

/// How long the present lease lasts, from the claim to its end.
fn lease_of(s: &mut Session, job: &str) -> String {
    s.text(&format!(
        "SELECT extract(epoch FROM lease_until - picked_at)::numeric(20, 6)
         FROM agentq.job_queue WHERE job_id = '{job}'"
    ))
}

#[test]
fn a_claim_holds_the_job_for_the_time_asked_for() {
    let db = database();
    let mut s = db.session();
    for (seconds, lease) in [("1", "1.000000"), ("86400", "86400.000000"), ("NULL", "300.000000")] {
        let job = s.enqueue("x");
        let claim = expect(&mut s, "claimed", &format!("fn_job_claim('bob', NULL, {seconds})"));
        assert_eq!(id(&claim), job);
        assert_eq!(lease_of(&mut s, &job), lease);
        let shown = s.text(&format!(
            "SELECT state || ' ' || lease_owner || ' ' || (lease_until = '{}')
             FROM agentq.job_queue WHERE job_id = '{job}'",
            text(&claim, "lease_until")
        ));
        assert_eq!(shown, "leased bob true");
    }
}

#[test]
fn an_attempt_never_begins_before_the_one_before_it_has_ended() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    // The next claim has begun, and gets no further than the ready jobs, when bob gives his back.
    s.run("BEGIN; LOCK TABLE agentq_internal.job_ready IN ACCESS EXCLUSIVE MODE");
    std::thread::scope(|scope| {
        let next = scope.spawn(|| claimed(&mut db.session(), "ann"));
        until_someone_waits(&mut db.session());
        expect(&mut s, "released", &format!("fn_job_release('{job}', 'bob')"));
        s.run("COMMIT");
        assert_eq!(id(&next.join().expect("it answers")), job);
    });
    let ordered = "SELECT bool_and(began_at >= before) FROM (SELECT began_at,
        lag(ended_at, 1, began_at) OVER (ORDER BY attempt_no) AS before FROM agentq.job_attempt) t";
    assert_eq!(s.text(ordered), "t");
    // The lease begins with the attempt.
    assert_eq!(lease_of(&mut s, &job), "300.000000");
}

#[test]
fn a_started_job_is_in_progress() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let claim = claimed(&mut s, "bob");
    for _ in 0..2 {
        let answer = expect(&mut s, "started", &format!("fn_job_start('{job}', 'bob', '{}')", token(&claim)));
        assert_eq!(answer["job_id"], json!(job));
        assert_eq!(answer["state"], "in_progress");
        assert_eq!(answer["lease_until"], claim["lease_until"]);
        assert_eq!(s.state(&job), "in_progress");
    }
}

#[test]
fn a_heartbeat_extends_the_lease_and_never_shortens_it() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let claim = expect(&mut s, "claimed", "fn_job_claim('bob', NULL, 1000)");
    let answer = expect(&mut s, "extended", &format!("fn_job_heartbeat('{job}', 'bob', 10)"));
    assert_eq!(answer["job_id"], json!(job));
    assert_eq!(answer["lease_until"], claim["lease_until"]);
    assert_eq!(answer["cancel_requested"], json!(false));
    assert_eq!(answer["cancel_reason"], json!(null));

    let answer = expect(&mut s, "extended", &format!("fn_job_heartbeat('{job}', 'bob', 5000)"));
    let longer = s.text(&format!(
        "SELECT lease_until = '{}' AND lease_until - picked_at >= interval '5000 s'
         FROM agentq.job_queue WHERE job_id = '{job}'",
        text(&answer, "lease_until")
    ));
    assert_eq!(longer, "t");
}

#[test]
fn a_heartbeat_keeps_a_lease_that_would_have_expired() {
    let db = database();
    let (mut holder, mut other) = (db.session(), db.session());
    let job = holder.enqueue("x");
    expect(&mut holder, "claimed", "fn_job_claim('bob', NULL, 100)");
    holder.shift_clock(90);
    expect(&mut holder, "extended", &format!("fn_job_heartbeat('{job}', 'bob', 100)"));
    other.shift_clock(150);
    assert_eq!(other.claim("cat")["code"], "empty");
    assert_eq!(other.state(&job), "leased");
    other.shift_clock(200);
    assert_eq!(id(&claimed(&mut other, "cat")), job);
}

#[test]
fn a_heartbeat_under_way_keeps_the_lease_from_being_recovered() {
    let db = database();
    let (mut holder, mut other) = (db.session(), db.session());
    let job = holder.enqueue("x");
    expect(&mut holder, "claimed", "fn_job_claim('bob', NULL, 10)");
    holder.run("BEGIN");
    expect(&mut holder, "extended", &format!("fn_job_heartbeat('{job}', 'bob', 1000)"));
    other.shift_clock(60);
    assert_eq!(other.claim("cat")["code"], "empty");
    holder.run("COMMIT");
    assert_eq!(other.claim("cat")["code"], "empty");
    expect(&mut holder, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
}

#[test]
fn an_expired_lease_is_recovered_after_a_heartbeat_that_rolled_back() {
    let db = database();
    let (mut holder, mut other) = (db.session(), db.session());
    let job = holder.enqueue("x");
    // A lease that is over when it begins, by the clock of everyone else.
    holder.shift_clock(-1000);
    expect(&mut holder, "claimed", "fn_job_claim('bob', NULL, 10)");
    holder.run("BEGIN");
    expect(&mut holder, "extended", &format!("fn_job_heartbeat('{job}', 'bob', 20)"));
    assert_eq!(other.claim("cat")["code"], "empty");
    holder.run("ROLLBACK");
    eventually("the lease is recovered", || other.claim("cat")["code"] == "claimed");
    assert_eq!(other.state(&job), "leased");
}

#[test]
fn a_checkpoint_is_handed_to_the_next_holder() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    let job = first.enqueue("x");
    expect(&mut first, "claimed", "fn_job_claim('bob', NULL, 10)");
    first.call(&format!("fn_job_heartbeat('{job}', 'bob', NULL, '{{\"page\": 1}}')"));
    first.call(&format!("fn_job_heartbeat('{job}', 'bob', NULL, '{{\"page\": 2}}')"));
    // A heartbeat without a checkpoint leaves the last one.
    first.call(&format!("fn_job_heartbeat('{job}', 'bob')"));
    second.shift_clock(1000);
    assert_eq!(claimed(&mut second, "cat")["checkpoint"], json!({"page": 2}));
    assert_eq!(second.call(&format!("fn_job_get('{job}')"))["job"]["checkpoint"], json!({"page": 2}));
}

#[test]
fn a_released_job_is_there_at_once_for_another_and_has_cost_no_attempt() {
    let db = database();
    let (mut first, mut second) = (db.session(), db.session());
    let job = first.enqueue("x");
    claimed(&mut first, "bob");
    let answer = expect(&mut first, "released", &format!("fn_job_release('{job}', 'bob')"));
    assert_eq!((answer["job_id"].clone(), answer["state"].clone()), (json!(job), json!("queued")));
    assert_eq!(first.state(&job), "queued");
    let claim = claimed(&mut second, "cat");
    assert_eq!((id(&claim), claim["attempts"].clone()), (job.clone(), json!(0)));
    assert_eq!(attempts(&mut second, &job), ["1 bob released", "2 cat held"]);
    db.assert_sound();
}

#[test]
fn a_snoozed_job_comes_back_at_its_time_and_has_cost_no_attempt() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    let answer = expect(&mut s, "snoozed", &format!("fn_job_snooze('{job}', 'bob', agentq.fn_clock_now() + '100 s')"));
    let stored = s.text(&format!(
        "SELECT state || ' ' || (scheduled_at = '{}') FROM agentq.job_queue WHERE job_id = '{job}'",
        text(&answer, "scheduled_at")
    ));
    assert_eq!(stored, "queued true");
    assert_eq!(s.claim("bob")["code"], "empty");
    s.shift_clock(110);
    assert_eq!(claimed(&mut s, "bob")["attempts"], json!(0));
    assert_eq!(attempts(&mut s, &job), ["1 bob snoozed", "2 bob held"]);
    // A time that has passed means: at once.
    expect(&mut s, "snoozed", &format!("fn_job_snooze('{job}', 'bob', '2020-01-01')"));
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    db.assert_sound();
}

#[test]
fn an_expired_lease_returns_to_the_queue_and_counts_an_attempt() {
    let db = database();
    let (mut silent, mut other) = (db.session(), db.session());
    let job = silent.enqueue("x");
    let old = expect(&mut silent, "claimed", "fn_job_claim('bob', NULL, 30)");
    other.shift_clock(20);
    assert_eq!(other.claim("cat")["code"], "empty");
    other.shift_clock(40);
    let claim = claimed(&mut other, "cat");
    assert_eq!(id(&claim), job);
    assert_eq!((claim["attempts"].clone(), claim["attempt"].clone()), (json!(1), json!(2)));
    assert_ne!(token(&claim), token(&old));
    let rows = attempts(&mut other, &job);
    assert!(rows[0].starts_with("1 bob lease_expired lease of bob expired"), "{rows:?}");
    assert_eq!(rows[1], "2 cat held");
    db.assert_sound();
}

#[test]
fn a_lease_that_expires_for_the_last_time_ends_in_the_dead_letters() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('x', p_max_attempts => 2)"));
    for round in 1..=2 {
        expect(&mut s, "claimed", "fn_job_claim('bob', NULL, 30)");
        s.shift_clock(round * 60);
    }
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.state(&job), "dead_letter");
    let letter = s.text(&format!(
        "SELECT concat_ws(' ', moved_by, attempts, triage_status, final_error LIKE 'lease of bob expired%')
         FROM agentq.job_dead_letter WHERE job_id = '{job}'"
    ));
    assert_eq!(letter, "agentq 2 pending t");
    let rows = attempts(&mut s, &job);
    assert_eq!(rows.len(), 2);
    assert!(rows[1].starts_with("2 bob lease_expired"), "{rows:?}");
    db.assert_sound();
}

#[test]
fn a_hundred_expired_leases_all_come_back() {
    let db = database();
    let mut s = db.session();
    enqueue_all(&mut s, &["x"; 100], "");
    assert_eq!(s.call("fn_job_claim_batch('bob', 100, NULL, 30)")["count"], json!(100));
    s.shift_clock(60);
    let mut back = drain(&mut s, "fn_job_claim('cat')", "job_id");
    back.sort();
    back.dedup();
    assert_eq!(back.len(), 100);
    assert_eq!(s.count("agentq.job_attempt WHERE outcome = 'lease_expired'"), 100);
    db.assert_sound();
}

#[test]
fn a_claim_goes_on_recovering_until_it_finds_a_job() {
    let db = database();
    let mut s = db.session();
    // Forty leases whose end is the end of their jobs, and one that comes back.
    enqueue_all(&mut s, &["last chance"; 40], ", p_max_attempts => 1");
    s.call("fn_job_claim_batch('bob', 40, NULL, 10)");
    let job = s.enqueue("comes back");
    expect(&mut s, "claimed", "fn_job_claim('bob', NULL, 20)");
    s.shift_clock(60);
    assert_eq!(id(&claimed(&mut s, "cat")), job);
    db.assert_sound();
}

#[test]
fn a_lease_that_was_over_before_its_claim_was_committed_is_recovered() {
    let db = database();
    let (mut slow, mut other) = (db.session(), db.session());
    let job = slow.enqueue("x");
    slow.shift_clock(-1000);
    slow.run("BEGIN");
    expect(&mut slow, "claimed", "fn_job_claim('bob', NULL, 10)");
    // By now the others have seen that no lease had expired.
    assert_eq!(other.claim("cat")["code"], "empty");
    slow.run("COMMIT");
    eventually("the lease is recovered", || other.claim("cat")["code"] == "claimed");
    assert_eq!(attempts(&mut other, &job).len(), 2);
}

#[test]
fn a_late_ack_counts_if_nobody_else_was_given_the_job() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    expect(&mut s, "claimed", "fn_job_claim('bob', NULL, 10)");
    s.shift_clock(1000);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(s.claim("cat")["code"], "empty");
}

/// Every call of a holder, by someone who does not hold the job: it must change nothing.
#[track_caller]
fn assert_powerless(s: &mut Session, job: &str, owner: &str, token: &str, state: &str) {
    let before = everything(s);
    for call in [
        format!("fn_job_start('{job}', '{owner}', {token})"),
        format!("fn_job_heartbeat('{job}', '{owner}', 60, '{{\"a\": 1}}', {token})"),
        format!("fn_job_ack('{job}', '{owner}', '{{}}', {token})"),
        format!("fn_job_fail_or_retry('{job}', '{owner}', 'boom', NULL, {token})"),
        format!("fn_job_release('{job}', '{owner}', {token})"),
        format!("fn_job_snooze('{job}', '{owner}', agentq.fn_clock_now(), {token})"),
    ] {
        let answer = expect(s, "lease_lost", &call);
        assert_eq!(answer["job_id"], json!(job), "{call}");
        assert_eq!(answer["state"], json!(state), "{call}");
        assert!(!text(&answer, "message").is_empty());
    }
    let item =
        format!("{{\"job_id\": \"{job}\", \"lease_token\": {}}}", token.replace('\'', "\"").replace("NULL", "null"));
    let answer = expect(s, "acked", &format!("fn_job_ack_batch('{owner}', '[{item}]')"));
    assert_eq!((answer["acked"].clone(), answer["lease_lost"].clone()), (json!(0), json!(1)));
    assert_eq!(everything(s), before);
}

#[test]
fn a_worker_that_slept_through_its_lease_can_change_nothing() {
    let db = database();
    let (mut paused, mut other) = (db.session(), db.session());
    let job = paused.enqueue("x");
    let old = token(&expect(&mut paused, "claimed", "fn_job_claim('bob', NULL, 30)"));
    other.shift_clock(60);
    claimed(&mut other, "cat");
    assert_powerless(&mut paused, &job, "bob", &format!("'{old}'"), "leased");
    assert_powerless(&mut paused, &job, "bob", "NULL", "leased");
    // Nor after the new holder has finished it.
    expect(&mut other, "succeeded", &format!("fn_job_ack('{job}', 'cat')"));
    assert_powerless(&mut paused, &job, "bob", &format!("'{old}'"), "succeeded");
}

#[test]
fn an_old_token_is_refused_even_under_the_same_owner_name() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let old = token(&claimed(&mut s, "bob"));
    expect(&mut s, "released", &format!("fn_job_release('{job}', 'bob', '{old}')"));
    let new = token(&claimed(&mut s, "bob"));
    assert_powerless(&mut s, &job, "bob", &format!("'{old}'"), "leased");
    // And the right token under another name.
    assert_powerless(&mut s, &job, "eve", &format!("'{new}'"), "leased");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob', NULL, '{new}')"));
}

#[test]
fn nobody_holds_a_job_that_was_never_claimed() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    assert_powerless(&mut s, &job, "bob", "NULL", "queued");
    assert_eq!(id(&claimed(&mut s, "bob")), job);
}

#[test]
fn nobody_holds_a_job_that_was_given_back() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')"));
    assert_powerless(&mut s, &job, "bob", "NULL", "retry_waiting");
}

#[test]
fn switching_the_queue_off_costs_nobody_a_job() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('slow', '{\"lease_seconds\": 60}')");
    for (name, options) in [("once", "{}"), ("kept", "{}"), ("slow", r#"{"queue": "slow"}"#)] {
        s.call(&format!("fn_job_enqueue('{name}', p_max_attempts => 1, p_options => '{options}')"));
    }
    let late = s.call("fn_job_enqueue('late', p_options => '{\"finish_by\": \"2999-01-01\"}')");
    s.call("fn_job_enqueue('soon', p_scheduled_at => now() + interval '50 seconds')");
    let once = s.call("fn_job_claim('w', 'once', p_lease_seconds => 10)");
    let kept = s.call("fn_job_claim('w', 'kept', p_lease_seconds => 10)");
    let slow = s.call("fn_job_claim('w', p_options => '{\"queues\": [\"slow\"]}')");
    s.run(&format!("UPDATE agentq_internal.job_deadline SET deadline_at = now() WHERE job_id = '{}'", id(&late)));
    s.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    s.shift_clock(1_000);
    let states = "SELECT string_agg(job_kind || ' ' || state, ', ' ORDER BY job_kind) FROM agentq.job_queue";
    let before = s.text(states);
    let ticked = s.call("fn_engine_tick()");
    let rest: Vec<&str> = ticked["chores"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|chore| chore["rests"] == true)
        .map(|chore| chore["chore"].as_str().unwrap())
        .collect();
    for chore in [
        "reap_leases",
        "promote_due",
        "enforce_deadlines",
        "run_schedules",
        "clean_finished",
        "tend_missions",
        "propose",
    ] {
        assert!(rest.contains(&chore), "{chore} is not among {rest:?}");
    }
    s.call("fn_ops_tick()");
    assert_eq!(s.text(states), before);
    assert_eq!(s.call(&format!("fn_job_ack('{}', 'w')", id(&once)))["code"], "gate_closed");
    // From now on each holder has the whole length of its lease once more.
    s.call("fn_config_set('queue.job_substrate.enabled', 'true')");
    s.call("fn_engine_tick('reap_leases')");
    s.shift_clock(1_009);
    // Setting it to what it is gives nobody more time.
    s.call("fn_config_set('queue.job_substrate.enabled', 'true')");
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(s.call(&format!("fn_job_ack('{}', 'w')", id(&kept)))["code"], "succeeded");
    s.shift_clock(1_011);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(s.state(&id(&once)), "dead_letter");
    assert_eq!(s.state(&id(&slow)), "leased", "its queue gives it a minute");
    s.shift_clock(1_061);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(s.state(&id(&slow)), "dead_letter");
    db.assert_sound();
}

#[test]
fn a_heartbeat_extends_by_the_length_that_was_claimed() {
    let db = database();
    let mut s = db.session();
    s.enqueue("a");
    let held = s.call("fn_job_claim('w', p_lease_seconds => 7)");
    let left = |s: &mut Session| {
        s.text("SELECT round(extract(epoch FROM lease_until - agentq.fn_clock_now())) FROM agentq_internal.job_lease")
    };
    s.shift_clock(5);
    s.call(&format!("fn_job_heartbeat('{}', 'w')", id(&held)));
    assert_eq!(left(&mut s), "7");
    s.call(&format!("fn_job_heartbeat('{}', 'w', 30)", id(&held)));
    assert_eq!(left(&mut s), "30");
    db.assert_sound();
}

#[test]
fn a_holder_that_makes_no_progress_loses_the_job_though_it_extends_its_lease() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call(r#"fn_job_enqueue('a', p_options => '{"stall_seconds": 60}')"#));
    // However long it waits for a worker.
    s.shift_clock(10_000);
    s.call("fn_engine_tick()");
    assert_eq!(s.state(&job), "queued");
    expect(&mut s, "claimed", "fn_job_claim('w', p_lease_seconds => 3600)");
    s.shift_clock(10_050);
    expect(&mut s, "saved", &format!("fn_checkpoint_save('{job}', 'w', '{{\"page\": 1}}')"));
    s.shift_clock(10_100);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(s.state(&job), "leased", "it has come on 50 s ago");
    s.call(&format!("fn_job_heartbeat('{job}', 'w')"));
    s.shift_clock(10_111);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(s.state(&job), "queued");
    let attempt = "SELECT concat_ws(' ', outcome, error_class, error) FROM agentq.job_attempt";
    assert_eq!(s.text(attempt), "lease_expired stalled stalled: w made no progress for 60 s");
    assert_eq!(s.call(&format!("fn_job_ack('{job}', 'w')"))["code"], "lease_lost");
    let refusal = "SELECT agentq.fn_job_enqueue('a', p_options => '{\"stall_seconds\": 0}')";
    assert_eq!(s.fails(refusal).code, "22023");
    db.assert_sound();
}

#[test]
fn whoever_does_not_hold_a_job_is_told_why() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("a");
    let mut why = |call: &str| {
        let answer = s.call(call);
        (text(&answer, "code"), answer["why"].as_str().map(str::to_owned))
    };
    let lost = |why: &str| ("lease_lost".to_owned(), Some(why.to_owned()));
    let ack = |owner: &str| format!("fn_job_ack('{job}', '{owner}')");
    assert_eq!(why(&ack("ann")), lost("never_held"));
    why("fn_job_claim('ann', 'a')");
    why(&format!("fn_job_release('{job}', 'ann')"));
    assert_eq!(why(&format!("fn_job_heartbeat('{job}', 'ann')")), lost("ended"));
    why("fn_job_claim('bob', 'a')");
    assert_eq!(why(&ack("ann")), lost("given_on"));
    assert_eq!(why(&ack("eve")), lost("never_held"));
    assert_eq!(why(&ack("bob")).0, "succeeded");
    // The answer was lost, and bob says it again.
    assert_eq!(why(&ack("bob")), ("already_finished".to_owned(), None));
    assert_eq!(why(&ack("ann")), lost("finished"));
    let batch = s.call(&format!("fn_job_ack_batch('bob', '[\"{job}\", \"00000000-0000-4000-8000-000000000001\"]')"));
    let codes: Vec<&str> = batch["jobs"].as_array().unwrap().iter().map(|job| job["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["unknown_job", "already_finished"]);
    assert_eq!((&batch["acked"], &batch["lease_lost"]), (&json!(0), &json!(2)));
    db.assert_sound();
}

#[test]
fn a_heartbeat_is_seen_in_the_row_of_the_job() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    s.claim("bob");
    let seen = |s: &mut agentq_tests::Session| {
        let sql = format!(
            "SELECT concat_ws(' ', updated_at = picked_at, last_heartbeat_at = updated_at) FROM agentq.job_queue WHERE job_id = '{job}'"
        );
        s.text(&sql)
    };
    assert_eq!(seen(&mut s), "t");
    s.shift_clock(10);
    s.call(&format!("fn_job_heartbeat('{job}', 'bob')"));
    assert_eq!(seen(&mut s), "f t");
}
