//! What an event may be written with beside what happened, and what of the log a reader may ask for.

use crate::Refusal;
use crate::bounds;
use crate::context::{self, Context};
use crate::input::{LONGEST_KEY, LONGEST_NAME};
use crate::reader::{Member, Reader};
use serde_json::Value;

pub const PURPOSES: [&str; 3] = ["event", "audit", "agent_step"];
/// Who says what an event says: agentq itself, or whoever called it.
pub const ORIGINS: [&str; 2] = ["agentq", "caller"];
pub const MOST_TAGS: usize = bounds::TAGS;
pub const LARGEST_READ: i32 = bounds::EVENTS as i32;
const LARGEST_COST: f64 = 1e12;

/// The options of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    pub purpose: Option<String>,
    pub source: Option<String>,
    pub tags: Vec<String>,
    pub dedupe_key: Option<String>,
    pub context: Context,
    pub target_type: Option<String>,
    pub target_id: Option<String>,
    pub agent: AgentStep,
}

/// What is known of a step of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentStep {
    pub step_index: Option<i32>,
    pub tool_name: Option<String>,
    pub latency_ms: Option<i32>,
    /// An object.
    pub token_usage: Option<Value>,
    pub cost_units: Option<f64>,
}

/// What a reader wants of the log; None: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub kinds: Option<Vec<String>>,
    pub purposes: Option<Vec<String>>,
    pub subject: Option<String>,
    pub mission: Option<String>,
    /// One of these.
    pub tags: Option<Vec<String>>,
    pub source: Option<String>,
    pub origin: Option<&'static str>,
}

/// The pattern of SQL's LIKE for a text in which * stands for any letters and ? for one.
pub fn like(glob: &str) -> String {
    let mut pattern = String::with_capacity(glob.len());
    for letter in glob.chars() {
        match letter {
            '*' => pattern.push('%'),
            '?' => pattern.push('_'),
            '%' | '_' | '\\' => pattern.extend(['\\', letter]),
            _ => pattern.push(letter),
        }
    }
    pattern
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

/// An id in its usual spelling.
fn uuid(at: Member<'_>) -> Result<Option<String>, Refusal> {
    let at = at.hint("Use the id as agentq answers it, such as 0190c1d2-0000-7000-8000-000000000001.");
    at.parsed("a uuid", |text| ::uuid::Uuid::parse_str(text).ok()).map(|id| id.map(|id| id.to_string()))
}

impl AgentStep {
    const KEYS: [&'static str; 5] = ["step_index", "tool_name", "latency_ms", "token_usage", "cost_units"];

    fn read(options: &Reader<'_>) -> Result<AgentStep, Refusal> {
        let usage = options.member("token_usage").hint("For example: {\"input\": 900, \"output\": 120}.");
        Ok(AgentStep {
            step_index: options.member("step_index").whole(0..=i32::MAX)?,
            tool_name: options.member("tool_name").name(LONGEST_NAME)?.map(str::to_owned),
            latency_ms: options.member("latency_ms").whole(0..=i32::MAX)?,
            token_usage: usage.read(|usage| usage.map().and_then(|_| usage.value()))?,
            cost_units: options.member("cost_units").number(0.0..=LARGEST_COST)?,
        })
    }
}

impl Options {
    pub fn read(options: &Reader<'_>) -> Result<Options, Refusal> {
        let own = ["purpose", "source", "tags", "dedupe_key", "target_type", "target_id"];
        let parts = ["mission_id", "command_id", "agent_run_id", "swarm_run_id"];
        options.object(&[&own[..], &context::GIVEN, &parts, &AgentStep::KEYS].concat())?;
        let text = |key: &str, longest: usize| {
            let text = options.member(key).hint("Put it in double quotes.");
            text.name(longest).map(|text| text.map(str::to_owned))
        };
        let id = |key: &str| uuid(options.member(key));
        Ok(Options {
            purpose: options.member("purpose").word(&PURPOSES)?.map(str::to_owned),
            source: text("source", LONGEST_NAME)?,
            tags: texts(options, "tags")?.unwrap_or_default(),
            dedupe_key: text("dedupe_key", LONGEST_KEY)?,
            context: Context {
                mission_id: id("mission_id")?,
                command_id: id("command_id")?,
                agent_run_id: id("agent_run_id")?,
                swarm_run_id: id("swarm_run_id")?,
                ..Context::given(|key| Ok(options.member(key)))?
            },
            target_type: text("target_type", LONGEST_NAME)?,
            target_id: text("target_id", LONGEST_KEY)?,
            agent: AgentStep::read(options)?,
        })
    }
}

impl Filter {
    pub fn read(options: &Reader<'_>) -> Result<Filter, Refusal> {
        options.object(&["kinds", "purposes", "subject", "mission", "tags", "source", "origin"])?;
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
            mission: uuid(options.member("mission"))?,
            tags: texts(options, "tags")?,
            source: options.member("source").name(LONGEST_NAME)?.map(str::to_owned),
            origin: options.member("origin").word(&ORIGINS)?,
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
            (json!({"mission_id": "x"}), "p_options.mission_id must be a uuid"),
            (json!({"command_id": 7}), "command_id"),
            (json!({"step_index": -1}), "step_index"),
            (json!({"token_usage": [1]}), "token_usage"),
            (json!({"cost_units": -0.5}), "cost_units"),
            (json!({"traceparent": "00-0"}), "traceparent"),
        ] {
            let refusal = Options::read(&options(&value)).unwrap_err();
            assert!(refusal.message.contains(named) && !refusal.hint.is_empty(), "{value}: {refusal:?}");
        }
        assert!(Filter::read(&options(&json!({"purposes": ["fun"]}))).unwrap_err().message.contains("fun"));
        assert!(Filter::read(&options(&json!({"kind": "x"}))).unwrap_err().hint.contains("kinds"));
        assert!(Filter::read(&options(&json!({}))).unwrap().is_all());
    }

    #[test]
    fn a_pattern_of_kinds_means_what_it_says() {
        for (glob, pattern) in [("job.*", "job.%"), ("a?c", "a_c"), ("50%_\\", "50\\%\\_\\\\"), ("plain", "plain")] {
            assert_eq!(like(glob), pattern);
        }
    }

    #[test]
    fn what_is_known_of_a_step_of_an_agent_is_read() {
        let read = Options::read(&options(&json!({"purpose": "agent_step", "step_index": 3, "tool_name": "search",
            "latency_ms": 120, "token_usage": {"input": 9}, "cost_units": 0.25,
            "agent_run_id": "0190C1D2-0000-7000-8000-000000000001", "correlation_id": "order 7"})));
        let read = read.unwrap();
        assert_eq!((read.agent.step_index, read.agent.cost_units), (Some(3), Some(0.25)));
        assert_eq!(read.context.agent_run_id.as_deref(), Some("0190c1d2-0000-7000-8000-000000000001"));
        assert_eq!(read.context.correlation_id.as_deref(), Some("order 7"));
    }

    #[test]
    fn a_read_has_bounds() {
        assert_eq!(read_limit(1), Ok(1));
        assert!(read_limit(0).is_err() && read_limit(LARGEST_READ + 1).is_err());
    }
}
