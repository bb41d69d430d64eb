//! Two servers of different major versions: an upgrade from one to the other, and a history that goes from one to the other.
//! Where the environment names no older server, both are of one version.

mod history;
mod upgrade;

use agentq_tests::{Options, Session, old_pg_bin};

/// A server from which people upgrade.
fn old(settings: &[&str]) -> Options {
    let settings = settings.iter().map(|line| (*line).to_owned()).collect();
    Options { programs: Some(old_pg_bin()), settings, engine: true, checksums: true, ..Options::default() }
}

/// A server of the version under test.
fn new() -> Options {
    Options { engine: true, checksums: true, ..Options::default() }
}

/// Each row of a relation, as text.
fn rows(s: &mut Session, relation: &str) -> Vec<String> {
    s.texts(&format!("SELECT to_jsonb(r)::text FROM {relation} r ORDER BY to_jsonb(r)::text"))
}
