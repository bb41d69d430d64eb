//! Putting jobs into the queue.

use agentq_tests::{claimed, database, drain, expect, id, json, text};

#[test]
fn an_enqueued_job_is_queued_with_the_defaults() {
    let db = database();
    let mut s = db.session();
    let answer = s.call("fn_job_enqueue('mail.send')");
    assert_eq!(answer["ok"], json!(true));
    assert_eq!(answer["code"], "enqueued");
    assert_eq!(answer["duplicate"], json!(false));
    assert_eq!(answer["state"], "queued");
    assert_eq!(answer["queue"], "default");
    let job = id(&answer);
    assert_eq!(s.state(&job), "queued");
    let row = s.text(&format!(
        "SELECT concat_ws('|', priority, attempts, max_attempts, payload_json, actor, idempotency_key = job_id::text, queue)
         FROM agentq.job_queue WHERE job_id = '{job}'"
    ));
    assert_eq!(row, "100|0|5|{}|postgres|t|default");
    db.assert_sound();
}

/// A job of which everything is said.
const FULL: &str = r#"fn_job_enqueue(p_job_kind => 'mail.send', p_idempotency_key => 'order-1',
    p_actor => 'ann', p_payload_json => '{"to": [1, 2.50], "text": "héllo 📬"}', p_source_ref => 'order/1',
    p_target_ref => 'user/2', p_payload_ref => 's3://bucket/key', p_priority => 7,
    p_scheduled_at => '2020-01-02 03:04:05.678901+00', p_max_attempts => 3,
    p_run_id => '11111111-2222-3333-4444-555555555555', p_options => '{"queue": "mail"}')"#;

#[test]
fn everything_said_of_a_job_is_kept_and_handed_to_its_holder() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let job = id(&s.call(FULL));
    let row = s.text(&format!(
        "SELECT concat_ws('|', job_kind, state, source_ref, target_ref, payload_ref, payload_json, priority,
             scheduled_at AT TIME ZONE 'UTC', attempts, max_attempts, idempotency_key, actor, run_id, queue)
         FROM agentq.job_queue WHERE job_id = '{job}'"
    ));
    assert_eq!(
        row,
        "mail.send|queued|order/1|user/2|s3://bucket/key|{\"to\": [1, 2.50], \"text\": \"héllo 📬\"}|7|\
         2020-01-02 03:04:05.678901|0|3|order-1|ann|11111111-2222-3333-4444-555555555555|mail"
    );

    let claim = expect(&mut s, "claimed", "fn_job_claim('bob', 'mail.send', 60, '{\"queues\": [\"mail\"]}')");
    for (field, value) in [
        ("job_id", json!(job)),
        ("job_kind", json!("mail.send")),
        ("queue", json!("mail")),
        ("payload_json", json!({"to": [1, 2.5], "text": "héllo 📬"})),
        ("source_ref", json!("order/1")),
        ("target_ref", json!("user/2")),
        ("payload_ref", json!("s3://bucket/key")),
        ("priority", json!(7)),
        ("attempts", json!(0)),
        ("attempt", json!(1)),
        ("max_attempts", json!(3)),
        ("lease_owner", json!("bob")),
        ("idempotency_key", json!("order-1")),
        ("actor", json!("ann")),
        ("run_id", json!("11111111-2222-3333-4444-555555555555")),
        ("checkpoint", json!(null)),
    ] {
        assert_eq!(claim[field], value, "{field} in {claim}");
    }
    assert!(text(&claim, "scheduled_at").starts_with("2020-01-02T03:04:05.678901"));
    for field in ["lease_token", "lease_until", "created_at"] {
        assert!(claim[field].is_string(), "{field} in {claim}");
    }
}

#[test]
fn fn_job_get_shows_every_column_of_the_view_and_what_lies_behind_it() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let job = id(&s.call(FULL));
    let answer = expect(&mut s, "found", &format!("fn_job_get('{job}')"));
    let columns = s.texts(
        "SELECT column_name FROM information_schema.columns
         WHERE table_schema = 'agentq' AND table_name = 'job_queue' ORDER BY ordinal_position",
    );
    assert_eq!(columns.len(), 25);
    for column in columns.iter().map(String::as_str).chain(["result", "checkpoint", "cancel_requested"]) {
        assert!(answer["job"].get(column).is_some(), "{column} is not in {answer}");
    }
    assert_eq!(answer["job"]["idempotency_key"], "order-1");
    assert_eq!(answer["job"]["cancel_requested"], json!(false));
    assert_eq!(answer["attempts"], json!([]));
}

#[test]
fn the_job_id_serves_as_the_key_of_a_job_without_one() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("mail.send");
    let claim = claimed(&mut s, "bob");
    assert_eq!(claim["idempotency_key"], json!(job));
}

#[test]
fn a_job_for_later_is_queued_but_not_given_out() {
    let db = database();
    let mut s = db.session();
    let answer = s.call("fn_job_enqueue('mail.send', p_scheduled_at => agentq.fn_clock_now() + '1 hour')");
    assert_eq!(answer["code"], "enqueued");
    assert_eq!(answer["state"], "queued");
    assert_eq!(s.state(&id(&answer)), "queued");
    assert_eq!(s.claim("bob")["code"], "empty");
    db.assert_sound();
}

#[test]
fn the_answer_of_an_enqueue_carries_the_schedule_that_is_stored() {
    let db = database();
    let mut s = db.session();
    for call in [
        "fn_job_enqueue('now')",
        "fn_job_enqueue('later', p_scheduled_at => agentq.fn_clock_now() + '1 hour')",
        "fn_job_enqueue('earlier', p_scheduled_at => '1999-12-31 23:59:59+00')",
    ] {
        let answer = s.call(call);
        let (job, at) = (id(&answer), text(&answer, "scheduled_at"));
        let same = format!("SELECT scheduled_at = '{at}' FROM agentq.job_queue WHERE job_id = '{job}'");
        assert_eq!(s.text(&same), "t", "{call}");
    }
}

#[test]
fn the_actor_is_whoever_opened_the_session_unless_named() {
    let db = database();
    let mut producer = db.session_of("agentq_actor_test");
    db.session().call("fn_access_grant('agentq_actor_test', 'producer')");
    let own = id(&producer.call("fn_job_enqueue('mail.send')"));
    let named = id(&producer.call("fn_job_enqueue('mail.send', p_actor => 'ann')"));
    let listed = id(&producer.call("fn_job_enqueue_batch('[{\"job_kind\": \"mail.send\"}]')")["jobs"][0]);
    let mut s = db.session();
    let mut actor = |job: &str| s.text(&format!("SELECT actor FROM agentq.job_queue WHERE job_id = '{job}'"));
    assert_eq!(actor(&own), "agentq_actor_test");
    assert_eq!(actor(&named), "ann");
    assert_eq!(actor(&listed), "agentq_actor_test");
}

#[test]
fn a_missing_payload_is_an_empty_object() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue('mail.send', p_payload_json => NULL)");
    assert_eq!(claimed(&mut s, "bob")["payload_json"], json!({}));
}

#[test]
fn only_the_top_level_of_a_payload_is_searched_for_denied_keys() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue('mail.send', p_payload_json => '{\"usage\": {\"token\": 5, \"body\": []}}')");
    assert_eq!(claimed(&mut s, "bob")["payload_json"], json!({"usage": {"token": 5, "body": []}}));
}

#[test]
fn names_of_the_longest_length_are_accepted_everywhere() {
    let db = database();
    let mut s = db.session();
    let kind = "k".repeat(200);
    let key = "é".repeat(500);
    let owner = "o".repeat(200);
    s.call(&format!("fn_job_enqueue('{kind}', '{key}')"));
    let claim = expect(&mut s, "claimed", &format!("fn_job_claim('{owner}', '{kind}')"));
    assert_eq!(claim["idempotency_key"], json!(key));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', '{owner}')", id(&claim)));
}

#[test]
fn a_thousand_enqueues_are_a_thousand_jobs() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_job_enqueue('tick') FROM generate_series(1, 1000)");
    let jobs = drain(&mut s, "fn_job_claim('bob')", "job_id");
    let distinct: std::collections::HashSet<_> = jobs.iter().collect();
    assert_eq!((jobs.len(), distinct.len()), (1000, 1000));
    db.assert_sound();
}

#[test]
fn a_payload_in_the_place_of_the_key_is_warned_about_and_a_duplicate_names_its_kind() {
    let db = database();
    let mut s = db.session();
    for (key, is_warned) in [(r#"{"only": "here"}"#, true), ("{only here}", false), ("k", false)] {
        s.call(&format!("fn_job_enqueue('a', '{key}')"));
        let warning = format!("the idempotency key looks like a payload: {key}");
        assert_eq!(db.cluster.log().contains(&warning), is_warned, "{key}");
    }
    let again = s.call("fn_job_enqueue('b', 'k')");
    assert_eq!((&again["code"], &again["job_kind"]), (&json!("duplicate"), &json!("a")));
}
