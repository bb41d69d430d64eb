//! Parameters that refer to the results of earlier steps: `{"$from": "$.draft.url"}` stands for what the path finds.

use crate::Refusal;
use crate::jsonb::{Container, Item};
use crate::reader::Reader;
use serde_json::Value;
use std::collections::BTreeSet;

const REFERENCE: &str = "$from";

/// The path of a reference, if the value is one.
fn reference(item: Item<'_>) -> Option<Item<'_>> {
    let Item::Container(bytes) = item else { return None };
    let object = Some(Container::new(bytes)).filter(|object| object.is_object() && object.len() == 1)?;
    object.get(REFERENCE)
}

/// Calls `each` with every reference that stands in the parameters.
pub fn each_reference<'a>(
    at: &Reader<'a>,
    each: &mut impl FnMut(&Reader<'a>, &'a str) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    // Most have none, and then no place in them has to be told.
    if !has_reference(at.item()) {
        return Ok(());
    }
    if let Some(path) = reference(at.item()) {
        let at = Reader::at(at.inside(REFERENCE), path).hint("For example: {\"$from\": \"$.draft.url\"}.");
        return each(&at, at.parsed("a path", Some)?);
    }
    if at.is_object() {
        return at.members()?.try_for_each(|(_, member)| each_reference(&member, each));
    }
    at.elements()?.try_for_each(|item| each_reference(&item, each))
}

fn has_reference(item: Item<'_>) -> bool {
    let Item::Container(bytes) = item else { return false };
    let container = Container::new(bytes);
    match container.is_object() {
        true => reference(item).is_some() || container.members().any(|(_, item)| has_reference(item)),
        false => container.elements().any(has_reference),
    }
}

/// The paths of all references, each once.
pub fn paths(item: Item<'_>) -> Vec<String> {
    let mut all = BTreeSet::new();
    // What cannot be read is left as it is; templates are checked when they are submitted.
    each_reference(&Reader::at("params", item), &mut |_, path| {
        all.insert(path.to_owned());
        Ok(())
    })
    .ok();
    all.into_iter().collect()
}

/// The parameters with what each reference stands for.
pub fn filled(value: &Value, find: &impl Fn(&str) -> Value) -> Value {
    match value {
        Value::Object(map) => match map.get(REFERENCE).and_then(Value::as_str).filter(|_| map.len() == 1) {
            Some(path) => find(path),
            None => Value::Object(map.iter().map(|(key, value)| (key.clone(), filled(value, find))).collect()),
        },
        Value::Array(list) => Value::Array(list.iter().map(|value| filled(value, find)).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::document;
    use serde_json::json;

    #[test]
    fn references_are_found_at_any_depth_and_filled() {
        let params =
            json!({"a": 1, "b": {"$from": "$.x.y"}, "c": [{"d": {"$from": "$item"}}], "e": {"$from": 1, "f": 2}});
        assert_eq!(paths(document(&params)), ["$.x.y", "$item"]);
        let full = filled(&params, &|path| json!(path.len()));
        assert_eq!(full, json!({"a": 1, "b": 5, "c": [{"d": 5}], "e": {"$from": 1, "f": 2}}));
    }

    #[test]
    fn a_reference_that_is_no_path_is_refused_with_its_place() {
        let params = Reader::at("params", document(&json!({"a": [{"$from": 3}]})));
        let refusal = each_reference(&params, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(refusal.message, "params.a[0].$from must be a path, not 3");
    }
}
