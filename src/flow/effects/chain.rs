//! A chain of compensations: one job for each effect, from the last that was declared to the first. The transaction in which
//! a compensation succeeds enqueues the next one. A compensation that ends otherwise halts the chain.

use super::manifest::Catalog;
use super::{About, ON_END, audit, drift};
use crate::base::clock::{Micros, timestamp};
use crate::base::ids::new_id;
use crate::base::text::shorten;
use crate::db::{Db, statements};
use crate::flow::missions;
use crate::json::Jsonb;
use crate::queue::ends::hooks::Ended;
use crate::queue::ends::telling;
use crate::queue::intake::batch::{self, Fate};
use crate::queue::intake::job_spec;
use crate::queue::rules::Rulebook;
use agentq_core::Refusal;
use agentq_core::context::Context;
use agentq_core::effects::ChainStatus;
use agentq_core::input::OWN_KEYS;
use agentq_core::state::JobState;
use pgrx::Uuid;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeSet;

statements!("chain.sql": CHAIN_OF_JOB, CHAIN_LOCK, CHAIN_NEXT, CHAIN_COUNT, CHAIN_END, EFFECT_COMPENSATING, EFFECT_COMPENSATED, COMPENSATION_FAILED);

/// An effect of a chain whose turn it is.
struct Turn {
    effect_id: Uuid,
    effect_type: String,
    compensation: String,
    mission_id: Option<Uuid>,
    /// The job that did it.
    job_id: Uuid,
    /// The effect as its compensation is told of it, without payload and result.
    told: Value,
    payload: Value,
    result: Value,
}

/// The hook: jobs of compensations have ended, with or without success.
pub fn jobs_ended(db: &Db, ended: &[Ended], now: Micros) {
    let mut ended: Vec<&Ended> = ended.iter().collect();
    ended.sort_by_key(|ended| *ended.job_id.as_bytes());
    // The missions before the chains, as whoever starts a chain has them; the deepest first, as everywhere.
    let mut missions: BTreeSet<(Reverse<i32>, [u8; 16])> = BTreeSet::new();
    for ended in &ended {
        let row = db.run(&CHAIN_OF_JOB, &[ended.job_id.into()]);
        if let Some(mission) = (!row.is_empty()).then(|| row.get::<Uuid>("chain_mission_id")).flatten() {
            missions.insert((Reverse(row.get("depth").unwrap_or_default()), *mission.as_bytes()));
        }
    }
    for (_, mission) in missions {
        missions::lock(db, Uuid::from_bytes(mission));
    }
    ended.into_iter().for_each(|ended| job_ended(db, ended.job_id, &ended.state, now));
}

fn job_ended(db: &Db, job_id: Uuid, state: &str, now: Micros) {
    let row = db.run(&CHAIN_OF_JOB, &[job_id.into()]);
    if row.is_empty() {
        return;
    }
    let (effect_id, chain_id): (Uuid, Uuid) = (row.must("effect_id"), row.must("chain_id"));
    let (compensation, error): (String, Option<String>) = (row.must("declared_compensation"), row.get("last_error"));
    if db.run(&CHAIN_LOCK, &[chain_id.into()]).is_empty() {
        return;
    }
    let succeeded = JobState::parse(state) == Some(JobState::Succeeded);
    let job = drift::Job { job_id, mission: row.get("mission_id"), compensates: Some(effect_id) };
    drift::of_compensation(db, &job, &compensation, succeeded, now);
    let (subject, mission) = (effect_id.to_string(), row.get("mission_id"));
    if succeeded {
        db.run(&EFFECT_COMPENSATED, &[effect_id.into(), timestamp(now).into()]);
        db.run(&CHAIN_COUNT, &[chain_id.into()]);
        let what =
            json!({"compensation": compensation, "job_id": job_id.to_string(), "chain_id": chain_id.to_string()});
        audit(
            db,
            "effect.compensated",
            About { kind: "effect", subject: &subject, mission, job: Some(job_id) },
            what,
            now,
        );
        advance(db, chain_id, row.must("seq"), now);
    } else {
        let error = format!("job {job_id} ended as {state}: {}", error.as_deref().unwrap_or("no error was given"));
        halt(
            db,
            chain_id,
            &drift::Halted { effect_id, mission, job_id, compensation: &compensation },
            shorten(&error),
            now,
        );
    }
}

/// Enqueues the compensation of the last effect of a chain that was declared before `seq`, or ends the chain. Returns
/// the job.
pub fn advance(db: &Db, chain_id: Uuid, seq: i64, now: Micros) -> Option<Uuid> {
    let row = db.run(&CHAIN_NEXT, &[chain_id.into(), seq.into()]);
    if row.is_empty() {
        end(db, chain_id, ChainStatus::Compensated, None, json!({}), now);
        return None;
    }
    let turn = Turn {
        effect_id: row.must("effect_id"),
        effect_type: row.must("effect_type"),
        compensation: row.must("declared_compensation"),
        mission_id: row.get("mission_id"),
        job_id: row.must("job_id"),
        told: row.must::<pgrx::JsonB>("told").0,
        payload: row.must::<pgrx::JsonB>("payload").0,
        result: row.get::<pgrx::JsonB>("result").map_or(Value::Null, |result| result.0),
    };
    match turn.enqueue(db, chain_id) {
        Ok(job_id) => {
            db.run(&EFFECT_COMPENSATING, &[turn.effect_id.into(), job_id.into()]);
            Some(job_id)
        }
        // Whoever ends the job before it must not get this as an error.
        Err(refusal) => {
            let error = format!("it could not be enqueued: {}", refusal.message);
            let (effect_id, mission, job_id) = (turn.effect_id, turn.mission_id, turn.job_id);
            halt(
                db,
                chain_id,
                &drift::Halted { effect_id, mission, job_id, compensation: &turn.compensation },
                &error,
                now,
            );
            None
        }
    }
}

impl Turn {
    fn enqueue(&self, db: &Db, chain_id: Uuid) -> Result<Uuid, Refusal> {
        let catalog = Catalog::current(db);
        let Some(compensation) = catalog.manifest.compensations.get(&self.compensation) else {
            return Err(Refusal::new(
                format!("the manifest has no compensation \"{}\"", self.compensation),
                "Declare it again, and call agentq.fn_effect_compensate.",
            ));
        };
        let rules = Rulebook::current();
        let mut payload = self.told.clone();
        payload["compensation"] = json!(self.compensation);
        let mut whole = payload.clone();
        whole["payload"] = self.payload.clone();
        whole["result"] = self.result.clone();
        // Both together may be larger than a payload; then the worker reads them with fn_effect_get.
        if Jsonb::from_value(whole.clone()).size() as i64 <= rules.payload_max_bytes {
            payload = whole;
        }
        let mut job = json!({
            "job_kind": compensation.job_kind, "queue": compensation.queue, "payload_json": payload,
            "payload_ref": format!("effect:{}", self.effect_id), "source_ref": format!("effect_chain:{chain_id}"),
            "target_ref": self.effect_type,
            "run_id": self.mission_id.map(|id| id.to_string()),
        });
        if let Some(attempts) = compensation.max_attempts {
            job["max_attempts"] = json!(attempts);
        }
        let document = Jsonb::from_value(job);
        let key = format!("{OWN_KEYS}compensate:{}:{chain_id}", self.effect_id);
        let mut job = job_spec::read_own(&rules, new_id(), document.container().item(), &key)?;
        job.options.on_end = Some(ON_END.to_owned());
        let context = match self.mission_id {
            Some(mission) => missions::context_of(db, mission),
            None => telling::context_of(self.job_id),
        };
        job.options.context = Context { mission_id: None, ..context };
        match batch::settle(vec![Ok(job)]).remove(0) {
            Fate::Enqueued(id) => Ok(id),
            Fate::Duplicate(id) => {
                Err(Refusal::new(format!("its key is held by job {id}"), "Wait until that has ended."))
            }
            Fate::Refused(turned_away) => Err(turned_away.refusal),
        }
    }
}

/// A compensation has failed for good: those before it stay as they are.
fn halt(db: &Db, chain_id: Uuid, at: &drift::Halted<'_>, error: &str, now: Micros) {
    db.run(&COMPENSATION_FAILED, &[at.effect_id.into(), error.into()]);
    let subject = at.effect_id.to_string();
    let what = json!({"effect_id": subject, "compensation": at.compensation, "error": error});
    let about = About { kind: "effect", subject: &subject, mission: at.mission, job: Some(at.job_id) };
    audit(db, "effect.compensation_failed", about, what.clone(), now);
    drift::of_halt(db, chain_id, at, now);
    end(db, chain_id, ChainStatus::Halted, Some(error), what, now);
}

fn end(db: &Db, chain_id: Uuid, status: ChainStatus, error: Option<&str>, more: Value, now: Micros) {
    let row = db.run(&CHAIN_END, &[chain_id.into(), status.name().into(), error.into(), timestamp(now).into()]);
    let (pgrx::JsonB(mut told), mission): (pgrx::JsonB, Option<Uuid>) = (row.must("told"), row.get("mission_id"));
    let (done, all, unknown) = (&told["compensated"], &told["effects"], told["unknown"].as_i64().unwrap_or_default());
    // What stands though it was to be undone.
    let stands = match error {
        Some(error) => Some(format!("its compensation halted after {done} of {all} effects: {error}")),
        None if unknown > 0 => Some(left_alone(unknown)),
        None => None,
    };
    if let (Some(told), Value::Object(more)) = (told.as_object_mut(), more) {
        told.extend(more);
    }
    let kind = if status == ChainStatus::Halted { "compensation.halted" } else { "compensation.completed" };
    let (subject, job) = (chain_id.to_string(), row.get("job_id"));
    audit(db, kind, About { kind: "effect_chain", subject: &subject, mission, job }, told, now);
    if let Some(mission_id) = mission {
        missions::compensated(db, mission_id, stands.as_deref(), now);
    }
}

/// What is said of effects that nobody undoes, because they may not have happened.
pub fn left_alone(unknown: i64) -> String {
    let effects = if unknown == 1 { "effect is" } else { "effects are" };
    format!("the outcome of {unknown} {effects} not known, and nobody has undone it")
}
