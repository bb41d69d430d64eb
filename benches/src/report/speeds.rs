//! The tables that compare systems side by side: speed, CPU, pinned snapshot, WAL.

use crate::figures::pinned_to_best;
use crate::pinned;
use crate::results::Results;
use crate::stats::{median, spread};
use crate::systems::{AGENTQ, LIMIT, NAIVE, Role, TEXTBOOK};
use crate::text::{Table, decimals, whole};
use crate::workloads::{self, Workload};

pub fn tables(results: &Results) -> Vec<Table> {
    let mut tables = Vec::new();
    let done: Vec<&Workload> = workloads::ALL
        .into_iter()
        .filter(|workload| results.speeds.iter().any(|speed| speed.workload == workload.name))
        .collect();
    if !done.is_empty() {
        tables.extend([speeds(results, &done), ratios(results, &done), cpu(results, &done)]);
    }
    if !results.pinned.is_empty() {
        tables.push(pinned(results));
    }
    if !results.wal.is_empty() {
        tables.push(wal(results));
    }
    tables
}

fn names(results: &Results) -> Vec<&str> {
    results.systems.iter().map(|system| system.name.as_str()).collect()
}

fn heads<'a>(first: &[&'a str], rest: Vec<&'a str>) -> Vec<&'a str> {
    first.iter().copied().chain(rest).collect()
}

fn speeds(results: &Results, done: &[&Workload]) -> Table {
    let mut table = Table::new(heads(&["jobs/s", "clients"], names(results)));
    for workload in done {
        let mut cells = vec![workload.name.to_owned(), workload.clients.to_string()];
        cells.extend(names(results).iter().map(|name| with_spread(&results.speeds(workload, name))));
        table.row(cells);
    }
    table
}

/// How many times as fast agentq is.
fn ratios(results: &Results, done: &[&Workload]) -> Table {
    let with_peers = results.systems.iter().any(|system| system.role == Role::Peer);
    let best = if with_peers { vec!["÷ best peer", "which is"] } else { Vec::new() };
    let mut table = Table::new(heads(&["agentq", "÷ limit", "÷ naive", "÷ textbook"], best));
    for workload in done {
        let mut cells = vec![workload.name.to_owned()];
        cells.extend([LIMIT, NAIVE, TEXTBOOK].map(|other| decimals(results.ratio(workload, other))));
        if with_peers {
            cells.push(decimals(results.ratio_to_best_peer(workload)));
            cells.push(results.best_peer(workload).unwrap_or("-").to_owned());
        }
        table.row(cells);
    }
    table
}

fn cpu(results: &Results, done: &[&Workload]) -> Table {
    let mut table = Table::new(heads(&["server CPU (µs per job)"], names(results)));
    for workload in done {
        let cpu = |name: &&str| whole(median(results.cpu(workload, name)).map(|seconds| seconds * 1e6));
        table.row([workload.name.to_owned()].into_iter().chain(names(results).iter().map(cpu)));
    }
    table
}

fn pinned(results: &Results) -> Table {
    let title = format!("mixed, {} (jobs/s)", pinned::NAME);
    let mut table = Table::new([title.as_str(), "first window", "last window", "kept"]);
    for name in names(results).into_iter().filter(|name| results.pinned(name).next().is_some()) {
        let edge = |pick: fn(&[f64]) -> Option<&f64>| {
            whole(median(results.pinned(name).filter_map(|pinned| pick(&pinned.windows)).copied()))
        };
        let kept = median(results.pinned(name).map(|pinned| pinned.kept() * 100.0));
        table.row([name.to_owned(), edge(<[f64]>::first), edge(<[f64]>::last), format!("{}%", whole(kept))]);
    }
    let others = names(results).into_iter().filter(|name| *name != AGENTQ);
    let ratio = decimals(pinned_to_best(results, others));
    table.row(["agentq ÷ the best other", "", &ratio, ""]);
    table
}

fn wal(results: &Results) -> Table {
    let mut table = Table::new(["WAL of a job's life (bytes)", "after a checkpoint", "between checkpoints"]);
    for (name, wal) in &results.wal {
        table.row([name.clone(), whole(Some(wal.after_checkpoint)), whole(Some(wal.between_checkpoints))]);
    }
    table
}

/// "12,345 ±3%".
fn with_spread(figures: &[f64]) -> String {
    match spread(figures) {
        Some(spread) => format!("{} ±{:.0}%", whole(median(figures.iter().copied())), spread * 100.0),
        None => "-".to_owned(),
    }
}
