//! What people do with a mission that is under way: cancel, pause, resume.

use super::counts;
use super::ended::EndedSteps;
use super::finalize::{self, Mission};
use super::prepare::Candidate;
use super::run::Run;
use super::stop::{self, Stopped, Why};
use super::{status_of, unknown_mission};
use crate::base::clock::{self, timestamp};
use crate::base::text::shorten;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use agentq_core::input;
use agentq_core::mission::plan::Decision;
use agentq_core::mission::status::{CountState, MissionStatus};
use agentq_core::mission::template::MODES;
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("control.sql": MISSION_PAUSE, MISSION_RESUME, HELD_STEPS);

fn told(db: &Db, code: &str, mission_id: Uuid) -> Jsonb {
    let status = status_of(db, mission_id).map(MissionStatus::name);
    Jsonb::from_value(json!({"ok": true, "code": code, "mission_id": mission_id.to_string(), "status": status}))
}

/// What was asked for can no longer be done: the mission has ended, or is about to. `failing` says that something has made
/// it fail.
fn already(mission_id: Uuid, status: MissionStatus, failing: bool) -> Jsonb {
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
    answer::if_on(|_| {
        let mission_id = required("p_mission", p_mission);
        let mode = p_mode.map(|mode| input::one_of("p_mode", mode, &MODES).or_raise());
        let by = db::session_user();
        let why = Why::Cancel { reason: p_reason.map(shorten), by: &by, mode };
        db::answer(|db| match stop::stop(db, mission_id, &why, clock::now()) {
            Stopped::Unknown => unknown_mission(mission_id),
            Stopped::Already(status) => already(mission_id, status, false),
            Stopped::Done => {
                let is_over = status_of(db, mission_id) == Some(MissionStatus::Cancelled);
                told(db, if is_over { "cancelled" } else { "cancelling" }, mission_id)
            }
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_pause(p_mission: Option<Uuid>, p_reason: default!(Option<&str>, "NULL")) -> Jsonb {
    answer::if_on(|_| {
        let mission_id = required("p_mission", p_mission);
        let reason = p_reason.map(shorten);
        let now = clock::now();
        db::answer(|db| {
            let paused = counts::set_state(db, mission_id, CountState::Paused, &[CountState::Running]);
            let mission = Mission::lock(db, mission_id).unwrap_or_else(|| unknown_mission(mission_id));
            if mission.paused {
                return told(db, "already_paused", mission_id);
            }
            if mission.status != MissionStatus::Running || paused == 0 {
                return already(mission_id, mission.status, mission.last_error.is_some());
            }
            db.run(&MISSION_PAUSE, &[mission_id.into(), timestamp(now).into(), reason.into()]);
            finalize::tell(db, "mission.paused", mission_id, json!({"reason": reason}), now);
            told(db, "paused", mission_id)
        })
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_mission_resume(p_mission: Option<Uuid>) -> Jsonb {
    answer::if_on(|_| {
        let mission_id = required("p_mission", p_mission);
        let now = clock::now();
        db::answer(|db| {
            // Those who are putting steps aside are waited for, and then their steps are seen.
            counts::set_state(db, mission_id, CountState::Running, &[CountState::Paused]);
            let mission = Mission::lock(db, mission_id).unwrap_or_else(|| unknown_mission(mission_id));
            if !mission.status.goes_on() {
                return already(mission_id, mission.status, false);
            }
            if !mission.paused {
                return told(db, "not_paused", mission_id);
            }
            db.run(&MISSION_RESUME, &[mission_id.into(), timestamp(now).into()]);
            finalize::tell(db, "mission.resumed", mission_id, json!({}), now);
            let mut held = Vec::new();
            db.run(&HELD_STEPS, &[mission_id.into()]).each(|row| held.push((Candidate::read(row), Decision::Begin)));
            EndedSteps::settle(db, Run::new(db, mission_id, mission.depth, now).take_up(held), now);
            told(db, "resumed", mission_id)
        })
    })
}
