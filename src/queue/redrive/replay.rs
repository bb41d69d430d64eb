//! A finished job run once more, as a new job: from its beginning, from its last checkpoint, or from a
//! step, which the checkpoint names or the job has begun.

use super::letter_end;
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, timestamp};
use crate::base::ids;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required, unknown_job};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::ends::again;
use crate::queue::ends::telling;
use crate::queue::intake::batch::{self, Fate};
use crate::queue::intake::job_spec;
use crate::queue::rules::Rulebook;
use crate::queue::settings::REPLAY_NEEDS_APPROVAL;
use agentq_core::reader::Reader;
use agentq_core::replay::From;
use agentq_core::state::JobState;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("replay.sql": REPLAY_LOCK, REPLAY_DOCUMENT, REPLAYED);

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
    bounded!(fn_job_replay: p_from, p_step, p_options);
    answer::if_on(|rules| {
        let job_id = required("p_job_id", p_job_id);
        let from = From::parse(p_from.unwrap_or("beginning"), p_step).or_raise();
        let accepted = ["allow_non_idempotent", "require_approval", "approved_by"];
        let options = json::options(p_options, &accepted).and_then(Options::read).or_raise();
        db::answer(|db| replay(db, rules, job_id, &from, &options))
    })
}

/// The answer to whoever would run steps again that must not be run twice.
pub fn not_idempotent(job_id: Uuid, steps: &[String], instead: &str) -> Jsonb {
    Jsonb::from_value(json!({
        "ok": false, "code": "not_idempotent", "job_id": job_id.to_string(), "steps": steps,
        "message": "running these steps again may do harm, so nothing was done",
        "hint": format!("{instead}, or give p_options => '{{\"allow_non_idempotent\": true}}'."),
    }))
}

fn replay(db: &Db, rules: &Rulebook, job_id: Uuid, from: &From<'_>, options: &Options) -> Jsonb {
    // The letter first, as a redrive does; the finished row, so that a purge leaves the job alone.
    let locked = db.run(&REPLAY_LOCK, &[job_id.into()]);
    let has_letter = !locked.is_empty() && locked.only::<bool>();
    let row = db.run(&REPLAY_DOCUMENT, &[job_id.into()]);
    if row.is_empty() {
        unknown_job(job_id)
    }
    let (document, state, replays): (Jsonb, String, i32) =
        (row.must("document"), row.must("state"), row.must("replays"));
    if !JobState::parse(&state).is_some_and(JobState::is_finished) {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("job {job_id} is {state}: only a finished job can be replayed"),
            "Wait until it has finished, or cancel it first.",
        )
    }
    let plan = again::plan(db, job_id, from).unwrap_or_else(|| unknown_job(job_id)).or_raise();
    if !plan.unsafe_steps.is_empty() && !options.allow_non_idempotent {
        return not_idempotent(job_id, &plan.unsafe_steps, "Replay from a later step");
    }
    let now = clock::now();
    let wanted = options.require_approval || rules.flag(REPLAY_NEEDS_APPROVAL);
    if wanted && replays > 0 && options.approved_by.is_none() {
        let what = json!({"from": from.name(), "replays": replays, "requested_by": actor()});
        telling::of_job(db, "job.replay_requested", job_id, what, now);
        return Jsonb::from_value(json!({
            "ok": false, "code": "approval_required", "job_id": job_id.to_string(), "replays": replays,
            "message": "the job was replayed before, so another replay needs an approval",
            "hint": "Call again with p_options => '{\"approved_by\": \"…\"}' when somebody has approved it.",
        }));
    }
    let mut job = job_spec::read(rules, ids::new_id(), document.container().item()).or_raise();
    job.options.replay_of = Some((job_id, replays + 1));
    job.options.on_end = has_letter.then(|| letter_end::hook_of(job_id));
    let (code, id) = match &batch::settle(vec![Ok(job)])[0] {
        Fate::Enqueued(id) => ("replayed", *id),
        Fate::Duplicate(id) => ("duplicate", *id),
        Fate::Refused(turned_away) => Err(turned_away.refusal.clone()).or_raise(),
    };
    if code == "replayed" {
        again::hand_over(db, job_id, id, &plan, now);
        db.run(&REPLAYED, &[job_id.into(), id.into(), (replays + 1).into(), timestamp(now).into()]);
        let what = json!({"replay_of": job_id.to_string(), "from": from.name(), "replays": replays + 1,
            "approved_by": options.approved_by});
        telling::of_job(db, "job.replayed", id, what, now);
    }
    Jsonb::from_value(json!({
        "ok": true, "code": code, "job_id": id.to_string(), "replay_of": job_id.to_string(),
        "replays": replays + i32::from(code == "replayed"),
    }))
}
