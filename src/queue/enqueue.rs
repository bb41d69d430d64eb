//! Putting one job into the queue.
//!
//! With an idempotency key the key is taken first: of any number of sessions that try at the same
//! instant, one gets it, and the others wait for it to commit and answer with its job.

use super::admission;
use super::answer;
use super::hints;
use super::new_job::{self, NewJob};
use super::terms::{self, Terms};
use super::unique::Unique;
use crate::base::clock::{self, Micros};
use crate::base::ids::{self, new_id};
use crate::base::settings::{Queue, Settings};
use crate::db::{self, Db, statement};
use crate::error::{OrRaise, required, run_again};
use crate::json::{self, Jsonb};
use crate::table;
use agentq_core::admission::Verdict;
use agentq_core::jsonb::Item;
use agentq_core::reader::Reader;
use agentq_core::state::JobState;
use agentq_core::{Refusal, config, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::rc::Rc;

statement!(KEY_TAKE, "sql/key_take.sql", [TEXTOID, UUIDOID]);
statement!(KEY_HOLDER, "sql/key_holder.sql", [TEXTOID, UUIDOID]);

/// The queue of that name, or an error that lists the queues there are.
pub fn find_queue<'a>(settings: &'a Settings, name: &str) -> Result<&'a Rc<Queue>, Refusal> {
    settings.queue(name).ok_or_else(|| {
        Refusal::new(
            format!("there is no queue \"{}\"", agentq_core::error::shown(name)),
            format!("Make it with SELECT agentq.fn_queue_set('…'). The queues are: {}.", settings.queue_names()),
        )
    })
}

/// Refuses a schedule that is not a moment.
pub fn check_schedule(what: &str, at: Micros) -> Result<Micros, Refusal> {
    if at == Micros::MAX || at == Micros::MIN {
        return Err(Refusal::new(
            format!("{what} must be a moment, not infinity"),
            "Leave it out, or pause its queue to hold jobs back.",
        ));
    }
    Ok(at)
}

/// A moment in JSON, read as the server reads it, and refused rather than raised.
pub fn moment(at: Reader<'_>) -> Result<Micros, Refusal> {
    let at = at.hint("Write it as in 2030-01-31T12:00:00Z.");
    let moment = at.parsed("a timestamp", json::parse_timestamp)?;
    check_schedule(at.path(), moment.into_inner())
}

/// Refuses a payload that is not a small signal.
pub fn check_signal(what: &str, value: Jsonb, max_bytes: i64) -> Result<(), Refusal> {
    if !value.is_object() {
        return Err(payload::refuse_not_object(what, value.container().item().kind()));
    }
    if value.size() as i64 > max_bytes {
        return Err(payload::refuse_too_large(what, value.size(), max_bytes, config::PAYLOAD_MAX_BYTES));
    }
    if let Some(key) = payload::denied_key(value.container()) {
        return Err(payload::refuse_denied(what, key));
    }
    Ok(())
}

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
    answer::gated(|settings| {
        let kind = input::name("p_job_kind", required("p_job_kind", p_job_kind), input::LONGEST_NAME).or_raise();
        let key = p_idempotency_key.map(|k| input::name("p_idempotency_key", k, input::LONGEST_KEY).or_raise());
        let actor = p_actor.map(|a| input::name("p_actor", a, input::LONGEST_NAME).or_raise());
        let [source_ref, target_ref, payload_ref] =
            [("p_source_ref", p_source_ref), ("p_target_ref", p_target_ref), ("p_payload_ref", p_payload_ref)]
                .map(|(what, value)| input::reference(what, value).or_raise());
        let payload = p_payload_json.unwrap_or_else(Jsonb::empty_object);
        check_signal("p_payload_json", payload, settings.payload_max_bytes).or_raise();
        let asked_at = p_scheduled_at.map(|at| check_schedule("scheduled_at", at.into_inner()).or_raise());
        let options = p_options.map(|given| options(given).or_raise());
        let (name, terms, unique) = options.unwrap_or_default();
        let queue = find_queue(settings, name.as_deref().unwrap_or(input::DEFAULT_QUEUE)).or_raise();
        check_unique(&unique, key, asked_at).or_raise();
        terms.check(asked_at).or_raise();
        terms::check_key(settings, queue, kind, key).or_raise();
        let priority = input::priority(p_priority.or(queue.priority).unwrap_or(input::DEFAULT_PRIORITY)).or_raise();
        let max_attempts = p_max_attempts.unwrap_or_else(|| terms::max_attempts(settings, queue, kind));
        let max_attempts = input::max_attempts(max_attempts).or_raise();

        table::must_write(c"fn_job_enqueue()");
        hints::announce();
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
            terms,
        };
        let verdict = admission::verdict(settings, &job, 1);
        if verdict != Verdict::Accept {
            // A job that is there already is told of, however many wait.
            let holder = key.and_then(|key| db::connect(|db| holder(db, key).map(Jsonb::beyond_connection)));
            return holder.unwrap_or_else(|| admission::answer(&verdict));
        }
        if let Some(key) = key
            && let Some(earlier) = db::connect(|db| earlier(db, &unique, &job, key, now).map(Jsonb::beyond_connection))
        {
            return earlier;
        }
        new_job::write(&[job], now, &db::session_user());
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

/// What is to become of an earlier job needs a key by which it is known.
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

/// Takes the key for the job, or does with the earlier job that holds it what was asked for.
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
        // Held, or finished a moment ago: then the key is free.
        let state = answer::state_of(db, id).and_then(|state| JobState::parse(&state));
        if state.is_some_and(|state| !state.is_finished()) {
            return Some(duplicate);
        }
    }
    keeps_changing_hands(key)
}

/// The queue named in the options, if any, the terms, and what is to become of an earlier job.
fn options(options: Jsonb) -> Result<(Option<String>, Terms, Option<Unique>), Refusal> {
    let options = json::options(Some(options), &[&["queue", "unique"], terms::KEYS.as_slice()].concat())?;
    let queue = options.member("queue").hint("For example: p_options => '{\"queue\": \"mail\"}'.").text()?;
    let unique = options.member("unique").read(Unique::read)?;
    Ok((queue.map(str::to_owned), Terms::read(|key| Ok(options.member(key)))?, unique))
}

/// An id in its usual form, which the server reads too.
pub fn parse_id(text: &str) -> Option<Uuid> {
    let id = uuid::Uuid::try_parse(text).ok().filter(|_| text.len() == 36)?;
    Some(Uuid::from_bytes(*id.as_bytes()))
}

/// The job whose id this key is, letter by letter: a job without a key of its own answers to it.
pub fn as_id(key: &str) -> Option<Uuid> {
    parse_id(key).filter(|id| ids::text(*id).as_bytes() == key.as_bytes())
}

/// The answer about the job that holds this key, if one does.
fn holder(db: &Db, key: &str) -> Option<Jsonb> {
    let row = db.run(&KEY_HOLDER, &[key.into(), as_id(key).into()]);
    (!row.is_empty()).then(|| row.must(1))
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
