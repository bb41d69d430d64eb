//! What follows a failure: classes of errors, retry policies, the worker's verdicts, poison.

use agentq_tests::{Session, Value, attempts, claimed, database, expect, id, json, refused, text};

/// One job claimed by bob; returns its id.
#[track_caller]
fn held(s: &mut Session, kind: &str) -> String {
    let job = s.enqueue(kind);
    expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}')"));
    job
}

#[track_caller]
fn fail(s: &mut Session, job: &str, more: &str) -> Value {
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom'{more})"))
}

#[track_caller]
fn policy(s: &mut Session, scope: &str, name: &str, policy: &str) -> Value {
    s.call(&format!("fn_retry_policy_set('{scope}', '{name}', '{policy}')"))
}

#[test]
fn a_class_that_is_not_retryable_is_never_tried_again() {
    let db = database();
    let mut s = db.session();
    for class in ["validation_error", "INVALID_INPUT", "Permission-Denied", "budget exceeded", "policy_denied"] {
        let job = held(&mut s, "x");
        let answer = fail(&mut s, &job, &format!(", '{class}', p_retry_after => '1 s'"));
        assert_eq!(answer["code"], "dead_letter", "{class}: {answer}");
        assert_eq!(
            (answer["reason"].clone(), answer["attempts"].clone()),
            (json!("non_retryable"), json!(1)),
            "{class}"
        );
        assert_eq!(answer["known_class"], json!(true), "{class}");
    }
    // Spelled as the table has it, in the attempts and in the letters.
    let classes = "SELECT DISTINCT error_class FROM agentq.job_dead_letter ORDER BY 1";
    let known = ["budget_exceeded", "permission_denied", "policy_denied", "validation_error"];
    assert_eq!(s.texts(classes), known);
    assert_eq!(s.texts("SELECT DISTINCT error_class FROM agentq.job_attempt ORDER BY 1"), known);
    db.assert_sound();
}

#[test]
fn a_class_that_nobody_knows_is_tried_again_and_flagged() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "x");
    let answer = fail(&mut s, &job, ", 'Moon.Phase'");
    assert_eq!((answer["code"].clone(), answer["known_class"].clone()), (json!("retry_waiting"), json!(false)));
    assert_eq!(answer["error_class"], "moon.phase");
    // Once it is in the table, it is known, also by its other names, and to other sessions at once.
    let set = "fn_error_class_set('moon.phase', false, 'wait for a month', ARRAY['LUNAR'])";
    assert_eq!(expect(&mut db.session(), "created", set)["aliases"], json!(["lunar"]));
    let job = held(&mut s, "x");
    let answer = fail(&mut s, &job, ", 'Lunar'");
    assert_eq!((answer["code"].clone(), answer["error_class"].clone()), (json!("dead_letter"), json!("moon.phase")));
    expect(&mut s, "updated", "fn_error_class_set('moon.phase', true)");
    let job = held(&mut s, "x");
    assert_eq!(fail(&mut s, &job, ", 'lunar'")["code"], "retry_waiting");
    // A policy may name one that the table does not know, spelled as it likes.
    policy(&mut s, "kind", "own", r#"{"non_retryable": ["My-Class"]}"#);
    let job = held(&mut s, "own");
    assert_eq!(fail(&mut s, &job, ", 'My Class'")["reason"], json!("non_retryable"));
    expect(&mut s, "removed", "fn_error_class_remove('Moon.Phase')");
    let sql = "SELECT agentq.fn_error_class_remove('timeout')";
    refused(&mut s, sql, "P0002", "no class \"timeout\" of yours", "Built-in classes stay");
    let sql = "SELECT agentq.fn_error_class_set('mine', true, NULL, ARRAY['TIMED OUT'])";
    refused(&mut s, sql, "22023", "already means timeout", "choose another");
    let sql = "SELECT agentq.fn_error_class_set('Invalid Input', true)";
    refused(&mut s, sql, "22023", "already means validation_error", "choose another");
    refused(&mut s, "SELECT agentq.fn_error_class_set('m', true, NULL, ARRAY[' '])", "22023", "must not be empty", "");
}

#[test]
fn a_policy_says_how_long_to_wait() {
    let db = database();
    let mut s = db.session();
    let cases = [
        (r#"{"backoff": "fixed", "seconds": 7}"#, [7, 7, 7]),
        (r#"{"backoff": "linear", "seconds": 7}"#, [7, 14, 21]),
        (r#"{"backoff": "exponential", "seconds": 2, "multiplier": 5, "max_seconds": 30}"#, [2, 10, 30]),
        (r#"{"backoff": "quartic", "seconds": 1}"#, [1, 16, 81]),
        (r#"{"backoff": "list", "delays": [30, 120]}"#, [30, 120, 120]),
        (r#"{"backoff": "doubling", "seconds": 3}"#, [3, 6, 12]),
        (r#"{"backoff": null}"#, [10, 20, 40]),
        (r#"{"seconds": 3, "max_seconds": 10}"#, [3, 6, 10]),
    ];
    for (number, (rule, ladder)) in cases.iter().enumerate() {
        let kind = format!("k{number}");
        policy(&mut s, "kind", &kind, rule);
        let job = s.enqueue(&kind);
        for wait in ladder {
            expect(&mut s, "claimed", &format!("fn_job_claim('bob', '{kind}')"));
            let answer = fail(&mut s, &job, "");
            assert_eq!(answer["backoff_sec"], json!(wait), "{rule}");
            let waits = format!(
                "SELECT round(extract(epoch FROM scheduled_at - agentq.fn_clock_now())) FROM agentq.job_queue WHERE job_id = '{job}'"
            );
            assert_eq!(s.text(&waits), wait.to_string(), "{rule}");
            s.call(&format!("fn_job_change('{job}', '{{\"scheduled_at\": \"2020-01-01\"}}')"));
        }
    }
    // With jitter, waits differ, and keep to their bounds.
    policy(&mut s, "kind", "shaken", r#"{"backoff": "fixed", "seconds": 100, "jitter": 0.5}"#);
    let mut waits: Vec<f64> = (0..8)
        .map(|_| {
            let job = held(&mut s, "shaken");
            fail(&mut s, &job, "")["backoff_sec"].as_f64().expect("seconds")
        })
        .collect();
    assert!(waits.iter().all(|wait| (50.0..=150.0).contains(wait)), "{waits:?}");
    waits.dedup();
    assert!(waits.len() > 1, "{waits:?}");
}

#[test]
fn the_policy_of_a_kind_goes_before_that_of_its_queue_and_that_before_the_default_rule_by_rule() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail', '{\"max_attempts\": 6}')");
    policy(
        &mut s,
        "default",
        "",
        r#"{"max_attempts": 9, "backoff": "fixed", "seconds": 1, "non_retryable": ["timeout"]}"#,
    );
    let attempts = |s: &mut Session, kind: &str, queue: &str| {
        let job = id(&s.call(&format!("fn_job_enqueue('{kind}', p_options => '{{\"queue\": \"{queue}\"}}')")));
        s.text(&format!("SELECT max_attempts FROM agentq.job_queue WHERE job_id = '{job}'"))
    };
    assert_eq!(attempts(&mut s, "a", "default"), "9");
    // The queue's own column is narrower than the default policy, and wider than the queue's policy.
    assert_eq!(attempts(&mut s, "a", "mail"), "6");
    policy(&mut s, "queue", "mail", r#"{"max_attempts": 7}"#);
    assert_eq!(attempts(&mut s, "a", "mail"), "7");
    policy(&mut s, "kind", "a", r#"{"max_attempts": 8, "backoff": "fixed", "seconds": 5}"#);
    assert_eq!(attempts(&mut s, "a", "mail"), "8");
    // And the same for a batch.
    let batch = s.call("fn_job_enqueue_batch('[{\"job_kind\": \"a\", \"queue\": \"mail\"}]')");
    let job = text(&batch["jobs"][0], "job_id");
    assert_eq!(s.text(&format!("SELECT max_attempts FROM agentq.job_queue WHERE job_id = '{job}'")), "8");
    s.run("SELECT agentq.fn_job_claim_batch('nobody', 100, p_options => '{\"queues\": [\"mail\", \"default\"]}')");
    // Waits of the kind, classes of the default.
    let job = held(&mut s, "a");
    assert_eq!(fail(&mut s, &job, "")["backoff_sec"], json!(5));
    let job = held(&mut s, "a");
    assert_eq!(fail(&mut s, &job, ", 'timeout'")["reason"], json!("non_retryable"));
    // Gone again.
    for (scope, name) in [("kind", "'a'"), ("queue", "'mail'"), ("default", "NULL")] {
        expect(&mut s, "removed", &format!("fn_retry_policy_remove('{scope}', {name})"));
    }
    assert_eq!(s.call("fn_retry_policy_remove('kind', 'a')")["code"], "not_found");
    assert_eq!(attempts(&mut s, "a", "default"), "5");
}

#[test]
fn a_list_of_retryable_classes_ends_all_others_but_not_those_of_silent_workers() {
    let db = database();
    let mut s = db.session();
    let answer = policy(&mut s, "kind", "x", r#"{"retryable": ["RATE_LIMITED", "odd_one"]}"#);
    assert_eq!(answer["retryable"], json!(["rate_limited", "odd_one"]));
    assert_eq!(answer["unknown_classes"], json!(["odd_one"]));
    for (class, code) in [("'rate_limited'", "retry_waiting"), ("'timeout'", "dead_letter"), ("NULL", "dead_letter")] {
        let job = held(&mut s, "x");
        assert_eq!(fail(&mut s, &job, &format!(", {class}"))["code"], code, "{class}");
    }
    policy(&mut s, "kind", "y", r#"{"retryable": ["rate_limited"]}"#);
    let job = held(&mut s, "y");
    s.shift_clock(301);
    assert_eq!(id(&expect(&mut s, "claimed", "fn_job_claim('cat', 'y')")), job);
}

#[test]
fn a_kind_may_require_an_idempotency_key() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "kind", "pay", r#"{"requires_idempotency_key": true}"#);
    let sql = "SELECT agentq.fn_job_enqueue('pay')";
    refused(&mut s, sql, "22023", "jobs of the kind \"pay\" need an idempotency key", "retry policy");
    expect(&mut s, "enqueued", "fn_job_enqueue('pay', 'k1')");
    let batch = s.call(
        "fn_job_enqueue_batch('[{\"job_kind\": \"pay\"}, {\"job_kind\": \"pay\", \"idempotency_key\": \"k2\"}]')",
    );
    assert_eq!((batch["created"].clone(), batch["refused"].clone()), (json!(1), json!(1)));
    expect(&mut s, "enqueued", "fn_job_enqueue('mail')");
}

#[test]
fn what_the_worker_asks_for_goes_before_the_policy() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "x");
    assert_eq!(fail(&mut s, &job, ", 'rate_limited', p_retry_after => '77 seconds'")["backoff_sec"], json!(77));
    let job = held(&mut s, "y");
    assert_eq!(fail(&mut s, &job, ", p_retry_after => '0'")["backoff_sec"], json!(0));
    assert_eq!(id(&expect(&mut s, "claimed", "fn_job_claim('bob', 'y')")), job);
    // But not before the number of attempts.
    let last = id(&s.call("fn_job_enqueue('z', p_max_attempts => 1)"));
    expect(&mut s, "claimed", "fn_job_claim('bob', 'z')");
    assert_eq!(fail(&mut s, &last, ", p_retry_after => '1 s'")["reason"], json!("exhausted"));
    for wait in ["-1 s", "20 years"] {
        let sql = format!("SELECT agentq.fn_job_fail_or_retry('{job}', 'bob', 'boom', p_retry_after => '{wait}')");
        refused(&mut s, &sql, "22023", "p_retry_after must be from 0", "interval '30 seconds'");
    }
}

#[test]
fn a_worker_may_cancel_discard_or_snooze() {
    let db = database();
    let mut s = db.session();
    // No other try, and someone should look at it.
    let job = held(&mut s, "x");
    let answer = fail(&mut s, &job, ", 'timeout', p_verdict => 'cancel'");
    assert_eq!((answer["code"].clone(), answer["state"].clone()), (json!("cancelled"), json!("cancelled")));
    let letter = text(&answer, "dead_letter_id");
    let row = format!(
        "SELECT concat_ws(' ', job_id = '{job}', reason, final_error) FROM agentq.job_dead_letter WHERE dead_letter_id = '{letter}'"
    );
    assert_eq!(s.text(&row), "t cancelled boom");
    let found = s.call(&format!("fn_job_get('{job}')"));
    assert_eq!(found["job"]["cancel_reason"], "boom");
    // No other try, and nobody needs to.
    let job = held(&mut s, "x");
    let answer = fail(&mut s, &job, ", p_verdict => 'discard'");
    assert_eq!((answer["code"].clone(), answer["state"].clone()), (json!("failed"), json!("failed")));
    assert_eq!(s.state(&job), "failed");
    assert_eq!(s.count("agentq.job_dead_letter"), 1);
    assert_eq!(attempts(&mut s, &job), ["1 bob failed boom"]);
    // Later, at no cost.
    let job = held(&mut s, "x");
    let answer = fail(&mut s, &job, ", p_verdict => 'snooze', p_retry_after => '30 s'");
    assert_eq!((answer["code"].clone(), answer["attempts"].clone()), (json!("snoozed"), json!(0)));
    s.shift_clock(31);
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    s.shift_clock(0);
    let sql = format!("SELECT agentq.fn_job_fail_or_retry('{job}', 'bob', 'boom', p_verdict => 'snooze')");
    refused(&mut s, &sql, "22004", "p_retry_after", "");
    let sql = format!("SELECT agentq.fn_job_fail_or_retry('{job}', 'bob', 'boom', p_verdict => 'explode')");
    refused(&mut s, &sql, "22023", "p_verdict \"explode\" is not known", "fail, cancel, discard, snooze");
    // A cancel that was asked for wins, and leaves no letter.
    expect(&mut s, "cancel_requested", &format!("fn_job_cancel('{job}')"));
    assert_eq!(fail(&mut s, &job, ", p_verdict => 'discard'")["code"], "cancelled");
    assert_eq!(s.count("agentq.job_dead_letter"), 1);
    db.assert_sound();
}

#[test]
fn a_job_that_takes_its_workers_down_is_poison() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('x', p_max_attempts => 50)"));
    // Twice silent, then a failure, and the count begins anew.
    for hour in 1..=2 {
        claimed(&mut s, "bob");
        s.shift_clock(3600 * hour);
    }
    claimed(&mut s, "bob");
    fail(&mut s, &job, "");
    s.shift_clock(3600 * 3);
    for hour in 4..=5 {
        assert_eq!(id(&claimed(&mut s, "bob")), job);
        s.shift_clock(3600 * hour);
    }
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    s.shift_clock(3600 * 6);
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.state(&job), "dead_letter");
    assert_eq!(
        s.text("SELECT concat_ws(' ', reason, error_class, attempts) FROM agentq.job_dead_letter"),
        "poison lease_expired 6"
    );
    let told = "SELECT event_kind || ' ' || (payload->>'reason') FROM agentq.event
         WHERE subject = $$JOB$$ AND event_kind <> 'job.lease_expired' ORDER BY event_id";
    assert_eq!(s.texts(&told.replace("JOB", &job)), ["job.poisoned poison", "job.dead_lettered poison"]);
    // A worker may say so, too; and the rule can be switched off.
    let job = held(&mut s, "y");
    assert_eq!(fail(&mut s, &job, ", 'POISON_TASK'")["reason"], json!("poison"));
    s.call("fn_config_set('queue.poison.max_crashes', '0')");
    let job = held(&mut s, "z");
    for hour in 7..=10 {
        s.shift_clock(3600 * hour);
        assert_eq!(id(&expect(&mut s, "claimed", "fn_job_claim('bob', 'z')")), job);
    }
    db.assert_sound();
}

#[test]
fn policies_that_cannot_be_understood_are_refused() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "kind", "listed", r#"{"delays": [1], "backoff": "fixed"}"#);
    policy(&mut s, "kind", "listed", r#"{"backoff": "list"}"#);
    for (arguments, message) in [
        ("'galaxy', 'x', '{}'", "scope \"galaxy\" is not known"),
        ("'default', 'x', '{}'", "the default policy has no name"),
        ("'kind', NULL, '{}'", "p_name must not be empty"),
        ("'kind', 'x', '[]'", "p_policy must be a JSON object"),
        ("'kind', 'x', '{\"tries\": 3}'", "unknown key \"tries\""),
        ("'kind', 'x', '{\"max_attempts\": 0}'", "max_attempts must be a whole number from 1"),
        ("'kind', 'x', '{\"backoff\": \"never\"}'", "backoff must be one of"),
        ("'kind', 'x', '{\"backoff\": \"list\"}'", "needs its delays"),
        ("'kind', 'x', '{\"backoff\": \"list\", \"delays\": [1, -1]}'", "delays[1] must be a number from 0"),
        ("'kind', 'listed', '{\"delays\": null}'", "needs its delays"),
        ("'kind', 'x', '{\"delays\": \"soon\"}'", "delays must be a list"),
        ("'kind', 'x', '{\"jitter\": 2}'", "jitter must be a number from 0 to 1"),
        ("'kind', 'x', '{\"multiplier\": 0.5}'", "multiplier must be a number from 1"),
        ("'kind', 'x', '{\"seconds\": \"ten\"}'", "seconds must be a number"),
        ("'kind', 'x', '{\"retryable\": \"timeout\"}'", "retryable must be a list"),
        ("'kind', 'x', '{\"non_retryable\": [1]}'", "non_retryable[0] must be a text"),
        ("'kind', 'x', '{\"requires_idempotency_key\": 1}'", "requires_idempotency_key must be true or false"),
    ] {
        let failure = s.fails(&format!("SELECT agentq.fn_retry_policy_set({arguments})"));
        assert_eq!(failure.code, "22023", "{arguments}: {failure:?}");
        assert!(failure.message.contains(message), "{arguments}: {failure:?}");
        assert!(!failure.hint.is_empty(), "{arguments}: {failure:?}");
    }
    assert_eq!(s.texts("SELECT name FROM agentq.retry_policy"), ["listed"]);
}

#[test]
fn an_error_has_a_detail_beside_its_text() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "x");
    let stack = "at line 7\nat line 9";
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', p_error_detail => '{stack}')"));
    assert_eq!(s.text("SELECT error || ': ' || error_detail FROM agentq.job_attempt"), format!("boom: {stack}"));
    s.shift_clock(3600);
    expect(&mut s, "claimed", "fn_job_claim('bob', 'x')");
    // As much as an error may have, and in the letter its beginning.
    s.call(&format!(
        "fn_job_fail_or_retry('{job}', 'bob', 'boom', 'invalid_input', p_error_detail => repeat('x', 100000))"
    ));
    let kept: i64 = s.text("SELECT max(octet_length(error_detail)) FROM agentq.job_attempt").parse().unwrap();
    assert!((1_000..100_000).contains(&kept), "{kept}");
    let history = s.json("SELECT error_history FROM agentq.job_dead_letter", &[]);
    assert_eq!(history[0]["error_detail"], stack);
    assert_eq!(history[1]["error_detail"].as_str().map(str::len), Some(2000));
}

#[test]
fn a_person_may_call_a_job_poison() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let moved = s.call(&format!("fn_job_move_to_dead_letter('{job}', 'it kills workers', 'ann', 'poison')"));
    assert_eq!((&moved["code"], &moved["reason"]), (&json!("dead_letter"), &json!("poison")));
    assert_eq!(s.text("SELECT reason FROM agentq.job_dead_letter"), "poison");
    let told = "SELECT concat_ws(' ', event_kind, payload->>'severity') FROM agentq.event ORDER BY event_id";
    assert_eq!(s.texts(told), ["job.poisoned critical", "job.dead_lettered error"]);
    let job = s.enqueue("x");
    let failure = s.fails(&format!("SELECT agentq.fn_job_move_to_dead_letter('{job}', 'no', 'ann', 'boredom')"));
    assert!(failure.code == "22023" && failure.message.contains("p_letter_reason"), "{failure:?}");
    assert_eq!(s.call(&format!("fn_job_move_to_dead_letter('{job}', 'no')"))["reason"], "manual");
}

#[test]
fn a_job_may_have_a_retry_policy_of_its_own_which_a_redrive_keeps() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "kind", "own", "{\"backoff\": \"fixed\", \"seconds\": 5}");
    let options = r#"{"retry": {"backoff": "linear", "seconds": 3}}"#;
    let job = id(&s.call(&format!("fn_job_enqueue('own', p_max_attempts => 2, p_options => '{options}')")));
    let batch = r#"fn_job_enqueue_batch('[{"job_kind": "own", "retry": {"seconds": 11}}]')"#;
    let other = text(&s.call(batch)["jobs"][0], "job_id");
    expect(&mut s, "claimed", &format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{job}\"}}')"));
    assert_eq!(fail(&mut s, &job, "")["backoff_sec"], 3);
    expect(&mut s, "claimed", &format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{other}\"}}')"));
    assert_eq!(fail(&mut s, &other, "")["backoff_sec"], 11, "fixed, as its kind says, but longer");
    s.shift_clock(60);
    expect(&mut s, "claimed", &format!("fn_job_claim('bob', p_options => '{{\"job_id\": \"{job}\"}}')"));
    let letter = text(&fail(&mut s, &job, ""), "dead_letter_id");
    let again = id(&expect(&mut s, "redriven", &format!("fn_dead_letter_redrive('{letter}')")));
    let kept = s.call(&format!("fn_job_get('{again}')"));
    assert_eq!(kept["job"]["retry"], json!({"backoff": "linear", "seconds": 3}), "{kept}");
    let wrong = "SELECT agentq.fn_job_enqueue('own', p_options => '{\"retry\": {\"max_attempts\": 2}}')";
    refused(&mut s, wrong, "22023", "max_attempts", "");
    db.assert_sound();
}
