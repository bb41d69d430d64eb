//! One job as a batch or a schedule hands it in: read from JSON, with the same rules as a single
//! enqueue. A batch is read where the server has put it, without a copy.

use super::job_options::{self, JobOptions};
use super::new_job::NewJob;
use crate::base::clock::parse_moment;
use crate::base::ids::parse_id;
use crate::base::signal::check_signal;
use crate::json::Jsonb;
use crate::queue::rules::Rulebook;
use agentq_core::jsonb::{Container, Item};
use agentq_core::reader::{Bounds, Member, Reader};
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use std::rc::Rc;

pub const JOB_KEYS: [&str; 25] = [
    "job_kind",
    "idempotency_key",
    "actor",
    "payload_json",
    "source_ref",
    "target_ref",
    "payload_ref",
    "priority",
    "scheduled_at",
    "max_attempts",
    "run_id",
    "queue",
    "start_by",
    "finish_by",
    "external_effects",
    "limit_keys",
    "ordering_key",
    "cost",
    "fairness_key",
    "requires",
    "stall_seconds",
    "retry",
    "trace_id",
    "traceparent",
    "correlation_id",
];

/// What a job was given, by key: read once, since most jobs have few of the keys that there are.
struct Given<'a> {
    values: [(&'static str, Item<'a>); JOB_KEYS.len()],
    count: usize,
    /// Whether it has a key that no job has.
    unknown: bool,
}

impl<'a> Given<'a> {
    fn to(job: Container<'a>) -> Self {
        let mut given = Given { values: [("", Item::Null); JOB_KEYS.len()], count: 0, unknown: false };
        for (key, value) in job.members() {
            match JOB_KEYS.iter().find(|known| known.as_bytes() == key) {
                None => given.unknown = true,
                Some(_) if value == Item::Null => {}
                Some(known) => {
                    given.values[given.count] = (known, value);
                    given.count += 1;
                }
            }
        }
        given
    }

    fn member(&self, key: &'static str) -> Member<'a> {
        let value = self.values[..self.count].iter().find(|(given, _)| *given == key);
        Member::from(value.map(|(key, value)| Reader::at(*key, *value)))
    }

    /// A member of any size: one that cannot be read is refused, and not passed over.
    fn option(&self, key: &'static str) -> Result<Member<'a>, Refusal> {
        let member = self.member(key);
        match member.clone().reader() {
            Some(term) => Bounds::DOCUMENT.check(key, term.item()).map(|()| member),
            None => Ok(member),
        }
    }

    fn has_options(&self) -> bool {
        self.values[..self.count].iter().any(|(given, _)| job_options::KEYS.contains(given))
    }

    fn text(&self, key: &'static str) -> Result<Option<&'a str>, Refusal> {
        self.member(key).hint("Put it in double quotes.").text()
    }
}

/// Reads a job, which is to have this id, or says what is wrong with it.
pub fn read<'a>(rules: &Rulebook, id: Uuid, item: Item<'a>) -> Result<NewJob<'a>, Refusal> {
    read_with(rules, id, item, None)
}

/// Reads a job that agentq makes for itself, under a key of its own.
pub fn read_own<'a>(rules: &Rulebook, id: Uuid, item: Item<'a>, key: &'a str) -> Result<NewJob<'a>, Refusal> {
    read_with(rules, id, item, Some(key))
}

fn read_with<'a>(rules: &Rulebook, id: Uuid, item: Item<'a>, own_key: Option<&'a str>) -> Result<NewJob<'a>, Refusal> {
    let at = Reader::nameless("a job", item).hint("For example: {\"job_kind\": \"mail.send\"}.");
    let given = Given::to(at.map()?);
    let payload = payload_of(&given, rules.payload_max_bytes)?;
    if given.unknown {
        at.object(&JOB_KEYS)?;
    }
    let kind = input::name("job_kind", given.text("job_kind")?.unwrap_or_default(), input::LONGEST_NAME)?;
    let key = given.text("idempotency_key")?.map(|key| input::key("idempotency_key", key)).transpose()?.or(own_key);
    let actor = given.text("actor")?;
    let queue = rules.queue(given.text("queue")?.unwrap_or(input::DEFAULT_QUEUE))?;
    let priority = given.member("priority").hint(input::PRIORITY_HINT).whole(input::PRIORITIES)?;
    let priority = priority.or(queue.priority).unwrap_or(input::DEFAULT_PRIORITY);
    let max_attempts = given.member("max_attempts").hint(input::ATTEMPTS_HINT).whole(input::ATTEMPTS)?;
    let max_attempts = max_attempts.unwrap_or_else(|| rules.max_attempts_of(queue, kind));
    job_options::check_key(rules, queue, kind, key)?;
    let asked_at = given.member("scheduled_at").read(parse_moment)?;
    let options = match given.has_options() {
        true => JobOptions::read(|key| given.option(key))?,
        false => JobOptions::default(),
    };
    options.check(asked_at)?;
    Ok(NewJob {
        id,
        queue: Rc::clone(queue),
        kind,
        key,
        actor: actor.map(|actor| input::name("actor", actor, input::LONGEST_NAME)).transpose()?,
        source_ref: reference(&given, "source_ref")?,
        target_ref: reference(&given, "target_ref")?,
        payload_ref: reference(&given, "payload_ref")?,
        priority: input::priority(priority)?,
        max_attempts: input::max_attempts(max_attempts)?,
        asked_at,
        run_id: given.member("run_id").hint("Leave it out, or give a uuid.").parsed("a uuid", parse_id)?,
        payload,
        options,
    })
}

fn payload_of(given: &Given<'_>, max_bytes: i64) -> Result<Jsonb, Refusal> {
    let payload = given.member("payload_json").read(|payload| checked_payload(payload.item(), max_bytes))?;
    Ok(payload.unwrap_or_else(Jsonb::empty_object))
}

/// The payload of a job, or what is wrong with it.
pub fn checked_payload(item: Item<'_>, max_bytes: i64) -> Result<Jsonb, Refusal> {
    let what = "payload_json";
    let Item::Container(bytes) = item else {
        return Err(payload::refuse_not_object(what, item.kind()));
    };
    let payload = Jsonb::from_container(bytes);
    check_signal(what, payload, max_bytes)?;
    Ok(payload)
}

fn reference<'a>(given: &Given<'a>, key: &'static str) -> Result<Option<&'a str>, Refusal> {
    input::reference(key, given.text(key)?)
}
