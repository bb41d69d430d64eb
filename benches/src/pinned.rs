//! The mixed workload while another session keeps a snapshot from before it began: what a forgotten
//! open transaction does to a queue. Vacuum runs, but may not remove what that snapshot could see.

use crate::Failure;
use crate::cluster::{Cluster, RUN};
use crate::options::Options;
use crate::systems::System;
use crate::workloads::Workload;

pub const NAME: &str = "mixed, pinned snapshot";

/// Jobs per second, window by window.
pub struct Pinned {
    pub windows: Vec<f64>,
}

impl Pinned {
    /// The last window as a share of the first.
    pub fn kept(&self) -> f64 {
        match self.windows.as_slice() {
            [first, .., last] => last / first,
            _ => f64::NAN,
        }
    }

    /// Runs the workload. The snapshot is held in the same database: one elsewhere would not keep
    /// vacuum from this one.
    pub fn measure(cluster: &Cluster, system: System, options: &Options) -> Result<Pinned, Failure> {
        cluster.copy_database(&system.few(), RUN)?;
        let mut holder = cluster.client(RUN)?;
        let mut snapshot = holder.build_transaction();
        snapshot = snapshot.isolation_level(postgres::IsolationLevel::RepeatableRead);
        let mut snapshot = snapshot.start()?;
        snapshot.query_one("SELECT count(*) FROM pg_class", &[])?;
        // One second more, because pgbench may end before it has reported the last one.
        let speed = Workload::Mixed.load(cluster, system, options.pinned_seconds + 1)?;
        snapshot.rollback()?;
        let window = options.window as usize;
        let windows = speed.each_second[..options.pinned_seconds as usize].chunks(window);
        // A run whose claims found nothing must not pass for a fast one.
        let average = |seconds: &[f64]| seconds.iter().sum::<f64>() / seconds.len() as f64 * speed.found;
        Ok(Pinned { windows: windows.map(average).collect() })
    }
}
