//! Proposals: commands that await their decision.
//!
//! One transaction makes a proposal: it takes the key, reads and notes the policies, and passes and counts the gate. If
//! no person is needed, it also approves the proposal and starts its mission. A decision locks the command's row: of
//! two at once, one decides, and the other is told.
//!
//! Locks, in this order: the key of the command (inserted), the day's counters, then what a mission
//! takes. A decision: the command's row, then what a mission takes.

use super::audit;
use super::proposal_gate::Rules;
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::flow::missions;
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::settings::CHECKPOINT_MAX_BYTES;
use agentq_core::context::{Context, GIVEN};
use agentq_core::error::shown;
use agentq_core::policy::{REACTION_MATRIX, Risk, SOURCES};
use agentq_core::proposal::{self, Stopped};
use agentq_core::reader::Member;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("proposals.sql": COMMAND_BY_KEY, COMMAND_MAKE, COMMAND_LOCK, COMMAND_DECIDE, PROPOSAL_GET);

/// Decided by the rules alone.
const POLICY: &str = "policy";

/// What somebody proposes.
pub struct New<'a> {
    /// None: no second proposal can be a duplicate of it.
    pub dedupe_key: Option<&'a str>,
    pub source: &'a str,
    pub template: &'a Value,
    pub risk: Option<Risk>,
    pub requested_by: &'a str,
    pub origin: Option<Origin>,
    /// Its trace and its correlation.
    pub context: Context,
}

/// The reaction that a proposal comes from.
pub struct Origin {
    pub reaction_id: Uuid,
    pub depth: i32,
    /// The version of the reaction matrix, and the pattern.
    pub matrix: Value,
}

/// What became of it.
pub struct Made {
    /// pending, auto_approved, rejected or duplicate.
    pub code: &'static str,
    pub proposal_id: Uuid,
    pub status: String,
    pub mission_id: Option<Uuid>,
    pub reason: Option<String>,
}

impl Made {
    fn answer(&self) -> Jsonb {
        let mission = self.mission_id.map(|id| id.to_string());
        Jsonb::from_value(
            json!({"ok": self.code != "rejected", "code": self.code, "proposal_id": self.proposal_id.to_string(),
            "status": self.status, "mission_id": mission, "reason": self.reason}),
        )
    }
}

/// Makes a proposal, or finds the one with its key.
pub fn create(db: &Db, new: &New<'_>, now: Micros) -> Result<Made, Refusal> {
    let id = new_id();
    let own_key = id.to_string();
    let key = new.dedupe_key.unwrap_or(&own_key);
    // A template that cannot be read is refused, whoever has its key.
    let bare = proposal::bare(new.template);
    missions::check_with_key(&bare, new.dedupe_key)?;
    if let Some(made) = by_key(db, key) {
        return Ok(made);
    }
    let rules = Rules::in_force(db)?;
    let kinds = proposal::step_kinds(new.template);
    let auto = proposal::auto_approvable(&rules.auto_approve, &kinds, new.risk, new.source);
    let mut snapshot = rules.snapshot();
    if let Some(origin) = &new.origin {
        snapshot[REACTION_MATRIX] = origin.matrix.clone();
    }
    let title = bare.get("title").and_then(Value::as_str);
    let depth = new.origin.as_ref().map_or(0, |origin| origin.depth);
    let args = [
        id.into(),
        key.into(),
        new.source.into(),
        title.into(),
        new.risk.map(Risk::name).into(),
        Jsonb::from_value(new.template.clone()).into(),
        auto.as_ref().err().map(String::as_str).into(),
        Jsonb::from_value(snapshot.clone()).into(),
        new.requested_by.into(),
        new.origin.as_ref().map(|origin| origin.reaction_id).into(),
        depth.into(),
        timestamp(now).into(),
        new.context.trace_id.as_deref().into(),
        new.context.traceparent.as_deref().into(),
        new.context.correlation_id.as_deref().into(),
    ];
    // Waits for a session that is inserting the same key.
    if db.run(&COMMAND_MAKE, &args).is_empty() {
        return Ok(by_key(db, key).unwrap_or_else(|| {
            raise(
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                format!("another transaction has just proposed \"{}\"", shown(key)),
                "Try again in a new transaction.",
            )
        }));
    }
    let (title, source) = (title.map(str::to_owned), new.source.to_owned());
    let mut command = Command { id, title, source, depth, snapshot, context: new.context.clone() };
    if let Err(Stopped { gate, reason }) = rules.pass(db, id, new.template, new.source, now) {
        command.decide(db, "rejected", POLICY, Some(&reason), None, now);
        command.tell(db, "rejected", POLICY, json!({"gate": gate, "reason": reason}), None, now);
        return Ok(command.made("rejected", None, Some(reason)));
    }
    if let Err(reason) = auto {
        command.tell(db, "pending", new.requested_by, json!({"reason": reason}), None, now);
        return Ok(command.made("pending", None, Some(reason)));
    }
    let mission = command.start(db, &rules, new.template, now)?;
    command.decide(db, "auto_approved", POLICY, None, Some(mission), now);
    command.tell(db, "auto_approved", POLICY, json!({}), Some(mission), now);
    Ok(command.made("auto_approved", Some(mission), None))
}

fn by_key(db: &Db, key: &str) -> Option<Made> {
    let row = db.run(&COMMAND_BY_KEY, &[key.into()]);
    (!row.is_empty()).then(|| Made {
        code: "duplicate",
        proposal_id: row.must("command_id"),
        status: row.must("decision"),
        mission_id: row.get("mission_id"),
        reason: row.get("reason"),
    })
}

/// A command that this transaction has made or locked.
struct Command {
    id: Uuid,
    title: Option<String>,
    source: String,
    depth: i32,
    snapshot: Value,
    context: Context,
}

impl Command {
    /// Starts what was approved, as the policies in force ask.
    fn start(&mut self, db: &Db, rules: &Rules, template: &Value, now: Micros) -> Result<Uuid, Refusal> {
        self.snapshot = rules.renewed(std::mem::take(&mut self.snapshot));
        let template = proposal::mission_template(template, &rules.worker_policy);
        let terms = missions::Start {
            title: self.title.clone(),
            source: Some("proposal".to_owned()),
            command_id: Some(self.id),
            policy_snapshot: Some(self.snapshot.clone()),
            context: self.context.clone(),
            ..missions::Start::default()
        };
        missions::start(db, &template, terms, now)
    }

    fn decide(&self, db: &Db, decision: &str, by: &str, reason: Option<&str>, mission: Option<Uuid>, now: Micros) {
        let args = [
            self.id.into(),
            decision.into(),
            by.into(),
            reason.into(),
            timestamp(now).into(),
            mission.into(),
            Jsonb::from_value(self.snapshot.clone()).into(),
        ];
        db.run(&COMMAND_DECIDE, &args);
    }

    fn tell(&self, db: &Db, status: &str, by: &str, more: Value, mission: Option<Uuid>, now: Micros) {
        let mut payload = json!({"status": status, "title": self.title, "source": self.source, "by": by,
            "depth": self.depth, "mission_id": mission.map(|id| id.to_string())});
        if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
            payload.extend(more);
        }
        let id = self.id.to_string();
        let (mission_id, command_id) = (mission.map(|id| id.to_string()), Some(id.clone()));
        let context = Context { mission_id, command_id, ..self.context.clone() };
        audit(db, &format!("proposal.{status}"), ("proposal", &id), payload, context, now);
    }

    fn made(&self, status: &'static str, mission_id: Option<Uuid>, reason: Option<String>) -> Made {
        Made { code: status, proposal_id: self.id, status: status.to_owned(), mission_id, reason }
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_proposal_create(
    p_dedupe_key: Option<&str>,
    p_source: Option<&str>,
    p_template: Option<Jsonb>,
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_proposal_create: p_dedupe_key, p_source, p_template, p_options);
    answer::if_on(|rules| {
        let key = p_dedupe_key.map(|key| input::key("p_dedupe_key", key).or_raise());
        let source = check_source(required("p_source", p_source));
        let given = required("p_template", p_template);
        check_size(given, rules.checkpoint_max_bytes);
        let template = given.parse("p_template").or_raise();
        let accepted = [&["risk_level", "requested_by"], GIVEN.as_slice()].concat();
        let options = json::options(p_options, &accepted).or_raise();
        let context = Context::given(|key| Ok(options.member(key))).or_raise();
        let risk = proposal::risk(&template, options.member("risk_level")).or_raise();
        let by = options.member("requested_by").name(input::LONGEST_NAME).or_raise();
        let by = by.map_or_else(actor, str::to_owned);
        let new = New { dedupe_key: key, source, template: &template, risk, requested_by: &by, origin: None, context };
        db::answer(|db| create(db, &new, clock::now()).or_raise().answer())
    })
}

fn check_source(source: &str) -> &str {
    input::one_of("p_source", source, &SOURCES).or_raise()
}

/// As large as a checkpoint may be.
fn check_size(template: Jsonb, most: i64) {
    if template.size() as i64 > most {
        Err(agentq_core::payload::refuse_too_large("p_template", template.size(), most, CHECKPOINT_MAX_BYTES))
            .or_raise()
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_proposal_gate(p_template: Option<Jsonb>, p_source: default!(Option<&str>, "'api'")) -> Jsonb {
    bounded!(fn_proposal_gate: p_template, p_source);
    let template = required("p_template", p_template).parse("p_template").or_raise();
    let source = check_source(p_source.unwrap_or("api"));
    // One that has no steps yet is weighed as it is: how many more proposals pass is known without them.
    if proposal::step_count(&template) > 0 {
        missions::check(&proposal::bare(&template)).or_raise();
    }
    db::answer(|db| {
        let rules = Rules::in_force(db).or_raise();
        Jsonb::from_value(match rules.preview(db, &template, source, clock::now()) {
            Ok(()) => json!({"ok": true, "code": "passed", "reason": null}),
            Err(stopped) => json!({"ok": false, "code": "rejected", "gate": stopped.gate, "reason": stopped.reason}),
        })
    })
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_proposal_is_auto_approvable(p_template: Option<Jsonb>, p_source: default!(Option<&str>, "'api'")) -> bool {
    bounded!(fn_proposal_is_auto_approvable: p_template, p_source);
    let template = required("p_template", p_template).parse("p_template").or_raise();
    let source = check_source(p_source.unwrap_or("api"));
    let risk = proposal::risk(&template, Member::ABSENT).or_raise();
    db::connect(|db| {
        let rules = Rules::in_force(db).or_raise();
        proposal::auto_approvable(&rules.auto_approve, &proposal::step_kinds(&template), risk, source).is_ok()
    })
}

#[pg_extern(immutable, strict, parallel_safe)]
fn fn_template_step_kinds(p_template: Jsonb) -> Vec<String> {
    bounded!(fn_template_step_kinds: p_template);
    let template = p_template.parse("p_template").or_raise();
    proposal::step_kinds(&template).into_iter().filter(|kind| !kind.is_empty()).collect()
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_proposal_approve(
    p_proposal_id: Option<Uuid>,
    p_by: default!(Option<&str>, "NULL"),
    p_reason: default!(Option<&str>, "NULL"),
) -> Jsonb {
    bounded!(fn_proposal_approve: p_by, p_reason);
    answer::if_on(|_| {
        let id = required("p_proposal_id", p_proposal_id);
        let (by, reason) = (decider(p_by), p_reason);
        let now = clock::now();
        decided(id, |db, mut command, template| {
            let rules = Rules::in_force(db).or_raise();
            let mission = command.start(db, &rules, template, now).or_raise();
            command.decide(db, "approved", &by, reason, Some(mission), now);
            command.tell(db, "approved", &by, json!({"reason": reason, "role": actor()}), Some(mission), now);
            command.made("approved", Some(mission), reason.map(str::to_owned))
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_proposal_reject(
    p_proposal_id: Option<Uuid>,
    p_reason: Option<&str>,
    p_by: default!(Option<&str>, "NULL"),
) -> Jsonb {
    bounded!(fn_proposal_reject: p_reason, p_by);
    answer::if_on(|_| {
        let id = required("p_proposal_id", p_proposal_id);
        let reason = input::name("p_reason", required("p_reason", p_reason), input::LONGEST_REFERENCE).or_raise();
        let by = decider(p_by);
        let now = clock::now();
        decided(id, |db, command, _| {
            command.decide(db, "rejected", &by, Some(reason), None, now);
            command.tell(db, "rejected", &by, json!({"reason": reason, "role": actor()}), None, now);
            Made { code: "rejected", ..command.made("rejected", None, Some(reason.to_owned())) }
        })
    })
}

fn decider(by: Option<&str>) -> String {
    by.map_or_else(actor, |by| input::name("p_by", by, input::LONGEST_NAME).or_raise().to_owned())
}

/// Decides about a proposal that is pending. One that is not is left as it is, and the answer says so.
fn decided(id: Uuid, made: impl FnOnce(&Db, Command, &Value) -> Made) -> Jsonb {
    // Of one that is refused no lock stays: the engine comes by.
    let decide = |db: &Db| {
        let row = db.run(&COMMAND_LOCK, &[id.into()]);
        if row.is_empty() {
            unknown(id)
        }
        let status: String = row.must("decision");
        if status != "pending" {
            let (by, mission): (Option<String>, Option<Uuid>) = (row.get("decided_by"), row.get("mission_id"));
            return Jsonb::from_value(json!({"ok": false, "code": "already_decided", "proposal_id": id.to_string(),
                "status": status, "decided_by": by, "mission_id": mission.map(|id| id.to_string()),
                "reason": row.get::<String>("reason"), "message": format!("the proposal is {status} and stays so")}));
        }
        let command = Command {
            id,
            title: row.get("title"),
            source: row.must("source"),
            depth: row.must("depth"),
            context: Context {
                trace_id: row.get("trace_id"),
                traceparent: row.get("traceparent"),
                correlation_id: row.get("correlation_id"),
                ..Context::default()
            },
            snapshot: row.must::<pgrx::JsonB>("policy_snapshot").0,
        };
        let template = row.must::<pgrx::JsonB>("template").0;
        let made = made(db, command, &template);
        // Whoever rejects has got what was asked for.
        Jsonb::from_value(json!({"ok": true, "code": made.code, "proposal_id": id.to_string(), "status": made.status,
            "mission_id": made.mission_id.map(|id| id.to_string()), "reason": made.reason}))
    };
    db::answer(|db| missions::unless_refused(|| decide(db)))
}

#[pg_extern(stable, security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_proposal_get(p_proposal_id: Option<Uuid>) -> Jsonb {
    let id = required("p_proposal_id", p_proposal_id);
    db::answer(|db| {
        let row = db.run(&PROPOSAL_GET, &[id.into()]);
        if row.is_empty() { unknown(id) } else { row.only() }
    })
}

fn unknown(id: Uuid) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
        format!("there is no proposal {id}"),
        "Use the proposal_id that agentq.fn_proposal_create returned. All of them are in agentq.v_proposal.",
    )
}
