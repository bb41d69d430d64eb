//! The canonical text of a JSON value, and its hash: two values that mean the same have one text and one hash.
//!
//! The form is that of RFC 8785 in all but two points: members are sorted by the bytes of their keys, and whole numbers
//! of up to 64 bits are written as they are. Other numbers count as what a double holds, so 1, 1.0 and 1e0 are one.

use crate::jsonb::{Container, Decimal, Item};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};

/// An object with at most this many members has a hash of each, to tell which of them have changed.
const MOST_MEMBERS: usize = 64;
/// Hex digits of the hash of a member: enough to tell a change.
const SHORT: usize = 12;

/// The canonical text of a value.
pub fn text(value: Item<'_>) -> String {
    let mut text = String::new();
    write(&mut text, value).expect("a string takes every text");
    text
}

fn write(out: &mut impl Write, value: Item<'_>) -> fmt::Result {
    match value {
        Item::Container(bytes) if Container::new(bytes).is_object() => {
            let mut members: Vec<(&[u8], Item<'_>)> = Container::new(bytes).members().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.write_char('{')?;
            for (number, (key, value)) in members.into_iter().enumerate() {
                out.write_str(if number > 0 { "," } else { "" })?;
                write(out, Item::Text(key))?;
                out.write_char(':')?;
                write(out, value)?;
            }
            out.write_char('}')
        }
        Item::Container(bytes) => {
            out.write_char('[')?;
            for (number, item) in Container::new(bytes).elements().enumerate() {
                out.write_str(if number > 0 { "," } else { "" })?;
                write(out, item)?;
            }
            out.write_char(']')
        }
        Item::Number(bytes) => match Decimal::read(bytes).and_then(|number| number.number()) {
            Some(number) => write_number(out, &number),
            None => out.write_str("null"),
        },
        Item::Text(bytes) => write!(out, "{}", Value::from(String::from_utf8_lossy(bytes))),
        Item::Int(number) => write!(out, "{number}"),
        Item::Bool(flag) => write!(out, "{flag}"),
        Item::Null => out.write_str("null"),
    }
}

fn write_number(out: &mut impl Write, number: &Number) -> fmt::Result {
    match number.as_f64() {
        // Whole, and exactly so: a double has no fraction beyond 2^53.
        Some(double) if number.is_f64() && double.fract() == 0.0 && double.abs() < 9_007_199_254_740_992.0 => {
            write!(out, "{}", double as i64)
        }
        _ => write!(out, "{number}"),
    }
}

/// Hashes text as it comes, and keeps none of it.
struct Hasher(Sha256);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

/// SHA-256 of the canonical text, in hex.
pub fn hash(value: Item<'_>) -> String {
    let mut hasher = Hasher(Sha256::new());
    write(&mut hasher, value).expect("a hash takes every text");
    hex(&hasher.0.finalize())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The beginning of the hash of each member of an object, so that a change can be told without keeping the value.
/// None: it is no object, or has too many.
pub fn members(value: Item<'_>) -> Option<Value> {
    let Item::Container(bytes) = value else { return None };
    let object = Some(Container::new(bytes)).filter(|object| object.is_object() && object.len() <= MOST_MEMBERS)?;
    let digest = |(key, value)| (String::from_utf8_lossy(key).into_owned(), Value::from(&hash(value)[..SHORT]));
    Some(Value::Object(object.members().map(digest).collect()))
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
    use crate::reader::document;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_order_of_members_and_the_writing_of_numbers_do_not_count() {
        let one: Value = serde_json::from_str(r#"{"b": 1.0, "a": [1e0, -0.0, "é\n"], "aa": null}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"aa":null,"a":[1,0,"\u00e9\u000a"],"b":1}"#).unwrap();
        assert_eq!(text(document(&one)), r#"{"a":[1,0,"é\n"],"aa":null,"b":1}"#);
        assert_eq!(hash(document(&one)), hash(document(&other)));
        assert_ne!(hash(document(&json!({"a": 1}))), hash(document(&json!({"a": "1"}))));
        assert_eq!(
            text(document(&json!([u64::MAX, i64::MIN, 0.5, true]))),
            "[18446744073709551615,-9223372036854775808,0.5,true]"
        );
    }

    #[test]
    fn the_hash_is_sha_256() {
        assert_eq!(hash(document(&json!({}))), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }

    #[test]
    fn a_difference_is_told_by_member() {
        let (before, after) =
            (members(document(&json!({"a": 1, "b": 2, "c": 3}))), members(document(&json!({"a": 1, "b": 3, "d": 3}))));
        let told = difference(&before.unwrap(), &after.unwrap()).unwrap();
        assert_eq!(told, r#"changed: "b"; new: "d"; gone: "c""#);
        assert_eq!(difference(&json!({}), &json!({})), None);
        assert_eq!((members(document(&json!([1]))), difference(&json!(null), &json!({"a": "x"}))), (None, None));
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
            let once = text(document(&value));
            let read: Value = serde_json::from_str(&once).unwrap();
            prop_assert_eq!(text(document(&read)), once);
        }
    }
}
