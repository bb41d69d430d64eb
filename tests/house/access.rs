//! Who may do what: each level is given, tried at everything, and taken away again.

use agentq_tests::{Database, Session, Value, database};

pub const LEVELS: [&str; 5] = ["producer", "proposer", "worker", "operator", "reader"];

/// An id that is no job's: the calls below are about being let in, not about what then happens.
pub const NONE: &str = "'00000000-0000-0000-0000-000000000000'";

/// Every function of `agentq` with a call of it, and the levels that may make that call.
pub fn calls() -> Vec<(String, &'static [&'static str])> {
    let (all, produce, work, operate, read): (&[_], &[_], &[_], &[_], &[_]) = (
        &["producer", "worker", "operator", "reader"],
        &["producer", "operator"],
        &["worker", "operator"],
        &["operator"],
        &["reader", "operator"],
    );
    let propose: &[_] = &["producer", "proposer", "operator"];
    [
        ("fn_job_enqueue('a')", produce),
        (r#"fn_job_enqueue_batch('[{"job_kind": "a"}]')"#, produce),
        ("fn_job_enqueue_payloads('a', '[{}]')", produce),
        ("fn_job_claim('w')", work),
        ("fn_job_claim_batch('w', 1)", work),
        ("fn_job_start(NONE, 'w')", work),
        ("fn_job_heartbeat(NONE, 'w')", work),
        ("fn_job_ack(NONE, 'w')", work),
        ("fn_job_ack_batch('w', '[]')", work),
        ("fn_job_ack_and_claim(NULL, 'w')", work),
        ("fn_job_ack_and_claim_batch('w', '[]', 1)", work),
        ("fn_vacuum_state()", read),
        ("fn_job_fail_or_retry(NONE, 'w', 'no')", work),
        ("fn_job_release(NONE, 'w')", work),
        ("fn_job_snooze(NONE, 'w', now())", work),
        ("fn_job_get(NONE)", all),
        ("fn_job_cancel(NONE)", operate),
        ("fn_job_change(NONE, '{}')", operate),
        ("fn_job_move_to_dead_letter(NONE, 'no')", operate),
        ("fn_job_purge('1 day')", operate),
        ("fn_dead_letter_triage(NONE, 'closed')", operate),
        ("fn_dead_letter_redrive(p_filter => '{}')", operate),
        ("fn_dead_letter_purge('1 day')", operate),
        ("fn_job_replay(NONE)", operate),
        ("fn_job_reconcile(NONE, 'done')", operate),
        ("fn_error_class_set('mine', true)", operate),
        ("fn_error_class_remove('mine')", operate),
        ("fn_retry_policy_set('kind', 'a', '{}')", operate),
        ("fn_retry_policy_remove('kind', 'a')", operate),
        ("fn_limit_set('a', '{}')", operate),
        ("fn_limit_remove('a')", operate),
        ("fn_limit_preset()", operate),
        ("fn_adjust_concurrency('a', NULL, 0, 0)", operate),
        ("fn_limit_gauge('a')", &["worker", "operator", "reader"]),
        ("fn_limit_report('a', now())", work),
        ("fn_budget_set('a', 'usd', 'day', '{\"amount\": 1}')", operate),
        ("fn_budget_remove('a', 'usd', 'day')", operate),
        ("fn_capable_workers('{}')", read),
        ("fn_attempt_id(NONE)", &["worker", "reader", "operator"]),
        ("fn_job_usage(NONE, 'w', '{}')", work),
        ("fn_job_explain(NONE)", all),
        (r#"fn_mission_start('{"steps": [{"kind": "m"}]}')"#, &["producer", "operator"]),
        ("fn_mission_cancel(NONE)", operate),
        ("fn_mission_pause(NONE)", operate),
        ("fn_mission_resume(NONE)", operate),
        ("fn_mission_fork(NONE, 'a')", operate),
        ("fn_mission_get(NONE)", &LEVELS),
        ("fn_mission_explain(NONE)", &LEVELS),
        ("fn_mission_graph(NONE)", &LEVELS),
        ("fn_backpressure_status()", all),
        (r#"fn_admission_check('{"job_kind": "a"}')"#, &["producer", "operator", "reader"]),
        ("fn_effect_manifest_set('{}')", operate),
        ("fn_effect_manifest_check()", read),
        ("fn_effect_operation_set('a', '{}')", operate),
        ("fn_effect_operation_remove('a')", operate),
        (r#"fn_effect_compensation_set('b', '{"of": "a"}')"#, operate),
        ("fn_effect_compensation_remove('b')", operate),
        ("fn_effect_plan(NONE, 'w', '[]')", work),
        ("fn_effect_begin(NONE, 'w')", work),
        ("fn_effect_finish(NONE, 'w')", work),
        ("fn_effect_fail(NONE, 'w', 'no')", work),
        ("fn_effect_get(NONE)", &["worker", "operator", "reader"]),
        ("fn_effect_reconcile(NONE, 'done')", operate),
        ("fn_effect_skip(NONE, 'it stays')", operate),
        ("fn_effect_compensate(NONE)", operate),
        ("fn_queue_set('more')", operate),
        ("fn_queue_pause('default')", operate),
        ("fn_queue_resume('default')", operate),
        ("fn_queue_heartbeat_tick('robot', 'Agent')", work),
        ("fn_queue_stale_check()", read),
        ("fn_queue_verify()", read),
        ("fn_config_get('queue.lease.duration_sec')", read),
        ("fn_config_set('queue.lease.duration_sec', '300')", operate),
        (r#"fn_schedule_set('s', '@daily', '{"job_kind": "a"}')"#, operate),
        ("fn_schedule_pause('s')", operate),
        ("fn_schedule_resume('s')", operate),
        ("fn_schedule_remove('s')", operate),
        ("fn_schedule_upcoming('@daily')", read),
        ("fn_handler_register('a', 'SELECT 1')", operate),
        ("fn_handler_remove('a')", operate),
        ("fn_engine_tick()", operate),
        ("fn_engine_chore_set('expire')", operate),
        ("fn_policy_set('a', '1')", operate),
        ("fn_policy_get('auto_approve')", &["worker", "operator", "reader"]),
        ("fn_policy_history('auto_approve')", read),
        (r#"fn_proposal_create(NULL, 'api', '{"steps": [{"name": "a", "kind": "a"}]}')"#, propose),
        (r#"fn_proposal_gate('{"steps": [{"name": "a", "kind": "a"}]}')"#, propose),
        ("fn_proposal_is_auto_approvable('{}')", &["producer", "proposer", "operator", "reader"]),
        ("fn_proposal_get(NONE)", &["producer", "proposer", "operator", "reader"]),
        ("fn_proposal_approve(NONE)", operate),
        ("fn_proposal_reject(NONE, 'no')", operate),
        ("fn_template_step_kinds('{}')", &["producer", "proposer", "operator", "reader"]),
        ("fn_ops_tick()", operate),
        ("fn_event_emit('a', 'x')", &["producer", "worker", "operator"]),
        ("fn_event_read()", &["worker", "operator", "reader"]),
        ("fn_event_verify()", read),
        ("fn_clock_now()", &LEVELS),
        ("fn_node_of(NONE)", &LEVELS),
        ("fn_version()", &LEVELS),
        ("fn_act_as(NULL)", &[]),
        ("fn_whoami()", &LEVELS),
        ("fn_token_issue('api')", &LEVELS),
        ("fn_token_revoke(NONE)", &LEVELS),
        ("fn_token_list()", &LEVELS),
        ("fn_access_grant('postgres', 'reader')", &[]),
        ("fn_access_revoke('postgres', 'reader')", &[]),
        // The flow room: steps, actions, signals.
        ("fn_step_begin(NONE, 'w', 'a')", work),
        ("fn_step_complete(NONE, 'w', 'a')", work),
        ("fn_step_fail(NONE, 'w', 'a')", work),
        ("fn_step_resolve(NONE, 'w', 'a', 'done')", work),
        ("fn_action_begin('a', 'a')", work),
        ("fn_action_finish('a')", work),
        ("fn_action_fail('a')", work),
        ("fn_action_key(NONE, 'a')", all),
        ("fn_checkpoint_save(NONE, 'w', '{}')", work),
        ("fn_checkpoint_load(NONE)", &["worker", "operator", "reader"]),
        ("fn_job_sleep(NONE, 'w', now())", work),
        ("fn_mission_recover_stale(30)", operate),
        ("fn_mission_retry(NONE)", operate),
        ("fn_runtime_capabilities()", read),
        ("fn_signal_wait(NONE, 'w', 'a')", work),
        ("fn_child_start(NONE, 'w', 'a', 'k')", work),
        ("fn_child_wait(NONE, 'w', 'a')", work),
        ("fn_job_wait(NONE, '0')", all),
        ("fn_mission_wait(NONE, '0')", &LEVELS),
        ("fn_signal_send('a')", &["producer", "worker", "operator"]),
    ]
    .into_iter()
    .map(|(call, levels)| (call.replace("NONE", NONE), levels))
    .collect()
}

/// Every function of `agentq_internal` with a call of it, which nobody but the owner may make, and the levels that have
/// it for their views.
pub fn internal_calls() -> Vec<(String, &'static [&'static str])> {
    let (nobody, read): (&[_], &[_]) = (&[], &["reader", "operator"]);
    [
        ("fn_sees_all_jobs()", nobody),
        ("fn_actor()", nobody),
        ("fn_is_preloaded()", nobody),
        ("fn_role_that_sees()", nobody),
        ("fn_sees_job(NULL)", nobody),
        ("fn_error_class_defaults()", nobody),
        ("fn_limit_rule_of('a')", read),
        ("fn_limit_pending('a', 1)", read),
        ("fn_job_begun_at(NULL)", nobody),
        ("fn_mission_begun_at(NULL)", read),
        ("fn_mission_step_begun_at(NULL)", nobody),
        ("fn_limit_counted('a')", read),
        ("fn_budget_period('day', now())", read),
        ("fn_budget_ends('day', now())", read),
        ("fn_engine_live()", read),
        ("fn_engine_state()", read),
        ("fn_engine_announce()", nobody),
        ("fn_engine_chore_defaults()", nobody),
        ("fn_policy_accepts('a', '1')", nobody),
        ("fn_event_index('a')", nobody),
        ("fn_event_horizon('usual')", nobody),
        ("fn_event_partition_make('event_usual', 'x', '2026-01-01', '2026-01-02')", nobody),
        ("fn_event_partition_add('usual', now(), now())", nobody),
        ("fn_event_partition_drop('usual', 'x', now())", nobody),
        ("fn_event_log_add('usual', 0, 1000)", nobody),
        ("fn_event_log_drop('usual', now())", nobody),
        ("fn_access_allow('SELECT', '{reader}', '{config}')", nobody),
        ("fn_access_check('postgres', 'reader')", nobody),
        ("fn_access_targets('reader')", nobody),
        ("fn_bounded('fn_access_grant', 'p_role', 1)", nobody),
        ("fn_config_accepts('queue.lease.duration_sec', '300')", nobody),
        ("fn_config_defaults()", nobody),
    ]
    .into_iter()
    .map(|(call, levels)| (call.to_owned(), levels))
    .collect()
}

pub const READABLE: &[&str] = &[
    "v_event_consumer",
    "job_queue",
    "job_attempt",
    "job_dead_letter",
    "queue_heartbeat",
    "queue",
    "config",
    "v_queue_health",
    "v_queue_depth",
    "v_job_queue_backlog",
    "v_job_dead_letter_summary",
    "event",
    "metric",
    "schedule",
    "v_schedule",
    "job_handler",
    "engine_chore",
    "v_engine_chore",
    "v_engine_status",
    "error_class",
    "retry_policy",
    "limit_rule",
    "v_limit",
    "budget",
    "v_budget",
    "policy",
    "policy_version",
    "event_cursor",
    "reaction",
    "reaction_pattern",
    "command",
    "v_proposal",
    "event_log",
    "event_chain",
    "v_event_partition",
    "mission",
    "mission_item",
    "mission_wait",
    "v_mission",
    "v_mission_step",
    "v_action_run",
    "v_effect",
    "v_effect_drift",
    "effect_chain",
    "effect_manifest",
    "effect_operation",
    "effect_compensation",
    "effect_type",
    "v_job_step",
    "action",
    "signal",
    "signal_wait",
];

/// A session of a new role of this database, with these levels.
pub fn with_levels(db: &Database<'_>, name: &str, levels: &[&str]) -> (String, Session) {
    // Roles belong to the server, not to the database: the name makes them this test's own.
    let role = format!("{name} of {}", db.name);
    let session = db.session_of(&role);
    for level in levels {
        let answer = access(&mut db.session(), "grant", &role, level);
        assert_eq!(answer["code"], "granted");
    }
    (role, session)
}

pub fn access(owner: &mut Session, what: &str, role: &str, level: &str) -> Value {
    owner.json(&format!("SELECT agentq.fn_access_{what}($1, $2)"), &[&role, &level])
}

/// Whether the server lets this session make the statement, whatever then comes of it.
pub fn is_let_in(s: &mut Session, statement: &str) -> bool {
    match s.0.simple_query(&format!("BEGIN; {statement}")) {
        Ok(_) => s.run("ROLLBACK"),
        Err(error) => {
            let code = error.code().expect("an error of the server").code().to_owned();
            s.run("ROLLBACK");
            return code != "42501";
        }
    }
    true
}

/// The calls of the list that this session is let into.
fn let_into(s: &mut Session) -> Vec<String> {
    let calls = calls().into_iter().map(|(call, _)| call);
    calls.filter(|call| is_let_in(s, &format!("SELECT agentq.{call}"))).collect()
}

fn calls_of(level: &str) -> Vec<String> {
    calls().into_iter().filter(|(_, levels)| levels.contains(&level)).map(|(call, _)| call).collect()
}

#[test]
fn every_function_is_tried_here() {
    let db = database();
    for (schema, calls) in [("agentq", calls()), ("agentq_internal", internal_calls())] {
        let mut functions = db.session().texts(&format!(
            "SELECT proname FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace AND prorettype <> 'trigger'::regtype"
        ));
        let mut tried: Vec<String> =
            calls.into_iter().map(|(call, _)| call.split('(').next().expect("a name").to_owned()).collect();
        functions.sort();
        tried.sort();
        assert_eq!(tried, functions, "{schema}");
    }
}

#[test]
fn each_level_may_call_its_functions_and_no_other() {
    let db = database();
    for level in LEVELS {
        let (_, mut s) = with_levels(&db, level, &[level]);
        assert_eq!(let_into(&mut s), calls_of(level), "{level}");
        for (call, _) in internal_calls() {
            assert!(!is_let_in(&mut s, &format!("SELECT agentq_internal.{call}")), "{level}: {call}");
        }
    }
}

#[test]
fn each_level_may_read_its_relations_and_no_other() {
    let db = database();
    let relations = db.session().texts(
        "SELECT oid::regclass::text FROM pg_class
         WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind IN ('r', 'p', 'v') ORDER BY 1",
    );
    for level in LEVELS {
        let (_, mut s) = with_levels(&db, level, &[level]);
        let may_read = level == "reader" || level == "operator";
        for relation in &relations {
            let expected = may_read && relation.strip_prefix("agentq.").is_some_and(|name| READABLE.contains(&name));
            // Of a table with tokens a level has the other columns.
            let columns = if relation == "agentq.action" { "action_key, status" } else { "*" };
            let found = is_let_in(&mut s, &format!("SELECT {columns} FROM {relation}"));
            assert_eq!(found, expected, "{level} reads {relation}");
        }
    }
}

#[test]
fn nobody_but_the_owner_writes_to_a_table() {
    let db = database();
    let tables = db.session().texts(
        "SELECT oid::regclass::text FROM pg_class
         WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind = 'r' ORDER BY 1",
    );
    for level in LEVELS {
        let (_, mut s) = with_levels(&db, level, &[level]);
        for table in &tables {
            for statement in [
                format!("INSERT INTO {table} DEFAULT VALUES"),
                format!("DELETE FROM {table}"),
                format!("TRUNCATE {table}"),
                format!("COPY {table} FROM stdin"),
            ] {
                assert_eq!(s.fails(&statement).code, "42501", "{level}: {statement}");
            }
        }
        assert_eq!(s.fails("SELECT nextval('agentq.queue_queue_id_seq')").code, "42501");
        let insert = "INSERT INTO agentq.job_queue (job_kind) VALUES ('a')";
        assert_eq!(is_let_in(&mut s, insert), level == "operator", "{level} inserts into the view");
        for change in ["UPDATE agentq.job_queue SET priority = 1", "DELETE FROM agentq.job_queue"] {
            assert_eq!(is_let_in(&mut s, change), level == "operator", "{level}: {change}");
        }
    }
}

#[test]
fn a_role_without_a_level_can_do_nothing() {
    let db = database();
    let (_, mut s) = with_levels(&db, "stranger", &[]);
    assert_eq!(let_into(&mut s), Vec::<String>::new());
    for relation in READABLE {
        assert!(!is_let_in(&mut s, &format!("SELECT * FROM agentq.{relation}")), "{relation}");
    }
    assert!(!is_let_in(&mut s, "CREATE TABLE agentq.mine ()"));
    assert!(!is_let_in(&mut s, "DROP EXTENSION agentq"));
}

#[test]
fn no_level_makes_or_drops_anything_or_moves_the_clock() {
    let db = database();
    let (_, mut s) = with_levels(&db, "all", &LEVELS);
    for statement in [
        "CREATE TABLE agentq.mine ()",
        "CREATE FUNCTION agentq.fn_mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DROP TABLE agentq_internal.job",
        "DROP EXTENSION agentq",
        "ALTER EXTENSION agentq UPDATE",
        "ALTER FUNCTION agentq.fn_version() SECURITY DEFINER",
        "SET agentq.clock_offset = 86400",
    ] {
        let refused =
            s.0.simple_query(statement).err().and_then(|error| error.code().map(|code| code.code().to_owned()));
        assert_eq!(refused.as_deref(), Some("42501"), "{statement}");
    }
    // PostgreSQL only warns of a GRANT by someone who may not, and then gives nothing.
    s.run("GRANT EXECUTE ON FUNCTION agentq.fn_job_claim TO PUBLIC");
    assert!(!is_let_in(&mut with_levels(&db, "stranger", &[]).1, "SELECT agentq.fn_job_claim('w')"));
}

#[test]
fn a_producer_enqueues_under_its_own_name_and_cannot_claim() {
    let db = database();
    let (role, mut producer) = with_levels(&db, "producer", &["producer"]);
    let id = producer.enqueue("mail.send");
    assert_eq!(producer.call(&format!("fn_job_get('{id}')"))["job"]["actor"], role.as_str());
    let failure = producer.fails("SELECT agentq.fn_job_claim('p')");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("42501", "permission denied for function fn_job_claim")
    );
    assert_eq!(db.session().state(&id), "queued");
}

#[test]
fn a_worker_works_and_cannot_enqueue_triage_or_configure() {
    let db = database();
    let id = db.session().enqueue("mail.send");
    let (_, mut worker) = with_levels(&db, "worker", &["worker"]);
    assert_eq!(worker.claim("w")["job_id"], id.as_str());
    for (call, code) in [
        (format!("fn_job_start('{id}', 'w')"), "started"),
        (format!(r#"fn_job_heartbeat('{id}', 'w', 60, '{{"page": 1}}')"#), "extended"),
        ("fn_queue_heartbeat_tick('robot', 'Agent')".to_owned(), "ticked"),
        (format!("fn_job_ack('{id}', 'w')"), "succeeded"),
    ] {
        assert_eq!(worker.call(&call)["code"], code);
    }
    for refused in ["fn_job_enqueue('a')", "fn_dead_letter_triage(NULL, 'closed')", "fn_config_set('a', '1')"] {
        assert_eq!(worker.fails(&format!("SELECT agentq.{refused}")).code, "42501", "{refused}");
    }
}

#[test]
fn an_operator_triages_pauses_configures_and_changes() {
    let db = database();
    let (role, mut s) = with_levels(&db, "operator", &["operator"]);
    s.run("INSERT INTO agentq.job_queue (job_kind, priority) VALUES ('a', 9)");
    let id = s.text("SELECT job_id FROM agentq.job_queue");
    s.run(&format!("UPDATE agentq.job_queue SET priority = 3 WHERE job_id = '{id}'"));
    assert_eq!(s.text("SELECT priority FROM agentq.job_queue"), "3");
    assert_eq!(s.fails("DELETE FROM agentq.job_queue").code, "0A000");
    assert_eq!(s.call(&format!(r#"fn_job_change('{id}', '{{"priority": 4}}')"#))["priority"], 4);
    assert_eq!(s.call("fn_queue_pause('default', 'lunch')")["code"], "paused");
    assert_eq!(s.claim("w")["code"], "empty");
    assert_eq!(s.call("fn_queue_resume('default')")["code"], "resumed");
    let letter = s.call(&format!("fn_job_move_to_dead_letter('{id}', 'never mind')"))["dead_letter_id"].clone();
    let letter = letter.as_str().expect("a dead letter");
    assert_eq!(s.call(&format!("fn_dead_letter_triage('{letter}', 'closed')"))["triaged_by"], role.as_str());
    assert_eq!(s.text("SELECT moved_by FROM agentq.job_dead_letter"), role);
    assert_eq!(s.call("fn_config_set('queue.lease.duration_sec', '60')")["previous"], 300);
    assert_eq!(s.text("SELECT updated_by FROM agentq.config WHERE key = 'queue.lease.duration_sec'"), role);
    assert_eq!(s.text("SELECT jobs_dead_letter FROM agentq.v_queue_health"), "1");
    db.assert_sound();
}
