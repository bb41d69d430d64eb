//! The options of a job: deadlines, effects that must not happen twice, keys of limits, what it costs, what it
//! requires. Most jobs have none.

use crate::base::clock::{self, Micros, parse_moment, timestamp};
use crate::json::Jsonb;
use crate::queue::capabilities::required_capabilities;
use crate::queue::capacity::{budgets, limits};
use crate::queue::rows::job;
use crate::queue::rules::{Queue, Rulebook};
use crate::table::Row;
use agentq_core::Refusal;
use agentq_core::context::Context;
use agentq_core::input;
use agentq_core::line::{self, Line};
use agentq_core::reader::Member;
use agentq_core::retry_policy;
use pgrx::Uuid;
use serde_json::{Map, Value};

const LONGEST_ORDERING_KEY: usize = 90;

pub const KEYS: [&str; 13] = [
    "start_by",
    "finish_by",
    "external_effects",
    "limit_keys",
    "ordering_key",
    "cost",
    "fairness_key",
    "requires",
    "stall_seconds",
    "retry",
    "trace_id",
    "traceparent",
    "correlation_id",
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOptions {
    pub start_by: Option<Micros>,
    pub finish_by: Option<Micros>,
    pub external_effects: bool,
    /// The job of which this is another run, and how many runs came before.
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
    /// A holder that makes no progress for this long loses the job.
    pub stall_seconds: Option<i32>,
    /// How it is tried again, where that is not what its kind or its queue say.
    pub retry: Option<Value>,
    /// What it belongs to. Callers give its trace and its correlation.
    pub context: Context,
    /// Who in the extension is told when it has finished, and what about. Not for callers.
    pub on_end: Option<String>,
}

impl JobOptions {
    /// Reads them from options, or from a job of a batch; `get` finds what is there.
    pub fn read<'a>(get: impl Fn(&'static str) -> Result<Member<'a>, Refusal>) -> Result<JobOptions, Refusal> {
        let fairness_key = get("fairness_key")?.hint("For example: {\"fairness_key\": \"tenant:42\"}.");
        let fairness_key = fairness_key.read(|key| {
            limits::check_key(key.name(line::LONGEST_FAIRNESS_KEY)?).map_err(|refusal| key.told(refusal))
        })?;
        let mut keys = get("limit_keys")?.read(limits::check_keys)?.unwrap_or_default();
        // A job that takes turns by a key is also limited by it.
        if let Some(key) = fairness_key.as_ref().filter(|key| !keys.iter().any(|(other, _)| other == *key)) {
            keys.push((key.clone(), 1));
            keys.sort();
        }
        let weighted = keys.iter().any(|(_, weight)| *weight != 1);
        let external_effects = get("external_effects")?
            .hint("With true, a job whose worker falls silent is parked until someone says what became of it.");
        let ordering_key = get("ordering_key")?.hint("For example: {\"ordering_key\": \"account:7\"}.");
        Ok(JobOptions {
            start_by: get("start_by")?.read(parse_moment)?,
            finish_by: get("finish_by")?.read(parse_moment)?,
            external_effects: external_effects.flag()?.unwrap_or(false),
            replay_of: None,
            limit_weights: keys.iter().filter(|_| weighted).map(|(_, weight)| *weight as i32).collect(),
            limit_keys: keys.into_iter().map(|(key, _)| key).collect(),
            ordering_key: ordering_key.name(LONGEST_ORDERING_KEY)?.map(str::to_owned),
            cost: get("cost")?.read(budgets::check_amounts)?,
            requires: get("requires")?.read(required_capabilities)?.unwrap_or_default(),
            stall_seconds: get("stall_seconds")?.whole(input::STALLS)?,
            retry: get("retry")?.read(|retry| retry_policy::of_one(&retry, &[]))?.flatten(),
            context: Context::given(&get)?,
            fairness_key,
            on_end: None,
        })
    }

    /// Refuses deadlines that cannot be met. `asked_at`: when the job is to run at the earliest, if somebody said so.
    pub fn check(&self, asked_at: Option<Micros>) -> Result<(), Refusal> {
        if self.start_by.or(self.finish_by).is_none() {
            return Ok(());
        }
        let before = |what: &str, one: Option<Micros>, other_what: &str, other: Option<Micros>| match (one, other) {
            (Some(one), Some(other)) if one < other => Err(Refusal::new(
                format!("{what} lies before {other_what}, so the job could never run"),
                format!("Give a later {what}, or leave it out."),
            )),
            _ => Ok(()),
        };
        let now = Some(clock::now());
        before("start_by", self.start_by, "the present", now)?;
        before("finish_by", self.finish_by, "the present", now)?;
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
        if let Some(seconds) = self.stall_seconds {
            row = row.set(job::stall_seconds, seconds);
        }
        if let Some(policy) = &self.retry {
            row = row.set(job::retry, Jsonb::from_value(policy.clone()));
        }
        if !self.context.is_empty() {
            row = row.set(job::context, kept(&self.context));
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

/// A context as its row has it. It is small: each of its members has a bound.
fn kept(context: &Context) -> Jsonb {
    Jsonb::from_container(&context.to_jsonb().unwrap_or_default())
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
