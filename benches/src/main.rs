//! The benchmark of agentq: the same work on agentq, on the naive design that it replaces and on a
//! textbook queue, side by side on one private server. `README.md` says how to read it.
//!
//! Every round runs each workload on all systems, one right after another and each round beginning
//! with another, so that what disturbs the machine for a while disturbs all of them.

mod cluster;
mod engine;
mod options;
mod pgbench;
mod pinned;
mod report;
mod results;
mod systems;
mod wal;
mod workloads;

use cluster::Cluster;
use engine::Engine;
use options::Options;
use pinned::Pinned;
use results::Results;
use std::process::ExitCode;
use std::time::Instant;
use systems::System;
use wal::Wal;

/// Whatever ends a run early.
pub type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    let options = match Options::read(arguments.into_iter()) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("agentq-bench: {problem}");
            return ExitCode::from(2);
        }
    };
    match measure(&options).and_then(|results| report::publish(&results, &options)) {
        Ok(missed) if missed.is_empty() || !options.check => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("agentq-bench: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Runs everything.
fn measure(options: &Options) -> Result<Results, Failure> {
    let began = Instant::now();
    let say = |line: &str| println!("[{:>5}s] {line}", began.elapsed().as_secs());
    let cluster = Cluster::start(options)?;
    let mut results = Results::default();
    let version = cluster.client("postgres")?.query_one("SHOW server_version", &[])?.get(0);
    results.server = version;
    say(&format!("started PostgreSQL {}", results.server));
    prepare(&cluster, options, &say)?;
    for round in 0..options.rounds {
        for workload in workloads::ALL.into_iter().filter(|workload| options.wants(workload.name())) {
            for system in turn(round) {
                let speed = workload.measure(&cluster, system, options.seconds)?;
                say(&format!(
                    "round {}/{}  {:<20} {:<9} {:>9.0} jobs/s{}",
                    round + 1,
                    options.rounds,
                    workload.name(),
                    system.name(),
                    speed.jobs_per_second,
                    shortfall(speed.found)
                ));
                results.cpu.push((workload, system, speed.cpu_per_job));
                results.speeds.push((workload, system, speed.jobs_per_second));
            }
        }
    }
    if options.wants(pinned::NAME) {
        for round in 0..options.pinned_rounds {
            for system in turn(round) {
                let pinned = Pinned::measure(&cluster, system, options)?;
                let windows: Vec<String> = pinned.windows.iter().map(|speed| format!("{speed:.0}")).collect();
                say(&format!(
                    "round {}/{}  {}  {:<9} {} jobs/s, {:.0}% kept",
                    round + 1,
                    options.pinned_rounds,
                    pinned::NAME,
                    system.name(),
                    windows.join(" "),
                    pinned.kept() * 100.0
                ));
                results.pinned.push((system, pinned));
            }
        }
    }
    if options.wants("wal") {
        for system in systems::ALL {
            let wal = Wal::measure(&cluster, system, options.wal_jobs)?;
            say(&format!(
                "WAL of a job's life   {:<9} {:>6.0} bytes, {:.0} between checkpoints",
                system.name(),
                wal.after_checkpoint,
                wal.between_checkpoints
            ));
            results.wal.push((system, wal));
        }
    }
    if options.wants(engine::NAME) {
        let found = Engine::measure(&cluster, options)?;
        say(&format!("engine: wake-up {:.2} ms, p99 {:.2} ms", found.wake_median, found.wake_p99));
        results.engine = Some(found);
    }
    Ok(results)
}

/// Makes the databases that measurements start from.
fn prepare(cluster: &Cluster, options: &Options, say: &dyn Fn(&str)) -> Result<(), Failure> {
    let backlog = workloads::BACKLOG_PER_SECOND * options.seconds;
    let wanted = workloads::ALL.into_iter().filter(|workload| options.wants(workload.name()));
    let needs_backlog = wanted.into_iter().any(|workload| workload.claims_only());
    for system in systems::ALL {
        system.prepare_few(cluster)?;
        if needs_backlog {
            system.prepare_backlog(cluster, backlog)?;
            say(&format!("loaded {backlog} jobs into {}", system.name()));
        }
    }
    Ok(())
}

/// The order of the systems in a round.
fn turn(round: usize) -> [System; 3] {
    let mut order = systems::ALL;
    order.rotate_left(round % systems::ALL.len());
    order
}

/// A remark when claims came back without a job.
fn shortfall(found: f64) -> String {
    if found < 0.995 { format!("  ({:.1}% of what was asked for was found)", found * 100.0) } else { String::new() }
}
