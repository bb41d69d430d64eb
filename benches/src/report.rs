//! The tables at the end, the CSV, and the figures that must be reached.

use crate::engine::Engine;
use crate::options::Options;
use crate::results::{Results, median, spread};
use crate::systems::{self, System};
use crate::workloads::{self, Workload};
use crate::{Failure, pinned};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// Claim+ack must be so many times as fast as the naive design.
const CLAIM_ACK_TO_NAIVE: f64 = 1.5;
/// Under a pinned snapshot, agentq must keep such a share of its speed.
const PINNED_KEPT: f64 = 0.9;

/// A waiting claim must have its job within so many milliseconds: at the median, and 99 times in 100.
const WAKE_MEDIAN: f64 = 2.0;
const WAKE_P99: f64 = 10.0;
/// With NOTIFY on, such a share of the enqueues must be left.
const NOTIFY_KEPT: f64 = 0.95;

/// Prints the tables, writes the CSV, and returns the figures that were missed.
pub fn publish(results: &Results, options: &Options) -> Result<Vec<String>, Failure> {
    println!("\n{}", about(results, options));
    println!("{}", tables(results, options)?);
    let path = csv_path(options);
    std::fs::write(&path, csv(results, options)?)?;
    println!("Every figure of this run is in {}.", path.display());
    let missed = missed(results);
    for miss in &missed {
        println!("MISSED: {miss}");
    }
    Ok(missed)
}

/// The conditions of the run, in one paragraph.
fn about(results: &Results, options: &Options) -> String {
    format!(
        "PostgreSQL {}, {} CPUs, synchronous_commit {}; rounds: {} of {} s, pinned {} of {} s.",
        results.server,
        std::thread::available_parallelism().map_or(0, usize::from),
        if options.sync { "on" } else { "off" },
        options.rounds,
        options.seconds,
        options.pinned_rounds,
        options.pinned_seconds
    )
}

fn tables(results: &Results, options: &Options) -> Result<String, Failure> {
    let mut text = String::new();
    let workloads: Vec<Workload> = workloads::ALL.into_iter().filter(|w| options.wants(w.name())).collect();
    if !workloads.is_empty() {
        speeds(&mut text, results, &workloads)?;
        cpu(&mut text, results, &workloads)?;
    }
    if !results.pinned.is_empty() {
        pinned(&mut text, results, options.window)?;
    }
    if !results.wal.is_empty() {
        wal(&mut text, results)?;
    }
    if let Some(found) = &results.engine {
        engine(&mut text, found)?;
    }
    Ok(text)
}

fn speeds(text: &mut String, results: &Results, workloads: &[Workload]) -> fmt::Result {
    writeln!(text, "| jobs/s | clients | agentq | naive | textbook | ÷ naive | ÷ textbook |")?;
    writeln!(text, "|---|---|---|---|---|---|---|")?;
    for &workload in workloads {
        write!(text, "| {} | {} ", workload.name(), workload.clients())?;
        for system in systems::ALL {
            write!(text, "| {} ", with_spread(&results.speeds(workload, system)))?;
        }
        for other in [System::Naive, System::Textbook] {
            write!(text, "| {} ", decimals(results.ratio(workload, other)))?;
        }
        writeln!(text, "|")?;
    }
    Ok(())
}

fn cpu(text: &mut String, results: &Results, workloads: &[Workload]) -> fmt::Result {
    writeln!(text, "\n| server CPU (µs per job) | agentq | naive | textbook |")?;
    writeln!(text, "|---|---|---|---|")?;
    for &workload in workloads {
        write!(text, "| {} ", workload.name())?;
        for system in systems::ALL {
            let cpu = median(results.cpu(workload, system)).map(|seconds| seconds * 1e6);
            write!(text, "| {} ", whole(cpu))?;
        }
        writeln!(text, "|")?;
    }
    Ok(())
}

fn pinned(text: &mut String, results: &Results, window: u32) -> fmt::Result {
    writeln!(text, "\n| {} (jobs/s) | first {window} s | last {window} s | kept |", pinned::NAME)?;
    writeln!(text, "|---|---|---|---|")?;
    for system in systems::ALL {
        let edge = |pick: fn(&[f64]) -> Option<&f64>| {
            whole(median(results.pinned(system).filter_map(|pinned| pick(&pinned.windows)).copied()))
        };
        let kept = kept(results, system).map_or("-".to_owned(), |kept| format!("{:.0}%", kept * 100.0));
        writeln!(text, "| {} | {} | {} | {kept} |", system.name(), edge(<[f64]>::first), edge(<[f64]>::last))?;
    }
    Ok(())
}

fn wal(text: &mut String, results: &Results) -> fmt::Result {
    writeln!(text, "\n| WAL of a job's life (bytes) | after a checkpoint | between checkpoints |")?;
    writeln!(text, "|---|---|---|")?;
    for system in systems::ALL {
        let wal = results.wal(system);
        let (first, later) = (wal.map(|w| w.after_checkpoint), wal.map(|w| w.between_checkpoints));
        writeln!(text, "| {} | {} | {} |", system.name(), whole(first), whole(later))?;
    }
    Ok(())
}

fn engine(text: &mut String, found: &Engine) -> fmt::Result {
    writeln!(text, "\n| engine | figure |")?;
    writeln!(text, "|---|---|")?;
    writeln!(
        text,
        "| commit of an enqueue to return of a waiting claim, median of {} | {:.2} ms |",
        found.wakes, found.wake_median
    )?;
    writeln!(text, "| the same, 99 in 100 | {:.2} ms |", found.wake_p99)?;
    writeln!(text, "| CPU of the whole server, idle | {:.2} thousandths of one |", found.idle_cpu * 1e3)?;
    writeln!(text, "| the same with 64 waiting claims | {:.2} thousandths of one |", found.waiting_cpu * 1e3)?;
    writeln!(text, "| WAL, idle | {:.0} bytes per minute |", found.idle_wal)?;
    writeln!(text, "| enqueue by 16 clients, NOTIFY on ÷ off | {:.3} |", found.notify)
}

fn kept(results: &Results, system: System) -> Option<f64> {
    median(results.pinned(system).map(|pinned| pinned.kept()))
}

fn missed(results: &Results) -> Vec<String> {
    let mut missed = Vec::new();
    if let Some(found) = &results.engine {
        if found.wake_median >= WAKE_MEDIAN || found.wake_p99 >= WAKE_P99 {
            missed.push(format!(
                "a waiting claim has its job after {:.2} ms, p99 {:.2}, and {WAKE_MEDIAN} and {WAKE_P99} are to be reached",
                found.wake_median, found.wake_p99
            ));
        }
        if found.notify < NOTIFY_KEPT {
            missed
                .push(format!("NOTIFY leaves {:.1}% of the enqueues, and 95% are to be reached", found.notify * 100.0));
        }
    }
    if let Some(ratio) = results.ratio(Workload::ClaimAck, System::Naive)
        && ratio < CLAIM_ACK_TO_NAIVE
    {
        missed
            .push(format!("claim+ack is {ratio:.2} times as fast as naive, and {CLAIM_ACK_TO_NAIVE} is to be reached"));
    }
    if let Some(kept) = kept(results, System::Agentq)
        && kept < PINNED_KEPT
    {
        missed.push(format!(
            "agentq keeps {:.0}% of its speed under a pinned snapshot, and {:.0}% is to be reached",
            kept * 100.0,
            PINNED_KEPT * 100.0
        ));
    }
    missed
}

/// Short runs have a file of their own, so that they do not replace the figures of a full one.
fn csv_path(options: &Options) -> PathBuf {
    let full = !options.quick && options.only.is_empty();
    let name = if full { "latest.csv" } else { "quick.csv" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name)
}

fn csv(results: &Results, options: &Options) -> Result<String, Failure> {
    let mut text = String::from("workload,system,round,measure,value\n");
    let mut line = |workload: &str, system: System, round: usize, measure: &str, value: f64| {
        writeln!(text, "\"{workload}\",{},{round},{measure},{value:.3}", system.name())
    };
    for workload in workloads::ALL {
        for system in systems::ALL {
            for (round, speed) in results.speeds(workload, system).into_iter().enumerate() {
                line(workload.name(), system, round + 1, "jobs_per_second", speed)?;
            }
            for (round, cpu) in results.cpu(workload, system).into_iter().enumerate() {
                line(workload.name(), system, round + 1, "cpu_us_per_job", cpu * 1e6)?;
            }
        }
    }
    for system in systems::ALL {
        for (round, pinned) in results.pinned(system).enumerate() {
            for (number, speed) in pinned.windows.iter().enumerate() {
                let until = (number as u32 + 1) * options.window;
                line(pinned::NAME, system, round + 1, &format!("jobs_per_second_until_{until}s"), *speed)?;
            }
            line(pinned::NAME, system, round + 1, "kept", pinned.kept())?;
        }
        if let Some(wal) = results.wal(system) {
            line("wal", system, 1, "bytes_after_checkpoint", wal.after_checkpoint)?;
            line("wal", system, 1, "bytes_between_checkpoints", wal.between_checkpoints)?;
        }
    }
    Ok(text)
}

/// "12,345 ±3%".
fn with_spread(figures: &[f64]) -> String {
    match spread(figures) {
        Some(spread) => format!("{} ±{:.0}%", whole(median(figures.iter().copied())), spread * 100.0),
        None => "-".to_owned(),
    }
}

fn decimals(figure: Option<f64>) -> String {
    figure.map_or("-".to_owned(), |figure| format!("{figure:.2}"))
}

/// "12,345".
fn whole(figure: Option<f64>) -> String {
    let Some(figure) = figure else {
        return "-".to_owned();
    };
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_separators() {
        for (figure, text) in [(7.4, "7"), (999.0, "999"), (1000.0, "1,000"), (1234567.0, "1,234,567")] {
            assert_eq!(whole(Some(figure)), text);
        }
    }

    #[test]
    fn a_slow_claim_is_missed_and_nothing_measured_is_not() {
        let mut results = Results::default();
        assert!(missed(&results).is_empty());
        results.speeds.push((Workload::ClaimAck, System::Agentq, 140.0));
        results.speeds.push((Workload::ClaimAck, System::Naive, 100.0));
        assert_eq!(missed(&results).len(), 1);
    }
}
