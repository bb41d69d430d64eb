//! Putting one job into the queue.
//!
//! An enqueue with an idempotency key takes the key first: of any number of sessions that try at the same instant, one
//! gets it, and the others wait for it to commit and answer with its job.

use super::admission;
use super::admission::Admission;
use super::job_options::{self, JobOptions};
use super::new_job::{self, NewJob};
use super::unique::Unique;
use crate::base::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, check_moment};
use crate::base::ids::{self, new_id, parse_id};
use crate::base::signal::check_signal;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required, run_again};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::storage::marks;
use crate::table;
use agentq_core::admission::Verdict;
use agentq_core::jsonb::Item;
use agentq_core::state::JobState;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::rc::Rc;

statements!("enqueue.sql": KEY_TAKE, KEY_HOLDER);

#[pg_extern(security_definer)]
#[allow(clippy::too_many_arguments, reason = "the signature is public")]
fn fn_job_enqueue(
    p_job_kind: Option<&str>,
    p_idempotency_key: default!(Option<&str>, "NULL"),
    p_actor: default!(Option<&str>, "NULL"),
    p_payload_json: default!(Option<Jsonb>, "'{}'"),
    p_source_ref: default!(Option<&str>, "NULL"),
    p_target_ref: default!(Option<&str>, "NULL"),
    p_payload_ref: default!(Option<&str>, "NULL"),
    p_priority: default!(Option<i32>, "NULL"),
    p_scheduled_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    p_max_attempts: default!(Option<i32>, "NULL"),
    p_run_id: default!(Option<Uuid>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    answer::if_on(|rules| {
        bounded!(fn_job_enqueue: p_job_kind, p_idempotency_key, p_actor, p_payload_json, p_source_ref, p_target_ref, p_payload_ref, p_options);
        let kind = input::name("p_job_kind", required("p_job_kind", p_job_kind), input::LONGEST_NAME).or_raise();
        let key = p_idempotency_key.map(|key| input::key("p_idempotency_key", key).or_raise());
        if let Some(key) = key.filter(|key| looks_like_a_payload(key)) {
            ereport!(
                WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                format!("the idempotency key looks like a payload: {}", agentq_core::error::shown(key)),
                "The second parameter is the key. Name the payload: p_payload_json => '…'."
            );
        }
        let actor = p_actor.map(|a| input::name("p_actor", a, input::LONGEST_NAME).or_raise());
        let [source_ref, target_ref, payload_ref] =
            [("p_source_ref", p_source_ref), ("p_target_ref", p_target_ref), ("p_payload_ref", p_payload_ref)]
                .map(|(what, value)| input::reference(what, value).or_raise());
        let payload = p_payload_json.unwrap_or_else(Jsonb::empty_object);
        check_signal("p_payload_json", payload, rules.payload_max_bytes).or_raise();
        let asked_at = p_scheduled_at.map(|at| check_moment("scheduled_at", at.into_inner()).or_raise());
        let given = p_options.map(|given| read_options(given).or_raise());
        let (name, options, unique) = given.unwrap_or_default();
        let queue = rules.queue(name.as_deref().unwrap_or(input::DEFAULT_QUEUE)).or_raise();
        check_unique(&unique, key, asked_at).or_raise();
        options.check(asked_at).or_raise();
        job_options::check_key(rules, queue, kind, key).or_raise();
        let priority = input::priority(p_priority.or(queue.priority).unwrap_or(input::DEFAULT_PRIORITY)).or_raise();
        let max_attempts = p_max_attempts.unwrap_or_else(|| rules.max_attempts_of(queue, kind));
        let max_attempts = input::max_attempts(max_attempts).or_raise();

        table::must_write(c"fn_job_enqueue()");
        marks::announce();
        let now = clock::now();
        let job_id = new_id();
        let asked_at = asked_at.or_else(|| unique.as_ref()?.first_at(now));
        let scheduled_at = asked_at.unwrap_or(now);
        let job = NewJob {
            id: job_id,
            queue: Rc::clone(queue),
            kind,
            key,
            actor,
            source_ref,
            target_ref,
            payload_ref,
            priority,
            max_attempts,
            asked_at,
            run_id: p_run_id,
            payload,
            options,
        };
        let verdict = Admission::default().verdict(rules, &job);
        if verdict != Verdict::Accept {
            // The answer tells of a job that is there already, however many jobs wait.
            let holder = key.and_then(|key| db::connect(|db| holder(db, key).map(Jsonb::beyond_connection)));
            return holder.unwrap_or_else(|| admission::answer(&verdict));
        }
        if let Some(key) = key
            && let Some(earlier) = db::connect(|db| earlier(db, &unique, &job, key, now).map(Jsonb::beyond_connection))
        {
            return earlier;
        }
        new_job::write(&[job], now, &actor::actor());
        Jsonb::from_container(&json::object(&mut [
            ("ok", true.into()),
            ("code", "enqueued".into()),
            ("queue", queue.queue.as_str().into()),
            ("state", "queued".into()),
            ("job_id", ids::text(job_id).item()),
            ("duplicate", false.into()),
            ("scheduled_at", json::moment(scheduled_at).item()),
        ]))
    })
}

/// Whether a key is a JSON object, which somebody has put in the place of the payload.
fn looks_like_a_payload(key: &str) -> bool {
    key.starts_with('{') && key.ends_with('}') && serde_json::from_str::<serde::de::IgnoredAny>(key).is_ok()
}

/// Refuses a rule about an earlier job where there is no key by which to know that job.
fn check_unique(unique: &Option<Unique>, key: Option<&str>, asked_at: Option<Micros>) -> Result<(), Refusal> {
    match unique {
        Some(_) if key.is_none() => Err(Refusal::new(
            "p_options.unique needs an idempotency key",
            "Give p_idempotency_key a text that is the same for the same work.",
        )),
        Some(Unique::Debounce(..)) if asked_at.is_some() => Err(Refusal::new(
            "a debounced job runs when nobody has asked for it for a while, and not at p_scheduled_at",
            "Leave p_scheduled_at out.",
        )),
        _ => Ok(()),
    }
}

/// Takes the key for the job, or does what the caller asked for with the earlier job that holds it.
fn earlier(db: &Db, unique: &Option<Unique>, job: &NewJob<'_>, key: &str, now: Micros) -> Option<Jsonb> {
    for _ in 0..100 {
        let Some(duplicate) = take_key(db, key, job.id) else {
            return unique.as_ref().and_then(|unique| unique.throttled(db, key, job.id, now));
        };
        let Some(unique) = unique else { return Some(duplicate) };
        let Some(Item::Text(id)) = duplicate.container().get("job_id") else { return Some(duplicate) };
        let Some(id) = std::str::from_utf8(id).ok().and_then(parse_id) else { return Some(duplicate) };
        if let Some(changed) = unique.change(db, id, job.payload, now) {
            return Some(changed);
        }
        // Held, or finished a moment ago: then the key is free. Or somebody has just moved it from one place to another: then
        // it can be changed where it is now.
        let state = answer::state_of(db, id).and_then(|state| JobState::parse(&state));
        let has_moved = state.is_some_and(JobState::is_at_rest) && unique.may_change(db, id);
        if state.is_some_and(|state| !state.is_finished()) && !has_moved {
            return Some(duplicate);
        }
    }
    keeps_changing_hands(key)
}

/// The queue named in the options, if any, the options of the job, and what is to become of an earlier job.
fn read_options(options: Jsonb) -> Result<(Option<String>, JobOptions, Option<Unique>), Refusal> {
    let options = json::options(Some(options), &[&["queue", "unique"], job_options::KEYS.as_slice()].concat())?;
    let queue = options.member("queue").hint("For example: p_options => '{\"queue\": \"mail\"}'.").text()?;
    let unique = options.member("unique").read(Unique::read)?;
    Ok((queue.map(str::to_owned), JobOptions::read(|key| Ok(options.member(key)))?, unique))
}

/// The job whose id this key is, letter by letter: a job that was given no key answers to it.
pub fn as_id(key: &str) -> Option<Uuid> {
    parse_id(key).filter(|id| ids::text(*id).as_bytes() == key.as_bytes())
}

/// The answer about the job that holds this key, if one does.
fn holder(db: &Db, key: &str) -> Option<Jsonb> {
    let row = db.run(&KEY_HOLDER, &[key.into(), as_id(key).into()]);
    (!row.is_empty()).then(|| row.only())
}

/// Takes the key for a new job; answers with the job that holds it, if one does.
fn take_key(db: &Db, key: &str, job_id: Uuid) -> Option<Jsonb> {
    for _ in 0..100 {
        if let Some(answer) = holder(db, key) {
            return Some(answer);
        }
        // Waits for a session that is taking the same key, and fails to take it if that commits.
        if !db.run(&KEY_TAKE, &[key.into(), job_id.into()]).is_empty() {
            return None;
        }
    }
    keeps_changing_hands(key)
}

fn keeps_changing_hands(key: &str) -> ! {
    run_again(format!("idempotency_key \"{}\" keeps changing hands", agentq_core::error::shown(key)))
}
