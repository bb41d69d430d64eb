//! One job as a batch or a schedule hands it in: read from JSON, with the same rules as a single
//! enqueue. A batch is read where the server has put it, without a copy.

use super::job_options::{self, JobOptions};
use super::new_job::NewJob;
use crate::base::clock::parse_moment;
use crate::base::ids::parse_id;
use crate::base::signal::check_signal;
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use agentq_core::jsonb::{Container, Item};
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use serde_json::Map;
use std::rc::Rc;

pub const JOB_KEYS: [&str; 20] = [
    "job_kind",
    "idempotency_key",
    "actor",
    "payload_json",
    "source_ref",
    "target_ref",
    "payload_ref",
    "priority",
    "scheduled_at",
    "max_attempts",
    "run_id",
    "queue",
    "start_by",
    "finish_by",
    "external_effects",
    "limit_keys",
    "ordering_key",
    "cost",
    "fairness_key",
    "requires",
];

/// What a job was given, by key: read once, since most jobs have few of the keys that there are.
struct Given<'a> {
    values: [(&'static str, Item<'a>); JOB_KEYS.len()],
    count: usize,
    /// Whether it has a key that no job has.
    unknown: bool,
}

impl<'a> Given<'a> {
    fn to(job: Container<'a>) -> Self {
        let mut given = Given { values: [("", Item::Null); JOB_KEYS.len()], count: 0, unknown: false };
        for (key, value) in job.members() {
            match JOB_KEYS.iter().find(|known| known.as_bytes() == key) {
                None => given.unknown = true,
                Some(_) if value == Item::Null => {}
                Some(known) => {
                    given.values[given.count] = (known, value);
                    given.count += 1;
                }
            }
        }
        given
    }

    fn get(&self, key: &str) -> Option<Item<'a>> {
        self.values[..self.count].iter().find(|(given, _)| *given == key).map(|(_, value)| *value)
    }

    fn has_options(&self) -> bool {
        self.values[..self.count].iter().any(|(given, _)| job_options::KEYS.contains(given))
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        match self.get(key) {
            None => Ok(None),
            Some(Item::Text(text)) => std::str::from_utf8(text).map(Some).map_err(|_| {
                Refusal::new(
                    format!("{key} is not in UTF-8"),
                    "agentq reads batches in databases whose encoding is UTF8.",
                )
            }),
            Some(other) => {
                let shown = Jsonb::from_item(other).parse(key)?.to_string();
                Err(Refusal::new(
                    format!("{key} must be a text, not {}", agentq_core::error::shown(&shown)),
                    format!("Put {key} in double quotes."),
                ))
            }
        }
    }
}

/// Reads a job, which is to have this id, or says what is wrong with it.
pub fn read<'a>(rules: &Rulebook, id: Uuid, item: Item<'a>) -> Result<NewJob<'a>, Refusal> {
    let Item::Container(bytes) = item else {
        return Err(payload::refuse_not_object("a job", "this"));
    };
    let job = Container::new(bytes);
    if !job.is_object() {
        return Err(payload::refuse_not_object("a job", "this"));
    }
    let given = Given::to(job);
    let payload = payload_of(&given, rules.payload_max_bytes)?;
    if given.unknown {
        input::known_options("a job", job.keys().map(String::from_utf8_lossy), &JOB_KEYS)?;
    }
    let kind = input::name("job_kind", given.text("job_kind")?.unwrap_or_default(), input::LONGEST_NAME)?;
    let key = given.text("idempotency_key")?;
    let actor = given.text("actor")?;
    let queue = rules.queue(given.text("queue")?.unwrap_or(input::DEFAULT_QUEUE))?;
    let number =
        |key: &str| given.get(key).map(|item| input::whole(key, &Jsonb::from_item(item).parse(key)?)).transpose();
    let priority = number("priority")?.or(queue.priority).unwrap_or(input::DEFAULT_PRIORITY);
    let max_attempts = number("max_attempts")?.unwrap_or_else(|| rules.max_attempts_of(queue, kind));
    job_options::check_key(rules, queue, kind, key)?;
    let asked_at = given.text("scheduled_at")?.map(|at| parse_moment("scheduled_at", at)).transpose()?;
    let options = match given.has_options() {
        true => read_options(&given)?,
        false => JobOptions::default(),
    };
    options.check(asked_at)?;
    Ok(NewJob {
        id,
        queue: Rc::clone(queue),
        kind,
        key: key.map(|key| input::name("idempotency_key", key, input::LONGEST_KEY)).transpose()?,
        actor: actor.map(|actor| input::name("actor", actor, input::LONGEST_NAME)).transpose()?,
        source_ref: reference(&given, "source_ref")?,
        target_ref: reference(&given, "target_ref")?,
        payload_ref: reference(&given, "payload_ref")?,
        priority: input::priority(priority)?,
        max_attempts: input::max_attempts(max_attempts)?,
        asked_at,
        run_id: given.text("run_id")?.map(run_id).transpose()?,
        payload,
        options,
    })
}

fn payload_of(given: &Given<'_>, max_bytes: i64) -> Result<Jsonb, Refusal> {
    given.get("payload_json").map_or_else(|| Ok(Jsonb::empty_object()), |item| checked_payload(item, max_bytes))
}

/// The payload of a job, or what is wrong with it.
pub fn checked_payload(item: Item<'_>, max_bytes: i64) -> Result<Jsonb, Refusal> {
    let what = "payload_json";
    let Item::Container(bytes) = item else {
        return Err(payload::refuse_not_object(what, item.kind()));
    };
    let payload = Jsonb::from_container(bytes);
    check_signal(what, payload, max_bytes)?;
    Ok(payload)
}

fn reference<'a>(given: &Given<'a>, key: &str) -> Result<Option<&'a str>, Refusal> {
    input::reference(key, given.text(key)?)
}

/// An option that cannot be read is refused, and not passed over.
fn read_options(given: &Given<'_>) -> Result<JobOptions, Refusal> {
    let mut read = Map::new();
    for key in job_options::KEYS {
        if let Some(item) = given.get(key) {
            read.insert(key.to_owned(), Jsonb::from_item(item).parse(key)?);
        }
    }
    JobOptions::read(|key| read.get(key).cloned())
}

fn run_id(text: &str) -> Result<Uuid, Refusal> {
    parse_id(text).ok_or_else(|| {
        let shown = agentq_core::error::shown(text);
        Refusal::new(format!("run_id \"{shown}\" is not a uuid"), "Leave it out, or give a uuid.")
    })
}
