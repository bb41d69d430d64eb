//! The options of a job: deadlines, effects that must not happen twice, keys of limits, what it costs, what it
//! requires. Most jobs have none.

use crate::base::clock::{Micros, parse_moment, timestamp};
use crate::json::Jsonb;
use crate::queue::capabilities::capabilities;
use crate::queue::capacity::{budgets, limits};
use crate::queue::rows::job;
use crate::queue::rules::{Queue, Rulebook};
use crate::table::Row;
use agentq_core::line::{self, Line};
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use serde_json::{Map, Value};

pub const KEYS: [&str; 8] =
    ["start_by", "finish_by", "external_effects", "limit_keys", "ordering_key", "cost", "fairness_key", "requires"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOptions {
    pub start_by: Option<Micros>,
    pub finish_by: Option<Micros>,
    pub external_effects: bool,
    /// The job of which this is another run, and how many came before.
    pub replay_of: Option<(Uuid, i32)>,
    pub limit_keys: Vec<String>,
    /// How much of a rate each key takes; empty: 1.
    pub limit_weights: Vec<i32>,
    pub ordering_key: Option<String>,
    /// What it is expected to cost, by unit.
    pub cost: Option<Map<String, Value>>,
    /// Jobs take turns by this key.
    pub fairness_key: Option<String>,
    /// Capabilities that its worker must have.
    pub requires: Vec<String>,
    /// Who in the extension is told when it has finished, and what about. Not for callers.
    pub on_end: Option<String>,
}

impl JobOptions {
    /// Reads them from options, or from a job of a batch; `get` finds what is present.
    pub fn read(get: impl Fn(&str) -> Option<Value>) -> Result<JobOptions, Refusal> {
        let time = |key: &str| match get(key) {
            None => Ok(None),
            Some(Value::String(text)) => parse_moment(key, &text).map(Some),
            Some(other) => Err(Refusal::new(format!("{key} must be a timestamp, not {other}"), "Give it as a text.")),
        };
        let fairness_key = get("fairness_key").map(|key| check_fairness_key(&key)).transpose()?;
        let mut keys = get("limit_keys").map(|keys| limits::check_keys(&keys)).transpose()?.unwrap_or_default();
        // Who takes turns by a key is also limited by it.
        if let Some(key) = fairness_key.as_ref().filter(|key| !keys.iter().any(|(other, _)| other == *key)) {
            keys.push((key.clone(), 1));
            keys.sort();
        }
        let weighted = keys.iter().any(|(_, weight)| *weight != 1);
        Ok(JobOptions {
            start_by: time("start_by")?,
            finish_by: time("finish_by")?,
            external_effects: match get("external_effects") {
                None => false,
                Some(Value::Bool(flag)) => flag,
                Some(other) => {
                    return Err(Refusal::new(
                        format!("external_effects must be true or false, not {other}"),
                        "With true, a job whose worker falls silent is parked until someone says what became of it.",
                    ));
                }
            },
            replay_of: None,
            limit_weights: keys.iter().filter(|_| weighted).map(|(_, weight)| *weight as i32).collect(),
            limit_keys: keys.into_iter().map(|(key, _)| key).collect(),
            ordering_key: get("ordering_key").map(|key| check_ordering_key(&key)).transpose()?,
            cost: get("cost").map(|cost| budgets::check_amounts("cost", &cost)).transpose()?,
            requires: get("requires").map(|list| capabilities("requires", &list)).transpose()?.unwrap_or_default(),
            fairness_key,
            on_end: None,
        })
    }

    /// Refuses deadlines that cannot be met.
    pub fn check(&self, asked_at: Option<Micros>) -> Result<(), Refusal> {
        let before = |what: &str, one: Option<Micros>, other_what: &str, other: Option<Micros>| match (one, other) {
            (Some(one), Some(other)) if one < other => Err(Refusal::new(
                format!("{what} lies before {other_what}, so the job could never run"),
                format!("Give a later {what}, or leave it out."),
            )),
            _ => Ok(()),
        };
        before("start_by", self.start_by, "scheduled_at", asked_at)?;
        before("finish_by", self.finish_by, "scheduled_at", asked_at)?;
        before("finish_by", self.finish_by, "start_by", self.start_by)
    }

    /// Puts them into the row of a new job.
    pub fn put(&self, mut row: Row) -> Row {
        if let Some(at) = self.start_by {
            row = row.set(job::start_by, timestamp(at));
        }
        if let Some(at) = self.finish_by {
            row = row.set(job::finish_by, timestamp(at));
        }
        if self.external_effects {
            row = row.set(job::external_effects, true);
        }
        if let Some((of, count)) = self.replay_of {
            row = row.set(job::replay_of, of).set(job::replay_count, count);
        }
        if !self.limit_keys.is_empty() {
            row = row.set(job::limit_keys, self.limit_keys.clone());
        }
        if let Some(key) = &self.ordering_key {
            row = row.set(job::ordering_key, key.as_str());
        }
        if !self.limit_weights.is_empty() {
            row = row.set(job::limit_weights, self.limit_weights.clone());
        }
        if let Some(cost) = &self.cost {
            row = row.set(job::cost, Jsonb::from_value(Value::Object(cost.clone())));
        }
        if let Some(key) = &self.fairness_key {
            row = row.set(job::fairness_key, key.as_str());
        }
        if !self.requires.is_empty() {
            row = row.set(job::requires, self.requires.clone());
        }
        if let Some(hook) = &self.on_end {
            row = row.set(job::on_end, hook.as_str());
        }
        row
    }

    /// The fair line in which the job rests when it may run, if it has one.
    pub fn fair_line(&self, queue_id: i32) -> Option<Line> {
        Line::fair(queue_id, &self.requires, self.fairness_key.as_deref())
    }
}

fn check_fairness_key(value: &Value) -> Result<String, Refusal> {
    let key = value.as_str().ok_or_else(|| {
        Refusal::new(
            format!("fairness_key must be a text, not {}", agentq_core::error::shown(&value.to_string())),
            "For example: {\"fairness_key\": \"tenant:42\"}.",
        )
    })?;
    limits::check_key(input::name("fairness_key", key, line::LONGEST_FAIRNESS_KEY)?)
}

/// Refuses a job without a key where the policy wants one.
pub fn check_key(rules: &Rulebook, queue: &Queue, kind: &str, key: Option<&str>) -> Result<(), Refusal> {
    if key.is_some() || !rules.policies.requires_key(&queue.queue, kind) {
        return Ok(());
    }
    Err(Refusal::new(
        format!(
            "jobs of the kind \"{}\" need an idempotency key, and this one has none",
            agentq_core::error::shown(kind)
        ),
        "Give it one that is the same whenever the same work is asked for; the retry policy of its kind or queue requires it.",
    ))
}

const LONGEST_ORDERING_KEY: usize = 90;

fn check_ordering_key(value: &Value) -> Result<String, Refusal> {
    let key = value.as_str().ok_or_else(|| {
        Refusal::new(
            format!("ordering_key must be a text, not {}", agentq_core::error::shown(&value.to_string())),
            "For example: {\"ordering_key\": \"account:7\"}.",
        )
    })?;
    Ok(input::name("ordering_key", key, LONGEST_ORDERING_KEY)?.to_owned())
}
