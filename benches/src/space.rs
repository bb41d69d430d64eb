//! Space: whether tables and indexes stay as large as the jobs they have to hold, while many more
//! jobs pass through. Finished jobs are removed by the engine, and their room is freed by autovacuum
//! at its defaults.
//!
//! The active set is a standing backlog and the finished jobs that are still kept. It is first there
//! when the first finished jobs are due to be removed; every later size is compared with the size at
//! that moment.

use crate::cluster::{Cluster, RUN};
use crate::pgbench::{Length, Pgbench};
use crate::progress::Task;
use crate::results::Results;
use crate::systems::{ENQUEUE_BATCH, System};
use crate::workloads::Step;
use crate::{Bench, Failure, engine, growth, text};
use postgres::Client;
use std::time::{Duration, Instant};

pub const NAME: &str = "space";
const CLIENTS: u32 = 2;

/// What is let through.
struct Plan {
    jobs: u32,
    per_second: u32,
    standing: u32,
    keep_seconds: u32,
    sample_every: Duration,
}

/// What comes out depends on these numbers, so they have to be said with it. Autovacuum looks once a
/// minute, so the room of a minute's jobs, here 240,000, is in use twice before any of it is freed:
/// against a smaller active set, or at a higher pace, the same queue would look worse.
const FULL: Plan = Plan {
    jobs: 1_000_000,
    per_second: 4_000,
    standing: 500_000,
    keep_seconds: 60,
    sample_every: Duration::from_secs(5),
};
/// Too short for autovacuum, which looks once a minute: shows that the measurement works, not more.
const QUICK: Plan =
    Plan { jobs: 50_000, per_second: 5_000, standing: 50_000, keep_seconds: 3, sample_every: Duration::from_secs(1) };

/// Seconds between two runs of the chore that removes finished jobs.
const CLEAN_EVERY: u32 = 5;

/// Bytes of all tables and indexes.
pub struct Space {
    /// With the seconds since the first job passed.
    pub samples: Vec<(f64, f64)>,
    /// When the active set was first there, and when the last job had passed.
    pub first: f64,
    pub last: f64,
    /// What the jobs there at the end take at least: after VACUUM FULL.
    pub least: f64,
    /// Jobs that passed, and how.
    pub jobs: u32,
    pub conditions: String,
}

pub fn task(bench: &Bench) -> Task {
    let plan = if bench.options.is_full() { FULL } else { QUICK };
    Task {
        name: NAME.to_owned(),
        title: format!("{:<54}", format!("space while {} jobs pass", plan.jobs)),
        seconds: f64::from(plan.jobs / plan.per_second + 10),
        of_peer: false,
        run: Box::new(move |bench, results: &mut Results| {
            let space = plan.measure(bench)?;
            let megabytes = [space.first, space.last, space.least].map(|bytes| bytes / 1e6);
            let [first, last, least] = megabytes;
            results.space = Some(space);
            Ok(format!("{first:.0} MB at first, {last:.0} MB at last, {least:.0} MB at least"))
        }),
    }
}

impl Plan {
    fn measure(&self, bench: &Bench) -> Result<Space, Failure> {
        let agentq = bench.agentq();
        growth::copy_stock(bench, &growth::ready(self.standing), agentq, RUN)?;
        let mut client = bench.cluster.client(RUN)?;
        client.batch_execute(&format!(
            "SELECT agentq.fn_config_set('queue.retention.keep_seconds', '{}');
             SELECT agentq.fn_engine_chore_set('clean_finished', p_every_seconds => {CLEAN_EVERY})",
            self.keep_seconds
        ))?;
        engine::until_running(&mut client)?;
        let samples = self.pass(&bench.cluster, agentq, &mut client)?;
        let last = size(&mut client)?;
        let full = f64::from(self.keep_seconds + CLEAN_EVERY);
        let there = |(seconds, _): &&(f64, f64)| *seconds >= full;
        let first = samples.iter().find(there).ok_or("the jobs passed too fast")?.1;
        let least = least(&mut client)?;
        Ok(Space { first, last, least, samples, jobs: self.jobs, conditions: self.conditions() })
    }

    fn conditions(&self) -> String {
        let (standing, pace, keep) =
            (text::size(self.standing), text::whole(Some(self.per_second.into())), self.keep_seconds);
        format!("{pace} a second, behind {standing} that stand, finished ones kept for {keep} s")
    }

    /// Lets the jobs pass at an even pace, and takes the size meanwhile.
    fn pass(&self, cluster: &Cluster, agentq: &System, client: &mut Client) -> Result<Vec<(f64, f64)>, Failure> {
        let script = |step: Step| step.script(agentq).ok_or("no script");
        // A batch of claims is half as large as one of enqueues.
        let (enqueue, claim) = (script(Step::BatchEnqueue)?, script(Step::BatchClaimAck)?);
        let script = format!("{enqueue}{claim}{claim}");
        let length = Length::Transactions(self.jobs / ENQUEUE_BATCH / CLIENTS);
        let rate = Some(self.per_second / ENQUEUE_BATCH);
        let pgbench = Pgbench { rate, ..Pgbench::new(&script, CLIENTS, length) };
        let began = Instant::now();
        let mut samples = vec![(0.0, size(client)?)];
        std::thread::scope(|scope| {
            let load = scope.spawn(|| pgbench.run(cluster).map_err(|failure| failure.to_string()));
            while !load.is_finished() {
                std::thread::sleep(self.sample_every);
                samples.push((began.elapsed().as_secs_f64(), size(client)?));
            }
            load.join().map_err(|_| "the load panicked")??;
            Ok(samples)
        })
    }
}

fn size(client: &mut Client) -> Result<f64, Failure> {
    let sql = "SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class
               WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind = 'r'";
    Ok(client.query_one(sql, &[])?.get(0))
}

/// The size of the same rows without any room between them.
fn least(client: &mut Client) -> Result<f64, Failure> {
    let sql = "SELECT oid::regclass::text FROM pg_class WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind = 'r'";
    for table in client.query(sql, &[])? {
        client.batch_execute(&format!("VACUUM FULL {}", table.get::<_, String>(0)))?;
    }
    size(client)
}
