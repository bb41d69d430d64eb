//! Payloads are signals, not data: what may not be put into one.

use crate::error::Refusal;
use serde_json::Value;

/// Keys that may not appear at the top of a payload or of a heartbeat's metadata: content and
/// secrets live elsewhere and are pointed at. Nested keys are not looked at, because the rule is
/// the same as the one the CHECK constraint states, and that one reads the top level.
pub const DENIED_KEYS: [&str; 10] =
    ["body", "content", "raw", "vector", "embedding", "secret", "token", "password", "ssn", "personal_data"];

/// The first denied key of an object, in the order of `DENIED_KEYS`.
pub fn denied_key(value: &Value) -> Option<&'static str> {
    let object = value.as_object()?;
    DENIED_KEYS.into_iter().find(|key| object.contains_key(*key))
}

pub fn refuse_denied(what: &str, key: &str) -> Refusal {
    Refusal::new(
        format!("{what} holds the key \"{key}\", which is not allowed there"),
        format!(
            "Keep the data where it belongs and point at it with payload_ref. Keys that are refused: {}.",
            DENIED_KEYS.join(", ")
        ),
    )
}

pub fn refuse_not_object(what: &str, found: &str) -> Refusal {
    Refusal::new(
        format!("{what} must be a JSON object, not {found}"),
        format!("Wrap the value: {{\"value\": …}} is an object that {what} may hold."),
    )
}

pub fn refuse_too_large(what: &str, bytes: usize, limit: i64, key: &str) -> Refusal {
    Refusal::new(
        format!("{what} is {bytes} bytes, more than the {limit} allowed"),
        format!(
            "Store the data elsewhere and pass a reference in payload_ref, or raise the bound with agentq.fn_config_set('{key}', …)."
        ),
    )
}

/// Checks one payload of a batch; single enqueues leave it to the server's own jsonb functions.
pub fn check(what: &str, value: &Value) -> Result<(), Refusal> {
    let found = match value {
        Value::Object(_) => return denied_key(value).map_or(Ok(()), |key| Err(refuse_denied(what, key))),
        Value::Array(_) => "an array",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a boolean",
        Value::Null => "null",
    };
    Err(refuse_not_object(what, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_denied_key_is_found() {
        for key in DENIED_KEYS {
            assert_eq!(denied_key(&json!({"a": 1, key: 2})), Some(key));
        }
    }

    #[test]
    fn nested_keys_are_the_callers_own_business() {
        assert_eq!(check("payload_json", &json!({"usage": {"token": 5}})), Ok(()));
    }

    #[test]
    fn scalars_and_arrays_are_refused_by_kind() {
        for (value, word) in [(json!(5), "a number"), (json!([1]), "an array"), (json!(null), "null")] {
            assert!(check("payload_json", &value).unwrap_err().message.contains(word));
        }
    }
}
