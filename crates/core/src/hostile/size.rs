//! Values that are as large as they may be, or larger, and made so that careless work on them would not end: each of
//! these tests takes a second or less, or hours.

use super::{Anything, assert_clear};
use crate::effects::Manifest;
use crate::mission::params;
use crate::mission::template::{MOST_EDGES, Template};
use crate::policy;
use crate::proposal;
use crate::reaction::{self, Matrix};
use crate::reader::{self, Reader, document};
use crate::schedule::{Missed, Rule};
use serde_json::{Map, Value, json};

fn read(steps: Vec<Value>) -> Option<Template<'static>> {
    assert_clear(Template::read(document(&json!({"steps": steps})), &Anything))
}

#[test]
fn a_step_may_wait_for_twenty_thousand_and_read_all_their_results() {
    let mut steps: Vec<Value> = (0..19_990).map(|n| json!({"name": format!("s{n}"), "kind": "k"})).collect();
    let names: Vec<String> = (0..19_990).map(|n| format!("s{n}")).collect();
    let params: Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"$from": format!("$.{name}")}))).collect();
    for n in 0..10 {
        steps.push(json!({"name": format!("join{n}"), "kind": "k", "depends_on": names, "params": params}));
    }
    let template = read(steps).expect("it is within the bounds");
    assert_eq!(template.steps[19_999].parents.len(), 19_990);
}

#[test]
fn more_dependencies_than_may_be_are_refused_and_so_is_a_long_cycle() {
    let names: Vec<String> = (0..500).map(|n| format!("s{n}")).collect();
    let step = |n: usize, parents: &[String]| json!({"name": format!("s{n}"), "kind": "k", "depends_on": parents});
    let all: Vec<Value> = (0..1_000).map(|n| step(n, if n < 500 { &[] } else { &names })).collect();
    assert!(500 * 500 > MOST_EDGES && read(all).is_none());
    let ring: Vec<Value> = (0..20_000).map(|n| step(n, &[format!("s{}", (n + 1) % 20_000)])).collect();
    let refusal = Template::read(document(&json!({"steps": ring})), &Anything).unwrap_err();
    assert!(refusal.message.contains("wait for each other") && refusal.message.len() < 1_000, "{refusal}");
}

#[test]
fn long_keys_over_long_lists_are_searched_without_being_copied_for_each_item() {
    let inner = json!({"k".repeat(1_000_000): vec![0; 200_000]});
    assert_eq!(params::paths(document(&inner)), Vec::<String>::new());
    let matrix = json!([{"id": "a", "type": "*", "template": {"steps": inner}}]);
    assert!(Matrix::read(document(&matrix)).unwrap().patterns[0].paths().is_empty());
    assert_clear(policy::check(policy::AGENT_ROLES, document(&inner)));
}

#[test]
fn a_glob_of_stars_takes_time_in_proportion_to_both_texts() {
    let (pattern, text) = ("*a".repeat(5_000), "a".repeat(4_999));
    assert!(!reaction::glob(&format!("{pattern}b"), &text));
    assert!(reaction::glob(&"*".repeat(100_000), &text));
}

#[test]
fn as_many_kinds_of_steps_as_a_template_can_have_are_told_apart() {
    let steps: Vec<Value> = (0..100_000).map(|n| json!({"kind": format!("kind {n}")})).collect();
    assert_eq!(proposal::step_kinds(&json!({"steps": steps})).len(), 100_000);
}

/// An operation with this many compensations, all of which do new work that calls for all of them.
fn tangle(compensations: usize, effects: usize, own: bool) -> Value {
    let types: Vec<String> = (0..effects).map(|n| format!("x{n}.do")).collect();
    let undo = |n: usize| {
        let produces = if own { vec![format!("own{n}.do")] } else { types.clone() };
        json!({"of": if own && n > 0 { format!("u{:04}", n - 1) } else { "a".to_owned() }, "produces": produces})
    };
    let all: Map<String, Value> = (0..compensations).map(|n| (format!("u{n:04}"), undo(n))).collect();
    json!({"operations": {"a": {"produces": types}}, "compensations": all})
}

#[test]
fn a_manifest_in_which_everything_leads_to_everything_is_refused_in_few_words() {
    let manifest = Manifest::read(&Reader::nameless("the manifest", document(&tangle(1_500, 20, false)))).unwrap();
    let faults = manifest.faults(2);
    assert!(!faults.is_empty());
    let words: usize = faults.iter().map(|fault| fault.to_value().to_string().len()).sum();
    assert!(words < 1_000_000, "{words} bytes about {} faults", faults.len());
}

#[test]
fn a_chain_of_all_compensations_there_may_be_is_followed_to_its_end() {
    let mut document = tangle(1_000, 1, true);
    let operations: Map<String, Value> = (0..999).map(|n| (format!("o{n}"), json!({"produces": ["x0.do"]}))).collect();
    document["operations"].as_object_mut().unwrap().extend(operations);
    let faults = Manifest::read(&Reader::nameless("the manifest", reader::document(&document))).unwrap().faults(2);
    assert_eq!(faults[0].code, "too_deep");
    let words: usize = faults.iter().map(|fault| fault.to_value().to_string().len()).sum();
    assert!(words < 1_000_000, "{words} bytes about {} faults", faults.len());
}

#[test]
fn a_schedule_of_seconds_that_was_missed_for_centuries_is_caught_up_with_at_once() {
    let rule = Rule::parse("@every 1s", "UTC").unwrap();
    for missed in Missed::ALL {
        let firing = rule.due(i64::MIN, i64::MAX - 1, missed, 100);
        assert!(firing.slots.len() <= 100);
    }
    for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "* * 30 FEB MON#5"] {
        assert_clear(Rule::parse(never, "UTC"));
    }
    let leap = Rule::parse("0 0 29 2 *", "UTC").unwrap();
    assert_eq!(leap.upcoming(0, 100).len(), 100);
}
