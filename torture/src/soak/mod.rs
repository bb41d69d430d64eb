//! Leaks and drift: an hour's worth of jobs in a few minutes, through connections that stay open, with finished jobs removed as they
//! age. Memory, open files, the size of what is kept and dead rows are sampled, drawn, and must be flat.

mod load;
mod plot;
mod sample;

use crate::Failure;
use crate::stage::{Regime, Stage};
use load::{Done, Load};
pub use sample::Sample;
use sample::Sampler;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A hundred jobs a second for an hour.
pub const HOUR: u64 = 360_000;
const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// However quickly the jobs pass, they are looked at this often on their way.
const SAMPLES: u64 = 40;
/// How long finished jobs are kept, in seconds. An hour of load is over in minutes, so a week is over in seconds.
const KEEP_SECONDS: u32 = 15;

/// One line that must be flat.
pub struct Line {
    pub name: &'static str,
    pub unit: &'static str,
    /// What the last quarter may be, as a multiple of the second, and beyond that.
    most: (f64, f64),
    of: fn(&Sample) -> f64,
}

pub const LINES: [Line; 6] = [
    Line { name: "memory of a session", unit: "MB", most: (1.1, 1.0), of: |s| s.session.memory },
    Line { name: "memory of the engine's worker", unit: "MB", most: (1.1, 1.0), of: |s| s.engine.memory },
    Line { name: "open files of a session", unit: "", most: (1.1, 4.0), of: |s| s.session.files },
    Line { name: "open files of the engine's worker", unit: "", most: (1.1, 4.0), of: |s| s.engine.files },
    Line { name: "tables and indexes per job kept", unit: "kB", most: (1.2, 0.1), of: |s| s.bytes_per_job / 1000.0 },
    Line { name: "dead rows per job kept", unit: "", most: (1.5, 0.5), of: |s| s.dead_per_job },
];

impl Line {
    pub fn values(&self, samples: &[Sample]) -> Vec<(f64, f64)> {
        samples.iter().map(|sample| (sample.jobs, (self.of)(sample))).collect()
    }

    /// The middle of the second quarter and of the last. The first is for warming up.
    pub fn quarters(&self, samples: &[Sample]) -> (f64, f64) {
        let (n, all) = (samples.len(), self.values(samples));
        let middle = |from: usize, to: usize| {
            let mut part: Vec<f64> = all[from..to].iter().map(|(_, value)| *value).collect();
            part.sort_by(f64::total_cmp);
            part.get(part.len() / 2).copied().unwrap_or(0.0)
        };
        (middle(n / 4, n / 2), middle(n * 3 / 4, n))
    }

    pub fn is_flat(&self, samples: &[Sample]) -> bool {
        let (before, after) = self.quarters(samples);
        after <= self.most_after(before)
    }

    fn most_after(&self, before: f64) -> f64 {
        before * self.most.0 + self.most.1
    }
}

/// Lets `jobs` jobs pass; returns what was sampled.
pub fn pass(stage: &Stage, jobs: u64) -> Result<Vec<Sample>, Failure> {
    let scene = stage.scene("soak", None)?;
    let mut client = stage.connect(&scene.database)?;
    client.batch_execute(&format!(
        "SELECT agentq.fn_config_set('queue.retention.keep_seconds', '{KEEP_SECONDS}');
         SELECT agentq.fn_engine_chore_set('clean_finished', p_every_seconds => 2)"
    ))?;
    let done = Done::default();
    let load = Load { url: stage.url(&scene.database), jobs, done: &done };
    let mut sampler = Sampler::new(client);
    let mut samples = Vec::new();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let threads = load.start(scope);
        let began = Instant::now();
        let are_over = || threads.iter().all(|thread| thread.is_finished());
        while !are_over() {
            let (last, passed) = (Instant::now(), done.acked());
            while last.elapsed() < SAMPLE_EVERY && done.acked() < passed + jobs / SAMPLES && !are_over() {
                std::thread::sleep(Duration::from_millis(10));
            }
            samples.extend(sampler.sample(done.acked())?);
            if samples.len() % 30 == 1 {
                println!("{:>5.0} s  {} of {jobs} jobs", began.elapsed().as_secs_f64(), done.acked());
            }
        }
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "the load panicked")?.map_err(Failure::from))
    })?;
    Ok(samples)
}

/// The figures, as a table for people.
pub fn table(samples: &[Sample]) -> String {
    let mut text = String::from("| | second quarter | last quarter | may be | |\n| --- | --- | --- | --- | --- |\n");
    for line in &LINES {
        let (before, after) = line.quarters(samples);
        let verdict = if line.is_flat(samples) { "flat" } else { "NOT FLAT" };
        let (most, unit) = (line.most_after(before), line.unit);
        text.push_str(&format!(
            "| {} | {before:.2} {unit} | {after:.2} {unit} | {most:.2} {unit} | {verdict} |\n",
            line.name
        ));
    }
    text
}

/// Where the plot goes.
pub fn picture() -> PathBuf {
    agentq_tests::project_root().join("torture/results/soak.svg")
}

/// The whole of it: passes, draws and shows.
pub fn run(jobs: u64) -> Result<Vec<Sample>, Failure> {
    let stage = Stage::new(Regime::Usual)?;
    let samples = pass(&stage, jobs)?;
    plot::draw(&samples, &picture())?;
    println!("\n{}\nThe lines are drawn in {}.", table(&samples), picture().display());
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::Process;

    fn samples(memory: impl Fn(usize) -> f64) -> Vec<Sample> {
        let process = |memory| Process { memory, files: 10.0 };
        (0..40)
            .map(|n| Sample {
                jobs: n as f64,
                session: process(memory(n)),
                engine: process(5.0),
                bytes_per_job: 1000.0,
                dead_per_job: 0.5,
            })
            .collect()
    }

    #[test]
    fn a_line_that_warms_up_and_stays_is_flat() {
        let steady = samples(|n| if n < 8 { n as f64 } else { 20.0 });
        assert!(LINES.iter().all(|line| line.is_flat(&steady)));
    }

    #[test]
    fn a_line_that_goes_on_growing_is_not_flat() {
        let leaking = samples(|n| 10.0 + n as f64 / 4.0);
        assert!(!LINES[0].is_flat(&leaking));
        assert!(LINES[1].is_flat(&leaking), "the others are");
    }
}
