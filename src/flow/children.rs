//! Jobs that a job starts and waits for, without holding a worker meanwhile.
//!
//! A child is a step of its parent, found by its name: whoever asks again gets the same child. When the child ends, its hook
//! sends a signal to its parent, with what became of it, and the parent waits for that as for any other
//! ([`signals`](super::signals)). Locks: the parent's lease, the row of the step, then new rows as an enqueue; the hook as a
//! sender of a signal.

use super::signals::{self, Holder, Wait};
use super::sleep::check_wait;
use super::step_rows::{self, Wanted};
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros};
use crate::base::ids::{new_id, parse_id};
use crate::db::{self, Db};
use crate::error::{OrRaise, required};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::ends::hooks::{self, Ended};
use crate::queue::ends::{lease, telling};
use crate::queue::intake::batch::{self, Fate};
use crate::queue::intake::job_spec;
use crate::queue::rules::Rulebook;
use crate::queue::storage::lock_against_rule_change;
use agentq_core::context::Context;
use agentq_core::jsonb::Item;
use agentq_core::steps::{Inputs, Next, Options};
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::prelude::*;
use serde_json::{Value, json};

/// The name of the hook that tells parents, and of the signals that it sends.
const HOOK: &str = "child";
const SIGNAL: &str = "agentq.child";

pub fn init() {
    hooks::register(HOOK, children_ended);
}

/// The key of the signal about a child.
fn key_of(parent: Uuid, name: &str) -> String {
    format!("{parent}/{name}")
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::too_many_arguments, reason = "the signature is public")]
fn fn_child_start(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_name: Option<&str>,
    p_job_kind: Option<&str>,
    p_payload_json: default!(Option<Jsonb>, "'{}'"),
    p_options: default!(Option<Jsonb>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_child_start: p_lease_owner, p_name, p_job_kind, p_payload_json, p_options);
    answer::if_on(|rules| {
        let (job_id, owner) = (required("p_job_id", p_job_id), required("p_lease_owner", p_lease_owner));
        let name = input::name("p_name", required("p_name", p_name), input::LONGEST_NAME).or_raise();
        let kind = input::name("p_job_kind", required("p_job_kind", p_job_kind), input::LONGEST_NAME).or_raise();
        let payload = p_payload_json.unwrap_or_else(Jsonb::empty_object);
        // Hashing goes as deep as the payload does.
        payload.reader("p_payload_json").or_raise();
        let about = json::object(&mut [("kind", kind.into()), ("payload", payload.item())]);
        let inputs = Inputs::of(Item::Container(&about));
        let step = format!("child {name}");
        db::answer(|db| {
            // Before any row: a change of limits is over by now, or waits for this transaction.
            lock_against_rule_change();
            let Some(kept) = lease::keep(db, job_id, Some(owner), p_lease_token) else {
                return answer::lease_lost(db, job_id, Some(owner), p_lease_token);
            };
            let (options, token) = (Options::default(), kept.token);
            let wanted =
                Wanted { job_id, token, name: &step, kind: "step", inputs: &inputs, options: &options, until: None };
            let now = clock::now();
            let (code, result) = match wanted.begin(db, 1, now) {
                (Next::Run, _) => {
                    let child = start(rules, Parent { job_id, name }, kind, payload, p_options).or_raise();
                    let result = Jsonb::from_value(json!({"child_job_id": child.to_string()}));
                    step_rows::end(db, job_id, &step, 1, Ok(Some(result)), now);
                    ("started", result)
                }
                (_, known) => ("already_started", known.result.unwrap_or_else(Jsonb::empty_object)),
            };
            let answer = json!({"ok": true, "code": code, "job_id": job_id.to_string(), "name": name,
                "cancel_requested": kept.cancel_requested});
            Jsonb::from_value(answer).merged(result)
        })
    })
}

/// Whose child, and which.
#[derive(Clone, Copy)]
struct Parent<'a> {
    job_id: Uuid,
    name: &'a str,
}

/// Enqueues the child, with what its parent belongs to where the caller says nothing else.
fn start(
    rules: &Rulebook,
    parent: Parent<'_>,
    kind: &str,
    payload: Jsonb,
    options: Option<Jsonb>,
) -> Result<Uuid, Refusal> {
    let own = ["job_kind", "payload_json", "source_ref"];
    let accepted: Vec<&str> = job_spec::JOB_KEYS.into_iter().filter(|key| !own.contains(key)).collect();
    let given = json::options(options, &accepted)?;
    let source = format!("job:{}", parent.job_id);
    let mut members = vec![
        ("job_kind", Item::from(kind)),
        ("payload_json", payload.item()),
        ("source_ref", Item::from(source.as_str())),
    ];
    members.extend(given.members()?.map(|(key, value)| (key, value.item())));
    let document = Jsonb::from_container(&json::object(&mut members));
    let mut job = job_spec::read(rules, new_id(), document.container().item())?;
    let inherited = Context { mission_id: None, ..telling::context_of(parent.job_id) };
    job.options.context = std::mem::take(&mut job.options.context).or(&inherited);
    job.options.on_end = Some(format!("{HOOK}:{}", key_of(parent.job_id, parent.name)));
    match batch::settle(vec![Ok(job)]).remove(0) {
        Fate::Enqueued(id) => Ok(id),
        Fate::Duplicate(id) => Err(Refusal::new(
            format!("the idempotency key of the child is in use by job {id}"),
            "Leave it out: a child is known by its name.",
        )),
        Fate::Refused(turned_away) => Err(turned_away.refusal),
    }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_child_wait(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_name: Option<&str>,
    p_timeout: default!(Option<Interval>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
) -> Jsonb {
    bounded!(fn_child_wait: p_lease_owner, p_name);
    answer::if_on(|_| {
        let (job_id, owner) = (required("p_job_id", p_job_id), required("p_lease_owner", p_lease_owner));
        let name = input::name("p_name", required("p_name", p_name), input::LONGEST_NAME).or_raise();
        let timeout_us = p_timeout.map(|wait| check_wait("p_timeout", &wait).or_raise());
        let (key, step) = (key_of(job_id, name), format!("end of child {name}"));
        let wait = Wait { name: SIGNAL, key: &key, step: &step, timeout_us };
        let holder = Holder { job_id, owner, token: p_lease_token };
        db::answer(|db| {
            let answer = wait.ask(db, &holder, &Options::default(), None);
            // What the child has left stands in place of the signal.
            let (told, known) = (answer.member("payload"), answer.without("payload").without("key"));
            let known = ["signal_id", "sent_at", "sent_by", "step", "occurrence"]
                .iter()
                .fold(known, |known, key| known.without(key));
            told.map_or(known, |told| known.merged(told)).merged(Jsonb::from_value(json!({"name": name})))
        })
    })
}

/// The hook: children have ended. Their parents hear of it in the order of their ids, so that two of these never wait for
/// each other.
fn children_ended(db: &Db, ended: &[Ended], now: Micros) {
    let mut ended: Vec<&Ended> = ended.iter().collect();
    ended.sort_by(|one, other| one.about.cmp(&other.about));
    lock_against_rule_change();
    for child in ended {
        let is_well = child.state == "succeeded";
        let mut known = json!({"ok": is_well, "code": child.state, "child_job_id": child.job_id.to_string()});
        if let Some(error) = child.error.as_deref().filter(|_| !is_well) {
            known["error"] = Value::from(error);
        }
        // A parent that is gone waits for nothing.
        let parent = child.about.split('/').next().and_then(parse_id);
        if parent.is_none_or(|parent| answer::state_of(db, parent).is_none()) {
            continue;
        }
        let result = child.result.unwrap_or_else(|| Jsonb::from_item(Item::Null));
        signals::send(db, SIGNAL, &child.about, Jsonb::from_value(known).with("result", result), now);
    }
}
