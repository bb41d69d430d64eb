//! What the engine gives and what it costs: how soon a waiting claim has its job, what waiting
//! claims and an idle engine take, and whether NOTIFY slows enqueues down.

use crate::Failure;
use crate::cluster::{Cluster, RUN};
use crate::options::Options;
use crate::pgbench::{Length, Pgbench};
use crate::results::median;
use crate::systems::System;
use crate::workloads::Workload;
use postgres::Client;
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub const NAME: &str = "engine";
const WAITERS: usize = 64;

pub struct Engine {
    /// Milliseconds from the commit of an enqueue to the return of the claim that waited for it.
    pub wake_median: f64,
    pub wake_p99: f64,
    pub wakes: usize,
    /// Thousandths of one CPU.
    pub idle_cpu: f64,
    pub waiting_cpu: f64,
    /// Bytes of WAL per minute.
    pub idle_wal: f64,
    /// Enqueues with NOTIFY on, as a share of those with NOTIFY off.
    pub notify: f64,
}

impl Engine {
    pub fn measure(cluster: &Cluster, options: &Options) -> Result<Engine, Failure> {
        cluster.copy_database(&System::Agentq.few(), RUN)?;
        let mut client = cluster.client(RUN)?;
        client.batch_execute("SELECT agentq.fn_config_get('queue.worker.enabled')")?;
        until_running(&mut client)?;
        let seconds = if options.quick { 10 } else { 60 };
        std::thread::sleep(Duration::from_secs(2));
        let before = wal_position(&mut client)?;
        let idle_cpu = cluster.cpu_during(Duration::from_secs(seconds))?;
        let idle_wal = (wal_position(&mut client)? - before) as f64 * 60.0 / seconds as f64;
        let waiting_cpu = waiting(cluster, Duration::from_secs(seconds))?;
        let mut wakes = wake_ups(cluster, if options.quick { 300 } else { 2_000 })?;
        wakes.sort_by(f64::total_cmp);
        let notify = notify(cluster, options)?;
        Ok(Engine {
            wake_median: wakes[wakes.len() / 2],
            wake_p99: wakes[wakes.len() * 99 / 100],
            wakes: wakes.len(),
            idle_cpu,
            waiting_cpu,
            idle_wal,
            notify,
        })
    }
}

fn until_running(client: &mut Client) -> Result<(), Failure> {
    for _ in 0..200 {
        let mode: String = client.query_one("SELECT mode FROM agentq.v_engine_status", &[])?.get(0);
        if mode == "running" {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("the engine does not run".into())
}

fn wal_position(client: &mut Client) -> Result<i64, Failure> {
    Ok(client.query_one("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8", &[])?.get(0))
}

/// What so many waiting claims cost, when nothing comes.
fn waiting(cluster: &Cluster, time: Duration) -> Result<f64, Failure> {
    let mut threads = Vec::new();
    for _ in 0..WAITERS {
        let mut client = cluster.client(RUN)?;
        let wait = time.as_secs() + 6;
        threads.push(std::thread::spawn(move || {
            client.batch_execute(&format!("SELECT agentq.fn_job_claim('w', 'never', p_wait => '{} s')", wait.min(60)))
        }));
    }
    std::thread::sleep(Duration::from_secs(2));
    let cpu = cluster.cpu_during(time.min(Duration::from_secs(50)))?;
    for thread in threads {
        thread.join().map_err(|_| "a waiting claim panicked")??;
    }
    Ok(cpu)
}

/// Milliseconds from commit to the return of the claim, one job at a time.
fn wake_ups(cluster: &Cluster, count: usize) -> Result<Vec<f64>, Failure> {
    let (sender, receiver) = mpsc::channel();
    let mut worker = cluster.client(RUN)?;
    let mut producer = cluster.client(RUN)?;
    let claiming = std::thread::spawn(move || -> Result<(), postgres::Error> {
        let claim = worker.prepare(
            "SELECT c->>'job_id', c->>'lease_token' FROM (SELECT agentq.fn_job_claim('w', 'wake', p_wait => '30 s') AS c OFFSET 0) x",
        )?;
        let ack = worker.prepare("SELECT agentq.fn_job_ack($1::text::uuid, 'w', p_lease_token => $2::text::uuid)")?;
        for _ in 0..count {
            let row = worker.query_one(&claim, &[])?;
            sender.send(Instant::now()).ok();
            let (job, token): (String, String) = (row.get(0), row.get(1));
            worker.execute(&ack, &[&job, &token])?;
        }
        Ok(())
    });
    let mut found = Vec::with_capacity(count);
    for turn in 0..count {
        // Long enough for the claim to be asleep again, and never in step with anything.
        std::thread::sleep(Duration::from_micros(8_000 + (turn as u64 * 7_919) % 7_000));
        producer.batch_execute("BEGIN; SELECT agentq.fn_job_enqueue('wake')")?;
        let committed = Instant::now();
        producer.batch_execute("COMMIT")?;
        let returned = receiver.recv_timeout(Duration::from_secs(40)).map_err(|_| "a waiting claim got nothing")?;
        found.push(returned.duration_since(committed).as_secs_f64() * 1e3);
    }
    claiming.join().map_err(|_| "the claims panicked")??;
    Ok(found)
}

/// Enqueues of 16 clients with NOTIFY on, as a share of those with NOTIFY off; in turns.
fn notify(cluster: &Cluster, options: &Options) -> Result<f64, Failure> {
    let script = Workload::Enqueue.script(System::Agentq);
    let mut client = cluster.client(RUN)?;
    let mut ratios = Vec::new();
    for round in 0..options.rounds.max(3) {
        let mut speeds = [0.0, 0.0];
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for on in order {
            client.batch_execute(&format!("SELECT agentq.fn_config_set('queue.notify.enabled', '{}')", on == 1))?;
            let length = Length::Seconds(options.seconds.max(5));
            speeds[on] = Pgbench { database: RUN, script: &script, clients: 16, length }.run(cluster)?.tps;
        }
        println!("         NOTIFY off {:.0}, on {:.0} enqueues/s", speeds[0], speeds[1]);
        ratios.push(speeds[1] / speeds[0]);
    }
    median(ratios).ok_or_else(|| "no round".into())
}
