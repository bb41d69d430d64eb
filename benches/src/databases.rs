//! The prepared databases that measurements start from. Each is made when it is first needed, and
//! only copied from then on, so that no system inherits what an earlier measurement left behind.

use crate::Failure;
use crate::cluster::Cluster;
use crate::pgbench::{Length, Pgbench};
use crate::systems::{ENQUEUE_BATCH, System};
use std::cell::RefCell;
use std::collections::HashSet;

/// Jobs that lie in a prepared database before the workloads that bring their own, so that every
/// plan is made for a table that has statistics.
const FEW: u32 = 1_000;

/// Which databases there are already.
#[derive(Default)]
pub struct Databases {
    made: RefCell<HashSet<String>>,
}

impl Databases {
    /// Makes the database with the system's schema and a few jobs, unless it is there.
    pub fn few(&self, cluster: &Cluster, system: &System) -> Result<String, Failure> {
        let name = system.name.clone();
        self.once(&name, || {
            cluster.create_database(&name)?;
            system.install(cluster, &name)?;
            fill(cluster, system, &name, FEW)?;
            cluster.seal_database(&name)
        })?;
        Ok(name)
    }

    /// Makes the database with a backlog that outlasts measurements of so many seconds, unless it is
    /// there.
    pub fn backlog(&self, cluster: &Cluster, system: &System, seconds: u32) -> Result<String, Failure> {
        let few = self.few(cluster, system)?;
        let name = format!("{few}, backlog");
        self.once(&name, || {
            cluster.copy_database(&few, &name)?;
            fill(cluster, system, &name, system.backlog_per_second * seconds)?;
            cluster.seal_database(&name)
        })?;
        Ok(name)
    }

    /// Makes a database, unless it is there.
    pub fn once(&self, name: &str, make: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.made.borrow().contains(name) {
            make()?;
            self.made.borrow_mut().insert(name.to_owned());
        }
        Ok(())
    }
}

/// Enqueues jobs as any client would: in batches, if the system knows batches.
fn fill(cluster: &Cluster, system: &System, database: &str, jobs: u32) -> Result<(), Failure> {
    let (script, per_call, clients) = match (&system.scripts.batch_enqueue, &system.scripts.enqueue) {
        (Some(script), _) => (script, ENQUEUE_BATCH, 2),
        (None, Some(script)) => (script, 1, 8),
        (None, None) => return Err(format!("{} cannot enqueue", system.name).into()),
    };
    let length = Length::Transactions((jobs / per_call / clients).max(1));
    Pgbench { database, ..Pgbench::new(script, clients, length) }.run(cluster)?;
    Ok(())
}
