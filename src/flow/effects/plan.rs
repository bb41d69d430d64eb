//! Planning effects: they are written down before anything is done, in the order in which they are given.
//!
//! The same plan of the same job, made again by a later attempt, finds the effects that are there.

use super::drift;
use super::manifest::Catalog;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::base::signal::check_signal;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required};
use crate::flow::missions::mission_of_job;
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::batch_list::not_a_list;
use crate::queue::rules::Rulebook;
use crate::queue::storage::LockedLease;
use agentq_core::effects::Manifest;
use agentq_core::error::shown;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

statements!("plan.sql": COMPENSATED_BY, EFFECT_PLAN, EFFECT_BY_KEY);

const LARGEST_PLAN: usize = agentq_core::bounds::PLAN;
const EXAMPLE: &str =
    "[{\"effect_type\": \"hotel_booking.book\", \"payload\": {\"room\": 7}, \"idempotency_key\": \"trip:1\"}]";
const KEYS: [&str; 5] = ["effect_type", "payload", "idempotency_key", "declared_compensation", "counter_effects"];

/// On whose behalf a job plans effects.
struct Planner {
    /// The operation or compensation whose declaration holds for it.
    declared_by: Option<String>,
    /// The effect that it compensates.
    compensates: Option<Uuid>,
    mission: Option<Uuid>,
    step: Option<Uuid>,
}

impl Planner {
    fn of(db: &Db, held: &LockedLease, manifest: &Manifest) -> Planner {
        let job_id = held.place.job_id;
        let row = db.run(&COMPENSATED_BY, &[job_id.into()]);
        if !row.is_empty() {
            let (compensates, declared_by) = (row.get("effect_id"), row.get("declared_compensation"));
            return Planner { declared_by, compensates, mission: row.get("mission_id"), step: row.get("step_id") };
        }
        let declared_by = manifest.operation_of_kind(&held.place.job_kind).map(|(name, _)| name.to_owned());
        let (mission, step) = mission_of_job(db, job_id).unzip();
        Planner { declared_by, compensates: None, mission, step }
    }

    /// The compensation of an effect: the one that is asked for, or the one that the manifest means.
    fn compensation(&self, manifest: &Manifest, effect: &Asked) -> Result<Option<String>, Refusal> {
        let Some(name) = &effect.compensation else {
            let by = self.declared_by.as_deref().filter(|by| self.declares(manifest, by, &effect.effect_type));
            return Ok(by.and_then(|by| manifest.compensation_for(by, &effect.effect_type)).map(str::to_owned));
        };
        let Some(compensation) = manifest.compensations.get(name) else {
            return Err(Refusal::new(
                format!("the manifest has no compensation \"{}\"", shown(name)),
                "Declare it with agentq.fn_effect_manifest_set, or leave declared_compensation out.",
            ));
        };
        match &self.declared_by {
            Some(by) if *by != compensation.of => Err(Refusal::new(
                format!("\"{}\" is the compensation of \"{}\", not of \"{by}\"", shown(name), compensation.of),
                "Name a compensation of the operation that the job carries out.",
            )),
            _ => Ok(Some(name.clone())),
        }
    }

    fn declares(&self, manifest: &Manifest, by: &str, effect_type: &str) -> bool {
        manifest.produces(by).is_some_and(|produces| produces.iter().any(|one| one == effect_type))
    }
}

/// One effect as the worker asks for it.
struct Asked {
    effect_type: String,
    payload: Jsonb,
    key: String,
    compensation: Option<String>,
    counter_effects: Option<bool>,
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_effect_plan(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_effects: Option<Jsonb>,
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_effect_plan: p_lease_owner, p_effects);
    answer::if_on(|rules| {
        let job_id = required("p_job_id", p_job_id);
        let owner = required("p_lease_owner", p_lease_owner);
        let asked = read(rules, job_id, required("p_effects", p_effects)).or_raise();
        let now = clock::now();
        db::answer(|db| match LockedLease::lock(db, job_id, Some(owner), p_lease_token) {
            Some(held) => plan(db, &held, &asked, now),
            None => answer::lease_lost(db, job_id, Some(owner), p_lease_token),
        })
    })
}

fn plan(db: &Db, held: &LockedLease, asked: &[Asked], now: Micros) -> Jsonb {
    let job_id = held.place.job_id;
    let catalog = Catalog::current(db);
    let planner = Planner::of(db, held, &catalog.manifest);
    let mut effects = Vec::with_capacity(asked.len());
    let mut undeclared = BTreeSet::new();
    let mut planned = 0;
    for effect in asked {
        let (told, new) = planner.write(db, job_id, &catalog, effect, now).or_raise();
        planned += i32::from(new);
        effects.push(told);
        // What a compensation does is compared when its job ends; what an operation must not do is told at once.
        if let (Some(by), None, true) = (&planner.declared_by, planner.compensates, new)
            && !planner.declares(&catalog.manifest, by, &effect.effect_type)
        {
            undeclared.insert(effect.effect_type.clone());
        }
    }
    if let Some(by) = planner.declared_by.as_deref().filter(|_| !undeclared.is_empty()) {
        let job = drift::Job { job_id, mission: planner.mission, compensates: None };
        drift::of_operation(db, &job, by, catalog.version, &undeclared, now);
    }
    Jsonb::from_value(json!({
        "ok": true, "code": "planned", "job_id": job_id.to_string(), "planned": planned, "effects": effects,
        "operation": planner.declared_by, "cancel_requested": held.cancel_requested,
    }))
}

impl Planner {
    /// Writes an effect down, or finds it; says whether it is new.
    fn write(
        &self,
        db: &Db,
        job_id: Uuid,
        catalog: &Catalog,
        effect: &Asked,
        now: Micros,
    ) -> Result<(Value, bool), Refusal> {
        let manifest = &catalog.manifest;
        let compensation = self.compensation(manifest, effect)?;
        let by = self.compensates.and(self.declared_by.as_ref()).and_then(|by| manifest.compensations.get(by));
        let counters = effect.counter_effects.unwrap_or_else(|| by.is_some_and(|by| by.counter_effects));
        let payload = effect.payload;
        let (effect_type, key) = (effect.effect_type.as_str(), effect.key.as_str());
        let args = [
            new_id().into(),
            self.mission.into(),
            self.step.into(),
            job_id.into(),
            effect_type.into(),
            payload.into(),
            key.into(),
            compensation.as_deref().into(),
            counters.into(),
            manifest.idempotent.contains(effect_type).into(),
            catalog.version.into(),
            self.compensates.into(),
            timestamp(now).into(),
        ];
        let new = db.run(&EFFECT_PLAN, &args);
        if !new.is_empty() {
            return Ok((new.only::<pgrx::JsonB>().0, true));
        }
        // The lease is locked, so it was there before.
        let found = db.run(&EFFECT_BY_KEY, &[job_id.into(), effect_type.into(), key.into(), payload.into()]);
        if !found.must::<bool>("same") {
            return Err(Refusal::new(
                format!(
                    "the effect \"{}\" with the key \"{}\" was planned with another payload",
                    shown(effect_type),
                    shown(key)
                ),
                "The same key is for the same effect: give another effect another idempotency_key.",
            ));
        }
        Ok((found.must::<pgrx::JsonB>("told").0, false))
    }
}

fn read(rules: &Rulebook, job_id: Uuid, effects: Jsonb) -> Result<Vec<Asked>, Refusal> {
    if !effects.is_array() {
        return Err(not_a_list("p_effects", EXAMPLE));
    }
    let list = effects.reader("p_effects")?;
    let length = effects.container().len();
    if length > LARGEST_PLAN {
        return Err(Refusal::new(
            format!("a plan holds at most {LARGEST_PLAN} effects, and this one has {length}"),
            "Plan them in several calls, with an idempotency_key each.",
        ));
    }
    let mut keyless: HashMap<String, usize> = HashMap::new();
    list.list("effects", 0..=LARGEST_PLAN)?.map(|effect| one(rules, job_id, &effect, &mut keyless)).collect()
}

fn one(
    rules: &Rulebook,
    job_id: Uuid,
    at: &Reader<'_>,
    keyless: &mut HashMap<String, usize>,
) -> Result<Asked, Refusal> {
    at.object(&KEYS)?;
    let text = |key: &str, longest: usize| -> Result<Option<String>, Refusal> {
        let text = at.member(key).hint("For example: {\"effect_type\": \"hotel_booking.book\"}.").name(longest)?;
        Ok(text.map(str::to_owned))
    };
    let effect_type = text("effect_type", input::LONGEST_NAME)?.ok_or_else(|| {
        Refusal::new(format!("{} has no effect_type", at.path()), format!("For example: '{EXAMPLE}'."))
    })?;
    let counter_effects = at.member("counter_effects").hint("Leave it out: the manifest says it.").flag()?;
    let payload = at.member("payload").read(|payload| {
        let given = Jsonb::from_item(payload.item());
        check_signal(payload.path(), given, rules.payload_max_bytes).map(|()| given)
    })?;
    let key = text("idempotency_key", input::LONGEST_KEY)?.unwrap_or_else(|| {
        let number = keyless.entry(effect_type.clone()).and_modify(|number| *number += 1).or_insert(1);
        format!("{job_id}:{effect_type}:{number}")
    });
    Ok(Asked {
        compensation: text("declared_compensation", input::LONGEST_NAME)?,
        payload: payload.unwrap_or_else(Jsonb::empty_object),
        effect_type,
        key,
        counter_effects,
    })
}
