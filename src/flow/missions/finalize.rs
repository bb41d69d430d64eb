//! The end of a mission: it comes when nothing in it is under way and nothing can begin.

use super::ended::{EndedSteps, StepEnd};
use super::{counts, stop};
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::events::Event;
use crate::flow::effects::{self, Compensation};
use crate::json::Jsonb;
use agentq_core::mission::status::{MissionStatus, StepStatus};
use pgrx::Uuid;
use serde_json::{Value, json};

statements!("finalize.sql": MISSION_LOCK, MISSION_WAITS, MISSION_SWEEP, MISSION_END, MISSION_RESULT);

/// The row of a mission, locked.
pub struct Mission {
    pub status: MissionStatus,
    pub depth: i32,
    pub parent_step: Option<Uuid>,
    pub paused: bool,
    pub compensates: bool,
    pub last_error: Option<String>,
    pub title: Option<String>,
    pub cancel_reason: Option<String>,
}

impl Mission {
    /// Locks the row, and reads it as it is then.
    pub fn lock(db: &Db, mission_id: Uuid) -> Option<Mission> {
        let row = db.run(&MISSION_LOCK, &[mission_id.into()]);
        (!row.is_empty()).then(|| Mission {
            status: row.word("status", MissionStatus::parse),
            depth: row.must("depth"),
            parent_step: row.get("parent_step_id"),
            paused: row.must("paused"),
            compensates: row.must("compensates"),
            last_error: row.get("last_error"),
            title: row.get("title"),
            cancel_reason: row.get("cancel_reason"),
        })
    }
}

/// Writes an event about a mission.
pub fn tell(db: &Db, kind: &str, mission_id: Uuid, mut what: Value, now: Micros) {
    what["mission_id"] = json!(mission_id.to_string());
    Event::new(kind, &mission_id.to_string(), what).mission_id(Some(mission_id)).emit(db, now);
}

/// Ends the mission, if nothing in it is under way; returns the end of the step whose work it was.
pub fn finalize(db: &Db, mission_id: Uuid, now: Micros) -> Option<StepEnd> {
    let mission = Mission::lock(db, mission_id)?;
    // A session that still counts something comes here after us, and sees our count.
    if !mission.status.waits_for_steps() || !counts::are_all_nothing(mission_id) {
        return None;
    }
    let status = mission.status.end(mission.last_error.is_some());
    let why = match status {
        MissionStatus::Cancelled => Some("the mission was cancelled"),
        MissionStatus::Failed => Some("the mission failed before it could begin"),
        // What a pause holds back is still to be done.
        _ if mission.paused && !db.run(&MISSION_WAITS, &[mission_id.into()]).is_empty() => return None,
        _ => None,
    };
    if let Some(why) = why {
        db.run(&MISSION_SWEEP, &[mission_id.into(), why.into(), timestamp(now).into()]);
    }
    counts::remove(db, mission_id);
    if status == MissionStatus::Cancelled && mission.compensates {
        // Written before the first compensation is enqueued: where that fails, the chain ends at once, and so the mission.
        set_status(db, mission_id, MissionStatus::Compensating, now);
        match effects::compensate(db, mission_id, mission.cancel_reason.as_deref().unwrap_or(stop::CANCELLED), now) {
            Compensation::Nothing => {}
            Compensation::Stands(what) => return uncompensated(db, mission_id, mission, &what, now),
            Compensation::Runs => return None,
        }
    }
    end(db, mission_id, &mission, status, now)
}

fn set_status(db: &Db, mission_id: Uuid, status: MissionStatus, now: Micros) {
    db.run(&MISSION_END, &[mission_id.into(), status.name().into(), timestamp(now).into()]);
}

fn end(db: &Db, mission_id: Uuid, mission: &Mission, status: MissionStatus, now: Micros) -> Option<StepEnd> {
    set_status(db, mission_id, status, now);
    let mut what = json!({"title": mission.title, "status": status.name()});
    if status == MissionStatus::Failed {
        what["error"] = json!(mission.last_error.as_deref().map(agentq_core::error::shown));
    }
    if status == MissionStatus::Cancelled {
        what["reason"] = json!(mission.cancel_reason);
    }
    tell(db, &format!("mission.{}", status.name()), mission_id, what, now);
    let step = mission.parent_step?;
    // All its results together may be more than the server can hold.
    let result = db::attempt(|| db.run(&MISSION_RESULT, &[mission_id.into()]).maybe_only::<Jsonb>()).ok().flatten();
    let error = match status {
        MissionStatus::Succeeded => None,
        MissionStatus::Cancelled => {
            Some(mission.cancel_reason.clone().unwrap_or_else(|| "its mission was cancelled".to_owned()))
        }
        _ => mission.last_error.clone(),
    };
    Some(StepEnd { step, status: StepStatus::of_mission(status), result, error, by: Some(mission_id) })
}

/// Locks the row of a mission, and answers how it stands. None: there is no such mission.
pub fn lock(db: &Db, mission_id: Uuid) -> Option<MissionStatus> {
    Mission::lock(db, mission_id).map(|mission| mission.status)
}

/// Ends a cancelled mission whose compensations have ended. `stands`: what is not undone.
pub fn compensated(db: &Db, mission_id: Uuid, stands: Option<&str>, now: Micros) {
    let mission = Mission::lock(db, mission_id).filter(|mission| mission.status == MissionStatus::Compensating);
    let Some(mission) = mission else { return };
    let up = match stands {
        Some(what) => uncompensated(db, mission_id, mission, what, now),
        None => {
            tell(db, "mission.compensated", mission_id, json!({}), now);
            end(db, mission_id, &mission, MissionStatus::Cancelled, now)
        }
    };
    EndedSteps::settle(db, up, now);
}

/// Ends a mission of which something stands that was to be undone: it has failed, and says so.
fn uncompensated(db: &Db, mission_id: Uuid, mut mission: Mission, what: &str, now: Micros) -> Option<StepEnd> {
    stop::note_failure(db, mission_id, None, what);
    tell(db, "mission.compensation_failed", mission_id, json!({"error": agentq_core::error::shown(what)}), now);
    mission.last_error = mission.last_error.or_else(|| Some(what.to_owned()));
    end(db, mission_id, &mission, MissionStatus::Failed, now)
}
