//! SQL/JSON paths into an event: whether one can be read, and what it leads to.
//!
//! `$` is the event's data, and `$event` what else is known of it: `$event.subject`.

#![allow(unsafe_code, reason = "calling an input function of the server's")]

use crate::db::{self, Db, statements};
use crate::json::Jsonb;
use agentq_core::Refusal;
use pgrx::{IntoDatum, pg_sys};
use std::ffi::{CStr, CString};

statements!("paths.sql": PATH_MATCH, PATH_FIRST);

/// Refuses a text that is not a path, or asks for a variable that there is not. Such a path would raise an error with
/// each event, which the server does not suppress as it does others.
pub fn check(what: &str, path: &str) -> Result<(), Refusal> {
    let hint = "Write a path of SQL/JSON, such as $.severity > 3 or $event.subject.";
    let Ok(text) = CString::new(path) else {
        return Err(Refusal::new(format!("{what} has a NUL"), hint));
    };
    // SAFETY: the functions read their arguments and raise at most an error, which holds nothing that
    // would have to be released; the text lives until the end of the statement.
    let read = db::caught(|| unsafe {
        let read = pgrx::direct_function_call_as_datum(pg_sys::jsonpath_in, &[text.as_c_str().into_datum()]);
        let written = pgrx::direct_function_call::<&CStr>(pg_sys::jsonpath_out, &[read]);
        written.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    });
    let shown = agentq_core::error::shown(path);
    match read {
        Err(error) => Err(Refusal::new(format!("{what}: \"{shown}\" is not a path: {}", error.message), hint)),
        Ok(written) => match variables(&written).into_iter().find(|name| *name != "event") {
            None => Ok(()),
            Some(name) => Err(Refusal::new(
                format!("{what}: \"{shown}\" asks for ${}, which there is not", agentq_core::error::shown(name)),
                "The event's data are $, as in $.severity, and all else of it is $event, as in $event.subject.",
            )),
        },
    }
}

/// The variables of a path as the server writes it: each is a `$` and a name in quotes.
fn variables(written: &str) -> Vec<&str> {
    let (mut found, mut rest, mut before) = (Vec::new(), written, None);
    while let Some(at) = rest.find('"') {
        if at > 0 {
            before = rest[..at].chars().next_back();
        }
        let quoted = &rest[at + 1..];
        let mut is_escaped = false;
        let end = quoted.find(|letter| {
            let ends = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            ends
        });
        let end = end.unwrap_or(quoted.len());
        if before == Some('$') {
            found.push(&quoted[..end]);
        }
        (rest, before) = (quoted.get(end + 1..).unwrap_or_default(), Some('"'));
    }
    found
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
        db.run(&PATH_MATCH, &[self.data.into(), predicate.into(), self.vars.into()]).only()
    }

    /// The first value that a path leads to.
    pub fn first(&self, db: &Db, path: &str) -> Option<Jsonb> {
        db.run(&PATH_FIRST, &[self.data.into(), path.into(), self.vars.into()]).maybe_only()
    }
}
