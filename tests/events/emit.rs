//! Writing events.

use crate::{assert_sound, emit, seal};
use agentq_tests::{database, expect, json, refuse, refused, text, until_someone_waits};

const ID: &str = "0190c1d2-0000-7000-8000-000000000001";

#[test]
fn an_event_is_written_with_all_that_its_options_say() {
    let db = database();
    let mut s = db.session();
    let options = json!({"purpose": "agent_step", "source": "shop", "tags": ["a", "b"], "dedupe_key": "k",
        "correlation_id": "order 7", "trace_id": "t-1", "mission_id": ID, "command_id": ID, "agent_run_id": ID,
        "swarm_run_id": ID, "target_type": "order", "target_id": "7", "step_index": 3, "tool_name": "search",
        "latency_ms": 120, "token_usage": {"input": 9}, "cost_units": 0.25});
    let answer = s.json("SELECT agentq.fn_event_emit('order.paid', 'order 7', '{\"sum\": 3}', $1)", &[&options]);
    assert_eq!((answer["ok"].clone(), answer["code"].clone()), (json!(true), json!("emitted")));
    let row = s.json(
        "SELECT to_jsonb(e) - 'event_at' - 'xid' FROM agentq.event e WHERE event_id::text = $1",
        &[&text(&answer, "event_id")],
    );
    let expected = json!({"event_id": answer["event_id"], "event_kind": "order.paid", "subject": "order 7",
        "payload": {"sum": 3}, "purpose": "agent_step", "source": "shop", "tags": ["a", "b"], "dedupe_key": "k",
        "correlation_id": "order 7", "trace_id": "t-1", "mission_id": ID, "command_id": ID, "agent_run_id": ID,
        "swarm_run_id": ID, "target_type": "order", "target_id": "7", "step_index": 3, "tool_name": "search",
        "latency_ms": 120, "token_usage": {"input": 9}, "cost_units": 0.25, "origin": "caller", "actor": "postgres"});
    assert_eq!(row, expected);
    emit(&mut s, "plain", "x");
    let plain = s.json("SELECT to_jsonb(e) FROM agentq.event e WHERE event_kind = 'plain'", &[]);
    assert_eq!(
        (plain["purpose"].clone(), plain["tags"].clone(), plain["payload"].clone()),
        (json!("event"), json!([]), json!({}))
    );
    db.assert_sound();
}

#[test]
fn an_event_with_a_dedupe_key_is_written_once() {
    let db = database();
    let mut s = db.session();
    let call = r#"fn_event_emit('a', 'x', p_options => '{"dedupe_key": "k"}')"#;
    let first = expect(&mut s, "emitted", call);
    for _ in 0..3 {
        let again = expect(&mut s, "duplicate", call);
        assert_eq!(again["event_id"], first["event_id"]);
    }
    expect(&mut s, "emitted", r#"fn_event_emit('a', 'x', p_options => '{"dedupe_key": "other"}')"#);
    assert_eq!(s.count("agentq.event"), 2);
}

#[test]
fn of_two_sessions_with_one_key_the_second_waits_and_is_told_of_the_first() {
    for (end, code) in [("COMMIT", "duplicate"), ("ROLLBACK", "emitted")] {
        let db = database();
        let (mut a, mut s) = (db.session(), db.session());
        let call = r#"fn_event_emit('a', 'x', p_options => '{"dedupe_key": "k"}')"#;
        a.run("BEGIN");
        let first = expect(&mut a, "emitted", call);
        let second = std::thread::scope(|scope| {
            let other = scope.spawn(|| db.session().call(call));
            until_someone_waits(&mut s);
            a.run(end);
            other.join().expect("the other session answers")
        });
        assert_eq!(second["code"], code);
        assert_eq!(second["event_id"] == first["event_id"], end == "COMMIT");
        assert_eq!(s.count("agentq.event"), 1);
    }
}

#[test]
fn an_event_and_its_key_go_with_their_transaction() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN");
    s.call(r#"fn_event_emit('a', 'x', p_options => '{"dedupe_key": "k"}')"#);
    s.run("SAVEPOINT p");
    emit(&mut s, "b", "x");
    s.run("ROLLBACK TO p; ROLLBACK");
    assert_eq!((s.count("agentq.event"), s.count("agentq_internal.event_key")), (0, 0));
    s.run("BEGIN");
    emit(&mut s, "kept", "x");
    s.run("SAVEPOINT p");
    emit(&mut s, "undone", "x");
    s.run("ROLLBACK TO p; COMMIT");
    seal(&mut s);
    assert_eq!(s.texts("SELECT e.event_kind FROM agentq.event_log JOIN agentq.event e USING (event_id)"), ["kept"]);
    assert_sound(&mut s);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let db = database();
    let mut s = db.session();
    let null = |call: &str| format!("SELECT agentq.fn_event_emit({call})");
    refused(&mut s, &null("NULL, 'x'"), "22004", "p_kind must not be NULL", "p_kind");
    refused(&mut s, &null("'a', NULL"), "22004", "p_subject must not be NULL", "p_subject");
    for (call, message) in [
        ("fn_event_emit(' ', 'x')", "p_kind must not be empty"),
        ("fn_event_emit('a', '')", "p_subject must not be empty"),
        ("fn_event_emit('a', 'x', '[1]')", "must be a JSON object"),
        ("fn_event_emit('a', 'x', jsonb_build_object('a', repeat('x', 300000)))", "more than the 262144 allowed"),
        ("fn_event_emit('a', 'x', '{\"n\": 1e400}')", "cannot be read"),
        ("fn_event_emit('a', 'x', p_options => '[]')", "must be a JSON object"),
        ("fn_event_emit('a', 'x', p_options => '{\"colour\": 1}')", "unknown key \"colour\""),
        ("fn_event_emit('a', 'x', p_options => '{\"purpose\": \"fun\"}')", "p_options.purpose must be one of"),
        ("fn_event_emit('a', 'x', p_options => '{\"tags\": \"one\"}')", "must be a list"),
        (
            "fn_event_emit('a', 'x', p_options => '{\"mission_id\": \"7\"}')",
            "p_options.mission_id must be a uuid, not \"7\"",
        ),
        (
            "fn_event_emit('a', 'x', p_options => '{\"traceparent\": \"7\"}')",
            "p_options.traceparent must be a traceparent, not \"7\"",
        ),
        ("fn_event_emit('a', 'x', p_options => '{\"origin\": \"agentq\"}')", "unknown key \"origin\""),
        ("fn_event_emit('a', 'x', p_options => '{\"step_index\": -1}')", "p_options.step_index must be"),
    ] {
        refuse(&mut s, call, message);
    }
    assert_eq!((s.count("agentq.event"), s.count("agentq_internal.event_key")), (0, 0));
}

#[test]
fn a_producer_writes_events_a_worker_reads_them_and_neither_sees_the_tables() {
    let db = database();
    let mut admin = db.session();
    let (producer, worker) = (format!("producer {}", db.name), format!("worker {}", db.name));
    let (mut p, mut w) = (db.session_of(&producer), db.session_of(&worker));
    admin.call(&format!("fn_access_grant('{producer}', 'producer')"));
    admin.call(&format!("fn_access_grant('{worker}', 'worker')"));
    emit(&mut p, "a", "x");
    assert_eq!(p.fails("SELECT agentq.fn_event_read()").code, "42501");
    // Also makes the first part of the log, with the rights of the extension's owner.
    assert_eq!(w.call("fn_event_read()")["count"], 1);
    for table in ["event", "event_usual_rest", "event_log", "event_key", "event_seal", "event_log_usual_0"] {
        assert_eq!(w.fails(&format!("SELECT * FROM {}", admin.qualified(table))).code, "42501", "{table}");
    }
}

#[test]
fn an_event_says_who_wrote_it_and_nobody_speaks_for_agentq() {
    let db = database();
    let mut s = db.session();
    let role = format!("writer of {}", db.name);
    s.run(&format!("CREATE ROLE \"{role}\" LOGIN"));
    s.call(&format!("fn_access_grant('{role}', 'producer')"));
    let mut writer = db.session_of(&role);
    emit(&mut writer, "job.dead_lettered", "a forged one");
    // What agentq itself says has the role that caused it.
    s.call(&format!("fn_access_grant('{role}', 'worker')"));
    let job = text(&writer.call("fn_job_enqueue('k', p_max_attempts => 1)"), "job_id");
    expect(&mut writer, "claimed", "fn_job_claim('w', 'k')");
    expect(&mut writer, "dead_letter", &format!("fn_job_fail_or_retry('{job}', 'w', 'no')"));
    let rows = s.texts(
        "SELECT concat_ws(' ', subject, origin, actor, target_type) FROM agentq.event WHERE event_kind = 'job.dead_lettered' ORDER BY event_id",
    );
    assert_eq!(rows, [format!("a forged one caller {role}"), format!("{job} agentq {role} job")]);
    seal(&mut s);
    let own = s.call("fn_event_read(0, 10, NULL, '{\"kinds\": [\"job.*\"], \"origin\": \"agentq\"}')");
    assert_eq!(crate::each(&own, "subject"), [job]);
    assert_sound(&mut s);
    s.run(&format!("DROP OWNED BY \"{role}\""));
}
