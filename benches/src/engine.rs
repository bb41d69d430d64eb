//! What the engine gives and what it costs: how soon a waiting claim has its job, what waiting
//! claims and an idle engine take, and whether NOTIFY slows enqueues down.

use crate::cluster::{Cluster, RUN};
use crate::pgbench::{Length, Pgbench};
use crate::progress::Task;
use crate::results::Results;
use crate::stats::{median, percentile};
use crate::systems::System;
use crate::workloads::Step;
use crate::{Bench, Failure, cpu};
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
    /// CPUs of the whole server.
    pub idle_cpu: f64,
    pub waiting_cpu: f64,
    /// Bytes of WAL per minute.
    pub idle_wal: f64,
    /// Enqueues with NOTIFY on, as a share of those with NOTIFY off.
    pub notify: f64,
}

pub fn task(bench: &Bench) -> Task {
    Task {
        name: NAME.to_owned(),
        title: format!("{:<54}", "engine: waking, waiting, NOTIFY"),
        seconds: if bench.options.is_full() { 270.0 } else { 22.0 },
        of_peer: false,
        run: Box::new(|bench, results: &mut Results| {
            let found = measure(bench)?;
            let words = format!("woken after {:.2} ms, p99 {:.2} ms", found.wake_median, found.wake_p99);
            results.engine = Some(found);
            Ok(words)
        }),
    }
}

fn measure(bench: &Bench) -> Result<Engine, Failure> {
    let cluster = &bench.cluster;
    let agentq = bench.agentq();
    let few = bench.databases.few(cluster, agentq)?;
    cluster.copy_database(&few, RUN)?;
    let mut client = cluster.client(RUN)?;
    client.batch_execute("SELECT agentq.fn_config_get('queue.worker.enabled')")?;
    until_running(&mut client)?;
    let full = bench.options.is_full();
    // Some chores leave their mark once a minute; a waiting claim waits for a minute at most.
    let [idle, waiting_time] = if full { [120, 50] } else { [3, 3] }.map(Duration::from_secs);
    std::thread::sleep(Duration::from_secs(1));
    let before = cluster.wal_position()?;
    let idle_cpu = cpu::taken_during(cluster, idle)?;
    let idle_wal = (cluster.wal_position()? - before) as f64 * 60.0 / idle.as_secs_f64();
    let waiting_cpu = waiting(cluster, waiting_time)?;
    let mut wakes = wake_ups(cluster, if full { 2_000 } else { 200 })?;
    wakes.sort_by(f64::total_cmp);
    let notify = notify(bench, agentq)?;
    Ok(Engine {
        wake_median: percentile(&wakes, 50).ok_or("no wake-up")?,
        wake_p99: percentile(&wakes, 99).ok_or("no wake-up")?,
        wakes: wakes.len(),
        idle_cpu,
        waiting_cpu,
        idle_wal,
        notify,
    })
}

/// Waits until the engine of a database is up.
pub fn until_running(client: &mut Client) -> Result<(), Failure> {
    for _ in 0..200 {
        let mode: String = client.query_one("SELECT mode FROM agentq.v_engine_status", &[])?.get(0);
        if mode == "running" {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("the engine does not run".into())
}

/// What so many waiting claims cost, when nothing comes.
fn waiting(cluster: &Cluster, time: Duration) -> Result<f64, Failure> {
    let mut threads = Vec::new();
    for _ in 0..WAITERS {
        let mut client = cluster.client(RUN)?;
        let wait = time.as_secs() + 4;
        threads.push(std::thread::spawn(move || {
            client.batch_execute(&format!("SELECT agentq.fn_job_claim('w', 'never', p_wait => '{wait} s')"))
        }));
    }
    std::thread::sleep(Duration::from_secs(2));
    let cpu = cpu::taken_during(cluster, time)?;
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
fn notify(bench: &Bench, agentq: &System) -> Result<f64, Failure> {
    let script = Step::Enqueue.script(agentq).ok_or("no script")?;
    let (rounds, seconds) = if bench.options.is_full() { (6, 4) } else { (3, 1) };
    let pgbench = Pgbench::new(&script, 16, Length::Seconds(seconds));
    let mut client = bench.cluster.client(RUN)?;
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let mut speeds = [0.0, 0.0];
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for on in order {
            client.batch_execute(&format!("SELECT agentq.fn_config_set('queue.notify.enabled', '{}')", on == 1))?;
            speeds[on] = pgbench.run(&bench.cluster)?.tps;
        }
        ratios.push(speeds[1] / speeds[0]);
    }
    median(ratios).ok_or_else(|| "no round".into())
}
