//! Writing events.
//!
//! An event belongs to the transaction that writes it. One with a dedupe key first takes its key: of
//! two sessions at once one wins, and the other waits for it and is told of its event.

use super::wake;
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::{new_id, parse_id};
use crate::base::settings::{PAYLOAD_MAX_BYTES, Settings};
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required, run_again};
use crate::json::Jsonb;
use agentq_core::context::Context;
use agentq_core::event::{AgentStep, ORIGINS, Options};
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("emit.sql": EMIT, EMIT_FULL, KEY_TAKE, KEY_HOLDER);

/// How often it looks again for a key that somebody has just freed.
const TRIES: usize = 10;

/// Writes down what agentq itself has to say, with the caller's transaction.
pub fn emit(db: &Db, kind: &str, subject: &str, payload: Value, now: Micros) {
    let (payload, by) = (Jsonb::from_value(payload), actor());
    let args =
        [new_id().into(), timestamp(now).into(), kind.into(), subject.into(), payload.into(), by.as_str().into()];
    db.run(&EMIT, &args);
    wake::note(db);
}

/// Writes down what a room below has to say to those who will ask who did what.
pub fn audit(db: &Db, kind: &str, (what, id): (&str, &str), payload: Value, now: Micros) {
    Event::new(kind, id, payload).audit().target(what, id).emit(db, now);
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
    context: Context,
    /// Whether agentq says it, and not a caller.
    is_own: bool,
    /// None: whoever acts in this session.
    actor: Option<&'a str>,
    target_type: Option<&'a str>,
    target_id: Option<&'a str>,
    agent: AgentStep,
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
            context: Context::default(),
            is_own: true,
            actor: None,
            target_type: None,
            target_id: None,
            agent: AgentStep::default(),
        }
    }

    /// It is kept longer than others, to say who did what.
    pub fn audit(mut self) -> Self {
        self.purpose = "audit";
        self
    }

    /// What it belongs to.
    pub fn context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// Who caused it, if that is not whoever acts in this session.
    pub fn actor(mut self, actor: Option<&'a str>) -> Self {
        self.actor = actor;
        self
    }

    /// What it happened to: the kind of thing, and its id.
    pub fn target(mut self, kind: &'a str, id: &'a str) -> Self {
        (self.target_type, self.target_id) = (Some(kind), Some(id));
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
        let part = |id: &Option<String>| id.as_deref().and_then(parse_id);
        let (context, agent, whoever) = (&self.context, self.agent, actor());
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
                context.correlation_id.as_deref().into(),
                context.trace_id.as_deref().into(),
                part(&context.mission_id).into(),
                ORIGINS[usize::from(!self.is_own)].into(),
                self.actor.unwrap_or(&whoever).into(),
                self.target_type.into(),
                self.target_id.into(),
                part(&context.command_id).into(),
                part(&context.agent_run_id).into(),
                part(&context.swarm_run_id).into(),
                agent.step_index.into(),
                agent.tool_name.as_deref().into(),
                agent.latency_ms.into(),
                agent.token_usage.map(Jsonb::from_value).into(),
                agent.cost_units.into(),
            ],
        );
        wake::note(db);
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
    bounded!(fn_event_emit: p_kind, p_subject, p_payload, p_options);
    let kind = input::name("p_kind", required("p_kind", p_kind), input::LONGEST_NAME).or_raise();
    let subject = input::name("p_subject", required("p_subject", p_subject), input::LONGEST_KEY).or_raise();
    let payload = p_payload.unwrap_or_else(Jsonb::empty_object);
    check_payload(payload, Settings::current().payload_max_bytes).or_raise();
    let options = match p_options {
        None => Options::default(),
        Some(options) => options.reader("p_options").and_then(|options| Options::read(&options)).or_raise(),
    };
    let (code, id) = match db::connect(|db| emit_given(db, (kind, subject, payload), &options, clock::now())) {
        Emitted::New(id) => ("emitted", id),
        Emitted::Duplicate(id) => ("duplicate", id),
    };
    Jsonb::from_value(json!({"ok": true, "code": code, "event_id": id.to_string()}))
}

/// Writes down what a caller has to say.
pub fn emit_given(db: &Db, (kind, subject, payload): (&str, &str, Jsonb), options: &Options, now: Micros) -> Emitted {
    let event = Event {
        purpose: options.purpose.as_deref().unwrap_or("event"),
        source: options.source.as_deref(),
        tags: options.tags.clone(),
        dedupe_key: options.dedupe_key.as_deref(),
        context: options.context.clone(),
        is_own: false,
        target_type: options.target_type.as_deref(),
        target_id: options.target_id.as_deref(),
        agent: options.agent.clone(),
        ..Event::of(kind, subject, payload)
    };
    event.emit(db, now)
}
