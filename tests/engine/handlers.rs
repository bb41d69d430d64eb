//! Jobs that the server runs itself, and what their SQL cannot do.

mod deferred;
mod escape;

use agentq_tests::engine::{after_a_turn, database};
use agentq_tests::{Database, Session, eventually, id, json, until_lock_waits};

/// A role of this database, with a table it may write to.
fn with_role(db: &Database<'_>) -> (Session, String) {
    let role = format!("handler of {}", db.name);
    drop(db.session_of(&role));
    let mut s = db.session();
    // A first attempt that has failed is looked at before there is a second.
    s.call("fn_config_set('queue.retry.backoff_base_sec', '3600')");
    s.run(&format!(
        "CREATE TABLE seen (who text, session text, job jsonb);
         GRANT SELECT, INSERT ON seen TO \"{role}\"; GRANT CREATE ON SCHEMA public TO \"{role}\"; GRANT CREATE ON DATABASE {} TO \"{role}\"",
        db.name
    ));
    (s, role)
}

fn register(s: &mut Session, kind: &str, sql: &str, role: &str, more: &str) {
    let answer = s.json("SELECT agentq.fn_handler_register($1, $2, $3, $4::text::jsonb)", &[&kind, &sql, &role, &more]);
    assert_eq!(answer["ok"], true, "{answer}");
}

/// The state, attempts and error of a job when its first attempt is over.
fn outcome(s: &mut Session, job: &str) -> (String, String) {
    eventually("its first attempt is over", || {
        s.count(&format!("agentq.job_attempt WHERE job_id = '{job}' AND outcome IS NOT NULL")) > 0
    });
    let error = format!(
        "SELECT coalesce(error, '') FROM agentq.job_attempt WHERE job_id = '{job}' ORDER BY attempt_no LIMIT 1"
    );
    (s.state(job), s.text(&error))
}

#[test]
fn jobs_of_a_kind_with_a_handler_are_run_with_the_rights_of_its_role() {
    let db = database();
    let (mut s, role) = with_role(&db);
    let sql =
        "INSERT INTO seen VALUES (current_user, 'x', $1) RETURNING jsonb_build_object('made', $1->'payload_json'->'n')";
    register(&mut s, "run", sql, &role, "{}");
    let jobs: Vec<String> =
        (0..20).map(|n| id(&s.call(&format!("fn_job_enqueue('run', p_payload_json => '{{\"n\": {n}}}')")))).collect();
    eventually("all have run", || s.count("agentq.job_queue WHERE state = 'succeeded'") == 20);
    assert_eq!(s.texts("SELECT DISTINCT who FROM seen"), [role]);
    assert_eq!(s.count("seen"), 20);
    assert_eq!(
        s.text(&format!("SELECT result FROM agentq_internal.job_done WHERE job_id = '{}'", jobs[7])),
        "{\"made\": 7}"
    );
    assert_eq!(s.count("agentq.queue_heartbeat WHERE executor_kind = 'PG_worker'"), 2);
    let owner = s.text(&format!("SELECT lease_owner FROM agentq.job_attempt WHERE job_id = '{}'", jobs[0]));
    assert!(owner.starts_with("agentq-sql-"), "{owner}");
    db.assert_sound();
}

#[test]
fn a_handler_that_fails_costs_one_attempt_and_what_it_did_is_undone() {
    let db = database();
    let (mut s, role) = with_role(&db);
    register(&mut s, "fail", "WITH i AS (INSERT INTO seen VALUES ('half')) SELECT 1 / 0", &role, "{}");
    register(&mut s, "slow", "SELECT pg_sleep(60)", &role, "{\"timeout_seconds\": 1}");
    register(&mut s, "kill", "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)", "postgres", "{}");
    register(&mut s, "commit", "DO $$ BEGIN COMMIT; END $$", &role, "{}");
    register(&mut s, "syntax", "SELEC 1", &role, "{}");
    register(&mut s, "well", "SELECT 'fine'", &role, "{}");
    for (kind, message) in [
        ("fail", "division by zero"),
        ("slow", "statement timeout"),
        ("kill", "the SQL worker ended while it ran the job"),
        ("commit", "invalid transaction termination"),
        ("syntax", "syntax error"),
    ] {
        let job = s.enqueue(kind);
        let (state, error) = outcome(&mut s, &job);
        assert_eq!(state, "retry_waiting", "{kind}");
        assert!(error.contains(message), "{kind}: {error}");
        assert_eq!(s.text(&format!("SELECT attempts FROM agentq.job_queue WHERE job_id = '{job}'")), "1", "{kind}");
    }
    assert_eq!(s.count("seen"), 0);
    let job = s.enqueue("well");
    assert_eq!(outcome(&mut s, &job).0, "succeeded");
    assert_eq!(s.text(&format!("SELECT result FROM agentq_internal.job_done WHERE job_id = '{job}'")), "\"fine\"");
    db.assert_sound();
}

#[test]
fn a_handler_cannot_leave_its_role() {
    let db = database();
    let (mut s, role) = with_role(&db);
    s.run("CREATE TABLE precious (x int)");
    for (number, sql) in [
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION postgres",
        "RESET ROLE",
        "RESET SESSION AUTHORIZATION",
        "DO $$ BEGIN EXECUTE 'SET SESSION AUTHORIZATION DEFAULT'; END $$",
        "INSERT INTO precious VALUES (1)",
        "INSERT INTO agentq.config VALUES ('x', '1', 'x')",
        "SELECT set_config('role', 'postgres', false)",
    ]
    .iter()
    .enumerate()
    {
        let kind = format!("leave{number}");
        register(&mut s, &kind, sql, &role, "{}");
        let job = s.enqueue(&kind);
        let (state, error) = outcome(&mut s, &job);
        assert_eq!(state, "retry_waiting", "{sql}: {error}");
    }
    // The workers are as they were.
    register(&mut s, "who", "SELECT jsonb_build_array(current_user, current_setting('search_path'))", &role, "{}");
    let job = s.enqueue("who");
    outcome(&mut s, &job);
    let result = s.json(&format!("SELECT result FROM agentq_internal.job_done WHERE job_id = '{job}'"), &[]);
    assert_eq!(result, json!([role, "\"$user\", public"]));
}

#[test]
fn a_handler_leaves_nothing_behind_that_runs_with_other_rights() {
    let db = database();
    let (mut s, role) = with_role(&db);
    let mut owner = db.session_of(&role);
    owner.run(
        "CREATE SCHEMA evil;
         CREATE TABLE evil.log (who text);
         CREATE TABLE evil.t (x int);
         CREATE FUNCTION evil.note() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO evil.log VALUES (current_user); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER later AFTER INSERT ON evil.t DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION evil.note();
         CREATE TABLE evil.second (x int);
         CREATE CONSTRAINT TRIGGER later AFTER INSERT ON evil.second DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION evil.note();
         CREATE TABLE evil.first (x int);
         CREATE FUNCTION evil.defer_again() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN SET CONSTRAINTS ALL DEFERRED; INSERT INTO evil.second VALUES (1); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER later AFTER INSERT ON evil.first DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION evil.defer_again();
         CREATE FUNCTION evil.noted() RETURNS int LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO evil.log VALUES (current_user); RETURN 1; END $$;
         CREATE FUNCTION evil.jsonb_typeof(jsonb) RETURNS text LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO evil.log VALUES (current_user); RETURN 'object'; END $$",
    );
    for (kind, sql) in [
        ("deferred", "INSERT INTO evil.t VALUES (1)"),
        ("deferred again", "INSERT INTO evil.first VALUES (1)"),
        (
            "cursor",
            "DO $$ BEGIN EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT evil.noted() FROM generate_series(1, 3)'; END $$",
        ),
        ("path", "SELECT set_config('search_path', 'evil, pg_catalog', false)"),
        (
            "setting",
            "SELECT set_config('statement_timeout', '1', false), set_config('agentq.clock_offset', '0', false)",
        ),
        ("temp", "CREATE TEMP TABLE job_lease (x int)"),
        ("prepared", "DO $$ BEGIN EXECUTE 'PREPARE p AS SELECT 1'; END $$"),
    ] {
        register(&mut s, kind, sql, &role, "{}");
        for _ in 0..2 {
            let job = s.enqueue(kind);
            outcome(&mut s, &job);
        }
    }
    register(&mut s, "after", "SELECT 1", &role, "{}");
    for _ in 0..6 {
        let job = s.enqueue("after");
        assert_eq!(outcome(&mut s, &job).0, "succeeded");
    }
    let others = s.texts(&format!("SELECT DISTINCT who FROM evil.log WHERE who <> '{role}'"));
    assert!(others.is_empty(), "ran with the rights of {others:?}");
    assert!(s.count("evil.log") >= 4, "the triggers of the handler's own never ran");
}

#[test]
fn registering_needs_membership_and_a_superuser_for_a_superuser() {
    let db = database();
    let (mut s, role) = with_role(&db);
    let operator = format!("operator of {}", db.name);
    let mut other = db.session_of(&operator);
    s.json("SELECT agentq.fn_access_grant($1, 'operator')", &[&operator]);
    let call = |role: &str| format!("SELECT agentq.fn_handler_register('k', 'SELECT 1', '{role}')");
    let failure = other.fails(&call(&role));
    assert_eq!(failure.code, "42501", "{failure:?}");
    assert!(failure.message.contains("not a member"), "{failure:?}");
    s.run(&format!("GRANT \"{role}\" TO \"{operator}\"; GRANT postgres TO \"{operator}\""));
    other.run(&call(&role));
    other.run(&call(&operator));
    let failure = other.fails(&call("postgres"));
    assert_eq!(failure.code, "42501", "{failure:?}");
    assert!(failure.message.contains("superuser"), "{failure:?}");
    // Not from inside a handler either, though its worker belongs to a superuser.
    let inside = "SELECT agentq.fn_handler_register('deep', 'ALTER ROLE pg_monitor SUPERUSER', 'postgres')";
    register(&mut s, "inside", inside, &operator, "{}");
    let job = s.enqueue("inside");
    let (_, error) = outcome(&mut s, &job);
    assert!(error.contains("superuser"), "{error}");
    assert_eq!(s.count("agentq.job_handler WHERE job_kind = 'deep'"), 0);
    let failure = other.fails(&call("nobody at all"));
    assert_eq!((failure.code.as_str(), failure.hint.is_empty()), ("42704", false), "{failure:?}");
    s.run(&call("postgres"));
    s.run(&format!("REVOKE postgres FROM \"{operator}\""));
    // A role that becomes a superuser later is not run either.
    other.run("SELECT agentq.fn_handler_register('later', 'SELECT 1')");
    s.run(&format!("ALTER ROLE \"{operator}\" SUPERUSER"));
    s.run("UPDATE agentq.job_handler SET registered_by = 'pg_monitor' WHERE job_kind = 'later'");
    let job = s.enqueue("later");
    let (_, error) = outcome(&mut s, &job);
    assert!(error.contains("has become a superuser"), "{error}");
    s.run(&format!("ALTER ROLE \"{operator}\" NOSUPERUSER"));
}

#[test]
fn wrong_registrations_are_refused_and_a_removed_handler_runs_no_more() {
    let db = database();
    let mut s = db.session();
    for (call, message) in [
        ("fn_handler_register(' ', 'SELECT 1')", "p_job_kind"),
        ("fn_handler_register('k', ' ')", "p_sql"),
        ("fn_handler_register('k', 'SELECT 1', p_options => '{\"queue\": \"none\"}')", "none"),
        ("fn_handler_register('k', 'SELECT 1', p_options => '{\"timeout_seconds\": 0}')", "timeout_seconds"),
        ("fn_handler_register('k', 'SELECT 1', p_options => '{\"colour\": 0}')", "colour"),
    ] {
        let failure = s.fails(&format!("SELECT agentq.{call}"));
        assert_eq!(failure.code, "22023", "{call}: {failure:?}");
        assert!(failure.message.contains(message) && !failure.hint.is_empty(), "{call}: {failure:?}");
    }
    register(&mut s, "k", "SELECT 1", "postgres", "{}");
    let job = s.enqueue("k");
    assert_eq!(outcome(&mut s, &job).0, "succeeded");
    assert_eq!(s.call("fn_handler_remove('k')")["code"], "removed");
    assert_eq!(s.fails("SELECT agentq.fn_handler_remove('k')").code, "P0002");
    eventually("the workers go", || s.count("agentq.v_engine_status WHERE sql_workers = 0") == 1);
    let job = s.enqueue("k");
    after_a_turn(&mut s);
    assert_eq!(s.state(&job), "queued");
}

#[test]
fn a_worker_survives_the_time_limit_of_a_job_that_failed_before_it() {
    let db = database();
    let (mut s, role) = with_role(&db);
    register(&mut s, "fail", "SELECT 1 / 0", &role, "{\"timeout_seconds\": 1}");
    for _ in 0..4 {
        let job = s.enqueue("fail");
        outcome(&mut s, &job);
    }
    let pids = "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity
                WHERE backend_type = 'agentq sql worker' AND datname = current_database()";
    let before = s.text(pids);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(s.text(pids), before);
}

#[test]
fn a_handler_that_is_removed_stops_although_there_is_a_backlog() {
    let db = database();
    let (mut s, role) = with_role(&db);
    // Each job waits until the gate is opened.
    let mut gate = db.session();
    gate.run("SELECT pg_advisory_lock(1)");
    register(&mut s, "slow", "SELECT pg_advisory_xact_lock_shared(1)", &role, "{}");
    s.run("SELECT agentq.fn_job_enqueue('slow') FROM generate_series(1, 100)");
    until_lock_waits(&mut s, 2);
    s.call("fn_handler_remove('slow')");
    gate.run("SELECT pg_advisory_unlock(1)");
    let at_work = "pg_stat_activity WHERE backend_type = 'agentq sql worker' AND datname = current_database()";
    eventually("the workers go", || s.count(at_work) == 0);
    let left = s.count("agentq_internal.job_ready");
    assert!(left > 90, "{left}");
}

#[test]
fn a_handler_may_put_its_job_to_sleep_and_let_it_wait_for_a_signal() {
    let db = database();
    let mut s = db.session();
    s.run(
        "CREATE TABLE seen (what text);
         CREATE FUNCTION follow(job jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
         DECLARE
             v_job uuid := job->>'job_id';
             v_got jsonb;
         BEGIN
             IF agentq.fn_step_begin(v_job, job->>'lease_owner', 'first')->>'code' = 'run' THEN
                 INSERT INTO seen VALUES ('first');
                 PERFORM agentq.fn_step_complete(v_job, job->>'lease_owner', 'first');
             END IF;
             IF agentq.fn_job_sleep(v_job, job->>'lease_owner', p_for => '0.1 s')->>'code' = 'slept' THEN
                 RETURN NULL;
             END IF;
             v_got := agentq.fn_signal_wait(v_job, job->>'lease_owner', 'go', 'k', '1 hour');
             IF v_got->>'code' = 'waiting' THEN
                 RETURN NULL;
             END IF;
             INSERT INTO seen VALUES ('last');
             RETURN v_got->'payload';
         END $$",
    );
    register(&mut s, "follow", "SELECT follow($1)", "postgres", "{}");
    let job = s.enqueue("follow");
    let ended = |s: &mut Session, outcome: &str| {
        s.count(&format!("agentq.job_attempt WHERE job_id = '{job}' AND outcome = '{outcome}'")) == 1
    };
    eventually("it has slept and waits", || ended(&mut s, "slept") && ended(&mut s, "waiting"));
    assert_eq!(s.call("fn_signal_send('go', 'k', '{\"n\": 7}')")["delivered_to"], json!(job));
    eventually("it has succeeded", || s.state(&job) == "succeeded");
    assert_eq!(s.text(&format!("SELECT result FROM agentq_internal.job_done WHERE job_id = '{job}'")), "{\"n\": 7}");
    assert_eq!(s.texts("SELECT what FROM seen ORDER BY what"), ["first", "last"]);
    assert_eq!(s.text(&format!("SELECT attempts FROM agentq.job_queue WHERE job_id = '{job}'")), "0");
    db.assert_sound();
}
