//! The peers: other people's queues, each in a folder `peers/<name>/` with
//!
//! - `setup`, a program that installs the package and makes its schema in the database that PGHOST,
//!   PGUSER and PGDATABASE name, keeping what it downloads in AGENTQ_PEERS_DIR;
//! - `version`, one line;
//! - `enqueue.sql`, `batch_enqueue.sql`, `claim_ack.sql`, `batch_claim_ack.sql`, of which any may be
//!   missing;
//! - `count.sql`, a statement that answers with two numbers: ever enqueued, and finished.

use super::{Role, Schema, Scripts, System};
use crate::Failure;
use crate::cluster::{Cluster, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Longest time that an installation may take, in seconds.
const PATIENCE: &str = "1200";

/// A peer, or the name of its folder and what is wrong with it.
pub type Found = Result<System, (String, Failure)>;

/// Finds every peer there is. `packages` is where they keep what they download.
pub fn find(packages: &Path) -> Result<Vec<Found>, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let entries = fs::read_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let mut folders: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    fs::create_dir_all(packages)?;
    let packages = fs::canonicalize(packages)?;
    Ok(folders.iter().map(|folder| read(folder, &packages).map_err(|failure| (name(folder), failure))).collect())
}

/// Runs the installation of a peer, as whoever runs the benchmark.
pub fn install(setup: &Path, packages: &Path, cluster: &Cluster, database: &str) -> Result<(), Failure> {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).arg(setup);
    command.env("PGHOST", cluster.socket_dir()).env("PGUSER", "postgres").env("PGDATABASE", database);
    run(command.env("AGENTQ_PEERS_DIR", packages))?;
    Ok(())
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(folder: &Path, packages: &Path) -> Result<System, Failure> {
    let file = |name: &str| match fs::read_to_string(folder.join(name)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    Ok(System {
        name: name(folder),
        version: file("version")?.ok_or("it has no version")?.trim().to_owned(),
        role: Role::Peer,
        scripts: Scripts {
            enqueue: file("enqueue.sql")?,
            batch_enqueue: file("batch_enqueue.sql")?,
            claim_ack: file("claim_ack.sql")?,
            batch_claim_ack: file("batch_claim_ack.sql")?,
            ..Scripts::default()
        },
        schema: Schema::Setup { program: folder.join("setup"), packages: packages.to_owned() },
        backlog_per_second: 80_000,
        count: file("count.sql")?.ok_or("it has no count.sql")?,
    })
}
