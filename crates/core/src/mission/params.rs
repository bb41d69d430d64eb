//! Parameters that refer to the results of earlier steps: `{"$from": "$.draft.url"}` stands for what the path finds.

use super::path::{self, References};
use crate::Refusal;
use crate::error::shown;
use serde_json::Value;

/// The path of a reference, if the value is one.
fn reference(value: &Value) -> Option<&Value> {
    value.as_object().filter(|map| map.len() == 1)?.get("$from")
}

/// Calls `each` with every reference and its place inside the parameters.
pub fn each_reference(
    value: &Value,
    place: &str,
    each: &mut impl FnMut(&str, &str) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    if let Some(path) = reference(value) {
        let path = path.as_str().ok_or_else(|| {
            Refusal::new(
                format!("{place}.$from must be a path, not {}", shown(&path.to_string())),
                "For example: {\"$from\": \"$.draft.url\"}.",
            )
        })?;
        return each(&format!("{place}.$from"), path);
    }
    match value {
        Value::Object(map) => {
            map.iter().try_for_each(|(key, value)| each_reference(value, &format!("{place}.{}", shown(key)), each))
        }
        Value::Array(list) => (list.iter().enumerate())
            .try_for_each(|(number, value)| each_reference(value, &format!("{place}[{number}]"), each)),
        _ => Ok(()),
    }
}

/// What all references together are about.
pub fn references(value: &Value) -> References {
    let mut all = References::default();
    let read = each_reference(value, "", &mut |_, path| {
        let found = path::references(path)?;
        all.steps.extend(found.steps);
        all.variables.extend(found.variables);
        Ok(())
    });
    if read.is_err() { References::default() } else { all }
}

/// The paths of all references, each once.
pub fn paths(value: &Value) -> Vec<String> {
    let mut all = std::collections::BTreeSet::new();
    // What cannot be read is left as it is; templates are checked when they are submitted.
    each_reference(value, "", &mut |_, path| {
        all.insert(path.to_owned());
        Ok(())
    })
    .ok();
    all.into_iter().collect()
}

/// The parameters with what each reference stands for.
pub fn filled(value: &Value, find: &impl Fn(&str) -> Value) -> Value {
    if let Some(path) = reference(value).and_then(Value::as_str) {
        return find(path);
    }
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), filled(value, find))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(|value| filled(value, find)).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_found_at_any_depth_and_filled() {
        let params =
            json!({"a": 1, "b": {"$from": "$.x.y"}, "c": [{"d": {"$from": "$item"}}], "e": {"$from": 1, "f": 2}});
        assert_eq!(paths(&params), ["$.x.y", "$item"]);
        assert_eq!(references(&params).steps.into_iter().collect::<Vec<_>>(), ["x"]);
        let full = filled(&params, &|path| json!(path.len()));
        assert_eq!(full, json!({"a": 1, "b": 5, "c": [{"d": 5}], "e": {"$from": 1, "f": 2}}));
    }

    #[test]
    fn a_reference_that_is_no_path_is_refused_with_its_place() {
        let refusal = each_reference(&json!({"a": [{"$from": 3}]}), "params", &mut |_, _| Ok(())).unwrap_err();
        assert!(refusal.message.starts_with("params.a[0].$from must be a path, not 3"));
    }
}
