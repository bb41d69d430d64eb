//! Whether a job may be run again, and what its next run takes over from it: replays and redrives ask.
//!
//! The room above keeps the steps of jobs, and tells of them through functions that it registers here.

use super::lease;
use crate::base::clock::Micros;
use crate::db::{Db, statements};
use crate::json::Jsonb;
use agentq_core::Refusal;
use agentq_core::replay::{self, From, Plan, Recorded};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::sync::OnceLock;

statements!("again.sql": AGAIN_FACTS, CHECKPOINT_AT);

/// What the room above knows of the steps of jobs.
pub struct Steps {
    /// The steps that a job has begun, in order.
    pub recorded: fn(&Db, Uuid) -> Vec<Recorded>,
    /// Hands the steps of one job that are before this position to another, as they stand.
    pub take_over: fn(&Db, Uuid, Uuid, i32),
    /// When a step or an effect of a job was last completed.
    pub last_done_at: fn(&Db, Uuid) -> Option<Micros>,
}

static STEPS: OnceLock<Steps> = OnceLock::new();

/// Called once, when the library is loaded.
pub fn know_steps(steps: Steps) {
    STEPS.set(steps).ok();
}

/// When a job last came on: with a completed step, an effect, or a checkpoint.
pub fn last_progress(db: &Db, job_id: Uuid) -> Option<Micros> {
    let done = STEPS.get().and_then(|steps| (steps.last_done_at)(db, job_id));
    let row = db.run(&CHECKPOINT_AT, &[job_id.into()]);
    let saved = if row.is_empty() { None } else { Some(row.only::<TimestampWithTimeZone>().into_inner()) };
    done.max(saved)
}

/// What another run of a job would begin with, and what it would do twice. None: the job is gone.
pub fn plan(db: &Db, job_id: Uuid, from: &From<'_>) -> Option<Result<Plan, Refusal>> {
    let row = db.run(&AGAIN_FACTS, &[job_id.into()]);
    if row.is_empty() {
        return None;
    }
    let (external_effects, checkpoint) = (row.must::<bool>("external_effects"), row.get::<Jsonb>("checkpoint"));
    let recorded = STEPS.get().map(|steps| (steps.recorded)(db, job_id)).unwrap_or_default();
    let read = |saved: Jsonb| saved.reader("the checkpoint").map(|reader| reader.item());
    let checkpoint = checkpoint.map(read).transpose();
    Some(checkpoint.and_then(|checkpoint| replay::plan(from, checkpoint, &recorded, external_effects)))
}

/// Hands to another run of a job what its plan says.
pub fn hand_over(db: &Db, from: Uuid, to: Uuid, plan: &Plan, now: Micros) {
    if let Some(checkpoint) = &plan.checkpoint {
        lease::save_checkpoint(db, to, Jsonb::from_container(checkpoint), now);
    }
    if let (Some(before), Some(steps)) = (plan.keep_before, STEPS.get()) {
        (steps.take_over)(db, from, to, before);
    }
}
