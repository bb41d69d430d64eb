//! Names with quotes, newlines and letters from everywhere, given to queues, kinds, owners, keys, roles and databases.
//! They are data: stored as they are, and never part of a statement.

use crate::judge;
use agentq_tests::{Cluster, Options, Session, database, eventually_or, json};
use postgres::NoTls;

const NAMES: [&str; 9] = [
    "postgres\"; DROP SCHEMA agentq CASCADE; --",
    "o'brien",
    "back\\slash\\'",
    "$$ $1 $a$",
    "two\nlines\r\n\tand a tab",
    "\u{202e}right to left\u{200f} שלום",
    "\u{1f980}\u{10ffff} e\u{301}",
    "%s %I %L {} :a ::text",
    "a.b,c|d:e*",
];

/// A session of any role in any database.
fn session(cluster: &Cluster, database: &str, role: &str) -> Session {
    let mut config = postgres::Config::new();
    config.host("127.0.0.1").port(cluster.port).user(role).dbname(database);
    Session(config.connect(NoTls).expect("the server accepts"))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[test]
fn a_name_is_stored_as_it_is_whatever_is_in_it() {
    let db = database();
    let mut s = db.session();
    for name in NAMES {
        assert_eq!(s.json("SELECT agentq.fn_queue_set($1)->'ok'", &[&name]), json!(true), "{name}");
        let enqueued = s.json(
            "SELECT agentq.fn_job_enqueue($1, $1, $1, p_source_ref => $1, p_target_ref => $1, p_payload_ref => $1,
                p_payload_json => jsonb_build_object($1::text, $1::text), p_options => jsonb_build_object('queue', $1::text,
                'ordering_key', $1::text))",
            &[&name],
        );
        assert_eq!(enqueued["code"], json!("enqueued"), "{name}: {enqueued}");
        let again = s.json("SELECT agentq.fn_job_enqueue('x', $1)->'job_id'", &[&name]);
        assert_eq!(again, enqueued["job_id"], "{name}");
        let claim = s.json(
            "SELECT agentq.fn_job_claim($1, $1, p_options => jsonb_build_object('queues', jsonb_build_array($1::text)))",
            &[&name],
        );
        assert_eq!((&claim["code"], &claim["job_kind"]), (&json!("claimed"), &json!(name)), "{claim}");
        assert_eq!(claim["payload_json"], json!({name: name}), "{claim}");
        let job = claim["job_id"].as_str().expect("an id").to_owned();
        let as_it_is = "SELECT to_jsonb(job_kind = $1 AND idempotency_key = $1 AND actor = $1 AND source_ref = $1 AND
            lease_owner = $1 AND queue = $1) FROM agentq.job_queue WHERE job_id = ($2::text)::uuid";
        assert_eq!(s.json(as_it_is, &[&name, &job]), json!(true), "{name}");
        let finish = "SELECT agentq.fn_job_fail_or_retry(($2::text)::uuid, $1, $1, $1)->'ok'";
        assert_eq!(s.json(finish, &[&name, &job]), json!(true), "{name}");
        for call in [
            "fn_action_begin($1, $1, NULL, $1)",
            "fn_signal_send($1, $1, jsonb_build_object($1::text, 1))",
            "fn_event_emit($1, $1, jsonb_build_object($1::text, 1), jsonb_build_object('tags', jsonb_build_array($1::text)))",
            "fn_error_class_set($1, true, $1)",
            "fn_retry_policy_set('kind', $1, '{\"max_attempts\": 3}')",
            "fn_schedule_set($1, '@daily', jsonb_build_object('job_kind', $1::text))",
            "fn_queue_heartbeat_tick($1, 'Agent')",
            "fn_policy_set($1, '{}', $1)",
            "fn_queue_pause($1, $1)",
            "fn_backpressure_status($1)",
            "fn_mission_start(jsonb_build_object('title', $1::text, 'steps', jsonb_build_array(
                jsonb_build_object('name', $1::text, 'kind', $1::text, 'description', $1::text))))",
        ] {
            match s.0.query(&format!("SELECT agentq.{call}"), &[&name]) {
                Ok(_) => {}
                Err(error) => {
                    let error = error.as_db_error().unwrap_or_else(|| panic!("the session has ended: {error}\n{call}"));
                    assert_eq!(error.code().code(), "22023", "{call} with {name}: {}", judge::told(error));
                }
            }
        }
        let drawn = s.texts(
            "SELECT agentq.fn_mission_graph(mission_id, f) FROM (SELECT mission_id FROM agentq.mission ORDER BY created_at DESC
            LIMIT 1) m, unnest(ARRAY['mermaid', 'graphviz']) f",
        );
        assert!(drawn.iter().all(|text| !text.is_empty()), "{drawn:?}");
    }
    s.run("SELECT agentq.fn_engine_tick()");
    assert_eq!(s.count("agentq.queue"), NAMES.len() as i64 + 1);
    db.assert_sound();
}

#[test]
fn a_role_with_any_name_gets_its_level_and_loses_it_again() {
    let db = database();
    let mut s = db.session();
    for name in NAMES {
        let role = format!("level {name}");
        s.run(&format!("CREATE ROLE {} LOGIN", quoted(&role)));
        s.json("SELECT agentq.fn_access_grant($1, 'operator')", &[&role]);
        let mut theirs = session(db.cluster, &db.name, &role);
        theirs.enqueue("x");
        let claim = theirs.json("SELECT agentq.fn_job_claim($1)", &[&role]);
        assert_eq!(claim["code"], json!("claimed"), "{role}: {claim}");
        let registered = theirs.json("SELECT agentq.fn_handler_register($1, 'SELECT 1')", &[&role]);
        assert_eq!(registered["ok"], json!(true), "{role}: {registered}");
        let stored = s.json("SELECT to_jsonb(h) FROM agentq.job_handler h WHERE job_kind = $1", &[&role]);
        assert_eq!(stored["role_name"].as_str().or(stored["role"].as_str()), Some(role.as_str()), "{stored}");
        s.json("SELECT agentq.fn_handler_remove($1)", &[&role]);
        s.json("SELECT agentq.fn_access_revoke($1, 'operator')", &[&role]);
        assert_eq!(theirs.fails("SELECT agentq.fn_job_enqueue('x')").code, "42501", "{role}");
        drop(theirs);
        s.run(&format!("DROP ROLE {}", quoted(&role)));
    }
    for unknown in NAMES {
        for call in ["fn_access_grant($1, 'worker')", "fn_handler_register('x', 'SELECT 1', $1)"] {
            let error = s.0.query(&format!("SELECT agentq.{call}"), &[&unknown]).expect_err("there is no such role");
            let error = error.as_db_error().expect("the session goes on");
            assert_eq!(error.code().code(), "42704", "{call}: {error:?}");
        }
    }
    assert_eq!(s.count("pg_namespace WHERE nspname LIKE 'agentq%'"), 2);
}

#[test]
fn the_engine_works_in_a_database_with_any_name() {
    let settings = vec!["max_worker_processes = 60".to_owned(), "agentq.sql_workers = 1".to_owned()];
    let cluster = Cluster::start("odd-names", &Options { engine: true, settings, ..Options::default() });
    let databases = ["pos\"tgres\"; DROP", "o'b=\\' dbname=postgres", "new\nline %s", "\u{1f980} größe"];
    let mut sessions = Vec::new();
    for name in databases {
        cluster.session("postgres").run(&format!("CREATE DATABASE {}", quoted(name)));
        let mut s = session(&cluster, name, "postgres");
        s.run("CREATE EXTENSION agentq");
        let role = format!("runs {name}");
        s.run(&format!("CREATE ROLE {}", quoted(&role)));
        s.json("SELECT agentq.fn_handler_register('sum', 'SELECT 1', $1)", &[&role]);
        let job = s.enqueue("sum");
        sessions.push((s, name, job));
    }
    for (s, name, job) in &mut sessions {
        let status = || {
            let mut s = session(&cluster, name, "postgres");
            format!("the job is {}: {:?}", s.state(job), s.texts("SELECT v::text FROM agentq.v_engine_status v"))
        };
        eventually_or(&format!("the job in {name} is done"), || s.state(job) == "succeeded", status);
    }
    // The engine lets go of it, as of any other.
    drop(sessions);
    for name in databases {
        cluster.session("postgres").run(&format!("DROP DATABASE {}", quoted(name)));
    }
    judge::assert_calm(&cluster);
}
