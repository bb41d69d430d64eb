//! The three queues that are compared, and how each is spoken to. All of their SQL is in
//! `yardsticks/` (schemas) and `scripts/` (what pgbench sends).

use crate::Failure;
use crate::cluster::Cluster;
use crate::pgbench::{Length, Pgbench};

/// Jobs in one call of the batch enqueue scripts, and in one of the batch claim scripts.
pub const ENQUEUE_BATCH: u32 = 100;
pub const CLAIM_BATCH: u32 = 50;

/// Jobs that lie in a prepared database before the workloads that bring their own, so that every
/// plan is made for a table that has statistics.
const FEW: u32 = 1_000;

/// A job queue to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Agentq,
    Naive,
    Textbook,
}

pub const ALL: [System; 3] = [System::Agentq, System::Naive, System::Textbook];

/// What pgbench sends.
pub struct Scripts {
    pub enqueue: &'static str,
    pub batch_enqueue: &'static str,
    pub claim_ack: &'static str,
    pub batch_claim_ack: &'static str,
}

macro_rules! scripts {
    ($system:literal) => {
        Scripts {
            enqueue: include_str!(concat!("../scripts/", $system, "/enqueue.sql")),
            batch_enqueue: include_str!(concat!("../scripts/", $system, "/batch_enqueue.sql")),
            claim_ack: include_str!(concat!("../scripts/", $system, "/claim_ack.sql")),
            batch_claim_ack: include_str!(concat!("../scripts/", $system, "/batch_claim_ack.sql")),
        }
    };
}

/// How many jobs there are, and how many of them are finished.
#[derive(Clone, Copy)]
pub struct Count {
    pub all: i64,
    pub finished: i64,
}

impl System {
    /// Its name, and that of the database that holds its schema.
    pub fn name(self) -> &'static str {
        match self {
            System::Agentq => "agentq",
            System::Naive => "naive",
            System::Textbook => "textbook",
        }
    }

    pub fn scripts(self) -> Scripts {
        match self {
            System::Agentq => scripts!("agentq"),
            System::Naive => scripts!("naive"),
            System::Textbook => scripts!("textbook"),
        }
    }

    fn schema(self) -> &'static str {
        match self {
            System::Agentq => "CREATE EXTENSION agentq",
            System::Naive => include_str!("../yardsticks/naive/schema.sql"),
            System::Textbook => include_str!("../yardsticks/textbook/schema.sql"),
        }
    }

    fn count_sql(self) -> &'static str {
        match self {
            System::Agentq => "SELECT count(*), count(*) FILTER (WHERE state = 'succeeded') FROM agentq.job_queue",
            System::Naive => "SELECT count(*), count(*) FILTER (WHERE state = 'succeeded') FROM job_queue",
            System::Textbook => "SELECT count(*), count(*) FILTER (WHERE state = 'done') FROM jobs",
        }
    }

    /// The prepared database with a few jobs.
    pub fn few(self) -> String {
        self.name().to_owned()
    }

    /// The prepared database with a backlog for the workloads that only claim.
    pub fn backlog(self) -> String {
        format!("{}_backlog", self.name())
    }

    /// Makes the database with a few jobs.
    pub fn prepare_few(self, cluster: &Cluster) -> Result<(), Failure> {
        cluster.client("postgres")?.batch_execute(&format!("CREATE DATABASE {}", self.few()))?;
        cluster.client(&self.few())?.batch_execute(self.schema())?;
        self.fill(cluster, &self.few(), FEW)
    }

    /// Makes the database with a backlog.
    pub fn prepare_backlog(self, cluster: &Cluster, jobs: u32) -> Result<(), Failure> {
        cluster.copy_database(&self.few(), &self.backlog())?;
        self.fill(cluster, &self.backlog(), jobs)
    }

    /// Enqueues jobs as any client would.
    fn fill(self, cluster: &Cluster, database: &str, jobs: u32) -> Result<(), Failure> {
        let clients = 2;
        Pgbench {
            database,
            script: self.scripts().batch_enqueue,
            clients,
            length: Length::Transactions(jobs / ENQUEUE_BATCH / clients),
        }
        .run(cluster)?;
        cluster.client(database)?.batch_execute("VACUUM ANALYZE")?;
        Ok(())
    }

    /// Counts the jobs of a database.
    pub fn count(self, cluster: &Cluster, database: &str) -> Result<Count, Failure> {
        let row = cluster.client(database)?.query_one(self.count_sql(), &[])?;
        Ok(Count { all: row.get(0), finished: row.get(1) })
    }
}
