//! Missions that schedules start.

use super::start::{self, Start};
use super::{check, patience, status_of};
use crate::base::clock::Micros;
use crate::db::Db;
use crate::json::Jsonb;
use crate::queue::admin::starters::{self, Slot, Starter};
use crate::queue::rules::Rulebook;
use agentq_core::Refusal;
use agentq_core::mission::status::MissionStatus;
use agentq_core::reader::Reader;
use pgrx::Uuid;

pub fn init() {
    starters::register(Starter {
        name: "mission",
        keys: &["template", "options"],
        check: |at| {
            let template = Jsonb::from_item(at.needed("template").item());
            options(at)?;
            check::read(&Rulebook::current(), template)?.check_key(Some("a schedule starts each slot once"))
        },
        start,
        is_open: |db, id| status_of(db, id).is_some_and(|status| !MissionStatus::is_end(status)),
    });
}

fn options(at: &Reader<'_>) -> Result<Start, Refusal> {
    match at.member("options").reader() {
        Some(given) => start::scheduled_options(given),
        None => Ok(Start::default()),
    }
}

fn start(db: &Db, at: &Reader<'_>, slot: &Slot<'_>, now: Micros) -> Result<Option<Uuid>, Refusal> {
    // Each has the time for its paths that it would have by itself.
    patience::begin_anew();
    let template = Jsonb::from_item(at.needed("template").item());
    let terms = Start { source: Some(slot.source()), ..options(at)? };
    let read = check::read(&Rulebook::current(), template)?;
    Ok(Some(start::submit(db, &read, template, &terms, now).mission_id))
}
