//! The figures to reach: what is measured, what it has to be, and whether it is.

use crate::fairness::FAIR_SHARE;
use crate::growth::{self, Measure};
use crate::options::Options;
use crate::pinned::Pinned;
use crate::results::Results;
use crate::stats::median;
use crate::systems::{AGENTQ, LIMIT, NAIVE, TEXTBOOK};
use crate::text::size;
use crate::workloads::{
    ACK_AND_CLAIM_SYNC, BATCH_CLAIM_ACK, BATCH_ENQUEUE, CLAIM_ACK, CLAIM_ACK_SYNC, ENQUEUE, ENQUEUE_SYNC, MIXED,
    QUICK_CLAIM_ACK_SYNC,
};

/// What a figure has to be.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Times,
    Milliseconds,
    Bytes,
}

/// One figure of a run.
pub struct Figure {
    pub what: String,
    pub goal: Goal,
    pub unit: Unit,
    /// None: not measured.
    pub reached: Option<f64>,
}

impl Figure {
    pub fn is_missed(&self) -> bool {
        match (self.goal, self.reached) {
            (_, None) => false,
            (Goal::AtLeast(goal), Some(reached)) => reached.is_nan() || reached < goal,
            (Goal::AtMost(goal), Some(reached)) => reached.is_nan() || reached > goal,
        }
    }

    pub fn verdict(&self) -> &'static str {
        match self.reached {
            None => "not measured",
            Some(_) if self.is_missed() => "MISSED",
            Some(_) => "ok",
        }
    }

    pub fn goal(&self) -> String {
        match self.goal {
            Goal::AtLeast(goal) => format!("≥ {}", self.unit.show(goal)),
            Goal::AtMost(goal) => format!("≤ {}", self.unit.show(goal)),
        }
    }

    pub fn reached(&self) -> String {
        self.reached.map_or("-".to_owned(), |reached| self.unit.show(reached))
    }
}

impl Unit {
    fn show(self, figure: f64) -> String {
        match self {
            Unit::Times => format!("{figure:.2}×"),
            Unit::Milliseconds => format!("{figure:.2} ms"),
            Unit::Bytes => format!("{figure:.0} B"),
        }
    }
}

fn figure(what: &str, goal: Goal, unit: Unit, reached: Option<f64>) -> Figure {
    Figure { what: what.to_owned(), goal, unit, reached }
}

fn at_least(goal: f64, what: &str, reached: Option<f64>) -> Figure {
    figure(what, Goal::AtLeast(goal), Unit::Times, reached)
}

fn at_most(goal: f64, what: &str, reached: Option<f64>) -> Figure {
    figure(what, Goal::AtMost(goal), Unit::Times, reached)
}

/// Every figure, in the order of the benchmark.
pub fn all(results: &Results, options: &Options) -> Vec<Figure> {
    [speeds(results), pinned(results, options), growth(results), costs(results, options), engine(results)]
        .into_iter()
        .flatten()
        .collect()
}

fn speeds(r: &Results) -> Vec<Figure> {
    vec![
        at_least(0.80, "enqueue, 4 clients, ÷ the limit", r.ratio(&ENQUEUE, LIMIT)),
        at_least(1.25, "enqueue, 4 clients, ÷ the best peer", r.ratio_to_best_peer(&ENQUEUE)),
        at_least(0.85, "enqueue, 16 clients, sync, ÷ the limit", r.ratio(&ENQUEUE_SYNC, LIMIT)),
        at_least(0.95, "batch enqueue x100 ÷ pgmq", r.ratio(&BATCH_ENQUEUE, "pgmq")),
        at_least(0.85, "claim+ack, 4 clients, ÷ the limit", r.ratio(&CLAIM_ACK, LIMIT)),
        at_least(1.30, "claim+ack, 4 clients, ÷ the best peer", r.ratio_to_best_peer(&CLAIM_ACK)),
        at_least(1.50, "claim+ack, 4 clients, ÷ naive", r.ratio(&CLAIM_ACK, NAIVE)),
        at_least(0.60, "claim+ack, 16 clients, sync, ÷ the limit", r.ratio(&CLAIM_ACK_SYNC, LIMIT)),
        at_least(1.70, "claim+ack, 16 clients, sync, ÷ the best peer", r.ratio_to_best_peer(&CLAIM_ACK_SYNC)),
        at_least(
            1.70,
            "claim+ack, 16 clients, sync, claims not durable, ÷ the best peer",
            r.ratio_to_best_peer(&QUICK_CLAIM_ACK_SYNC),
        ),
        at_least(
            3.0,
            "ack-and-claim, 16 clients, sync, ÷ the best peer's claim+ack",
            r.ratio_to_best_peer(&ACK_AND_CLAIM_SYNC),
        ),
        at_least(1.30, "batch claim+ack x50 ÷ the best peer", r.ratio_to_best_peer(&BATCH_CLAIM_ACK)),
        at_least(1.00, "mixed, 8 clients, ÷ textbook", r.ratio(&MIXED, TEXTBOOK)),
        at_least(1.50, "mixed, 8 clients, ÷ the best peer", r.ratio_to_best_peer(&MIXED)),
    ]
}

/// How many times as fast agentq is in the last window as the best of others.
pub fn pinned_to_best<'a>(results: &Results, others: impl Iterator<Item = &'a str>) -> Option<f64> {
    let last = |system: &str| median(results.pinned(system).map(Pinned::last));
    let best = others.filter_map(last).max_by(f64::total_cmp)?;
    Some(last(AGENTQ)? / best)
}

pub fn pinned_kept(results: &Results, system: &str) -> Option<f64> {
    median(results.pinned(system).map(Pinned::kept))
}

fn pinned(r: &Results, options: &Options) -> Vec<Figure> {
    let (seconds, window) = (options.pinned_seconds, options.window);
    let name = format!("mixed under a snapshot pinned for {seconds} s, last {window} s");
    vec![
        at_least(0.95, &format!("{name} ÷ first {window} s"), pinned_kept(r, AGENTQ)),
        at_least(10.0, &format!("{name} ÷ the best peer's"), pinned_to_best(r, r.job_queue_peers())),
    ]
}

fn growth(r: &Results) -> Vec<Figure> {
    let curves = [
        growth::FUTURE,
        growth::BACKLOG,
        growth::FINISHED,
        growth::KINDS,
        growth::ANY_KIND,
        growth::PRIORITIES,
        growth::MANY_PRIORITIES,
        growth::DEAD,
    ];
    let figure = |curve: &&str| {
        let levels = r.growth.levels(curve, AGENTQ, Measure::ClaimTime);
        let (reached, what) = match levels.as_slice() {
            [first, .., last] => (Some(last.ratio), format!("{} ÷ {} {curve}", size(last.size), size(first.size))),
            _ => (None, format!("most ÷ fewest {curve}")),
        };
        at_most(1.2, &format!("time of a claim, {what}"), reached)
    };
    curves.iter().map(figure).collect()
}

fn costs(r: &Results, options: &Options) -> Vec<Figure> {
    let life = |system| r.wal(system).map(|wal| wal.between_checkpoints);
    let to_naive = life(AGENTQ).zip(life(NAIVE)).map(|(ours, theirs)| ours / theirs);
    // Autovacuum looks once a minute, so a quick run says nothing about space.
    let space = r.space.as_ref().filter(|_| options.is_full());
    let conditions = space.map_or(String::new(), |space| format!(" ({})", space.conditions));
    let space_name = format!("size after 1M jobs, with retention, ÷ that of the active set at first{conditions}");
    vec![
        at_most(0.5, "WAL of a job's life ÷ naive", to_naive),
        figure("WAL of a job's life", Goal::AtMost(1_350.0), Unit::Bytes, life(AGENTQ)),
        at_most(1.5, &space_name, space.map(|space| space.last / space.first)),
    ]
}

fn engine(r: &Results) -> Vec<Figure> {
    let found = r.engine.as_ref();
    let milliseconds = |goal, what, reached| figure(what, Goal::AtMost(goal), Unit::Milliseconds, reached);
    vec![
        milliseconds(2.0, "commit to a waiting claim's return, median", found.map(|engine| engine.wake_median)),
        milliseconds(10.0, "commit to a waiting claim's return, 99 in 100", found.map(|engine| engine.wake_p99)),
        at_least(0.95, "enqueue with NOTIFY ÷ without, 16 clients", found.map(|engine| engine.notify)),
        at_least(0.90, "claim+ack under a global limit ÷ without", r.limits.as_ref().map(|limits| limits.global)),
        at_least(0.80, "claim+ack under a limit per tenant ÷ without", r.limits.as_ref().map(|limits| limits.tenants)),
        at_most(
            1.1,
            "jobs begun until 99 small tenants are through, beside one of 100,000 jobs, ÷ their fair share",
            r.fairness.as_ref().map(|found| found.begun / FAIR_SHARE),
        ),
        at_most(
            3.0,
            "a step of a mission, of any size, ÷ a plain job's life",
            r.missions.as_ref().map(|m| m.dearest()),
        ),
        at_most(1.2, "a step of a mission of 10,000 ÷ of 100", r.missions.as_ref().map(|m| m.growth())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{note, peer};

    fn verdict(figures: &[Figure], what: &str) -> &'static str {
        figures.iter().find(|figure| figure.what == what).unwrap().verdict()
    }

    #[test]
    fn a_slow_claim_is_missed_and_what_is_not_measured_is_not() {
        let mut results = Results::default();
        assert!(speeds(&results).iter().all(|figure| figure.verdict() == "not measured" && !figure.is_missed()));
        note(&mut results, &CLAIM_ACK, AGENTQ, &[140.0]);
        note(&mut results, &CLAIM_ACK, NAIVE, &[100.0]);
        note(&mut results, &CLAIM_ACK, LIMIT, &[150.0]);
        let figures = speeds(&results);
        assert_eq!(verdict(&figures, "claim+ack, 4 clients, ÷ naive"), "MISSED");
        assert_eq!(verdict(&figures, "claim+ack, 4 clients, ÷ the limit"), "ok");
        assert_eq!(verdict(&figures, "claim+ack, 4 clients, ÷ the best peer"), "not measured");
    }

    #[test]
    fn a_pinned_queue_is_compared_with_the_best_of_the_others_at_the_end() {
        let mut results = Results { systems: vec![peer("one", Some("")), peer("two", Some(""))], ..Default::default() };
        for (system, windows) in [(AGENTQ, [100.0, 90.0]), ("one", [500.0, 5.0]), ("two", [50.0, 9.0])] {
            results.pinned.push((system.to_owned(), Pinned { windows: windows.to_vec() }));
        }
        assert_eq!(pinned_to_best(&results, results.job_queue_peers()), Some(10.0));
        assert_eq!(pinned_kept(&results, AGENTQ), Some(0.9));
    }

    #[test]
    fn a_figure_that_is_no_number_is_missed() {
        assert!(at_most(1.2, "", Some(f64::NAN)).is_missed());
        assert!(at_least(1.2, "", Some(f64::NAN)).is_missed());
        assert!(at_most(1.2, "", Some(1.21)).is_missed());
        assert!(!at_most(1.2, "", Some(1.2)).is_missed());
    }
}
