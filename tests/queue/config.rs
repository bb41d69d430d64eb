//! The settings: reading and changing them, and the gates they close.

use agentq_tests::{Session, claimed, database, everything, expect, id, json, refused};

const SUBSTRATE: &str = "queue.job_substrate.enabled";

#[test]
fn every_setting_has_its_default() {
    let db = database();
    let mut s = db.session();
    let defaults = [
        ("queue.job_substrate.enabled", json!(true)),
        ("queue.worker.enabled", json!(true)),
        ("queue.notify.enabled", json!(true)),
        ("queue.heartbeat.enabled", json!(true)),
        ("queue.heartbeat.stale_threshold_seconds", json!(300)),
        ("queue.heartbeat.keep_seconds", json!(604_800)),
        ("queue.retry.max_attempts_default", json!(5)),
        ("queue.retry.backoff_base_sec", json!(10)),
        ("queue.lease.duration_sec", json!(300)),
        ("queue.payload.max_bytes", json!(262_144)),
        ("queue.checkpoint.max_bytes", json!(1_048_576)),
        ("queue.notify.interval_ms", json!(20)),
        ("queue.heartbeat.reap_stale", json!(false)),
        ("queue.retention.keep_seconds", json!(604_800)),
        ("engine.metrics.keep_seconds", json!(604_800)),
        ("queue.poison.max_crashes", json!(3)),
        ("queue.routing.alert_after_seconds", json!(300)),
        ("queue.replay.require_approval", json!(false)),
        ("events.retention_days", json!(30)),
        ("events.audit_retention_days", json!(400)),
        ("flow.step_events", json!(true)),
        ("flow.compensation.max_depth", json!(2)),
        ("flow.compensation.include_unknown", json!(false)),
        ("flow.effects.keep_seconds", json!(31_536_000)),
        ("governance.event_batch", json!(25)),
        ("governance.reaction_batch", json!(25)),
        ("governance.max_depth", json!(5)),
        ("flow.result.max_bytes", json!(262_144)),
    ];
    for (key, value) in &defaults {
        assert_eq!(s.call(&format!("fn_config_get('{key}')")), *value, "{key}");
    }
    assert_eq!(s.count("agentq.config"), defaults.len() as i64);
}

#[test]
fn a_setting_is_set_and_the_previous_value_told() {
    let db = database();
    let mut s = db.session();
    let answer = expect(&mut s, "set", "fn_config_set('queue.lease.duration_sec', '60')");
    assert_eq!(answer["key"], "queue.lease.duration_sec");
    assert_eq!((answer["value"].clone(), answer["previous"].clone()), (json!(60), json!(300)));
    assert_eq!(s.call("fn_config_get('queue.lease.duration_sec')"), json!(60));
    let by = "SELECT updated_by FROM agentq.config WHERE key = 'queue.lease.duration_sec'";
    assert_eq!(s.text(by), "postgres");
}

#[test]
fn a_change_is_seen_by_another_session_at_its_next_call() {
    let db = database();
    let (mut operator, mut worker) = (db.session(), db.session());
    for lease in [60, 61, 62] {
        operator.call(&format!("fn_config_set('queue.lease.duration_sec', '{lease}')"));
        assert_eq!(worker.call("fn_config_get('queue.lease.duration_sec')"), json!(lease));
        let job = worker.enqueue("x");
        claimed(&mut worker, "bob");
        let seen = worker.text(&format!(
            "SELECT extract(epoch FROM lease_until - picked_at)::int FROM agentq.job_queue WHERE job_id = '{job}'"
        ));
        assert_eq!(seen, lease.to_string());
    }
    // Also when someone writes to the table.
    operator.run("UPDATE agentq.config SET value = '77' WHERE key = 'queue.lease.duration_sec'");
    assert_eq!(worker.call("fn_config_get('queue.lease.duration_sec')"), json!(77));
}

#[test]
fn a_change_is_seen_by_others_when_it_commits_and_by_nobody_when_it_does_not() {
    let db = database();
    let (mut operator, mut worker) = (db.session(), db.session());
    let get = "fn_config_get('queue.lease.duration_sec')";
    worker.call(get);
    operator.run("BEGIN");
    operator.call("fn_config_set('queue.lease.duration_sec', '60')");
    assert_eq!((operator.call(get), worker.call(get)), (json!(60), json!(300)));
    operator.run("ROLLBACK");
    assert_eq!((operator.call(get), worker.call(get)), (json!(300), json!(300)));

    operator.run("BEGIN; SAVEPOINT here");
    operator.call("fn_config_set('queue.lease.duration_sec', '60')");
    assert_eq!(operator.call(get), json!(60));
    operator.run("ROLLBACK TO here");
    assert_eq!(operator.call(get), json!(300));
    operator.call("fn_config_set('queue.lease.duration_sec', '61')");
    operator.run("COMMIT");
    assert_eq!((operator.call(get), worker.call(get)), (json!(61), json!(61)));
}

#[test]
fn a_repeatable_read_transaction_keeps_the_settings_it_began_with_and_no_longer() {
    let db = database();
    let (mut operator, mut worker) = (db.session(), db.session());
    let get = "fn_config_get('queue.lease.duration_sec')";
    worker.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    operator.call("fn_config_set('queue.lease.duration_sec', '60')");
    assert_eq!(worker.call(get), json!(300));
    worker.run("COMMIT");
    assert_eq!(worker.call(get), json!(60));
}

#[test]
fn an_unknown_key_or_a_value_of_the_wrong_kind_is_refused() {
    let db = database();
    let mut s = db.session();
    for (key, value, message, hint) in [
        ("queue.lease", "1", "there is no configuration key \"queue.lease\"", "queue.lease.duration_sec"),
        (SUBSTRATE, "\"true\"", "does not accept \"true\"", "true or false"),
        (SUBSTRATE, "1", "does not accept 1", "true or false"),
        (SUBSTRATE, "null", "does not accept null", "true or false"),
        ("queue.lease.duration_sec", "0", "does not accept 0", "from 1 to 86400"),
        ("queue.lease.duration_sec", "86401", "does not accept 86401", "from 1 to 86400"),
        ("queue.lease.duration_sec", "1.5", "does not accept 1.5", "a whole number"),
        ("queue.lease.duration_sec", "\"60\"", "does not accept \"60\"", "a whole number"),
        ("queue.lease.duration_sec", "[60]", "does not accept [60]", "a whole number"),
        ("queue.retry.max_attempts_default", "0", "does not accept 0", "from 1 to 1000"),
        ("queue.retry.backoff_base_sec", "-1", "does not accept -1", "from 0 to 86400"),
        ("queue.payload.max_bytes", "5", "does not accept 5", "from 1024"),
    ] {
        let statement = format!("SELECT agentq.fn_config_set('{key}', '{value}')");
        refused(&mut s, &statement, "22023", message, hint);
    }
    refused(
        &mut s,
        "SELECT agentq.fn_config_get('queue.lease')",
        "22023",
        "there is no configuration key \"queue.lease\"",
        "The keys are: queue.job_substrate.enabled",
    );
    refused(&mut s, "SELECT agentq.fn_config_get(NULL)", "22004", "p_key must not be NULL", "p_key");
    refused(&mut s, "SELECT agentq.fn_config_set(NULL, '1')", "22004", "p_key must not be NULL", "p_key");
    let statement = format!("SELECT agentq.fn_config_set('{SUBSTRATE}', NULL)");
    refused(&mut s, &statement, "22004", "p_value must not be NULL", "p_value");
}

#[test]
fn a_number_beyond_all_bounds_is_refused_like_any_other() {
    let db = database();
    let mut s = db.session();
    let before = everything(&mut s);
    let failure = s.fails("SELECT agentq.fn_config_set('queue.lease.duration_sec', '1e400')");
    assert_eq!(failure.code, "22023", "{failure:?}");
    assert!(!failure.hint.is_empty(), "{failure:?}");
    assert_eq!(everything(&mut s), before);
}

#[test]
fn the_table_refuses_what_the_function_refuses() {
    let db = database();
    let mut s = db.session();
    for statement in [
        "UPDATE agentq.config SET value = '0' WHERE key = 'queue.lease.duration_sec'",
        "UPDATE agentq.config SET value = '\"yes\"' WHERE key = 'queue.worker.enabled'",
        "UPDATE agentq.config SET key = 'other' WHERE key = 'queue.worker.enabled'",
        "INSERT INTO agentq.config (key, value, description) VALUES ('other', '1', '')",
    ] {
        refused(&mut s, statement, "23514", "config_value_check", "");
    }
}

#[test]
fn a_setting_that_was_deleted_falls_back_to_its_default() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('queue.lease.duration_sec', '60')");
    s.run("DELETE FROM agentq.config WHERE key = 'queue.lease.duration_sec'");
    assert_eq!(s.call("fn_config_get('queue.lease.duration_sec')"), json!(300));
    let answer = expect(&mut s, "set", "fn_config_set('queue.lease.duration_sec', '61')");
    assert_eq!(answer["value"], json!(61));
    assert_eq!(s.call("fn_config_get('queue.lease.duration_sec')"), json!(61));
}

#[test]
fn a_larger_payload_fits_once_the_bound_is_raised() {
    let db = database();
    let mut s = db.session();
    let enqueue = "fn_job_enqueue('x', p_payload_json => jsonb_build_object('a', repeat('x', 300000)))";
    assert_eq!(s.fails(&format!("SELECT agentq.{enqueue}")).code, "22023");
    s.call("fn_config_set('queue.payload.max_bytes', '400000')");
    expect(&mut s, "enqueued", enqueue);
    let length = "SELECT length(payload_json->>'a') FROM agentq.job_queue";
    assert_eq!(s.text(length), "300000");
}

#[test]
fn the_clock_of_one_session_can_be_moved_without_moving_the_others() {
    let db = database();
    let (mut moved, mut other) = (db.session(), db.session());
    moved.shift_clock(1_000_000);
    let now = moved.text("SELECT agentq.fn_clock_now()");
    let ahead = format!("SELECT '{now}'::timestamptz - agentq.fn_clock_now() > interval '900000 s'");
    assert_eq!(other.text(&ahead), "t");
    moved.shift_clock(0);
    assert_eq!(moved.text(&ahead), "t");
}

#[test]
fn the_library_tells_the_version_that_is_installed() {
    let db = database();
    let same = "SELECT agentq.fn_version() = extversion FROM pg_extension WHERE extname = 'agentq'";
    assert_eq!(db.session().text(same), "t");
}

/// The call must be told that the gate is closed, and change nothing.
#[track_caller]
fn shut(s: &mut Session, gate: &str, call: &str) {
    let before = everything(s);
    let answer = s.call(call);
    assert_eq!(
        (answer["ok"].clone(), answer["code"].clone()),
        (json!(false), json!("gate_closed")),
        "{call}: {answer}"
    );
    assert_eq!(answer["gate"], json!(gate), "{call}");
    assert!(answer["message"].as_str().is_some_and(|text| text.contains(gate)), "{answer}");
    assert_eq!(everything(s), before, "{call}");
}

#[test]
fn with_the_gate_of_the_jobs_closed_no_job_moves() {
    let db = database();
    let (mut s, mut operator) = (db.session(), db.session());
    let job = s.enqueue("x");
    s.enqueue("y");
    claimed(&mut s, "bob");
    operator.call(&format!("fn_config_set('{SUBSTRATE}', 'false')"));
    for call in [
        "fn_job_enqueue('z')",
        "fn_job_enqueue_batch('[{\"job_kind\": \"z\"}]')",
        "fn_job_claim('bob')",
        "fn_job_claim_batch('bob', 5)",
        "fn_job_start('$job', 'bob')",
        "fn_job_heartbeat('$job', 'bob')",
        "fn_job_ack('$job', 'bob')",
        "fn_job_ack_batch('bob', '[\"$job\"]')",
        "fn_job_fail_or_retry('$job', 'bob', 'boom')",
        "fn_job_release('$job', 'bob')",
        "fn_job_snooze('$job', 'bob', agentq.fn_clock_now())",
        "fn_job_cancel('$job')",
        "fn_job_change('$job', '{}')",
        "fn_job_move_to_dead_letter('$job', 'hopeless')",
    ] {
        shut(&mut s, SUBSTRATE, &call.replace("$job", &job));
    }
    // Looking is always allowed, and so is a sign of life.
    expect(&mut s, "found", &format!("fn_job_get('{job}')"));
    expect(&mut s, "ticked", "fn_queue_heartbeat_tick('w', 'Agent')");
    let failure = s.fails("INSERT INTO agentq.job_queue (job_kind) VALUES ('z')");
    assert_eq!(failure.code, "55000", "{failure:?}");
    assert!(failure.message.contains(SUBSTRATE) && failure.hint.contains("fn_config_set"), "{failure:?}");

    operator.call(&format!("fn_config_set('{SUBSTRATE}', 'true')"));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(claimed(&mut s, "bob")["job_kind"], "y");
    db.assert_sound();
}

#[test]
fn with_the_gate_of_the_jobs_closed_nothing_is_purged() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('x')"));
    s.call(&format!("fn_job_cancel('{job}')"));
    s.shift_clock(60);
    s.call(&format!("fn_config_set('{SUBSTRATE}', 'false')"));
    shut(&mut s, SUBSTRATE, "fn_job_purge('0 s')");
}

#[test]
fn with_the_gate_of_the_heartbeat_closed_no_tick_is_kept() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_heartbeat_tick('w', 'Agent')");
    s.call("fn_config_set('queue.heartbeat.enabled', 'false')");
    shut(&mut s, "queue.heartbeat.enabled", "fn_queue_heartbeat_tick('w', 'Agent')");
    // The jobs have a gate of their own.
    expect(&mut s, "enqueued", "fn_job_enqueue('x')");
    assert_eq!(expect(&mut s, "checked", "fn_queue_stale_check()")["fresh"], json!(1));
    s.call("fn_config_set('queue.heartbeat.enabled', 'true')");
    assert_eq!(expect(&mut s, "ticked", "fn_queue_heartbeat_tick('w', 'Agent')")["ticks_total"], json!(2));
}
