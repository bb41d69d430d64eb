//! What was measured, and the middle and the spread of it.

use crate::engine::Engine;
use crate::pinned::Pinned;
use crate::systems::System;
use crate::wal::Wal;
use crate::workloads::Workload;

/// The figures of a run, in the order in which they were taken.
#[derive(Default)]
pub struct Results {
    /// Version of the server.
    pub server: String,
    /// Jobs per second.
    pub speeds: Vec<(Workload, System, f64)>,
    /// Seconds of the server's CPU per job.
    pub cpu: Vec<(Workload, System, f64)>,
    pub pinned: Vec<(System, Pinned)>,
    pub wal: Vec<(System, Wal)>,
    pub engine: Option<Engine>,
}

impl Results {
    /// Jobs per second of every round.
    pub fn speeds(&self, workload: Workload, system: System) -> Vec<f64> {
        of(&self.speeds, workload, system)
    }

    /// Seconds of the server's CPU per job, of every round.
    pub fn cpu(&self, workload: Workload, system: System) -> Vec<f64> {
        of(&self.cpu, workload, system)
    }

    /// How many times as fast agentq is as another. Compared within each round, because the machine
    /// may have been faster in one round than in the next.
    pub fn ratio(&self, workload: Workload, other: System) -> Option<f64> {
        let ours = self.speeds(workload, System::Agentq);
        let theirs = self.speeds(workload, other);
        median(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs))
    }

    pub fn pinned(&self, system: System) -> impl Iterator<Item = &Pinned> {
        self.pinned.iter().filter(move |(s, _)| *s == system).map(|(_, pinned)| pinned)
    }

    pub fn wal(&self, system: System) -> Option<Wal> {
        self.wal.iter().find(|(s, _)| *s == system).map(|(_, wal)| *wal)
    }
}

fn of(figures: &[(Workload, System, f64)], workload: Workload, system: System) -> Vec<f64> {
    let wanted = figures.iter().filter(|(w, s, _)| (*w, *s) == (workload, system));
    wanted.map(|(_, _, figure)| *figure).collect()
}

/// The middle of some figures.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[middle]),
        _ => Some((figures[middle - 1] + figures[middle]) / 2.0),
    }
}

/// How far the figures lie apart: half of the distance from lowest to highest, as a share of the
/// middle.
pub fn spread(figures: &[f64]) -> Option<f64> {
    let lowest = figures.iter().copied().min_by(f64::total_cmp)?;
    let highest = figures.iter().copied().max_by(f64::total_cmp)?;
    Some((highest - lowest) / 2.0 / median(figures.iter().copied())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn the_spread_is_half_of_the_range_over_the_median() {
        assert_eq!(spread(&[90.0, 100.0, 110.0]), Some(0.1));
        assert_eq!(spread(&[7.0]), Some(0.0));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut results = Results::default();
        for (ours, theirs) in [(100.0, 50.0), (200.0, 100.0), (90.0, 30.0)] {
            results.speeds.push((Workload::Mixed, System::Agentq, ours));
            results.speeds.push((Workload::Mixed, System::Naive, theirs));
        }
        assert_eq!(results.ratio(Workload::Mixed, System::Naive), Some(2.0));
        assert_eq!(results.ratio(Workload::Mixed, System::Textbook), None);
    }
}
