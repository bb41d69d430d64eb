//! What an event may be written with beside what happened, and what of the log a reader may ask for.

use crate::Refusal;
use crate::error::shown;
use crate::input::{self, LONGEST_KEY, LONGEST_NAME};
use crate::payload;
use serde_json::{Map, Value};

pub const PURPOSES: [&str; 3] = ["event", "audit", "agent_step"];
pub const MOST_TAGS: usize = 100;
pub const LARGEST_READ: i32 = 10_000;

/// The options of an event. Ids are texts that nobody has looked at yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub purpose: Option<String>,
    pub source: Option<String>,
    pub tags: Vec<String>,
    pub dedupe_key: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    pub mission_id: Option<String>,
}

/// What a reader wants of the log; None: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub kinds: Option<Vec<String>>,
    pub purposes: Option<Vec<String>>,
    pub subject: Option<String>,
    pub mission: Option<String>,
}

impl Filter {
    pub fn is_all(&self) -> bool {
        *self == Filter::default()
    }
}

fn object<'a>(options: &'a Value, accepted: &[&str]) -> Result<&'a Map<String, Value>, Refusal> {
    let Value::Object(map) = options else {
        return Err(payload::refuse_not_object("p_options", "this"));
    };
    input::known_options("p_options", map.keys(), accepted)?;
    Ok(map)
}

fn text(map: &Map<String, Value>, key: &str, longest: usize) -> Result<Option<String>, Refusal> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => input::name(key, text, longest).map(|text| Some(text.to_owned())),
        Some(other) => Err(Refusal::new(
            format!("the option \"{key}\" must be a text, not {}", shown(&other.to_string())),
            format!("For example: p_options => '{{\"{key}\": \"…\"}}'."),
        )),
    }
}

fn texts(map: &Map<String, Value>, key: &str) -> Result<Option<Vec<String>>, Refusal> {
    let Some(value) = map.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let names: Option<Vec<String>> = serde_json::from_value(value.clone()).ok();
    let names = names.filter(|names| names.len() <= MOST_TAGS).ok_or_else(|| {
        Refusal::new(
            format!(
                "the option \"{key}\" must be a list of at most {MOST_TAGS} texts, not {}",
                shown(&value.to_string())
            ),
            format!("For example: p_options => '{{\"{key}\": [\"one\", \"two\"]}}'."),
        )
    })?;
    for name in &names {
        input::name(key, name, LONGEST_NAME)?;
    }
    Ok(Some(names))
}

impl Options {
    pub fn read(options: &Value) -> Result<Options, Refusal> {
        let accepted = ["purpose", "source", "tags", "dedupe_key", "correlation_id", "trace_id", "mission_id"];
        let map = object(options, &accepted)?;
        let purpose = text(map, "purpose", LONGEST_NAME)?;
        if let Some(purpose) = &purpose {
            input::one_of("purpose", purpose, &PURPOSES)?;
        }
        Ok(Options {
            purpose,
            source: text(map, "source", LONGEST_NAME)?,
            tags: texts(map, "tags")?.unwrap_or_default(),
            dedupe_key: text(map, "dedupe_key", LONGEST_KEY)?,
            correlation_id: text(map, "correlation_id", LONGEST_NAME)?,
            trace_id: text(map, "trace_id", LONGEST_NAME)?,
            mission_id: text(map, "mission_id", LONGEST_NAME)?,
        })
    }
}

impl Filter {
    pub fn read(options: &Value) -> Result<Filter, Refusal> {
        let map = object(options, &["kinds", "purposes", "subject", "mission"])?;
        let purposes = texts(map, "purposes")?;
        for purpose in purposes.iter().flatten() {
            input::one_of("purpose", purpose, &PURPOSES)?;
        }
        Ok(Filter {
            kinds: texts(map, "kinds")?,
            purposes,
            subject: text(map, "subject", LONGEST_KEY)?,
            mission: text(map, "mission", LONGEST_NAME)?,
        })
    }
}

pub fn read_limit(value: i32) -> Result<i32, Refusal> {
    if (1..=LARGEST_READ).contains(&value) {
        return Ok(value);
    }
    Err(Refusal::new(
        format!("p_limit must be from 1 to {LARGEST_READ}, but is {value}"),
        "Read in several calls, each with the next_after of the one before.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_read_and_nulls_are_left_out() {
        let read =
            Options::read(&json!({"purpose": "audit", "tags": ["a"], "source": null, "dedupe_key": "k"})).unwrap();
        let expected = Options {
            purpose: Some("audit".to_owned()),
            tags: vec!["a".to_owned()],
            dedupe_key: Some("k".to_owned()),
            ..Options::default()
        };
        assert_eq!(read, expected);
        assert_eq!(Options::read(&json!({})).unwrap(), Options::default());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (options, named) in [
            (json!([]), "JSON object"),
            (json!({"colour": 1}), "colour"),
            (json!({"purpose": "fun"}), "fun"),
            (json!({"purpose": 7}), "7"),
            (json!({"tags": "a"}), "tags"),
            (json!({"tags": [1]}), "tags"),
            (json!({"tags": [" "]}), "tags"),
            (json!({"dedupe_key": ""}), "dedupe_key"),
            (json!({"source": "x".repeat(201)}), "201"),
        ] {
            let refusal = Options::read(&options).unwrap_err();
            assert!(refusal.message.contains(named) && !refusal.hint.is_empty(), "{options}: {refusal:?}");
        }
        assert!(Filter::read(&json!({"purposes": ["fun"]})).unwrap_err().message.contains("fun"));
        assert!(Filter::read(&json!({"kind": "x"})).unwrap_err().hint.contains("kinds"));
        assert!(Filter::read(&json!({})).unwrap().is_all());
    }

    #[test]
    fn a_read_has_bounds() {
        assert_eq!(read_limit(1), Ok(1));
        assert!(read_limit(0).is_err() && read_limit(LARGEST_READ + 1).is_err());
    }
}
