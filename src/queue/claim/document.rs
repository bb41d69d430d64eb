//! What a worker gets: the claimed job as JSON, in the server's binary form, and the answers that hold it.

use super::lanes::Lane;
use super::options::Request;
use super::search::Outcome;
use crate::base::clock::Micros;
use crate::base::ids;
use crate::json::{self, Jsonb};
use crate::queue::rows::{job, job_checkpoint};
use crate::table::{Moment, Scan, Table};
use agentq_core::jsonb::{Container, Item};
use pgrx::Uuid;
use serde_json::json;

/// A claimed job.
pub struct Claimed {
    pub job_id: Uuid,
    pub token: Uuid,
    pub kind: String,
    /// The job as its worker sees it.
    pub document: Vec<u8>,
}

/// The lease of a job that is being claimed.
pub struct Lease<'a> {
    pub owner: &'a str,
    pub token: Uuid,
    pub until: Micros,
    pub claimed_at: Micros,
    /// How long it was made, in seconds.
    pub seconds: i32,
}

/// The answer to a claim. `paused`: lanes that it did not read, because their queue is paused.
pub fn answer(request: &Request<'_>, outcome: &Outcome, paused: &[Lane]) -> Jsonb {
    match outcome.claimed.as_slice() {
        [] => nothing(request, outcome, paused),
        [one, ..] if !request.is_batch => Jsonb::from_container(&one.document),
        claimed => several(claimed, request.with_acks),
    }
}

fn several(claimed: &[Claimed], with_acks: bool) -> Jsonb {
    let jobs = json::array(claimed.iter().map(|job| Item::Container(&job.document)));
    let acks = with_acks.then(|| acks_of(claimed));
    let mut members = vec![
        ("ok", true.into()),
        ("code", "claimed".into()),
        ("count", (claimed.len() as i64).into()),
        ("jobs", Item::Container(&jobs)),
    ];
    members.extend(acks.as_ref().map(|acks| ("acks", Item::Container(acks))));
    Jsonb::from_container(&json::object(&mut members))
}

/// The list that acks these jobs.
fn acks_of(claimed: &[Claimed]) -> Vec<u8> {
    let ack = |job: &Claimed| {
        let (id, token) = (ids::text(job.job_id), ids::text(job.token));
        json::object(&mut [("job_id", id.item()), ("lease_token", token.item())])
    };
    let acks: Vec<Vec<u8>> = claimed.iter().map(ack).collect();
    json::array(acks.iter().map(|ack| Item::Container(ack)))
}

fn nothing(request: &Request<'_>, outcome: &Outcome, paused: &[Lane]) -> Jsonb {
    let mut answer = json!({"ok": true, "code": "empty"});
    if request.is_batch {
        answer["count"] = json!(0);
        answer["jobs"] = json!([]);
    }
    if request.with_acks {
        answer["acks"] = json!([]);
    }
    if !paused.is_empty() {
        let mut names: Vec<_> = paused.iter().map(|lane| lane.queue.queue.clone()).collect();
        names.dedup();
        answer["paused"] = json!(names);
    }
    if !outcome.limited_by.is_empty() {
        answer["limited"] = json!(outcome.limited_by);
    }
    Jsonb::from_value(answer)
}

/// A job as its worker sees it.
pub fn of_job(body: &Scan<'_>, queue: &str, lease: &Lease<'_>, moment: &Moment) -> Vec<u8> {
    let id = body.id(job::job_id);
    let attempts = body.int(job::attempts);
    let (id_text, token) = (ids::text(id), ids::text(lease.token));
    let run_id = body.maybe_id(job::run_id).map(ids::text);
    let text = |column| body.maybe_bytes(column).map_or(Item::Null, Item::Text);
    let time = |column| json::moment(body.time(column));
    let (scheduled_at, created_at, until) = (time(job::scheduled_at), time(job::created_at), json::moment(lease.until));
    let claimed_at = json::moment(lease.claimed_at);
    // Only a job that was held before, or one that is replayed, can have a checkpoint.
    let saved =
        if body.is_null(job::picked_at) && body.is_null(job::replay_of) { None } else { checkpoint(id, moment) };
    let finish_by = (!body.is_null(job::finish_by)).then(|| time(job::finish_by));
    let mut members = vec![
        ("ok", true.into()),
        ("code", "claimed".into()),
        ("actor", text(job::actor)),
        ("queue", queue.into()),
        ("job_id", id_text.item()),
        ("run_id", run_id.as_ref().map_or(Item::Null, ids::Text::item)),
        ("attempt", (attempts + 1).into()),
        ("attempts", attempts.into()),
        ("job_kind", text(job::job_kind)),
        ("priority", body.int(job::priority).into()),
        ("checkpoint", saved.as_deref().map_or(Item::Null, |saved| Container::new(saved).item())),
        ("created_at", created_at.item()),
        ("source_ref", text(job::source_ref)),
        ("target_ref", text(job::target_ref)),
        ("lease_owner", lease.owner.into()),
        ("lease_token", token.item()),
        ("lease_until", until.item()),
        ("claimed_at", claimed_at.item()),
        ("lease_seconds", lease.seconds.into()),
        ("payload_ref", text(job::payload_ref)),
        ("max_attempts", body.int(job::max_attempts).into()),
        ("payload_json", Item::Container(body.bytes(job::payload_json))),
        ("scheduled_at", scheduled_at.item()),
        ("idempotency_key", body.maybe_bytes(job::idempotency_key).map_or(id_text.item(), Item::Text)),
    ];
    members.extend(finish_by.as_ref().map(|at| ("finish_by", at.item())));
    // What it belongs to, so that its worker can hand it on.
    if let Some(context) = body.maybe_bytes(job::context).map(Container::new).filter(Container::is_object) {
        let known = |key: &[u8]| CONTEXT.into_iter().find(|known| known.as_bytes() == key);
        members.extend(context.members().filter_map(|(key, value)| Some((known(key)?, value))));
    }
    json::object(&mut members)
}

/// What of a job's context its worker gets.
const CONTEXT: [&str; 7] =
    ["trace_id", "traceparent", "correlation_id", "mission_id", "command_id", "agent_run_id", "swarm_run_id"];

fn checkpoint(id: Uuid, moment: &Moment) -> Option<Vec<u8>> {
    let checkpoints = Table::open(&job_checkpoint::TABLE);
    let mut scan = Scan::by_id(&checkpoints, moment, c"job_checkpoint_pkey", id);
    scan.next().then(|| scan.bytes(job_checkpoint::checkpoint).to_vec())
}
