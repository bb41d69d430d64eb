//! A schema of the version before works with today's library, is upgraded to what a new installation has, and keeps its
//! data; one that is older is refused. Until a second version exists, a step to the next one takes its place.

use crate::catalog::{describe, differences};
use crate::filled::{Filled, assert_works, fill, rows};
use agentq_tests::programs::{must_run, plain_database, program};
use agentq_tests::{CURRENT, Database, Session, Value, next_version, previous_version, project_root, shared_cluster};
use std::collections::BTreeMap;

pub fn installed(version: &str) -> Database<'static> {
    let db = plain_database(shared_cluster());
    db.session().run(&format!("CREATE EXTENSION agentq VERSION '{version}'"));
    db
}

/// The ways that an installation can go: each from one version to the next.
fn ways() -> Vec<(String, String)> {
    let folder = project_root().join("sql/upgrade");
    let names = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an entry").file_name());
    let way = |name: std::ffi::OsString| {
        let (from, to) = name.to_str()?.strip_prefix("agentq--")?.strip_suffix(".sql")?.split_once("--")?;
        Some((from.to_owned(), to.to_owned()))
    };
    let mut ways: Vec<(String, String)> = names.filter_map(way).collect();
    ways.push((CURRENT.to_owned(), next_version().to_owned()));
    ways
}

/// Gives every level to a role of its own, with the same names in all databases.
fn grant_levels(s: &mut Session) {
    for level in ["producer", "worker", "operator", "reader"] {
        let role = format!("upgraded_{level}");
        s.run(&format!(
            "DO $$ BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        ));
        s.call(&format!("fn_access_grant('{role}', '{level}')"));
    }
}

/// Checks that every row is still there, with all that it said. It may say more by now.
fn assert_kept(before: &BTreeMap<&str, Vec<String>>, after: &BTreeMap<&str, Vec<String>>) {
    let parse = |row: &String| -> Value { serde_json::from_str(row).expect("a row is JSON") };
    for (relation, rows) in before {
        let after: Vec<Value> = after[relation].iter().map(parse).collect();
        for row in rows.iter().map(parse) {
            let fields = row.as_object().expect("a row is an object");
            // Tokens are not shown any more.
            let mut fields = fields.iter().filter(|(key, _)| *key != "lease_token");
            let kept = after.iter().any(|found| fields.clone().all(|(key, value)| &found[key] == value));
            assert!(fields.next().is_some());
            assert!(kept, "{relation} has lost {row}");
        }
    }
}

/// What an update script grants counts as part of the extension and is left out of dumps: a role
/// that got a privilege that way would lose it in a restore.
fn assert_survives_a_dump(version: &str, upgraded: &Database<'_>) {
    let restored = plain_database(shared_cluster());
    let dump = must_run(&mut program("pg_dump", upgraded), b"");
    // A restore makes the extension in its default version; this one is to have the version that was dumped.
    let dump = String::from_utf8(dump).expect("a dump is text");
    let (before, create) =
        dump.split_once("CREATE EXTENSION IF NOT EXISTS agentq").expect("the dump makes the extension");
    let (options, after) = create.split_once(';').expect("the end of a statement");
    let dump = format!("{before}CREATE EXTENSION agentq{options} VERSION '{version}';{after}");
    must_run(program("psql", &restored).args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]), dump.as_bytes());
    let differences = differences(&describe(&mut upgraded.session()), &describe(&mut restored.session()));
    assert!(differences.is_empty(), "{version}, dumped and restored (+), has changed:\n{}", differences.join("\n"));
}

/// Compares the schema with that of a new installation in which the same roles have levels.
fn assert_like_new(version: &str, s: &mut Session) {
    let new = installed(version);
    let mut fresh = new.session();
    grant_levels(&mut fresh);
    let differences = differences(&describe(&mut fresh), &describe(s));
    assert!(differences.is_empty(), "upgraded (+), it is not like a new {version} (-):\n{}", differences.join("\n"));
}

/// A session that has seen nothing of the version before.
fn assert_works_anew(s: &mut Session) {
    let job = s.enqueue("after the upgrade");
    let claimed = s.call("fn_job_claim('w', 'after the upgrade')");
    assert_eq!(claimed["job_id"], job.as_str());
    assert_eq!(s.call(&format!("fn_job_ack('{job}', 'w')"))["code"], "succeeded");
}

#[test]
fn an_upgraded_installation_is_like_a_new_one_and_keeps_its_data() {
    for (from, to) in ways() {
        let old = installed(&from);
        let mut s = old.session();
        // Today's library on the schema of then: between the installation of the files and the ALTER
        // EXTENSION, that is what a server runs.
        let filled: Filled = fill(&mut s);
        grant_levels(&mut s);
        let before = rows(&mut s);
        old.session().run(&format!("ALTER EXTENSION agentq UPDATE TO '{to}'"));
        assert_kept(&before, &rows(&mut s));
        assert_like_new(&to, &mut s);
        assert_survives_a_dump(&to, &old);
        assert_works(&mut s, &filled);
        assert_works_anew(&mut old.session());
    }
}

#[test]
fn the_step_to_the_next_version_changes_something() {
    let (old, new) = (installed(CURRENT), installed(next_version()));
    let changed = differences(&describe(&mut old.session()), &describe(&mut new.session()));
    for expected in ["next_thing", "next_note", "next_limit"] {
        assert!(changed.iter().any(|line| line.contains(expected)), "{expected} is not among {changed:#?}");
    }
}

#[test]
fn a_schema_that_this_library_does_not_serve_is_refused() {
    for (version, hint) in [("0.8.0", "a version that serves it"), ("99.0.0", "Install the files of that version")] {
        let db = installed(CURRENT);
        db.session().run(&format!("UPDATE pg_extension SET extversion = '{version}' WHERE extname = 'agentq'"));
        let failure = db.session().fails("SELECT agentq.fn_job_enqueue('mail')");
        assert_eq!(failure.code, "55000", "{failure:?}");
        let served = format!("{} and {CURRENT}", previous_version());
        let message = format!("the schema of agentq here is of version {version}, and this library serves {served}");
        assert!(failure.message.contains(&message), "{failure:?}");
        assert!(failure.hint.contains(hint), "{failure:?}");
    }
}

#[test]
fn a_log_that_the_version_before_has_sealed_is_still_sound_and_nothing_can_be_added_to_it() {
    let db = installed(previous_version());
    let mut s = db.session();
    let id = "0190c1d2-0000-7000-8000-000000000001";
    s.run(&format!(
        r#"SELECT agentq.fn_event_emit('old', 's' || n, '{{"n": 1}}', '{{"correlation_id": "{id}", "trace_id": "t"}}') FROM generate_series(1, 5) n;
           SELECT agentq.fn_engine_tick('keep_partitions')"#
    ));
    assert_eq!(s.call("fn_event_read()")["count"], 5);
    s.run(r#"SELECT agentq.fn_event_emit('old', 'in a partition of its day', p_options => '{"purpose": "audit"}')"#);
    s.call("fn_event_read(5)");
    assert_eq!(s.call("fn_event_verify()")["code"], "sound");
    db.session().run("ALTER EXTENSION agentq UPDATE");
    let mut s = db.session();
    assert_eq!(s.call("fn_event_verify()")["checked"], 6);
    s.run("SELECT agentq.fn_event_emit('new', 's6')");
    s.call("fn_event_read(6)");
    assert_eq!(s.texts("SELECT DISTINCT form::text FROM agentq.event_log ORDER BY 1"), ["1", "2"]);
    assert_eq!(s.call("fn_event_verify()")["code"], "sound");
    let old = s.json("SELECT to_jsonb(e) FROM agentq.event e WHERE subject = 's1'", &[]);
    assert_eq!((&old["correlation_id"], &old["origin"], &old["actor"]), (&id.into(), &Value::Null, &Value::Null));
    // What the first form does not cover must not be there.
    s.run("SET session_replication_role = replica; UPDATE agentq.event SET origin = 'agentq' WHERE subject = 's2'; RESET session_replication_role");
    let found = s.call("fn_event_verify()");
    assert_eq!((&found["code"], &found["fault"], &found["seq"]), (&"broken".into(), &"altered".into(), &2.into()));
}
