//! Sessions that try to make the owner's functions do something else: by objects of their own with
//! well-known names, and by odd settings.

use crate::access::with_levels;
use crate::filled::{assert_works, fill};
use crate::security_traps::{arm, arm_temporary};
use agentq_tests::programs::plain_database;
use agentq_tests::{Database, Session, database, eventually, shared_cluster, text};

/// Functions and operators of pg_catalog and of agentq, each with a use of it that springs the trap.
const TRAPS: [(&str, &str, &str); 17] = [
    ("gen_random_uuid", "() RETURNS uuid", "gen_random_uuid()"),
    ("make_interval", "(secs integer) RETURNS interval", "make_interval(secs => 1)"),
    ("make_interval", "(secs double precision) RETURNS interval", "make_interval(secs => 1.5::float8)"),
    ("now", "() RETURNS timestamptz", "now()"),
    ("fn_clock_now", "() RETURNS timestamptz", "fn_clock_now()"),
    ("jsonb_typeof", "(jsonb) RETURNS text", "jsonb_typeof('1'::jsonb)"),
    ("btrim", "(text) RETURNS text", "btrim('a'::text)"),
    ("to_jsonb", "(anyelement) RETURNS jsonb", "to_jsonb(1)"),
    ("unnest", "(integer[]) RETURNS SETOF integer", "unnest('{1}'::integer[])"),
    ("jsonb_array_elements", "(jsonb) RETURNS SETOF jsonb", "jsonb_array_elements('[1]'::jsonb)"),
    // A list of its own types is a better match than the variadic original.
    (
        "jsonb_build_object",
        "(text, boolean, text, text, text, uuid, text, text, text, timestamptz) RETURNS jsonb",
        "jsonb_build_object('ok', true, 'code', 'a', 'b', NULL::uuid, 'c', 'd', 'e', NULL::timestamptz)",
    ),
    (
        "jsonb_build_object",
        "(text, boolean, text, text, text, uuid, text, timestamptz, text, boolean, text, text) RETURNS jsonb",
        "jsonb_build_object('ok', true, 'code', 'a', 'b', NULL::uuid, 'c', NULL::timestamptz, 'd', true, 'e', 'f')",
    ),
    ("equal", "(uuid, uuid) RETURNS boolean", "NULL::uuid OPERATOR(evil.=) NULL::uuid"),
    ("equal", "(text, text) RETURNS boolean", "'a'::text OPERATOR(evil.=) 'b'::text"),
    ("equal", "(integer, integer) RETURNS boolean", "1 OPERATOR(evil.=) 2"),
    ("before", "(timestamptz, timestamptz) RETURNS boolean", "NULL::timestamptz <= NULL::timestamptz"),
    ("field", "(jsonb, text) RETURNS text", "'{}'::jsonb ->> 'a'"),
];

const OPERATORS: [(&str, &str, &str, &str); 5] = [
    ("=", "equal", "uuid", "uuid"),
    ("=", "equal", "text", "text"),
    ("=", "equal", "integer", "integer"),
    ("<=", "before", "timestamptz", "timestamptz"),
    ("->>", "field", "jsonb", "text"),
];

const TABLES: [&str; 8] = ["job", "job_ready", "job_waiting", "job_lease", "job_done", "job_key", "queue", "config"];
const TYPES: [&str; 5] = ["uuid", "timestamptz", "jsonb", "text", "regclass"];

/// A session of an operator whose own schemas are searched first and are full of traps.
fn mallory(db: &Database<'_>) -> Session {
    let (role, mut s) = with_levels(db, "mallory", &["operator"]);
    db.session().run(&format!("GRANT CREATE ON DATABASE {} TO \"{role}\"", db.name));
    lay(db, &mut s);
    s
}

/// Lays the traps of a session that may make schemas. There is one such session at a time in a database.
pub fn lay(db: &Database<'_>, s: &mut Session) {
    s.run(
        "CREATE SCHEMA evil;
         CREATE TABLE evil.log (who name, what text);
         GRANT USAGE ON SCHEMA evil TO PUBLIC; GRANT ALL ON evil.log TO PUBLIC;
         CREATE SEQUENCE evil.sprung; GRANT ALL ON evil.sprung TO PUBLIC;
         CREATE FUNCTION evil.note(what text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS
            $$ BEGIN
                 IF current_user <> session_user THEN PERFORM nextval('evil.sprung'); END IF;
                 INSERT INTO evil.log VALUES (current_user, what);
                 RETURN true;
               END $$",
    );
    for (number, (name, signature, _)) in TRAPS.iter().enumerate() {
        // Nothing is returned: a caller that fell into the trap would also answer wrongly.
        s.run(&format!(
            "CREATE FUNCTION evil.{name}{signature} LANGUAGE plpgsql AS
                $$ BEGIN PERFORM evil.note('trap {number} {name}'); RETURN{}; END $$",
            if signature.contains("SETOF") { "" } else { " NULL" },
        ));
    }
    for (operator, function, left, right) in OPERATORS {
        s.run(&format!(
            "CREATE OPERATOR evil.{operator} (FUNCTION = evil.{function}, LEFTARG = {left}, RIGHTARG = {right})"
        ));
    }
    // Not every level may read the view whose columns these have.
    let columns = db.session().text(
        "SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute
         WHERE attrelid = 'agentq.job_queue'::regclass AND attnum > 0",
    );
    for table in TABLES {
        for schema in ["evil", "pg_temp"] {
            s.run(&format!(
                "CREATE TABLE {schema}.{table} ({columns});
                 CREATE FUNCTION {schema}.spring_{table}() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN PERFORM evil.note('table {table}'); RETURN NULL; END $$;
                 CREATE TRIGGER spring BEFORE INSERT OR UPDATE OR DELETE ON {schema}.{table}
                    EXECUTE FUNCTION {schema}.spring_{table}()"
            ));
        }
    }
    for name in TYPES {
        // Temporary types are searched first of all where pg_temp is not named.
        s.run(&format!("CREATE DOMAIN pg_temp.{name} AS pg_catalog.{name} CHECK (evil.note('type {name}'))"));
    }
    s.run("SET search_path = evil, pg_temp, pg_catalog, agentq, public");
}

/// The traps that were sprung, and as whom. A sequence remembers even what was rolled back.
pub fn log(db: &Database<'_>) -> Vec<String> {
    db.session().texts(
        "SELECT DISTINCT who || ': ' || what FROM evil.log
         UNION ALL SELECT 'with the rights of another' FROM evil.sprung WHERE is_called ORDER BY 1",
    )
}

#[test]
fn the_traps_are_armed() {
    let db = database();
    let mut s = mallory(&db);
    for (number, (name, _, spring)) in TRAPS.iter().enumerate() {
        // The types of the expressions are meant to be the plain ones.
        s.run("SET search_path = evil, pg_catalog");
        s.run(&format!("SELECT {spring}"));
        let sprung = format!("mallory of {}: trap {number} {name}", db.name);
        assert!(log(&db).contains(&sprung), "{spring}: {:?}", log(&db));
    }
    s.run("SET search_path = evil, pg_temp, pg_catalog");
    s.run("INSERT INTO job_ready (job_id) VALUES (NULL); SELECT '1'::text");
    assert!(log(&db).iter().any(|line| line.ends_with("table job_ready")));
    assert!(log(&db).iter().any(|line| line.ends_with("type text")));
}

#[test]
fn a_function_that_kept_the_callers_search_path_would_be_caught() {
    let db = database();
    let mut s = mallory(&db);
    db.session().run("ALTER FUNCTION agentq.fn_queue_heartbeat_tick RESET search_path");
    let outcome = s.0.simple_query("SELECT agentq.fn_queue_heartbeat_tick('robot', 'Agent')");
    assert!(log(&db).contains(&"with the rights of another".to_owned()), "{outcome:?} {:?}", log(&db));
}

/// Calls the function, notes that it was called, and checks the code of its answer.
struct Caller {
    s: Session,
    called: Vec<String>,
}

impl Caller {
    #[track_caller]
    fn call(&mut self, call: &str, code: &str) -> agentq_tests::Value {
        self.called.push(call.split('(').next().expect("a name").to_owned());
        let answer = self.s.call(call);
        assert_eq!(answer["code"], code, "{call}: {answer}");
        answer
    }

    /// Enqueues a job and claims it.
    #[track_caller]
    fn hold(&mut self, kind: &str) -> String {
        let made = self.call(&format!("fn_job_enqueue('{kind}', 'key of {kind}')"), "enqueued");
        let held = self.call(&format!("fn_job_claim('w', '{kind}')"), "claimed");
        assert_eq!(made["job_id"], held["job_id"]);
        held["job_id"].as_str().expect("an id").to_owned()
    }
}

/// A job that changes something outside, which is compensated.
fn effects(c: &mut Caller) {
    c.call(r#"fn_effect_operation_set('book', '{"produces": ["hotel.book"]}')"#, "set");
    c.call(r#"fn_effect_compensation_set('unbook', '{"of": "book", "produces": ["hotel.cancel"]}')"#, "set");
    c.call(r#"fn_effect_manifest_set('{"idempotent": {"hotel.cancel": true}, "operations": {"more": {}}}')"#, "set");
    c.call("fn_effect_manifest_check()", "sound");
    let job = c.hold("book");
    let planned = c.call(
        &format!(
            r#"fn_effect_plan('{job}', 'w', '[{{"effect_type": "hotel.book"}}, {{"effect_type": "mail"}}, {{"effect_type": "mail"}}]')"#
        ),
        "planned",
    );
    let effect = |number: usize| planned["effects"][number]["effect_id"].as_str().expect("an id").to_owned();
    for number in 0..3 {
        c.call(&format!("fn_effect_begin('{}', 'w')", effect(number)), "run");
    }
    c.call(&format!("fn_effect_finish('{}', 'w', '{{}}')", effect(0)), "succeeded");
    c.call(&format!("fn_effect_fail('{}', 'w', 'no')", effect(1)), "failed");
    c.call(&format!("fn_job_ack('{job}', 'w')"), "succeeded");
    c.call(&format!("fn_effect_reconcile('{}', 'done')", effect(2)), "reconciled");
    c.call(&format!("fn_effect_skip('{}', 'it stays')", effect(2)), "skipped");
    c.call(&format!("fn_effect_compensate('{job}')"), "compensating");
    let undo = c.call("fn_job_claim('w', 'unbook')", "claimed");
    c.call(&format!("fn_job_ack('{}', 'w')", undo["job_id"].as_str().expect("an id")), "succeeded");
    assert_eq!(c.call(&format!("fn_effect_get('{}')", effect(0)), "found")["status"], "compensated");
    c.s.run("SELECT * FROM agentq.v_effect");
    assert_eq!(c.s.count("agentq.v_effect_drift"), 2);
    c.call("fn_engine_tick('clean_effects')", "ticked");
    c.call(r#"fn_effect_manifest_set('{"idempotent": {"hotel.cancel": false}}')"#, "set");
    c.call("fn_effect_compensation_remove('unbook')", "set");
    c.call("fn_effect_operation_remove('book')", "set");
}

#[test]
fn nothing_of_the_callers_own_runs_inside_the_functions() {
    let db = database();
    let mut c = Caller { s: mallory(&db), called: Vec::new() };
    // And of everything else that is in the catalog.
    arm(&mut db.session(), &mut c.s);
    arm_temporary(&mut db.session(), &mut c.s);
    c.s.run("SET search_path = evil, pg_temp, pg_catalog, agentq, public");
    let done = c.hold("done");
    c.call("fn_job_enqueue('done', 'key of done')", "duplicate");
    c.call(&format!("fn_job_start('{done}', 'w')"), "started");
    c.call(&format!(r#"fn_job_heartbeat('{done}', 'w', 60, '{{"page": 1}}')"#), "extended");
    c.call(&format!("fn_job_ack('{done}', 'w', '{{}}')"), "succeeded");
    c.call(&format!("fn_job_ack('{done}', 'w')"), "already_finished");
    let batch =
        c.call(r#"fn_job_enqueue_batch('[{"job_kind": "b", "idempotency_key": "b"}, {"job_kind": "b"}]')"#, "enqueued");
    assert_eq!(batch["created"], 2);
    c.call("fn_job_enqueue_payloads('p', '[{}]')", "enqueued");
    let claimed = c.call(r#"fn_job_claim_batch('w', 5, p_options => '{"kinds": ["a", "b"]}')"#, "claimed");
    assert_eq!(claimed["count"], 2);
    let id = claimed["jobs"][0]["job_id"].as_str().expect("an id");
    assert_eq!(c.call(&format!(r#"fn_job_ack_batch('w', '["{id}"]')"#), "acked")["acked"], 1);
    let other = claimed["jobs"][1]["job_id"].as_str().expect("an id");
    let next = c.call(&format!("fn_job_ack_and_claim('{other}', 'w', '{{}}', p_job_kind => 'b')"), "empty");
    assert_eq!(next["ack"]["code"], "succeeded");
    c.call("fn_job_ack_and_claim_batch('w', '[]', 1, 'b')", "empty");
    let failed = c.hold("failed");
    c.call(&format!("fn_job_fail_or_retry('{failed}', 'w', 'no')"), "retry_waiting");
    c.call(&format!(r#"fn_job_change('{failed}', '{{"priority": 1, "scheduled_at": "2030-01-31"}}')"#), "changed");
    let letter = c.call(&format!("fn_job_move_to_dead_letter('{failed}', 'no use')"), "dead_letter");
    let letter = letter["dead_letter_id"].as_str().expect("an id");
    c.call(
        &format!(r#"fn_dead_letter_triage('{letter}', 'closed', p_resolution => '{{"status": "abandoned"}}')"#),
        "triaged",
    );
    c.call("fn_error_class_set('mine', false, 'x', ARRAY['other'])", "created");
    c.call("fn_error_class_set('mine', true)", "updated");
    c.call("fn_error_class_remove('mine')", "removed");
    c.call(
        r#"fn_retry_policy_set('kind', 'p', '{"backoff": "list", "delays": [1, 2], "retryable": ["timeout"]}')"#,
        "created",
    );
    c.call("fn_retry_policy_remove('kind', 'p')", "removed");
    c.call(r#"fn_dead_letter_redrive(p_filter => '{"job_kind": "failed", "moved_after": "2020-01-01"}')"#, "redriven");
    c.call(&format!("fn_dead_letter_redrive('{letter}')"), "already_redriven");
    c.call("fn_dead_letter_purge('1 day')", "purged");
    c.call(&format!("fn_job_replay('{done}')"), "replayed");
    c.call(&format!("fn_job_reconcile('{done}', 'done')"), "not_parked");
    c.call("fn_limit_preset()", "set");
    c.call(r#"fn_limit_set('tenant:*', '{"max_concurrent": 1}')"#, "created");
    c.call(r#"fn_job_enqueue('limited', p_options => '{"limit_keys": ["tenant:1"]}')"#, "enqueued");
    c.call("fn_job_claim('w', 'limited')", "claimed");
    c.call(r#"fn_job_enqueue('limited', p_options => '{"limit_keys": ["tenant:1"]}')"#, "enqueued");
    c.call("fn_job_claim('w', 'limited')", "empty");
    assert_eq!(c.s.text("SELECT agentq.fn_adjust_concurrency('global', NULL, 1, 1)"), "t");
    c.s.run("SELECT * FROM agentq.v_limit");
    c.call("fn_limit_remove('tenant:*')", "removed");
    c.call(r#"fn_budget_set('tenant:*', 'usd', 'day', '{"amount": 9}')"#, "created");
    c.call(r#"fn_limit_set('tenant:*', '{"rate": 5, "weight": 2}')"#, "created");
    c.call("fn_limit_report('tenant:3', '2020-01-01')", "reported");
    let options = r#"{"fairness_key": "tenant:2", "requires": ["gpu"], "cost": {"usd": 1}}"#;
    c.call(&format!("fn_job_enqueue('costly', p_options => '{options}')"), "enqueued");
    c.call("fn_job_claim('w', 'costly')", "empty");
    c.call(r#"fn_queue_heartbeat_tick('w', 'Agent', p_metadata => '{"capabilities": ["gpu"]}')"#, "ticked");
    let costly = c.call(r#"fn_job_claim('w', 'costly', p_options => '{"capabilities": ["gpu"]}')"#, "claimed");
    let costly = costly["job_id"].as_str().expect("a job").to_owned();
    c.call(&format!(r#"fn_job_usage('{costly}', 'w', '{{"usd": 2}}')"#), "counted");
    c.call(&format!("fn_job_ack('{costly}', 'w')"), "succeeded");
    for relation in ["v_limit", "v_budget", "fn_capable_workers(ARRAY['gpu'])", "fn_limit_gauge('tenant:2')"] {
        c.s.run(&format!("SELECT * FROM agentq.{relation}"));
    }
    c.call("fn_budget_remove('tenant:*', 'usd', 'day')", "removed");
    c.call("fn_limit_remove('tenant:*')", "removed");
    c.call(r#"fn_admission_check('{"job_kind": "a"}')"#, "checked");
    c.call("fn_backpressure_status()", "status");
    c.call(&format!("fn_job_explain('{done}')"), "finished");
    let steps = r#"[{"name": "a", "kind": "ma"}, {"name": "b", "kind": "mb", "depends_on": ["a"], "when": "$.a.n > 0",
        "for_each": "$.a.list", "params": {"x": {"$from": "$item"}}}, {"name": "c", "mission": {"steps": [{"kind": "mc"}]}}]"#;
    let mission = c.call(&format!(r#"fn_mission_start('{{"steps": {steps}}}', '{{"input": {{}}}}')"#), "started");
    let mission = mission["mission_id"].as_str().expect("an id").to_owned();
    let first = c.call("fn_job_claim('w', 'ma')", "claimed");
    let first = first["job_id"].as_str().expect("a job").to_owned();
    c.call(&format!("fn_mission_pause('{mission}')"), "paused");
    c.call(&format!(r#"fn_job_ack('{first}', 'w', '{{"n": 1, "list": [1, 2]}}')"#), "succeeded");
    c.call(&format!("fn_mission_resume('{mission}')"), "resumed");
    c.call(&format!("fn_mission_explain('{mission}')"), "running");
    c.call(&format!("fn_mission_get('{mission}')"), "found");
    c.call(&format!("fn_mission_wait('{mission}', '0')"), "pending");
    c.call(&format!("fn_mission_cancel('{mission}')"), "cancelled");
    let fork = c.call(&format!("fn_mission_fork('{mission}', 'a')"), "forked");
    c.call(&format!("fn_mission_cancel('{}')", fork["mission_id"].as_str().expect("an id")), "cancelled");
    c.s.run(&format!("SELECT agentq.fn_mission_graph('{mission}')"));
    for view in ["v_mission", "v_mission_step", "v_action_run"] {
        c.s.run(&format!("SELECT * FROM agentq.{view}"));
    }
    let soon = db.session().text("SELECT now() + interval '1 s'");
    let late = format!(r#"fn_job_enqueue('late', p_options => '{{"start_by": "{soon}", "external_effects": true}}')"#);
    c.call(&late, "enqueued");
    eventually("its time has passed", || db.session().text(&format!("SELECT now() > '{soon}'")) == "t");
    c.call("fn_job_claim('w', 'late')", "empty");
    let back = c.hold("back");
    c.call(&format!("fn_job_release('{back}', 'w')"), "released");
    c.call("fn_job_claim('w', 'back')", "claimed");
    c.call(&format!("fn_job_snooze('{back}', 'w', '2030-01-31')"), "snoozed");
    c.call(&format!("fn_job_cancel('{back}', 'enough')"), "cancelled");
    let step = c.hold("step");
    c.call(&format!(r#"fn_step_begin('{step}', 'w', 'a', '{{"n": 1}}')"#), "run");
    c.call(&format!("fn_step_complete('{step}', 'w', 'a', '1')"), "completed");
    let options = r#"{"repeat": true, "ordered": true, "idempotent": false}"#;
    c.call(&format!("fn_step_begin('{step}', 'w', 'b', p_options => '{options}')"), "run");
    c.call(&format!("fn_step_begin('{step}', 'w', 'b', p_options => '{options}')"), "unknown_outcome");
    c.call(&format!("fn_step_resolve('{step}', 'w', 'b', 'not_done')"), "resolved");
    c.call(&format!("fn_step_begin('{step}', 'w', 'b', p_options => '{options}')"), "run");
    c.call(&format!("fn_step_fail('{step}', 'w', 'b', 'no')"), "failed");
    c.call(&format!("fn_checkpoint_save('{step}', 'w', '{{}}')"), "saved");
    c.call(&format!("fn_checkpoint_load('{step}')"), "found");
    c.call("fn_action_begin('act', 'a', p_holder => 'w')", "won");
    c.call("fn_action_fail('act', 'w', 'no')", "failed");
    c.call("fn_action_begin('act', 'a', p_holder => 'w')", "won");
    c.call("fn_action_finish('act', 'w', '1')", "finished");
    c.call("fn_action_begin('act', 'a', p_holder => 'w')", "done");
    c.call(&format!("fn_signal_wait('{step}', 'w', 'go', 'k', '1 day')"), "waiting");
    c.call(r#"fn_signal_send('go', 'k', '{}', '{"dedupe_key": "d"}')"#, "sent");
    c.call(r#"fn_signal_send('go', 'k', '{}', '{"dedupe_key": "d"}')"#, "duplicate");
    c.call("fn_job_claim('w', 'step')", "claimed");
    c.call(&format!("fn_signal_wait('{step}', 'w', 'go', 'k', '1 day')"), "received");
    c.call(&format!("fn_child_start('{step}', 'w', 'one', 'child')"), "started");
    c.call(&format!("fn_child_wait('{step}', 'w', 'one', '1 day')"), "waiting");
    let child = text(&c.call("fn_job_claim('w', 'child')", "claimed"), "job_id");
    c.call(&format!("fn_job_wait('{child}', '0')"), "pending");
    c.call(&format!("fn_job_ack('{child}', 'w')"), "succeeded");
    c.call("fn_job_claim('w', 'step')", "claimed");
    c.call(&format!("fn_child_wait('{step}', 'w', 'one', '1 day')"), "succeeded");
    c.call(&format!("fn_job_sleep('{step}', 'w', '2030-01-31')"), "slept");
    c.s.run("SELECT * FROM agentq.v_job_step");
    c.call("fn_queue_set('mail')", "created");
    c.call("fn_queue_pause('mail')", "paused");
    c.call("fn_queue_resume('mail')", "resumed");
    c.call("fn_queue_heartbeat_tick('robot', 'Agent')", "ticked");
    c.call(r#"fn_schedule_set('s', '@every 1s', '{"job_kind": "s"}')"#, "created");
    c.call("fn_schedule_pause('s')", "paused");
    c.call("fn_schedule_resume('s')", "resumed");
    c.call("fn_handler_register('h', 'SELECT 1')", "created");
    c.call("fn_engine_chore_set('expire', true)", "set");
    let ticked = c.call("fn_engine_tick()", "ticked");
    assert_eq!(ticked["failed"], 0, "{ticked}");
    c.call(r#"fn_event_emit('a', 'x', '{"n": 1}', '{"dedupe_key": "k", "tags": ["t"]}')"#, "emitted");
    c.call("fn_engine_tick('seal_events')", "ticked");
    c.call("fn_event_read()", "events");
    c.call("fn_event_verify()", "sound");
    c.s.run("SELECT * FROM agentq.v_event_partition");
    let matrix = r#"[{"id": "p", "type": "a*", "when": "$.n > 0", "template": {"steps": [{"kind": "pa"}]}}]"#;
    c.call(&format!("fn_policy_set('reaction_matrix', '{matrix}')"), "set");
    c.call(r#"fn_policy_set('auto_approve', '{"enabled": true, "allowed_step_kinds": ["pb"]}')"#, "set");
    c.call(r#"fn_policy_set('proposal_caps', '{"daily_limit": 100}')"#, "set");
    c.call("fn_policy_get('reaction_matrix')", "found");
    c.call("fn_policy_history('reaction_matrix')", "found");
    c.call(r#"fn_event_emit('ab', 'x', '{"n": 1}')"#, "emitted");
    c.call("fn_ops_tick()", "ticked");
    let template = |kind: &str| format!(r#"'{{"steps": [{{"kind": "{kind}"}}]}}'"#);
    c.s.run(&format!("SELECT agentq.fn_template_step_kinds({})", template("pb")));
    c.s.run(&format!("SELECT agentq.fn_proposal_is_auto_approvable({})", template("pb")));
    c.s.run(&format!("SELECT agentq.fn_proposal_gate({})", template("pb")));
    c.call(&format!("fn_proposal_create(NULL, 'api', {})", template("pb")), "auto_approved");
    for (decide, code) in [("fn_proposal_approve", "approved"), ("fn_proposal_reject", "rejected")] {
        let proposal = c.call(&format!("fn_proposal_create(NULL, 'api', {})", template("pc")), "pending");
        let proposal = proposal["proposal_id"].as_str().expect("an id").to_owned();
        c.call(&format!("{decide}('{proposal}', 'why')"), code);
        c.call(&format!("fn_proposal_get('{proposal}')"), "found");
    }
    c.s.run("SELECT * FROM agentq.v_proposal");
    c.call("fn_schedule_remove('s')", "removed");
    c.call("fn_handler_remove('h')", "removed");
    c.call("fn_config_set('queue.lease.duration_sec', '60')", "set");
    assert_eq!(c.call(&format!("fn_job_get('{back}')"), "found")["job"]["state"], "cancelled");
    assert_eq!(c.call("fn_queue_stale_check()", "checked")["fresh"], 2);
    c.s.run("INSERT INTO agentq.job_queue (job_kind) VALUES ('through the view')");
    assert_eq!(c.s.text("SELECT agentq.fn_config_get('queue.lease.duration_sec')"), "60");
    assert!(c.s.texts("SELECT problem FROM agentq.fn_queue_verify()").is_empty());
    for view in [
        "v_queue_health",
        "v_job_queue_backlog",
        "v_job_dead_letter_summary",
        "job_attempt",
        "v_schedule",
        "v_engine_chore",
        "v_engine_status",
    ] {
        c.s.run(&format!("SELECT * FROM agentq.{view}"));
    }
    effects(&mut c);
    c.call("fn_job_purge('0 days')", "purged");

    // Who acts for others has a door of its own.
    let (path, mut console) = (c.s.text("SHOW search_path"), with_levels(&db, "console", &["delegate"]).1);
    console.run(&format!("SET search_path = {path}"));
    assert_eq!(console.call("fn_act_as('agq_x')")["code"], "unknown_token");
    c.called.extend(["fn_act_as".to_owned()]);
    let token = with_levels(&db, "acted for", &["producer"]).1.call("fn_token_issue('api')");
    console.run("BEGIN");
    assert_eq!(console.call(&format!("fn_act_as({})", token["token"]).replace('"', "'"))["code"], "acting");
    assert_eq!(console.call("fn_job_enqueue('trapped')")["code"], "enqueued");
    assert_eq!(console.call("fn_whoami()")["code"], "known");
    console.run("ROLLBACK");

    assert_eq!(log(&db), Vec::<String>::new(), "traps that were sprung, and as whom");
    let read = [
        "fn_config_get",
        "fn_queue_verify",
        "fn_vacuum_state",
        "fn_engine_live",
        "fn_engine_state",
        "fn_limit_rule_of",
        "fn_limit_pending",
        "fn_mission_recover_stale",
        "fn_mission_retry",
        "fn_job_begun_at",
        "fn_mission_begun_at",
        "fn_mission_step_begun_at",
        "fn_limit_counted",
        "fn_limit_gauge",
        "fn_capable_workers",
        "fn_adjust_concurrency",
        "fn_mission_graph",
        "fn_template_step_kinds",
        "fn_proposal_is_auto_approvable",
        "fn_proposal_gate",
    ];
    c.called.extend(read.map(str::to_owned));
    let definers = db.session().texts(
        "SELECT proname FROM pg_proc WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND prosecdef AND prorettype <> 'trigger'::regtype",
    );
    for definer in definers {
        assert!(c.called.contains(&definer), "{definer} was not tried");
    }
    db.assert_sound();
}

#[test]
fn a_cast_of_the_callers_own_runs_as_the_caller() {
    let db = database();
    let mut s = mallory(&db);
    s.run(
        "SET search_path = pg_catalog;
         CREATE TYPE evil.sneaky AS (kind pg_catalog.text);
         CREATE FUNCTION evil.as_text(evil.sneaky) RETURNS pg_catalog.text LANGUAGE plpgsql AS
            $$ BEGIN PERFORM evil.note('cast'); RETURN 'cast'; END $$;
         CREATE CAST (evil.sneaky AS pg_catalog.text) WITH FUNCTION evil.as_text AS IMPLICIT",
    );
    assert_eq!(s.call("fn_job_enqueue(ROW('a')::evil.sneaky)")["code"], "enqueued");
    assert_eq!(log(&db), [format!("mallory of {}: cast", db.name)]);
}

#[test]
fn a_schema_that_somebody_else_made_first_gives_them_nothing() {
    for schema in ["agentq", "agentq_internal"] {
        let db = plain_database(shared_cluster());
        let role = format!("{} owner", db.name);
        let mut early = db.session_of(&role);
        db.session().run(&format!("ALTER DATABASE {} OWNER TO \"{role}\"", db.name));
        // A better match than the variadic function of pg_catalog, wherever in the search path it is.
        let (name, signature, _) = TRAPS.iter().find(|trap| trap.0 == "jsonb_build_object").expect("it is a trap");
        early.run(&format!(
            "CREATE SCHEMA {schema};
             CREATE SEQUENCE public.sprung;
             CREATE FUNCTION {schema}.{name}{signature} LANGUAGE plpgsql AS
                $$ BEGIN PERFORM nextval('public.sprung'); RETURN NULL; END $$"
        ));
        assert_eq!(db.session().fails("CREATE EXTENSION agentq").code, "42P06", "{schema}");
        assert_eq!(early.text("SELECT is_called FROM public.sprung"), "f", "{schema}: their function has run");
    }
}

#[test]
fn no_object_of_a_users_can_be_tied_to_the_storage() {
    let db = database();
    let (role, mut s) = with_levels(&db, "mallory", &["operator", "worker", "producer", "reader"]);
    db.session().run(&format!("GRANT CREATE ON DATABASE {} TO \"{role}\"", db.name));
    s.run(
        "CREATE SCHEMA evil; CREATE FUNCTION evil.spring() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    );
    for statement in [
        "CREATE TABLE evil.child () INHERITS (agentq_internal.job_ready)",
        "CREATE TABLE evil.child (job_id uuid REFERENCES agentq_internal.job)",
        "CREATE TRIGGER spring BEFORE INSERT ON agentq_internal.job EXECUTE FUNCTION evil.spring()",
        "CREATE TRIGGER spring INSTEAD OF INSERT ON agentq.job_queue FOR EACH ROW EXECUTE FUNCTION evil.spring()",
        "CREATE RULE spring AS ON INSERT TO agentq.job_queue DO ALSO NOTHING",
        "CREATE STATISTICS evil.more ON job_id, queue_id FROM agentq_internal.job",
        "CREATE INDEX spring ON agentq_internal.job (evil.spring())",
        "CREATE POLICY spring ON agentq_internal.job USING (true)",
    ] {
        assert_eq!(s.fails(statement).code, "42501", "{statement}");
    }
}

#[test]
fn odd_settings_of_a_session_change_no_answer() {
    let db = database();
    let (_, mut s) = with_levels(&db, "odd", &["operator"]);
    s.run(
        "SET standard_conforming_strings = off; SET escape_string_warning = off; SET DateStyle = 'German';
         SET IntervalStyle = 'sql_standard'; SET TimeZone = 'Pacific/Chatham'; SET transform_null_equals = on;
         SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_nestloop = off; SET enable_material = off;
         SET row_security = off; SET plan_cache_mode = force_custom_plan; SET extra_float_digits = -15;
         SET default_transaction_isolation = 'serializable'; SET quote_all_identifiers = on; SET work_mem = 64;
         SET array_nulls = off; SET bytea_output = 'escape'; SET from_collapse_limit = 1; SET join_collapse_limit = 1",
    );
    let filled = fill(&mut s);
    // The checkpoint and the results of both come from the same functions.
    assert_works(&mut s, &filled);
    let id = s.enqueue("timed");
    s.run(&format!("UPDATE agentq.job_queue SET scheduled_at = '2030-01-31 12:00+00' WHERE job_id = '{id}'"));
    let at = format!("SELECT scheduled_at = '2030-01-31 12:00+00' FROM agentq.job_queue WHERE job_id = '{id}'");
    assert_eq!(s.text(&at), "t", "a moment stays the same moment");
    db.assert_sound();
}
