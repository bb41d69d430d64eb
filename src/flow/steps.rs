//! Durable steps of a job: what is done is not done again.
//!
//! A holder begins a step by name and is told to run it, or given the result of the run that completed it. A crash
//! between the two costs that step alone. Every call keeps the lease first, so that an attempt that has lost it can
//! neither begin nor complete anything; then it locks the step's row.

use super::step_rows::{self, Wanted};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::ends::lease::{self, Kept};
use crate::queue::rules::Rulebook;
use agentq_core::reader::Reader;
use agentq_core::steps::{self, Inputs, LONGEST_NAME, Next, Options, Status};
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("steps.sql": STEP_MINE, STEP_CURRENT, pub STEP_RUNS);

const VERDICTS: [&str; 2] = ["done", "not_done"];

/// Reads the options of a call; `accepted` are those that make sense for it.
pub fn options(options: Option<Jsonb>, accepted: &[&str]) -> Options {
    json::options(options, accepted).and_then(|options| Options::read(&options, accepted)).or_raise()
}

/// Hashes inputs.
pub fn inputs(inputs: Option<Jsonb>) -> Result<Inputs, Refusal> {
    let inputs = inputs.map_or_else(|| Ok(Reader::empty("p_inputs")), |inputs| inputs.reader("p_inputs"))?;
    Ok(Inputs::of(inputs.item()))
}

/// Runs `work` for the holder of a job, or answers `lease_lost`.
pub fn with_lease(
    job_id: Option<Uuid>,
    owner: Option<&str>,
    token: Option<Uuid>,
    work: impl FnOnce(&Db, &Rulebook, Uuid, Kept) -> Jsonb,
) -> Jsonb {
    answer::if_on(|rules| {
        let job_id = required("p_job_id", job_id);
        let owner = required("p_lease_owner", owner);
        db::answer(|db| match lease::keep(db, job_id, Some(owner), token) {
            Some(kept) => work(db, rules, job_id, kept),
            None => answer::lease_lost(db, job_id, Some(owner), token),
        })
    })
}

/// What every answer about a step says of it.
fn about(code: &str, job_id: Uuid, name: &str, occurrence: i32) -> Value {
    json!({"ok": true, "code": code, "job_id": job_id.to_string(), "step": name, "occurrence": occurrence})
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_step_begin(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_name: Option<&str>,
    p_inputs: default!(Option<Jsonb>, "'{}'"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_step_begin: p_lease_owner, p_name, p_inputs, p_options);
    let name = input::name("p_name", required("p_name", p_name), LONGEST_NAME).or_raise();
    let options = options(p_options, &Options::KEYS);
    let inputs = inputs(p_inputs).or_raise();
    with_lease(p_job_id, p_lease_owner, p_lease_token, |db, _, job_id, kept| {
        let wanted =
            Wanted { job_id, token: kept.token, name, kind: "step", inputs: &inputs, options: &options, until: None };
        let (next, step) = wanted.begin(db, wanted.occurrence(db), clock::now());
        let mut answer = match next {
            Next::Run => about("run", job_id, name, step.occurrence),
            Next::Done => about("done", job_id, name, step.occurrence),
            Next::Unknown => about("unknown_outcome", job_id, name, step.occurrence),
        };
        match next {
            Next::Run => answer["attempt"] = json!(step.attempts + 1),
            Next::Done => {
                answer["done_at"] = json!(step.ended_at.map(timestamp));
            }
            Next::Unknown => {
                answer["ok"] = json!(false);
                answer["attempt"] = json!(step.attempts);
                answer["message"] =
                    json!("the step was begun and never completed, and must not be run twice; nothing was changed");
                answer["hint"] =
                    json!("Find out whether it was done, and say so with agentq.fn_step_resolve; then begin it again.");
            }
        }
        answer["position"] = json!(step.position);
        answer["cancel_requested"] = json!(kept.cancel_requested);
        let answer = Jsonb::from_value(answer);
        match (next, step.result) {
            (Next::Done, Some(result)) => answer.with("result", result),
            (Next::Done, None) => answer.with("result", Jsonb::from_value(Value::Null)),
            _ => answer,
        }
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_step_complete(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_name: Option<&str>,
    p_result: default!(Option<Jsonb>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_step_complete: p_lease_owner, p_name, p_result, p_options);
    let name = input::name("p_name", required("p_name", p_name), LONGEST_NAME).or_raise();
    let options = options(p_options, &["index"]);
    with_lease(p_job_id, p_lease_owner, p_lease_token, |db, rules, job_id, kept| {
        p_result.into_iter().for_each(|result| step_rows::check_size(rules, "p_result", result).or_raise());
        end(db, job_id, name, &options, &kept, Ok(p_result), clock::now())
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_step_fail(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_name: Option<&str>,
    p_error: default!(Option<&str>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_step_fail: p_lease_owner, p_name, p_error, p_options);
    let name = input::name("p_name", required("p_name", p_name), LONGEST_NAME).or_raise();
    let options = options(p_options, &["index"]);
    let error = p_error.filter(|error| !error.trim().is_empty()).unwrap_or("no error was given");
    with_lease(p_job_id, p_lease_owner, p_lease_token, |db, _, job_id, kept| {
        end(db, job_id, name, &options, &kept, Err(error), clock::now())
    })
}

/// Ends the step that this attempt has begun: the one with the index, or the last turn of it.
fn end(
    db: &Db,
    job_id: Uuid,
    name: &str,
    options: &Options,
    kept: &Kept,
    ended: Result<Option<Jsonb>, &str>,
    now: Micros,
) -> Jsonb {
    let code = if ended.is_ok() { "completed" } else { "failed" };
    let mut row = db.run(&STEP_MINE, &[job_id.into(), name.into(), options.index.into(), kept.token.into()]);
    if row.is_empty() {
        row = db.run(&STEP_CURRENT, &[job_id.into(), name.into(), options.index.into()]);
    }
    if row.is_empty() {
        not_begun(job_id, name)
    }
    let (occurrence, status): (i32, Status) = (row.must("occurrence"), row.word("status", Status::parse));
    let mine = row.get::<Uuid>("lease_token") == Some(kept.token);
    match status {
        Status::Begun if mine => step_rows::end(db, job_id, name, occurrence, ended, now),
        // The answer was lost, and the worker asks again: what was stored first stays.
        Status::Done if mine && ended.is_ok() => {
            let mut answer = about("completed", job_id, name, occurrence);
            answer["again"] = json!(true);
            answer["cancel_requested"] = json!(kept.cancel_requested);
            return Jsonb::from_value(answer);
        }
        Status::Failed if mine && ended.is_err() => {}
        _ => not_begun(job_id, name),
    }
    let mut answer = about(code, job_id, name, occurrence);
    answer["cancel_requested"] = json!(kept.cancel_requested);
    Jsonb::from_value(answer)
}

fn not_begun(job_id: Uuid, name: &str) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("this attempt has not begun the step {} of job {job_id}", steps::called(name, 1)),
        "Begin it with agentq.fn_step_begin, and end it only if that answers run; name its index if it has one.",
    )
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::too_many_arguments, reason = "the signature is public")]
fn fn_step_resolve(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_name: Option<&str>,
    p_verdict: Option<&str>,
    p_result: default!(Option<Jsonb>, "NULL"),
    p_note: default!(Option<&str>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_step_resolve: p_lease_owner, p_name, p_verdict, p_result, p_note, p_options);
    let name = input::name("p_name", required("p_name", p_name), LONGEST_NAME).or_raise();
    let verdict = input::one_of("p_verdict", required("p_verdict", p_verdict), &VERDICTS).or_raise();
    let options = options(p_options, &["index"]);
    let resolve = |db: &Db, rules: &Rulebook, job_id: Uuid, by: &str| {
        p_result.into_iter().for_each(|result| step_rows::check_size(rules, "p_result", result).or_raise());
        let now = clock::now();
        let occurrence = options.index.unwrap_or(1);
        // Sleeps and waits for signals are not steps that somebody could have done.
        let is_unknown = |step: &step_rows::Step| step.status == Status::Begun && step.kind == "step";
        let unknown = step_rows::find(db, job_id, name, occurrence).filter(is_unknown);
        let Some(_) = unknown else {
            let mut answer = about("not_unknown", job_id, name, occurrence);
            answer["ok"] = json!(false);
            answer["message"] = json!("nobody waits for the outcome of this step; nothing was changed");
            return Jsonb::from_value(answer);
        };
        let said = p_note;
        let note = said.filter(|note| !note.trim().is_empty()).unwrap_or("found not to be done");
        let ended = if verdict == "done" { Ok(p_result) } else { Err(note) };
        step_rows::end(db, job_id, name, occurrence, ended, now);
        let what = json!({"step": name, "occurrence": occurrence, "verdict": verdict, "note": said, "by": by});
        crate::queue::ends::telling::of_job(db, "step.resolved", job_id, what, now);
        let mut answer = about("resolved", job_id, name, occurrence);
        answer["verdict"] = json!(verdict);
        Jsonb::from_value(answer)
    };
    if p_lease_owner.is_some() {
        return with_lease(p_job_id, p_lease_owner, p_lease_token, |db, rules, job_id, _| {
            resolve(db, rules, job_id, p_lease_owner.unwrap_or_default())
        });
    }
    // A person says it of a job that nobody runs: the step's row is locked by `resolve`, and an attempt that begins
    // it meanwhile waits for that.
    answer::if_on(|rules| {
        let job_id = required("p_job_id", p_job_id);
        db::answer(|db| {
            answer::state_of(db, job_id).unwrap_or_else(|| crate::error::unknown_job(job_id));
            let step = step_rows::find(db, job_id, name, options.index.unwrap_or(1));
            let runs = step
                .and_then(|step| step.lease_token)
                .is_some_and(|token| !db.run(&STEP_RUNS, &[job_id.into(), token.into()]).is_empty());
            if runs {
                raise(
                    PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("the attempt that began the step {} still holds job {job_id}", steps::called(name, 1)),
                    "Let its holder say what became of it, or wait until its lease has ended.",
                )
            }
            resolve(db, rules, job_id, &actor())
        })
    })
}
