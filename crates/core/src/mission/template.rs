//! A mission's template: its steps, what each waits for, and what holds for each.
//!
//! Reading one checks all that can be known before it runs. What is wrong is told with its place in the JSON.

use super::params;
use super::path;
use super::reader::{At, refuse};
use crate::Refusal;
use crate::error::shown;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Steps of one template, those of missions inside it included.
pub const MOST_STEPS: usize = 20_000;
/// Dependencies of one template.
pub const MOST_EDGES: usize = 200_000;
/// Missions inside missions.
pub const DEEPEST: usize = 8;
/// Items that one step works through.
pub const MOST_ITEMS: usize = 10_000;
pub const LONGEST_NAME: usize = 200;
/// The name under which steps read what the mission was started with.
pub const INPUT: &str = "input";
const LONGEST_TIMEOUT: f64 = 315_360_000.0;

const TEMPLATE_KEYS: [&str; 9] = [
    "title",
    "description",
    "steps",
    "sequential",
    "cancellation_mode",
    "timeout_seconds",
    "risk_level",
    "effects",
    "metadata",
];
const STEP_KEYS: [&str; 17] = [
    "name",
    "kind",
    "description",
    "params",
    "executor",
    "depends_on",
    "join",
    "when",
    "for_each",
    "on_failure",
    "timeout_seconds",
    "retry",
    "queue",
    "priority",
    "mission",
    "effects",
    "compensation",
];
pub const REQUIRED: [&str; 4] = ["succeeded", "failed", "skipped", "ended"];
pub const MODES: [&str; 2] = ["graceful", "compensate_then_stop"];

/// What only the server knows.
pub trait Outside {
    /// Whether this is an SQL/JSON path.
    fn path(&self, path: &str) -> Result<(), String>;
    /// Whether there is such a queue.
    fn queue(&self, queue: &str) -> Result<(), Refusal>;
    /// Whether these may be a job's payload.
    fn params(&self, params: &Value) -> Result<(), Refusal>;
}

#[derive(Clone, Debug)]
pub struct Template {
    pub title: Option<String>,
    pub mode: &'static str,
    pub timeout_seconds: Option<f64>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its number in the template.
    pub step: usize,
    pub required: &'static str,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub name: String,
    pub kind: String,
    pub executor: Option<String>,
    pub params: Value,
    pub parents: Vec<Parent>,
    /// How many of them must end as asked.
    pub need: i32,
    /// Whether its failure ends the mission.
    pub fails_mission: bool,
    /// The longest way to it from a step that waits for none.
    pub level: i32,
    /// What holds for it beside that; None: nothing.
    pub spec: Option<Spec>,
}

/// What holds for few steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    pub when: Option<String>,
    pub for_each: Option<String>,
    /// How many items must succeed; None: all.
    pub items_needed: Option<i64>,
    pub timeout_seconds: Option<f64>,
    pub max_attempts: Option<i32>,
    pub queue: Option<String>,
    pub priority: Option<i32>,
    pub mission: Option<Value>,
    /// Steps whose results it reads.
    pub reads: Vec<String>,
}

impl Spec {
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        put("when", self.when.clone().map(Value::from));
        put("for_each", self.for_each.clone().map(Value::from));
        put("items_needed", self.items_needed.map(Value::from));
        put("timeout_seconds", self.timeout_seconds.map(Value::from));
        put("max_attempts", self.max_attempts.map(Value::from));
        put("queue", self.queue.clone().map(Value::from));
        put("priority", self.priority.map(Value::from));
        put("mission", self.mission.clone());
        put("reads", (!self.reads.is_empty()).then(|| json!(self.reads)));
        Value::Object(map)
    }

    pub fn from_value(value: &Value) -> Spec {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let whole = |key: &str| value.get(key).and_then(Value::as_i64);
        Spec {
            when: text("when"),
            for_each: text("for_each"),
            items_needed: whole("items_needed"),
            timeout_seconds: value.get("timeout_seconds").and_then(Value::as_f64),
            max_attempts: whole("max_attempts").map(|n| n as i32),
            queue: text("queue"),
            priority: whole("priority").map(|n| n as i32),
            mission: value.get("mission").cloned(),
            reads: value.get("reads").and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default(),
        }
    }
}

impl Template {
    /// Reads a template, or says what is wrong with it, and where.
    pub fn read(value: &Value, outside: &impl Outside) -> Result<Template, Refusal> {
        let mut steps = 0;
        read(value, "", outside, 0, &mut steps)
    }

    /// The steps, each after all it waits for.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        order.sort_by_key(|index| (self.steps[*index].level, *index));
        order
    }
}

/// Reads the template that stands at `place`; `total` counts the steps of all templates read so far.
fn read(
    value: &Value,
    place: &str,
    outside: &impl Outside,
    depth: usize,
    total: &mut usize,
) -> Result<Template, Refusal> {
    let at = At::root(place);
    if depth > DEEPEST {
        return Err(refuse(
            place,
            format!("missions are nested more than {DEEPEST} deep"),
            "Let a step of the inner mission start another mission with fn_mission_start.",
        ));
    }
    let map = at.object(value, "a template", "{\"steps\": [{\"kind\": \"draft\"}]}")?;
    at.known_keys(map, &TEMPLATE_KEYS)?;
    let list = match map.get("steps") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(Value::Array(_)) => {
            return Err(refuse(&at.member("steps"), "there is no step", "A mission has at least one step."));
        }
        _ => {
            return Err(refuse(
                &at.member("steps"),
                "this must be a list of steps",
                "For example: [{\"kind\": \"draft\"}].",
            ));
        }
    };
    *total += list.len();
    if *total > MOST_STEPS {
        return Err(refuse(
            &at.member("steps"),
            format!("a mission has at most {MOST_STEPS} steps, and this one has more"),
            "Divide it, or let one step work through a list with for_each.",
        ));
    }
    let names = names(list, &at)?;
    let sequential = at.flag(map, "sequential")?;
    let mut steps = Vec::with_capacity(list.len());
    let mut branches: Vec<(usize, usize, String)> = Vec::new();
    for (number, value) in list.iter().enumerate() {
        let here = At::root(&format!("{}[{number}]", at.member("steps")));
        let reader = StepReader { here, number, names: &names, outside, depth, sequential };
        steps.push(reader.read(value, total, &mut branches)?);
    }
    add_branches(&mut steps, branches)?;
    let edges: usize = steps.iter().map(|step| step.parents.len()).sum();
    if edges > MOST_EDGES {
        return Err(refuse(
            &at.member("steps"),
            format!("a mission has at most {MOST_EDGES} dependencies, and this one has {edges}"),
            "Put a step between those that all wait for the same ones.",
        ));
    }
    level(&mut steps, &at)?;
    check_reads(&steps, &at)?;
    let mode = match map.get("cancellation_mode") {
        None | Some(Value::Null) => MODES[0],
        Some(value) => at.word(value, "cancellation_mode", &MODES)?,
    };
    let title = at.text(map, "title")?;
    for key in ["description", "risk_level"] {
        at.text(map, key)?;
    }
    Ok(Template { title, mode, timeout_seconds: at.seconds(map, "timeout_seconds", LONGEST_TIMEOUT)?, steps })
}

/// The names of the steps, with their numbers; a step without a name is step_<number>, counted from 1.
fn names(list: &[Value], at: &At) -> Result<HashMap<String, usize>, Refusal> {
    let mut names = HashMap::with_capacity(list.len());
    for (number, step) in list.iter().enumerate() {
        let here = format!("{}[{number}].name", at.member("steps"));
        let name = match step.get("name") {
            None | Some(Value::Null) => format!("step_{}", number + 1),
            Some(Value::String(name)) => {
                crate::input::name(&here, name, LONGEST_NAME)?;
                name.clone()
            }
            Some(other) => {
                return Err(refuse(&here, format!("the name must be a text, not {}", short(other)), "Name the step."));
            }
        };
        if name == INPUT {
            let hint = "$.input is what the mission was started with. Give the step another name.";
            return Err(refuse(&here, "no step can be named input", hint));
        }
        if let Some(first) = names.insert(name.clone(), number) {
            return Err(refuse(
                &here,
                format!("\"{}\" is also the name of steps[{first}]", shown(&name)),
                "Give every step a name of its own.",
            ));
        }
    }
    Ok(names)
}

fn short(value: &Value) -> String {
    shown(&value.to_string())
}

/// Reads one step.
struct StepReader<'a, O> {
    here: At,
    number: usize,
    names: &'a HashMap<String, usize>,
    outside: &'a O,
    depth: usize,
    sequential: bool,
}

impl<O: Outside> StepReader<'_, O> {
    fn read(
        &self,
        value: &Value,
        total: &mut usize,
        branches: &mut Vec<(usize, usize, String)>,
    ) -> Result<Step, Refusal> {
        let at = &self.here;
        let map = at.object(value, "a step", "{\"name\": \"draft\", \"kind\": \"draft_post\"}")?;
        at.known_keys(map, &STEP_KEYS)?;
        at.text(map, "description")?;
        let name = at.text(map, "name")?.unwrap_or_else(|| format!("step_{}", self.number + 1));
        let mission = map.get("mission").filter(|value| !value.is_null());
        let kind = match at.text(map, "kind")? {
            Some(kind) => {
                crate::input::name(&at.member("kind"), &kind, crate::input::LONGEST_NAME)?;
                kind
            }
            None if mission.is_some() => "mission".to_owned(),
            None => {
                return Err(refuse(
                    &at.member("kind"),
                    "the step has no kind",
                    "Workers claim by kind; or give it a mission.",
                ));
            }
        };
        let executor = at.text(map, "executor")?;
        if let Some(executor) = &executor {
            crate::input::name(&at.member("executor"), executor, crate::input::LONGEST_NAME)?;
        }
        let mut spec = self.spec(map)?;
        let params = self.params(map, &mut spec)?;
        let parents = self.parents(map)?;
        let need = self.need(map, parents.len())?;
        if let Some(mission) = mission {
            if spec.for_each.is_some() {
                return Err(refuse(
                    &at.member("mission"),
                    "a step cannot have both a mission and for_each",
                    "Put a step with for_each into the mission.",
                ));
            }
            read(mission, &at.member("mission"), self.outside, self.depth + 1, total)?;
            spec.mission = Some(mission.clone());
        }
        let fails_mission = self.on_failure(map, branches)?;
        let spec = Some(spec).filter(|spec| *spec != Spec::default());
        Ok(Step { name, kind, executor, params, parents, need, fails_mission, level: 0, spec })
    }

    fn spec(&self, map: &Map<String, Value>) -> Result<Spec, Refusal> {
        let at = &self.here;
        let mut reads = BTreeSet::new();
        let when = at.text(map, "when")?;
        if let Some(path) = &when {
            self.path(&at.member("when"), path, false, &mut reads)?;
        }
        let (for_each, items_needed) = self.for_each(map)?;
        if let Some(path) = &for_each {
            self.path(&at.member("for_each"), path, false, &mut reads)?;
        }
        let queue = at.text(map, "queue")?;
        if let Some(queue) = &queue {
            self.outside.queue(queue).map_err(|refusal| at.inside("queue", refusal))?;
        }
        let priority = at.whole(map, "priority", 0, i64::from(i32::MAX))?.map(|n| n as i32);
        let max_attempts = match map.get("retry") {
            None | Some(Value::Null) => None,
            Some(retry) => {
                let inner = At::root(&at.member("retry"));
                let retry = inner.object(retry, "retry", "{\"max_attempts\": 3}")?;
                inner.known_keys(retry, &["max_attempts"])?;
                inner.whole(retry, "max_attempts", 1, 1_000)?.map(|n| n as i32)
            }
        };
        let timeout_seconds = at.seconds(map, "timeout_seconds", LONGEST_TIMEOUT)?;
        let reads = reads.into_iter().collect();
        Ok(Spec { when, for_each, items_needed, timeout_seconds, max_attempts, queue, priority, mission: None, reads })
    }

    /// The path to the list, and how many items must succeed.
    fn for_each(&self, map: &Map<String, Value>) -> Result<(Option<String>, Option<i64>), Refusal> {
        let at = &self.here;
        match map.get("for_each") {
            None | Some(Value::Null) => Ok((None, None)),
            Some(Value::String(path)) => Ok((Some(path.clone()), None)),
            Some(value) => {
                let inner = At::root(&at.member("for_each"));
                let each = inner.object(value, "for_each", "{\"in\": \"$.search.urls\", \"join\": {\"quorum\": 3}}")?;
                inner.known_keys(each, &["in", "join"])?;
                let path = inner.text(each, "in")?.ok_or_else(|| {
                    refuse(
                        &inner.member("in"),
                        "there is no path to a list",
                        "For example: {\"in\": \"$.search.urls\"}.",
                    )
                })?;
                let needed = match inner.join(each)? {
                    Join::All => None,
                    Join::Any => Some(1),
                    Join::Quorum(n) => Some(n),
                };
                Ok((Some(path), needed))
            }
        }
    }

    fn params(&self, map: &Map<String, Value>, spec: &mut Spec) -> Result<Value, Refusal> {
        let at = &self.here;
        let place = at.member("params");
        let params = match map.get("params") {
            None | Some(Value::Null) => return Ok(json!({})),
            Some(value) => value,
        };
        at.object_at(&place, params, "the parameters", "{\"topic\": \"bees\"}")?;
        let mut reads: BTreeSet<String> = spec.reads.drain(..).collect();
        let has_item = spec.for_each.is_some();
        params::each_reference(params, &place, &mut |place, path| {
            self.path(place, path, has_item, &mut reads)?;
            if path::references(path)?.is_empty() {
                return Err(refuse(
                    place,
                    "this refers to nothing",
                    "Give the value itself, or refer to a step, as in $.draft.url.",
                ));
            }
            Ok(())
        })?;
        spec.reads = reads.into_iter().collect();
        self.outside.params(params).map_err(|refusal| at.inside("params", refusal))?;
        Ok(params.clone())
    }

    /// Checks a path, and notes whose results it reads.
    fn path(&self, place: &str, path: &str, has_item: bool, reads: &mut BTreeSet<String>) -> Result<(), Refusal> {
        self.outside.path(path).map_err(|problem| {
            refuse(
                place,
                format!("\"{}\" is not an SQL/JSON path: {problem}", shown(path)),
                "Write it as PostgreSQL's jsonb_path_query reads it, as in $.draft.score > 0.8.",
            )
        })?;
        let found = path::references(path).map_err(|refusal| at_place(place, refusal))?;
        for name in &found.variables {
            if !(has_item && ["item", "index"].contains(&name.as_str())) {
                return Err(refuse(
                    place,
                    format!("there is no variable ${}", shown(name)),
                    "The parameters of a step with for_each may use $item and $index; there are no others.",
                ));
            }
        }
        for name in found.steps.iter().filter(|name| *name != INPUT) {
            self.find(place, name)?;
        }
        reads.extend(found.steps);
        Ok(())
    }

    fn find(&self, place: &str, name: &str) -> Result<usize, Refusal> {
        self.names.get(name).copied().ok_or_else(|| {
            let mut known: Vec<&str> = self.names.keys().map(String::as_str).collect();
            known.sort_unstable();
            let more = if known.len() > 20 { ", …" } else { "" };
            known.truncate(20);
            refuse(
                place,
                format!("there is no step \"{}\"", shown(name)),
                format!("The steps are: {}{more}.", known.join(", ")),
            )
        })
    }

    fn parents(&self, map: &Map<String, Value>) -> Result<Vec<Parent>, Refusal> {
        let at = &self.here;
        let place = at.member("depends_on");
        let list = match map.get("depends_on") {
            None | Some(Value::Null) if self.sequential && self.number > 0 => {
                return Ok(vec![Parent { step: self.number - 1, required: "succeeded" }]);
            }
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(_) if self.sequential => {
                return Err(refuse(
                    &place,
                    "a sequential mission has no dependencies of its own",
                    "Leave out depends_on, or \"sequential\".",
                ));
            }
            Some(Value::Array(list)) => list,
            Some(other) => {
                let problem = format!("this must be a list of steps, not {}", short(other));
                return Err(refuse(
                    &place,
                    problem,
                    "For example: [\"draft\"], or [{\"step\": \"draft\", \"status\": \"failed\"}].",
                ));
            }
        };
        let mut parents: Vec<Parent> = Vec::with_capacity(list.len());
        let mut seen = BTreeSet::new();
        for (number, value) in list.iter().enumerate() {
            let here = format!("{place}[{number}]");
            let (name, required) = match value {
                Value::String(name) => (name.clone(), "succeeded"),
                Value::Object(map) => {
                    let inner = At::root(&here);
                    inner.known_keys(map, &["step", "status"])?;
                    let name = inner
                        .text(map, "step")?
                        .ok_or_else(|| refuse(&here, "no step is named", "For example: {\"step\": \"draft\"}."))?;
                    let required = map.get("status").filter(|value| !value.is_null());
                    (name, required.map_or(Ok("succeeded"), |value| inner.word(value, "status", &REQUIRED))?)
                }
                other => {
                    return Err(refuse(&here, format!("this is no step: {}", short(other)), "Name a step."));
                }
            };
            let step = self.find(&here, &name)?;
            if step == self.number {
                return Err(refuse(&here, format!("\"{}\" waits for itself", shown(&name)), "Leave it out."));
            }
            if !seen.insert(step) {
                return Err(refuse(&here, format!("\"{}\" is named twice", shown(&name)), "Name each step once."));
            }
            parents.push(Parent { step, required });
        }
        Ok(parents)
    }

    fn need(&self, map: &Map<String, Value>, parents: usize) -> Result<i32, Refusal> {
        let place = self.here.member("join");
        if parents == 0 && map.get("join").is_some_and(|join| !join.is_null()) {
            return Err(refuse(&place, "there is nothing to join: the step has no depends_on", "Leave it out."));
        }
        Ok(match self.here.join(map)? {
            Join::All => parents as i32,
            Join::Any => 1,
            Join::Quorum(n) if n as usize <= parents => n as i32,
            Join::Quorum(n) => {
                return Err(refuse(
                    &place,
                    format!("{n} of {parents} steps can never end"),
                    "Give a quorum of at most as many as depends_on names.",
                ));
            }
        })
    }

    /// Whether a failure ends the mission; a branch is noted.
    fn on_failure(
        &self,
        map: &Map<String, Value>,
        branches: &mut Vec<(usize, usize, String)>,
    ) -> Result<bool, Refusal> {
        let place = self.here.member("on_failure");
        match map.get("on_failure") {
            None | Some(Value::Null) => Ok(true),
            Some(value @ Value::String(_)) => Ok(self.here.word(value, "on_failure", &["fail", "continue"])? == "fail"),
            Some(Value::Object(branch)) => {
                let inner = At::root(&place);
                inner.known_keys(branch, &["goto"])?;
                let name = inner.text(branch, "goto")?.unwrap_or_default();
                let target = self.find(&inner.member("goto"), &name)?;
                if target == self.number {
                    let problem = format!("\"{}\" waits for its own failure", shown(&name));
                    return Err(refuse(&inner.member("goto"), problem, "To try again, use retry."));
                }
                branches.push((self.number, target, inner.member("goto")));
                Ok(false)
            }
            Some(other) => Err(refuse(
                &place,
                format!("this says not what follows a failure: {}", short(other)),
                "Use \"fail\", \"continue\" or {\"goto\": \"<step>\"}.",
            )),
        }
    }
}

fn at_place(place: &str, refusal: Refusal) -> Refusal {
    refuse(place, refusal.message, refusal.hint)
}

pub(super) enum Join {
    All,
    Any,
    Quorum(i64),
}

/// A step to which a failure leads waits for the failures that lead to it, for one of them.
fn add_branches(steps: &mut [Step], branches: Vec<(usize, usize, String)>) -> Result<(), Refusal> {
    let own: Vec<bool> = steps.iter().map(|step| !step.parents.is_empty()).collect();
    for (from, to, place) in branches {
        if own[to] {
            return Err(refuse(
                &place,
                format!("\"{}\" has dependencies of its own", shown(&steps[to].name)),
                "A step to which a failure leads has no depends_on. Or use on_failure \"continue\", and depends_on with the status failed.",
            ));
        }
        steps[to].parents.push(Parent { step: from, required: "failed" });
        steps[to].need = 1;
    }
    Ok(())
}

/// Finds the level of each step, or the cycle that keeps it from having one.
fn level(steps: &mut [Step], at: &At) -> Result<(), Refusal> {
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    let mut open: Vec<usize> = Vec::with_capacity(steps.len());
    for (number, step) in steps.iter().enumerate() {
        open.push(step.parents.len());
        step.parents.iter().for_each(|parent| behind[parent.step].push(number));
    }
    let mut free: Vec<usize> = (0..steps.len()).filter(|number| open[*number] == 0).collect();
    let mut placed = 0;
    while let Some(number) = free.pop() {
        placed += 1;
        for child in &behind[number] {
            steps[*child].level = steps[*child].level.max(steps[number].level + 1);
            open[*child] -= 1;
            if open[*child] == 0 {
                free.push(*child);
            }
        }
    }
    if placed == steps.len() {
        return Ok(());
    }
    // Going back from any step that was not placed ends in the cycle.
    let mut way: Vec<usize> = Vec::new();
    let mut number = (0..steps.len()).find(|number| open[*number] > 0).unwrap_or_default();
    while !way.contains(&number) {
        way.push(number);
        let parent = steps[number].parents.iter().find(|parent| open[parent.step] > 0);
        number = parent.map_or(number, |parent| parent.step);
    }
    let begin = way.iter().position(|step| *step == number).unwrap_or_default();
    let mut names: Vec<&str> = way[begin..].iter().rev().map(|step| steps[*step].name.as_str()).collect();
    let more = names.len().saturating_sub(10);
    names.truncate(10);
    names.extend((more > 0).then_some("…"));
    names.extend(names.first().copied());
    Err(refuse(
        &format!("{}[{number}]", at.member("steps")),
        format!("these steps wait for each other: {}", shown_way(&names)),
        "Leave out one of the dependencies.",
    ))
}

fn shown_way(names: &[&str]) -> String {
    names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(" → ")
}

/// A step reads only results of steps before it: others may not be there yet.
fn check_reads(steps: &[Step], at: &At) -> Result<(), Refusal> {
    let mut before = Before::default();
    for (number, step) in steps.iter().enumerate() {
        let Some(spec) = step.spec.as_ref().filter(|spec| !spec.reads.is_empty()) else { continue };
        let parents: HashSet<&str> = step.parents.iter().map(|parent| steps[parent.step].name.as_str()).collect();
        for name in spec.reads.iter().filter(|name| *name != INPUT) {
            if !parents.contains(name.as_str()) && !before.has(steps, number, name) {
                return Err(refuse(
                    &format!("{}[{number}]", at.member("steps")),
                    format!("it reads the result of \"{}\", which need not have ended before it", shown(name)),
                    "Name that step in depends_on, or one that comes behind it.",
                ));
            }
        }
    }
    Ok(())
}

/// Which steps come before which, directly or not: a bit for each, found out once for all steps.
#[derive(Default)]
struct Before<'a> {
    numbers: BTreeMap<&'a str, usize>,
    bits: Vec<Vec<u64>>,
}

impl<'a> Before<'a> {
    fn has(&mut self, steps: &'a [Step], step: usize, name: &str) -> bool {
        if self.bits.is_empty() {
            self.find_out(steps);
        }
        self.numbers.get(name).is_some_and(|other| self.bits[step][other / 64] & (1 << (other % 64)) != 0)
    }

    fn find_out(&mut self, steps: &'a [Step]) {
        self.numbers = steps.iter().enumerate().map(|(number, step)| (step.name.as_str(), number)).collect();
        self.bits = vec![vec![0; steps.len().div_ceil(64)]; steps.len()];
        let mut waits: Vec<usize> = steps.iter().map(|step| step.parents.len()).collect();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
        for (number, step) in steps.iter().enumerate() {
            step.parents.iter().for_each(|parent| children[parent.step].push(number));
        }
        let mut next: Vec<usize> = (0..steps.len()).filter(|number| waits[*number] == 0).collect();
        while let Some(number) = next.pop() {
            let mut bits = self.bits[number].clone();
            bits[number / 64] |= 1 << (number % 64);
            for child in &children[number] {
                self.bits[*child].iter_mut().zip(&bits).for_each(|(child, before)| *child |= before);
                waits[*child] -= 1;
                if waits[*child] == 0 {
                    next.push(*child);
                }
            }
        }
    }
}
