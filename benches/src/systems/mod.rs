//! The queues that are compared: agentq, the yardsticks and the peers. A system is data: a schema,
//! the scripts that pgbench sends, and a statement that counts.

mod peers;
mod yardsticks;

pub use peers::find as find_peers;
pub use yardsticks::own;

use crate::Failure;
use crate::cluster::Cluster;
use std::path::PathBuf;

/// Jobs in one call of the batch enqueue scripts, and in one of the batch claim scripts.
pub const ENQUEUE_BATCH: u32 = 100;
pub const CLAIM_BATCH: u32 = 50;

pub const AGENTQ: &str = "agentq";
pub const NAIVE: &str = "naive";
pub const TEXTBOOK: &str = "textbook";
pub const LIMIT: &str = "limit";

/// What a system is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Agentq,
    /// A queue written for this comparison.
    Yardstick,
    /// Bare statements: no queue, but what no queue can beat.
    Limit,
    /// Somebody else's queue.
    Peer,
}

/// What pgbench sends; None: the system has no such thing.
#[derive(Default)]
pub struct Scripts {
    pub enqueue: Option<String>,
    pub batch_enqueue: Option<String>,
    pub claim_ack: Option<String>,
    pub batch_claim_ack: Option<String>,
    pub ack_and_claim: Option<String>,
    pub batch_ack_and_claim: Option<String>,
}

/// How a system comes into an empty database.
pub enum Schema {
    Sql(&'static str),
    /// A program that installs it, and where it keeps what it downloads.
    Setup {
        program: PathBuf,
        packages: PathBuf,
    },
}

/// Something to measure.
pub struct System {
    pub name: String,
    /// Name and version of the package that it comes from.
    pub version: String,
    pub role: Role,
    pub scripts: Scripts,
    pub schema: Schema,
    /// Backlog for the workloads that only claim, per second of a measurement: more than the system
    /// can take.
    pub backlog_per_second: u32,
    /// Answers with two numbers: jobs ever enqueued, and those of them that are finished.
    pub count: String,
}

/// How many jobs there have been, and how many of them are finished.
#[derive(Clone, Copy)]
pub struct Count {
    pub all: i64,
    pub finished: i64,
}

impl System {
    pub fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// Whether it hands out single jobs. A log that is read in batches has other promises, and a
    /// comparison with it would say little.
    pub fn is_job_queue(&self) -> bool {
        self.role != Role::Limit && self.scripts.claim_ack.is_some()
    }

    /// Makes its schema in an empty database.
    pub fn install(&self, cluster: &Cluster, database: &str) -> Result<(), Failure> {
        match &self.schema {
            Schema::Sql(text) => Ok(cluster.client(database)?.batch_execute(text)?),
            Schema::Setup { program, packages } => peers::install(program, packages, cluster, database),
        }
    }

    /// Counts the jobs of a database.
    pub fn count(&self, cluster: &Cluster, database: &str) -> Result<Count, Failure> {
        let row = cluster.client(database)?.query_one(self.count.as_str(), &[])?;
        Ok(Count { all: row.get(0), finished: row.get(1) })
    }
}
