//! What a step of a mission costs, beside a plain job's life: enqueue, claim, ack, each a call of its own. Missions of 10 to
//! 10,000 steps, in layers of 50, so that the largest is 200 deep; and one with a fan of 1,000 between its first and its last
//! step. Plain jobs and missions take turns on one connection.

use crate::cluster::RUN;
use crate::progress::Task;
use crate::results::Results;
use crate::stats::median;
use crate::{Bench, Failure};
use postgres::{Client, Statement};
use std::time::Instant;

pub const NAME: &str = "missions";
const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const WIDTH: usize = 50;
const FAN: usize = 1_000;
/// Plain jobs in a turn.
const PLAIN: usize = 1_000;

pub struct Missions {
    /// Microseconds of a plain job's life.
    pub plain_us: f64,
    /// Number of steps, microseconds of each step, and that as a share of a plain job's life in the same round.
    pub sizes: Vec<(usize, f64, f64)>,
    /// The same for the fan.
    pub fan: (f64, f64),
}

impl Missions {
    /// The dearest of all, as a share of a plain job's life.
    pub fn dearest(&self) -> f64 {
        self.sizes.iter().map(|(_, _, ratio)| *ratio).chain([self.fan.1]).fold(0.0, f64::max)
    }

    /// A step of the largest mission, as a share of one of those of 100 steps.
    pub fn growth(&self) -> f64 {
        self.sizes[3].1 / self.sizes[1].1
    }
}

pub fn task(bench: &Bench) -> Task {
    Task {
        name: NAME.to_owned(),
        title: format!("{:<54}", "missions: a step beside a plain job"),
        seconds: 15.0 + rounds(bench) as f64 * 15.0,
        of_peer: false,
        run: Box::new(|bench, results: &mut Results| {
            let found = measure(bench)?;
            let each: Vec<String> =
                found.sizes.iter().map(|(size, us, ratio)| format!("{size}: {us:.0} µs ({ratio:.2}×)")).collect();
            let words = format!(
                "a plain job {:.0} µs; a step of {}; fan: {:.0} µs ({:.2}×)",
                found.plain_us,
                each.join(", "),
                found.fan.0,
                found.fan.1
            );
            results.missions = Some(found);
            Ok(words)
        }),
    }
}

fn rounds(bench: &Bench) -> usize {
    if bench.options.is_full() { 5 } else { 2 }
}

/// Steps in layers; each waits for one of the layer before.
fn layers(size: usize) -> String {
    let steps = (0..size).map(|number| {
        let before = if number < WIDTH { String::new() } else { format!("\"s{}\"", number - WIDTH) };
        format!(
            "{{\"name\": \"s{number}\", \"kind\": \"k\", \"params\": {{\"n\": {number}}}, \"depends_on\": [{before}]}}"
        )
    });
    format!("{{\"steps\": [{}]}}", steps.collect::<Vec<_>>().join(", "))
}

fn fan() -> String {
    let names: Vec<String> = (0..FAN).map(|number| format!("\"s{number}\"")).collect();
    let steps: Vec<String> = names
        .iter()
        .map(|name| format!("{{\"name\": {name}, \"kind\": \"k\", \"depends_on\": [\"first\"]}}"))
        .collect();
    format!(
        "{{\"steps\": [{{\"name\": \"first\", \"kind\": \"k\"}}, {}, {{\"name\": \"last\", \"kind\": \"k\", \"depends_on\": [{}]}}]}}",
        steps.join(", "),
        names.join(", ")
    )
}

/// One connection that does everything.
struct Work {
    client: Client,
    enqueue: Statement,
    claim: Statement,
    ack: Statement,
    start: Statement,
}

impl Work {
    fn connect(bench: &Bench) -> Result<Work, Failure> {
        let mut client = bench.cluster.client(RUN)?;
        Ok(Work {
            enqueue: client.prepare("SELECT agentq.fn_job_enqueue('k', p_payload_json => '{\"n\": 1}') IS NOT NULL")?,
            claim: client.prepare("SELECT j->>'job_id' FROM (SELECT agentq.fn_job_claim('w', 'k') AS j OFFSET 0) c")?,
            ack: client.prepare("SELECT agentq.fn_job_ack($1::text::uuid, 'w', '{\"ok\": true}') IS NOT NULL")?,
            start: client.prepare("SELECT agentq.fn_mission_start($1::text::jsonb) IS NOT NULL")?,
            client,
        })
    }

    /// Claims and acks this many jobs, of which each must be there.
    fn off(&mut self, jobs: usize) -> Result<(), Failure> {
        for _ in 0..jobs {
            let id: Option<String> = self.client.query_one(&self.claim, &[])?.get(0);
            self.client.execute(&self.ack, &[&id.ok_or("there is no job")?])?;
        }
        Ok(())
    }

    /// Microseconds for each of these jobs.
    fn plain(&mut self) -> Result<f64, Failure> {
        let began = Instant::now();
        for _ in 0..PLAIN {
            self.client.execute(&self.enqueue, &[])?;
            self.off(1)?;
        }
        Ok(began.elapsed().as_secs_f64() * 1e6 / PLAIN as f64)
    }

    /// Microseconds for each step of so many missions.
    fn missions(&mut self, template: &str, steps: usize, missions: usize) -> Result<f64, Failure> {
        let began = Instant::now();
        for _ in 0..missions {
            self.client.execute(&self.start, &[&template])?;
            self.off(steps)?;
        }
        let took = began.elapsed().as_secs_f64() * 1e6 / (steps * missions) as f64;
        let open: i64 =
            self.client.query_one("SELECT count(*) FROM agentq.mission WHERE status <> 'succeeded'", &[])?.get(0);
        if open > 0 { Err("a mission has not ended".into()) } else { Ok(took) }
    }
}

fn measure(bench: &Bench) -> Result<Missions, Failure> {
    let few = bench.databases.few(&bench.cluster, bench.agentq())?;
    let templates: Vec<(usize, String)> = SIZES.iter().map(|size| (*size, layers(*size))).collect();
    let fan = fan();
    let mut plain = Vec::new();
    let mut sizes: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); SIZES.len() + 1];
    for _ in 0..rounds(bench) {
        bench.cluster.copy_database(&few, RUN)?;
        let mut work = Work::connect(bench)?;
        work.client.batch_execute("DELETE FROM agentq_internal.job_ready")?;
        // Plans are made, and pages are there.
        work.plain()?;
        work.missions(&templates[1].1, 100, 2)?;
        for (number, (steps, template)) in
            templates.iter().map(|(size, text)| (*size, text)).chain([(FAN + 2, &fan)]).enumerate()
        {
            let before = work.plain()?;
            let took = work.missions(template, steps, (1_000 / steps).max(1))?;
            let beside = (before + work.plain()?) / 2.0;
            plain.push(beside);
            sizes[number].0.push(took);
            sizes[number].1.push(took / beside);
        }
    }
    let middle = |list: Vec<f64>| median(list).ok_or("no round");
    let mut found = Vec::new();
    for (took, ratio) in sizes {
        found.push((middle(took)?, middle(ratio)?));
    }
    let fan = found.pop().ok_or("no fan")?;
    let sizes = SIZES.iter().zip(found).map(|(size, (took, ratio))| (*size, took, ratio)).collect();
    Ok(Missions { plain_us: middle(plain)?, sizes, fan })
}
