//! What was measured, and how systems compare. Ratios are taken within each round and the middle of
//! them is used, because what disturbs the machine disturbs a round as a whole.

use crate::engine::Engine;
use crate::fairness::Fairness;
use crate::growth::Growth;
use crate::latency::Latency;
use crate::limits::Limits;
use crate::missions::Missions;
use crate::pinned::Pinned;
use crate::space::Space;
use crate::stats::median;
use crate::systems::{AGENTQ, Role, System};
use crate::wal::Wal;
use crate::workloads::Workload;
use std::rc::Rc;

/// A workload on a system, once.
pub struct Speed {
    pub workload: &'static str,
    pub system: String,
    pub round: usize,
    pub jobs_per_second: f64,
    /// Seconds of the server's CPU.
    pub cpu_per_job: f64,
}

/// The figures of a run, in the order in which they were taken.
#[derive(Default)]
pub struct Results {
    /// Version of the server.
    pub server: String,
    pub systems: Vec<Rc<System>>,
    /// Peers that could not be installed or measured, and why.
    pub troubles: Vec<String>,
    pub speeds: Vec<Speed>,
    pub pinned: Vec<(String, Pinned)>,
    pub wal: Vec<(String, Wal)>,
    pub engine: Option<Engine>,
    pub limits: Option<Limits>,
    pub fairness: Option<Fairness>,
    pub missions: Option<Missions>,
    pub growth: Growth,
    pub latency: Vec<Latency>,
    pub space: Option<Space>,
}

impl Results {
    fn of<'a>(&'a self, workload: &'a Workload, system: &'a str) -> impl Iterator<Item = &'a Speed> {
        self.speeds.iter().filter(move |speed| speed.workload == workload.name && speed.system == system)
    }

    /// Jobs per second of every round.
    pub fn speeds(&self, workload: &Workload, system: &str) -> Vec<f64> {
        self.of(workload, system).map(|speed| speed.jobs_per_second).collect()
    }

    /// Seconds of the server's CPU per job, of every round.
    pub fn cpu(&self, workload: &Workload, system: &str) -> Vec<f64> {
        self.of(workload, system).map(|speed| speed.cpu_per_job).collect()
    }

    /// How many times as fast agentq is as another system that does the same, if need be with other
    /// calls.
    pub fn ratio(&self, workload: &Workload, other: &str) -> Option<f64> {
        self.ratio_between(workload, self.comparable(workload, other), other)
    }

    /// How many times as fast agentq is with a call that others do not have as with those they have.
    pub fn gain(&self, workload: &Workload) -> Option<f64> {
        self.ratio_between(workload, workload.otherwise?, AGENTQ)
    }

    fn ratio_between(&self, workload: &Workload, theirs: &Workload, other: &str) -> Option<f64> {
        let in_round = |round| self.of(theirs, other).find(|speed| speed.round == round);
        median(self.of(workload, AGENTQ).filter_map(|ours| {
            let theirs = in_round(ours.round)?;
            Some(ours.jobs_per_second / theirs.jobs_per_second)
        }))
    }

    /// The workload with which a system is compared.
    fn comparable<'a>(&self, workload: &'a Workload, other: &str) -> &'a Workload {
        match workload.otherwise {
            Some(otherwise) if self.of(workload, other).next().is_none() => otherwise,
            _ => workload,
        }
    }

    /// The fastest of the peers that are job queues.
    pub fn best_peer(&self, workload: &Workload) -> Option<&str> {
        let speed = |peer: &str| median(self.speeds(self.comparable(workload, peer), peer));
        let peers = self.job_queue_peers().filter_map(|peer| Some((peer, speed(peer)?)));
        peers.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(peer, _)| peer)
    }

    /// How many times as fast agentq is as the best of the peers.
    pub fn ratio_to_best_peer(&self, workload: &Workload) -> Option<f64> {
        self.ratio(workload, self.best_peer(workload)?)
    }

    pub fn job_queue_peers(&self) -> impl Iterator<Item = &str> {
        let peers = self.systems.iter().filter(|system| system.role == Role::Peer && system.is_job_queue());
        peers.map(|system| system.name.as_str())
    }

    pub fn pinned(&self, system: &str) -> impl Iterator<Item = &Pinned> {
        self.pinned.iter().filter(move |(name, _)| name == system).map(|(_, pinned)| pinned)
    }

    pub fn wal(&self, system: &str) -> Option<Wal> {
        self.wal.iter().find(|(name, _)| name == system).map(|(_, wal)| *wal)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::systems::{NAIVE, Schema, Scripts, TEXTBOOK};
    use crate::workloads::{ACK_AND_CLAIM, CLAIM_ACK, MIXED};

    /// Notes a speed in every round.
    pub fn note(results: &mut Results, workload: &Workload, system: &str, speeds: &[f64]) {
        for (round, &jobs_per_second) in speeds.iter().enumerate() {
            let system = system.to_owned();
            results.speeds.push(Speed { workload: workload.name, system, round, jobs_per_second, cpu_per_job: 0.0 });
        }
    }

    pub fn peer(name: &str, claim_ack: Option<&str>) -> Rc<System> {
        Rc::new(System {
            name: name.to_owned(),
            version: String::new(),
            role: Role::Peer,
            scripts: Scripts { claim_ack: claim_ack.map(str::to_owned), ..Scripts::default() },
            schema: Schema::Sql(""),
            backlog_per_second: 0,
            count: String::new(),
        })
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut results = Results::default();
        note(&mut results, &MIXED, AGENTQ, &[100.0, 200.0, 90.0]);
        note(&mut results, &MIXED, NAIVE, &[50.0, 100.0, 30.0]);
        assert_eq!(results.ratio(&MIXED, NAIVE), Some(2.0));
        assert_eq!(results.ratio(&MIXED, TEXTBOOK), None);
    }

    #[test]
    fn a_call_that_others_do_not_have_is_compared_with_what_they_do_instead() {
        let mut results = Results::default();
        note(&mut results, &ACK_AND_CLAIM, AGENTQ, &[300.0]);
        note(&mut results, &CLAIM_ACK, AGENTQ, &[200.0]);
        note(&mut results, &CLAIM_ACK, NAIVE, &[100.0]);
        assert_eq!(results.ratio(&ACK_AND_CLAIM, NAIVE), Some(3.0));
        assert_eq!(results.gain(&ACK_AND_CLAIM), Some(1.5));
    }

    #[test]
    fn the_best_peer_is_the_fastest_that_hands_out_single_jobs() {
        let mut results = Results {
            systems: vec![peer("one", Some("")), peer("two", Some("")), peer("log", None)],
            ..Default::default()
        };
        note(&mut results, &MIXED, AGENTQ, &[60.0]);
        note(&mut results, &MIXED, "one", &[10.0]);
        note(&mut results, &MIXED, "two", &[20.0]);
        note(&mut results, &MIXED, "log", &[30.0]);
        assert_eq!(results.best_peer(&MIXED), Some("two"));
        assert_eq!(results.ratio_to_best_peer(&MIXED), Some(3.0));
    }
}
