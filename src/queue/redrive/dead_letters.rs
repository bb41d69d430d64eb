//! What people do with dead letters: look into them, try them again, and throw them away.

use super::{filter, letter_end, replay};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, moment_before, timestamp};
use crate::base::ids::{self, new_ids};
use crate::db::{self, Budget, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::ends::again;
use crate::queue::ends::telling;
use crate::queue::intake::batch::{self, Fate};
use crate::queue::intake::job_spec;
use crate::queue::intake::new_job::NewJob;
use crate::queue::rules::Rulebook;
use agentq_core::reader::Reader;
use agentq_core::replay::{From, Plan};
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};

statements!("dead_letters.sql": TRIAGE, RESOLVE, LETTER, DONE_LOCK, LETTERS, REDRIVEN, LETTER_PURGE);

const RESOLUTIONS: [&str; 4] = ["pending", "investigating", "resolved", "abandoned"];
const MOST: i64 = 10_000;

fn unknown_letter(letter: Uuid) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
        format!("there is no dead letter {letter}"),
        "Look for it in agentq.job_dead_letter; its dead_letter_id is not the job_id.",
    )
}

#[pg_extern(name = "fn_dead_letter_triage", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn triage_and_resolve(
    p_dead_letter_id: Option<Uuid>,
    p_triage_status: Option<&str>,
    p_triage_note: default!(Option<&str>, "NULL"),
    p_triaged_by: default!(Option<&str>, "NULL"),
    p_resolution: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_dead_letter_triage: p_triage_status, p_triage_note, p_triaged_by, p_resolution);
    if let Some(resolution) = p_resolution {
        resolution.reader("p_resolution").and_then(check_resolution).or_raise();
    }
    triage(p_dead_letter_id, p_triage_status, p_triage_note, p_triaged_by, p_resolution)
}

/// `resolution`: assignee, notes and status, checked.
pub fn triage(
    letter: Option<Uuid>,
    status: Option<&str>,
    note: Option<&str>,
    by: Option<&str>,
    resolution: Option<Jsonb>,
) -> Jsonb {
    let letter = required("p_dead_letter_id", letter);
    let status = required("p_triage_status", status);
    input::one_of("triage status", status, &input::TRIAGE_STATUSES).or_raise();
    let by = by.map(|by| input::name("p_triaged_by", by, input::LONGEST_NAME).or_raise());
    let now = timestamp(clock::now());
    db::answer(|db| {
        let by = by.map_or_else(actor, str::to_owned);
        let row = db.run(&TRIAGE, &[letter.into(), status.into(), note.into(), by.into(), now.into()]);
        if row.is_empty() {
            unknown_letter(letter)
        }
        let answer: Jsonb = row.only();
        let Some(resolution) = resolution else { return answer };
        let args = [letter.into(), resolution.into(), now.into(), answer.into()];
        db.run(&RESOLVE, &args).only()
    })
}

fn check_resolution(at: Reader<'_>) -> Result<(), Refusal> {
    at.object(&["status", "assigned_to", "notes"])?;
    at.member("status").word(&RESOLUTIONS)?;
    at.member("assigned_to").name(input::LONGEST_NAME)?;
    at.member("notes").secret().text()?;
    Ok(())
}

/// What a redrive is asked for beside the letters.
struct Options {
    limit: i64,
    /// Jobs per second that become ready; None: all at once, before what is younger.
    per_second: Option<f64>,
    /// Whether to redrive letters that were redriven before.
    again: bool,
    /// Whether the new jobs have the steps that the old ones had done, and their checkpoints. None: if they are known.
    keep_steps: Option<bool>,
    /// Whether steps may run again that must not be run twice.
    allow_non_idempotent: bool,
}

impl Options {
    fn read(options: Reader<'_>) -> Result<Options, Refusal> {
        let again = options.member("again").hint("Give true to redrive letters that were redriven before.");
        let keep_steps = options.member("keep_steps").hint("Give true to go on after the steps that were done.");
        let allowed = options.member("allow_non_idempotent");
        Ok(Options {
            limit: options.member("limit").whole(1..=MOST)?.unwrap_or(1_000),
            per_second: options.member("per_second").number(0.001..=1e6)?,
            again: again.flag()?.unwrap_or(false),
            keep_steps: keep_steps.flag()?,
            allow_non_idempotent: allowed.flag()?.unwrap_or(false),
        })
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_dead_letter_redrive(
    p_dead_letter_id: default!(Option<Uuid>, "NULL"),
    p_filter: default!(Option<Jsonb>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_dead_letter_redrive: p_filter, p_options);
    answer::if_on(|rules| {
        let accepted = ["limit", "per_second", "again", "keep_steps", "allow_non_idempotent"];
        let options = json::options(p_options, &accepted).and_then(Options::read).or_raise();
        let now = clock::now();
        match (p_dead_letter_id, p_filter) {
            (Some(letter), None) => db::answer(|db| one(db, rules, letter, &options, now)),
            (None, Some(filter)) => {
                filter.reader("p_filter").and_then(filter::check).or_raise();
                db::answer(|db| many(db, rules, filter, &options, now))
            }
            _ => Err(Refusal::new(
                "name one dead letter, or give a filter, but not both or none",
                "For example: fn_dead_letter_redrive(p_filter => '{\"job_kind\": \"mail.send\"}'); '{}' takes all.",
            ))
            .or_raise(),
        }
    })
}

/// A letter to be tried again.
struct Letter {
    id: Uuid,
    job_id: Uuid,
    redriven_as: Option<Uuid>,
    job: Jsonb,
    replay_count: i32,
    /// The steps of its job that must not be run twice, as they stood when it was given up.
    unsafe_steps: Vec<String>,
    /// When the first job of its line was made; None: somebody wrote the letter by hand.
    made_at: Option<Micros>,
}

impl Letter {
    fn from_row(row: &db::Rows) -> Letter {
        Letter {
            id: row.must("dead_letter_id"),
            job_id: row.must("job_id"),
            redriven_as: row.get("redriven_as"),
            job: row.must::<Jsonb>("job").copied(),
            replay_count: row.must("replay_count"),
            unsafe_steps: row.must("unsafe_steps"),
            made_at: row.get::<TimestampWithTimeZone>("made_at").map(TimestampWithTimeZone::into_inner),
        }
    }

    /// The job as it is to be enqueued anew: where the first one stood among the others.
    fn read<'a>(&self, rules: &Rulebook, id: Uuid, at: Option<Micros>) -> Result<NewJob<'a>, Refusal> {
        let mut job = job_spec::read(rules, id, self.job.container().item())?;
        job.asked_at = Some(at.or(self.made_at).unwrap_or_else(|| ids::made_at(self.job_id)));
        job.options.replay_of = Some((self.job_id, self.replay_count + 1));
        job.options.on_end = Some(letter_end::hook_of(self.job_id));
        Ok(job)
    }

    /// What the new job begins with, and what it would do twice. Locks the job of the letter, so that a purge leaves it
    /// alone. Where the job has been removed, and its steps with it, the letter knows what must not be done twice.
    fn plan(&self, db: &Db, options: &Options) -> Result<Plan, Refusal> {
        let from = if options.keep_steps == Some(false) { From::Beginning } else { From::LastCheckpoint };
        let is_there = !db.run(&DONE_LOCK, &[self.job_id.into()]).is_empty();
        if let Some(plan) = if is_there { again::plan(db, self.job_id, &from) } else { None } {
            return plan;
        }
        if options.keep_steps == Some(true) {
            return Err(Refusal::new(
                format!("job {} of this letter was removed, and its steps with it", self.job_id),
                "Redrive it without keep_steps, if it may begin anew.",
            ));
        }
        Ok(Plan { checkpoint: None, keep_before: None, unsafe_steps: self.unsafe_steps.clone() })
    }
}

/// Whether a letter may be redriven by this plan.
fn is_safe(plan: &Plan, options: &Options) -> bool {
    plan.unsafe_steps.is_empty() || options.allow_non_idempotent
}

fn one(db: &Db, rules: &Rulebook, letter: Uuid, options: &Options, now: Micros) -> Jsonb {
    let row = db.run(&LETTER, &[letter.into()]);
    if row.is_empty() {
        unknown_letter(letter)
    }
    let letter = Letter::from_row(&row);
    if let Some(job_id) = letter.redriven_as.filter(|_| !options.again) {
        return Jsonb::from_value(json!({
            "ok": false, "code": "already_redriven", "dead_letter_id": letter.id.to_string(), "job_id": job_id.to_string(),
            "message": "this letter was redriven before; nothing was done",
            "hint": "Give p_options => '{\"again\": true}' to redrive it once more.",
        }));
    }
    let plan = letter.plan(db, options).or_raise();
    if !is_safe(&plan, options) {
        let instead = if options.keep_steps == Some(false) { "Leave keep_steps out" } else { "Look at what was done" };
        return replay::not_idempotent(letter.job_id, &plan.unsafe_steps, instead);
    }
    let job = letter.read(rules, ids::new_id(), None).or_raise();
    let fates = batch::settle(vec![Ok(job)]);
    mark(db, std::slice::from_ref(&letter), &[Some(plan)], &fates, now);
    let (code, job_id) = match &fates[0] {
        Fate::Duplicate(id) => ("duplicate", id),
        Fate::Enqueued(id) => ("redriven", id),
        Fate::Refused(turned_away) => Err(turned_away.refusal.clone()).or_raise(),
    };
    Jsonb::from_value(json!({
        "ok": true, "code": code, "dead_letter_id": letter.id.to_string(),
        "job_id": job_id.to_string(), "replay_of": letter.job_id.to_string(),
    }))
}

fn many(db: &Db, rules: &Rulebook, filter: Jsonb, options: &Options, now: Micros) -> Jsonb {
    let mut letters = Vec::new();
    let mut budget = Budget::of_a_turn();
    db.walk(&LETTERS, &[filter.into(), (options.limit + 1).into(), options.again.into()], |row| {
        let letter = Letter::from_row(row);
        let size = letter.job.size();
        letters.push(letter);
        budget.take(size)
    });
    // What was read last but not redriven is found again.
    let more = letters.len() as i64 > options.limit || budget.is_spent();
    letters.truncate(options.limit as usize);
    let at = |number: usize| Some(now + (number as f64 / options.per_second? * 1e6) as i64);
    let jobs = letters.iter().zip(new_ids()).enumerate();
    let mut plans: Vec<Option<Plan>> = Vec::with_capacity(letters.len());
    let mut read = |(number, (letter, id)): (usize, (&Letter, Uuid))| {
        let plan = letter.plan(db, options);
        plans.push(plan.as_ref().ok().cloned());
        if !is_safe(&plan?, options) {
            return Err(Refusal::new(
                "running its steps again may do harm",
                "Give p_options => '{\"allow_non_idempotent\": true}' to redrive it all the same.",
            ));
        }
        letter.read(rules, id, at(number))
    };
    let fates = batch::settle(jobs.map(|job| read(job).map_err(Into::into)).collect());
    mark(db, &letters, &plans, &fates, now);
    let told = letters.iter().zip(&plans).zip(&fates).map(|((letter, plan), fate)| {
        let mut told = json!({"dead_letter_id": letter.id.to_string(), "replay_of": letter.job_id.to_string()});
        match fate {
            Fate::Refused(turned_away) => {
                told["code"] = json!("refused");
                told["reason"] = json!(turned_away.refusal.message);
                if let Some(plan) = plan.as_ref().filter(|plan| !is_safe(plan, options)) {
                    told["steps"] = json!(plan.unsafe_steps);
                }
            }
            Fate::Duplicate(id) | Fate::Enqueued(id) => {
                told["code"] = json!(if matches!(fate, Fate::Enqueued(_)) { "redriven" } else { "duplicate" });
                told["job_id"] = json!(id.to_string());
            }
        }
        told
    });
    let told: Vec<Value> = told.collect();
    let count = |code: &str| told.iter().filter(|told| told["code"] == code).count();
    let (redriven, duplicates, refused) = (count("redriven"), count("duplicate"), count("refused"));
    Jsonb::from_value(json!({
        "ok": true, "code": "redriven", "redriven": redriven, "duplicates": duplicates, "refused": refused,
        "more": more, "jobs": told,
    }))
}

/// Writes down, and tells, which letters have become which jobs.
fn mark(db: &Db, letters: &[Letter], plans: &[Option<Plan>], fates: &[Fate], now: Micros) {
    let (mut ids, mut jobs) = (Vec::new(), Vec::new());
    for ((letter, plan), fate) in letters.iter().zip(plans).zip(fates) {
        if let Fate::Enqueued(job) = fate {
            ids.push(letter.id);
            jobs.push(*job);
            if let Some(plan) = plan {
                again::hand_over(db, letter.job_id, *job, plan, now);
            }
            let what = json!({"dead_letter_id": letter.id.to_string(), "replay_of": letter.job_id.to_string()});
            telling::of_job(db, "job.redriven", *job, what, now);
        }
    }
    if !ids.is_empty() {
        db.run(&REDRIVEN, &[ids.into(), jobs.into(), timestamp(now).into(), actor().into()]);
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_dead_letter_purge(
    p_older_than: Option<pgrx::datum::Interval>,
    p_filter: default!(Option<Jsonb>, "NULL"),
    p_limit: default!(Option<i32>, "10000"),
) -> Jsonb {
    bounded!(fn_dead_letter_purge: p_filter);
    answer::if_on(|_| {
        let before = moment_before(required("p_older_than", p_older_than)).or_raise();
        let limit = input::purge_limit(required("p_limit", p_limit)).or_raise();
        if let Some(filter) = p_filter {
            filter.reader("p_filter").and_then(filter::check).or_raise();
        }
        let args = [timestamp(before).into(), p_filter.into(), i64::from(limit).into()];
        db::answer(|db| db.run(&LETTER_PURGE, &args).only())
    })
}
