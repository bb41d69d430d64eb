//! Compensating what a mission, or a job without one, has changed outside.
//!
//! A chain takes the effects that succeeded and have a declared compensation, and those whose compensation failed before. It
//! leaves effects whose outcome is unknown alone, and names them, unless the caller or the settings say otherwise. If two
//! sessions ask for the same at once, one starts the chain, and the other is told of it.

use super::{About, audit, chain};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::db::{self, Db, Statement, statements};
use crate::error::{OrRaise, raise, required, unknown_job};
use crate::flow::missions;
use crate::flow::settings::COMPENSATE_UNKNOWN;
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::rules::Rulebook;
use agentq_core::Refusal;
use agentq_core::mission::status::MissionStatus;
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("compensate.sql": CHAIN_RUNNING, CHAIN_ADD, CHAIN_REMOVE, CHAIN_SIZE, CHAIN_TAKE, LOCK_OF_MISSION, LOCK_OF_JOB, UNFINISHED);

/// Whose effects.
#[derive(Clone, Copy)]
enum Scope {
    Mission(Uuid),
    Job(Uuid),
}

impl Scope {
    fn ids(self) -> (Option<Uuid>, Option<Uuid>) {
        match self {
            Scope::Mission(id) => (Some(id), None),
            Scope::Job(id) => (None, Some(id)),
        }
    }

    /// Writes down what was done about it.
    fn audit(self, db: &Db, kind: &str, what: serde_json::Value, now: Micros) {
        let (target, id) = match self {
            Scope::Mission(id) => ("mission", id),
            Scope::Job(id) => ("job", id),
        };
        let (mission, job) = self.ids();
        audit(db, kind, About { kind: target, subject: &id.to_string(), mission, job }, what, now);
    }
}

/// What the caller says about a compensation.
struct Terms<'a> {
    reason: Option<&'a str>,
    include_unknown: bool,
}

/// What there is to compensate.
#[derive(Default)]
struct Found {
    effects: i32,
    /// Begun and never ended.
    unknown: Vec<String>,
    /// Without a declared compensation.
    irreversible: i32,
}

enum Started {
    Nothing(Found),
    Already(Uuid),
    Running { chain_id: Uuid, found: Found, job_id: Option<Uuid> },
}

/// What comes of compensating a mission.
pub enum Compensation {
    /// There is nothing to undo.
    Nothing,
    /// Nothing can be undone, and this stands.
    Stands(String),
    /// The chain runs, and `flow::missions::compensated` is called when it has ended, which may be at once.
    Runs,
}

/// Compensates what a mission has done; its jobs must have ended.
pub fn compensate(db: &Db, mission_id: Uuid, reason: &str, now: Micros) -> Compensation {
    let terms = Terms { reason: Some(reason), include_unknown: include_unknown(&Rulebook::current()) };
    match start(db, Scope::Mission(mission_id), &terms, now) {
        Started::Nothing(found) if found.unknown.is_empty() => Compensation::Nothing,
        Started::Nothing(found) => Compensation::Stands(chain::left_alone(found.unknown.len() as i64)),
        Started::Already(_) | Started::Running { .. } => Compensation::Runs,
    }
}

fn include_unknown(rules: &Rulebook) -> bool {
    rules.flag(COMPENSATE_UNKNOWN)
}

fn start(db: &Db, scope: Scope, terms: &Terms<'_>, now: Micros) -> Started {
    let (mission, job) = scope.ids();
    let chain_id = new_id();
    for _ in 0..100 {
        let running = db.run(&CHAIN_RUNNING, &[mission.into(), job.into()]);
        if !running.is_empty() {
            return Started::Already(running.only());
        }
        let by = actor();
        let args = [
            chain_id.into(),
            mission.into(),
            job.into(),
            terms.reason.into(),
            by.as_str().into(),
            timestamp(now).into(),
        ];
        // Waits for another that is starting or ending one.
        if !db.run(&CHAIN_ADD, &args).is_empty() {
            return begin(db, scope, terms, chain_id, now);
        }
    }
    raise(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "the compensation is being started by another session",
        "Run the transaction again.",
    )
}

fn begin(db: &Db, scope: Scope, terms: &Terms<'_>, chain_id: Uuid, now: Micros) -> Started {
    let found = take(db, scope, terms, chain_id);
    if !found.unknown.is_empty() && !terms.include_unknown {
        let what = json!({"effects": found.unknown});
        scope.audit(db, "compensation.unknown_outcome", what, now);
    }
    if found.effects == 0 {
        db.run(&CHAIN_REMOVE, &[chain_id.into()]);
        return Started::Nothing(found);
    }
    let left = if terms.include_unknown { 0 } else { found.unknown.len() as i32 };
    db.run(&CHAIN_SIZE, &[chain_id.into(), found.effects.into(), left.into(), found.irreversible.into()]);
    let (mission, job) = scope.ids();
    let what = json!({
        "mission_id": mission.map(|id| id.to_string()), "job_id": job.map(|id| id.to_string()), "reason": terms.reason,
        "effects": found.effects, "unknown": found.unknown, "irreversible": found.irreversible,
        "by": actor(),
    });
    let subject = chain_id.to_string();
    audit(db, "compensation.started", About { kind: "effect_chain", subject: &subject, mission, job }, what, now);
    let job_id = chain::advance(db, chain_id, i64::MAX, now);
    Started::Running { chain_id, found, job_id }
}

/// Puts the effects that are to be compensated into the chain, and counts the others. They are locked first and looked
/// at afterwards, so that what another chain has just taken is not taken again.
fn take(db: &Db, scope: Scope, terms: &Terms<'_>, chain_id: Uuid) -> Found {
    let (lock, id): (&Statement, Uuid) = match scope {
        Scope::Mission(id) => (&LOCK_OF_MISSION, id),
        Scope::Job(id) => (&LOCK_OF_JOB, id),
    };
    let mut ids: Vec<Uuid> = Vec::new();
    db.run(lock, &[id.into()]).each(|row| ids.push(row.only()));
    if ids.is_empty() {
        return Found::default();
    }
    let row = db.run(&CHAIN_TAKE, &[chain_id.into(), ids.into(), terms.include_unknown.into()]);
    let unknown: Option<Vec<Uuid>> = row.get("unknown");
    Found {
        effects: row.must("effects"),
        unknown: unknown.unwrap_or_default().iter().map(Uuid::to_string).collect(),
        irreversible: row.must("irreversible"),
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_compensate(
    p_job_id: default!(Option<Uuid>, "NULL"),
    p_mission_id: default!(Option<Uuid>, "NULL"),
    p_reason: default!(Option<&str>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_effect_compensate: p_reason, p_options);
    answer::if_on(|rules| {
        let scope = match (p_job_id, p_mission_id) {
            (Some(id), None) => Scope::Job(id),
            (None, Some(id)) => Scope::Mission(id),
            (None, None) => required("p_job_id or p_mission_id", None),
            (Some(_), Some(_)) => Err(Refusal::new(
                "p_job_id and p_mission_id were both given",
                "Compensate a mission, or the effects of one job.",
            ))
            .or_raise(),
        };
        let options = json::options(p_options, &["include_unknown"]).or_raise();
        // Whether effects with an unknown outcome are compensated as well.
        let asked = options.member("include_unknown").flag().or_raise();
        let include_unknown = asked.unwrap_or_else(|| include_unknown(rules));
        let terms = Terms { reason: p_reason, include_unknown };
        db::answer(|db| missions::unless_refused(|| public(db, scope, &terms, clock::now())))
    })
}

fn public(db: &Db, scope: Scope, terms: &Terms<'_>, now: Micros) -> Jsonb {
    let (mission, job) = scope.ids();
    mission.into_iter().for_each(missions::pass_alone);
    let status = mission.map(|id| missions::lock(db, id).unwrap_or_else(|| missions::unknown_mission(id)));
    // A mission that has not ended may do more.
    let is_open = status.is_some_and(MissionStatus::waits_for_steps);
    let mut jobs: Vec<String> = Vec::new();
    db.run(&UNFINISHED, &[mission.into(), job.into()]).each(|row| jobs.push(row.only::<Uuid>().to_string()));
    if !jobs.is_empty() || is_open {
        return Jsonb::from_value(json!({
            "ok": false, "code": "not_finished", "jobs": jobs,
            "message": "the mission, or these jobs, have not finished and may do more; nothing was done",
            "hint": "Wait for them, or cancel them: agentq.fn_mission_cancel with the mode compensate_then_stop does both.",
        }));
    }
    match start(db, scope, terms, now) {
        Started::Already(chain_id) => Jsonb::from_value(json!({
            "ok": false, "code": "already_compensating", "chain_id": chain_id.to_string(),
            "message": "its effects are being compensated already",
        })),
        Started::Nothing(found) => {
            // A job that nobody knows, or that has been removed and had no effects.
            if let Some(id) = job
                && found.unknown.is_empty()
                && found.irreversible == 0
                && db.run(&LOCK_OF_JOB, &[id.into()]).is_empty()
                && answer::state_of(db, id).is_none()
            {
                unknown_job(id)
            }
            Jsonb::from_value(json!({
                "ok": true, "code": "nothing_to_compensate", "unknown": found.unknown, "irreversible": found.irreversible,
            }))
        }
        Started::Running { chain_id, found, job_id } => Jsonb::from_value(json!({
            "ok": true, "code": "compensating", "chain_id": chain_id.to_string(), "effects": found.effects,
            "unknown": found.unknown, "irreversible": found.irreversible,
            "compensation_job_id": job_id.map(|id| id.to_string()),
        })),
    }
}
