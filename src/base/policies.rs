//! What the tables `error_class` and `retry_policy` say, as a session keeps it.

use agentq_core::error_class::{self, normal};
use agentq_core::retry::{Backoff, Policy, Shape};
use serde::Deserialize;
use std::collections::HashMap;

/// Empty in a schema that has no such tables yet: then every class is unknown, and worth another try.
#[derive(Default)]
pub struct Policies {
    classes: HashMap<String, Class>,
    by_kind: HashMap<String, Row>,
    by_queue: HashMap<String, Row>,
    default: Option<Row>,
}

/// A class of errors as the table has it.
#[derive(Clone, Debug)]
pub struct Class {
    pub name: String,
    pub retryable: bool,
    /// Whether the table has it.
    pub known: bool,
}

#[derive(Deserialize)]
pub struct ClassRow {
    error_class: String,
    retryable: bool,
    aliases: Vec<String>,
}

#[derive(Clone, Default, Deserialize)]
pub struct Row {
    scope: String,
    name: String,
    max_attempts: Option<i32>,
    backoff: Option<String>,
    seconds: Option<f64>,
    multiplier: Option<f64>,
    max_seconds: Option<f64>,
    delays: Option<Vec<f64>>,
    jitter: Option<f64>,
    retryable: Option<Vec<String>>,
    non_retryable: Option<Vec<String>>,
    requires_idempotency_key: Option<bool>,
}

impl Policies {
    pub fn new(classes: Vec<ClassRow>, rows: Vec<Row>) -> Policies {
        let mut policies = Policies::default();
        // Names after aliases: a class goes before an alias of another.
        for row in &classes {
            let class = Class { name: row.error_class.clone(), retryable: row.retryable, known: true };
            policies.classes.extend(row.aliases.iter().map(|alias| (normal(alias), class.clone())));
        }
        for row in classes {
            let class = Class { name: row.error_class.clone(), retryable: row.retryable, known: true };
            policies.classes.insert(normal(&row.error_class), class);
        }
        for row in rows {
            match row.scope.as_str() {
                "kind" => drop(policies.by_kind.insert(row.name.clone(), row)),
                "queue" => drop(policies.by_queue.insert(row.name.clone(), row)),
                _ => policies.default = Some(row),
            }
        }
        policies
    }

    /// The class of this name. One that the table does not know is worth another try.
    pub fn class(&self, name: Option<&str>) -> Class {
        let name = name.unwrap_or(error_class::UNKNOWN);
        let unknown = || Class { name: name.to_owned(), retryable: true, known: false };
        self.classes.get(&normal(name)).cloned().unwrap_or_else(unknown)
    }

    /// What holds for a job: the first that says something, from the narrowest on.
    fn first<'a, T>(&'a self, queue: &str, kind: &str, says: impl Fn(&'a Row) -> Option<T>) -> Option<T> {
        [self.by_kind.get(kind), self.by_queue.get(queue), self.default.as_ref()].into_iter().flatten().find_map(says)
    }

    /// Attempts of a job that names none, as far as its kind or its queue have a policy.
    pub fn narrow_max_attempts(&self, queue: &str, kind: &str) -> Option<i32> {
        [self.by_kind.get(kind), self.by_queue.get(queue)].into_iter().flatten().find_map(|row| row.max_attempts)
    }

    /// The same for all jobs.
    pub fn default_max_attempts(&self) -> Option<i32> {
        self.default.as_ref()?.max_attempts
    }

    pub fn requires_key(&self, queue: &str, kind: &str) -> bool {
        self.first(queue, kind, |row| row.requires_idempotency_key).unwrap_or(false)
    }

    pub fn policy(&self, queue: &str, kind: &str, base_seconds: i64) -> Policy {
        let named = |classes: &Vec<String>| classes.iter().map(|name| self.class(Some(name)).name).collect();
        Policy {
            backoff: self
                .first(queue, kind, |row| row.waits(base_seconds))
                .unwrap_or_else(|| Backoff::doubling(base_seconds)),
            retryable: self.first(queue, kind, |row| row.retryable.as_ref()).map(named),
            non_retryable: self.first(queue, kind, |row| row.non_retryable.as_ref()).map(named).unwrap_or_default(),
        }
    }
}

impl Row {
    fn waits(&self, base_seconds: i64) -> Option<Backoff> {
        let shape = match self.backoff.as_deref()? {
            "fixed" => Shape::Fixed,
            "linear" => Shape::Linear,
            "exponential" => Shape::Exponential(self.multiplier.unwrap_or(2.0)),
            "quartic" => Shape::Quartic,
            "list" => Shape::List(self.delays.clone().unwrap_or_default()),
            _ => Shape::Doubling,
        };
        Some(Backoff {
            shape,
            seconds: self.seconds.unwrap_or(base_seconds as f64),
            cap: self.max_seconds,
            jitter: self.jitter.unwrap_or_default(),
        })
    }
}
