//! The versions of the schema that this library serves: its own, and the one before, until it is updated.

use crate::error::raise;
use agentq_core::version::{self, Schema};
use pgrx::prelude::*;

pub const LIBRARY: &str = env!("CARGO_PKG_VERSION");
/// The version before this one. None: nothing older was released.
const PREVIOUS: Option<&str> = Some("0.9.0");
pub const HAS_PREVIOUS: bool = PREVIOUS.is_some();

/// How a schema of this version stands to the library.
pub fn schema(found: &str) -> Schema {
    version::compare(found, LIBRARY, PREVIOUS)
}

/// Raises an error if this library does not serve a schema of this version.
pub fn must_be_served(found: &str) {
    let served = PREVIOUS.map_or(LIBRARY.to_owned(), |previous| format!("{previous} and {LIBRARY}"));
    let hint = match schema(found) {
        Schema::Current | Schema::Previous => return,
        Schema::Older => {
            "Install the files of a version that serves it, run ALTER EXTENSION agentq UPDATE, and go on from there."
        }
        Schema::Newer => "Install the files of that version, and restart the server if it preloads agentq.",
        Schema::Unknown => "Run ALTER EXTENSION agentq UPDATE.",
    };
    raise(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("the schema of agentq here is of version {found}, and this library serves {served}"),
        hint,
    )
}

#[pg_extern(immutable, parallel_safe)]
fn fn_version() -> &'static str {
    LIBRARY
}
