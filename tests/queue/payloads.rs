//! Many jobs of one kind in one call: fn_job_enqueue_payloads.

use agentq_tests::{Session, Value, database, drain, json, refused, text, until_waiting};

fn enqueue(s: &mut Session, kind: &str, payloads: &Value, options: &Value) -> Value {
    s.json("SELECT agentq.fn_job_enqueue_payloads($1, $2, $3)", &[&kind, payloads, options])
}

#[test]
fn each_payload_becomes_a_job_in_its_order() {
    let db = database();
    let mut s = db.session();
    let payloads = json!([{"n": 1}, {"n": [2, "é", {"deep": true}]}, {}]);
    let answer = enqueue(&mut s, "page.draw", &payloads, &json!({}));
    assert_eq!(answer["code"], "enqueued");
    assert_eq!((answer["created"].clone(), answer["duplicates"].clone()), (json!(3), json!(0)));
    let ids: Vec<String> = (0..3).map(|index| text(&answer["jobs"][index], "job_id")).collect();
    let claims: Vec<Value> = (0..3).map(|_| s.call("fn_job_claim('w', 'page.draw')")).collect();
    let found: Vec<Value> = claims.iter().map(|job| job["payload_json"].clone()).collect();
    assert_eq!(json!(found), payloads);
    assert_eq!(claims.iter().map(|job| text(job, "job_id")).collect::<Vec<_>>(), ids);
    db.assert_sound();
}

#[test]
fn it_writes_what_a_batch_of_whole_jobs_writes() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let common = json!({"queue": "mail", "actor": "ann", "source_ref": "src", "target_ref": "tgt", "payload_ref": "ref",
        "priority": 7, "scheduled_at": "2020-01-02T03:04:05Z", "max_attempts": 3, "ordering_key": "o", "cost": {"usd": 2},
        "run_id": "01890000-0000-7000-8000-000000000001", "limit_keys": ["tenant:1"], "external_effects": true,
        "finish_by": "2100-01-01T00:00:00Z", "start_by": "2099-01-01T00:00:00Z", "fairness_key": "f", "requires": ["gpu"]});
    let mut whole = common.clone();
    whole["job_kind"] = json!("a");
    whole["payload_json"] = json!({"n": 1});
    let differs = "job_id, created_at, updated_at, line";
    let row = |s: &mut Session| -> Vec<String> {
        let columns = s.text(&format!(
            "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'agentq_internal.job'::regclass
             AND attnum > 0 AND NOT attisdropped AND attname <> ALL (string_to_array('{differs}', ', '))"
        ));
        s.texts(&format!(
            "SELECT row_to_json(t)::text FROM (SELECT {columns} FROM agentq_internal.job ORDER BY job_id) t"
        ))
    };
    s.json("SELECT agentq.fn_job_enqueue_batch($1)", &[&json!([whole])]);
    enqueue(&mut s, "a", &json!([{"n": 1}]), &common);
    let rows = row(&mut s);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0], rows[1]);
    assert!(rows[0].contains("\"ordering_key\":\"o\"") && rows[0].contains("tenant:1"), "{}", rows[0]);
    assert_eq!(s.count("agentq_internal.job_deadline"), 4);
    db.assert_sound();
}

#[test]
fn a_payload_that_is_refused_is_told_and_the_others_go_in() {
    let db = database();
    let mut s = db.session();
    let payloads = json!([{"n": 1}, [2], 3, {"password": "x"}, null, {"n": 6}, {"big": "x".repeat(300_000)}]);
    let answer = enqueue(&mut s, "a", &payloads, &json!({}));
    assert_eq!((answer["created"].clone(), answer["refused"].clone()), (json!(2), json!(5)));
    let codes: Vec<String> = (0..7).map(|index| text(&answer["jobs"][index], "code")).collect();
    assert_eq!(codes, ["enqueued", "refused", "refused", "refused", "refused", "enqueued", "refused"]);
    assert!(text(&answer["jobs"][3], "reason").contains("password"));

    let all = enqueue(&mut s, "b", &payloads, &json!({"all_or_nothing": true}));
    assert_eq!(
        (all["code"].clone(), all["ok"].clone(), all["created"].clone()),
        (json!("refused"), json!(false), json!(0))
    );
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(5));
    assert_eq!(drain(&mut s, "fn_job_claim('w')", "job_kind"), ["a", "a"]);
    db.assert_sound();
}

#[test]
fn the_answer_may_be_the_ids_alone_and_an_empty_list_is_no_mistake() {
    let db = database();
    let mut s = db.session();
    let answer = enqueue(&mut s, "a", &json!([{}, 7, {}]), &json!({"answer": "ids"}));
    let ids = answer["job_ids"].as_array().expect("ids");
    assert_eq!((ids.len(), &ids[1]), (3, &json!(null)));
    assert_eq!(s.call("fn_job_claim('w')")["job_id"], ids[0]);
    assert_eq!(enqueue(&mut s, "a", &json!([]), &json!({}))["created"], 0);
}

#[test]
fn bounds_on_what_may_wait_hold_for_each_of_them() {
    let db = database();
    let mut s = db.session();
    s.call(r#"fn_limit_set('kind:a', '{"max_pending": 3}')"#);
    let answer = enqueue(&mut s, "a", &json!([{}, {}, {}, {}, {}]), &json!({}));
    assert_eq!((answer["created"].clone(), answer["deferred"].clone()), (json!(3), json!(2)));
    assert!(text(&answer["jobs"][4], "reason").contains("kind:a"));
    db.assert_sound();
}

#[test]
fn what_all_of_them_have_in_common_is_checked_before_anything_is_written() {
    let db = database();
    let mut s = db.session();
    for (call, code, message, hint) in [
        ("(NULL, '[]')", "22004", "p_job_kind", ""),
        ("('a', NULL)", "22004", "p_payloads", ""),
        ("('a', '{}')", "22023", "p_payloads must be a JSON array", "[{\"to\": \"ada\"}]"),
        ("(' ', '[{}]')", "22023", "job_kind must not be empty", ""),
        ("('a', '[{}]', '[]')", "22023", "p_options must be a JSON object", ""),
        (r#"('a', '[{}]', '{"queue": "nowhere"}')"#, "22023", "nowhere", "fn_queue_set"),
        (r#"('a', '[{}]', '{"priority": "high"}')"#, "22023", "priority", ""),
        (r#"('a', '[{}]', '{"idempotency_key": "k"}')"#, "22023", "unknown key \"idempotency_key\"", "priority"),
        (r#"('a', '[{}]', '{"payload_json": {}}')"#, "22023", "unknown key \"payload_json\"", "queue"),
        (r#"('a', '[{}]', '{"on_end": "x"}')"#, "22023", "unknown key \"on_end\"", "answer"),
        (r#"('a', '[{}]', '{"all_or_nothing": 1}')"#, "22023", "all_or_nothing", ""),
        (
            "('a', (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 10001)))",
            "22023",
            "p_payloads has 10001 elements, more than the 10000 allowed",
            "several calls",
        ),
    ] {
        refused(&mut s, &format!("SELECT agentq.fn_job_enqueue_payloads{call}"), code, message, hint);
    }
}

#[test]
fn a_call_that_is_rolled_back_leaves_nothing_and_one_that_commits_wakes_a_waiting_claim() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN");
    enqueue(&mut s, "a", &json!([{}, {}]), &json!({}));
    s.run("ROLLBACK");
    assert_eq!(s.call("fn_job_claim('w')")["code"], "empty");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| db.session().call("fn_job_claim('w', 'a', p_wait => '20 seconds')"));
        until_waiting(&mut s);
        enqueue(&mut s, "a", &json!([{}, {}]), &json!({}));
        assert_eq!(waiting.join().expect("an answer")["code"], "claimed");
    });
}
