//! What a job may be enqueued with beside what it is: deadlines, effects that must not happen twice, keys of
//! limits, what it costs, what it requires. Most jobs have none of it.

use super::enqueue::moment;
use super::new_job::NewJob;
use super::rows::{job, job_deadline};
use super::{budgets, limits, order};
use crate::base::clock::{Micros, timestamp};
use crate::base::settings::{Queue, Settings};
use crate::json::Jsonb;
use crate::table::{Row, Table};
use agentq_core::reader::{Member, Reader};
use agentq_core::{Refusal, lane};
use pgrx::Uuid;
use serde_json::{Map, Value};

pub const KEYS: [&str; 8] =
    ["start_by", "finish_by", "external_effects", "limit_keys", "ordering_key", "cost", "fairness_key", "requires"];

/// Capabilities that a worker may announce, or a job require.
const MOST_CAPABILITIES: usize = 1_000;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
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

impl Terms {
    /// Reads them from options, or from a job of a batch; `get` finds what is there.
    pub fn read<'a>(get: impl Fn(&'static str) -> Result<Member<'a>, Refusal>) -> Result<Terms, Refusal> {
        let fairness_key = get("fairness_key")?.hint("For example: {\"fairness_key\": \"tenant:42\"}.");
        let fairness_key = fairness_key.read(|key| {
            limits::check_key(key.name(lane::LONGEST_FAIRNESS_KEY)?).map_err(|refusal| key.told(refusal))
        })?;
        let mut keys = get("limit_keys")?.read(limits::check_keys)?.unwrap_or_default();
        // Who takes turns by a key is also limited by it.
        if let Some(key) = fairness_key.as_ref().filter(|key| !keys.iter().any(|(other, _)| other == *key)) {
            keys.push((key.clone(), 1));
            keys.sort();
        }
        let weighted = keys.iter().any(|(_, weight)| *weight != 1);
        let external_effects = get("external_effects")?
            .hint("With true, a job whose worker falls silent is parked until someone says what became of it.");
        let ordering_key = get("ordering_key")?.hint("For example: {\"ordering_key\": \"account:7\"}.");
        Ok(Terms {
            start_by: get("start_by")?.read(moment)?,
            finish_by: get("finish_by")?.read(moment)?,
            external_effects: external_effects.flag()?.unwrap_or(false),
            replay_of: None,
            limit_weights: keys.iter().filter(|_| weighted).map(|(_, weight)| *weight as i32).collect(),
            limit_keys: keys.into_iter().map(|(key, _)| key).collect(),
            ordering_key: ordering_key.name(order::LONGEST_KEY)?.map(str::to_owned),
            cost: get("cost")?.read(budgets::check_amounts)?,
            requires: get("requires")?.read(required_capabilities)?.unwrap_or_default(),
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

    /// The lane of its own in which the job rests when it may run, if it has one.
    pub fn lane(&self, queue_id: i32) -> Option<String> {
        lane::of(queue_id, &self.requires, self.fairness_key.as_deref())
    }
}

/// Reads a list of capabilities: sorted, each once.
pub fn capabilities(at: Reader<'_>) -> Result<Vec<String>, Refusal> {
    let at = at.hint("Give a list of names without commas and |, as in [\"gpu\", \"browser\"].");
    let mut names = Vec::new();
    for name in at.list("names", 0..=MOST_CAPABILITIES)? {
        let text = name.name(lane::LONGEST_NEEDS)?;
        if text.contains([',', '|']) {
            return Err(name.must_be("a name without commas and |"));
        }
        names.push(text.to_owned());
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn required_capabilities(at: Reader<'_>) -> Result<Vec<String>, Refusal> {
    let names = capabilities(at.clone())?;
    if names.join(",").len() > lane::LONGEST_NEEDS {
        return Err(at.refuse(
            format!("the capabilities that a job requires are longer than {} bytes", lane::LONGEST_NEEDS),
            "Give the combination a name of its own, and announce that.",
        ));
    }
    Ok(names)
}

/// Writes down when these jobs must have been begun and finished.
pub fn write_deadlines(jobs: &[NewJob<'_>]) {
    let row = |id: Uuid, at: Option<Micros>, what: &str| {
        at.map(|at| {
            Row::of(&job_deadline::TABLE)
                .set(job_deadline::deadline_at, timestamp(at))
                .set(job_deadline::job_id, id)
                .set(job_deadline::what, what)
        })
    };
    let rows = jobs.iter().flat_map(|job| {
        [row(job.id, job.terms.start_by, "start"), row(job.id, job.terms.finish_by, "finish")].into_iter().flatten()
    });
    let rows: Vec<Row> = rows.collect();
    if !rows.is_empty() {
        Table::open(&job_deadline::TABLE).insert_all(&rows);
    }
}

/// How many attempts a job gets that names none.
pub fn max_attempts(settings: &Settings, queue: &Queue, kind: &str) -> i32 {
    let policies = &settings.policies;
    policies
        .narrow_max_attempts(&queue.queue, kind)
        .or(queue.max_attempts)
        .or_else(|| policies.default_max_attempts())
        .unwrap_or(settings.max_attempts)
}

/// Refuses a job without a key where the policy wants one.
pub fn check_key(settings: &Settings, queue: &Queue, kind: &str, key: Option<&str>) -> Result<(), Refusal> {
    if key.is_some() || !settings.policies.requires_key(&queue.queue, kind) {
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
