//! What an enqueue does about an earlier one with the same idempotency key, other than to answer with it:
//!
//! - `debounce` pushes the earlier job back, so that it runs when nobody has asked for it for a while;
//! - `throttle` lets the first in a window of time through, and no other, even when it has finished;
//! - `replace` gives the earlier job the new payload.
//!
//! All of them leave a job alone that a worker holds.

use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, statements};
use crate::json::Jsonb;
use crate::queue::ends::reconcile;
use crate::queue::storage::{Place, place};
use agentq_core::Refusal;
use agentq_core::line::Line;
use agentq_core::reader::Reader;
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("unique.sql": JOB_CHANGE, THROTTLE, KEY_FREE, THROTTLED, CREATED_AT);

const MODES: [&str; 3] = ["debounce", "throttle", "replace"];
const LONGEST_SECONDS: f64 = 31_536_000.0;

#[derive(Clone, Debug, PartialEq)]
pub enum Unique {
    /// Seconds to push back, and how long after the first enqueue at most.
    Debounce(f64, Option<f64>),
    /// Seconds of the window.
    Throttle(f64),
    Replace,
}

impl Unique {
    pub fn read(at: Reader<'_>) -> Result<Unique, Refusal> {
        at.object(&["mode", "seconds", "max_seconds"])?;
        let mode = at.needed("mode").hint("For example: {\"unique\": {\"mode\": \"replace\"}}.").word(&MODES)?;
        let seconds = |key: &str| {
            let seconds = at.member(key).hint("Give a number of seconds, up to a year.");
            seconds.seconds(0.001..=LONGEST_SECONDS)
        };
        let (wait, most) = (seconds("seconds")?, seconds("max_seconds")?);
        let needed = || {
            wait.ok_or_else(|| {
                at.refuse(
                    format!("the mode {mode} needs its seconds"),
                    format!("For example: {{\"unique\": {{\"mode\": \"{mode}\", \"seconds\": 30}}}}."),
                )
            })
        };
        Ok(match mode {
            "debounce" => Unique::Debounce(needed()?, most),
            "throttle" => Unique::Throttle(needed()?),
            _ => Unique::Replace,
        })
    }

    /// When a new job runs, if this rule decides that and not the job.
    pub fn first_at(&self, now: Micros) -> Option<Micros> {
        match self {
            Unique::Debounce(seconds, _) => Some(now + (seconds * 1e6) as i64),
            Unique::Throttle(_) | Unique::Replace => None,
        }
    }

    /// Answers if the window of a throttle is closed, and lets go of the key that this job has taken; else it
    /// closes the window behind it.
    pub fn throttled(&self, db: &Db, key: &str, job_id: Uuid, now: Micros) -> Option<Jsonb> {
        let Unique::Throttle(seconds) = self else { return None };
        let until = timestamp(now + (seconds * 1e6) as i64);
        if !db.run(&THROTTLE, &[key.into(), job_id.into(), timestamp(now).into(), until.into()]).is_empty() {
            return None;
        }
        db.run(&KEY_FREE, &[key.into(), job_id.into()]);
        let row = db.run(&THROTTLED, &[key.into()]);
        let (first, until): (Uuid, TimestampWithTimeZone) = (row.must("job_id"), row.must("expires_at"));
        Some(Jsonb::from_value(json!({"ok": true, "code": "throttled", "duplicate": true, "job_id": first.to_string(),
            "until": until})))
    }

    /// Whether it changes an earlier job that rests.
    pub fn may_change(&self, db: &Db, job_id: Uuid) -> bool {
        !matches!(self, Unique::Throttle(_)) && !reconcile::is_parked(db, job_id)
    }

    /// Changes the earlier job, if nobody holds it, and answers with what it did. None: it cannot change the job, or
    /// that has finished meanwhile.
    pub fn change(&self, db: &Db, job_id: Uuid, payload: Jsonb, now: Micros) -> Option<Jsonb> {
        let mut changes = json!({});
        let code = match self {
            Unique::Throttle(_) => return None,
            Unique::Replace => "replaced",
            Unique::Debounce(seconds, most) => {
                let mut at = now + (seconds * 1e6) as i64;
                if let Some(most) = most {
                    let created =
                        db.run(&CREATED_AT, &[job_id.into()]).maybe_only::<TimestampWithTimeZone>()?.into_inner();
                    at = at.min(created + (most * 1e6) as i64);
                }
                changes["scheduled_at"] = json!(timestamp(at));
                "debounced"
            }
        };
        if !self.may_change(db, job_id) {
            return None;
        }
        // A worker's job is not touched, nor its lease: who has enqueued may leave the transaction open.
        let behind = place::take_resting(db, job_id)?.line;
        // Not parsed: the job has been taken out of its place, and nothing may stop it from coming back.
        let changes = Jsonb::from_value(changes).with("payload_json", payload);
        let (place, _) = change_resting(db, job_id, behind, changes, now);
        Some(Jsonb::from_value(json!({"ok": true, "code": code, "duplicate": true, "job_id": job_id.to_string(),
            "state": "queued", "scheduled_at": timestamp(place.scheduled_at)})))
    }
}

/// Changes a job that has been taken out of its place and lets it rest again, behind the line it stood in. The second
/// part is the answer for whoever asked for the change.
pub fn change_resting(db: &Db, job_id: Uuid, behind: Option<Line>, changes: Jsonb, now: Micros) -> (Place, Jsonb) {
    let row = db.run(&JOB_CHANGE, &[job_id.into(), changes.into()]);
    let place = Place { line: behind, ..Place::from_row(&row) };
    place.enter(db, now);
    (place, row.must("answer"))
}
