//! Changing a job that nobody holds.

use agentq_tests::{claimed, database, drain, enqueue_all, expect, id, json, refused, text};

#[test]
fn a_change_is_kept_and_answered() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let answer = expect(
        &mut s,
        "changed",
        &format!(
            "fn_job_change('{job}', '{{\"priority\": 3, \"max_attempts\": 9, \"scheduled_at\": \"2020-01-01T00:00:00Z\",
             \"payload_json\": {{\"n\": 2}}, \"source_ref\": \"src\", \"target_ref\": \"tgt\", \"payload_ref\": \"ref\"}}')"
        ),
    );
    assert_eq!(answer["job_id"], json!(job));
    assert_eq!(answer["priority"], json!(3));
    assert_eq!(answer["max_attempts"], json!(9));
    assert!(text(&answer, "scheduled_at").starts_with("2020-01-01T00:00:00"));
    let claim = claimed(&mut s, "bob");
    for (field, value) in [
        ("priority", json!(3)),
        ("max_attempts", json!(9)),
        ("payload_json", json!({"n": 2})),
        ("source_ref", json!("src")),
        ("target_ref", json!("tgt")),
        ("payload_ref", json!("ref")),
    ] {
        assert_eq!(claim[field], value, "{field}");
    }
    db.assert_sound();
}

#[test]
fn what_a_change_does_not_name_stays() {
    let db = database();
    let mut s = db.session();
    let job =
        id(&s.call("fn_job_enqueue('x', 'k', p_payload_json => '{\"n\": 1}', p_source_ref => 'src', p_priority => 7)"));
    expect(&mut s, "changed", &format!("fn_job_change('{job}', '{{\"source_ref\": null}}')"));
    let claim = claimed(&mut s, "bob");
    assert_eq!(claim["source_ref"], json!(null));
    assert_eq!((claim["priority"].clone(), claim["payload_json"].clone()), (json!(7), json!({"n": 1})));
    assert_eq!(claim["idempotency_key"], "k");
}

#[test]
fn a_changed_job_is_found_in_its_new_place_by_a_session_that_has_been_claiming() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    let jobs = enqueue_all(&mut s, &["a", "b", "c", "d", "e", "f"], "");
    claimed(&mut worker, "bob");
    s.call(&format!("fn_job_change('{}', '{{\"priority\": 1}}')", jobs[5]));
    assert_eq!(claimed(&mut worker, "bob")["job_kind"], "f");
    s.call(&format!("fn_job_change('{}', '{{\"scheduled_at\": \"2020-01-01\"}}')", jobs[4]));
    assert_eq!(claimed(&mut worker, "bob")["job_kind"], "e");
    s.call(&format!("fn_job_change('{}', '{{\"priority\": 900}}')", jobs[1]));
    assert_eq!(drain(&mut worker, "fn_job_claim('bob')", "job_kind"), ["c", "d", "b"]);
    db.assert_sound();
}

#[test]
fn a_job_can_be_put_off_and_brought_forward() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let later = format!("fn_job_change('{job}', jsonb_build_object('scheduled_at', agentq.fn_clock_now() + '1 hour'))");
    expect(&mut s, "changed", &later);
    assert_eq!(s.claim("bob")["code"], "empty");
    let now = format!("fn_job_change('{job}', jsonb_build_object('scheduled_at', agentq.fn_clock_now()))");
    expect(&mut s, "changed", &now);
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    db.assert_sound();
}

#[test]
fn a_retry_can_be_brought_forward() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')"));
    s.call(&format!("fn_job_change('{job}', '{{\"scheduled_at\": \"2020-01-01\"}}')"));
    assert_eq!(s.state(&job), "retry_waiting");
    assert_eq!(claimed(&mut s, "bob")["attempt"], json!(2));
}

#[test]
fn a_held_or_finished_job_cannot_be_changed() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    let change = format!("SELECT agentq.fn_job_change('{job}', '{{\"priority\": 1}}')");
    refused(&mut s, &change, "55000", &format!("job {job} is held by bob"), "fn_job_cancel");
    s.call(&format!("fn_job_ack('{job}', 'bob')"));
    refused(&mut s, &change, "55000", &format!("job {job} is succeeded"), "Enqueue a new job");
}

#[test]
fn a_change_that_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    for (change, message, hint) in [
        ("{\"state\": \"succeeded\"}", "unknown key \"state\"", "It accepts: priority"),
        ("{\"job_kind\": \"y\"}", "unknown key \"job_kind\"", "It accepts: priority"),
        ("[]", "must be a JSON object", "It accepts: priority"),
        ("{\"priority\": -1}", "priority must be a whole number from 0", "smaller number"),
        ("{\"priority\": \"5\"}", "priority must be a whole number", "smaller number"),
        ("{\"priority\": null}", "priority must be a whole number", "smaller number"),
        ("{\"max_attempts\": 0}", "max_attempts must be a whole number from 1", "no retry"),
        ("{\"scheduled_at\": 5}", "5", ""),
        ("{\"scheduled_at\": null}", "null", ""),
        ("{\"scheduled_at\": \"infinity\"}", "not infinity", "pause its queue"),
        ("{\"payload_json\": 5}", "payload_json must be a JSON object", "Wrap"),
        ("{\"payload_json\": {\"password\": 1}}", "holds the key \"password\"", "payload_ref"),
    ] {
        let statement = format!("SELECT agentq.fn_job_change('{job}', '{change}')");
        refused(&mut s, &statement, "22023", message, hint);
    }
}

#[test]
fn a_schedule_that_is_no_time_is_refused_with_a_hint() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let failure = s.fails(&format!("SELECT agentq.fn_job_change('{job}', '{{\"scheduled_at\": \"soon\"}}')"));
    assert!(failure.code.starts_with("22") && failure.message.contains("soon"), "{failure:?}");
    assert!(!failure.hint.is_empty(), "{failure:?}");
    assert!(failure.detail.is_empty(), "no backtrace for the user: {failure:?}");
    assert_eq!(id(&claimed(&mut s, "bob")), job);
}

#[test]
fn a_change_that_is_rolled_back_leaves_the_job_in_its_place() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    let jobs = enqueue_all(&mut s, &["a", "b", "c"], "");
    claimed(&mut worker, "bob");
    s.run("BEGIN");
    s.call(&format!("fn_job_change('{}', '{{\"priority\": 900}}')", jobs[1]));
    assert_eq!(id(&claimed(&mut worker, "bob")), jobs[2]);
    s.run("ROLLBACK");
    assert_eq!(id(&claimed(&mut worker, "bob")), jobs[1]);
    db.assert_sound();
}
