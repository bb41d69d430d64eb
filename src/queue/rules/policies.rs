//! What the tables `error_class` and `retry_policy` say: which errors are worth another try, and when it comes.

use agentq_core::error_class::{self, normal};
use agentq_core::retry::{Backoff, Policy, Shape};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Default)]
pub struct Policies {
    classes: HashMap<String, Class>,
    by_kind: HashMap<String, PolicyRow>,
    by_queue: HashMap<String, PolicyRow>,
    default: Option<PolicyRow>,
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
#[serde(default)]
pub struct PolicyRow {
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
    pub fn new(classes: Vec<ClassRow>, rows: Vec<PolicyRow>) -> Policies {
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
        let name = normal(name.unwrap_or(error_class::UNKNOWN));
        let known = self.classes.get(&name).cloned();
        known.unwrap_or(Class { name, retryable: true, known: false })
    }

    /// What holds for jobs of a kind in a queue, from the narrowest on.
    fn rows(&self, queue: &str, kind: &str) -> impl Iterator<Item = &PolicyRow> {
        [self.by_kind.get(kind), self.by_queue.get(queue), self.default.as_ref()].into_iter().flatten()
    }

    /// Attempts of a job that names none, as far as its kind or its queue have a policy.
    pub fn narrow_max_attempts(&self, queue: &str, kind: &str) -> Option<i32> {
        [self.by_kind.get(kind), self.by_queue.get(queue)].into_iter().flatten().find_map(|row| row.max_attempts)
    }

    /// Attempts of a job that names none, where neither its kind nor its queue has a policy.
    pub fn default_max_attempts(&self) -> Option<i32> {
        self.default.as_ref()?.max_attempts
    }

    pub fn requires_key(&self, queue: &str, kind: &str) -> bool {
        self.rows(queue, kind).find_map(|row| row.requires_idempotency_key).unwrap_or(false)
    }

    /// Whether a policy, as it is or with this changed, would have a list of waits without any.
    pub fn lacks_delays(&self, scope: &str, name: &str, change: &Value) -> bool {
        let row = match scope {
            "kind" => self.by_kind.get(name),
            "queue" => self.by_queue.get(name),
            _ => self.default.as_ref(),
        };
        let backoff = match change.get("backoff") {
            Some(given) => given.as_str(),
            None => row.and_then(|row| row.backoff.as_deref()),
        };
        let delays = match change.get("delays") {
            Some(given) => given.as_array().is_some_and(|list| !list.is_empty()),
            None => row.is_some_and(|row| row.delays.is_some()),
        };
        backoff == Some("list") && !delays
    }

    /// What follows a failure of a job: the first that says something, from the job itself on.
    pub fn policy(&self, own: Option<&PolicyRow>, queue: &str, kind: &str, base_seconds: i64) -> Policy {
        let rows: Vec<&PolicyRow> = own.into_iter().chain(self.rows(queue, kind)).collect();
        let named = |classes: &Vec<String>| classes.iter().map(|name| self.class(Some(name)).name).collect();
        Policy {
            backoff: backoff(&rows, base_seconds),
            retryable: first(&rows, |row| row.retryable.as_ref()).map(named),
            non_retryable: first(&rows, |row| row.non_retryable.as_ref()).map(named).unwrap_or_default(),
        }
    }
}

fn first<'a, T>(rows: &[&'a PolicyRow], says: impl Fn(&'a PolicyRow) -> Option<T>) -> Option<T> {
    rows.iter().copied().find_map(says)
}

fn backoff(rows: &[&PolicyRow], base_seconds: i64) -> Backoff {
    let shape = match first(rows, |row| row.backoff.as_deref()) {
        Some("fixed") => Shape::Fixed,
        Some("linear") => Shape::Linear,
        Some("exponential") => Shape::Exponential(first(rows, |row| row.multiplier).unwrap_or(2.0)),
        Some("quartic") => Shape::Quartic,
        Some("list") => Shape::List(first(rows, |row| row.delays.clone()).unwrap_or_default()),
        _ => Shape::Doubling,
    };
    Backoff {
        shape,
        seconds: first(rows, |row| row.seconds).unwrap_or(base_seconds as f64),
        cap: first(rows, |row| row.max_seconds),
        jitter: first(rows, |row| row.jitter).unwrap_or_default(),
    }
}
