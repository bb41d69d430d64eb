//! Writing events.
//!
//! An event belongs to the transaction that writes it. One with a dedupe key first takes its key: of
//! two sessions at once one wins, and the other waits for it and is told of its event.

use super::wake;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::base::settings::{PAYLOAD_MAX_BYTES, Settings};
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required, run_again};
use crate::json::Jsonb;
use agentq_core::event::Options;
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("emit.sql": EMIT, EMIT_FULL, KEY_TAKE, KEY_HOLDER);

/// How often it looks again for a key that somebody has just freed.
const TRIES: usize = 10;

/// Writes an event down, with the caller's transaction.
pub fn emit(db: &Db, kind: &str, subject: &str, payload: Value, now: Micros) {
    let payload = Jsonb::from_value(payload);
    db.run(&EMIT, &[new_id().into(), timestamp(now).into(), kind.into(), subject.into(), payload.into()]);
    wake::note();
}

/// An event with more than a kind, a subject and a payload.
pub struct Event<'a> {
    kind: &'a str,
    subject: &'a str,
    payload: Jsonb,
    purpose: &'a str,
    source: Option<&'a str>,
    tags: Vec<String>,
    dedupe_key: Option<&'a str>,
    correlation_id: Option<Uuid>,
    trace_id: Option<&'a str>,
    mission_id: Option<Uuid>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emitted {
    New(Uuid),
    /// There is one with its dedupe key, and nothing was written.
    Duplicate(Uuid),
}

impl<'a> Event<'a> {
    pub fn new(kind: &'a str, subject: &'a str, payload: Value) -> Event<'a> {
        Event::of(kind, subject, Jsonb::from_value(payload))
    }

    fn of(kind: &'a str, subject: &'a str, payload: Jsonb) -> Event<'a> {
        Event {
            kind,
            subject,
            payload,
            purpose: "event",
            source: None,
            tags: Vec::new(),
            dedupe_key: None,
            correlation_id: None,
            trace_id: None,
            mission_id: None,
        }
    }

    /// event, audit or agent_step.
    pub fn purpose(mut self, purpose: &'a str) -> Self {
        self.purpose = purpose;
        self
    }

    pub fn source(mut self, source: Option<&'a str>) -> Self {
        self.source = source;
        self
    }

    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    pub fn dedupe_key(mut self, key: Option<&'a str>) -> Self {
        self.dedupe_key = key;
        self
    }

    pub fn correlation_id(mut self, id: Option<Uuid>) -> Self {
        self.correlation_id = id;
        self
    }

    pub fn trace_id(mut self, id: Option<&'a str>) -> Self {
        self.trace_id = id;
        self
    }

    pub fn mission_id(mut self, id: Option<Uuid>) -> Self {
        self.mission_id = id;
        self
    }

    /// Writes it down, with the caller's transaction, unless there is one with its key.
    pub fn emit(self, db: &Db, now: Micros) -> Emitted {
        let (id, at) = (new_id(), timestamp(now));
        if let Some(key) = self.dedupe_key
            && let Some(first) = take_key(db, key, id, self.purpose, at)
        {
            return Emitted::Duplicate(first);
        }
        db.run(
            &EMIT_FULL,
            &[
                id.into(),
                at.into(),
                self.kind.into(),
                self.subject.into(),
                self.payload.into(),
                self.purpose.into(),
                self.source.into(),
                self.tags.into(),
                self.dedupe_key.into(),
                self.correlation_id.into(),
                self.trace_id.into(),
                self.mission_id.into(),
            ],
        );
        wake::note();
        Emitted::New(id)
    }
}

/// Takes a key for an event, or says which event has it.
fn take_key(db: &Db, key: &str, id: Uuid, purpose: &str, at: TimestampWithTimeZone) -> Option<Uuid> {
    for _ in 0..TRIES {
        if !db.run(&KEY_TAKE, &[key.into(), id.into(), purpose.into(), at.into()]).is_empty() {
            return None;
        }
        let holder = db.run(&KEY_HOLDER, &[key.into()]);
        if !holder.is_empty() {
            return Some(holder.only());
        }
    }
    run_again(format!("the dedupe key \"{}\" keeps changing hands", agentq_core::error::shown(key)))
}

/// An id in an option.
pub fn id(what: &str, text: Option<&str>) -> Result<Option<Uuid>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let id = uuid::Uuid::parse_str(text).map_err(|_| {
        Refusal::new(
            format!("p_options.{what} must be a uuid, not \"{}\"", agentq_core::error::shown(text)),
            "Use the id as agentq answers it, such as 0190c1d2-0000-7000-8000-000000000001.",
        )
    })?;
    Ok(Some(Uuid::from_bytes(*id.as_bytes())))
}

fn check_payload(value: Jsonb, limit: i64) -> Result<(), Refusal> {
    if !value.is_object() {
        return Err(payload::refuse_not_object("p_payload", "this"));
    }
    if value.size() as i64 > limit {
        return Err(payload::refuse_too_large("p_payload", value.size(), limit, PAYLOAD_MAX_BYTES));
    }
    // Whoever reads the log must be able to read it.
    value.reader("p_payload").map(drop)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_event_emit(
    p_kind: Option<&str>,
    p_subject: Option<&str>,
    p_payload: default!(Option<Jsonb>, "'{}'"),
    p_options: default!(Option<Jsonb>, "'{}'"),
) -> Jsonb {
    let kind = input::name("p_kind", required("p_kind", p_kind), input::LONGEST_NAME).or_raise();
    let subject = input::name("p_subject", required("p_subject", p_subject), input::LONGEST_KEY).or_raise();
    let payload = p_payload.unwrap_or_else(Jsonb::empty_object);
    check_payload(payload, Settings::current().payload_max_bytes).or_raise();
    let options = match p_options {
        None => Options::default(),
        Some(options) => options.reader("p_options").and_then(|options| Options::read(&options)).or_raise(),
    };
    let (correlation_id, mission_id) = (options.correlation_id.as_deref(), options.mission_id.as_deref());
    let event = Event::of(kind, subject, payload)
        .purpose(options.purpose.as_deref().unwrap_or("event"))
        .source(options.source.as_deref())
        .dedupe_key(options.dedupe_key.as_deref())
        .correlation_id(id("correlation_id", correlation_id).or_raise())
        .trace_id(options.trace_id.as_deref())
        .mission_id(id("mission_id", mission_id).or_raise())
        .tags(options.tags.iter().cloned());
    let (code, id) = match db::connect(|db| event.emit(db, clock::now())) {
        Emitted::New(id) => ("emitted", id),
        Emitted::Duplicate(id) => ("duplicate", id),
    };
    Jsonb::from_value(json!({"ok": true, "code": code, "event_id": id.to_string()}))
}
