//! Hostile input for every parser of this crate: arbitrary JSON, arbitrary texts and numbers, and values of a size that
//! nobody writes by hand. Nothing panics, every refusal is short and says what to do, and the work grows with the input
//! and no faster.

mod json;
mod size;
mod text;

use crate::Refusal;
use crate::jsonb::Item;
use crate::mission::template::Outside;
use crate::reader::Reader;
use proptest::prelude::*;
use serde_json::{Map, Number, Value};

/// A world in which every path, queue and parameter is fine, so that only the template itself is judged.
pub struct Anything;

impl Outside for Anything {
    fn moment(&self, at: &Reader<'_>) -> Result<(), Refusal> {
        at.text().map(drop)
    }

    fn has_waits(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn needs_key(&self, _: Option<&str>, kind: &str) -> bool {
        kind == "keyed"
    }

    fn path(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn queue(&self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }

    fn params(&self, _: Item<'_>) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The words that some parser here knows, so that what is tried gets past the first look.
const WORDS: [&str; 62] = [
    "steps",
    "name",
    "kind",
    "depends_on",
    "join",
    "quorum",
    "when",
    "for_each",
    "in",
    "params",
    "$from",
    "$event",
    "mission",
    "on_failure",
    "goto",
    "retry",
    "max_attempts",
    "timeout_seconds",
    "queue",
    "priority",
    "sequential",
    "status",
    "step",
    "all",
    "any",
    "fail",
    "continue",
    "a",
    "b",
    "input",
    "operations",
    "compensations",
    "inverse_of",
    "idempotent",
    "produces",
    "of",
    "counter_effects",
    "requires_compensation",
    "compensation",
    "job_kind",
    "id",
    "type",
    "tags",
    "source",
    "probability",
    "cooldown_seconds",
    "dedupe",
    "template",
    "enabled",
    "allowed_step_kinds",
    "max_risk",
    "sources",
    "daily_limit",
    "per_source",
    "hook",
    "function",
    "role",
    "purpose",
    "kinds",
    "risk_level",
    "index",
    "completed_steps",
];

/// Texts: of any letters, of words that are known, of paths and of signs that mean something.
pub fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned),
        1 => ".{0,12}",
        1 => "[$.@*?{}\\[\\]()\"'\\\\ a-z0-9:|,&=<>/+#-]{0,20}",
        1 => prop::sample::select(vec!["$.a.b > 1", "$item", "", " ", "\u{202e}\u{10ffff}", "%s", "a\0b", "2026-01-01"])
            .prop_map(str::to_owned),
    ]
}

/// Numbers, the largest and smallest among them.
fn numbers() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-2_i64..12).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::Number)),
        prop::sample::select(vec![f64::MAX, f64::MIN, f64::MIN_POSITIVE, -0.0, 0.5, 1e300]).prop_map(Value::from),
    ]
}

/// JSON of any shape, with keys that are known and keys that are not.
pub fn values() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), numbers(), texts().prop_map(Value::from),];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            2 => prop::collection::vec((texts(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// JSON that is almost a sensible one: with one value in it, wherever, changed for another.
pub fn spoilt(sensible: Value) -> impl Strategy<Value = Value> {
    (any::<prop::sample::Index>(), values()).prop_map(move |(place, other)| {
        let mut spoilt = sensible.clone();
        let mut left = place.index(count(&spoilt));
        put(&mut spoilt, &mut left, &other);
        spoilt
    })
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// Puts a value at the place that comes after `left` others. Says whether there was such a place.
fn put(value: &mut Value, left: &mut usize, other: &Value) -> bool {
    if *left == 0 {
        *value = other.clone();
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(list) => list.iter_mut().any(|item| put(item, left, other)),
        Value::Object(map) => map.values_mut().any(|item| put(item, left, other)),
        _ => false,
    }
}

/// A refusal is for a person: it says something, says what to do, and is short.
#[track_caller]
pub fn assert_clear<T>(result: Result<T, Refusal>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(refusal) => {
            assert!(!refusal.message.trim().is_empty() && !refusal.hint.trim().is_empty(), "{refusal:?}");
            assert!(refusal.message.len() < 3_100 && refusal.hint.len() < 3_100, "{refusal:?}");
            None
        }
    }
}

#[test]
fn one_value_is_changed_wherever_it_stands() {
    let sensible = serde_json::json!({"a": [1, {"b": 2}], "c": 3});
    let all: std::collections::BTreeSet<String> = (0..count(&sensible))
        .map(|mut place| {
            let mut spoilt = sensible.clone();
            assert!(put(&mut spoilt, &mut place, &Value::from("x")));
            spoilt.to_string()
        })
        .collect();
    assert_eq!(all.len(), 6);
    assert!(all.contains(r#"{"a":[1,{"b":"x"}],"c":3}"#) && all.contains("\"x\""));
}
