//! The end of a mission: when nothing in it is under way, and nothing can begin.

use super::counts;
use super::ended::{EndedSteps, StepEnd};
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::events::Event;
use crate::flow::effects;
use crate::json::Jsonb;
use pgrx::Uuid;
use serde_json::{Value, json};

statements!("finalize.sql": MISSION_LOCK, MISSION_WAITS, MISSION_SWEEP, MISSION_END, MISSION_RESULT);

/// The row of a mission, locked.
pub struct Mission {
    pub status: String,
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
            status: row.must("status"),
            depth: row.must("depth"),
            parent_step: row.get("parent_step_id"),
            paused: row.must("paused"),
            compensates: row.must("compensates"),
            last_error: row.get("last_error"),
            title: row.get("title"),
            cancel_reason: row.get("cancel_reason"),
        })
    }

    pub fn has_ended(&self) -> bool {
        agentq_core::mission::MISSION_ENDS.contains(&self.status.as_str())
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
    // Others may have been counted meanwhile: they come here after us, and see our count.
    if !["approved", "running", "cancelling"].contains(&mission.status.as_str()) || !counts::are_all_nothing(mission_id)
    {
        return None;
    }
    let status = match (mission.status.as_str(), &mission.last_error) {
        ("cancelling", _) => "cancelled",
        (_, Some(_)) => "failed",
        // What a pause holds back is still to be done.
        _ if mission.paused && !db.run(&MISSION_WAITS, &[mission_id.into()]).is_empty() => return None,
        _ => "succeeded",
    };
    if status != "succeeded" {
        let why = if status == "cancelled" {
            "the mission was cancelled"
        } else {
            "the mission failed before it could begin"
        };
        db.run(&MISSION_SWEEP, &[mission_id.into(), why.into(), timestamp(now).into()]);
    }
    counts::remove(db, mission_id);
    if status == "cancelled" && mission.compensates {
        // Before the first compensation is enqueued: if it cannot be, the chain ends at once, and the mission with it.
        set_status(db, mission_id, "compensating", now);
        if effects::compensate(db, mission_id, now) {
            return None;
        }
    }
    end(db, mission_id, &mission, status, now)
}

fn set_status(db: &Db, mission_id: Uuid, status: &str, now: Micros) {
    db.run(&MISSION_END, &[mission_id.into(), status.into(), timestamp(now).into()]);
}

fn end(db: &Db, mission_id: Uuid, mission: &Mission, status: &'static str, now: Micros) -> Option<StepEnd> {
    set_status(db, mission_id, status, now);
    let mut what = json!({"title": mission.title, "status": status});
    if status == "failed" {
        what["error"] = json!(mission.last_error.as_deref().map(agentq_core::error::shown));
    }
    if status == "cancelled" {
        what["reason"] = json!(mission.cancel_reason);
    }
    tell(db, &format!("mission.{status}"), mission_id, what, now);
    let step = mission.parent_step?;
    // All its results together may be more than the server can hold.
    let result = db::attempt(|| db.run(&MISSION_RESULT, &[mission_id.into()]).maybe_only::<Jsonb>()).ok().flatten();
    let error = match status {
        "succeeded" => None,
        "cancelled" => Some(mission.cancel_reason.clone().unwrap_or_else(|| "its mission was cancelled".to_owned())),
        _ => mission.last_error.clone(),
    };
    Some(StepEnd { step, status, result, error, by: Some(mission_id) })
}

/// Locks the row of a mission, and says how it stands. None: there is none.
pub fn lock(db: &Db, mission_id: Uuid) -> Option<String> {
    Mission::lock(db, mission_id).map(|mission| mission.status)
}

/// The compensations of a cancelled mission have ended, in whatever way: so has the mission.
pub fn compensated(db: &Db, mission_id: Uuid, outcome: &str, now: Micros) {
    let Some(mission) = Mission::lock(db, mission_id).filter(|mission| mission.status == "compensating") else {
        return;
    };
    tell(db, "mission.compensated", mission_id, json!({"outcome": outcome}), now);
    EndedSteps::settle(db, end(db, mission_id, &mission, "cancelled", now), now);
}
