//! The list that a caller hands to a function for many jobs.

use crate::error::OrRaise;
use crate::json::Jsonb;
use agentq_core::Refusal;

/// Returns the list, or refuses what is no list.
pub fn checked(what: &str, list: Jsonb, example: &str) -> Jsonb {
    if !list.is_array() {
        Err(not_a_list(what, example)).or_raise()
    }
    list
}

pub fn not_a_list(what: &str, example: &str) -> Refusal {
    Refusal::new(format!("{what} must be a JSON array"), format!("For example: '{example}'."))
}
