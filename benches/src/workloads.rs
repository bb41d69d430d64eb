//! The workloads, and how one of them is measured: in a fresh copy of a prepared database, right
//! after a checkpoint, and by counting what was really done.

use crate::Failure;
use crate::cluster::{Cluster, RUN};
use crate::pgbench::{Length, Pgbench};
use crate::systems::{CLAIM_BATCH, ENQUEUE_BATCH, System};

/// Backlog for the workloads that only claim, per second of a measurement: more than any of the
/// systems can take.
pub const BACKLOG_PER_SECOND: u32 = 80_000;

/// Something that people do with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Enqueue,
    ClaimAck,
    BatchEnqueue,
    BatchClaimAck,
    Mixed,
}

pub const ALL: [Workload; 5] =
    [Workload::Enqueue, Workload::ClaimAck, Workload::BatchEnqueue, Workload::BatchClaimAck, Workload::Mixed];

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Enqueue => "enqueue",
            Workload::ClaimAck => "claim+ack",
            Workload::BatchEnqueue => "batch enqueue x100",
            Workload::BatchClaimAck => "batch claim+ack x50",
            Workload::Mixed => "mixed",
        }
    }

    pub fn clients(self) -> u32 {
        if self == Workload::Mixed { 8 } else { 4 }
    }

    pub fn claims_only(self) -> bool {
        matches!(self, Workload::ClaimAck | Workload::BatchClaimAck)
    }

    fn enqueues_only(self) -> bool {
        matches!(self, Workload::Enqueue | Workload::BatchEnqueue)
    }

    /// Jobs in one run of the script, if every claim finds what it asks for.
    fn jobs(self) -> u32 {
        match self {
            Workload::BatchEnqueue => ENQUEUE_BATCH,
            Workload::BatchClaimAck => CLAIM_BATCH,
            _ => 1,
        }
    }

    pub fn script(self, system: System) -> String {
        let scripts = system.scripts();
        match self {
            Workload::Enqueue => scripts.enqueue.to_owned(),
            Workload::ClaimAck => scripts.claim_ack.to_owned(),
            Workload::BatchEnqueue => scripts.batch_enqueue.to_owned(),
            Workload::BatchClaimAck => scripts.batch_claim_ack.to_owned(),
            Workload::Mixed => format!("{}{}", scripts.enqueue, scripts.claim_ack),
        }
    }

    fn database(self, system: System) -> String {
        if self.claims_only() { system.backlog() } else { system.few() }
    }

    /// Runs the workload and returns what it reached.
    pub fn measure(self, cluster: &Cluster, system: System, seconds: u32) -> Result<Speed, Failure> {
        cluster.copy_database(&self.database(system), RUN)?;
        self.load(cluster, system, seconds)
    }

    /// Runs the workload on the database as it is.
    pub fn load(self, cluster: &Cluster, system: System, seconds: u32) -> Result<Speed, Failure> {
        let before = system.count(cluster, RUN)?;
        let pgbench = Pgbench {
            database: RUN,
            script: &self.script(system),
            clients: self.clients(),
            length: Length::Seconds(seconds),
        };
        let cpu_before = cluster.cpu_of_sessions()?;
        let outcome = pgbench.run(cluster)?;
        let cpu = cluster.cpu_of_sessions()? - cpu_before;
        let after = system.count(cluster, RUN)?;
        let done = if self.enqueues_only() { after.all - before.all } else { after.finished - before.finished };
        let expected = outcome.transactions as f64 * f64::from(self.jobs());
        let found = done as f64 / expected;
        Ok(Speed {
            jobs_per_second: outcome.tps * f64::from(self.jobs()) * found,
            cpu_per_job: cpu / done as f64,
            found,
            each_second: outcome.each_second,
        })
    }
}

/// What a workload reached.
pub struct Speed {
    /// Jobs that really were enqueued or finished.
    pub jobs_per_second: f64,
    /// Seconds of CPU that the server's sessions took for each.
    pub cpu_per_job: f64,
    /// Those jobs as a share of what the calls asked for: below 1 when claims found nothing.
    pub found: f64,
    /// Runs of the script in every second.
    pub each_second: Vec<f64>,
}
