//! Cancelling a mission, and what is answered to those who steer one.

use super::stop::{self, Stopped, Why};
use super::{shown_status, status_of, unknown_mission};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock;
use crate::db::{self, Db};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use agentq_core::input;
use agentq_core::jsonb::Item;
use agentq_core::mission::status::MissionStatus;
use agentq_core::mission::template::MODES;
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

/// Runs `steer`, and undoes all of it, its locks too, if it was refused: who forgets to end the transaction then is in
/// nobody's way.
pub fn unless_refused(steer: impl FnOnce() -> Jsonb) -> Jsonb {
    db::worth_keeping(|| {
        let answer = steer();
        let is_refused = answer.member("ok").is_some_and(|ok| ok.item() == Item::Bool(false));
        (answer, !is_refused)
    })
}

pub fn told(db: &Db, code: &str, mission_id: Uuid) -> Jsonb {
    let status = shown_status(db, mission_id);
    Jsonb::from_value(json!({"ok": true, "code": code, "mission_id": mission_id.to_string(), "status": status}))
}

/// What was asked for can no longer be done: the mission has ended, or is about to. `failing` says that something has made
/// it fail.
pub fn already(mission_id: Uuid, status: MissionStatus, failing: bool) -> Jsonb {
    let ended = status.is_end();
    let status = if failing && !ended { "failing" } else { status.name() };
    Jsonb::from_value(json!({
        "ok": false, "code": if ended { "already_finished" } else { "already_stopping" },
        "mission_id": mission_id.to_string(), "status": status,
        "message": if ended { format!("the mission is {status} and stays so") } else { format!("the mission is {status} already") },
    }))
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_cancel(
    p_mission: Option<Uuid>,
    p_reason: default!(Option<&str>, "NULL"),
    p_mode: default!(Option<&str>, "NULL"),
) -> Jsonb {
    bounded!(fn_mission_cancel: p_reason, p_mode);
    answer::if_on(|_| {
        let mission_id = required("p_mission", p_mission);
        let mode = p_mode.map(|mode| input::one_of("p_mode", mode, &MODES).or_raise());
        let by = actor();
        let why = Why::Cancel { reason: p_reason, by: &by, mode };
        let cancel = |db: &Db| match stop::stop(db, mission_id, &why, clock::now()) {
            Stopped::Unknown => unknown_mission(mission_id),
            Stopped::Already(status) => already(mission_id, status, false),
            Stopped::Done => {
                let is_over = status_of(db, mission_id) == Some(MissionStatus::Cancelled);
                told(db, if is_over { "cancelled" } else { "cancelling" }, mission_id)
            }
        };
        db::answer(|db| unless_refused(|| cancel(db)))
    })
}
