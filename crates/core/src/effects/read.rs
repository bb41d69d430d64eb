//! Reading a manifest from JSON. Whatever is wrong is named with its path in the document.

use super::{Compensation, LARGEST_MANIFEST, MOST_EFFECTS, Manifest, Operation};
use crate::error::{Refusal, shown};
use crate::input;
use serde_json::{Map, Value};

const SECTIONS: [&str; 4] = ["operations", "compensations", "inverse_of", "idempotent"];
const OPERATION_KEYS: [&str; 4] = ["produces", "requires_compensation", "compensation", "job_kind"];
const COMPENSATION_KEYS: [&str; 7] =
    ["of", "produces", "counter_effects", "requires_compensation", "job_kind", "queue", "max_attempts"];

impl Manifest {
    /// Reads a whole catalog.
    pub fn read(document: &Value) -> Result<Manifest, Refusal> {
        Manifest::default().changed(document)
    }

    /// The catalog with what the document names set anew; a null takes it out.
    pub fn changed(&self, document: &Value) -> Result<Manifest, Refusal> {
        let mut manifest = self.clone();
        let map = object("the manifest", document)?;
        input::known_options("the manifest", map.keys(), &SECTIONS)?;
        for (name, path, value) in section(map, "operations")? {
            set(&mut manifest.operations, name, value, |value| operation(&path, name, value))?;
        }
        for (name, path, value) in section(map, "compensations")? {
            set(&mut manifest.compensations, name, value, |value| compensation(&path, name, value))?;
        }
        for (name, path, value) in section(map, "inverse_of")? {
            set(&mut manifest.inverse_of, name, value, |value| text(&path, value))?;
        }
        for (name, path, value) in section(map, "idempotent")? {
            if flag(&path, Some(value))? {
                manifest.idempotent.insert(name.to_owned());
            } else {
                manifest.idempotent.remove(name);
            }
        }
        let size = manifest.operations.len() + manifest.compensations.len();
        if size > LARGEST_MANIFEST {
            return Err(Refusal::new(
                format!("the manifest would have {size} operations and compensations, more than {LARGEST_MANIFEST}"),
                "Take out what is no longer used, with null in its place.",
            ));
        }
        Ok(manifest)
    }
}

/// Puts an entry in, or takes it out where the document has null.
fn set<T>(
    into: &mut std::collections::BTreeMap<String, T>,
    name: &str,
    value: &Value,
    read: impl FnOnce(&Value) -> Result<T, Refusal>,
) -> Result<(), Refusal> {
    if value.is_null() {
        into.remove(name);
    } else {
        into.insert(name.to_owned(), read(value)?);
    }
    Ok(())
}

/// The entries of a section, each with its path.
fn section<'a>(map: &'a Map<String, Value>, name: &str) -> Result<Vec<(&'a str, String, &'a Value)>, Refusal> {
    let Some(value) = map.get(name).filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    let entries = object(name, value)?.iter().map(|(key, value)| {
        let path = format!("{name}.{}", shown(key));
        input::name(&format!("a name in {name}"), key, input::LONGEST_NAME)?;
        Ok((key.as_str(), path, value))
    });
    entries.collect()
}

fn operation(path: &str, name: &str, value: &Value) -> Result<Operation, Refusal> {
    let map = object(path, value)?;
    input::known_options(path, map.keys(), &OPERATION_KEYS)?;
    Ok(Operation {
        produces: effects(path, map)?,
        requires_compensation: flag(&format!("{path}.requires_compensation"), map.get("requires_compensation"))?,
        compensation: optional_text(path, map, "compensation")?,
        job_kind: optional_text(path, map, "job_kind")?.unwrap_or_else(|| name.to_owned()),
    })
}

fn compensation(path: &str, name: &str, value: &Value) -> Result<Compensation, Refusal> {
    let map = object(path, value)?;
    input::known_options(path, map.keys(), &COMPENSATION_KEYS)?;
    let max_attempts = match map.get("max_attempts").filter(|value| !value.is_null()) {
        None => None,
        Some(number) => {
            let whole = number.as_i64().and_then(|number| i32::try_from(number).ok()).filter(|number| *number >= 1);
            Some(whole.ok_or_else(|| {
                wrong(&format!("{path}.max_attempts"), number, "a whole number from 1", "1 means no retry.")
            })?)
        }
    };
    let of = map.get("of").unwrap_or(&Value::Null);
    Ok(Compensation {
        of: text(&format!("{path}.of"), of)?,
        produces: effects(path, map)?,
        counter_effects: flag(&format!("{path}.counter_effects"), map.get("counter_effects"))?,
        requires_compensation: flag(&format!("{path}.requires_compensation"), map.get("requires_compensation"))?,
        job_kind: optional_text(path, map, "job_kind")?.unwrap_or_else(|| name.to_owned()),
        queue: optional_text(path, map, "queue")?.unwrap_or_else(|| input::DEFAULT_QUEUE.to_owned()),
        max_attempts,
    })
}

/// The list `produces`: sorted, each type once.
fn effects(path: &str, map: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let path = format!("{path}.produces");
    let Some(value) = map.get("produces").filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    let Value::Array(list) = value else {
        return Err(wrong(&path, value, "a list of effect types", "For example: [\"hotel_booking.book\"]."));
    };
    let types = list.iter().enumerate().map(|(index, value)| text(&format!("{path}[{index}]"), value));
    let mut types = types.collect::<Result<Vec<String>, Refusal>>()?;
    types.sort();
    types.dedup();
    if types.len() > MOST_EFFECTS {
        return Err(Refusal::new(
            format!("{path} has {} types of effects, more than {MOST_EFFECTS}", types.len()),
            "Name what is undone together as one type.",
        ));
    }
    Ok(types)
}

fn optional_text(path: &str, map: &Map<String, Value>, key: &str) -> Result<Option<String>, Refusal> {
    map.get(key).filter(|value| !value.is_null()).map(|value| text(&format!("{path}.{key}"), value)).transpose()
}

fn text(path: &str, value: &Value) -> Result<String, Refusal> {
    let Some(text) = value.as_str() else {
        return Err(wrong(path, value, "a text", "Give it a name in double quotes."));
    };
    Ok(input::name(path, text, input::LONGEST_NAME)?.to_owned())
}

fn flag(path: &str, value: Option<&Value>) -> Result<bool, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(wrong(path, other, "true or false", "Write true or false without quotes.")),
    }
}

fn object<'a>(path: &str, value: &'a Value) -> Result<&'a Map<String, Value>, Refusal> {
    let hint = "For example: {\"operations\": {\"book_hotel\": {\"produces\": [\"hotel_booking.book\"]}}}.";
    value.as_object().ok_or_else(|| wrong(path, value, "a JSON object", hint))
}

fn wrong(path: &str, value: &Value, wanted: &str, hint: &str) -> Refusal {
    Refusal::new(format!("{path} must be {wanted}, not {}", shown(&value.to_string())), hint)
}
