//! One text for one JSON value, and its hash: two values that mean the same have the same.
//!
//! The form is that of RFC 8785 in all but two points: members are sorted by the bytes of their keys, and whole numbers
//! of up to 64 bits are written as they are. Other numbers count as what a double holds, so 1, 1.0 and 1e0 are one.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// So many members of an object are told apart by a hash of their own.
const MOST_MEMBERS: usize = 64;
/// Hex digits of the hash of a member: enough to tell a change.
const SHORT: usize = 12;

/// The canonical text of a value.
pub fn text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value);
    text
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (number, key) in keys.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(out, &members[key]);
            }
            out.push('}');
        }
        Value::Number(number) => match number.as_f64() {
            // Whole, and exactly so: a double has no fraction beyond 2^53.
            Some(double) if number.is_f64() && double.fract() == 0.0 && double.abs() < 9_007_199_254_740_992.0 => {
                out.push_str(&(double as i64).to_string())
            }
            _ => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}

/// SHA-256 of the canonical text, in hex.
pub fn hash(value: &Value) -> String {
    hex(&Sha256::digest(text(value)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The beginning of the hash of each member of an object, so that a change can be told without keeping the value.
/// None: it is no object, or has too many.
pub fn members(value: &Value) -> Option<Value> {
    let members = value.as_object().filter(|members| members.len() <= MOST_MEMBERS)?;
    let digests = members.iter().map(|(key, value)| (key.clone(), Value::from(&hash(value)[..SHORT])));
    Some(Value::Object(digests.collect()))
}

/// How the members of two values differ, by their digests: in words, for an error. None: nobody knows.
pub fn difference(before: &Value, after: &Value) -> Option<String> {
    let (before, after) = (before.as_object()?, after.as_object()?);
    let told = |what: &str, keys: Vec<&String>| {
        let names: Vec<String> = keys.iter().map(|key| format!("\"{}\"", crate::error::shown(key))).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let lacking = |one: &Map<String, Value>, other: &Map<String, Value>, what: &str| {
        told(what, one.keys().filter(|key| !other.contains_key(*key)).collect())
    };
    let changed = before.keys().filter(|key| after.get(*key).is_some_and(|value| *value != before[*key])).collect();
    let parts = [told("changed:", changed), lacking(after, before, "new:"), lacking(before, after, "gone:")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_order_of_members_and_the_writing_of_numbers_do_not_count() {
        let one: Value = serde_json::from_str(r#"{"b": 1.0, "a": [1e0, -0.0, "é\n"], "aa": null}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"aa":null,"a":[1,0,"\u00e9\u000a"],"b":1}"#).unwrap();
        assert_eq!(text(&one), r#"{"a":[1,0,"é\n"],"aa":null,"b":1}"#);
        assert_eq!(hash(&one), hash(&other));
        assert_ne!(hash(&json!({"a": 1})), hash(&json!({"a": "1"})));
        assert_eq!(
            text(&json!([u64::MAX, i64::MIN, 0.5, true])),
            "[18446744073709551615,-9223372036854775808,0.5,true]"
        );
    }

    #[test]
    fn the_hash_is_sha_256() {
        assert_eq!(hash(&json!({})), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }

    #[test]
    fn a_difference_is_told_by_member() {
        let (before, after) = (members(&json!({"a": 1, "b": 2, "c": 3})), members(&json!({"a": 1, "b": 3, "d": 3})));
        let told = difference(&before.unwrap(), &after.unwrap()).unwrap();
        assert_eq!(told, r#"changed: "b"; new: "d"; gone: "c""#);
        assert_eq!(difference(&json!({}), &json!({})), None);
        assert_eq!((members(&json!([1])), difference(&json!(null), &json!({"a": "x"}))), (None, None));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_canonical_text_is_json_whose_canonical_text_it_is(value in values()) {
            let once = text(&value);
            let read: Value = serde_json::from_str(&once).unwrap();
            prop_assert_eq!(text(&read), once);
        }
    }
}
