//! SQL/JSON paths into an event: whether one can be read, and what it leads to.
//!
//! `$` is the event's data, and `$event` what else is known of it: `$event.subject`.

#![allow(unsafe_code, reason = "calling an input function of the server's")]

use crate::db::{self, Db, statement};
use crate::json::Jsonb;
use agentq_core::Refusal;
use pgrx::{IntoDatum, pg_sys};
use std::ffi::CString;

statement!(PATH_MATCH, "sql/path_match.sql", [JSONBOID, TEXTOID, JSONBOID]);
statement!(PATH_FIRST, "sql/path_first.sql", [JSONBOID, TEXTOID, JSONBOID]);

/// Refuses a text that is not a path.
pub fn check(what: &str, path: &str) -> Result<(), Refusal> {
    let hint = "Write a path of SQL/JSON, such as $.severity > 3 or $event.subject.";
    let Ok(text) = CString::new(path) else {
        return Err(Refusal::new(format!("{what} has a NUL"), hint));
    };
    // SAFETY: the input function reads its argument and raises at most an error, which holds nothing
    // that would have to be released.
    let read = db::caught(|| unsafe {
        pgrx::direct_function_call_as_datum(pg_sys::jsonpath_in, &[text.as_c_str().into_datum()]).is_some()
    });
    read.map(drop).map_err(|error| {
        let shown = agentq_core::error::shown(path);
        Refusal::new(format!("{what}: \"{shown}\" is not a path: {}", error.message), hint)
    })
}

/// An event as paths see it.
pub struct Seen {
    pub data: Jsonb,
    /// An object with the one key `event`.
    pub vars: Jsonb,
}

impl Seen {
    /// Whether a predicate holds. One that cannot be evaluated does not.
    pub fn holds(&self, db: &Db, predicate: &str) -> bool {
        db.run(&PATH_MATCH, &[self.data.into(), predicate.into(), self.vars.into()]).must(1)
    }

    /// The first value that a path leads to.
    pub fn first(&self, db: &Db, path: &str) -> Option<Jsonb> {
        db.run(&PATH_FIRST, &[self.data.into(), path.into(), self.vars.into()]).get(1)
    }
}
