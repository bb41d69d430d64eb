//! Latency at a fixed arrival rate: how long a job waits for its consumer when producers send at 50,
//! 70 and 90% of what the system can take. The clock of a job runs from the return of its enqueue to
//! the return of its claim.
//!
//! Producers keep to a schedule whatever happens (an open loop): a send that comes late because the
//! one before it took long is counted from when it was due.

mod load;

use crate::cluster::RUN;
use crate::progress::Task;
use crate::results::Results;
use crate::stats::percentile;
use crate::systems::{AGENTQ, NAIVE, System, TEXTBOOK};
use crate::{Bench, Failure, turn};
use load::Pace;
use std::rc::Rc;
use std::time::Duration;

pub const NAME: &str = "latency";

/// Of one system at one share of its capacity, in one round.
pub struct Latency {
    pub system: String,
    pub round: usize,
    /// Hundredths of the capacity.
    pub share: u32,
    /// Jobs per second that were to come, and that came.
    pub wanted: f64,
    pub reached: f64,
    /// Milliseconds.
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

pub fn tasks(bench: &Bench) -> Vec<Task> {
    let full = bench.options.is_full();
    let wanted: &[&str] = if full { &[AGENTQ, TEXTBOOK, NAIVE] } else { &[AGENTQ, TEXTBOOK] };
    let systems: Vec<Rc<System>> =
        bench.systems.iter().filter(|system| wanted.contains(&system.name.as_str())).cloned().collect();
    let rounds = if full { bench.options.rounds } else { 1 };
    let in_round = |round| turn(&systems, round).into_iter().map(move |system| task(system, full, (round, rounds)));
    (0..rounds).flat_map(in_round).collect()
}

fn task(system: Rc<System>, full: bool, (round, rounds): (usize, usize)) -> Task {
    let shares: &[u32] = if full { &[50, 70, 90] } else { &[70] };
    let seconds = if full { 5 } else { 2 };
    Task {
        name: NAME.to_owned(),
        title: format!("round {}/{rounds}  {:<26}{:<16}", round + 1, "latency at a fixed rate", system.name),
        seconds: f64::from((shares.len() as u32 + 1) * (seconds + 2)),
        of_peer: false,
        run: Box::new(move |bench, results: &mut Results| {
            let time = Duration::from_secs(seconds.into());
            let capacity = capacity(bench, &system, time)?;
            let mut words = vec![format!("{capacity:.0} jobs/s at most")];
            for &share in shares {
                let found = measure(bench, &system, round, share, capacity, time)?;
                words.push(format!("at {share}%: {:.2} ms, p99 {:.2}", found.p50, found.p99));
                results.latency.push(found);
            }
            Ok(words.join("; "))
        }),
    }
}

/// Jobs per second that producers and consumers together can take.
fn capacity(bench: &Bench, system: &System, time: Duration) -> Result<f64, Failure> {
    begin(bench, system)?;
    let run = load::run(&bench.cluster, system, Pace::Fast, time)?;
    Ok(run.claimed_per_second())
}

fn measure(
    bench: &Bench,
    system: &System,
    round: usize,
    share: u32,
    capacity: f64,
    time: Duration,
) -> Result<Latency, Failure> {
    begin(bench, system)?;
    let wanted = capacity * f64::from(share) / 100.0;
    let run = load::run(&bench.cluster, system, Pace::PerSecond(wanted), time)?;
    let waits = run.waits();
    let at = |hundredths| percentile(&waits, hundredths).ok_or("no job came through");
    Ok(Latency {
        system: system.name.clone(),
        round,
        share,
        wanted,
        reached: run.claimed_per_second(),
        p50: at(50)?,
        p95: at(95)?,
        p99: at(99)?,
    })
}

/// Starts from an empty queue with statistics: the few jobs of the prepared database are worked off.
fn begin(bench: &Bench, system: &System) -> Result<(), Failure> {
    let few = bench.databases.few(&bench.cluster, system)?;
    bench.cluster.copy_database(&few, RUN)?;
    load::drain(&bench.cluster, system)
}
