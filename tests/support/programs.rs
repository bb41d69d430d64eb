//! Running the server's own programs against a database of the tests.

use crate::cluster::{Cluster, pg_bin};
use crate::database::Database;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A database without the extension. Dropped with the value.
pub fn plain_database(cluster: &Cluster) -> Database<'_> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("plain_{}", NUMBER.fetch_add(1, Ordering::SeqCst));
    cluster.session("postgres").run(&format!("CREATE DATABASE {name} TEMPLATE template0"));
    Database { cluster, name }
}

/// A command with the connection in its environment, and nothing of the caller's own.
pub fn connected(command: &mut Command, db: &Database<'_>) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PG")) {
        command.env_remove(name);
    }
    command
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", db.cluster.port.to_string())
        .env("PGUSER", "postgres")
        .env("PGDATABASE", &db.name);
}

/// A program of the server's, connected to that database.
pub fn program(name: &str, db: &Database<'_>) -> Command {
    let mut command = Command::new(pg_bin(name));
    connected(&mut command, db);
    command
}

/// How a program ended.
pub struct Ended {
    pub ok: bool,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Runs a program with that input and waits for its end.
pub fn run(command: &mut Command, input: &[u8]) -> Ended {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{shown} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("its input is piped");
    // From a thread of its own: the program may fill its output before it has read all the input.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).ok());
        child.wait_with_output().expect("the program ends")
    });
    Ended {
        ok: output.status.success(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs a program that must succeed, and returns what it wrote.
#[track_caller]
pub fn must_run(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let ended = run(command, input);
    assert!(ended.ok, "{command:?} failed:\n{}", ended.stderr);
    ended.stdout
}
