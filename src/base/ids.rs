//! Ids.

use pgrx::Uuid;

/// A new time-ordered id.
pub fn new_id() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::now_v7().as_bytes())
}
