//! pg_dump takes the whole queue along, and a restored queue goes on where the dumped one was.

use crate::catalog::{describe, differences};
use crate::filled::{Filled, assert_works, claim_all, fill, rows};
use agentq_tests::programs::{must_run, plain_database, program};
use agentq_tests::{Database, Session, database, eventually, shared_cluster};
use std::collections::BTreeSet;

/// A filled queue, with two roles that have levels.
fn filled_database() -> (Database<'static>, Filled) {
    let db = database();
    let mut s = db.session();
    let filled = fill(&mut s);
    for (role, level) in [(worker_of(&db), "worker"), (reader_of(&db), "reader")] {
        drop(db.session_of(&role));
        s.call(&format!("fn_access_grant('{role}', '{level}')"));
    }
    (db, filled)
}

// Roles belong to the server, not to the database: each test has its own.
fn worker_of(db: &Database<'_>) -> String {
    format!("worker of {}", db.name)
}

fn reader_of(db: &Database<'_>) -> String {
    format!("reader of {}", db.name)
}

fn restored_from_custom_format(db: &Database<'_>) -> Database<'static> {
    let restored = plain_database(shared_cluster());
    let dump = must_run(program("pg_dump", db).arg("-Fc"), b"");
    must_run(program("pg_restore", &restored).args(["--exit-on-error", "-d", &restored.name]), &dump);
    restored
}

fn restored_from_plain_sql(db: &Database<'_>) -> Database<'static> {
    let restored = plain_database(shared_cluster());
    let dump = must_run(&mut program("pg_dump", db), b"");
    must_run(program("psql", &restored).args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]), &dump);
    restored
}

#[track_caller]
fn assert_same_rows(one: &mut Session, other: &mut Session) {
    let (one, other) = (rows(one), rows(other));
    for (relation, rows) in &one {
        assert!(!rows.is_empty(), "{relation} has something to compare");
        assert_eq!(rows, &other[relation], "{relation}");
    }
}

#[test]
fn a_restored_dump_has_every_row_and_goes_on() {
    let (db, filled) = filled_database();
    let restored = restored_from_custom_format(&db);
    let (mut before, mut after) = (db.session(), restored.session());
    assert_same_rows(&mut before, &mut after);
    assert_eq!(differences(&describe(&mut before), &describe(&mut after)), Vec::<String>::new());
    restored.assert_sound();
    let order = claim_all(&mut before);
    assert!(order.len() > 5, "there is an order to compare: {order:?}");
    assert_eq!(claim_all(&mut after), order, "jobs come in the same order");
    assert_works(&mut after, &filled);
    assert_eq!(after.call("fn_config_get('queue.lease.duration_sec')"), 7200, "a changed setting is in force");
}

#[test]
fn a_plain_sql_dump_restores_without_an_error() {
    let (db, filled) = filled_database();
    let restored = restored_from_plain_sql(&db);
    let (mut before, mut after) = (db.session(), restored.session());
    assert_same_rows(&mut before, &mut after);
    assert_works(&mut after, &filled);
}

#[test]
fn a_dump_of_a_restored_database_is_the_same_again() {
    let (db, filled) = filled_database();
    let twice = restored_from_plain_sql(&restored_from_custom_format(&db));
    assert_same_rows(&mut db.session(), &mut twice.session());
    assert_works(&mut twice.session(), &filled);
}

#[test]
fn access_levels_come_along_with_a_dump() {
    let (db, _) = filled_database();
    let restored = restored_from_custom_format(&db);
    let mut worker = restored.session_of(&worker_of(&db));
    assert_eq!(worker.claim("w")["code"], "claimed");
    assert_eq!(worker.fails("SELECT agentq.fn_job_enqueue('a')").code, "42501");
    let mut reader = restored.session_of(&reader_of(&db));
    assert_ne!(reader.count("agentq.job_queue"), 0);
    assert_eq!(reader.fails("SELECT agentq.fn_job_claim('r')").code, "42501");
    let mut nobody = restored.session_of(&format!("nobody of {}", db.name));
    assert_eq!(nobody.fails("SELECT agentq.fn_version()").code, "42501");
    // And can be taken away there.
    restored.session().call(&format!("fn_access_revoke('{}', 'worker')", worker_of(&db)));
    assert_eq!(worker.fails("SELECT agentq.fn_job_claim('w')").code, "42501");
}

#[test]
fn a_dump_restored_where_a_queue_has_run_loses_no_job() {
    let (db, filled) = filled_database();
    let dump = must_run(&mut program("pg_dump", &db), b"");
    let mut s = db.session();
    let order = claim_all(&mut s);
    // The same database: what the server remembers of its queues is from before the restore.
    s.run("DROP EXTENSION agentq");
    must_run(program("psql", &db).args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]), &dump);
    // That memory may hide jobs for a moment, and so change their order, but not for good.
    let mut found = BTreeSet::new();
    eventually("every job is found", || {
        found.extend(claim_all(&mut s));
        found.len() >= order.len()
    });
    assert_eq!(found, order.into_iter().collect());
    assert_works(&mut s, &filled);
}

#[test]
fn a_restore_in_parallel_brings_the_same_rows() {
    let (db, filled) = filled_database();
    let folder = db.cluster.data.join(format!("dump-{}", db.name));
    must_run(program("pg_dump", &db).args(["-Fd", "-j2", "-f"]).arg(&folder), b"");
    let restored = plain_database(shared_cluster());
    let restore = ["--exit-on-error", "-j2", "-d", &restored.name];
    must_run(program("pg_restore", &restored).args(restore).arg(&folder), b"");
    assert_same_rows(&mut db.session(), &mut restored.session());
    assert_works(&mut restored.session(), &filled);
    std::fs::remove_dir_all(folder).expect("the dump can be removed");
}

/// What the flow and governance rooms keep, as people see it.
const FLOWING: [&str; 12] = [
    "v_job_step",
    "action",
    "signal",
    "mission",
    "v_mission_step",
    "v_effect",
    "effect_manifest",
    "policy",
    "policy_version",
    "v_proposal",
    "event",
    "event_log",
];

/// Something of everything that flows; returns the job that somebody holds, and the mission whose next step waits for it.
fn let_flow(s: &mut Session) -> (String, String) {
    let text = |answer: &agentq_tests::Value, field: &str| answer[field].as_str().expect("a text").to_owned();
    s.call(
        r#"fn_effect_manifest_set('{"operations": {"o": {"produces": ["x.do"], "job_kind": "first"}},
            "compensations": {"u": {"of": "o", "produces": ["x.undo"], "counter_effects": true}}, "inverse_of": {"x.do": "x.undo"}}')"#,
    );
    let steps = r#"[{"name": "first", "kind": "first"}, {"name": "second", "kind": "second", "depends_on": ["first"],
        "params": {"n": {"$from": "$.first.n"}}}]"#;
    let mission = text(&s.call(&format!(r#"fn_mission_start('{{"steps": {steps}}}')"#)), "mission_id");
    let job = text(&s.call("fn_job_claim('w', 'first', 7200)"), "job_id");
    s.call(&format!("fn_step_begin('{job}', 'w', 'fetch')"));
    s.call(&format!("fn_step_complete('{job}', 'w', 'fetch', '7')"));
    let planned = s.call(&format!(r#"fn_effect_plan('{job}', 'w', '[{{"effect_type": "x.do"}}]')"#));
    let effect = text(&planned["effects"][0], "effect_id");
    s.call(&format!("fn_effect_begin('{effect}', 'w')"));
    s.call(&format!("fn_effect_finish('{effect}', 'w')"));
    s.call("fn_action_begin('once', 'mail', p_holder => 'w')");
    s.call("fn_action_finish('once', 'w', '1')");
    s.call("fn_signal_send('go', 'k', '{\"n\": 1}')");
    s.call(r#"fn_policy_set('auto_approve', '{"enabled": false}')"#);
    s.call(r#"fn_proposal_create('p', 'api', '{"steps": [{"kind": "third"}]}')"#);
    s.call("fn_event_emit('a.b', 'x', '{}', '{\"dedupe_key\": \"d\"}')");
    s.call("fn_engine_tick('seal_events')");
    (job, mission)
}

#[test]
fn what_flows_goes_on_after_a_restore() {
    let db = database();
    let mut before = db.session();
    let (job, mission) = let_flow(&mut before);
    let restored = restored_from_custom_format(&db);
    let mut s = restored.session();
    for relation in FLOWING {
        let rows = format!("SELECT to_jsonb(r) FROM agentq.{relation} r ORDER BY to_jsonb(r)");
        let expected = before.texts(&rows);
        assert!(!expected.is_empty(), "{relation} has something to compare");
        assert_eq!(s.texts(&rows), expected, "{relation}");
    }
    assert_eq!(s.call(&format!("fn_step_begin('{job}', 'w', 'fetch')"))["result"], 7, "the step was done");
    assert_eq!(s.call("fn_action_begin('once', 'mail', p_holder => 'v')")["code"], "done");
    assert_eq!(s.call("fn_event_emit('a.b', 'x', '{}', '{\"dedupe_key\": \"d\"}')")["code"], "duplicate");
    // The hook is known by its name: the next step becomes a job, and the mission ends.
    s.call(&format!(r#"fn_job_ack('{job}', 'w', '{{"n": 5}}')"#));
    let next = s.call("fn_job_claim('w', 'second')");
    assert_eq!(next["payload_json"]["n"], 5, "{next}");
    s.call(&format!("fn_job_ack('{}', 'w')", next["job_id"].as_str().expect("a job")));
    assert_eq!(s.text(&format!("SELECT status FROM agentq.mission WHERE mission_id = '{mission}'")), "succeeded");
    let proposal = s.text("SELECT proposal_id FROM agentq.v_proposal");
    assert_eq!(s.call(&format!("fn_proposal_approve('{proposal}')"))["code"], "approved");
    assert_eq!(s.call("fn_event_verify()")["code"], "sound");
    restored.assert_sound();
}
