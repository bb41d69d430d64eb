//! Growth curves: how the time of a claim and the throughput change while something in the queue
//! grows. Every level is compared with the first one of its curve, within each round.
//!
//! - The time of a claim is that of single claims on one connection, as a client sees it. Each is
//!   followed by an ack and an enqueue, so that the backlog stays as it is.
//! - Throughput is that of whole job lives (enqueue, claim, ack), for the same reason. Only the curve
//!   over the number of clients has enqueues alone, and claims with acks alone.

mod curves;
mod measure;
mod stock;

pub use curves::*;
pub use measure::{copy_stock, tasks};
pub use stock::ready;

use crate::stats::median;

/// What is measured at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Microseconds.
    ClaimTime,
    /// Per second.
    Lives,
    Enqueues,
    ClaimsAndAcks,
}

impl Measure {
    pub const ALL: [Measure; 4] = [Measure::ClaimTime, Measure::Lives, Measure::Enqueues, Measure::ClaimsAndAcks];

    pub fn name(self) -> &'static str {
        match self {
            Measure::ClaimTime => "time of a claim (µs)",
            Measure::Lives => "job lives/s",
            Measure::Enqueues => "enqueues/s",
            Measure::ClaimsAndAcks => "claim+acks/s",
        }
    }
}

/// One figure.
pub struct Point {
    pub curve: &'static str,
    pub system: String,
    pub size: u32,
    pub round: usize,
    pub measure: Measure,
    pub value: f64,
}

/// A level of a curve after all rounds.
#[derive(Debug, PartialEq)]
pub struct Summary {
    pub size: u32,
    pub value: f64,
    /// As a multiple of the first level.
    pub ratio: f64,
}

/// Every figure of every curve.
#[derive(Default)]
pub struct Growth {
    pub points: Vec<Point>,
}

impl Growth {
    /// The levels of a curve, in the order in which they grow.
    pub fn levels(&self, curve: &str, system: &str, measure: Measure) -> Vec<Summary> {
        let wanted = |p: &&Point| p.curve == curve && p.system == system && p.measure == measure;
        let points: Vec<&Point> = self.points.iter().filter(wanted).collect();
        let Some(first) = points.iter().map(|point| point.size).min() else { return Vec::new() };
        let in_round = |size, round| points.iter().find(|p| p.size == size && p.round == round).map(|p| p.value);
        let mut sizes: Vec<u32> = points.iter().map(|point| point.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let summary = |size| {
            let here = || points.iter().filter(move |point| point.size == size);
            let ratios = here().filter_map(|point| Some(point.value / in_round(first, point.round)?));
            Some(Summary { size, value: median(here().map(|point| point.value))?, ratio: median(ratios)? })
        };
        sizes.into_iter().filter_map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_compared_with_the_first_within_a_round() {
        let mut growth = Growth::default();
        // The machine is twice as slow in the second round, and three times in the third.
        for (round, pace) in [1.0, 2.0, 3.0].into_iter().enumerate() {
            for (size, value) in [(10, 4.0), (0, 2.0)] {
                let (curve, system, measure) = (BACKLOG, "agentq".to_owned(), Measure::ClaimTime);
                growth.points.push(Point { curve, system, size, round, measure, value: value * pace });
            }
        }
        let levels = growth.levels(BACKLOG, "agentq", Measure::ClaimTime);
        let expected = [(0, 4.0, 1.0), (10, 8.0, 2.0)].map(|(size, value, ratio)| Summary { size, value, ratio });
        assert_eq!(levels, expected);
        assert_eq!(growth.levels(FUTURE, "agentq", Measure::ClaimTime), []);
    }
}
