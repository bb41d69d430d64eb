//! Effects: what operations change outside, how that is compensated, and whether a catalog of both makes sense.
//!
//! A manifest declares what every operation produces, and every compensation counters and produces. `graph` says what is
//! wrong with one; `run` what follows from the state of an effect.

mod graph;
mod read;
mod run;
#[cfg(test)]
mod tests;

pub use graph::Fault;
pub use run::{Begin, ChainStatus, Drift, Status, begin, drift};

use crate::input::DEFAULT_QUEUE;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A manifest has at most this many operations and compensations.
pub const LARGEST_MANIFEST: usize = crate::bounds::MANIFEST;
/// One of them produces at most this many types of effects.
pub const MOST_EFFECTS: usize = 100;

/// Work that changes something outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The types of its effects, sorted.
    pub produces: Vec<String>,
    pub requires_compensation: bool,
    /// Its compensation, where there are several or none is for all of its effects.
    pub compensation: Option<String>,
    /// The kind of its jobs.
    pub job_kind: String,
}

/// Work that counters the effects of an operation, or of another compensation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compensation {
    pub of: String,
    pub produces: Vec<String>,
    /// Whether its effects are inverses of those that it counters, and no new work.
    pub counter_effects: bool,
    pub requires_compensation: bool,
    pub job_kind: String,
    pub queue: String,
    pub max_attempts: Option<i32>,
}

/// A catalog of operations and compensations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub operations: BTreeMap<String, Operation>,
    pub compensations: BTreeMap<String, Compensation>,
    /// The inverse of an effect.
    pub inverse_of: BTreeMap<String, String>,
    /// Effects that may be repeated when it is not known whether they happened.
    pub idempotent: BTreeSet<String>,
    /// What the runtime must be able to do.
    pub requires: BTreeSet<String>,
}

/// What a runtime may be able to do, and whether this one is.
pub const CAPABILITIES: [(&str, bool, &str); 9] = [
    ("DURABLE_WORKFLOWS", true, "missions"),
    ("DURABLE_STEPS", true, "steps of a job"),
    ("QUEUES", true, "jobs"),
    ("SCHEDULES", true, "schedules"),
    ("SIGNALS", true, "signals"),
    ("SUBWORKFLOWS", true, "missions inside missions, and children of jobs"),
    ("EFFECT_INTERCEPTION", true, "effects are planned, begun and ended by calls, and held against the manifest"),
    (
        "SAGA_COMPENSATION_NATIVE",
        false,
        "a chain of compensations is a line of jobs, which halts where one fails for good",
    ),
    ("WORKFLOW_VERSIONING", false, "a mission keeps the template that it was started with; code has no versions here"),
];

impl Manifest {
    /// The operation whose jobs are of this kind.
    pub fn operation_of_kind(&self, job_kind: &str) -> Option<(&str, &Operation)> {
        let mut all = self.operations.iter().filter(|(_, operation)| operation.job_kind == job_kind);
        all.next().map(|(name, operation)| (name.as_str(), operation))
    }

    /// What an operation or a compensation of this name produces.
    pub fn produces(&self, name: &str) -> Option<&[String]> {
        let operation = self.operations.get(name).map(|operation| operation.produces.as_slice());
        operation.or_else(|| Some(self.compensations.get(name)?.produces.as_slice()))
    }

    /// Which compensation counters an effect of this operation or compensation: the only pure counter that produces
    /// its inverse, or the one that the operation names, or the only one that is not a pure counter.
    pub fn compensation_for(&self, name: &str, effect_type: &str) -> Option<&str> {
        let all = || self.compensations.iter().filter(|(_, compensation)| compensation.of == name);
        let counters = self.inverse_of.get(effect_type).and_then(|inverse| {
            only(
                all().filter(|(_, c)| c.counter_effects && c.produces.contains(inverse)).map(|(name, _)| name.as_str()),
            )
        });
        let named = || {
            let named = self.operations.get(name)?.compensation.as_deref()?;
            let compensation = self.compensations.get(named)?;
            (compensation.of == name && !compensation.counter_effects).then_some(named)
        };
        let other = || only(all().filter(|(_, c)| !c.counter_effects).map(|(name, _)| name.as_str()));
        counters.or_else(named).or_else(other)
    }

    /// The catalog as a document, with every default written out.
    pub fn to_value(&self) -> Value {
        let operations: serde_json::Map<String, Value> = self
            .operations
            .iter()
            .map(|(name, o)| {
                let value = json!({
                    "produces": o.produces, "requires_compensation": o.requires_compensation,
                    "compensation": o.compensation, "job_kind": o.job_kind,
                });
                (name.clone(), value)
            })
            .collect();
        let compensations: serde_json::Map<String, Value> = self
            .compensations
            .iter()
            .map(|(name, c)| {
                let value = json!({
                    "of": c.of, "produces": c.produces, "counter_effects": c.counter_effects,
                    "requires_compensation": c.requires_compensation, "job_kind": c.job_kind, "queue": c.queue,
                    "max_attempts": c.max_attempts,
                });
                (name.clone(), value)
            })
            .collect();
        let idempotent: serde_json::Map<String, Value> =
            self.idempotent.iter().map(|name| (name.clone(), Value::Bool(true))).collect();
        let mut document = json!({
            "operations": operations, "compensations": compensations, "inverse_of": self.inverse_of,
            "idempotent": idempotent,
        });
        if !self.requires.is_empty() {
            document["requires"] = json!(self.requires);
        }
        document
    }
}

impl Default for Compensation {
    fn default() -> Self {
        Compensation {
            of: String::new(),
            produces: Vec::new(),
            counter_effects: false,
            requires_compensation: false,
            job_kind: String::new(),
            queue: DEFAULT_QUEUE.to_owned(),
            max_attempts: None,
        }
    }
}

/// The only one, if there is exactly one.
fn only<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = names.next()?;
    names.next().is_none().then_some(first)
}
