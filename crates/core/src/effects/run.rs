//! Where effects and chains of compensations stand, and what follows from that.

use crate::words::words;
use std::collections::BTreeSet;

words! {
    /// Where an effect stands.
    Status {
        Planned = "planned",
        /// A worker has begun it, and has not said what came of it.
        Executing = "executing",
        Succeeded = "succeeded",
        /// It did not happen.
        Failed = "failed",
        /// The job of its compensation is under way.
        Compensating = "compensating",
        Compensated = "compensated",
        /// Its compensation has failed for good.
        CompensationFailed = "compensation_failed",
        /// Somebody has decided that it stays as it is.
        CompensationSkipped = "compensation_skipped",
    }
}

words! {
    /// Where a chain of compensations stands.
    ChainStatus {
        Running = "running",
        /// All its effects are compensated.
        Compensated = "compensated",
        /// One of its compensations has failed for good.
        Halted = "halted",
    }
}

/// What a worker that wants to carry out an effect is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Do it. `again`: it may have happened already, and may be repeated.
    Run { again: bool },
    /// It has happened; here is its result.
    Done,
    /// This attempt has begun it and not ended it.
    InProgress,
    /// An earlier attempt has begun it, and nobody knows whether it happened.
    UnknownOutcome,
    /// It has been, or is being, undone.
    Undone,
}

/// What follows when the holder of the job begins an effect.
pub fn begin(status: Status, begun_under_this_lease: bool, idempotent: bool) -> Begin {
    match status {
        Status::Planned | Status::Failed => Begin::Run { again: false },
        Status::Succeeded => Begin::Done,
        Status::Executing if begun_under_this_lease => Begin::InProgress,
        Status::Executing if idempotent => Begin::Run { again: true },
        Status::Executing => Begin::UnknownOutcome,
        Status::Compensating | Status::Compensated | Status::CompensationFailed | Status::CompensationSkipped => {
            Begin::Undone
        }
    }
}

/// How what was done differs from what was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drift {
    Undeclared,
    Missing,
}

impl Drift {
    pub fn name(self) -> &'static str {
        match self {
            Drift::Undeclared => "undeclared",
            Drift::Missing => "missing",
        }
    }
}

/// Compares what a job planned and did with what was declared. Nothing is missing of a job that did not succeed.
pub fn drift(
    declared: &[String],
    planned: &BTreeSet<String>,
    done: &BTreeSet<String>,
    job_succeeded: bool,
) -> Vec<(Drift, String)> {
    let undeclared = planned.iter().filter(|effect| !declared.contains(effect));
    let missing = declared.iter().filter(|effect| job_succeeded && !done.contains(*effect));
    let undeclared = undeclared.map(|effect| (Drift::Undeclared, effect.clone()));
    undeclared.chain(missing.map(|effect| (Drift::Missing, effect.clone()))).collect()
}
