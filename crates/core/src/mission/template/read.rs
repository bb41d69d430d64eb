//! Reading a template as a whole: its keys, the names of its steps, and its bounds.

use super::order;
use super::results;
use super::step::{Branch, Reading, TIMEOUTS};
use super::{
    DEEPEST, INPUT, LONGEST_DESCRIPTION, LONGEST_NAME, LONGEST_TITLE, MODES, MOST_EDGES, MOST_STEPS, Outside, Step,
    Template,
};
use crate::Refusal;
use crate::error::shown;
use crate::jsonb::Item;
use crate::policy::Risk;
use crate::reader::{Bounds, Reader};
use std::collections::HashMap;

const KEYS: [&str; 11] = [
    "title",
    "description",
    "steps",
    "sequential",
    "cancellation_mode",
    "timeout_seconds",
    "risk_level",
    "effects",
    "metadata",
    "on_failure",
    "finally",
];
/// What follows the failure of a mission.
const ON_FAILURE: [&str; 2] = ["stop", "compensate"];

/// Reads a document that is a template.
pub fn root<'a>(document: Item<'a>, outside: &impl Outside) -> Result<Template<'a>, Refusal> {
    Bounds::DOCUMENT.check("p_template", document)?;
    let mut total = 0;
    template(&Reader::nameless("a template", document), outside, 0, &mut total)
}

/// Reads the template that is inside `depth` others; `total` counts the steps of all templates read so far.
pub fn template<'a>(
    at: &Reader<'a>,
    outside: &impl Outside,
    depth: usize,
    total: &mut usize,
) -> Result<Template<'a>, Refusal> {
    if depth > DEEPEST {
        return Err(at.refuse(
            format!("missions are nested more than {DEEPEST} deep"),
            "Let a step of the inner mission start another mission with fn_mission_start.",
        ));
    }
    at.clone().hint("For example: {\"steps\": [{\"kind\": \"draft\"}]}.").map()?;
    at.object(&KEYS)?;
    let list = list(at, "steps", total)?;
    let sequential = at.member("sequential").flag()?.unwrap_or(false);
    let (steps, mut needs_key) = all_steps(&list, sequential, outside, depth, total)?;
    if at.member("finally").is_there() {
        // They are a mission of their own, which begins when the others have ended.
        if depth == DEEPEST {
            return Err(
                at.refuse("missions are nested too deep for steps that run in any case", "Put them further out.")
            );
        }
        let last = self::list(at, "finally", total)?;
        let (_, needs) = all_steps(&last, false, outside, depth + 1, total)?;
        needs_key = needs_key.or(needs);
    }
    at.member("description").at_most(LONGEST_DESCRIPTION)?;
    at.member("risk_level").word(&Risk::WORDS)?;
    let on_failure = at.member("on_failure").hint("Use \"stop\" or \"compensate\".").word(&ON_FAILURE)?;
    Ok(Template {
        title: at.member("title").at_most(LONGEST_TITLE)?.map(str::to_owned),
        mode: at.member("cancellation_mode").word(&MODES)?.unwrap_or(MODES[0]),
        timeout_seconds: at.member("timeout_seconds").hint("Leave it out for no time-out.").seconds(TIMEOUTS)?,
        compensates_failure: on_failure == Some("compensate"),
        steps,
        needs_key,
    })
}

/// The first step that needs an idempotency key, by its name and kind.
type NeedsKey = Option<(String, String)>;

/// The steps of a list, and the first that needs a key.
fn all_steps<'a>(
    list: &Reader<'a>,
    sequential: bool,
    outside: &impl Outside,
    depth: usize,
    total: &mut usize,
) -> Result<(Vec<Step<'a>>, NeedsKey), Refusal> {
    let names = names(list)?;
    let mut steps: Vec<Step<'a>> = Vec::with_capacity(names.len());
    let mut branches: Vec<Branch> = Vec::new();
    let mut needs_key = None;
    for (number, at) in list.elements()?.enumerate() {
        let reading = Reading { at: &at, number, names: &names, outside, depth, sequential };
        steps.push(reading.step(total, &mut branches, &mut needs_key)?);
    }
    order::add_branches(&mut steps, branches)?;
    let edges: usize = steps.iter().map(|step| step.parents.len()).sum();
    if edges > MOST_EDGES {
        return Err(list.refuse(
            format!("a mission has at most {MOST_EDGES} dependencies, and this one has {edges}"),
            "Put a step between those that all wait for the same ones.",
        ));
    }
    order::check_failures(&steps, list)?;
    order::find_levels(&mut steps, list)?;
    results::check(&steps, list)?;
    Ok((steps, needs_key))
}

/// A list of steps, which is counted before anything of it is kept.
fn list<'a>(at: &Reader<'a>, key: &str, total: &mut usize) -> Result<Reader<'a>, Refusal> {
    let list = at.member(key).reader().filter(Reader::is_list).ok_or_else(|| {
        let problem = format!("{} must be a list of steps", at.inside(key));
        Refusal::new(problem, "For example: [{\"kind\": \"draft\"}].")
    })?;
    let count = list.elements()?.len();
    if count == 0 {
        return Err(list.refuse("there is no step", "A mission has at least one step."));
    }
    *total += count;
    if *total > MOST_STEPS {
        return Err(list.refuse(
            format!("a mission has at most {MOST_STEPS} steps, and this one has more"),
            "Divide it, or let one step work through a list with for_each.",
        ));
    }
    Ok(list)
}

/// The names of the steps, with their numbers; a step without a name is step_<number>, counted from 1.
fn names(list: &Reader<'_>) -> Result<HashMap<String, usize>, Refusal> {
    let mut names = HashMap::new();
    for (number, step) in list.elements()?.enumerate() {
        let at = step.member("name").hint("Name the step.").reader();
        let name = at.as_ref().map(|name| name.name(LONGEST_NAME)).transpose()?;
        let name = name.map_or_else(|| format!("step_{}", number + 1), str::to_owned);
        let at = at.unwrap_or_else(|| Reader::at(step.inside("name"), Item::Null));
        if name == INPUT {
            let hint = "$.input is what the mission was started with. Give the step another name.";
            return Err(at.refuse("no step can be named input", hint));
        }
        if let Some(first) = names.insert(name.clone(), number) {
            return Err(at.refuse(
                format!("\"{}\" is also the name of steps[{first}]", shown(&name)),
                "Give every step a name of its own.",
            ));
        }
    }
    Ok(names)
}
