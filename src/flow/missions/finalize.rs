//! The end of a mission: it comes when nothing in it is under way and nothing can begin.

use super::ended::{EndedSteps, StepEnd};
use super::start::{self, Start};
use super::{check, context_of, counts, stop};
use crate::base::clock::{Micros, timestamp};
use crate::base::ids::parse_id;
use crate::db::{self, Db, statements};
use crate::events::Event;
use crate::flow::effects::{self, Compensation};
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use crate::queue::waking::ends;
use agentq_core::mission::status::{MissionStatus, StepStatus};
use pgrx::Uuid;
use serde_json::{Value, json};

statements!("finalize.sql": MISSION_LOCK, MISSION_WAITS, MISSION_SWEEP, MISSION_END, MISSION_RESULT, MISSION_FINISH);

/// The row of a mission, locked.
pub struct Mission {
    pub status: MissionStatus,
    pub depth: i32,
    pub parent_step: Option<Uuid>,
    /// The item of that step's list.
    parent_item: Option<i32>,
    pub paused: bool,
    /// Whether its pause reaches what is inside it and queued.
    pub is_paused_whole: bool,
    pub compensates: bool,
    pub last_error: Option<String>,
    pub title: Option<String>,
    pub cancel_reason: Option<String>,
    pub cancelled_by: Option<String>,
    /// Whether its effects are compensated when it has failed.
    compensates_failure: bool,
    /// Whether there is something to be done in any case.
    has_finally: bool,
    /// How it ends, if that is decided.
    outcome: Option<MissionStatus>,
    /// The mission of which it does what is to be done in any case.
    finally_of: Option<Uuid>,
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
            cancelled_by: row.get("cancelled_by"),
            compensates_failure: row.get("compensates_failure").unwrap_or(false),
            has_finally: row.must("has_finally"),
            outcome: row.get::<String>("outcome").as_deref().and_then(MissionStatus::parse),
            finally_of: row.get("finally_of"),
            parent_item: row.get("parent_item"),
            is_paused_whole: row.must("is_paused_whole"),
        })
    }
}

/// Writes an event about a mission.
pub fn tell(db: &Db, kind: &str, mission_id: Uuid, what: Value, now: Micros) {
    told(db, kind, mission_id, what, None, now);
}

/// Writes down what somebody has done to a mission. None: whoever acts in this session.
pub fn audit(db: &Db, kind: &str, mission_id: Uuid, what: Value, by: Option<&str>, now: Micros) {
    told(db, kind, mission_id, what, Some(by), now);
}

/// `audit`: it is one, with who did it.
fn told(db: &Db, kind: &str, mission_id: Uuid, mut what: Value, audit: Option<Option<&str>>, now: Micros) {
    let id = mission_id.to_string();
    what["mission_id"] = json!(id);
    let event = Event::new(kind, &id, what).target("mission", &id).context(context_of(db, mission_id));
    match audit {
        Some(by) => event.audit().actor(by).emit(db, now),
        None => event.emit(db, now),
    };
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
    let reason = match status {
        MissionStatus::Cancelled if mission.compensates => {
            Some(mission.cancel_reason.as_deref().unwrap_or(stop::CANCELLED))
        }
        MissionStatus::Failed if mission.compensates_failure => {
            Some(mission.last_error.as_deref().unwrap_or("it failed"))
        }
        _ => None,
    };
    if let Some(reason) = reason {
        // Written before the first compensation is enqueued: where that fails, the chain ends at once, and so the mission.
        set_status(db, mission_id, MissionStatus::Compensating, now);
        match effects::compensate(db, mission_id, reason, now) {
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

/// Ends the mission so, or first does what is to be done in any case.
fn end(db: &Db, mission_id: Uuid, mission: &Mission, status: MissionStatus, now: Micros) -> Option<StepEnd> {
    if mission.has_finally && mission.outcome.is_none() && finish(db, mission_id, mission, status, now) {
        return None;
    }
    let up = close(db, mission_id, mission, status, now);
    // What the mission around it has waited for is done, however that went.
    if let Some(outer) = mission.finally_of
        && let Some((decided, outcome)) =
            Mission::lock(db, outer).and_then(|outer| outer.outcome.map(|end| (outer, end)))
    {
        let further = close(db, outer, &decided, outcome, now);
        EndedSteps::settle(db, further, now);
    }
    up
}

/// Starts the mission that does what is to be done in any case. False: it cannot be started, and nobody is to wait for it.
fn finish(db: &Db, mission_id: Uuid, mission: &Mission, outcome: MissionStatus, now: Micros) -> bool {
    let row = db.run(&MISSION_FINISH, &[mission_id.into(), outcome.name().into(), timestamp(now).into()]);
    if row.is_empty() {
        return false;
    }
    let (template, input): (Jsonb, Jsonb) = (row.must("template"), row.must("input"));
    match check::read(&Rulebook::current(), template) {
        Ok(read) => {
            let context = context_of(db, mission_id);
            let terms = Start {
                title: Some(format!("{}: finally", mission.title.as_deref().unwrap_or("a mission"))),
                source: Some("finally".to_owned()),
                actor: Some("mission".to_owned()),
                depth: mission.depth + 1,
                command_id: context.command_id.as_deref().and_then(parse_id),
                context,
                input: Some(input),
                finally_of: Some(mission_id),
                ..Start::default()
            };
            start::submit(db, &read, template, &terms, now);
            true
        }
        // It was checked when it was submitted; a queue may have gone since.
        Err(refusal) => {
            tell(db, "mission.finally_failed", mission_id, json!({"error": refusal.message}), now);
            false
        }
    }
}

fn close(db: &Db, mission_id: Uuid, mission: &Mission, status: MissionStatus, now: Micros) -> Option<StepEnd> {
    set_status(db, mission_id, status, now);
    ends::note(mission_id);
    let mut what = json!({"title": mission.title, "status": status.name()});
    if status == MissionStatus::Failed {
        what["error"] = json!(mission.last_error.as_deref().map(agentq_core::error::shown));
    }
    if status == MissionStatus::Cancelled {
        what["reason"] = json!(mission.cancel_reason);
    }
    let kind = format!("mission.{}", status.name());
    match status {
        MissionStatus::Cancelled => audit(db, &kind, mission_id, what, mission.cancelled_by.as_deref(), now),
        _ => tell(db, &kind, mission_id, what, now),
    }
    let step = mission.parent_step?;
    let result = result_of(db, mission_id).ok().flatten();
    let error = match status {
        MissionStatus::Succeeded => None,
        MissionStatus::Cancelled => {
            Some(mission.cancel_reason.clone().unwrap_or_else(|| "its mission was cancelled".to_owned()))
        }
        _ => mission.last_error.clone(),
    };
    let (item, status, by) = (mission.parent_item, StepStatus::of_mission(status), Some(mission_id));
    Some(StepEnd { step, item, status, result, error, by, context: None })
}

/// What the last steps of a mission have handed in, by name. All results together may be more than the server can hold.
pub fn result_of(db: &Db, mission_id: Uuid) -> Result<Option<Jsonb>, String> {
    db::attempt(|| db.run(&MISSION_RESULT, &[mission_id.into()]).maybe_only::<Jsonb>()).map_err(|error| error.message)
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
            // One that nobody has cancelled has failed.
            let is_cancelled = mission.cancelled_by.is_some();
            let status = if is_cancelled { MissionStatus::Cancelled } else { MissionStatus::Failed };
            end(db, mission_id, &mission, status, now)
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
