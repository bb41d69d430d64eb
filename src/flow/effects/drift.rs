//! Drift: what jobs did otherwise than the manifest declares is written down, and told as an audit event.

use super::manifest::Catalog;
use super::{About, audit};
use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use agentq_core::effects::{self, Drift};
use pgrx::Uuid;
use serde_json::json;
use std::collections::BTreeSet;

statements!("drift.sql": DRIFT_ADD, DRIFT_HALTED, EFFECTS_OF_JOB);

/// The job whose deeds are looked at.
pub struct Job {
    pub job_id: Uuid,
    pub mission: Option<Uuid>,
    pub compensates: Option<Uuid>,
}

/// A job of this operation has planned effects that it does not declare.
pub fn of_operation(db: &Db, job: &Job, operation: &str, version: Option<i64>, types: &BTreeSet<String>, now: Micros) {
    let found: Vec<_> = types.iter().map(|one| (Drift::Undeclared, one.clone())).collect();
    tell(db, job, "operation", operation, version, &found, now);
}

/// A job of this compensation has ended: what it planned and did is compared with what was declared.
pub fn of_compensation(db: &Db, job: &Job, compensation: &str, succeeded: bool, now: Micros) {
    let catalog = Catalog::current(db);
    let (mut planned, mut done) = (BTreeSet::new(), BTreeSet::new());
    db.run(&EFFECTS_OF_JOB, &[job.job_id.into()]).each(|row| {
        let effect_type: String = row.must("effect_type");
        if row.must("happened") {
            done.insert(effect_type.clone());
        }
        planned.insert(effect_type);
    });
    let declared = catalog.manifest.produces(compensation).unwrap_or_default();
    let found = effects::drift(declared, &planned, &done, succeeded);
    tell(db, job, "compensation", compensation, catalog.version, &found, now);
}

fn tell(
    db: &Db,
    job: &Job,
    about: &str,
    declared_by: &str,
    version: Option<i64>,
    found: &[(Drift, String)],
    now: Micros,
) {
    // What an earlier attempt has shown already is not told again.
    let new = found.iter().filter(|(drift, effect_type)| {
        let args = [
            job.job_id.into(),
            effect_type.as_str().into(),
            drift.name().into(),
            about.into(),
            declared_by.into(),
            job.compensates.into(),
            job.mission.into(),
            version.into(),
            timestamp(now).into(),
        ];
        !db.run(&DRIFT_ADD, &args).is_empty()
    });
    let new: Vec<_> = new.collect();
    if new.is_empty() {
        return;
    }
    let of = |wanted: Drift| -> Vec<&str> {
        new.iter().filter(|(drift, _)| *drift == wanted).map(|(_, effect_type)| effect_type.as_str()).collect()
    };
    let what = json!({
        about: declared_by, "undeclared": of(Drift::Undeclared), "missing": of(Drift::Missing),
        "manifest_version": version, "effect_id": job.compensates.map(|id| id.to_string()),
        "mission_id": job.mission.map(|id| id.to_string()),
    });
    let (subject, mission) = (job.job_id.to_string(), job.mission);
    let about_job = About { kind: "job", subject: &subject, mission, job: Some(job.job_id) };
    audit(db, &format!("{about}.drift"), about_job, what, now);
}

/// Where a chain of compensations has halted.
pub struct Halted<'a> {
    pub effect_id: Uuid,
    pub mission: Option<Uuid>,
    /// The job of the compensation that failed; if that could not be enqueued, the job whose effect it is.
    pub job_id: Uuid,
    pub compensation: &'a str,
}

/// A chain has halted half done: the effects that it was to undo, and that stand, are written down.
pub fn of_halt(db: &Db, chain_id: Uuid, at: &Halted<'_>, now: Micros) {
    let version = Catalog::current(db).version;
    let args = [
        chain_id.into(),
        at.job_id.into(),
        at.compensation.into(),
        at.effect_id.into(),
        at.mission.into(),
        version.into(),
        timestamp(now).into(),
    ];
    let mut standing: Vec<String> = Vec::new();
    db.run(&DRIFT_HALTED, &args).each(|row| standing.push(row.only()));
    if standing.is_empty() {
        return;
    }
    let what = json!({
        "compensation": at.compensation, "standing": standing, "chain_id": chain_id.to_string(),
        "manifest_version": version, "effect_id": at.effect_id.to_string(), "mission_id": at.mission.map(|id| id.to_string()),
    });
    let subject = at.job_id.to_string();
    let about = About { kind: "job", subject: &subject, mission: at.mission, job: Some(at.job_id) };
    audit(db, "compensation.drift", about, what, now);
}
