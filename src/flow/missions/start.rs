//! Starting a mission: the caller's transaction writes its rows, and makes jobs of its first steps.

use super::ended::{EndedSteps, StepEnd};
use super::insert::{self, Taken, Target};
use super::run::Run;
use super::{check, finalize, fresh_status, shown_status};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::rules::Rulebook;
use crate::queue::settings::CHECKPOINT_MAX_BYTES;
use agentq_core::context::Context;
use agentq_core::mission::status::MissionStatus;
use agentq_core::mission::template::Template;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("start.sql": MISSION_INSERT, MISSION_BY_KEY);

/// What a mission may be started with beside its template.
#[derive(Default)]
pub struct Start {
    /// None: a new one.
    pub id: Option<Uuid>,
    /// None: that of the template.
    pub title: Option<String>,
    pub source: Option<String>,
    pub command_id: Option<Uuid>,
    pub policy_snapshot: Option<Value>,
    /// Its trace and its correlation.
    pub context: Context,
    pub idempotency_key: Option<String>,
    /// None: the role that opened the session.
    pub actor: Option<String>,
    /// What steps read as $.input.
    pub input: Option<Jsonb>,
    /// It waits for fn_mission_resume.
    pub paused: bool,
    pub timeout_seconds: Option<f64>,
    /// The step whose work it is, and how deep that makes it.
    pub parent_step: Option<Uuid>,
    /// The item of that step's list.
    pub parent_item: Option<i32>,
    pub depth: i32,
    /// The mission and the step from which it is forked, and what is taken over.
    pub forked: Option<(Uuid, String)>,
    pub taken: Vec<Option<Taken>>,
    /// The mission of which it does what is to be done in any case.
    pub finally_of: Option<Uuid>,
}

/// What came of starting a mission.
pub struct Submitted {
    pub mission_id: Uuid,
    /// Another mission has the key: this is that one's id.
    pub duplicate: bool,
    /// Steps in it, or around it, that have ended at once.
    pub ended: Vec<StepEnd>,
}

/// Starts a mission, or says what is wrong with its template. If another mission has its key, the answer is that one's id.
pub fn start(db: &Db, template: &Value, terms: Start, now: Micros) -> Result<Uuid, Refusal> {
    let template = Jsonb::from_value(template.clone());
    let read = check::read(&Rulebook::current(), template)?;
    Ok(submit(db, &read, template, &terms, now).mission_id)
}

/// Starts a mission whose template has been read.
pub fn submit(db: &Db, template: &Template<'_>, value: Jsonb, terms: &Start, now: Micros) -> Submitted {
    let mission_id = terms.id.unwrap_or_else(new_id);
    let timeout = [template.timeout_seconds, terms.timeout_seconds].into_iter().flatten().reduce(f64::min);
    let deadline = timeout.map(|seconds| timestamp(now + (seconds * 1e6) as i64));
    let actor = terms.actor.clone().unwrap_or_else(actor);
    let title = terms.title.as_deref().or(template.title.as_deref());
    let (forked_from, forked_step) = terms.forked.clone().unzip();
    let snapshot = terms.policy_snapshot.clone().map(Jsonb::from_value);
    let args = [
        mission_id.into(),
        MissionStatus::first(terms.paused).name().into(),
        title.into(),
        value.into(),
        (template.steps.len() as i32).into(),
        terms.depth.into(),
        terms.parent_step.into(),
        forked_from.into(),
        forked_step.into(),
        terms.command_id.into(),
        terms.source.as_deref().into(),
        actor.as_str().into(),
        terms.context.correlation_id.as_deref().into(),
        terms.context.trace_id.as_deref().into(),
        snapshot.into(),
        terms.input.into(),
        terms.idempotency_key.as_deref().into(),
        template.mode.into(),
        deadline.into(),
        timestamp(now).into(),
        terms.paused.into(),
        terms.context.traceparent.as_deref().into(),
        terms.finally_of.into(),
        terms.parent_item.into(),
    ];
    // Waits for a session that is starting one with the same key.
    if db.run(&MISSION_INSERT, &args).is_empty() {
        let other = db.run(&MISSION_BY_KEY, &[terms.idempotency_key.as_deref().into()]);
        let mission_id = if other.is_empty() { keeps_changing(terms) } else { other.only() };
        return Submitted { mission_id, duplicate: true, ended: Vec::new() };
    }
    let into = Target { mission_id, depth: terms.depth, template, taken: &terms.taken, paused: terms.paused };
    let decided = insert::steps(&into, now);
    let what = json!({"title": title, "steps": template.steps.len(), "source": terms.source});
    finalize::tell(db, "mission.started", mission_id, what, now);
    let (command, mission) = (terms.command_id.map(|id| id.to_string()), Some(mission_id.to_string()));
    let context = Context { command_id: command, mission_id: mission, ..terms.context.clone() };
    let mut ended = Run::new(db, mission_id, terms.depth, now).with_context(context).take_up(decided);
    // The mission around it, if there is one, goes through them when it has written its own rows.
    if terms.parent_step.is_none() {
        EndedSteps::settle(db, ended.drain(..), now);
    }
    Submitted { mission_id, duplicate: false, ended }
}

/// Raises the error for a key whose mission cannot be read: somebody has removed it, or this transaction does not see it.
fn keeps_changing(terms: &Start) -> ! {
    crate::error::raise(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!("another mission with the key \"{}\" came in between", terms.idempotency_key.as_deref().unwrap_or("")),
        "Run the transaction again.",
    )
}

const OPTIONS: [&str; 9] = [
    "title",
    "idempotency_key",
    "source",
    "correlation_id",
    "trace_id",
    "traceparent",
    "input",
    "paused",
    "timeout_seconds",
];

/// Reads what a caller may ask for.
fn options(options: Reader<'_>) -> Result<Start, Refusal> {
    let text = |key: &str| options.member(key).name(input::LONGEST_KEY).map(|text| text.map(str::to_owned));
    let input = options.member("input").reader().map(|input| Jsonb::from_item(input.item()));
    // Every path of the mission may read it.
    let most = Rulebook::current().checkpoint_max_bytes;
    if let Some(input) = input.filter(|input| input.size() as i64 > most) {
        return Err(payload::refuse_too_large("input", input.size(), most, CHECKPOINT_MAX_BYTES));
    }
    let timeout = options.member("timeout_seconds").hint("For example: {\"timeout_seconds\": 3600}.");
    Ok(Start {
        title: text("title")?,
        idempotency_key: text("idempotency_key")?,
        source: text("source")?,
        context: Context::given(|key| Ok(options.member(key)))?,
        input,
        paused: options.member("paused").flag()?.unwrap_or(false),
        timeout_seconds: timeout.seconds(0.000_001..=315_360_000.0)?,
        ..Start::default()
    })
}

/// What the mission of a schedule may be started with: no key, which would start it once for ever, and no source.
pub fn scheduled_options(given: Reader<'_>) -> Result<Start, Refusal> {
    let accepted: Vec<&str> = OPTIONS.into_iter().filter(|key| !["idempotency_key", "source"].contains(key)).collect();
    given.object(&accepted)?;
    options(given)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_start(p_template: Option<Jsonb>, p_options: default!(Option<Jsonb>, "NULL")) -> Jsonb {
    bounded!(fn_mission_start: p_template, p_options);
    answer::if_on(|rules| {
        let value = required("p_template", p_template);
        let template = check::read(rules, value).or_raise();
        let terms = json::options(p_options, &OPTIONS).and_then(options).or_raise();
        template.check_key(terms.idempotency_key.as_deref()).or_raise();
        db::answer(|db| {
            let submitted = submit(db, &template, value, &terms, clock::now());
            started(db, &submitted, "started")
        })
    })
}

/// The answer about a mission that was started, or has been before.
pub fn started(db: &Db, submitted: &Submitted, code: &str) -> Jsonb {
    let status = if submitted.duplicate {
        shown_status(db, submitted.mission_id)
    } else {
        fresh_status(db, submitted.mission_id)
    };
    Jsonb::from_value(json!({
        "ok": true, "code": if submitted.duplicate { "duplicate" } else { code }, "duplicate": submitted.duplicate,
        "mission_id": submitted.mission_id.to_string(), "status": status,
    }))
}
