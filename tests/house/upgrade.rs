//! Every released version can be installed, used with today's library, and upgraded to today's
//! schema. sql/install has the schema of each release, frozen when it was made.

use crate::catalog::{describe, differences};
use crate::filled::{Filled, assert_works, fill, rows};
use agentq_tests::programs::{must_run, plain_database, program};
use agentq_tests::{Database, Session, Value, pg_bin, project_root, shared_cluster};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

struct Snapshot {
    version: String,
    path: PathBuf,
}

fn snapshots() -> Vec<Snapshot> {
    let folder = project_root().join("sql/install");
    let mut found: Vec<Snapshot> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let version = name.strip_prefix("agentq--")?.strip_suffix(".sql")?.to_owned();
            // Two dashes more, and it is the way from one version to another.
            (!version.contains("--")).then_some(Snapshot { version, path })
        })
        .collect();
    found.sort_by(|one, other| one.version.cmp(&other.version));
    assert!(!found.is_empty(), "sql/install has no agentq--<version>.sql: freeze the schema of each release there");
    found
}

fn current_version() -> String {
    shared_cluster()
        .session("postgres")
        .text("SELECT default_version FROM pg_available_extensions WHERE name = 'agentq'")
}

/// A snapshot of the current version, installed beside it under a version of its own, because the
/// current version has its name. Gone when dropped.
struct Beside {
    version: String,
    path: PathBuf,
}

impl Beside {
    fn install(snapshot: &Snapshot) -> Beside {
        let shared = must_run(Command::new(pg_bin("pg_config")).arg("--sharedir"), b"");
        let shared = String::from_utf8(shared).expect("a path");
        let version = format!("{}.snapshot.{}", snapshot.version, std::process::id());
        let path = PathBuf::from(shared.trim()).join(format!("extension/agentq--{version}.sql"));
        std::fs::copy(&snapshot.path, &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Beside { version, path }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

fn installed(version: &str) -> Database<'static> {
    let db = plain_database(shared_cluster());
    db.session().run(&format!("CREATE EXTENSION agentq VERSION '{version}'"));
    db
}

/// Gives every level to a role of its own, the same in all databases.
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
            let kept = after.iter().any(|found| fields.iter().all(|(key, value)| &found[key] == value));
            assert!(kept, "{relation} has lost {row}");
        }
    }
}

/// Fills a database of an old version, brings it up to date, and compares it with a new one.
fn assert_upgrades(version: &str) {
    let old = installed(version);
    let mut s = old.session();
    // Today's library on the schema of then: between the installation of the files and the ALTER
    // EXTENSION, that is what a server runs.
    let filled: Filled = fill(&mut s);
    grant_levels(&mut s);
    let before = rows(&mut s);
    old.session().run("ALTER EXTENSION agentq UPDATE");
    assert_kept(&before, &rows(&mut s));
    assert_same_schema(version, &mut s);
    assert_survives_a_dump(version, &old);
    assert_works(&mut s, &filled);
    assert_works_anew(&mut old.session());
}

/// What an update script grants counts as part of the extension and is left out of dumps: a role
/// that got a privilege that way would lose it in a restore.
fn assert_survives_a_dump(version: &str, upgraded: &Database<'_>) {
    let restored = plain_database(shared_cluster());
    let dump = must_run(&mut program("pg_dump", upgraded), b"");
    must_run(program("psql", &restored).args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]), &dump);
    let differences = differences(&describe(&mut upgraded.session()), &describe(&mut restored.session()));
    assert!(differences.is_empty(), "{version}, dumped and restored (+), has changed:\n{}", differences.join("\n"));
}

/// Compares the schema with that of a new installation in which the same roles have levels.
fn assert_same_schema(version: &str, s: &mut Session) {
    let new = installed(&current_version());
    let mut fresh = new.session();
    grant_levels(&mut fresh);
    let differences = differences(&describe(&mut fresh), &describe(s));
    assert!(differences.is_empty(), "{version} (+) is not like a new installation (-):\n{}", differences.join("\n"));
}

/// A session that has seen nothing of the old version.
fn assert_works_anew(s: &mut Session) {
    let job = s.enqueue("after the upgrade");
    let claimed = s.call("fn_job_claim('w', 'after the upgrade')");
    assert_eq!(claimed["job_id"], job.as_str());
    assert_eq!(s.call(&format!("fn_job_ack('{job}', 'w')"))["code"], "succeeded");
}

#[test]
fn every_release_upgrades_to_what_a_new_installation_has() {
    let current = current_version();
    for snapshot in snapshots().iter().filter(|snapshot| snapshot.version != current) {
        assert_upgrades(&snapshot.version);
    }
}

#[test]
fn every_version_in_between_upgrades_too() {
    let folder = project_root().join("sql");
    let names = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let from = names.filter_map(|name| {
        let (from, _) = name.to_str()?.strip_prefix("agentq--")?.strip_suffix(".sql")?.split_once("--")?;
        Some(from.to_owned())
    });
    let mut versions: Vec<String> = from.filter(|version| version != "0.1.0").collect();
    versions.sort();
    assert!(versions.len() > 4, "{versions:?}");
    for version in versions {
        assert_upgrades(&version);
    }
}

#[test]
fn the_snapshot_of_the_current_version_is_what_it_installs() {
    let current = current_version();
    for snapshot in snapshots().iter().filter(|snapshot| snapshot.version == current) {
        let beside = Beside::install(snapshot);
        let db = installed(&beside.version);
        let mut s = db.session();
        grant_levels(&mut s);
        assert_same_schema("the snapshot", &mut s);
        let filled = fill(&mut s);
        assert_works(&mut s, &filled);
    }
}

#[test]
fn events_of_a_former_version_move_into_the_log() {
    let db = installed("0.6.0");
    let mut s = db.session();
    let job = s.enqueue("doomed");
    s.call(&format!("fn_job_move_to_dead_letter('{job}', 'no')"));
    let events =
        "SELECT concat_ws(' ', event_id, event_at, event_kind, subject, payload) FROM agentq.event ORDER BY event_id";
    let before = s.texts(events);
    assert!(!before.is_empty());
    s.run("ALTER EXTENSION agentq UPDATE");
    assert_eq!(s.texts(events), before);
    s.call("fn_engine_tick('seal_events')");
    let read = s.call("fn_event_read(0, 100)");
    assert_eq!(read["events"].as_array().map(Vec::len), Some(before.len()), "{read}");
    assert_eq!(s.call("fn_event_verify()")["code"], "sound");
    // Nothing is left that a dump would stumble over.
    let dangling = "pg_extension, unnest(extconfig) AS c WHERE extname = 'agentq' AND NOT EXISTS (SELECT FROM pg_class WHERE oid = c)";
    assert_eq!(s.count(dangling), 0);
    db.assert_sound();
}
