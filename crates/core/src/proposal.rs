//! What is decided about a proposal without asking the server: what it holds, whether it passes the
//! gate, whether it needs a person.

use crate::error::Refusal;
use crate::jsonb::{self, Container};
use crate::mission::template::STEPS_WITHOUT_KIND;
use crate::policy::{AutoApprove, ProposalCaps, Risk, WorkerPolicy};
use crate::reaction::glob;
use crate::reader::{Member, Reader};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Stands for the kind of a step that names no kind, and is nothing that needs none.
const NAMELESS: &str = "";
/// Where a template has steps.
const LISTS: [&str; 2] = ["steps", "finally"];
/// What a step hands to its worker: data, in which a "kind" means nothing.
const DATA: [&str; 2] = ["params", "metadata"];

/// Every kind of work that a template asks for, in the order in which they are named: those of its
/// steps, of missions within steps, and of what undoes a step.
pub fn step_kinds(template: &Value) -> Vec<String> {
    let mut kinds = Kinds::default();
    walk(template, &mut kinds);
    kinds.in_order.into_iter().map(str::to_owned).collect()
}

/// Kinds in the order in which they were found, each once.
#[derive(Default)]
struct Kinds<'a> {
    in_order: Vec<&'a str>,
    known: HashSet<&'a str>,
}

impl<'a> Kinds<'a> {
    fn add(&mut self, kind: &'a str) {
        if self.known.insert(kind) {
            self.in_order.push(kind);
        }
    }
}

/// The steps of a template, those that run in any case included.
fn steps_of(template: &Value) -> impl Iterator<Item = &Value> {
    LISTS.iter().filter_map(|key| template.get(key)?.as_array()).flatten()
}

fn walk<'a>(template: &'a Value, kinds: &mut Kinds<'a>) {
    for step in steps_of(template) {
        // Something will run, and nobody knows what: a kind that no rule allows.
        let is_known = STEPS_WITHOUT_KIND.iter().any(|word| step.get(word).is_some());
        if !step.get("kind").is_some_and(Value::is_string) && !is_known {
            kinds.add(NAMELESS);
        }
        named(step, kinds);
    }
}

/// Kinds that are named anywhere in a step, but for its data: whatever else a step may hold that runs.
fn named<'a>(value: &'a Value, kinds: &mut Kinds<'a>) {
    match value {
        Value::Object(map) => {
            if let Some(kind) = map.get("kind").and_then(Value::as_str) {
                kinds.add(kind);
            }
            for (key, value) in map {
                match key.as_str() {
                    "kind" => {}
                    "mission" => walk(value, kinds),
                    key if DATA.contains(&key) => {}
                    _ => named(value, kinds),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| named(value, kinds)),
        _ => {}
    }
}

/// How many steps a template has, with those of missions within steps.
pub fn step_count(template: &Value) -> i64 {
    steps_of(template).map(|step| 1 + step.get("mission").map_or(0, step_count)).sum()
}

/// The higher of what the template and the caller say.
pub fn risk(template: &Value, said: Member<'_>) -> Result<Option<Risk>, Refusal> {
    let level = jsonb::from_value(template.get("risk_level").unwrap_or(&Value::Null))?;
    let level = Reader::at("p_template.risk_level", Container::new(&level).item());
    Ok(Member::from(Some(level)).read(Risk::read)?.max(said.read(Risk::read)?))
}

/// A template without what only the decision about it needs, and with what the policy adds where a
/// step does not say.
pub fn mission_template(template: &Value, policy: &WorkerPolicy) -> Value {
    let mut template = bare(template);
    let lists = template.as_object_mut().into_iter().flatten().filter(|(key, _)| LISTS.contains(&key.as_str()));
    for step in lists.filter_map(|(_, list)| list.as_array_mut()).flatten() {
        let Some(step) = step.as_object_mut() else { continue };
        if let Some(mission) = step.get("mission") {
            let mission = mission_template(mission, policy);
            step.insert("mission".to_owned(), mission);
            continue;
        }
        let retry = step.entry("retry").or_insert_with(|| json!({}));
        if let Some(retry) = retry.as_object_mut() {
            retry.entry("max_attempts").or_insert_with(|| json!(policy.max_retries + 1));
        }
        step.entry("stall_seconds").or_insert_with(|| json!((policy.stale_minutes * 60.0).ceil() as i64));
    }
    template
}

/// The template as a mission understands it.
pub fn bare(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(map) = template.as_object_mut() {
        map.remove("risk_level");
    }
    template
}

/// How many proposals were let through on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub all: i64,
    pub of_source: i64,
}

/// Why a proposal does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// A stable word.
    pub gate: &'static str,
    pub reason: String,
}

/// Holds a proposal against the caps.
pub fn gate(caps: &ProposalCaps, source: &str, steps: i64, counts: Counts) -> Result<(), Stopped> {
    if let Some(most) = caps.max_steps.filter(|most| steps > *most) {
        return Err(Stopped {
            gate: "max_steps",
            reason: format!("it has {steps} steps, and at most {most} are allowed"),
        });
    }
    if let Some(limit) = caps.daily_limit.filter(|limit| counts.all >= *limit) {
        return Err(Stopped { gate: "daily_limit", reason: format!("the daily cap of {limit} proposals is reached") });
    }
    if let Some(limit) = caps.per_source.get(source).filter(|limit| counts.of_source >= **limit) {
        let reason = format!("the daily cap of {limit} proposals from {source} is reached");
        return Err(Stopped { gate: "per_source", reason });
    }
    Ok(())
}

/// What a hook said.
pub fn hook_verdict(name: &str, answer: Option<&Value>) -> Result<(), Stopped> {
    let answer = answer.unwrap_or(&Value::Null);
    let ok = answer.as_bool().or_else(|| answer.get("ok")?.as_bool());
    if ok == Some(true) {
        return Ok(());
    }
    let said = answer.get("reason").and_then(Value::as_str).filter(|reason| !reason.trim().is_empty());
    let reason = match (said, ok) {
        (Some(said), _) => said.to_owned(),
        (None, Some(false)) => format!("{name} said no"),
        (None, _) => format!("{name} did not say yes: it answered {answer}"),
    };
    Err(Stopped { gate: "hook", reason })
}

/// Whether a proposal needs no person; if it does, why.
pub fn auto_approvable(policy: &AutoApprove, kinds: &[String], risk: Option<Risk>, source: &str) -> Result<(), String> {
    if !policy.enabled {
        return Err("auto_approve is not enabled".to_owned());
    }
    if kinds.is_empty() {
        return Err("it has no steps".to_owned());
    }
    if let Some(sources) = &policy.sources
        && !sources.iter().any(|allowed| allowed == source)
    {
        return Err(format!("proposals from {source} are not approved by themselves"));
    }
    if let Some(kind) = kinds.iter().find(|kind| !policy.allowed_step_kinds.iter().any(|allowed| allows(allowed, kind)))
    {
        return Err(match kind.as_str() {
            NAMELESS => "a step has no kind".to_owned(),
            kind => format!("steps of kind {} are not approved by themselves", crate::error::shown(kind)),
        });
    }
    match (policy.max_risk, risk) {
        (None, _) => Ok(()),
        (Some(_), None) => Err("it does not say how risky it is".to_owned()),
        (Some(most), Some(risk)) if risk > most => Err(format!("its risk is {}, above {}", risk.name(), most.name())),
        _ => Ok(()),
    }
}

fn allows(allowed: &str, kind: &str) -> bool {
    kind != NAMELESS && glob(allowed, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::document;

    fn caps(value: Value) -> ProposalCaps {
        ProposalCaps::read(document(&value)).unwrap()
    }

    fn approve(value: Value) -> AutoApprove {
        AutoApprove::read(document(&value)).unwrap()
    }

    fn kinds(of: &[&str]) -> Vec<String> {
        of.iter().map(|kind| (*kind).to_owned()).collect()
    }

    #[test]
    fn every_kind_of_work_is_found_wherever_it_hides() {
        let template = json!({"steps": [
            {"kind": "draft", "params": {"kind": "data", "steps": [{"kind": "data"}]}},
            {"kind": "post", "effects": [{"compensation": {"kind": "unpost"}}]},
            {"name": "sub", "mission": {"steps": [{"kind": "inner"}, {"kind": "draft"}]}},
        ]});
        assert_eq!(step_kinds(&template), ["draft", "post", "unpost", "inner"]);
        assert_eq!(step_count(&template), 5);
        assert_eq!(step_kinds(&json!({"steps": [{"name": "x"}]})), [""]);
        assert_eq!(step_kinds(&json!({})), Vec::<String>::new());
        assert_eq!(step_kinds(&json!({"steps": 5})), Vec::<String>::new());
    }

    #[test]
    fn the_gate_counts_the_day_the_source_and_the_steps() {
        let caps = caps(json!({"daily_limit": 3, "per_source": {"api": 1}, "max_steps": 2}));
        let at = |all, of_source| Counts { all, of_source };
        assert_eq!(gate(&caps, "api", 2, at(2, 0)), Ok(()));
        assert_eq!(gate(&caps, "api", 3, at(0, 0)).unwrap_err().gate, "max_steps");
        assert_eq!(gate(&caps, "api", 1, at(3, 0)).unwrap_err().gate, "daily_limit");
        assert_eq!(gate(&caps, "api", 1, at(1, 1)).unwrap_err().gate, "per_source");
        assert_eq!(gate(&caps, "manual", 1, at(1, 1)), Ok(()));
        assert_eq!(gate(&ProposalCaps::default(), "api", 1_000_000, at(1_000_000, 9)), Ok(()));
    }

    #[test]
    fn only_a_clear_yes_of_a_hook_is_one() {
        for yes in [json!(true), json!({"ok": true}), json!({"ok": true, "reason": "fine"})] {
            assert_eq!(hook_verdict("a.b", Some(&yes)), Ok(()));
        }
        for (no, reason) in [
            (Some(json!(false)), "a.b said no"),
            (Some(json!({"ok": false, "reason": "too dear"})), "too dear"),
            (Some(json!({"fine": 1})), "a.b did not say yes: it answered {\"fine\":1}"),
            (Some(json!("true")), "a.b did not say yes"),
            (None, "a.b did not say yes: it answered null"),
        ] {
            let found = hook_verdict("a.b", no.as_ref()).unwrap_err().reason;
            assert!(found.starts_with(reason), "{found}");
        }
    }

    #[test]
    fn a_person_is_needed_unless_every_rule_says_otherwise() {
        let policy = approve(json!({"enabled": true, "allowed_step_kinds": ["noop", "draft_*"], "max_risk": "medium",
            "sources": ["reaction"]}));
        let low = Some(Risk::Low);
        assert_eq!(auto_approvable(&policy, &kinds(&["noop", "draft_a"]), low, "reaction"), Ok(()));
        for (kinds, risk, source, reason) in [
            (kinds(&["noop", "post"]), low, "reaction", "steps of kind post"),
            (kinds(&[""]), low, "reaction", "a step has no kind"),
            (kinds(&[]), low, "reaction", "it has no steps"),
            (kinds(&["noop"]), low, "api", "proposals from api"),
            (kinds(&["noop"]), Some(Risk::High), "reaction", "its risk is high, above medium"),
            (kinds(&["noop"]), None, "reaction", "does not say how risky"),
        ] {
            let found = auto_approvable(&policy, &kinds, risk, source).unwrap_err();
            assert!(found.contains(reason), "{found}");
        }
        let off = AutoApprove { enabled: false, ..policy };
        assert!(auto_approvable(&off, &kinds(&["noop"]), low, "reaction").is_err());
        // A star allows every kind, but not the lack of one.
        let all = approve(json!({"enabled": true, "allowed_step_kinds": ["*"]}));
        assert!(auto_approvable(&all, &kinds(&[""]), None, "api").is_err());
        assert_eq!(auto_approvable(&all, &kinds(&["x"]), None, "api"), Ok(()));
    }

    #[test]
    fn the_worker_policy_fills_what_a_step_does_not_say() {
        let template = json!({"title": "t", "risk_level": "low", "steps": [
            {"kind": "a"}, {"kind": "b", "retry": {"max_attempts": 9}, "timeout_seconds": 5},
            {"mission": {"steps": [{"kind": "c"}]}}]});
        let policy = WorkerPolicy::read(document(&json!({"max_retries": 2, "stale_minutes": 1.5}))).unwrap();
        assert_eq!(
            mission_template(&template, &policy),
            json!({"title": "t", "steps": [
                {"kind": "a", "retry": {"max_attempts": 3}, "stall_seconds": 90},
                {"kind": "b", "retry": {"max_attempts": 9}, "timeout_seconds": 5, "stall_seconds": 90},
                {"mission": {"steps": [{"kind": "c", "retry": {"max_attempts": 3}, "stall_seconds": 90}]}}]})
        );
        let default = WorkerPolicy::read(document(&json!({}))).unwrap();
        assert_eq!(
            mission_template(&json!({"steps": [{"kind": "a"}]}), &default),
            json!({"steps": [{"kind": "a", "retry": {"max_attempts": 4}, "stall_seconds": 1800}]})
        );
    }

    #[test]
    fn the_higher_risk_counts() {
        let said = json!("high");
        let said = Member::from(Some(Reader::at("p_options.risk_level", document(&said))));
        assert_eq!(risk(&json!({"risk_level": "low"}), said), Ok(Some(Risk::High)));
        assert_eq!(risk(&json!({}), Member::ABSENT), Ok(None));
        assert!(
            risk(&json!({"risk_level": 3}), Member::ABSENT)
                .unwrap_err()
                .message
                .starts_with("p_template.risk_level must be")
        );
    }
}
