//! What a step that may begin is to do: its condition, its list and its parameters, with the results of the steps before it
//! filled in. Nothing here raises an error, because that would undo the end of another step; but where many missions go on at
//! once, and all of it takes too long (`patience`), nothing is decided about any of them.

use super::patience;
use crate::base::clock::{self, Micros, parse_moment};
use crate::base::signal::check_signal;
use crate::db::{self, Db, Rows, statements};
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use agentq_core::input;
use agentq_core::mission::template::{MOST_ITEMS, Spec, Wait};
use agentq_core::mission::{params, path};
use agentq_core::steps::LONGEST_NAME;
use pgrx::Uuid;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

statements!("prepare.sql": RESULTS, PATHS, PATH_LIST, PATH_COMES_TO);

/// A step that may begin.
pub struct Candidate {
    pub id: Uuid,
    pub children: i32,
    pub fails_mission: bool,
    pub name: String,
    pub kind: String,
    pub executor: Option<String>,
    pub params: Jsonb,
    pub spec: Option<Spec>,
    pub shard: i32,
    /// Its job, if its row says already that it has begun: the row of a plain step is written only once.
    pub job: Option<Uuid>,
}

impl Candidate {
    /// Reads a row of the statements that answer with steps that may begin.
    pub fn read(row: &Rows) -> Candidate {
        Candidate {
            id: row.must("step_id"),
            children: row.must("children"),
            fails_mission: row.must("fails_mission"),
            name: row.must("name"),
            kind: row.must("kind"),
            executor: row.get("executor"),
            params: row.must("params"),
            spec: row.get::<Jsonb>("spec").map(|spec| Spec::from_jsonb(spec.item())),
            job: row.get("job_id"),
            shard: row.must("shard"),
        }
    }
}

/// What it is to do.
pub enum Prepared {
    Job(Jsonb),
    Items(Vec<Jsonb>),
    /// A mission, and what it is started with.
    Mission(Jsonb, Jsonb),
    /// A mission for each of these.
    Missions(Jsonb, Vec<Jsonb>),
    /// Nobody: it waits.
    Wait(StepWait),
}

/// A wait without a worker.
pub struct StepWait {
    /// When it ends by itself.
    pub until: Option<Micros>,
    /// Name and key of the signal that ends it; None: it sleeps.
    pub signal: Option<(String, String)>,
}

pub enum Work {
    Begin(Prepared),
    Skip,
    /// There is nothing to do, and this is the result.
    Done(Jsonb),
    Broken(String),
}

/// Prepares steps of one mission. The results that they read are read once for all.
pub fn all(db: &Db, rules: &Rulebook, mission_id: Uuid, steps: Vec<Candidate>) -> Vec<(Candidate, Work)> {
    let reads = |step: &Candidate| step.spec.as_ref().map(|spec| spec.reads.clone()).unwrap_or_default();
    let names: BTreeSet<String> = steps.iter().flat_map(reads).collect();
    let results = if names.is_empty() {
        Jsonb::empty_object()
    } else {
        let names: Vec<String> = names.into_iter().collect();
        // Together they may be more than the server can hold.
        match db::attempt(|| db.run(&RESULTS, &[mission_id.into(), names.into()]).only()) {
            Ok(results) => results,
            Err(failure) => {
                let broken = |step| {
                    (step, Work::Broken(format!("the results that it reads cannot be read: {}", failure.message)))
                };
                return steps.into_iter().map(broken).collect();
            }
        }
    };
    let reading = Reading { db, mission_id, results };
    let made = steps.into_iter().map(|step| {
        let work = one(&reading, rules, &step).unwrap_or_else(Work::Broken);
        (step, work)
    });
    made.collect()
}

/// What steps of one mission are prepared with.
struct Reading<'a> {
    db: &'a Db,
    mission_id: Uuid,
    /// What they read.
    results: Jsonb,
}

fn one(at: &Reading<'_>, rules: &Rulebook, step: &Candidate) -> Result<Work, String> {
    let Some(spec) = &step.spec else {
        return payload(rules, step, None).map(|payload| Work::Begin(Prepared::Job(payload)));
    };
    if let Some(when) = &spec.when
        && !holds(&found(at, std::slice::from_ref(when), &json!({})).map_err(|error| format!("when: {error}"))?[when])
    {
        return Ok(Work::Skip);
    }
    if let Some(wait) = &spec.wait {
        return self::wait(at, spec, wait).map(Work::Begin);
    }
    if let Some(path) = &spec.for_each {
        return list(at, rules, step, spec, path);
    }
    // Most have a time-out or a queue, and nothing to be filled in.
    let filled = if spec.reads.is_empty() { None } else { Some(filled(at, step, &json!({}))?) };
    if let Some(mission) = &spec.mission {
        let input = filled.map_or(step.params, Jsonb::from_value);
        return Ok(Work::Begin(Prepared::Mission(Jsonb::from_container(mission), input)));
    }
    payload(rules, step, filled).map(|payload| Work::Begin(Prepared::Job(payload)))
}

/// Whether what a condition found is true: a comparison that holds, or anything that a filter let through.
fn holds(found: &Value) -> bool {
    match found {
        Value::Bool(flag) => *flag,
        Value::Null => false,
        _ => true,
    }
}

/// One payload for each item.
fn list(at: &Reading<'_>, rules: &Rulebook, step: &Candidate, spec: &Spec, path: &str) -> Result<Work, String> {
    let rows = patience::within(at.mission_id, || {
        at.db.run(&PATH_LIST, &[at.results.into(), path.into()]).only::<pgrx::JsonB>().0
    });
    let items = match rows.map_err(|error| format!("for_each: {error}"))? {
        Value::Array(list) => match <[Value; 1]>::try_from(list) {
            // A path to a list, rather than to its items.
            Ok([Value::Array(list)]) => list,
            Ok([Value::Null]) => return Err(format!("for_each: {path} is null, and not a list")),
            Ok([item]) => vec![item],
            Err(list) => list,
        },
        _ => Vec::new(),
    };
    if items.len() > MOST_ITEMS {
        return Err(format!(
            "for_each: a step works through at most {MOST_ITEMS} items, and there are {}",
            items.len()
        ));
    }
    let needed = spec.items_needed.unwrap_or(items.len() as i64);
    if needed > items.len() as i64 {
        return Err(format!("for_each: {needed} items must succeed, and there are {}", items.len()));
    }
    if items.is_empty() {
        must_be_there(at, path)?;
        return Ok(Work::Done(Jsonb::from_value(json!([]))));
    }
    let own: Value = step.params.parse("params").map_err(|refusal| refusal.message)?;
    let has_references = !params::paths(step.params.item()).is_empty();
    let mut payloads = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let variables = json!({"item": item, "index": index});
        let mut full = if has_references { filled(at, step, &variables)? } else { own.clone() };
        if let (Some(full), Value::Object(variables)) = (full.as_object_mut(), variables) {
            for (key, value) in variables {
                full.entry(key).or_insert(value);
            }
        }
        payloads.push(match spec.mission {
            Some(_) => Jsonb::from_value(full),
            None => payload(rules, step, Some(full))?,
        });
    }
    Ok(Work::Begin(match &spec.mission {
        Some(mission) => Prepared::Missions(Jsonb::from_container(mission), payloads),
        None => Prepared::Items(payloads),
    }))
}

/// What a step without a worker waits for, with what its paths find.
fn wait(at: &Reading<'_>, spec: &Spec, wait: &Wait) -> Result<Prepared, String> {
    let now = clock::now();
    let word = |given: &str, what: &str| -> Result<Value, String> {
        if !Wait::is_path(given) {
            return Ok(json!(given));
        }
        let found = found(at, &[given.to_owned()], &json!({}))?.remove(given).unwrap_or(Value::Null);
        if found.is_null() { Err(format!("{what}: {given} finds nothing")) } else { Ok(found) }
    };
    let timeout = spec.timeout_seconds.map(|seconds| now + (seconds * 1e6) as Micros);
    let (until, signal) = match wait {
        Wait::Sleep(seconds) => (Some(now + (seconds * 1e6) as Micros), None),
        Wait::Until(until) => {
            let until = Jsonb::from_value(word(until, "sleep.until")?);
            let read = until.reader("sleep.until").and_then(parse_moment);
            (Some(read.map_err(|refusal| refusal.message)?), None)
        }
        Wait::Signal { name, key } if key.is_empty() => (timeout, Some((name.clone(), key.clone()))),
        Wait::Signal { name, key } => {
            let key = match word(key, "signal.key")? {
                Value::String(key) => key,
                Value::Number(key) => key.to_string(),
                _ => return Err("signal.key: a key is a text or a number".to_owned()),
            };
            let key = input::name("signal.key", &key, LONGEST_NAME).map_err(|refusal| refusal.message)?.to_owned();
            (timeout, Some((name.clone(), key)))
        }
    };
    Ok(Prepared::Wait(StepWait { until, signal }))
}

/// Refuses a path that finds nothing because what it leads to is not there: an empty list is, and so is one of which a filter
/// leaves nothing.
fn must_be_there(at: &Reading<'_>, path: &str) -> Result<(), String> {
    let beginnings = path::beginnings(path);
    let all: Vec<String> = beginnings.iter().map(|beginning| (*beginning).to_owned()).collect();
    let Some(longest) = all.first().cloned() else { return Ok(()) };
    let finds = |beginnings: Vec<String>| {
        let row = at.db.run(&PATH_COMES_TO, &[at.results.into(), beginnings.into()]);
        if row.is_empty() { None } else { row.maybe_only::<bool>() }
    };
    let read = patience::within(at.mission_id, || (finds(vec![longest]), finds(all)))
        .map_err(|error| format!("for_each: {error}"));
    match read? {
        // The whole of it is there, and what follows is a filter.
        (Some(_), _) | (None, Some(false)) => Ok(()),
        (None, _) => Err(format!("for_each: {path} finds nothing")),
    }
}

/// The parameters with what they refer to.
fn filled(at: &Reading<'_>, step: &Candidate, variables: &Value) -> Result<Value, String> {
    let own: Value = step.params.parse("params").map_err(|refusal| refusal.message)?;
    let paths = params::paths(step.params.item());
    if paths.is_empty() {
        return Ok(own);
    }
    let values = found(at, &paths, variables)?;
    Ok(params::filled(&own, &|path| values.get(path).cloned().unwrap_or(Value::Null)))
}

/// What each path finds first; null: nothing.
fn found(at: &Reading<'_>, paths: &[String], variables: &Value) -> Result<HashMap<String, Value>, String> {
    let variables = Jsonb::from_value(variables.clone());
    let read = || {
        let mut values = HashMap::new();
        at.db.run(&PATHS, &[at.results.into(), paths.to_vec().into(), variables.into()]).each(|row| {
            values.insert(row.must("path"), row.get::<pgrx::JsonB>("value").map_or(Value::Null, |value| value.0));
        });
        values
    };
    // A path may fail though it is well written: on a number too large, for example.
    patience::within(at.mission_id, read)
}

/// The payload of a job: the parameters, and who is to do it.
fn payload(rules: &Rulebook, step: &Candidate, filled: Option<Value>) -> Result<Jsonb, String> {
    let payload = match (filled, &step.executor) {
        (None, None) => return Ok(step.params),
        (filled, executor) => {
            let own = filled.map_or(step.params, Jsonb::from_value);
            let own = if own.is_object() { own } else { Jsonb::empty_object() };
            match executor.as_ref().filter(|_| !own.has_key("executor")) {
                Some(executor) => own.with("executor", Jsonb::from_item(executor.as_str().into())),
                None => own,
            }
        }
    };
    check_signal("the parameters", payload, rules.payload_max_bytes).map_err(|refusal| refusal.message)?;
    Ok(payload)
}
