//! What a job may be enqueued with beside what it is: deadlines, effects that must not happen twice, and
//! keys of limits.
//! Most jobs have none of it.

use super::enqueue::moment;
use super::new_job::NewJob;
use super::rows::{job, job_deadline};
use super::{limits, order};
use crate::base::clock::{Micros, timestamp};
use crate::base::settings::{Queue, Settings};
use crate::table::{Row, Table};
use agentq_core::Refusal;
use pgrx::Uuid;
use serde_json::Value;

pub const KEYS: [&str; 5] = ["start_by", "finish_by", "external_effects", "limit_keys", "ordering_key"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    pub start_by: Option<Micros>,
    pub finish_by: Option<Micros>,
    pub external_effects: bool,
    /// The job of which this is another run, and how many came before.
    pub replay_of: Option<(Uuid, i32)>,
    pub limit_keys: Vec<String>,
    pub ordering_key: Option<String>,
}

impl Terms {
    /// Reads them from options, or from a job of a batch; `get` finds what is present.
    pub fn read(settings: &Settings, get: impl Fn(&str) -> Option<Value>) -> Result<Terms, Refusal> {
        let time = |key: &str| match get(key) {
            None => Ok(None),
            Some(Value::String(text)) => moment(key, &text).map(Some),
            Some(other) => Err(Refusal::new(format!("{key} must be a timestamp, not {other}"), "Give it as a text.")),
        };
        let terms = Terms {
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
            limit_keys: get("limit_keys").map(|keys| limits::check_keys(&keys)).transpose()?.unwrap_or_default(),
            ordering_key: get("ordering_key").map(|key| order::check_key(&key)).transpose()?,
        };
        if terms != Terms::default() && !settings.has_policies {
            return Err(Refusal::new(
                "deadlines, external effects, limit keys and ordering keys need the schema of agentq 0.5.0",
                "Run ALTER EXTENSION agentq UPDATE.",
            ));
        }
        Ok(terms)
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
        row
    }
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
