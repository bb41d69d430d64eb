//! What follows from the state of an effect.

use std::collections::BTreeSet;

/// The statuses of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Planned,
    Executing,
    Succeeded,
    Failed,
    Compensating,
    Compensated,
    CompensationFailed,
}

impl Status {
    pub const ALL: [Status; 7] = [
        Status::Planned,
        Status::Executing,
        Status::Succeeded,
        Status::Failed,
        Status::Compensating,
        Status::Compensated,
        Status::CompensationFailed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Status::Planned => "planned",
            Status::Executing => "executing",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Compensating => "compensating",
            Status::Compensated => "compensated",
            Status::CompensationFailed => "compensation_failed",
        }
    }

    pub fn parse(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
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
        Status::Compensating | Status::Compensated | Status::CompensationFailed => Begin::Undone,
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
