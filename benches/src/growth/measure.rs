//! Measuring the growth curves: all levels of a curve lie side by side in databases of their own, and
//! take turns claim by claim, so that what disturbs the machine disturbs all of them alike.

use super::curves::{self, CLIENTS, Curve, Level};
use super::stock::Stock;
use super::{Measure, Point};
use crate::calls::{Calls, Claiming};
use crate::payload::payload;
use crate::pgbench::{Length, Pgbench};
use crate::progress::Task;
use crate::results::Results;
use crate::stats::median;
use crate::systems::System;
use crate::workloads::Step;
use crate::{Bench, Failure};
use std::rc::Rc;
use std::time::Instant;

/// Seconds of a throughput, at most.
const SECONDS: u32 = 2;
/// Claims that are timed at each level, and those before them that are not.
const CLAIMS: u32 = 1_000;
const WARM_UP: u32 = 50;

const CLAIM_ANY_KIND: &str = include_str!("../../scripts/agentq/claim_any_kind_ack.sql");

/// Rounds over all curves.
pub fn tasks(bench: &Bench) -> Vec<Task> {
    let (curves, rounds) =
        if bench.options.is_full() { (curves::full(), bench.options.rounds) } else { (curves::quick(), 1) };
    let curves: Vec<Rc<Curve>> = curves.into_iter().map(Rc::new).collect();
    let task = |round| curves.iter().map(move |curve| task(Rc::clone(curve), round, rounds));
    (0..rounds).flat_map(task).collect()
}

fn task(curve: Rc<Curve>, round: usize, rounds: usize) -> Task {
    let runs = curve.levels.len() * curve.systems.len() * if curve.name == CLIENTS { 2 } else { 1 };
    Task {
        name: format!("growth: {}", curve.name),
        title: format!("round {}/{rounds}  {:<42}", round + 1, format!("growth: {}", curve.name)),
        seconds: runs as f64 * (f64::from(SECONDS) + 1.0),
        of_peer: false,
        run: Box::new(move |bench, results: &mut Results| {
            let points = if curve.name == CLIENTS { clients(bench, &curve) } else { stocks(bench, &curve) }?;
            let words = words(&points);
            results.growth.points.extend(points.into_iter().map(|point| Point { round, ..point }));
            Ok(words)
        }),
    }
}

/// "time of a claim (µs): 150 152; job lives/s: 3000 2900".
fn words(points: &[Point]) -> String {
    let of = |measure: Measure| {
        let values = points.iter().filter(|point| point.measure == measure);
        let values: Vec<String> = values.map(|point| format!("{:.0}", point.value)).collect();
        (!values.is_empty()).then(|| format!("{}: {}", measure.name(), values.join(" ")))
    };
    Measure::ALL.into_iter().filter_map(of).collect::<Vec<_>>().join("; ")
}

/// A level of a curve on one of its systems, in a database of its own.
struct Run<'a> {
    level: &'a Level,
    system: &'a System,
    database: String,
}

impl Run<'_> {
    fn point(&self, curve: &Curve, measure: Measure, value: f64) -> Point {
        let (size, system) = (self.level.size, self.system.name.clone());
        Point { curve: curve.name, system, size, round: 0, measure, value }
    }

    /// Runs of a script per second.
    fn throughput(&self, bench: &Bench, script: &str) -> Result<f64, Failure> {
        let pgbench = Pgbench {
            database: &self.database,
            payload_bytes: self.level.stock.payload_bytes,
            ..Pgbench::new(script, self.level.clients, Length::Seconds(SECONDS.min(bench.options.seconds)))
        };
        Ok(pgbench.run(&bench.cluster)?.tps)
    }
}

/// The levels of a curve on all of its systems.
fn runs<'a>(bench: &'a Bench, curve: &'a Curve) -> Vec<Run<'a>> {
    let systems = || bench.systems.iter().filter(|system| curve.systems.contains(&system.name.as_str()));
    let all = curve.levels.iter().flat_map(|level| systems().map(move |system| (level, system)));
    let run = |(number, (level, system)): (usize, (&'a Level, &'a Rc<System>))| Run {
        level,
        system,
        database: format!("run {number}"),
    };
    all.enumerate().map(run).collect()
}

/// A curve over what lies in the queue.
fn stocks(bench: &Bench, curve: &Curve) -> Result<Vec<Point>, Failure> {
    let runs = runs(bench, curve);
    for run in &runs {
        copy_stock(bench, &run.level.stock, run.system, &run.database)?;
    }
    let lay = |run: &Run| run.level.stock.lay_dead(&bench.cluster, &run.database);
    let snapshots = runs.iter().map(lay).collect::<Result<Vec<_>, _>>()?;
    let times = claim_times(bench, curve.claiming, &runs)?;
    let mut points: Vec<Point> =
        runs.iter().zip(times).map(|(run, time)| run.point(curve, Measure::ClaimTime, time)).collect();
    for run in &runs {
        let life = match curve.claiming {
            Claiming::AnyKind => format!("{}{CLAIM_ANY_KIND}", script(run.system, Step::Enqueue)?),
            Claiming::OneKind | Claiming::Waiting => script(run.system, Step::Mixed)?,
        };
        points.push(run.point(curve, Measure::Lives, run.throughput(bench, &life)?));
    }
    drop(snapshots);
    runs.iter().try_for_each(|run| bench.cluster.drop_database(&run.database))?;
    Ok(points)
}

/// The curve over the number of clients.
fn clients(bench: &Bench, curve: &Curve) -> Result<Vec<Point>, Failure> {
    let mut points = Vec::new();
    for run in runs(bench, curve) {
        copy_stock(bench, &run.level.stock, run.system, &run.database)?;
        for (measure, step) in [(Measure::ClaimsAndAcks, Step::ClaimAck), (Measure::Enqueues, Step::Enqueue)] {
            points.push(run.point(curve, measure, run.throughput(bench, &script(run.system, step)?)?));
        }
        bench.cluster.drop_database(&run.database)?;
    }
    Ok(points)
}

fn script(system: &System, step: Step) -> Result<String, Failure> {
    step.script(system).ok_or_else(|| format!("{} cannot do this", system.name).into())
}

/// Copies the database with a stock, which is made when it is first needed.
pub fn copy_stock(bench: &Bench, stock: &Stock, system: &System, to: &str) -> Result<(), Failure> {
    let cluster = &bench.cluster;
    let name = stock.database(system);
    bench.databases.once(&name, || {
        cluster.create_database(&name)?;
        system.install(cluster, &name)?;
        stock.load(cluster, system, &name)?;
        cluster.seal_database(&name)
    })?;
    cluster.copy_database(&name, to)
}

/// Microseconds of a claim at the median, as one client sees it, for each of the runs.
fn claim_times(bench: &Bench, claiming: Claiming, runs: &[Run]) -> Result<Vec<f64>, Failure> {
    let connect = |run: &Run| Calls::connect(&bench.cluster, &run.database, run.system, claiming);
    let mut calls: Vec<Calls> = runs.iter().map(connect).collect::<Result<_, _>>()?;
    let payloads: Vec<String> = runs.iter().map(|run| payload(0, run.level.stock.payload_bytes)).collect();
    let mut times = vec![Vec::with_capacity(CLAIMS as usize); runs.len()];
    for turn in 0..WARM_UP + CLAIMS {
        for ((calls, payload), times) in calls.iter_mut().zip(&payloads).zip(&mut times) {
            let began = Instant::now();
            let held = calls.claim()?.ok_or("a claim found nothing")?;
            if turn >= WARM_UP {
                times.push(began.elapsed().as_secs_f64() * 1e6);
            }
            calls.ack(&held)?;
            calls.enqueue(payload)?;
        }
    }
    times.into_iter().map(|times| median(times).ok_or_else(|| "no claim".into())).collect()
}
