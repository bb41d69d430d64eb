//! Ending an attempt: the lease goes, the attempt is recorded, and the job rests again or is done.
//!
//! Every way in which a held job stops being held, other than an ack, goes through here: failure,
//! release, snooze, expiry, cancellation, dead letter.

use super::hooks;
use super::limits;
use super::order;
use super::place::{self, Place};
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, Db, Rows, statement};
use crate::events;
use agentq_core::retry::Reason;
use pgrx::Uuid;

statement!(HOLD, "sql/hold.sql", [UUIDOID, TEXTOID, UUIDOID]);
statement!(
    REST,
    "sql/rest.sql",
    [UUIDOID, TEXTOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, INT4OID, TIMESTAMPTZOID, TEXTOID]
);
statement!(FINISH, "sql/finish.sql", [UUIDOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, INT4OID, TEXTOID]);
statement!(LOCK_FREE, "sql/lock_free.sql", [UUIDOID]);
statement!(LETTER_DETAILS, "sql/letter_details.sql", [UUIDOID, TEXTOID, TEXTOID]);
statement!(DEAD_LETTER, "sql/dead_letter.sql", [UUIDOID, UUIDOID, TEXTOID, TEXTOID, TIMESTAMPTZOID]);

/// A job under lease, its lease row locked.
pub struct Held {
    pub place: Place,
    pub lease_owner: String,
    pub attempts: i32,
    pub max_attempts: i32,
    pub cancel_requested: bool,
    pub state: String,
}

impl Held {
    /// The columns that `hold.sql` and `reap.sql` both return.
    pub fn from_row(row: &Rows) -> Held {
        Held {
            place: Place::from_row(row, 1),
            lease_owner: row.must(6),
            attempts: row.must(7),
            max_attempts: row.must(8),
            cancel_requested: row.must(9),
            state: row.must(10),
        }
    }

    /// Locks the lease, if this owner (and, where given, this token) holds it. With no owner:
    /// whoever holds it.
    pub fn lock(db: &Db, job_id: Uuid, owner: Option<&str>, token: Option<Uuid>) -> Option<Held> {
        limits::hold_still();
        let row = db.run(&HOLD, &[job_id.into(), owner.into(), token.into()]);
        (!row.is_empty()).then(|| Held::from_row(&row))
    }
}

/// How an attempt ended.
#[derive(Default)]
pub struct Ending<'a> {
    pub outcome: &'a str,
    pub error: Option<&'a str>,
    pub error_class: Option<&'a str>,
    /// 1 if it counts as an attempt without success.
    pub costs: i32,
    /// Why a job that nobody holds is cancelled; that of a held one is in its lease.
    pub cancel_reason: Option<&'a str>,
}

/// Gives a held job back: it rests in `state` until `scheduled_at`.
pub fn rest(db: &Db, held: &Held, ending: &Ending<'_>, state: &str, scheduled_at: Micros, now: Micros) {
    limits::free_lease_of(held.place.job_id);
    db.run(
        &REST,
        &[
            held.place.job_id.into(),
            ending.outcome.into(),
            timestamp(now).into(),
            ending.error_class.into(),
            ending.error.into(),
            ending.costs.into(),
            timestamp(scheduled_at).into(),
            state.into(),
        ],
    );
    Place { scheduled_at, ..held.place.clone() }.enter(db, now);
}

/// Ends a job for good, held or not (its place among the resting ones must be taken out before), and tells whoever
/// wants to know.
pub fn finish(db: &Db, job_id: Uuid, state: &str, ending: &Ending<'_>, now: Micros) {
    finish_untold(db, job_id, state, ending, now);
    hooks::finished(job_id, state, ending.error.or(ending.cancel_reason), now);
}

/// Cancels a job that nobody holds, if that is possible without waiting for anybody, and tells nobody.
pub fn cancel_if_free(db: &Db, job_id: Uuid, reason: &str, now: Micros) -> bool {
    limits::hold_still();
    let is_free = if db.run(&LOCK_FREE, &[job_id.into()]).is_empty() {
        place::take_blocked(job_id, false).is_some()
    } else {
        matches!(seize(db, job_id), Found::Resting(_))
    };
    if is_free {
        let ending = Ending { outcome: "cancelled", cancel_reason: Some(reason), ..Ending::default() };
        finish_untold(db, job_id, "cancelled", &ending, now);
    }
    is_free
}

fn finish_untold(db: &Db, job_id: Uuid, state: &str, ending: &Ending<'_>, now: Micros) {
    limits::free_lease_of(job_id);
    db.run(
        &FINISH,
        &[
            job_id.into(),
            state.into(),
            ending.outcome.into(),
            timestamp(now).into(),
            ending.error_class.into(),
            ending.error.into(),
            ending.costs.into(),
            ending.cancel_reason.into(),
        ],
    );
    order::finished(db, job_id, now);
}

/// Ends a job in the dead letters and returns the id of its letter.
pub fn bury(db: &Db, job_id: Uuid, ending: &Ending<'_>, reason: Reason, moved_by: &str, now: Micros) -> Uuid {
    finish(db, job_id, "dead_letter", ending, now);
    write_letter(db, job_id, ending, reason, moved_by, now)
}

/// Writes the dead letter of a job that has ended, and tells of it.
pub fn write_letter(db: &Db, job_id: Uuid, ending: &Ending<'_>, reason: Reason, moved_by: &str, now: Micros) -> Uuid {
    let letter = crate::base::ids::new_id();
    let error = ending.error.filter(|e| !e.trim().is_empty()).unwrap_or("no error was given");
    db.run(&DEAD_LETTER, &[letter.into(), job_id.into(), error.into(), moved_by.into(), timestamp(now).into()]);
    let details = db.run(&LETTER_DETAILS, &[letter.into(), reason.name().into(), ending.error_class.into()]);
    let pgrx::JsonB(details) = details.must(1);
    let subject = job_id.to_string();
    if reason == Reason::Poison {
        events::emit(db, "job.poisoned", &subject, details.clone(), now);
    }
    events::emit(db, "job.dead_lettered", &subject, details, now);
    letter
}

/// Where a job is that someone wants to end.
pub enum Found {
    /// With the name of the ordering key behind whose head it stood, if it did.
    Resting(Option<String>),
    Held(Held),
    Finished(String),
}

/// Takes a job out of the place where it rests, or locks its lease, or says how it ended. A job
/// that moves meanwhile is looked for again.
pub fn seize(db: &Db, job_id: Uuid) -> Found {
    for _ in 0..100 {
        if let Some(place) = place::take_resting(db, job_id) {
            return Found::Resting(place.blocked_by);
        }
        if let Some(held) = Held::lock(db, job_id, None, None) {
            return Found::Held(held);
        }
        match super::answer::state_of(db, job_id) {
            None => crate::error::unknown_job(job_id),
            Some(state) if is_finished(&state) => return Found::Finished(state),
            // A fixed snapshot would show the same again.
            Some(_) if db::has_fixed_snapshot() => break,
            Some(_) => continue,
        }
    }
    crate::error::run_again(format!("job {job_id} keeps moving"))
}

fn is_finished(state: &str) -> bool {
    agentq_core::state::JobState::parse(state).is_some_and(|state| state.is_finished())
}
