//! Errors are for people: each says what was wrong and what to do, and nothing of how agentq is made.

use crate::access::with_levels;
use agentq_tests::{Session, database};
use postgres::error::DbError;

/// What no user should ever read.
const INTERNALS: [&str; 9] =
    ["backtrace", "src/", ".rs", "panicked", "pgrx", "SPI", "agentq_core", "unwrap", "internal error"];

/// An id that is no job's.
const NONE: &str = "'00000000-0000-0000-0000-000000000000'";

/// The error that the statement must raise.
#[track_caller]
fn error(s: &mut Session, sql: &str) -> DbError {
    let sql = sql.replace("NONE", NONE);
    match s.0.simple_query(&sql) {
        Ok(_) => panic!("this must fail: {sql}"),
        Err(error) => error.as_db_error().cloned().unwrap_or_else(|| panic!("{sql}: {error:?}")),
    }
}

/// What is wrong with an error that a user reads and that should have this code.
fn unfit(sql: &str, error: &DbError, code: &str) -> Option<String> {
    let parts = [Some(error.message()), error.detail(), error.hint(), error.where_()].into_iter().flatten();
    let shows = |internal: &&str| parts.clone().any(|part| part.contains(*internal));
    let shown: String = sql.chars().take(100).collect();
    let found = error.code().code();
    if let Some(internal) = INTERNALS.iter().find(|internal| shows(internal)) {
        return Some(format!("{shown}: shows \"{internal}\": {error:?}"));
    }
    (found != code).then(|| format!("{shown}: {found} instead of {code}: {}", error.message()))
}

#[track_caller]
fn assert_fit(sql: &str, error: &DbError, code: &str) {
    assert_eq!(unfit(sql, error, code), None);
}

/// Checks each statement of a list: agentq raises the error itself, so there is a hint.
#[track_caller]
fn assert_refused(s: &mut Session, cases: &[(&str, &str)]) {
    let mut problems = Vec::new();
    for (code, call) in cases {
        let sql = format!("SELECT agentq.{call}");
        let error = error(s, &sql);
        let without_hint = || error.hint().is_none().then(|| format!("{sql}: without a hint: {error:?}"));
        problems.extend(unfit(&sql, &error, code).or_else(without_hint));
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

const INVALID: &str = "22023";
const MISSING: &str = "22004";
const UNKNOWN: &str = "P0002";
const WRONG_STATE: &str = "55000";

#[test]
fn a_bad_enqueue_says_what_to_mend() {
    let db = database();
    assert_refused(
        &mut db.session(),
        &[
            (MISSING, "fn_job_enqueue(NULL)"),
            (INVALID, "fn_job_enqueue('  ')"),
            (INVALID, "fn_job_enqueue(repeat('k', 201))"),
            (INVALID, "fn_job_enqueue('a', repeat('k', 1001))"),
            (INVALID, "fn_job_enqueue('a', '')"),
            (INVALID, "fn_job_enqueue('a', p_actor => ' ')"),
            (INVALID, "fn_job_enqueue('a', p_payload_json => '[1]')"),
            (INVALID, "fn_job_enqueue('a', p_payload_json => '7')"),
            (INVALID, r#"fn_job_enqueue('a', p_payload_json => '{"password": "x"}')"#),
            (INVALID, "fn_job_enqueue('a', p_payload_json => jsonb_build_object('x', repeat('x', 300000)))"),
            (INVALID, "fn_job_enqueue('a', p_priority => -1)"),
            (INVALID, "fn_job_enqueue('a', p_max_attempts => 0)"),
            (INVALID, "fn_job_enqueue('a', p_scheduled_at => 'infinity')"),
            (INVALID, r#"fn_job_enqueue('a', p_options => '{"lane": "x"}')"#),
            (INVALID, r#"fn_job_enqueue('a', p_options => '{"queue": "nowhere"}')"#),
            (INVALID, r#"fn_job_enqueue('a', p_options => '{"queue": 5}')"#),
            (INVALID, "fn_job_enqueue('a', p_options => '[]')"),
            (MISSING, "fn_job_enqueue_batch(NULL)"),
            (INVALID, "fn_job_enqueue_batch('{}')"),
            (INVALID, "fn_job_enqueue_batch('[]', '[]')"),
            (INVALID, r#"fn_job_enqueue_batch('[]', '{"all_or_nothing": "yes"}')"#),
            (INVALID, r#"fn_job_enqueue_batch('[]', '{"some": true}')"#),
            (INVALID, "fn_job_enqueue_batch((SELECT jsonb_agg(1) FROM generate_series(1, 10001)))"),
            (MISSING, "fn_job_enqueue_payloads(NULL, '[]')"),
            (INVALID, "fn_job_enqueue_payloads('a', '{}')"),
            (INVALID, r#"fn_job_enqueue_payloads('a', '[{}]', '{"idempotency_key": "k"}')"#),
        ],
    );
    assert_eq!(db.session().count("agentq.job_queue"), 0, "nothing of it was written");
}

#[test]
fn a_bad_claim_or_call_of_a_holder_says_what_to_mend() {
    let db = database();
    assert_refused(
        &mut db.session(),
        &[
            (MISSING, "fn_job_claim(NULL)"),
            (INVALID, "fn_job_claim('')"),
            (INVALID, "fn_job_claim(repeat('w', 201))"),
            (INVALID, "fn_job_claim('w', '')"),
            (INVALID, "fn_job_claim('w', p_lease_seconds => 0)"),
            (INVALID, "fn_job_claim('w', p_lease_seconds => 86401)"),
            (INVALID, r#"fn_job_claim('w', p_options => '{"queues": []}')"#),
            (INVALID, r#"fn_job_claim('w', p_options => '{"queues": "default"}')"#),
            (INVALID, r#"fn_job_claim('w', p_options => '{"queues": ["nowhere"]}')"#),
            (INVALID, r#"fn_job_claim('w', 'a', p_options => '{"kinds": ["b"]}')"#),
            (INVALID, "fn_job_claim('w', p_options => '7')"),
            (MISSING, "fn_job_claim_batch('w', NULL)"),
            (INVALID, "fn_job_claim_batch('w', 0)"),
            (INVALID, "fn_job_claim_batch('w', 1001)"),
            (MISSING, "fn_job_start(NULL, 'w')"),
            (MISSING, "fn_job_start(NONE, NULL)"),
            (UNKNOWN, "fn_job_start(NONE, 'w')"),
            (UNKNOWN, "fn_job_heartbeat(NONE, 'w')"),
            (INVALID, "fn_job_heartbeat(NONE, 'w', 0)"),
            (INVALID, "fn_job_heartbeat(NONE, 'w', p_checkpoint => to_jsonb(repeat('x', 1100000)))"),
            (UNKNOWN, "fn_job_ack(NONE, 'w')"),
            (INVALID, "fn_job_ack(NONE, 'w', to_jsonb(repeat('x', 300000)))"),
            (MISSING, "fn_job_ack_batch('w', NULL)"),
            (INVALID, "fn_job_ack_batch('w', '{}')"),
            (INVALID, r#"fn_job_ack_batch('w', '["nonsense"]')"#),
            (INVALID, r#"fn_job_ack_batch('w', '[{"job": 1}]')"#),
            (UNKNOWN, "fn_job_ack_and_claim(NONE, 'w')"),
            (MISSING, "fn_job_ack_and_claim(NONE, NULL)"),
            (INVALID, "fn_job_ack_and_claim(NULL, 'w', p_lease_seconds => 0)"),
            (MISSING, "fn_job_ack_and_claim_batch('w', '[]', NULL)"),
            (MISSING, "fn_job_ack_and_claim_batch(NULL, '[]', 1)"),
            (INVALID, "fn_job_ack_and_claim_batch('w', '{}', 1)"),
            (UNKNOWN, "fn_job_fail_or_retry(NONE, 'w', 'no')"),
            (INVALID, "fn_job_fail_or_retry(NONE, 'w', 'no', ' ')"),
            (UNKNOWN, "fn_job_release(NONE, 'w')"),
            (UNKNOWN, "fn_job_snooze(NONE, 'w', now())"),
            (MISSING, "fn_job_snooze(NONE, 'w', NULL)"),
            (INVALID, "fn_job_snooze(NONE, 'w', 'infinity')"),
        ],
    );
}

#[test]
fn a_bad_call_of_an_operator_says_what_to_mend() {
    let db = database();
    let mut s = db.session();
    assert_refused(
        &mut s,
        &[
            (UNKNOWN, "fn_job_get(NONE)"),
            (MISSING, "fn_job_get(NULL)"),
            (UNKNOWN, "fn_job_cancel(NONE)"),
            (UNKNOWN, "fn_job_change(NONE, '{}')"),
            (UNKNOWN, "fn_job_move_to_dead_letter(NONE, 'no')"),
            (MISSING, "fn_job_move_to_dead_letter(NONE, NULL)"),
            (INVALID, "fn_job_move_to_dead_letter(NONE, ' ')"),
            (INVALID, "fn_job_move_to_dead_letter(NONE, 'no', '')"),
            (MISSING, "fn_job_purge(NULL)"),
            (INVALID, "fn_job_purge('-1 day')"),
            (INVALID, "fn_job_purge('1 day', 0)"),
            (MISSING, "fn_job_purge('1 day', NULL)"),
            (UNKNOWN, "fn_dead_letter_triage(NONE, 'closed')"),
            (INVALID, "fn_dead_letter_triage(NONE, 'closed', p_resolution => '[]')"),
            (UNKNOWN, "fn_dead_letter_redrive(NONE)"),
            (INVALID, "fn_dead_letter_redrive()"),
            (INVALID, "fn_dead_letter_redrive(p_filter => '{\"x\": 1}')"),
            (MISSING, "fn_dead_letter_purge(NULL)"),
            (INVALID, "fn_dead_letter_purge('1 day', '[]')"),
            (MISSING, "fn_job_replay(NULL)"),
            (UNKNOWN, "fn_job_replay(NONE)"),
            (INVALID, "fn_job_replay(NONE, 'end')"),
            (MISSING, "fn_job_reconcile(NULL, 'done')"),
            (MISSING, "fn_job_reconcile(NONE, NULL)"),
            (UNKNOWN, "fn_job_reconcile(NONE, 'done')"),
            (INVALID, "fn_job_reconcile(NONE, 'maybe')"),
            (MISSING, "fn_error_class_set(NULL, true)"),
            (MISSING, "fn_error_class_set('x', NULL)"),
            (INVALID, "fn_error_class_set(' ', true)"),
            (UNKNOWN, "fn_error_class_remove('timeout')"),
            (MISSING, "fn_error_class_remove(NULL)"),
            (INVALID, "fn_retry_policy_set('all', 'x', '{}')"),
            (MISSING, "fn_retry_policy_set('kind', 'x', NULL)"),
            (MISSING, "fn_retry_policy_remove(NULL, 'x')"),
            (INVALID, "fn_dead_letter_triage(NONE, 'burnt')"),
            (MISSING, "fn_dead_letter_triage(NONE, NULL)"),
            (MISSING, "fn_queue_set(NULL)"),
            (INVALID, "fn_queue_set(' ')"),
            (INVALID, "fn_queue_set('a', '[]')"),
            (INVALID, r#"fn_queue_set('a', '{"colour": "red"}')"#),
            (INVALID, r#"fn_queue_set('a', '{"lease_seconds": 0}')"#),
            (INVALID, r#"fn_queue_set('a', '{"priority": "high"}')"#),
            (INVALID, "fn_queue_pause('nowhere')"),
            (MISSING, "fn_queue_resume(NULL)"),
            (MISSING, "fn_queue_heartbeat_tick(NULL, 'Agent')"),
            (INVALID, "fn_queue_heartbeat_tick('robot', 'robot')"),
            (INVALID, "fn_queue_heartbeat_tick('robot', 'Agent', 'fine')"),
            (INVALID, r#"fn_queue_heartbeat_tick('robot', 'Agent', p_metadata => '{"token": 1}')"#),
            (INVALID, "fn_queue_stale_check(0)"),
            (MISSING, "fn_config_get(NULL)"),
            (INVALID, "fn_config_get('queue.colour')"),
            (INVALID, "fn_config_set('queue.colour', '1')"),
            (INVALID, r#"fn_config_set('queue.lease.duration_sec', '"long"')"#),
            (MISSING, "fn_config_set('queue.lease.duration_sec', NULL)"),
            (INVALID, "fn_access_grant('postgres', 'admin')"),
            ("42704", "fn_access_grant('no such role', 'reader')"),
        ],
    );
}

#[test]
fn a_bad_call_about_effects_says_what_to_mend() {
    let db = database();
    let mut s = db.session();
    assert_refused(
        &mut s,
        &[
            (MISSING, "fn_effect_manifest_set(NULL)"),
            (INVALID, "fn_effect_manifest_set('[]')"),
            (INVALID, r#"fn_effect_manifest_set('{"operations": {"a": {"requires_compensation": true}}}')"#),
            (INVALID, r#"fn_effect_manifest_check('{"operations": 7}')"#),
            (MISSING, "fn_effect_operation_set(NULL, '{}')"),
            (INVALID, "fn_effect_operation_set('a', '[]')"),
            (UNKNOWN, "fn_effect_operation_remove('a')"),
            (MISSING, "fn_effect_operation_remove(NULL)"),
            (INVALID, r#"fn_effect_compensation_set('c', '{"of": "a"}')"#),
            (UNKNOWN, "fn_effect_compensation_remove('c')"),
            (MISSING, "fn_effect_plan(NONE, NULL, '[]')"),
            (INVALID, "fn_effect_plan(NONE, 'w', '[{}]')"),
            (UNKNOWN, "fn_effect_plan(NONE, 'w', '[]')"),
            (MISSING, "fn_effect_begin(NULL, 'w')"),
            (UNKNOWN, "fn_effect_begin(NONE, 'w')"),
            (UNKNOWN, "fn_effect_finish(NONE, 'w')"),
            (UNKNOWN, "fn_effect_fail(NONE, 'w', 'no')"),
            (UNKNOWN, "fn_effect_get(NONE)"),
            (MISSING, "fn_effect_skip(NONE, NULL)"),
            (INVALID, "fn_effect_skip(NONE, ' ')"),
            (UNKNOWN, "fn_effect_skip(NONE, 'it stays')"),
            (MISSING, "fn_effect_reconcile(NONE, NULL)"),
            (INVALID, "fn_effect_reconcile(NONE, 'maybe')"),
            (UNKNOWN, "fn_effect_reconcile(NONE, 'done')"),
            (MISSING, "fn_effect_compensate()"),
            (INVALID, "fn_effect_compensate(NONE, NONE)"),
            (UNKNOWN, "fn_effect_compensate(NONE)"),
            (INVALID, "fn_effect_compensate(NONE, p_options => '[]')"),
        ],
    );
}

#[test]
fn a_job_that_cannot_be_changed_says_why() {
    let db = database();
    let mut s = db.session();
    let (held, queued) = (s.enqueue("held"), s.enqueue("queued"));
    s.call("fn_job_claim('w', 'held')");
    let change = |id: &str, changes: &str| format!("fn_job_change('{id}', '{changes}')");
    let cases = [
        (WRONG_STATE, change(&held, r#"{"priority": 1}"#)),
        (MISSING, format!("fn_job_change('{queued}', NULL)")),
        (INVALID, change(&queued, r#"{"state": "leased"}"#)),
        (INVALID, change(&queued, r#"{"priority": "high"}"#)),
        (INVALID, change(&queued, r#"{"priority": null}"#)),
        (INVALID, change(&queued, r#"{"max_attempts": 0}"#)),
        (INVALID, change(&queued, r#"{"scheduled_at": 5}"#)),
        (INVALID, change(&queued, r#"{"scheduled_at": null}"#)),
        (INVALID, change(&queued, r#"{"scheduled_at": "soon"}"#)),
        (INVALID, change(&queued, r#"{"scheduled_at": "infinity"}"#)),
        (INVALID, change(&queued, r#"{"payload_json": {"secret": 1}}"#)),
        (INVALID, change(&queued, r#"{"payload_json": null}"#)),
        (INVALID, change(&queued, "[]")),
    ];
    let cases: Vec<_> = cases.iter().map(|(code, call)| (*code, call.as_str())).collect();
    assert_refused(&mut s, &cases);
    assert_eq!(s.claim("w")["job_id"], queued.as_str(), "it is still where it was");
    s.call(&format!("fn_job_ack('{queued}', 'w')"));
    assert_refused(&mut s, &[(WRONG_STATE, &change(&queued, r#"{"priority": 1}"#))]);
    db.assert_sound();
}

#[test]
fn the_view_refuses_with_the_function_to_use() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue('a', 'taken')");
    for (code, sql, says) in [
        ("0A000", "INSERT INTO agentq.job_queue (job_kind, state) VALUES ('a', 'leased')", "fn_job_claim"),
        ("0A000", "INSERT INTO agentq.job_queue (job_kind, job_id) VALUES ('a', NONE)", "fn_job_enqueue"),
        ("23505", "INSERT INTO agentq.job_queue (job_kind, idempotency_key) VALUES ('a', 'taken')", "fn_job_enqueue"),
        (INVALID, "INSERT INTO agentq.job_queue (job_kind) VALUES (' ')", "visible character"),
        (MISSING, "INSERT INTO agentq.job_queue (priority) VALUES (1)", "p_job_kind"),
        (INVALID, "INSERT INTO agentq.job_queue (job_kind, queue) VALUES ('a', 'nowhere')", "fn_queue_set"),
        ("0A000", "UPDATE agentq.job_queue SET state = 'succeeded'", "fn_job_ack"),
        ("0A000", "UPDATE agentq.job_queue SET lease_owner = 'me'", "fn_job_heartbeat"),
        (INVALID, r#"UPDATE agentq.job_queue SET payload_json = '{"raw": 1}'"#, "payload_ref"),
        (INVALID, "UPDATE agentq.job_queue SET priority = -1", "0 is the most urgent"),
        ("0A000", "DELETE FROM agentq.job_queue", "fn_job_cancel"),
    ] {
        let error = error(&mut s, sql);
        assert_fit(sql, &error, code);
        assert!(error.hint().is_some_and(|hint| hint.contains(says)), "{sql}: {error:?}");
    }
    s.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    let insert = "INSERT INTO agentq.job_queue (job_kind) VALUES ('a')";
    let error = error(&mut s, insert);
    assert_fit(insert, &error, WRONG_STATE);
    assert!(error.hint().is_some_and(|hint| hint.contains("fn_config_set")), "{error:?}");
}

#[test]
fn errors_that_the_server_raises_show_nothing_of_the_inside_either() {
    let db = database();
    let mut s = db.session();
    for (code, sql) in [
        ("22P02", "SELECT agentq.fn_job_get('nonsense')"),
        ("22P02", "SELECT agentq.fn_job_enqueue('a', p_payload_json => '{')"),
        ("42883", "SELECT agentq.fn_job_enqueue('a', p_colour => 'red')"),
        ("23514", "UPDATE agentq.config SET value = '\"x\"' WHERE key = 'queue.lease.duration_sec'"),
        ("23514", "INSERT INTO agentq.config (key, value, description) VALUES ('queue.colour', '1', '')"),
        ("23514", "UPDATE agentq.queue SET max_attempts = 0"),
        ("22023", "SET agentq.clock_offset = '1e10'"),
        ("25006", "BEGIN READ ONLY; SELECT agentq.fn_job_enqueue('a')"),
        ("25006", "BEGIN READ ONLY; SELECT agentq.fn_job_claim('w')"),
        (
            "57014",
            "BEGIN; SET LOCAL statement_timeout = 1; SELECT agentq.fn_job_enqueue('a') FROM generate_series(1, 100000)",
        ),
    ] {
        let error = error(&mut s, sql);
        assert_fit(sql, &error, code);
        s.run("ROLLBACK");
    }
    // One waits for the key that another is taking, and gives up.
    let mut other = db.session();
    other.run("BEGIN; SELECT agentq.fn_job_enqueue('a', 'contended')");
    s.run("SET lock_timeout = '50ms'");
    let enqueue = "SELECT agentq.fn_job_enqueue('a', 'contended')";
    assert_fit(enqueue, &error(&mut s, enqueue), "55P03");
    db.assert_sound();
}

#[test]
fn a_denied_call_shows_only_what_was_denied() {
    let db = database();
    let (_, mut stranger) = with_levels(&db, "stranger", &[]);
    let (_, mut worker) = with_levels(&db, "worker", &["worker"]);
    let sql = "SELECT agentq.fn_version()";
    let shut_out = error(&mut stranger, sql);
    assert_fit(sql, &shut_out, "42501");
    assert_eq!(shut_out.message(), "permission denied for schema agentq");
    for (sql, message) in [
        ("SELECT agentq.fn_job_enqueue('a')", "permission denied for function fn_job_enqueue"),
        ("SELECT * FROM agentq.job_queue", "permission denied for view job_queue"),
        ("SELECT * FROM agentq.access_grant", "permission denied for table access_grant"),
        ("SELECT * FROM agentq_internal.job", "permission denied for schema agentq_internal"),
        ("SET agentq.clock_offset = 5", "permission denied to set parameter \"agentq.clock_offset\""),
    ] {
        let error = error(&mut worker, sql);
        assert_fit(sql, &error, "42501");
        assert_eq!(error.message(), message);
    }
}

/// JSON that PostgreSQL stores gladly and that a parser elsewhere may choke on.
fn strange_json() -> [String; 3] {
    [
        r#"{"n": 1e400}"#.to_owned(),
        format!(r#"{{"n": {}}}"#, "9".repeat(500)),
        format!(r#"{{"n": {}{}}}"#, "[".repeat(1000), "]".repeat(1000)),
    ]
}

#[test]
fn strange_json_is_stored_or_refused_but_never_breaks_a_function() {
    let db = database();
    let mut s = db.session();
    let mut problems = Vec::new();
    for json in strange_json() {
        let held = s.call(&format!("fn_job_enqueue('held', p_payload_json => '{json}')"));
        let id = held["job_id"].as_str().expect("an id").to_owned();
        for call in [
            format!(r#"fn_job_enqueue_batch('[{{"job_kind": "a", "payload_json": {json}}}]')"#),
            format!(r#"fn_job_enqueue_batch('[{{"job_kind": {json}}}]')"#),
            format!("fn_job_enqueue('a', p_options => '{json}')"),
            format!("fn_job_claim('w', p_options => '{json}')"),
            format!("fn_job_change('{id}', '{{\"payload_json\": {json}}}')"),
            format!("fn_queue_set('strange', '{json}')"),
            format!("fn_config_set('queue.lease.duration_sec', '{json}')"),
            format!("fn_queue_heartbeat_tick('robot', 'Agent', p_metadata => '{json}')"),
            format!("fn_job_ack_batch('w', '[{json}]')"),
        ] {
            let sql = format!("SELECT agentq.{call}");
            if let Err(error) = s.0.simple_query(&sql) {
                let error = error.as_db_error().expect("an error of the server");
                problems.extend(unfit(&sql, error, INVALID));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    db.assert_sound();
}
