//! From parsed JSON to the server's form and back.

use super::number::{self, Decimal};
use super::{
    ARRAY, CONTAINER, COUNT, Container, FALSE, HAS_OFFSET, Item, LENGTH, NULL, NUMERIC, OBJECT, SCALAR, STRIDE,
};
use super::{STRING, TRUE, TooLarge, in_order};
use serde_json::{Map, Value};

/// Writes parsed JSON in the server's form.
pub fn from_value(value: &Value) -> Result<Vec<u8>, TooLarge> {
    let mut out = Vec::new();
    if value.is_array() || value.is_object() {
        append(&mut out, value)?;
    } else {
        append_container(&mut out, ARRAY | SCALAR, 1, 1, std::iter::once(Part::Value(value)))?;
    }
    Ok(out)
}

enum Part<'a> {
    Key(&'a str),
    Value(&'a Value),
}

/// Appends a value, and says what kind of entry it has.
fn append(out: &mut Vec<u8>, value: &Value) -> Result<u32, TooLarge> {
    let aligned = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(4), 0);
    Ok(match value {
        Value::Null => NULL,
        Value::Bool(true) => TRUE,
        Value::Bool(false) => FALSE,
        Value::String(text) => {
            out.extend_from_slice(text.as_bytes());
            STRING
        }
        Value::Number(number) => {
            aligned(out);
            number::append(out, number);
            NUMERIC
        }
        Value::Array(list) => {
            aligned(out);
            append_container(out, ARRAY, list.len(), list.len(), list.iter().map(Part::Value))?;
            CONTAINER
        }
        Value::Object(map) => {
            aligned(out);
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            members.sort_unstable_by(|(a, _), (b, _)| in_order(a.as_bytes(), b.as_bytes()));
            let keys = members.iter().map(|(key, _)| Part::Key(key));
            let parts = keys.chain(members.iter().map(|(_, value)| Part::Value(value)));
            append_container(out, OBJECT, members.len(), members.len() * 2, parts)?;
            CONTAINER
        }
    })
}

fn append_container<'a>(
    out: &mut Vec<u8>,
    kind: u32,
    count: usize,
    entries: usize,
    parts: impl Iterator<Item = Part<'a>>,
) -> Result<(), TooLarge> {
    let header = u32::try_from(count).ok().filter(|count| *count <= COUNT).ok_or(TooLarge)?;
    out.extend_from_slice(&(kind | header).to_ne_bytes());
    let first = out.len();
    out.resize(first + entries * 4, 0);
    let data = out.len();
    for (place, part) in parts.enumerate() {
        let start = out.len();
        let kind = match part {
            Part::Key(key) => {
                out.extend_from_slice(key.as_bytes());
                STRING
            }
            Part::Value(value) => append(out, value)?,
        };
        let end = out.len() - data;
        if end > LENGTH as usize {
            return Err(TooLarge);
        }
        let entry =
            if place % STRIDE == 0 { kind | HAS_OFFSET | end as u32 } else { kind | (out.len() - start) as u32 };
        out[first + place * 4..first + place * 4 + 4].copy_from_slice(&entry.to_ne_bytes());
    }
    Ok(())
}

/// Makes parsed JSON of a value. None: a number in it is larger than any double, or a text is not in UTF-8. The caller
/// knows how deep the value is: this goes as deep.
pub fn to_value(item: Item<'_>) -> Option<Value> {
    Some(match item {
        Item::Null => Value::Null,
        Item::Bool(flag) => Value::Bool(flag),
        Item::Int(number) => number.into(),
        Item::Number(bytes) => Value::Number(Decimal::read(bytes)?.number()?),
        Item::Text(bytes) => Value::String(std::str::from_utf8(bytes).ok()?.to_owned()),
        Item::Container(bytes) => {
            let container = Container::new(bytes);
            if container.is_object() {
                let mut map = Map::new();
                for (key, item) in container.members() {
                    map.insert(std::str::from_utf8(key).ok()?.to_owned(), to_value(item)?);
                }
                Value::Object(map)
            } else {
                // As many as there are, and no more: a list that grows takes twice its room.
                let mut list = Vec::with_capacity(container.len());
                for item in container.elements() {
                    list.push(to_value(item)?);
                }
                Value::Array(list)
            }
        }
    })
}
