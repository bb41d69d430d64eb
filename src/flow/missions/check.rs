//! Reading a template with what only the server knows: paths, queues, payloads.

use crate::base::clock::parse_moment;
use crate::base::settings::is_schema_previous;
use crate::base::signal::check_signal;
use crate::db;
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use agentq_core::Refusal;
use agentq_core::input::DEFAULT_QUEUE;
use agentq_core::jsonb::{self, Container, Item};
use agentq_core::mission::template::{Outside, Template};
use agentq_core::reader::Reader;
use pgrx::{IntoDatum, direct_function_call, pg_sys};
use serde_json::Value;
use std::ffi::CString;

struct Server<'a>(&'a Rulebook);

impl Outside for Server<'_> {
    #[allow(unsafe_code, reason = "an input function of the server's")]
    fn path(&self, path: &str) -> Result<(), String> {
        let text = CString::new(path).map_err(|_| "it has a NUL".to_owned())?;
        // SAFETY: the function reads its argument and raises at most an error; it holds nothing that the error would
        // have to release.
        let parsed = db::caught(|| unsafe {
            direct_function_call::<pg_sys::Datum>(pg_sys::jsonpath_in, &[text.as_c_str().into_datum()])
        });
        parsed.map(drop).map_err(|error| error.message)
    }

    fn queue(&self, queue: &str) -> Result<(), Refusal> {
        self.0.queue(queue).map(drop)
    }

    fn needs_key(&self, queue: Option<&str>, kind: &str) -> bool {
        self.0.policies.requires_key(queue.unwrap_or(DEFAULT_QUEUE), kind)
    }

    fn moment(&self, at: &Reader<'_>) -> Result<(), Refusal> {
        parse_moment(at.clone()).map(drop)
    }

    fn has_waits(&self) -> Result<(), Refusal> {
        if !is_schema_previous() {
            return Ok(());
        }
        Err(Refusal::new(
            "the tables of this database are of the version before, which has no such steps",
            "Run ALTER EXTENSION agentq UPDATE.",
        ))
    }

    fn params(&self, params: Item<'_>) -> Result<(), Refusal> {
        check_signal("the parameters", Jsonb::from_item(params), self.0.payload_max_bytes)
    }
}

pub fn read<'a>(rules: &Rulebook, template: Jsonb) -> Result<Template<'a>, Refusal> {
    Template::read(template.item(), &Server(rules))
}

/// Refuses a template that could not be started, and one that needs a key where it has none.
pub fn check_with_key(template: &Value, key: Option<&str>) -> Result<(), Refusal> {
    let document = jsonb::from_value(template)?;
    Template::read(Container::new(&document).item(), &Server(&Rulebook::current()))?.check_key(key)
}

/// Refuses a template that could not be started, whatever its key.
pub fn check(template: &Value) -> Result<(), Refusal> {
    check_with_key(template, Some(""))
}
