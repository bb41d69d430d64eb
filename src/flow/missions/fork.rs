//! A mission once more, from one of its steps on: what comes before keeps its results.

use super::insert::Taken;
use super::start::{self, Start};
use super::{check, gate, unknown_mission};
use crate::base::bounds::bounded;
use crate::base::clock;
use crate::db::{self, Db, Rows, statements};
use crate::error::{OrRaise, raise, required};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::rules::Rulebook;
use agentq_core::mission::plan;
use agentq_core::mission::status::{MissionStatus, StepStatus};
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Map, Value};

statements!("fork.sql": FORK_MISSION, FORK_STEPS, EFFECTS_INHERIT);

struct Options {
    title: Option<String>,
    /// By the name of a step.
    params: Map<String, Value>,
}

impl Options {
    fn read(options: Reader<'_>) -> Result<Options, Refusal> {
        let title = options.member("title").name(input::LONGEST_KEY)?.map(str::to_owned);
        let mut by_step = Map::new();
        let hint = "Give new parameters by step: {\"params\": {\"draft\": {\"tone\": \"dry\"}}}.";
        if let Some(params) = options.member("params").hint(hint).reader() {
            for (step, params) in params.members()? {
                params.clone().hint("Give them key by key; those that are not named stay as they were.").map()?;
                by_step.insert(step.to_owned(), params.value()?);
            }
        }
        Ok(Options { title, params: by_step })
    }

    /// The template with the parameters that are given anew, key by key.
    fn apply(&self, template: &mut Value) -> Result<(), Refusal> {
        let mut left: Vec<&String> = self.params.keys().collect();
        let steps = template.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten();
        for (number, step) in steps.enumerate() {
            let name =
                step.get("name").and_then(Value::as_str).map_or_else(|| format!("step_{}", number + 1), str::to_owned);
            let Some(Value::Object(params)) = self.params.get(&name) else { continue };
            left.retain(|other| **other != name);
            if !step["params"].is_object() {
                step["params"] = Value::Object(Map::new());
            }
            params.iter().for_each(|(key, value)| step["params"][key] = value.clone());
        }
        match left.first() {
            None => Ok(()),
            Some(name) => Err(Refusal::new(
                format!("there is no step \"{}\", for which there are new parameters", agentq_core::error::shown(name)),
                "Name a step of the mission.",
            )),
        }
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_fork(
    p_mission: Option<Uuid>,
    p_from_step: Option<&str>,
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_mission_fork: p_from_step, p_options);
    answer::if_on(|rules| {
        let mission_id = required("p_mission", p_mission);
        let from = required("p_from_step", p_from_step);
        let options = json::options(p_options, &["title", "params"]).and_then(Options::read).or_raise();
        db::answer(|db| fork(db, rules, mission_id, from, &options))
    })
}

fn goes_in_its_place(row: &Rows) -> bool {
    matches!(row.word("status", MissionStatus::parse), MissionStatus::Failed | MissionStatus::Cancelled)
}

fn fork(db: &Db, rules: &Rulebook, mission_id: Uuid, from: &str, options: &Options) -> Jsonb {
    gate::pass_alone(mission_id);
    let read = || db.run(&FORK_MISSION, &[mission_id.into()]);
    let mut row = read();
    if row.is_empty() {
        unknown_mission(mission_id)
    }
    // Only the fork of one that came to nothing takes something over. One that goes on is not locked: its steps may end.
    if goes_in_its_place(&row) {
        super::lock(db, mission_id);
        row = read();
    }
    let mut value = row.must::<pgrx::JsonB>("template").0;
    options.apply(&mut value).or_raise();
    let value = Jsonb::from_value(value);
    let template = check::read(rules, value).or_raise();
    let mut ends: Vec<Option<Taken>> = vec![None; template.steps.len()];
    let mut well = vec![false; template.steps.len()];
    let mut begin = None;
    db.run(&FORK_STEPS, &[mission_id.into()]).each(|row| {
        let number = row.must::<i32>("position") as usize;
        let status = row.word("status", StepStatus::parse);
        if template.steps[number].name == from {
            begin = Some((number, status));
        }
        well[number] = status.ended_well(row.must("fails_mission")) && !row.must::<bool>("is_undone");
        let (result, error) = (row.get::<pgrx::JsonB>("result").map(|result| result.0), row.get("last_error"));
        ends[number] = Some(Taken { step: row.must("step_id"), status, result, error });
    });
    let Some((begin, status)) = begin else {
        raise(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("there is no step \"{}\" in mission {mission_id}", agentq_core::error::shown(from)),
            "SELECT name FROM agentq.v_mission_step WHERE mission_id = … lists them.",
        )
    };
    if !status.is_end() {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "step \"{}\" of mission {mission_id} is {}: a fork begins with a step that has ended",
                agentq_core::error::shown(from),
                status.name()
            ),
            "Wait until it has ended, or cancel the mission first.",
        )
    }
    let anew = plan::anew(&template, begin, &well);
    let taken = ends.into_iter().zip(anew).map(|(end, anew)| end.filter(|_| !anew)).collect();
    let terms = Start {
        title: options.title.clone().or_else(|| row.get("title")),
        source: row.get("source"),
        context: super::context_of(db, mission_id),
        input: row.get("input"),
        policy_snapshot: row.get::<pgrx::JsonB>("policy_snapshot").map(|snapshot| snapshot.0),
        command_id: row.get("command_id"),
        forked: Some((mission_id, from.to_owned())),
        taken,
        ..Start::default()
    };
    let submitted = start::submit(db, &template, value, &terms, clock::now());
    // A mission that goes on or has succeeded answers for what it has done; the fork of one that has not goes on in its place.
    if goes_in_its_place(&row) {
        db.run(&EFFECTS_INHERIT, &[submitted.mission_id.into()]);
    }
    start::started(db, &submitted, "forked")
}
