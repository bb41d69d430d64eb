//! The tables of what changes: growth, latency, space; and what the engine costs.

use crate::engine::Engine;
use crate::growth::Measure;
use crate::options::Options;
use crate::results::Results;
use crate::space::Space;
use crate::stats::median;
use crate::text::{Table, decimals, size, whole};

pub fn tables(results: &Results, options: &Options) -> Vec<Table> {
    let mut tables = Vec::new();
    if !results.growth.points.is_empty() {
        tables.push(growth(results));
    }
    if !results.latency.is_empty() {
        tables.push(latency(results));
    }
    tables.extend(results.space.as_ref().map(space));
    tables.extend(results.engine.as_ref().map(|found| engine(found, options)));
    tables
}

/// One line for each curve, system and measure; each level with its ratio to the first.
fn growth(results: &Results) -> Table {
    let mut table = Table::new(["growth", "system", "measure", "levels (and as a multiple of the first)"]);
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for point in &results.growth.points {
        let key = (point.curve, point.system.as_str());
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        for measure in Measure::ALL {
            let levels = results.growth.levels(point.curve, &point.system, measure);
            if levels.is_empty() {
                continue;
            }
            let level = |level: &crate::growth::Summary| {
                format!("{}: {} ({:.2})", size(level.size), whole(Some(level.value)), level.ratio)
            };
            let levels: Vec<String> = levels.iter().map(level).collect();
            table.row([point.curve, &point.system, measure.name(), &levels.join(", ")]);
        }
    }
    table
}

fn latency(results: &Results) -> Table {
    let mut table =
        Table::new(["commit to claim (ms)", "of capacity", "jobs/s wanted", "reached", "p50", "p95", "p99"]);
    let mut seen: Vec<(&str, u32)> = Vec::new();
    for found in &results.latency {
        let key = (found.system.as_str(), found.share);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let all = || results.latency.iter().filter(move |other| (other.system.as_str(), other.share) == key);
        table.row([
            found.system.clone(),
            format!("{}%", found.share),
            whole(median(all().map(|found| found.wanted))),
            whole(median(all().map(|found| found.reached))),
            decimals(median(all().map(|found| found.p50))),
            decimals(median(all().map(|found| found.p95))),
            decimals(median(all().map(|found| found.p99))),
        ]);
    }
    table
}

fn space(space: &Space) -> Table {
    let megabytes = |bytes: f64| format!("{:.0} MB", bytes / 1e6);
    let ratio = |to: f64| format!("{:.2}", space.last / to);
    let largest = space.samples.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
    let mut table = Table::new([
        format!("size while {} jobs pass, {}", size(space.jobs), space.conditions),
        "bytes".into(),
        "last ÷ it".into(),
    ]);
    table.row(["when the active set was first there".to_owned(), megabytes(space.first), ratio(space.first)]);
    table.row(["largest".to_owned(), megabytes(largest), ratio(largest)]);
    table.row(["when the last job had passed".to_owned(), megabytes(space.last), ratio(space.last)]);
    table.row(["the same jobs after VACUUM FULL".to_owned(), megabytes(space.least), ratio(space.least)]);
    table
}

fn engine(found: &Engine, options: &Options) -> Table {
    let mut table = Table::new(["engine", "figure"]);
    let wakes = found.wakes;
    table.row([
        format!("commit of an enqueue to return of a waiting claim, median of {wakes}"),
        format!("{:.2} ms", found.wake_median),
    ]);
    table.row(["the same, 99 in 100".to_owned(), format!("{:.2} ms", found.wake_p99)]);
    // A few seconds are too short for what comes once a minute, and for the clock of the kernel.
    if options.is_full() {
        let thousandths = |cpu: f64| format!("{:.2} thousandths of one", cpu * 1e3);
        table.row(["CPU of the whole server, idle".to_owned(), thousandths(found.idle_cpu)]);
        table.row(["the same with 64 waiting claims".to_owned(), thousandths(found.waiting_cpu)]);
        table.row(["WAL, idle".to_owned(), format!("{:.0} bytes per minute", found.idle_wal)]);
    }
    table.row(["enqueue by 16 clients, NOTIFY on ÷ off".to_owned(), format!("{:.3}", found.notify)]);
    table
}
