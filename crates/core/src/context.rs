//! What something belongs to: the trace and the correlation that a caller has given it, the mission, command or run that
//! it is part of. Each hands it on to what it causes, from event to proposal to mission to job to event.

use crate::Refusal;
use crate::error::shown;
use crate::input::LONGEST_NAME;
use crate::jsonb::{self, Item, TooLarge};
use crate::reader::{Member, Reader};
use serde_json::{Map, Value};

/// Ids are kept as texts in their usual spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    pub trace_id: Option<String>,
    /// The trace as W3C Trace Context writes it, with the span that comes before. Its trace is `trace_id`.
    pub traceparent: Option<String>,
    pub correlation_id: Option<String>,
    pub mission_id: Option<String>,
    pub command_id: Option<String>,
    pub agent_run_id: Option<String>,
    pub swarm_run_id: Option<String>,
}

/// What a caller may give: the rest comes from what it is part of.
pub const GIVEN: [&str; 3] = ["trace_id", "traceparent", "correlation_id"];

const TRACEPARENT_HINT: &str = "As in 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01: version, trace, span and flags, in small hexadecimal digits.";

/// The trace of a traceparent. None: it is none.
pub fn trace_of(text: &str) -> Option<&str> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    let fits = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    // Later versions may have more parts; the first has none, and ff is no version.
    let ends = parts.next().is_none() || version != "00";
    (fits && ends && version != "ff" && !is_zero(trace) && !is_zero(span)).then_some(trace)
}

impl Context {
    pub fn is_empty(&self) -> bool {
        *self == Context::default()
    }

    /// Reads what a caller gives; `get` finds what is there. A trace_id may be a traceparent.
    pub fn given<'a>(get: impl Fn(&'static str) -> Result<Member<'a>, Refusal>) -> Result<Context, Refusal> {
        let text = |key: &'static str| -> Result<Option<&'a str>, Refusal> {
            get(key)?.hint("Put it in double quotes.").name(LONGEST_NAME)
        };
        let (trace_id, correlation_id) = (text("trace_id")?, text("correlation_id")?);
        let parent = get("traceparent")?.hint(TRACEPARENT_HINT).reader();
        let traceparent = match &parent {
            Some(at) => {
                let text = at.name(LONGEST_NAME)?;
                let trace = trace_of(text).ok_or_else(|| at.must_be("a traceparent"))?;
                if trace_id.is_some_and(|id| id != trace && id != text) {
                    return Err(at.refuse(
                        format!("its trace is not the trace_id \"{}\"", shown(trace_id.unwrap_or_default())),
                        "Give one of the two.",
                    ));
                }
                Some(text)
            }
            None => trace_id.filter(|id| trace_of(id).is_some()),
        };
        Ok(Context {
            trace_id: traceparent.and_then(trace_of).or(trace_id).map(str::to_owned),
            traceparent: traceparent.map(str::to_owned),
            correlation_id: correlation_id.map(str::to_owned),
            ..Context::default()
        })
    }

    /// With what `other` says where this says nothing. A trace is taken over whole or not at all.
    pub fn or(mut self, other: &Context) -> Context {
        if self.trace_id.is_none() {
            (self.trace_id, self.traceparent) = (other.trace_id.clone(), other.traceparent.clone());
        }
        let or = |mine: &mut Option<String>, theirs: &Option<String>| {
            if mine.is_none() {
                mine.clone_from(theirs);
            }
        };
        or(&mut self.correlation_id, &other.correlation_id);
        or(&mut self.mission_id, &other.mission_id);
        or(&mut self.command_id, &other.command_id);
        or(&mut self.agent_run_id, &other.agent_run_id);
        or(&mut self.swarm_run_id, &other.swarm_run_id);
        self
    }

    /// Each member that is there, by its name.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("trace_id", &self.trace_id),
            ("traceparent", &self.traceparent),
            ("correlation_id", &self.correlation_id),
            ("mission_id", &self.mission_id),
            ("command_id", &self.command_id),
            ("agent_run_id", &self.agent_run_id),
            ("swarm_run_id", &self.swarm_run_id),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// As it is kept, in the server's form.
    pub fn to_jsonb(&self) -> Result<Vec<u8>, TooLarge> {
        let map: Map<String, Value> =
            self.members().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        jsonb::from_value(&Value::Object(map))
    }

    /// Reads what was kept. What does not fit is passed over.
    pub fn from_jsonb(item: Item<'_>) -> Context {
        let at = Reader::at("context", item);
        let text = |key: &str| at.member(key).text().ok().flatten().map(str::to_owned);
        Context {
            trace_id: text("trace_id"),
            traceparent: text("traceparent"),
            correlation_id: text("correlation_id"),
            mission_id: text("mission_id"),
            command_id: text("command_id"),
            agent_run_id: text("agent_run_id"),
            swarm_run_id: text("swarm_run_id"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonb::Container;
    use crate::reader::document;
    use proptest::prelude::*;
    use serde_json::json;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn given(value: Value) -> Result<Context, Refusal> {
        let at = Reader::at("p_options", document(&value));
        Context::given(|key| Ok(at.member(key)))
    }

    #[test]
    fn a_traceparent_brings_its_trace() {
        for value in [
            json!({"trace_id": PARENT}),
            json!({"traceparent": PARENT}),
            json!({"traceparent": PARENT, "trace_id": TRACE}),
        ] {
            let context = given(value).unwrap();
            assert_eq!((context.trace_id.as_deref(), context.traceparent.as_deref()), (Some(TRACE), Some(PARENT)));
        }
        let context = given(json!({"trace_id": "trace 7", "correlation_id": "order 9"})).unwrap();
        assert_eq!((context.trace_id.as_deref(), context.traceparent), (Some("trace 7"), None));
    }

    #[test]
    fn what_is_no_traceparent_is_refused_where_one_is_asked_for() {
        for text in [
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "trace 7",
        ] {
            let refusal = given(json!({"traceparent": text})).unwrap_err();
            assert!(refusal.message.contains("traceparent") && refusal.hint.contains("00-"), "{refusal:?}");
            assert_eq!(trace_of(text), None);
        }
        assert!(trace_of("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").is_some());
        assert!(given(json!({"traceparent": PARENT, "trace_id": "another"})).unwrap_err().message.contains("another"));
        assert!(given(json!({"trace_id": 7})).is_err() && given(json!({"correlation_id": ""})).is_err());
    }

    #[test]
    fn what_is_part_of_something_takes_over_what_it_does_not_say() {
        let outer = given(json!({"trace_id": PARENT, "correlation_id": "outer"})).unwrap();
        let outer = Context { mission_id: Some("m".to_owned()), ..outer };
        let inner = given(json!({"correlation_id": "inner"})).unwrap().or(&outer);
        assert_eq!((inner.traceparent.as_deref(), inner.correlation_id.as_deref()), (Some(PARENT), Some("inner")));
        assert_eq!(inner.mission_id.as_deref(), Some("m"));
        // A trace of its own has no span of another.
        let own = given(json!({"trace_id": "own"})).unwrap().or(&outer);
        assert_eq!((own.trace_id.as_deref(), own.traceparent), (Some("own"), None));
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_again(texts in prop::collection::vec(prop::option::of("[a-z\"\\\\é]{1,9}"), 7)) {
            let mut texts = texts.into_iter();
            let mut next = || texts.next().flatten();
            let context = Context {
                trace_id: next(), traceparent: next(), correlation_id: next(), mission_id: next(), command_id: next(),
                agent_run_id: next(), swarm_run_id: next(),
            };
            let kept = context.to_jsonb().unwrap();
            prop_assert_eq!(Context::from_jsonb(Container::new(&kept).item()), context);
        }
    }
}
