//! Bytes of WAL that a whole job life costs: enqueue, claim and ack, each in its own transaction.

use crate::Failure;
use crate::cluster::{Cluster, RUN};
use crate::pgbench::{Length, Pgbench};
use crate::systems::System;
use crate::workloads::Workload;

/// Bytes per life.
#[derive(Clone, Copy)]
pub struct Wal {
    /// Right after a checkpoint, with the full-page images of every page touched first.
    pub after_checkpoint: f64,
    /// The same again without a checkpoint: the pages in use have their images behind them.
    pub between_checkpoints: f64,
}

impl Wal {
    /// Measures on a small queue, where random keys cost least: the figures of a large one differ more.
    pub fn measure(cluster: &Cluster, system: System, jobs: u32) -> Result<Wal, Failure> {
        cluster.copy_database(&system.few(), RUN)?;
        Ok(Wal {
            after_checkpoint: bytes_per_life(cluster, system, jobs)?,
            between_checkpoints: bytes_per_life(cluster, system, jobs)?,
        })
    }
}

fn bytes_per_life(cluster: &Cluster, system: System, jobs: u32) -> Result<f64, Failure> {
    let mut client = cluster.client("postgres")?;
    let mut position = || -> Result<i64, Failure> {
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8";
        Ok(client.query_one(sql, &[])?.get(0))
    };
    let script = Workload::Mixed.script(system);
    let pgbench = Pgbench { database: RUN, script: &script, clients: 1, length: Length::Transactions(jobs) };
    let before = position()?;
    pgbench.run(cluster)?;
    Ok((position()? - before) as f64 / f64::from(jobs))
}
