//! Jobs that were not begun, or not finished, in time are given up: by the engine when the time has
//! come, and by a claim that would otherwise hand one out.

use super::hooks;
use super::settle::{self, Ending, Seized};
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::queue::rows::job;
use crate::queue::storage::{lock_against_rule_change, place};
use crate::table::Scan;
use agentq_core::error_class::{FINISH_DEADLINE, START_DEADLINE};
use agentq_core::retry::Reason;
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("deadlines.sql": DEADLINES_DUE, DEADLINE_GONE);

/// Written into the dead letters as the one who moved them.
const KEEPER: &str = "agentq";

// Jobs that could not be ended because somebody was in the way.
thread_local!(static LEFT: db::PutOff<[u8; 16]> = db::PutOff::new());

/// Which deadline a job has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedDeadline {
    Start(Micros),
    Finish(Micros),
}

/// The deadline that a ready job has missed, if any.
pub fn missed(body: &Scan<'_>, now: Micros) -> Option<MissedDeadline> {
    let passed = |column| (!body.is_null(column)).then(|| body.time(column)).filter(|at| *at <= now);
    if let Some(at) = passed(job::finish_by) {
        return Some(MissedDeadline::Finish(at));
    }
    // One that was given back has been begun.
    passed(job::start_by).filter(|_| body.is_null(job::picked_at)).map(MissedDeadline::Start)
}

/// Ends a job that was taken out of its place, or whose lease is locked.
pub fn give_up(db: &Db, job_id: Uuid, missed: MissedDeadline, now: Micros) {
    let (class, word, at) = match missed {
        MissedDeadline::Start(at) => (START_DEADLINE, "begun", at),
        MissedDeadline::Finish(at) => (FINISH_DEADLINE, "finished", at),
    };
    let error = format!("not {word} by {}, as its deadline asked", timestamp(at).to_iso_string());
    let ending = Ending { outcome: "dead_letter", error: Some(&error), error_class: Some(class), ..Ending::default() };
    settle::bury(db, job_id, &ending, Reason::Deadline, KEEPER, now);
}

/// Gives up what has missed its deadline, looking at no more than `limit`; returns how many deadlines are over.
/// A job that another session has locked is left for the next time.
pub fn enforce(now: Micros, limit: i64) -> usize {
    hooks::skipping(|| db::connect(|db| enforce_due(db, now, limit)))
}

fn enforce_due(db: &Db, now: Micros, limit: i64) -> usize {
    let mut due = Vec::new();
    let left: Vec<Uuid> = db::PutOff::current(&LEFT).into_iter().map(Uuid::from_bytes).collect();
    db.run(&DEADLINES_DUE, &[timestamp(now).into(), limit.into(), left.into()]).each(|row| {
        let at = row.must::<TimestampWithTimeZone>("deadline_at").into_inner();
        let missed = if row.must::<bool>("is_start") { MissedDeadline::Start(at) } else { MissedDeadline::Finish(at) };
        due.push((row.must::<Uuid>("job_id"), missed, row.must::<bool>("concerns")));
    });
    lock_against_rule_change();
    let mut over = 0;
    for (job_id, missed, concerns) in due {
        if concerns {
            let ended = hooks::end_apart(job_id, || {
                if settle::lock_free(db, job_id) {
                    end(db, job_id, missed, now);
                    true
                } else if place::take_from_line(job_id, false).is_some() {
                    give_up(db, job_id, missed, now);
                    true
                } else {
                    false
                }
            });
            if ended != Some(true) {
                db::PutOff::add(&LEFT, *job_id.as_bytes());
                continue;
            }
        }
        let (at, is_start) = match missed {
            MissedDeadline::Start(at) => (at, true),
            MissedDeadline::Finish(at) => (at, false),
        };
        db.run(&DEADLINE_GONE, &[timestamp(at).into(), job_id.into(), is_start.into()]);
        over += 1;
    }
    over
}

fn end(db: &Db, job_id: Uuid, missed: MissedDeadline, now: Micros) {
    match (settle::seize(db, job_id), missed) {
        (Seized::Resting(_), _) | (Seized::Held(_), MissedDeadline::Finish(_)) => give_up(db, job_id, missed, now),
        // It was claimed meanwhile, and so begun in time after all; or it is over.
        (Seized::Held(_), MissedDeadline::Start(_)) | (Seized::Finished(_), _) => {}
    }
}
