//! Each level at everything there is, one by one: every privilege on every relation, column and
//! sequence, acts on the extension itself, settings, and the ways by which a level might be climbed.

use crate::access::{LEVELS, READABLE, calls, internal_calls, is_let_in, with_levels};
use agentq_tests::{Database, Session, database};

/// A session of a role with every level, and with a schema of its own.
fn with_all_levels(db: &Database<'_>) -> (String, Session) {
    let (role, mut s) = with_levels(db, "all", &LEVELS);
    db.session().run(&format!("GRANT CREATE ON DATABASE {} TO \"{role}\"", db.name));
    s.run(
        "CREATE SCHEMA own; CREATE FUNCTION own.spring() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
         CREATE TABLE own.plain (x int)",
    );
    (role, s)
}

/// With their schemas.
fn relations(s: &mut Session, kinds: &str) -> Vec<String> {
    let list = format!(
        "SELECT oid::regclass::text FROM pg_class WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)
         AND relkind IN ({kinds}) ORDER BY 1"
    );
    s.texts(&list)
}

fn is_readable(relation: &str) -> bool {
    relation.strip_prefix("agentq.").is_some_and(|name| READABLE.contains(&name))
}

/// What a level may do with relations: it reads some, or it also writes through one view.
fn expected(level: &str, relation: &str) -> Vec<&'static str> {
    let reads = ["reader", "operator"].contains(&level) && is_readable(relation);
    let writes = level == "operator" && relation == "agentq.job_queue";
    let mut privileges = Vec::new();
    if writes {
        privileges.extend(["DELETE", "INSERT"]);
    }
    if reads {
        privileges.push("SELECT");
    }
    if writes {
        privileges.push("UPDATE");
    }
    privileges
}

#[test]
fn each_level_has_its_privileges_on_relations_and_columns_and_no_other() {
    let db = database();
    let mut owner = db.session();
    for level in LEVELS {
        let (role, _) = with_levels(&db, level, &[level]);
        let mut wrong = Vec::new();
        for relation in relations(&mut owner, "'r', 'p', 'v', 'm', 'f'") {
            let held = |what: &str, columns: bool| {
                let (function, list) = if columns {
                    ("has_any_column_privilege", "ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']")
                } else {
                    let all = "ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']";
                    ("has_table_privilege", all)
                };
                format!(
                    "SELECT p FROM unnest({list}) p WHERE {function}('{role}', '{what}', p)
                     UNION SELECT p || ' to give' FROM unnest({list}) p
                     WHERE {function}('{role}', '{what}', p || ' WITH GRANT OPTION') ORDER BY 1"
                )
            };
            let expected = expected(level, &relation);
            let on_columns: Vec<&str> = expected.iter().copied().filter(|p| *p != "DELETE").collect();
            // Tokens are for nobody to read: of a table that has any, a level has the other columns.
            let expected = if relation == "agentq.action" { Vec::new() } else { expected };
            if owner.texts(&held(&relation, false)) != expected || owner.texts(&held(&relation, true)) != on_columns {
                wrong.push(relation);
            }
        }
        assert_eq!(wrong, Vec::<String>::new(), "{level}");
        let sequences = relations(&mut owner, "'S'");
        assert!(!sequences.is_empty());
        for sequence in sequences {
            let any = format!("SELECT has_sequence_privilege('{role}', '{sequence}', 'USAGE, SELECT, UPDATE')");
            assert_eq!(owner.text(&any), "f", "{level}: {sequence}");
        }
        let may =
            |schema: &str, privilege: &str| format!("SELECT has_schema_privilege('{role}', '{schema}', '{privilege}')");
        assert_eq!(owner.text(&may("agentq", "USAGE")), "t", "{level}");
        assert_eq!(owner.text(&may("agentq", "CREATE")), "f", "{level}");
        assert_eq!(owner.text(&may("agentq_internal", "USAGE, CREATE")), "f", "{level}");
    }
}

#[test]
fn each_level_has_its_functions_and_no_other() {
    let db = database();
    let mut owner = db.session();
    let called = |call: &str| call.split('(').next().expect("a name").to_owned();
    for level in LEVELS {
        let (role, _) = with_levels(&db, level, &[level]);
        let held = owner.texts(&format!(
            "SELECT proname FROM pg_proc WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)
             AND has_function_privilege('{role}', oid, 'EXECUTE') ORDER BY 1"
        ));
        let all = calls().into_iter().chain(internal_calls());
        let mut expected: Vec<String> =
            all.filter(|(_, levels)| levels.contains(&level)).map(|(call, _)| called(&call)).collect();
        expected.sort();
        assert_eq!(held, expected, "{level}");
        let gives = format!(
            "pg_proc WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)
             AND has_function_privilege('{role}', oid, 'EXECUTE WITH GRANT OPTION')"
        );
        assert_eq!(owner.count(&gives), 0, "{level}");
    }
}

/// Not by privilege but by trying: what a role with all the levels does to any relation is refused.
#[test]
fn no_level_gets_at_the_storage_by_any_statement() {
    let db = database();
    let (_, mut s) = with_all_levels(&db);
    let mut owner = db.session();
    let refused = |s: &mut Session, statement: &str| {
        let outcome = s.0.simple_query(&format!("BEGIN; {statement}"));
        let code = outcome.err().and_then(|error| error.code().map(|code| code.code().to_owned()));
        // Some views cannot be written to by anybody.
        let nobody = statement.starts_with("DELETE") && code.as_deref() == Some("55000");
        assert!(nobody || code.as_deref() == Some("42501"), "{statement}: {code:?}");
        s.run("ROLLBACK");
    };
    for table in relations(&mut owner, "'r', 'p'") {
        let column = owner
            .text(&format!("SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum = 1"));
        for statement in [
            format!("UPDATE {table} SET {column} = NULL"),
            format!("DELETE FROM {table}"),
            format!("INSERT INTO {table} ({column}) VALUES (NULL)"),
            format!("TRUNCATE {table}"),
            format!("COPY {table} FROM stdin"),
            format!("LOCK TABLE {table} IN SHARE MODE"),
            format!("SELECT 1 FROM {table} FOR UPDATE"),
            format!("CREATE TRIGGER spring BEFORE INSERT ON {table} EXECUTE FUNCTION own.spring()"),
            format!("CREATE INDEX ON {table} ({column})"),
            format!("ALTER TABLE {table} DISABLE TRIGGER ALL"),
            format!("ALTER TABLE {table} SET UNLOGGED"),
            format!("COMMENT ON TABLE {table} IS ''"),
            format!("COMMENT ON COLUMN {table}.{column} IS ''"),
            format!("REINDEX TABLE {table}"),
            format!("CREATE PUBLICATION p FOR TABLE {table}"),
            format!("DROP TABLE {table}"),
        ] {
            refused(&mut s, &statement);
        }
        if !is_readable(&table) {
            refused(&mut s, &format!("SELECT {column} FROM {table}"));
            refused(&mut s, &format!("COPY {table} TO stdout"));
            refused(&mut s, &format!("LOCK TABLE {table} IN ACCESS SHARE MODE"));
        }
    }
    for view in relations(&mut owner, "'v'").iter().filter(|view| *view != "agentq.job_queue") {
        refused(&mut s, &format!("DELETE FROM {view}"));
    }
    for view in relations(&mut owner, "'v'") {
        refused(&mut s, &format!("CREATE OR REPLACE VIEW {view} AS SELECT 1 AS x"));
        refused(&mut s, &format!("ALTER VIEW {view} OWNER TO CURRENT_USER"));
    }
    for sequence in relations(&mut owner, "'S'") {
        refused(&mut s, &format!("SELECT nextval('{sequence}')"));
        refused(&mut s, &format!("SELECT setval('{sequence}', 1)"));
        refused(&mut s, &format!("SELECT last_value FROM {sequence}"));
        refused(&mut s, &format!("ALTER SEQUENCE {sequence} RESTART"));
    }
}

#[test]
fn no_level_changes_the_extension_its_schema_or_its_functions() {
    let db = database();
    let (role, mut s) = with_all_levels(&db);
    for statement in [
        "ALTER EXTENSION agentq UPDATE",
        "ALTER EXTENSION agentq ADD TABLE own.plain",
        "ALTER EXTENSION agentq DROP FUNCTION agentq.fn_version()",
        "COMMENT ON EXTENSION agentq IS ''",
        "DROP EXTENSION agentq CASCADE",
        "DROP SCHEMA agentq CASCADE",
        "DROP SCHEMA agentq_internal CASCADE",
        "ALTER SCHEMA agentq_internal OWNER TO CURRENT_USER",
        "CREATE TABLE agentq_internal.mine ()",
        "ALTER TABLE own.plain SET SCHEMA agentq_internal",
        "ALTER SCHEMA agentq RENAME TO other",
        "ALTER SCHEMA agentq OWNER TO CURRENT_USER",
        "COMMENT ON SCHEMA agentq IS ''",
        "CREATE TABLE agentq.mine ()",
        "CREATE VIEW agentq.mine AS SELECT 1",
        "CREATE SEQUENCE agentq.mine",
        "CREATE TYPE agentq.mine AS (x int)",
        "CREATE OPERATOR agentq.= (FUNCTION = pg_catalog.int4eq, LEFTARG = int, RIGHTARG = int)",
        "CREATE FUNCTION agentq.fn_mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE FUNCTION agentq.fn_version() RETURNS text LANGUAGE sql AS $$ SELECT 'mine' $$",
        "ALTER FUNCTION own.spring() SET SCHEMA agentq",
        "ALTER TABLE own.plain SET SCHEMA agentq",
        "ALTER FUNCTION agentq.fn_job_claim RESET search_path",
        "ALTER FUNCTION agentq.fn_config_set RESET ALL",
        "ALTER FUNCTION agentq.fn_config_set SECURITY INVOKER",
        "ALTER FUNCTION agentq.fn_config_set OWNER TO CURRENT_USER",
        "ALTER FUNCTION agentq.fn_config_set RENAME TO other",
        "ALTER FUNCTION agentq.fn_config_set DEPENDS ON EXTENSION plpgsql",
        "COMMENT ON FUNCTION agentq.fn_version() IS ''",
        "DROP FUNCTION agentq.fn_version()",
        "ALTER DOMAIN agentq_internal.job_payload DROP CONSTRAINT job_payload_check",
        "ALTER DOMAIN agentq_internal.job_name OWNER TO CURRENT_USER",
        "DROP DOMAIN agentq_internal.job_name CASCADE",
        "CREATE CAST (agentq.job_queue AS json) WITH INOUT AS IMPLICIT",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_read_file('postgresql.conf')",
        "SELECT * FROM pg_shmem_allocations",
        "SELECT * FROM pg_authid",
        "VACUUM agentq_internal.job",
        "ANALYZE agentq_internal.job_lease",
        "SELECT pg_extension_config_dump('agentq.queue', '')",
    ] {
        let error = s.0.simple_query(statement).err();
        let code = error.as_ref().and_then(|error| error.code().map(|code| code.code().to_owned()));
        // The last one is for scripts of extensions only, whoever calls it.
        let fits = ["42501"].contains(&code.as_deref().unwrap_or_default())
            || (statement.contains("config_dump") && code.as_deref() == Some("0A000"));
        assert!(fits, "{statement}: {error:?}");
    }
    // PostgreSQL only warns of these, and then does nothing.
    let mut owner = db.session();
    let rights = "SELECT md5(string_agg(p.oid::text || coalesce(proacl::text, ''), '' ORDER BY p.oid)) FROM pg_proc p
                  WHERE pronamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace)";
    let before = owner.text(rights);
    s.run("GRANT ALL ON FUNCTION agentq.fn_job_claim, agentq.fn_config_set TO PUBLIC");
    s.run("REVOKE ALL ON FUNCTION agentq.fn_job_claim FROM postgres");
    s.run("VACUUM agentq.job_dead_letter");
    s.run("ANALYZE agentq.queue_heartbeat");
    assert_eq!(owner.text(rights), before);
    let give = format!("GRANT ALL ON agentq_internal.job TO \"{role}\"");
    assert_eq!(s.fails(&give).code, "42501");
}

#[test]
fn settings_are_the_servers_and_only_a_superuser_moves_the_clock() {
    let db = database();
    let (role, mut s) = with_all_levels(&db);
    let mut owner = db.session();
    let known = owner.texts("SELECT name || ': ' || context FROM pg_settings WHERE name LIKE 'agentq.%' ORDER BY name");
    assert_eq!(
        known,
        [
            "agentq.chore_timeout: sighup",
            "agentq.clock_offset: superuser",
            "agentq.engine: sighup",
            "agentq.node: sighup",
            "agentq.sql_workers: sighup"
        ],
        "say in docs/security.md who may set a new one, and try it here"
    );
    for (statement, code) in [
        ("SET agentq.clock_offset = 5".to_owned(), "42501"),
        ("SET LOCAL agentq.clock_offset = 5".to_owned(), "42501"),
        ("SELECT set_config('agentq.clock_offset', '5', false)".to_owned(), "42501"),
        (format!("ALTER ROLE \"{role}\" SET agentq.clock_offset = 5"), "42501"),
        (format!("ALTER DATABASE {} SET agentq.clock_offset = 5", db.name), "42501"),
        (
            "CREATE FUNCTION own.late() RETURNS int LANGUAGE sql SET agentq.clock_offset = 5 AS 'SELECT 1'".to_owned(),
            "42501",
        ),
        ("SET agentq.engine = off".to_owned(), "55P02"),
        ("SET agentq.sql_workers = 16".to_owned(), "55P02"),
        ("SET agentq.node = 5".to_owned(), "55P02"),
        ("SET agentq.chore_timeout = 5".to_owned(), "55P02"),
        ("ALTER SYSTEM SET agentq.engine = off".to_owned(), "42501"),
    ] {
        assert_eq!(s.fails(&statement).code, code, "{statement}");
    }
    for statement in ["SET agentq.engine = off", "SET agentq.sql_workers = 16"] {
        assert_eq!(owner.fails(statement).code, "55P02", "not even for one session: {statement}");
    }
    assert_eq!(s.text("SELECT abs(extract(epoch FROM agentq.fn_clock_now() - clock_timestamp())) < 60"), "t");
}

#[test]
fn a_level_cannot_be_climbed() {
    let db = database();
    let (operator, _) = with_levels(&db, "operator", &["operator"]);
    for level in ["producer", "worker", "reader"] {
        let (role, mut s) = with_levels(&db, level, &[level]);
        for statement in [
            format!("SET ROLE \"{operator}\""),
            format!("SET SESSION AUTHORIZATION \"{operator}\""),
            format!("SELECT set_config('role', '{operator}', false)"),
            format!("GRANT \"{operator}\" TO \"{role}\""),
            format!("SELECT agentq.fn_access_grant('{role}', 'operator')"),
            format!("INSERT INTO agentq.access_grant VALUES ('{role}', 'operator')"),
            "INSERT INTO agentq.access_rule VALUES ('reader', 'SELECT', 'job')".to_owned(),
            format!("SELECT agentq.fn_handler_register('k', 'SELECT 1', '{operator}')"),
            "SELECT agentq.fn_policy_set('auto_approve', '{\"enabled\": true}')".to_owned(),
        ] {
            assert!(!is_let_in(&mut s, &statement), "{level}: {statement}");
        }
    }
}

/// Names that a caller may give are labels. What was done by whom is written down beside them.
#[test]
fn a_name_that_a_caller_gives_is_a_label_and_gives_no_rights() {
    let db = database();
    let (operator, mut op) = with_levels(&db, "operator", &["operator"]);
    let (role, mut producer) = with_levels(&db, "producer", &["producer"]);
    let made = producer.call("fn_job_enqueue('a', p_actor => 'postgres')");
    let id = made["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(producer.call(&format!("fn_job_get('{id}')"))["job"]["actor"], "postgres");
    assert_eq!(producer.fails(&format!("SELECT agentq.fn_job_cancel('{id}')")).code, "42501");
    let template = r#"'{"steps": [{"name": "a", "kind": "a"}]}'"#;
    let create = format!("fn_proposal_create(NULL, 'manual', {template}, '{{\"requested_by\": \"postgres\"}}')");
    let proposal = producer.call(&create)["proposal_id"].as_str().expect("an id").to_owned();
    assert_eq!(op.call(&format!("fn_proposal_approve('{proposal}', 'somebody else')"))["code"], "approved");
    let told =
        "SELECT payload->>'by' || ' ' || (payload->>'role') FROM agentq.event WHERE event_kind = 'proposal.approved'";
    assert_eq!(db.session().text(told), format!("somebody else {operator}"));
    // A role inside another is still who it is.
    db.session().run(&format!("GRANT \"{operator}\" TO \"{role}\""));
    producer.run(&format!("SET ROLE \"{operator}\""));
    producer.call("fn_config_set('queue.lease.duration_sec', '77')");
    let by = db.session().text("SELECT updated_by FROM agentq.config WHERE key = 'queue.lease.duration_sec'");
    assert_eq!(by, role);
}

/// Anybody may write events, so one that looks like a decision is none: the tables say what was decided.
#[test]
fn a_forged_event_decides_nothing() {
    let db = database();
    let (_, mut producer) = with_levels(&db, "producer", &["producer"]);
    let mut owner = db.session();
    let template = r#"'{"steps": [{"name": "a", "kind": "a"}]}'"#;
    let proposal = producer.call(&format!("fn_proposal_create(NULL, 'api', {template})"));
    let proposal = proposal["proposal_id"].as_str().expect("an id").to_owned();
    for kind in ["proposal.approved", "policy.changed", "mission.succeeded", "job.succeeded"] {
        let emit = format!(
            "fn_event_emit('{kind}', '{proposal}', '{{\"status\": \"approved\"}}', '{{\"purpose\": \"audit\"}}')"
        );
        assert_eq!(producer.call(&emit)["code"], "emitted");
    }
    assert_eq!(owner.call("fn_engine_tick()")["failed"], 0);
    assert_eq!(owner.call("fn_ops_tick()")["ok"], true);
    assert_eq!(owner.text("SELECT status FROM agentq.v_proposal"), "pending");
    assert_eq!(owner.count("agentq.policy_version"), 0);
    assert_eq!(owner.count("agentq.mission"), 0);
}

/// The end of a job is told to parts of agentq alone, and no caller can choose which, or forge one.
#[test]
fn a_caller_cannot_say_who_is_told_of_the_end_of_a_job() {
    let db = database();
    let (_, mut s) = with_levels(&db, "operator", &["operator", "producer"]);
    let job = s.enqueue("a");
    for call in [
        r#"fn_job_enqueue('a', p_options => '{"on_end": "mission:x"}')"#.to_owned(),
        r#"fn_schedule_set('s', '@daily', '{"job_kind": "a", "on_end": "mission:x"}')"#.to_owned(),
        format!(r#"fn_job_change('{job}', '{{"on_end": "mission:x"}}')"#),
    ] {
        assert_eq!(s.fails(&format!("SELECT agentq.{call}")).code, "22023", "{call}");
    }
    let batch = s.call(r#"fn_job_enqueue_batch('[{"job_kind": "a", "on_end": "mission:x"}]')"#);
    assert_eq!(batch["created"], 0, "{batch}");
    assert_eq!(s.fails("UPDATE agentq.job_queue SET on_end = 'mission:x'").code, "42703");
    assert_eq!(db.session().count("agentq_internal.job WHERE on_end IS NOT NULL"), 0);
}
