//! Payloads are small signals: data stay where they belong, and are pointed at.

use super::settings::PAYLOAD_MAX_BYTES;
use crate::json::Jsonb;
use agentq_core::{Refusal, payload};

/// Refuses a payload that is not an object, is larger than `max_bytes`, or has a key that content would have.
pub fn check_signal(what: &str, value: Jsonb, max_bytes: i64) -> Result<(), Refusal> {
    if !value.is_object() {
        return Err(payload::refuse_not_object(what, value.container().item().kind()));
    }
    if value.size() as i64 > max_bytes {
        return Err(payload::refuse_too_large(what, value.size(), max_bytes, PAYLOAD_MAX_BYTES));
    }
    if let Some(key) = payload::denied_key(value.container()) {
        return Err(payload::refuse_denied(what, key));
    }
    Ok(())
}
