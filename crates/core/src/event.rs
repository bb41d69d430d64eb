//! What an event may be written with beside what happened, and what of the log a reader may ask for.

use crate::Refusal;
use crate::input::{LONGEST_KEY, LONGEST_NAME};
use crate::reader::Reader;

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

/// A list of texts, each of which says something.
fn texts(options: &Reader<'_>, key: &str) -> Result<Option<Vec<String>>, Refusal> {
    let list = options.member(key).hint("Write it as in [\"one\", \"two\"].");
    list.read(|list| {
        list.list("texts", 0..=MOST_TAGS)?.map(|text| text.name(LONGEST_NAME).map(str::to_owned)).collect()
    })
}

impl Options {
    pub fn read(options: &Reader<'_>) -> Result<Options, Refusal> {
        options.object(&["purpose", "source", "tags", "dedupe_key", "correlation_id", "trace_id", "mission_id"])?;
        let text = |key: &str, longest: usize| {
            let text = options.member(key).hint("Put it in double quotes.");
            text.name(longest).map(|text| text.map(str::to_owned))
        };
        Ok(Options {
            purpose: options.member("purpose").word(&PURPOSES)?.map(str::to_owned),
            source: text("source", LONGEST_NAME)?,
            tags: texts(options, "tags")?.unwrap_or_default(),
            dedupe_key: text("dedupe_key", LONGEST_KEY)?,
            correlation_id: text("correlation_id", LONGEST_NAME)?,
            trace_id: text("trace_id", LONGEST_NAME)?,
            mission_id: text("mission_id", LONGEST_NAME)?,
        })
    }
}

impl Filter {
    pub fn read(options: &Reader<'_>) -> Result<Filter, Refusal> {
        options.object(&["kinds", "purposes", "subject", "mission"])?;
        let purposes = options.member("purposes").read(|purposes| {
            purposes
                .list("purposes", 0..=MOST_TAGS)?
                .map(|purpose| purpose.word(&PURPOSES).map(str::to_owned))
                .collect()
        });
        Ok(Filter {
            kinds: texts(options, "kinds")?,
            purposes: purposes?,
            subject: options.member("subject").name(LONGEST_KEY)?.map(str::to_owned),
            mission: options.member("mission").name(LONGEST_NAME)?.map(str::to_owned),
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
    use crate::reader::document;
    use serde_json::{Value, json};

    fn options(value: &Value) -> Reader<'static> {
        Reader::at("p_options", document(value))
    }

    #[test]
    fn options_are_read_and_nulls_are_left_out() {
        let read =
            Options::read(&options(&json!({"purpose": "audit", "tags": ["a"], "source": null, "dedupe_key": "k"})));
        let expected = Options {
            purpose: Some("audit".to_owned()),
            tags: vec!["a".to_owned()],
            dedupe_key: Some("k".to_owned()),
            ..Options::default()
        };
        assert_eq!(read, Ok(expected));
        assert_eq!(Options::read(&options(&json!({}))), Ok(Options::default()));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (value, named) in [
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
            let refusal = Options::read(&options(&value)).unwrap_err();
            assert!(refusal.message.contains(named) && !refusal.hint.is_empty(), "{value}: {refusal:?}");
        }
        assert!(Filter::read(&options(&json!({"purposes": ["fun"]}))).unwrap_err().message.contains("fun"));
        assert!(Filter::read(&options(&json!({"kind": "x"}))).unwrap_err().hint.contains("kinds"));
        assert!(Filter::read(&options(&json!({}))).unwrap().is_all());
    }

    #[test]
    fn a_read_has_bounds() {
        assert_eq!(read_limit(1), Ok(1));
        assert!(read_limit(0).is_err() && read_limit(LARGEST_READ + 1).is_err());
    }
}
