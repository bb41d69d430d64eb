//! What is looked at, twice a second.

use crate::Failure;
use postgres::Client;
use std::path::Path;

/// One process of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Megabytes of its own: what it shares with others is not counted.
    pub memory: f64,
    pub files: f64,
}

impl Process {
    fn of(pid: i32) -> Option<Process> {
        let folder = Path::new("/proc").join(pid.to_string());
        let status = std::fs::read_to_string(folder.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        let files = std::fs::read_dir(folder.join("fd")).ok()?.count() as f64;
        Some(Process { memory: kilobytes / 1000.0, files })
    }
}

#[derive(Clone, Debug)]
pub struct Sample {
    /// How many have passed.
    pub jobs: f64,
    /// The largest of the load's sessions.
    pub session: Process,
    pub engine: Process,
    /// Of all tables and indexes, for each job that is there: unfinished, or finished and still kept.
    pub bytes_per_job: f64,
    pub dead_per_job: f64,
}

pub struct Sampler(Client);

impl Sampler {
    pub fn new(client: Client) -> Sampler {
        Sampler(client)
    }

    /// None when there is nothing to look at yet.
    pub fn sample(&mut self, passed: u64) -> Result<Option<Sample>, Failure> {
        let pids = self.0.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'soak'", &[])?;
        let sessions: Vec<Process> = pids.iter().filter_map(|row| Process::of(row.get(0))).collect();
        let engine: Option<i32> = self.0.query_one("SELECT worker_pid FROM agentq.v_engine_status", &[])?.get(0);
        let row = self.0.query_one(
            "SELECT (SELECT count(*) FROM agentq_internal.job)::float8,
                    sum(pg_total_relation_size(c.oid))::float8, coalesce(sum(s.n_dead_tup), 0)::float8
             FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
             WHERE c.relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND c.relkind = 'r' AND c.relname LIKE 'job%'",
            &[],
        )?;
        let (jobs, bytes, dead): (f64, f64, f64) = (row.get(0), row.get(1), row.get(2));
        let Some(engine) = engine.and_then(Process::of).filter(|_| !sessions.is_empty() && jobs > 0.0) else {
            return Ok(None);
        };
        let most = |of: fn(&Process) -> f64| sessions.iter().map(of).fold(0.0, f64::max);
        let session = Process { memory: most(|p| p.memory), files: most(|p| p.files) };
        Ok(Some(Sample {
            jobs: passed as f64,
            session,
            engine,
            bytes_per_job: bytes / jobs,
            dead_per_job: dead / jobs,
        }))
    }
}
