//! Payloads are signals, not data: what may not be put into one.

use crate::error::Refusal;
use crate::jsonb::Container;

/// Keys that may not appear at the top of a payload or of a heartbeat's metadata: content and secrets live elsewhere
/// and are pointed at. Nobody looks at nested keys: this is the rule of the CHECK constraint, which reads the top
/// level.
pub const DENIED_KEYS: [&str; 10] =
    ["body", "content", "raw", "vector", "embedding", "secret", "token", "password", "ssn", "personal_data"];

/// The first of the denied keys that an object has at its top level.
pub fn denied_key(object: Container<'_>) -> Option<&'static str> {
    let is_denied = |key: &[u8]| DENIED_KEYS.iter().any(|denied| denied.as_bytes() == key);
    let found = object.keys().any(is_denied);
    if found { DENIED_KEYS.into_iter().find(|key| object.get(key).is_some()) } else { None }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_key_and_what_to_do() {
        let refusal = refuse_denied("p_payload_json", "token");
        assert!(refusal.message.contains("\"token\"") && refusal.hint.contains("payload_ref"));
        for key in DENIED_KEYS {
            assert!(refusal.hint.contains(key));
        }
    }

    #[test]
    fn the_first_denied_key_is_found_at_the_top_level_only() {
        use crate::jsonb::{Item, object};
        let inner = object(&mut [("token", Item::Null)]).unwrap();
        let fine = object(&mut [("tokens", Item::Bool(true)), ("inner", Item::Container(&inner))]).unwrap();
        assert_eq!(denied_key(Container::new(&fine)), None);
        let bad = object(&mut [("ssn", Item::Null), ("a", Item::Null), ("raw", Item::Null)]).unwrap();
        assert_eq!(denied_key(Container::new(&bad)), Some("raw"));
    }

    #[test]
    fn a_refused_size_names_both_sizes_and_the_setting() {
        let refusal = refuse_too_large("p_result", 300, 200, "queue.payload.max_bytes");
        assert!(refusal.message.contains("300") && refusal.message.contains("200"));
        assert!(refusal.hint.contains("queue.payload.max_bytes"));
    }
}
