//! A finished job run once more, as a new job: from its beginning, from its last checkpoint, or from a
//! step, which the checkpoint names or the job has begun. Steps are kept by the room above, which tells of them
//! through functions that it registers here.

use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required, unknown_job};
use crate::events;
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::ends::lease;
use crate::queue::intake::batch::{self, Fate};
use crate::queue::intake::job_spec;
use crate::queue::rules::Rulebook;
use crate::queue::settings::REPLAY_NEEDS_APPROVAL;
use agentq_core::reader::Reader;
use agentq_core::replay::{self, From, Recorded};
use agentq_core::state::JobState;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;
use std::sync::OnceLock;

statements!("replay.sql": REPLAY_LOCK, REPLAY_DOCUMENT, REPLAYED, CHECKPOINT_OF);

/// What the room above knows of the steps of jobs.
pub struct Steps {
    /// The steps that a job has begun, in order.
    pub recorded: fn(&Db, Uuid) -> Vec<Recorded>,
    /// Hands the steps of one job that are before this position to another, as they stand.
    pub take_over: fn(&Db, Uuid, Uuid, i32),
}

static STEPS: OnceLock<Steps> = OnceLock::new();

/// Called once, when the library is loaded.
pub fn know_steps(steps: Steps) {
    STEPS.set(steps).ok();
}

/// Hands the steps and the checkpoint of a job to another run of it.
pub fn take_over_all(db: &Db, from: Uuid, to: Uuid, now: Micros) {
    if let Some(steps) = STEPS.get() {
        (steps.take_over)(db, from, to, i32::MAX);
    }
    let row = db.run(&CHECKPOINT_OF, &[from.into()]);
    if !row.is_empty() {
        lease::save_checkpoint(db, to, row.must("checkpoint"), now);
    }
}

struct Options {
    allow_non_idempotent: bool,
    require_approval: bool,
    approved_by: Option<String>,
}

impl Options {
    fn read(options: Reader<'_>) -> Result<Options, Refusal> {
        let flag = |key: &str| options.member(key).flag().map(|flag| flag.unwrap_or(false));
        Ok(Options {
            allow_non_idempotent: flag("allow_non_idempotent")?,
            require_approval: flag("require_approval")?,
            approved_by: options.member("approved_by").name(input::LONGEST_NAME)?.map(str::to_owned),
        })
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_replay(
    p_job_id: Option<Uuid>,
    p_from: default!(Option<&str>, "'beginning'"),
    p_step: default!(Option<&str>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    answer::if_on(|rules| {
        let job_id = required("p_job_id", p_job_id);
        let from = From::parse(p_from.unwrap_or("beginning"), p_step).or_raise();
        let accepted = ["allow_non_idempotent", "require_approval", "approved_by"];
        let options = json::options(p_options, &accepted).and_then(Options::read).or_raise();
        db::answer(|db| replay(db, rules, job_id, &from, &options))
    })
}

fn replay(db: &Db, rules: &Rulebook, job_id: Uuid, from: &From<'_>, options: &Options) -> Jsonb {
    // The letter first, as a redrive does; the finished row, so that a purge leaves the job alone.
    db.run(&REPLAY_LOCK, &[job_id.into()]);
    let row = db.run(&REPLAY_DOCUMENT, &[job_id.into()]);
    if row.is_empty() {
        unknown_job(job_id)
    }
    let (document, state, replays): (Jsonb, String, i32) =
        (row.must("document"), row.must("state"), row.must("replays"));
    let (external_effects, checkpoint) = (row.must::<bool>("external_effects"), row.get::<Jsonb>("checkpoint"));
    let checkpoint = checkpoint.map(|saved| saved.reader("the checkpoint").or_raise().item());
    if !JobState::parse(&state).is_some_and(JobState::is_finished) {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("job {job_id} is {state}: only a finished job can be replayed"),
            "Wait until it has finished, or cancel it first.",
        )
    }
    let recorded = STEPS.get().map(|steps| (steps.recorded)(db, job_id)).unwrap_or_default();
    let plan = replay::plan(from, checkpoint, &recorded, external_effects).or_raise();
    if !plan.unsafe_steps.is_empty() && !options.allow_non_idempotent {
        return Jsonb::from_value(json!({
            "ok": false, "code": "not_idempotent", "job_id": job_id.to_string(), "steps": plan.unsafe_steps,
            "message": "running these steps again may do harm, so nothing was done",
            "hint": "Replay from a later step, or give p_options => '{\"allow_non_idempotent\": true}'.",
        }));
    }
    let now = clock::now();
    let wanted = options.require_approval || rules.flag(REPLAY_NEEDS_APPROVAL);
    if wanted && replays > 0 && options.approved_by.is_none() {
        let what = json!({"from": from.name(), "replays": replays, "requested_by": db::session_user()});
        events::emit(db, "job.replay_requested", &job_id.to_string(), what, now);
        return Jsonb::from_value(json!({
            "ok": false, "code": "approval_required", "job_id": job_id.to_string(), "replays": replays,
            "message": "the job was replayed before, so another replay needs an approval",
            "hint": "Call again with p_options => '{\"approved_by\": \"…\"}' when somebody has approved it.",
        }));
    }
    let mut job = job_spec::read(rules, ids::new_id(), document.container().item()).or_raise();
    job.options.replay_of = Some((job_id, replays + 1));
    let (code, id) = match &batch::settle(vec![Ok(job)])[0] {
        Fate::Enqueued(id) => ("replayed", *id),
        Fate::Duplicate(id) => ("duplicate", *id),
        Fate::Refused(refusal) => Err(refusal.clone()).or_raise(),
    };
    if code == "replayed" {
        if let Some(checkpoint) = plan.checkpoint {
            lease::save_checkpoint(db, id, Jsonb::from_container(&checkpoint), now);
        }
        if let (Some(before), Some(steps)) = (plan.keep_before, STEPS.get()) {
            (steps.take_over)(db, job_id, id, before);
        }
        db.run(&REPLAYED, &[job_id.into(), id.into(), (replays + 1).into(), timestamp(now).into()]);
        let what = json!({"replay_of": job_id.to_string(), "from": from.name(), "replays": replays + 1,
            "approved_by": options.approved_by});
        events::emit(db, "job.replayed", &id.to_string(), what, now);
    }
    Jsonb::from_value(json!({
        "ok": code == "replayed", "code": code, "job_id": id.to_string(), "replay_of": job_id.to_string(),
        "replays": replays + i32::from(code == "replayed"),
    }))
}
