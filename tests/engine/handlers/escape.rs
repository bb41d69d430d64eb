//! Tricks by which the SQL of a handler tries to get at other rights than its role's: by statements
//! that trust the session's user, by what it leaves in the session for the handler of another role, by
//! not ending. The session of an SQL worker belongs to a superuser and serves many roles in turn.

use super::{outcome, register, with_role};
use agentq_tests::engine::{database, worker_pid};
use agentq_tests::{Database, Session, eventually, json};

/// The pids of this database's SQL workers.
fn workers(s: &mut Session) -> Vec<String> {
    s.texts(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'agentq sql worker' AND datname = current_database()",
    )
}

/// Registers each statement under a kind of its own and runs it once, all at the same time.
fn run_all(s: &mut Session, role: &str, statements: &[&str]) -> Vec<(String, String, String)> {
    let mut jobs = Vec::new();
    for (number, sql) in statements.iter().enumerate() {
        let kind = format!("trick {number}");
        register(s, &kind, sql, role, "{}");
        jobs.push(((*sql).to_owned(), s.enqueue(&kind)));
    }
    let ended = jobs.into_iter().map(|(sql, job)| {
        let (state, error) = outcome(s, &job);
        (sql, state, error)
    });
    ended.collect()
}

/// A role with a schema of its own, full of functions that note who runs them.
fn evil(db: &Database<'_>, role: &str) {
    db.session_of(role).run(
        "CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
         CREATE TABLE evil.log (who text); GRANT ALL ON evil.log TO PUBLIC;
         CREATE FUNCTION evil.noted() RETURNS int LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO evil.log VALUES (current_user); RETURN 1; END $$;
         CREATE FUNCTION evil.spring() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO evil.log VALUES (current_user); RETURN NEW; END $$;
         -- It says that it changes nothing, so that an index may be built on it.
         CREATE FUNCTION evil.sneaky(x int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
             $$ BEGIN PERFORM evil.noted(); RETURN x; END $$;
         CREATE PROCEDURE evil.commits() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$;
         CREATE SEQUENCE evil.numbers",
    );
}

#[test]
fn statements_that_trust_the_sessions_user_are_refused_to_a_handler() {
    let db = database();
    let (mut s, role) = with_role(&db);
    evil(&db, &role);
    s.run("CREATE TABLE precious (x int); CREATE FUNCTION owned() RETURNS int LANGUAGE sql AS 'SELECT 1'");
    let tricks = [
        "DO $$ BEGIN EXECUTE 'SET LOCAL ROLE postgres'; END $$",
        "DO $$ BEGIN SET LOCAL SESSION AUTHORIZATION DEFAULT; END $$",
        "SELECT set_config('role', 'postgres', true)",
        "SELECT set_config('session_authorization', 'postgres', true)",
        "CREATE FUNCTION evil.up() RETURNS name LANGUAGE sql SET role = 'postgres' AS 'SELECT current_user'",
        "ALTER FUNCTION evil.noted() SET session_authorization = 'postgres'",
        "ALTER FUNCTION evil.noted() OWNER TO SESSION_USER",
        "ALTER ROLE CURRENT_USER SET role = 'postgres'",
        "ALTER ROLE CURRENT_USER SUPERUSER",
        "ALTER ROLE SESSION_USER PASSWORD 'known'",
        "ALTER ROLE SESSION_USER SET search_path = 'evil'",
        "ALTER ROLE ALL SET search_path = 'evil'",
        "GRANT postgres TO CURRENT_USER",
        "GRANT postgres TO CURRENT_USER GRANTED BY SESSION_USER",
        "REASSIGN OWNED BY SESSION_USER TO CURRENT_USER",
        "DROP OWNED BY SESSION_USER",
        "CREATE SCHEMA mine AUTHORIZATION SESSION_USER",
        "ALTER DEFAULT PRIVILEGES FOR ROLE SESSION_USER GRANT ALL ON TABLES TO PUBLIC",
        "CREATE EVENT TRIGGER up ON ddl_command_start EXECUTE FUNCTION evil.spring()",
        "ALTER SYSTEM SET work_mem = '1GB'",
        "SET session_replication_role = replica",
        "SET agentq.clock_offset = 86400",
        "ALTER EXTENSION agentq UPDATE",
        "DROP EXTENSION agentq",
        "CREATE TRIGGER spring BEFORE INSERT ON agentq_internal.job FOR EACH ROW EXECUTE FUNCTION evil.spring()",
        "CREATE TRIGGER spring BEFORE INSERT ON precious FOR EACH ROW EXECUTE FUNCTION evil.spring()",
        "LOCK TABLE precious",
        "TRUNCATE precious",
        "CREATE OR REPLACE FUNCTION owned() RETURNS int LANGUAGE sql AS 'SELECT 2'",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "COPY seen FROM '/etc/passwd'",
        "SELECT pg_read_file('postgresql.conf')",
        "SELECT lo_import('/etc/passwd')",
        "LOAD 'agentq'",
        "SELECT pg_terminate_backend(pg_backend_pid())",
        &format!("SELECT pg_terminate_backend({})", worker_pid(&mut s)),
        "SELECT pg_reload_conf()",
        "LISTEN agentq_job_ready",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT here",
        "PREPARE TRANSACTION 'later'",
        "CALL evil.commits()",
        "VACUUM",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ];
    for (sql, state, error) in run_all(&mut s, &role, &tricks) {
        assert_eq!(state, "retry_waiting", "{sql}: {error}");
    }
    assert_eq!(s.count("evil.log"), 0, "nothing of it ran");
    let mut as_role = db.session_of(&role);
    assert_eq!(as_role.text("SELECT current_user"), role);
    assert_eq!(as_role.text("SELECT current_setting('is_superuser')"), "off");
    db.assert_sound();
}

#[test]
fn a_handler_finds_the_session_as_if_no_other_had_been_there() {
    let db = database();
    let (mut s, role) = with_role(&db);
    evil(&db, &role);
    let victim = format!("victim of {}", db.name);
    drop(db.session_of(&victim));
    let seen = "SELECT jsonb_build_object('user', current_user, 'path', current_setting('search_path'),
            'timeout', current_setting('statement_timeout'), 'lock', current_setting('lock_timeout'),
            'mine', coalesce(current_setting('evil.mine', true), ''), 'zone', current_setting('TimeZone'),
            'read only', current_setting('transaction_read_only') || current_setting('default_transaction_read_only'),
            'check', current_setting('check_function_bodies'), 'tag', current_setting('application_name'),
            'temp', (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()),
            'functions', (SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()),
            'prepared', (SELECT count(*) FROM pg_prepared_statements), 'cursors', (SELECT count(*) FROM pg_cursors),
            'locks', (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
            'listens', (SELECT count(*) FROM pg_listening_channels()))";
    register(&mut s, "look", seen, &victim, "{}");
    let look = |s: &mut Session| {
        let jobs: Vec<String> = (0..8).map(|_| s.enqueue("look")).collect();
        let mut found: Vec<agentq_tests::Value> = Vec::new();
        for job in jobs {
            assert_eq!(outcome(s, &job).0, "succeeded");
            found.push(s.json(&format!("SELECT result FROM agentq_internal.job_done WHERE job_id = '{job}'"), &[]));
        }
        found.dedup();
        found
    };
    let before = look(&mut s);
    assert_eq!(before.len(), 1, "{before:?}");
    let leavings = [
        "SELECT set_config('statement_timeout', '7', false), set_config('evil.mine', 'secret', false)",
        "SET statement_timeout = 8",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET TRANSACTION READ ONLY",
        "DO $$ BEGIN SET TimeZone = 'Pacific/Chatham'; SET check_function_bodies = off; SET lock_timeout = 1; END $$",
        "SET application_name = 'evil'",
        "SET search_path = evil",
        "CREATE TEMP TABLE kept (x int)",
        "DO $$ BEGIN CREATE TEMP TABLE gone (x int) ON COMMIT DROP; INSERT INTO gone VALUES (1); END $$",
        "DO $$ BEGIN CREATE TEMP TABLE emptied (x int) ON COMMIT DELETE ROWS; INSERT INTO emptied VALUES (1);
            CREATE INDEX ON emptied (evil.sneaky(x)); CREATE INDEX ON emptied (x) WHERE evil.sneaky(1) = 1; END $$",
        "CREATE TEMP VIEW shown AS SELECT evil.noted()",
        "CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'",
        "DO $$ BEGIN EXECUTE 'PREPARE p AS SELECT evil.noted()'; END $$",
        "DO $$ BEGIN EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT evil.noted()'; END $$",
        "SELECT pg_advisory_lock(42), pg_advisory_lock_shared(43), pg_advisory_xact_lock(44)",
        "SELECT nextval('evil.numbers'), setseed(0.5)",
        "SELECT lo_open(lo_create(0), 131072), pg_export_snapshot(), pg_notify('agentq_job_ready', 'forged')",
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC",
    ];
    for (sql, state, error) in run_all(&mut s, &role, &leavings) {
        assert_eq!(state, "succeeded", "{sql}: {error}");
        // Whatever was left by this one is looked for by the other role's, on each of the workers.
        assert_eq!(look(&mut s), before, "{sql}");
    }
    s.run(&format!("GRANT ALL ON SEQUENCE evil.numbers TO \"{victim}\""));
    register(&mut s, "last", "SELECT lastval()", &victim, "{}");
    for _ in 0..4 {
        let job = s.enqueue("last");
        let (_, error) = outcome(&mut s, &job);
        assert!(error.contains("not yet defined"), "{error}");
    }
    let others = s.texts(&format!("SELECT DISTINCT who FROM evil.log WHERE who <> '{role}'"));
    assert!(others.is_empty(), "ran with the rights of {others:?}");
    assert_ne!(s.count("evil.log"), 0, "the role's own functions never ran");
    db.assert_sound();
}

/// A session of the owner's locks a table that the worker needs in order to take the temporary ones away.
#[test]
fn what_cannot_be_taken_away_is_no_trap_for_the_handler_of_another_role() {
    let db = database();
    let (mut s, role) = with_role(&db);
    evil(&db, &role);
    let victim = format!("victim of {}", db.name);
    drop(db.session_of(&victim));
    s.run(&format!("CREATE TABLE accounts (x int); GRANT ALL ON accounts TO \"{victim}\""));
    db.session_of(&role).run(
        "CREATE TABLE evil.tied (x int);
         CREATE FUNCTION evil.leave() RETURNS int LANGUAGE plpgsql AS $$
         BEGIN
             CREATE TEMP TABLE accounts (x int);
             GRANT ALL ON accounts TO PUBLIC;
             CREATE TRIGGER spring BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION evil.spring();
             CREATE TYPE pg_temp.odd AS (x int);
             ALTER TABLE evil.tied ADD COLUMN y pg_temp.odd;
             WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'evil.tied'::regclass AND NOT granted) LOOP
                 PERFORM pg_sleep(0.02);
             END LOOP;
             RETURN 1;
         END $$",
    );
    register(&mut s, "leave", "SELECT evil.leave()", &role, "{}");
    register(&mut s, "honest", "INSERT INTO accounts VALUES (1)", &victim, "{}");
    let job = s.enqueue("leave");
    let locks = "pg_locks WHERE relation = 'evil.tied'::regclass AND mode = 'AccessExclusiveLock'";
    eventually("the handler has its lock", || s.count(&format!("{locks} AND granted")) == 1);
    let mut holder = db.session_of(&role);
    // Waits for the handler, and gets the lock at the very moment in which that commits.
    holder.run("BEGIN; LOCK TABLE evil.tied IN ACCESS SHARE MODE");
    assert_eq!(outcome(&mut s, &job).0, "succeeded");
    eventually("the worker gives up", || db.cluster.log().contains("an SQL worker could not tidy up"));
    holder.run("ROLLBACK");
    let honest: Vec<String> = (0..20).map(|_| s.enqueue("honest")).collect();
    for job in honest {
        assert_eq!(outcome(&mut s, &job).0, "succeeded");
    }
    assert_eq!(s.texts("SELECT who FROM evil.log"), Vec::<String>::new(), "a trigger of the one ran as the other");
    assert_eq!(s.count("accounts"), 20);
    eventually("there are two workers again", || workers(&mut s).len() == 2);
    db.assert_sound();
}

#[test]
fn a_handler_that_catches_the_end_of_its_time_loses_its_worker() {
    let db = database();
    let (mut s, role) = with_role(&db);
    let sql =
        "DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$";
    register(&mut s, "stubborn", sql, &role, "{\"timeout_seconds\": 1}");
    register(&mut s, "well", "SELECT 'fine'", &role, "{}");
    let job = s.enqueue("stubborn");
    let (state, error) = outcome(&mut s, &job);
    assert_eq!(state, "retry_waiting", "{error}");
    assert!(error.contains("the SQL worker ended while it ran the job"), "{error}");
    s.call("fn_handler_remove('stubborn')");
    let job = s.enqueue("well");
    assert_eq!(outcome(&mut s, &job).0, "succeeded");
    db.assert_sound();
}

#[test]
fn what_a_handler_does_is_written_down_under_its_role() {
    let db = database();
    let (mut s, role) = with_role(&db);
    s.json("SELECT agentq.fn_access_grant($1, 'operator')", &[&role]);
    let sql = "SELECT agentq.fn_config_set('queue.lease.duration_sec', '299'), agentq.fn_job_enqueue('made inside')";
    register(&mut s, "act", sql, &role, "{}");
    let job = s.enqueue("act");
    assert_eq!(outcome(&mut s, &job).0, "succeeded");
    assert_eq!(s.text("SELECT updated_by FROM agentq.config WHERE key = 'queue.lease.duration_sec'"), role);
    assert_eq!(s.text("SELECT actor FROM agentq.job_queue WHERE job_kind = 'made inside'"), role);
    // Also after one that fails, and what others do is theirs.
    register(&mut s, "fails", "SELECT agentq.fn_job_enqueue('undone'), 1 / 0", &role, "{}");
    let job = s.enqueue("fails");
    assert_eq!(outcome(&mut s, &job).0, "retry_waiting");
    assert_eq!(s.text(&format!("SELECT actor FROM agentq.job_queue WHERE job_id = '{job}'")), "postgres");
}

#[test]
fn a_handler_runs_no_more_when_who_registered_it_has_left_its_role_or_the_role_is_gone() {
    let db = database();
    let (mut s, role) = with_role(&db);
    let operator = format!("operator of {}", db.name);
    let mut registrar = db.session_of(&operator);
    s.json("SELECT agentq.fn_access_grant($1, 'operator')", &[&operator]);
    s.run(&format!("GRANT \"{role}\" TO \"{operator}\""));
    register(&mut registrar, "k", "SELECT 1", &role, "{}");
    let job = s.enqueue("k");
    assert_eq!(outcome(&mut s, &job).0, "succeeded");
    s.run(&format!("REVOKE \"{role}\" FROM \"{operator}\""));
    let job = s.enqueue("k");
    let (state, error) = outcome(&mut s, &job);
    assert_eq!(state, "retry_waiting");
    assert!(error.contains("is no member of its role"), "{error}");
    let gone = format!("gone of {}", db.name);
    drop(db.session_of(&gone));
    register(&mut s, "gone", "SELECT 1", &gone, "{}");
    s.run(&format!("DROP ROLE \"{gone}\""));
    let job = s.enqueue("gone");
    let (_, error) = outcome(&mut s, &job);
    assert!(error.contains("is gone"), "{error}");
    // A changed handler is registered by whoever changed it.
    let failure = registrar.fails(&format!("SELECT agentq.fn_handler_register('k', 'SELECT 2', '{role}')"));
    assert_eq!(failure.code, "42501");
    let kept = s.text("SELECT sql FROM agentq.job_handler WHERE job_kind = 'k'");
    assert_eq!(json!(kept), json!("SELECT 1"));
}
