//! Which dead letters are meant: a JSON object of conditions, all of which must hold.

use crate::base::clock::parse_moment;
use crate::base::ids::parse_id;
use agentq_core::{Refusal, input, payload};
use serde_json::Value;

const KEYS: [&str; 10] = [
    "job_kind",
    "queue",
    "reason",
    "error_class",
    "triage_status",
    "resolution_status",
    "assigned_to",
    "moved_after",
    "moved_before",
    "job_ids",
];

/// Refuses a filter that cannot be understood. The statements read it as it is.
pub fn check(what: &str, filter: &Value) -> Result<(), Refusal> {
    let Value::Object(map) = filter else {
        return Err(payload::refuse_not_object(what, "this"));
    };
    input::known_options(what, map.keys(), &KEYS)?;
    for (key, value) in map {
        match (key.as_str(), value) {
            ("moved_after" | "moved_before", Value::String(text)) => parse_moment(key, text).map(drop)?,
            ("job_ids", Value::Array(ids)) if ids.iter().all(is_id) => {}
            ("moved_after" | "moved_before" | "job_ids", other) => return Err(wrong(key, other)),
            (_, Value::String(_)) => {}
            (_, other) => return Err(wrong(key, other)),
        }
    }
    Ok(())
}

fn is_id(value: &Value) -> bool {
    value.as_str().and_then(parse_id).is_some()
}

fn wrong(key: &str, value: &Value) -> Refusal {
    Refusal::new(
        format!("{key} cannot be {}", agentq_core::error::shown(&value.to_string())),
        "Texts are compared as they are, moved_after and moved_before are timestamps, job_ids a list of ids.",
    )
}
