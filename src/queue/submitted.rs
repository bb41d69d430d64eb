//! One job as a batch or a schedule hands it in: read from JSON, with the same rules as a single
//! enqueue. A batch is read where the server has put it, without a copy.

use super::change::whole;
use super::enqueue::{check_signal, find_queue, moment, parse_id};
use super::new_job::NewJob;
use super::terms::{self, Terms};
use crate::base::settings::Settings;
use crate::json::Jsonb;
use agentq_core::jsonb::{Container, Item};
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use serde_json::Map;
use std::rc::Rc;

const JOB_KEYS: [&str; 20] = [
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

/// Reads a job, which is to have this id, or says what is wrong with it.
pub fn read<'a>(settings: &Settings, id: Uuid, item: Item<'a>) -> Result<NewJob<'a>, Refusal> {
    let Item::Container(bytes) = item else {
        return Err(payload::refuse_not_object("a job", "this"));
    };
    let job = Container::new(bytes);
    if !job.is_object() {
        return Err(payload::refuse_not_object("a job", "this"));
    }
    let payload = payload_of(job, settings.payload_max_bytes)?;
    input::known_options("a job", job.keys().map(String::from_utf8_lossy), &JOB_KEYS)?;
    let kind = input::name("job_kind", text(job, "job_kind")?.unwrap_or_default(), input::LONGEST_NAME)?;
    let key = text(job, "idempotency_key")?;
    let actor = text(job, "actor")?;
    let queue = find_queue(settings, text(job, "queue")?.unwrap_or(input::DEFAULT_QUEUE))?;
    let number = |key: &str| present(job, key).map(|item| whole(key, &Jsonb::from_item(item).parse(key)?)).transpose();
    let priority = number("priority")?.or(queue.priority).unwrap_or(input::DEFAULT_PRIORITY);
    let max_attempts = number("max_attempts")?.unwrap_or_else(|| terms::max_attempts(settings, queue, kind));
    terms::check_key(settings, queue, kind, key)?;
    let asked_at = text(job, "scheduled_at")?.map(|at| moment("scheduled_at", at)).transpose()?;
    let mut given = Map::new();
    for key in terms::KEYS {
        if let Some(item) = present(job, key) {
            given.insert(key.to_owned(), Jsonb::from_item(item).parse(key)?);
        }
    }
    let terms = Terms::read(settings, |key| given.get(key).cloned())?;
    terms.check(asked_at)?;
    Ok(NewJob {
        id,
        queue: Rc::clone(queue),
        kind,
        key: key.map(|key| input::name("idempotency_key", key, input::LONGEST_KEY)).transpose()?,
        actor: actor.map(|actor| input::name("actor", actor, input::LONGEST_NAME)).transpose()?,
        source_ref: reference(job, "source_ref")?,
        target_ref: reference(job, "target_ref")?,
        payload_ref: reference(job, "payload_ref")?,
        priority: input::priority(priority)?,
        max_attempts: input::max_attempts(max_attempts)?,
        asked_at,
        run_id: text(job, "run_id")?.map(run_id).transpose()?,
        payload,
        terms,
    })
}

fn payload_of(job: Container<'_>, max_bytes: i64) -> Result<Jsonb, Refusal> {
    let what = "payload_json";
    let payload = match present(job, what) {
        None => return Ok(Jsonb::empty_object()),
        Some(Item::Container(bytes)) => Jsonb::from_container(bytes),
        Some(item) => return Err(payload::refuse_not_object(what, item.kind())),
    };
    check_signal(what, payload, max_bytes)?;
    Ok(payload)
}

fn present<'a>(job: Container<'a>, key: &str) -> Option<Item<'a>> {
    job.get(key).filter(|item| *item != Item::Null)
}

fn text<'a>(job: Container<'a>, key: &str) -> Result<Option<&'a str>, Refusal> {
    match present(job, key) {
        None => Ok(None),
        Some(Item::Text(text)) => std::str::from_utf8(text).map(Some).map_err(|_| {
            Refusal::new(format!("{key} is not in UTF-8"), "agentq reads batches in databases whose encoding is UTF8.")
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

fn reference<'a>(job: Container<'a>, key: &str) -> Result<Option<&'a str>, Refusal> {
    input::reference(key, text(job, key)?)
}

fn run_id(text: &str) -> Result<Uuid, Refusal> {
    parse_id(text).ok_or_else(|| {
        let shown = agentq_core::error::shown(text);
        Refusal::new(format!("run_id \"{shown}\" is not a uuid"), "Leave it out, or give a uuid.")
    })
}
