//! Changing a job that nobody holds: taken out of its place, changed, and put where it now belongs.

use crate::base::bounds::bounded;
use crate::base::clock::{self, parse_moment};
use crate::base::signal::check_signal;
use crate::db;
use crate::error::{OrRaise, raise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::ends::reconcile;
use crate::queue::ends::settle::{self, Seized};
use crate::queue::intake::unique::change_resting;
use agentq_core::jsonb::Item;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;

const CHANGEABLE: [&str; 7] =
    ["priority", "scheduled_at", "max_attempts", "payload_json", "source_ref", "target_ref", "payload_ref"];

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_change(p_job_id: Option<Uuid>, p_changes: Option<Jsonb>) -> Jsonb {
    bounded!(fn_job_change: p_changes);
    answer::if_on(|rules| {
        let job_id = required("p_job_id", p_job_id);
        let changes = required("p_changes", p_changes);
        let payload = changes.member("payload_json");
        if let Some(payload) = payload {
            check_signal("payload_json", payload, rules.payload_max_bytes).or_raise();
        }
        changes.without("payload_json").reader("p_changes").and_then(check).or_raise();
        db::answer(|db| {
            let behind = match settle::seize(db, job_id) {
                Seized::Resting(_) if reconcile::is_parked(db, job_id) => raise(
                    PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("job {job_id} is parked, because nobody knows what became of it"),
                    "Find out, and say so with agentq.fn_job_reconcile.",
                ),
                Seized::Resting(behind) => behind,
                Seized::Held(held) => raise(
                    PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("job {job_id} is held by {} and cannot be changed now", held.lease_owner),
                    "Change it when it has been given back, or ask its holder to stop with agentq.fn_job_cancel.",
                ),
                Seized::Finished(state) => raise(
                    PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("job {job_id} is {state} and cannot be changed any more"),
                    "Enqueue a new job instead.",
                ),
            };
            change_resting(db, job_id, behind, changes, clock::now()).1
        })
    })
}

/// Each key of the changes names a new value, so a null does not mean that the key is left out.
fn check(changes: Reader<'_>) -> Result<(), Refusal> {
    changes.object(&CHANGEABLE)?;
    for (key, at) in changes.members()? {
        match key {
            "priority" => at.hint(input::PRIORITY_HINT).whole(input::PRIORITIES).map(drop)?,
            "max_attempts" => at.hint(input::ATTEMPTS_HINT).whole(input::ATTEMPTS).map(drop)?,
            "scheduled_at" => parse_moment(at).map(drop)?,
            // A reference may be taken away.
            _ if at.item() == Item::Null => {}
            _ => drop(input::reference(at.path(), Some(at.clone().secret().text()?))?),
        }
    }
    Ok(())
}
