//! Bytes of WAL that a whole job life costs: enqueue, claim and ack, each in its own transaction.

use crate::cluster::{Cluster, RUN};
use crate::pgbench::{Length, Pgbench};
use crate::progress::Task;
use crate::results::Results;
use crate::systems::{Role, System};
use crate::workloads::Step;
use crate::{Bench, Failure};
use std::rc::Rc;

pub const NAME: &str = "wal";

/// Bytes per life.
#[derive(Clone, Copy)]
pub struct Wal {
    /// Right after a checkpoint, with the full-page images of every page touched first.
    pub after_checkpoint: f64,
    /// The same again without a checkpoint: the pages in use have their images behind them.
    pub between_checkpoints: f64,
}

pub fn tasks(bench: &Bench) -> Vec<Task> {
    let jobs = if bench.options.is_full() { 10_000 } else { 2_000 };
    let able = bench.systems.iter().filter(|system| Step::Mixed.script(system).is_some());
    able.map(|system| task(Rc::clone(system), jobs)).collect()
}

fn task(system: Rc<System>, jobs: u32) -> Task {
    Task {
        name: NAME.to_owned(),
        title: format!("{:<38}{:<16}", "WAL of a job's life", system.name),
        seconds: f64::from(jobs) / 1_000.0,
        of_peer: system.role == Role::Peer,
        run: Box::new(move |bench, results: &mut Results| {
            let wal = measure(bench, &system, jobs)?;
            results.wal.push((system.name.clone(), wal));
            Ok(format!("{:.0} bytes, {:.0} between checkpoints", wal.after_checkpoint, wal.between_checkpoints))
        }),
    }
}

/// Measures on a small queue, where random keys cost least: the figures of a large one differ more.
fn measure(bench: &Bench, system: &System, jobs: u32) -> Result<Wal, Failure> {
    let few = bench.databases.few(&bench.cluster, system)?;
    bench.cluster.copy_database(&few, RUN)?;
    let script = Step::Mixed.script(system).ok_or("it cannot do this")?;
    Ok(Wal {
        after_checkpoint: bytes_per_life(&bench.cluster, &script, jobs)?,
        between_checkpoints: bytes_per_life(&bench.cluster, &script, jobs)?,
    })
}

fn bytes_per_life(cluster: &Cluster, script: &str, jobs: u32) -> Result<f64, Failure> {
    let before = cluster.wal_position()?;
    Pgbench::new(script, 1, Length::Transactions(jobs)).run(cluster)?;
    Ok((cluster.wal_position()? - before) as f64 / f64::from(jobs))
}
