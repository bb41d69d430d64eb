//! Many jobs in one call: enqueue, claim and ack.

use agentq_tests::{
    Session, Value, claimed, database, drain, enqueue_all, everything, expect, id, json, refuse, refused, text,
};

fn enqueue(s: &mut Session, jobs: &Value) -> Value {
    s.json("SELECT agentq.fn_job_enqueue_batch($1)", &[jobs])
}

/// One field of every job in an answer.
fn each(answer: &Value, field: &str) -> Vec<String> {
    answer["jobs"].as_array().expect("jobs").iter().map(|job| text(job, field)).collect()
}

#[test]
fn a_batch_says_of_each_job_what_became_of_it() {
    let db = database();
    let mut s = db.session();
    let first = id(&s.call("fn_job_enqueue('x', 'taken')"));
    let answer = enqueue(
        &mut s,
        &json!([
            {"job_kind": "a"},
            {"job_kind": "b", "idempotency_key": "taken"},
            {"job_kind": "c", "idempotency_key": "twice"},
            {"job_kind": "d", "idempotency_key": "twice"},
            {"job_kind": " "},
            {"job_kind": "f", "priority": 1},
        ]),
    );
    assert_eq!(answer["ok"], json!(true));
    assert_eq!(answer["code"], "enqueued");
    assert_eq!(
        (answer["created"].clone(), answer["duplicates"].clone(), answer["refused"].clone()),
        (json!(3), json!(2), json!(1))
    );
    assert_eq!(each(&answer, "code"), ["enqueued", "duplicate", "enqueued", "duplicate", "refused", "enqueued"]);
    let jobs = &answer["jobs"];
    for (index, duplicate) in [false, true, false, true, false, false].iter().enumerate() {
        assert_eq!(jobs[index]["index"], json!(index));
        assert_eq!(jobs[index]["duplicate"], json!(duplicate));
    }
    assert_eq!(jobs[1]["job_id"], json!(first));
    assert_eq!(jobs[3]["job_id"], jobs[2]["job_id"]);
    assert_eq!(jobs[4]["job_id"], json!(null));
    assert!(text(&jobs[4], "reason").contains("job_kind must not be empty or blank"));
    assert_eq!(drain(&mut s, "fn_job_claim('bob')", "job_kind"), ["f", "x", "a", "c"]);
    db.assert_sound();
}

#[test]
fn everything_said_of_a_job_in_a_batch_is_kept() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let answer = enqueue(
        &mut s,
        &json!([{"job_kind": "mail.send", "idempotency_key": "k", "actor": "ann", "payload_json": {"n": [1, "é"]},
            "source_ref": "src", "target_ref": "tgt", "payload_ref": "ref", "priority": 7,
            "scheduled_at": "2020-01-02T03:04:05.678901Z", "max_attempts": 3,
            "run_id": "11111111-2222-3333-4444-555555555555", "queue": "mail"}]),
    );
    let row = s.text(&format!(
        "SELECT concat_ws('|', job_kind, state, source_ref, target_ref, payload_ref, payload_json, priority,
             scheduled_at AT TIME ZONE 'UTC', attempts, max_attempts, idempotency_key, actor, run_id, queue)
         FROM agentq.job_queue WHERE job_id = '{}'",
        id(&answer["jobs"][0])
    ));
    assert_eq!(
        row,
        "mail.send|queued|src|tgt|ref|{\"n\": [1, \"é\"]}|7|2020-01-02 03:04:05.678901|0|3|k|ann|\
         11111111-2222-3333-4444-555555555555|mail"
    );
}

#[test]
fn a_null_in_a_batch_means_the_default() {
    let db = database();
    let mut s = db.session();
    let answer = enqueue(
        &mut s,
        &json!([{"job_kind": "x", "idempotency_key": null, "actor": null, "payload_json": null, "source_ref": null,
            "target_ref": null, "payload_ref": null, "priority": null, "scheduled_at": null,
            "max_attempts": null, "run_id": null, "queue": null}]),
    );
    assert_eq!(answer["created"], json!(1), "{answer}");
    let row = s.text(
        "SELECT concat_ws('|', priority, max_attempts, payload_json, actor, idempotency_key = job_id::text, queue)
         FROM agentq.job_queue",
    );
    assert_eq!(row, "100|5|{}|postgres|t|default");
}

#[test]
fn all_or_nothing_writes_nothing_if_one_is_refused() {
    let db = database();
    let mut s = db.session();
    let before = everything(&mut s);
    let call = "fn_job_enqueue_batch('[{\"job_kind\": \"a\", \"idempotency_key\": \"k\"}, {\"job_kind\": \"\"}, {\"job_kind\": \"c\"}]',
         '{\"all_or_nothing\": true}')";
    let answer = expect(&mut s, "refused", call);
    assert_eq!(
        (answer["created"].clone(), answer["duplicates"].clone(), answer["refused"].clone()),
        (json!(0), json!(0), json!(1))
    );
    assert_eq!(answer["jobs"][0]["index"], json!(1));
    assert!(text(&answer["jobs"][0], "reason").contains("job_kind"));
    assert_eq!(everything(&mut s), before);
    assert_eq!(s.claim("bob")["code"], "empty");
    // A duplicate is no refusal.
    s.call("fn_job_enqueue('a', 'k')");
    let call = "fn_job_enqueue_batch('[{\"job_kind\": \"a\", \"idempotency_key\": \"k\"}, {\"job_kind\": \"c\"}]',
         '{\"all_or_nothing\": true}')";
    let answer = expect(&mut s, "enqueued", call);
    assert_eq!((answer["created"].clone(), answer["duplicates"].clone()), (json!(1), json!(1)));
    db.assert_sound();
}

#[test]
fn each_reason_for_a_refusal_is_told() {
    let db = database();
    let mut s = db.session();
    let cases = [
        (json!(5), "must be a JSON object"),
        (json!({}), "job_kind must not be empty"),
        (json!({"job_kind": 5}), "job_kind must be a text, not 5"),
        (json!({"job_kind": "k".repeat(201)}), "201 bytes long"),
        (json!({"job_kind": "x", "kind": "y"}), "unknown key \"kind\""),
        (json!({"job_kind": "x", "actor": " "}), "actor must not be empty"),
        (json!({"job_kind": "x", "actor": 1}), "actor must be a text"),
        (json!({"job_kind": "x", "idempotency_key": ""}), "idempotency_key must not be empty"),
        (json!({"job_kind": "x", "idempotency_key": "k".repeat(1001)}), "1001 bytes long"),
        (json!({"job_kind": "x", "payload_json": [1]}), "payload_json must be a JSON object, not"),
        (json!({"job_kind": "x", "payload_json": {"body": 1}}), "holds the key \"body\""),
        (json!({"job_kind": "x", "payload_json": {"a": "x".repeat(300_000)}}), "more than the 262144 allowed"),
        (json!({"job_kind": "x", "priority": -1}), "priority must be a whole number from 0 to 2147483647, not -1"),
        (json!({"job_kind": "x", "priority": 1.5}), "priority must be a whole number from 0 to 2147483647, not 1.5"),
        (json!({"job_kind": "x", "priority": 3_000_000_000_i64}), "priority must be a whole number"),
        (json!({"job_kind": "x", "max_attempts": 0}), "max_attempts must be a whole number from 1"),
        (json!({"job_kind": "x", "scheduled_at": "soon"}), "scheduled_at must be a timestamp, not \"soon\""),
        (json!({"job_kind": "x", "scheduled_at": "infinity"}), "not infinity"),
        (json!({"job_kind": "x", "scheduled_at": 5}), "scheduled_at must be a timestamp, not 5"),
        (json!({"job_kind": "x", "run_id": "5"}), "run_id must be a uuid, not \"5\""),
        (json!({"job_kind": "x", "queue": "nowhere"}), "there is no queue \"nowhere\""),
        (json!({"job_kind": "x", "source_ref": {}}), "source_ref must be a text"),
    ];
    let jobs: Vec<Value> = cases.iter().map(|(job, _)| job.clone()).collect();
    let answer = enqueue(&mut s, &json!(jobs));
    assert_eq!(answer["refused"], json!(cases.len()));
    for (index, (job, reason)) in cases.iter().enumerate() {
        let told = text(&answer["jobs"][index], "reason");
        assert!(told.contains(reason), "{job}: {told}");
        assert!(!text(&answer["jobs"][index], "hint").is_empty());
    }
    assert_eq!(s.count("agentq_internal.job"), 0);
    // The session is none the worse for it.
    assert_eq!(enqueue(&mut s, &json!([{"job_kind": "x"}]))["created"], json!(1));
    db.assert_sound();
}

#[test]
fn the_order_of_a_batch_is_the_order_of_its_claims() {
    let db = database();
    let mut s = db.session();
    let jobs: Vec<Value> = (0..200).map(|n| json!({"job_kind": format!("k{n}")})).collect();
    let made = each(&enqueue(&mut s, &json!(jobs)), "job_id");
    assert_eq!(drain(&mut s, "fn_job_claim('bob')", "job_id"), made);
}

#[test]
fn a_batch_may_mix_jobs_for_now_and_for_later() {
    let db = database();
    let mut s = db.session();
    let hour = s.text("SELECT to_json(agentq.fn_clock_now() + interval '1 hour')#>>'{}'");
    enqueue(
        &mut s,
        &json!([
            {"job_kind": "later", "scheduled_at": hour},
            {"job_kind": "now"},
            {"job_kind": "before", "scheduled_at": "2020-01-01"},
        ]),
    );
    assert_eq!(drain(&mut s, "fn_job_claim('bob')", "job_kind"), ["before", "now"]);
    s.shift_clock(4000);
    assert_eq!(drain(&mut s, "fn_job_claim('bob', 'later')", "job_kind"), ["later"]);
    db.assert_sound();
}

#[test]
fn an_empty_batch_is_no_mistake() {
    let db = database();
    let mut s = db.session();
    let answer = enqueue(&mut s, &json!([]));
    assert_eq!((answer["created"].clone(), answer["jobs"].clone()), (json!(0), json!([])));
    let answer = expect(&mut s, "acked", "fn_job_ack_batch('bob', '[]')");
    assert_eq!((answer["acked"].clone(), answer["jobs"].clone()), (json!(0), json!([])));
}

#[test]
fn a_batch_claim_takes_up_to_its_limit_in_order() {
    let db = database();
    let mut s = db.session();
    let mut jobs = enqueue_all(&mut s, &["a", "b", "c", "d", "e"], "");
    jobs.insert(0, id(&s.call("fn_job_enqueue('urgent', p_priority => 1)")));
    let answer = expect(&mut s, "claimed", "fn_job_claim_batch('bob', 4, NULL, 60)");
    assert_eq!(answer["count"], json!(4));
    assert_eq!(each(&answer, "job_id"), jobs[..4]);
    for job in answer["jobs"].as_array().expect("jobs") {
        assert_eq!((job["code"].clone(), job["lease_owner"].clone()), (json!("claimed"), json!("bob")));
        assert_eq!(job["attempt"], json!(1));
    }
    let tokens: std::collections::HashSet<_> = each(&answer, "lease_token").into_iter().collect();
    assert_eq!(tokens.len(), 4);
    let answer = expect(&mut s, "claimed", "fn_job_claim_batch('bob', 1000)");
    assert_eq!(each(&answer, "job_id"), jobs[4..]);
    expect(&mut s, "empty", "fn_job_claim_batch('bob', 1000)");
    db.assert_sound();
}

#[test]
fn a_batch_claim_recovers_jobs_that_fell_due_or_expired() {
    let db = database();
    let mut s = db.session();
    enqueue_all(&mut s, &["expired"; 3], "");
    s.call("fn_job_claim_batch('ann', 3, NULL, 10)");
    enqueue_all(&mut s, &["due"; 40], ", p_scheduled_at => agentq.fn_clock_now() + '10 s'");
    s.shift_clock(60);
    let mut kinds = Vec::new();
    loop {
        let answer = s.call("fn_job_claim_batch('bob', 30)");
        if answer["code"] == "empty" {
            break;
        }
        kinds.extend(each(&answer, "job_kind"));
    }
    assert_eq!(kinds.iter().filter(|k| *k == "expired").count(), 3);
    assert_eq!(kinds.iter().filter(|k| *k == "due").count(), 40);
    db.assert_sound();
}

#[test]
fn an_ack_batch_takes_ids_and_objects_and_answers_for_each() {
    let db = database();
    let mut s = db.session();
    enqueue_all(&mut s, &["x"; 6], "");
    let mine = s.call("fn_job_claim_batch('bob', 4)")["jobs"].clone();
    let theirs = id(&claimed(&mut s, "eve"));
    let unclaimed = s.text("SELECT job_id FROM agentq.job_queue WHERE state = 'queued'");
    let nobodys = "11111111-2222-3333-4444-555555555555";
    let acks = json!([
        mine[0]["job_id"],
        {"job_id": mine[1]["job_id"], "result": {"n": 1}},
        {"job_id": mine[2]["job_id"], "lease_token": mine[2]["lease_token"], "result": null},
        // A token of another claim.
        {"job_id": mine[3]["job_id"], "lease_token": mine[0]["lease_token"]},
        theirs,
        unclaimed,
        nobodys,
        // Said twice, counted once.
        mine[0]["job_id"],
    ]);
    let answer = s.json("SELECT agentq.fn_job_ack_batch('bob', $1)", &[&acks]);
    assert_eq!((answer["ok"].clone(), answer["code"].clone()), (json!(true), json!("acked")));
    assert_eq!((answer["acked"].clone(), answer["lease_lost"].clone()), (json!(3), json!(4)));
    assert_eq!(answer["jobs"].as_array().map(Vec::len), Some(7));
    for job in answer["jobs"].as_array().expect("jobs") {
        let acked = (0..3).any(|n| mine[n]["job_id"] == job["job_id"]);
        let lost = if job["job_id"] == nobodys { "unknown_job" } else { "lease_lost" };
        assert_eq!(job["code"], if acked { "succeeded" } else { lost }, "{job}");
    }
    assert_eq!(s.count("agentq.job_queue WHERE state = 'succeeded'"), 3);
    assert_eq!(s.count("agentq.job_queue WHERE state = 'leased'"), 2);
    let second = id(&mine[1]);
    assert_eq!(s.call(&format!("fn_job_get('{second}')"))["job"]["result"], json!({"n": 1}));
    // And again: everything is lost by now.
    let again = s.json("SELECT agentq.fn_job_ack_batch('bob', $1)", &[&acks]);
    assert_eq!((again["acked"].clone(), again["lease_lost"].clone()), (json!(0), json!(7)));
    db.assert_sound();
}

#[test]
fn an_ack_batch_with_something_that_is_no_job_id_acks_nothing() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    for (item, message) in [
        ("\"five\"", "p_jobs[1] must be an id, not \"five\""),
        ("5", "p_jobs[1] must be an id, not 5"),
        ("null", "p_jobs[1] must be an id, not null"),
        ("{}", "p_jobs[1].job_id must be an id, not null"),
        ("{\"job_id\": null}", "p_jobs[1].job_id must be an id, not null"),
        ("{\"job_id\": \"$job\", \"lease_token\": \"five\"}", "p_jobs[1].lease_token must be an id, not this"),
        ("{\"job_id\": \"$job\", \"token\": \"five\"}", "unknown key \"token\""),
        ("\"urn:uuid:$job\"", "p_jobs[1] must be an id"),
    ] {
        let item = item.replace("$job", &job);
        let statement = format!("SELECT agentq.fn_job_ack_batch('bob', '[\"{job}\", {item}]')");
        refused(&mut s, &statement, "22023", message, "");
        assert_eq!(s.state(&job), "leased");
    }
}

#[test]
fn batches_have_a_largest_size() {
    let db = database();
    let mut s = db.session();
    let jobs = |n| format!("(SELECT jsonb_agg(jsonb_build_object('job_kind', 'x')) FROM generate_series(1, {n}))");
    let answer = s.call(&format!("fn_job_enqueue_batch({})", jobs(10_000)));
    assert_eq!(answer["created"], json!(10_000));
    refused(
        &mut s,
        &format!("SELECT agentq.fn_job_enqueue_batch({})", jobs(10_001)),
        "22023",
        "p_jobs has 10001 elements, more than the 10000 allowed",
        "several calls",
    );
    refused(
        &mut s,
        "SELECT agentq.fn_job_ack_batch('bob', (SELECT jsonb_agg(gen_random_uuid()) FROM generate_series(1, 10001)))",
        "22023",
        "p_jobs has 10001 elements, more than the 10000 allowed",
        "several calls",
    );
    for limit in ["0", "-1", "1001"] {
        let statement = format!("SELECT agentq.fn_job_claim_batch('bob', {limit})");
        refused(&mut s, &statement, "22023", &format!("1 to 1000 jobs, but {limit}"), "several calls");
    }
    assert_eq!(s.call("fn_job_claim_batch('bob', 1000)")["count"], json!(1000));
    let held = "(SELECT jsonb_agg(job_id) FROM agentq.job_queue WHERE state = 'leased')";
    assert_eq!(s.call(&format!("fn_job_ack_batch('bob', {held})"))["acked"], json!(1000));
}

#[test]
fn a_batch_may_be_answered_with_its_ids_alone() {
    let db = database();
    let mut s = db.session();
    let first = id(&s.call("fn_job_enqueue('x', 'taken')"));
    let jobs = json!([{"job_kind": "a"}, {"job_kind": "b", "idempotency_key": "taken"}, {"job_kind": " "}]);
    let answer = s.json("SELECT agentq.fn_job_enqueue_batch($1, '{\"answer\": \"ids\"}')", &[&jobs]);
    let new = s.text("SELECT job_id FROM agentq.job_queue WHERE job_kind = 'a'");
    assert_eq!(answer["job_ids"], json!([new, first, null]));
    assert_eq!(
        (answer["created"].clone(), answer["duplicates"].clone(), answer["refused"].clone()),
        (json!(1), json!(1), json!(1))
    );
    assert_eq!(answer.get("jobs"), None);
    for bad in ["\"names\"", "7"] {
        let statement = format!("SELECT agentq.fn_job_enqueue_batch('[]', '{{\"answer\": {bad}}}')");
        refused(&mut s, &statement, "22023", "answer", "ids");
    }
}

#[test]
fn a_batch_claim_hands_out_the_list_that_acks_it() {
    let db = database();
    let mut s = db.session();
    enqueue_all(&mut s, &["a"; 5], "");
    let acks = r#"p_options => '{"acks": true}'"#;
    let claimed = expect(&mut s, "claimed", &format!("fn_job_claim_batch('bob', 2, {acks})"));
    let expected: Vec<Value> = claimed["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| json!({"job_id": job["job_id"], "lease_token": job["lease_token"]}))
        .collect();
    assert_eq!((claimed["acks"].clone(), expected.len()), (json!(expected), 2));
    let next = s.json(
        r#"SELECT agentq.fn_job_ack_and_claim_batch('bob', $1, 10, p_options => '{"acks": true}')"#,
        &[&claimed["acks"]],
    );
    assert_eq!((next["ack"]["acked"].clone(), next["count"].clone()), (json!(2), json!(3)));
    let acked = s.json("SELECT agentq.fn_job_ack_batch('bob', $1)", &[&next["acks"]]);
    assert_eq!(acked["acked"], 3);
    // Each with its own token: who has lost the lease acks nothing with the old list.
    let late = s.json("SELECT agentq.fn_job_ack_batch('bob', $1)", &[&next["acks"]]);
    assert_eq!(late["acked"], 0);

    let none = expect(&mut s, "empty", &format!("fn_job_claim_batch('bob', 2, {acks})"));
    assert_eq!(none["acks"], json!([]));
    enqueue_all(&mut s, &["a"], "");
    let without = expect(&mut s, "claimed", "fn_job_claim_batch('bob', 2)");
    assert_eq!(without.get("acks"), None);
    refuse(&mut s, &format!("fn_job_claim('bob', {acks})"), "p_options.acks is for claims of many jobs");
    refuse(
        &mut s,
        r#"fn_job_claim_batch('bob', 2, p_options => '{"acks": "yes"}')"#,
        "must be true or false, not \"yes\"",
    );
    db.assert_sound();
}

#[test]
fn a_batch_of_which_nothing_was_enqueued_says_so() {
    let db = database();
    let mut s = db.session();
    let mut came_to = |jobs: &str| {
        let answer = s.call(&format!("fn_job_enqueue_batch('{jobs}')"));
        (answer["ok"] == true, answer["code"].as_str().unwrap_or_default().to_owned(), answer)
    };
    let (ok, code, _) = came_to(r#"[{"job_kind": "a", "idempotency_key": "k"}]"#);
    assert_eq!((ok, code.as_str()), (true, "enqueued"));
    let (ok, code, _) = came_to(r#"[{"job_kind": "a", "idempotency_key": "k"}]"#);
    assert_eq!((ok, code.as_str()), (true, "duplicate"));
    let (ok, code, _) = came_to(r#"[{"job_kind": ""}]"#);
    assert_eq!((ok, code.as_str()), (false, "refused"));
    came_to(r#"[{"job_kind": "b"}]"#);
    s.call("fn_limit_set('kind:b', '{\"max_pending\": 1}')");
    let mut came_to = |jobs: &str| s.call(&format!("fn_job_enqueue_batch('{jobs}')"));
    let answer = came_to(r#"[{"job_kind": "b"}]"#);
    assert_eq!((&answer["ok"], &answer["code"]), (&json!(false), &json!("deferred")), "{answer}");
    assert_eq!((&answer["deferred"], &answer["refused"]), (&json!(1), &json!(0)), "{answer}");
    let job = &answer["jobs"][0];
    assert_eq!((&job["code"], &job["retry_after_seconds"]), (&json!("deferred"), &json!(300)), "{answer}");
    let answer = came_to(r#"[{"job_kind": "b"}, {"job_kind": ""}]"#);
    assert_eq!((&answer["code"], &answer["deferred"], &answer["refused"]), (&json!("refused"), &json!(1), &json!(1)));
    let answer = came_to(r#"[{"job_kind": "b"}, {"job_kind": "c"}]"#);
    assert_eq!((&answer["ok"], &answer["code"], &answer["created"]), (&json!(true), &json!("enqueued"), &json!(1)));
}
