//! The list that a caller hands to a function for many jobs.

use crate::error::OrRaise;
use crate::json::Jsonb;
use agentq_core::Refusal;

const LARGEST_BATCH: usize = 10_000;

/// Returns the list, or refuses one that is no list or longer than a batch may be.
pub fn checked(what: &str, list: Jsonb, example: &str) -> Jsonb {
    if !list.is_array() {
        Err(not_a_list(what, example)).or_raise()
    }
    if list.container().len() > LARGEST_BATCH {
        Err(too_many(list.container().len())).or_raise()
    }
    list
}

pub fn not_a_list(what: &str, example: &str) -> Refusal {
    Refusal::new(format!("{what} must be a JSON array"), format!("For example: '{example}'."))
}

fn too_many(found: usize) -> Refusal {
    Refusal::new(
        format!("a batch holds at most {LARGEST_BATCH} jobs, and this one has {found}"),
        "Send it in several calls.",
    )
}
