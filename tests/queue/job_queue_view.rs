//! The view `job_queue`: what a plain INSERT, UPDATE or DELETE may do, and the rules that hold
//! whoever writes.

use agentq_tests::{claimed, database, drain, enqueue_all, everything, id, json, refused};

#[test]
fn the_view_has_its_documented_columns_in_their_order_and_then_the_queue() {
    let db = database();
    let columns = db.session().texts(
        "SELECT column_name FROM information_schema.columns
         WHERE table_schema = 'agentq' AND table_name = 'job_queue' ORDER BY ordinal_position",
    );
    assert_eq!(
        columns.join(" "),
        "job_id job_kind state source_ref target_ref payload_ref payload_json priority scheduled_at picked_at \
         finished_at lease_owner lease_until attempts max_attempts idempotency_key actor run_id last_error \
         created_at updated_at queue last_heartbeat_at trace_id correlation_id"
    );
}

#[test]
fn an_insert_enqueues_and_returns_the_job() {
    let db = database();
    let mut s = db.session();
    let row = s.text(
        "INSERT INTO agentq.job_queue (job_kind) VALUES ('x')
         RETURNING concat_ws('|', job_id IS NOT NULL, state, priority, attempts, max_attempts, payload_json, actor,
             idempotency_key = job_id::text, queue, scheduled_at = created_at)",
    );
    assert_eq!(row, "t|queued|100|0|5|{}|postgres|t|default|t");
    assert_eq!(claimed(&mut s, "bob")["job_kind"], "x");
    db.assert_sound();
}

#[test]
fn an_insert_keeps_everything_it_says() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    s.run(
        "INSERT INTO agentq.job_queue (job_kind, state, source_ref, target_ref, payload_ref, payload_json, priority,
             scheduled_at, attempts, max_attempts, idempotency_key, actor, run_id, queue)
         VALUES ('mail.send', 'queued', 'src', 'tgt', 'ref', '{\"n\": 1}', 7, '2020-01-01', 0, 3, 'k', 'ann',
             '11111111-2222-3333-4444-555555555555', 'mail')",
    );
    let claim = s.call("fn_job_claim('bob', p_options => '{\"queues\": [\"mail\"]}')");
    for (field, value) in [
        ("job_kind", json!("mail.send")),
        ("source_ref", json!("src")),
        ("target_ref", json!("tgt")),
        ("payload_ref", json!("ref")),
        ("payload_json", json!({"n": 1})),
        ("priority", json!(7)),
        ("max_attempts", json!(3)),
        ("idempotency_key", json!("k")),
        ("actor", json!("ann")),
        ("run_id", json!("11111111-2222-3333-4444-555555555555")),
    ] {
        assert_eq!(claim[field], value, "{field}");
    }
}

#[test]
fn one_insert_may_enqueue_many() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    s.enqueue("first");
    claimed(&mut worker, "bob");
    s.run("INSERT INTO agentq.job_queue (job_kind, priority) SELECT 'k' || n, 10 - n FROM generate_series(1, 5) n");
    assert_eq!(drain(&mut worker, "fn_job_claim('bob')", "job_kind"), ["k5", "k4", "k3", "k2", "k1"]);
    db.assert_sound();
}

#[test]
fn an_insert_of_a_key_in_use_is_a_unique_violation() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('x', 'k')"));
    refused(
        &mut s,
        "INSERT INTO agentq.job_queue (job_kind, idempotency_key) VALUES ('y', 'k')",
        "23505",
        &format!("idempotency_key \"k\" is in use by the unfinished job {job}"),
        "agentq.fn_job_enqueue answers with the first job",
    );
}

#[test]
fn an_insert_may_not_say_what_only_the_queue_knows() {
    let db = database();
    let mut s = db.session();
    for (column, value) in [
        ("state", "'succeeded'"),
        ("state", "NULL"),
        ("attempts", "1"),
        ("picked_at", "now()"),
        ("finished_at", "now()"),
        ("lease_owner", "'bob'"),
        ("lease_until", "now()"),
        ("last_error", "'boom'"),
        ("job_id", "gen_random_uuid()"),
        ("created_at", "now()"),
        ("updated_at", "now()"),
    ] {
        let statement = format!("INSERT INTO agentq.job_queue (job_kind, {column}) VALUES ('x', {value})");
        refused(&mut s, &statement, "0A000", "enters agentq.job_queue as queued", "fn_job_enqueue");
    }
}

#[test]
fn an_insert_is_checked_like_an_enqueue() {
    let db = database();
    let mut s = db.session();
    for (columns, values, message) in [
        ("job_kind", "''", "p_job_kind must not be empty"),
        ("job_kind, actor", "'x', ' '", "p_actor must not be empty"),
        ("job_kind, priority", "'x', -1", "priority must be 0 or more"),
        ("job_kind, max_attempts", "'x', 0", "max_attempts must be 1 or more"),
        ("job_kind, payload_json", "'x', '[]'", "must be a JSON object, not an array"),
        ("job_kind, payload_json", "'x', '{\"token\": 1}'", "holds the key \"token\""),
        ("job_kind, scheduled_at", "'x', 'infinity'", "not infinity"),
        ("job_kind, queue", "'x', 'nowhere'", "there is no queue \"nowhere\""),
    ] {
        let statement = format!("INSERT INTO agentq.job_queue ({columns}) VALUES ({values})");
        refused(&mut s, &statement, "22023", message, "");
    }
    let statement = "INSERT INTO agentq.job_queue (priority) VALUES (1)";
    refused(&mut s, statement, "22004", "p_job_kind must not be NULL", "Give p_job_kind a value");
}

#[test]
fn an_update_moves_waiting_jobs() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    enqueue_all(&mut s, &["a", "b", "c", "d"], "");
    claimed(&mut worker, "bob");
    let row = s.text(
        "UPDATE agentq.job_queue SET priority = 1, max_attempts = 9, payload_json = '{\"n\": 2}', source_ref = 's'
         WHERE job_kind = 'd' RETURNING concat_ws('|', priority, max_attempts, payload_json, source_ref)",
    );
    assert_eq!(row, "1|9|{\"n\": 2}|s");
    s.run("UPDATE agentq.job_queue SET scheduled_at = '2020-01-01' WHERE job_kind = 'c'");
    assert_eq!(drain(&mut worker, "fn_job_claim('bob')", "job_kind"), ["d", "c", "b"]);
    db.assert_sound();
}

#[test]
fn an_update_of_many_rows_changes_them_all() {
    let db = database();
    let mut s = db.session();
    enqueue_all(&mut s, &["a", "b", "c"], ", p_payload_ref => 'ref'");
    s.run("UPDATE agentq.job_queue SET priority = 50 - ascii(job_kind) % 50, payload_ref = NULL");
    assert_eq!(drain(&mut s, "fn_job_claim('bob')", "job_kind"), ["c", "b", "a"]);
    assert_eq!(s.count("agentq.job_queue WHERE payload_ref IS NULL"), 3);
    db.assert_sound();
}

#[test]
fn an_update_that_changes_nothing_is_accepted_in_any_state() {
    let db = database();
    let mut s = db.session();
    s.enqueue("x");
    claimed(&mut s, "bob");
    let before = everything(&mut s);
    s.run("UPDATE agentq.job_queue SET job_kind = job_kind, state = state, priority = priority");
    assert_eq!(everything(&mut s), before);
}

#[test]
fn an_update_of_what_belongs_to_a_function_is_refused_and_names_it() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    for (column, value) in [
        ("job_id", "gen_random_uuid()"),
        ("created_at", "now()"),
        ("updated_at", "now()"),
        ("job_kind", "'y'"),
        ("state", "'succeeded'"),
        ("picked_at", "now()"),
        ("finished_at", "now()"),
        ("lease_owner", "'bob'"),
        ("lease_until", "now()"),
        ("attempts", "3"),
        ("idempotency_key", "'k'"),
        ("actor", "'eve'"),
        ("run_id", "gen_random_uuid()"),
        ("last_error", "'boom'"),
        ("created_at", "now()"),
        ("updated_at", "'2020-01-01'"),
        ("queue", "'mail'"),
    ] {
        let statement = format!("UPDATE agentq.job_queue SET priority = 1, {column} = {value}");
        let message = format!("does not let you set {column} of job {job}");
        refused(&mut s, &statement, "0A000", &message, "fn_job_cancel");
    }
}

#[test]
fn an_update_is_checked_and_stops_at_a_held_job() {
    let db = database();
    let mut s = db.session();
    s.enqueue("x");
    for (set, message) in [
        ("priority = -1", "priority must be a whole number from 0"),
        ("priority = NULL", "priority must be a whole number"),
        ("max_attempts = 0", "max_attempts must be a whole number from 1"),
        ("payload_json = '{\"ssn\": 1}'", "holds the key \"ssn\""),
        ("scheduled_at = 'infinity'", "not infinity"),
        ("scheduled_at = NULL", "scheduled_at"),
    ] {
        refused(&mut s, &format!("UPDATE agentq.job_queue SET {set}"), "22023", message, "");
    }
    let job = id(&claimed(&mut s, "bob"));
    let update = "UPDATE agentq.job_queue SET priority = 1";
    refused(&mut s, update, "55000", &format!("job {job} is held by bob"), "fn_job_cancel");
    s.call(&format!("fn_job_ack('{job}', 'bob')"));
    refused(&mut s, update, "55000", &format!("job {job} is succeeded"), "Enqueue a new job");
}

#[test]
fn a_delete_is_refused_and_names_what_to_use() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    refused(
        &mut s,
        "DELETE FROM agentq.job_queue",
        "0A000",
        &format!("job {job} cannot be deleted"),
        "agentq.fn_job_purge",
    );
}

/// What the server answers to a write that breaks a CHECK, of a table or of a domain.
const CHECK: (&str, &str) = ("23514", "violates check constraint");

#[test]
fn the_rules_of_a_job_hold_for_direct_writes_to_its_table() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue('x', 'k')");
    let mut broken: Vec<String> = [
        "job_kind = ' '",
        "job_kind = repeat('k', 201)",
        "actor = ''",
        "idempotency_key = ''",
        "idempotency_key = repeat('k', 1001)",
        "priority = -1",
        "attempts = -1",
        "max_attempts = 0",
        "resting_state = 'leased'",
        "payload_json = '[]'",
        "payload_json = '5'",
        "payload_json = 'null'",
    ]
    .map(str::to_owned)
    .into();
    broken.extend(crate::bad_input::DENIED_KEYS.map(|key| format!("payload_json = '{{\"{key}\": 1}}'")));
    for set in broken {
        refused(&mut s, &format!("UPDATE agentq_internal.job SET {set}"), CHECK.0, CHECK.1, "");
    }
    for column in ["job_kind", "actor", "priority", "attempts", "max_attempts", "scheduled_at", "payload_json"] {
        refused(&mut s, &format!("UPDATE agentq_internal.job SET {column} = NULL"), "23502", "null", "");
    }
}

#[test]
fn the_rules_of_every_other_table_hold_for_direct_writes_too() {
    let db = database();
    let mut s = db.session();
    let (held, done, letter) = (s.enqueue("held"), s.enqueue("done"), s.enqueue("letter"));
    s.call("fn_job_claim('bob', 'held')");
    s.call("fn_job_claim('bob', 'done')");
    s.call(&format!("fn_job_ack('{done}', 'bob')"));
    s.call(&format!("fn_job_move_to_dead_letter('{letter}', 'hopeless')"));
    s.call("fn_queue_heartbeat_tick('w', 'Agent')");
    for statement in [
        "UPDATE agentq_internal.job_lease SET lease_owner = ' '",
        "UPDATE agentq_internal.job_lease SET lease_owner = repeat('o', 201)",
        "UPDATE agentq.job_dead_letter SET final_error = ' '",
        "UPDATE agentq.job_dead_letter SET attempts = -1",
        "UPDATE agentq.job_dead_letter SET moved_by = ''",
        "UPDATE agentq.job_dead_letter SET triage_status = 'done'",
        "UPDATE agentq.job_dead_letter SET payload_json = '{\"raw\": 1}'",
        "UPDATE agentq.queue_heartbeat SET executor_name = ' '",
        "UPDATE agentq.queue_heartbeat SET executor_kind = 'robot'",
        "UPDATE agentq.queue_heartbeat SET last_tick_status = 'fine'",
        "UPDATE agentq.queue_heartbeat SET metadata = '{\"secret\": 1}'",
        "UPDATE agentq.queue SET queue = ' '",
        "UPDATE agentq.queue SET lease_seconds = 0",
        "UPDATE agentq.queue SET lease_seconds = 86401",
        "UPDATE agentq.queue SET max_attempts = 0",
        "UPDATE agentq.queue SET priority = -1",
        "UPDATE agentq.queue SET paused_reason = 'why'",
    ] {
        refused(&mut s, statement, CHECK.0, CHECK.1, "");
    }
    refused(&mut s, "UPDATE agentq_internal.job_done SET state = 'failed'", CHECK.0, "written once", "fn_job_purge");
    refused(
        &mut s,
        "INSERT INTO agentq_internal.job_done VALUES (gen_random_uuid(), NULL, now(), NULL, 'queued')",
        CHECK.0,
        CHECK.1,
        "",
    );
    let log = format!(
        "INSERT INTO agentq_internal.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner)
         VALUES ('{held}', gen_random_uuid(), now(), now(), 'lost', 'bob')"
    );
    refused(&mut s, &log, CHECK.0, CHECK.1, "");
}

#[test]
fn nothing_can_be_written_twice_that_there_is_once() {
    let db = database();
    let mut s = db.session();
    s.enqueue("held");
    claimed(&mut s, "bob");
    let buried = s.enqueue("buried");
    s.call(&format!("fn_job_move_to_dead_letter('{buried}', 'hopeless')"));
    s.call("fn_job_enqueue('ready', 'k')");
    for statement in [
        "INSERT INTO agentq_internal.job SELECT * FROM agentq_internal.job",
        "INSERT INTO agentq_internal.job_ready SELECT * FROM agentq_internal.job_ready",
        "INSERT INTO agentq_internal.job_lease SELECT * FROM agentq_internal.job_lease",
        "INSERT INTO agentq_internal.job_done SELECT * FROM agentq_internal.job_done",
        "INSERT INTO agentq_internal.job_key VALUES ('k', gen_random_uuid())",
        "INSERT INTO agentq.job_dead_letter (dead_letter_id, job_id, job_kind, final_error, attempts, actor, idempotency_key, moved_by)
         SELECT gen_random_uuid(), job_id, job_kind, final_error, attempts, actor, idempotency_key, moved_by
         FROM agentq.job_dead_letter",
    ] {
        refused(&mut s, statement, "23505", "duplicate key", "");
    }
}

#[test]
fn fn_queue_verify_finds_a_job_that_someone_broke() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('x', 'k')"));
    let verify = "SELECT problem FROM agentq.fn_queue_verify() ORDER BY problem";
    assert!(s.texts(verify).is_empty());
    for (damage, problem) in [
        ("DELETE FROM agentq_internal.job_ready", "the job is nowhere"),
        (
            "INSERT INTO agentq_internal.job_waiting SELECT scheduled_at, job_id FROM agentq_internal.job",
            "the job is in ready and waiting",
        ),
        ("UPDATE agentq_internal.job SET priority = 1", "the ready row does not agree with its job"),
        ("DELETE FROM agentq_internal.job_key", "an unfinished job does not hold its idempotency key"),
        (
            "INSERT INTO agentq_internal.job_key VALUES ('other', gen_random_uuid())",
            "a finished job still holds an idempotency key",
        ),
    ] {
        s.run("BEGIN");
        s.run(damage);
        assert_eq!(s.texts(verify), [problem], "{damage}");
        s.run("ROLLBACK");
    }
    s.run("BEGIN; DELETE FROM agentq_internal.job");
    assert!(s.texts(verify).contains(&"a row in ready has no job".to_owned()));
    s.run("ROLLBACK");
    assert_eq!(s.text("SELECT count(*) FROM agentq.fn_queue_verify()"), "0");
    assert_eq!(id(&claimed(&mut s, "bob")), job);
}
