//! Many jobs enqueued in one round trip.
//!
//! A batch is checked job by job before anything is written, then written by one statement. Keys
//! are taken in sorted order, so that two batches with the same keys cannot wait for each other.

use super::answer;
use super::change::whole;
use super::enqueue::{as_id, find_queue, moment, parse_id};
use super::hints;
use super::place::Place;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::base::settings::{Queue, Settings};
use crate::db::{self, Db, statement};
use crate::error::{OrRaise, raise, required};
use crate::json::{self, Jsonb};
use agentq_core::{Refusal, config, input, payload};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

statement!(KEYS_TAKE, "sql/keys_take.sql", [TEXTARRAYOID, UUIDARRAYOID]);
statement!(KEYS_HOLDERS, "sql/keys_holders.sql", [TEXTARRAYOID, UUIDARRAYOID]);
statement!(
    ENQUEUE_BATCH,
    "sql/enqueue_batch.sql",
    [
        JSONBOID,
        INT4ARRAYOID,
        UUIDARRAYOID,
        INT4ARRAYOID,
        INT4ARRAYOID,
        INT4ARRAYOID,
        TIMESTAMPTZARRAYOID,
        UUIDARRAYOID,
        TIMESTAMPTZOID
    ]
);
statement!(BATCH_READ, "sql/batch_read.sql", [JSONBOID, TEXTARRAYOID]);

pub const LARGEST_BATCH: usize = 10_000;
const JOB_KEYS: [&str; 12] = [
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
];

/// One acceptable job of a batch.
struct Job {
    index: usize,
    id: Uuid,
    queue: Rc<Queue>,
    kind: String,
    key: Option<String>,
    priority: i32,
    max_attempts: i32,
    asked_at: Option<Micros>,
    run_id: Option<Uuid>,
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_enqueue_batch(p_jobs: Option<Jsonb>, p_options: default!(Option<Jsonb>, "NULL")) -> Jsonb {
    answer::gated(|settings| {
        let jobs = required("p_jobs", p_jobs);
        if !jobs.is_array() {
            Err(not_a_list("p_jobs", "[{\"job_kind\": \"mail.send\"}]")).or_raise()
        }
        let all_or_nothing = p_options.is_some_and(|o| o.parse("p_options").and_then(all_or_nothing).or_raise());
        enqueue(settings, jobs, all_or_nothing)
    })
}

/// Enqueues an array of jobs, and says of each what became of it.
pub fn enqueue(settings: &Settings, jobs: Jsonb, all_or_nothing: bool) -> Jsonb {
    db::answer(|db| {
        let rows = db.run(&BATCH_READ, &[jobs.into(), payload::DENIED_KEYS.to_vec().into()]);
        let size = rows.len();
        if size > LARGEST_BATCH {
            Err(too_many(size)).or_raise()
        }
        let mut accepted = Vec::with_capacity(size);
        let mut answers: Vec<Value> = Vec::with_capacity(size);
        let mut refused = 0;
        rows.each(|row| {
            let index = answers.len();
            match read(settings, index, row) {
                Ok(job) => {
                    accepted.push(job);
                    answers.push(Value::Null);
                }
                Err(refusal) => {
                    refused += 1;
                    answers.push(json!({"index": index, "code": "refused", "duplicate": false, "job_id": null,
                        "reason": refusal.message, "hint": refusal.hint}));
                }
            }
        });
        if all_or_nothing && refused > 0 {
            let jobs: Vec<Value> = answers.into_iter().filter(|a| !a.is_null()).collect();
            return Jsonb::from_value(json!({"ok": false, "code": "refused", "created": 0, "duplicates": 0,
            "refused": refused, "jobs": jobs,
            "message": format!("{refused} of {size} jobs were refused, so none was enqueued")}));
        }
        hints::announce();
        let now = clock::now();
        let duplicates = take_keys(db, &mut accepted, &mut answers);
        let created = accepted.len();
        write(db, jobs, &accepted, now);
        for job in &accepted {
            answers[job.index] =
                json!({"index": job.index, "code": "enqueued", "duplicate": false, "job_id": job.id.to_string()});
        }
        Jsonb::from_value(json!({"ok": true, "code": "enqueued", "created": created, "duplicates": duplicates,
        "refused": refused, "jobs": answers}))
    })
}

/// Whether a job would be accepted.
pub fn check(settings: &Settings, job: Jsonb) -> Result<(), Refusal> {
    let list = Jsonb::from_container(&json::array([job.container().item()].into_iter()));
    db::connect(|db| {
        let row = db.run(&BATCH_READ, &[list.into(), payload::DENIED_KEYS.to_vec().into()]);
        read(settings, 0, &row).map(drop)
    })
}

pub fn not_a_list(what: &str, example: &str) -> Refusal {
    Refusal::new(format!("{what} must be a JSON array"), format!("For example: '{example}'."))
}

pub fn too_many(found: usize) -> Refusal {
    Refusal::new(
        format!("a batch holds at most {LARGEST_BATCH} jobs, and this one has {found}"),
        "Send it in several calls.",
    )
}

fn all_or_nothing(options: Value) -> Result<bool, Refusal> {
    let Value::Object(map) = &options else {
        return Err(payload::refuse_not_object("p_options", "this"));
    };
    input::known_options("p_options", map.keys(), &["all_or_nothing"])?;
    match map.get("all_or_nothing") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(Refusal::new(
            format!("the option \"all_or_nothing\" must be true or false, not {other}"),
            "For example: p_options => '{\"all_or_nothing\": true}'.",
        )),
    }
}

/// Reads one job of a batch, with the same rules as a single enqueue. Its payload stays with the
/// server, which says only what it is.
fn read(settings: &Settings, index: usize, row: &db::Rows) -> Result<Job, Refusal> {
    let Value::Object(map) = &row.must::<Jsonb>(1).parse("a job")? else {
        return Err(payload::refuse_not_object("a job", "this"));
    };
    check_payload(row, settings.payload_max_bytes)?;
    input::known_options("a job", map.keys(), &JOB_KEYS)?;
    for key in ["actor", "source_ref", "target_ref", "payload_ref"] {
        text(map, key)?;
    }
    if let Some(actor) = text(map, "actor")? {
        input::name("actor", actor, input::LONGEST_NAME)?;
    }
    let kind = input::name("job_kind", text(map, "job_kind")?.unwrap_or_default(), input::LONGEST_NAME)?;
    let key =
        text(map, "idempotency_key")?.map(|key| input::name("idempotency_key", key, input::LONGEST_KEY)).transpose()?;
    let queue = find_queue(settings, text(map, "queue")?.unwrap_or(input::DEFAULT_QUEUE))?;
    let number = |key: &str| present(map, key).map(|value| whole(key, value)).transpose();
    Ok(Job {
        index,
        id: new_id(),
        queue: Rc::clone(queue),
        kind: kind.to_owned(),
        key: key.map(str::to_owned),
        priority: input::priority(number("priority")?.or(queue.priority).unwrap_or(input::DEFAULT_PRIORITY))?,
        max_attempts: input::max_attempts(
            number("max_attempts")?.or(queue.max_attempts).unwrap_or(settings.max_attempts),
        )?,
        asked_at: text(map, "scheduled_at")?.map(|at| moment("scheduled_at", at)).transpose()?,
        run_id: text(map, "run_id")?.map(run_id).transpose()?,
    })
}

fn check_payload(row: &db::Rows, max_bytes: i64) -> Result<(), Refusal> {
    let what = "payload_json";
    match row.get::<String>(2).as_deref() {
        None | Some("null" | "object") => {}
        Some("array") => return Err(payload::refuse_not_object(what, "an array")),
        Some(other) => return Err(payload::refuse_not_object(what, &format!("a {other}"))),
    }
    let size: i32 = row.get(3).unwrap_or_default();
    if i64::from(size) > max_bytes {
        return Err(payload::refuse_too_large(what, size as usize, max_bytes, config::PAYLOAD_MAX_BYTES));
    }
    row.get::<String>(4).map_or(Ok(()), |key| Err(payload::refuse_denied(what, &key)))
}

fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| !value.is_null())
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, Refusal> {
    match present(map, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Refusal::new(
            format!("{key} must be a text, not {}", agentq_core::error::shown(&other.to_string())),
            format!("Put {key} in double quotes."),
        )),
    }
}

fn run_id(text: &str) -> Result<Uuid, Refusal> {
    parse_id(text).ok_or_else(|| {
        let shown = agentq_core::error::shown(text);
        Refusal::new(format!("run_id \"{shown}\" is not a uuid"), "Leave it out, or give a uuid.")
    })
}

/// Takes the keys of the batch; jobs whose key is in use are answered as duplicates and dropped.
fn take_keys(db: &Db, jobs: &mut Vec<Job>, answers: &mut [Value]) -> usize {
    let mut wanted: BTreeMap<&str, Uuid> = BTreeMap::new();
    for job in jobs.iter() {
        if let Some(key) = &job.key {
            wanted.entry(key).or_insert(job.id);
        }
    }
    if wanted.is_empty() {
        return 0;
    }
    let mut holders: HashMap<String, Uuid> = HashMap::new();
    for _ in 0..100 {
        let open: Vec<_> = wanted.iter().filter(|(key, _)| !holders.contains_key(**key)).collect();
        if open.is_empty() {
            return drop_duplicates(jobs, &holders, answers);
        }
        let keys: Vec<String> = open.iter().map(|(key, _)| (**key).to_owned()).collect();
        // A job without a key of its own answers to its id.
        let as_ids: Vec<Uuid> = keys.iter().filter_map(|key| as_id(key)).collect();
        let mut keep = |row: &db::Rows| {
            holders.insert(row.must(1), row.must(2));
        };
        db.run(&KEYS_HOLDERS, &[keys.into(), as_ids.into()]).each(&mut keep);
        let free = wanted.iter().filter(|(key, _)| !holders.contains_key(**key));
        let (keys, ids): (Vec<String>, Vec<Uuid>) = free.map(|(key, id)| ((*key).to_owned(), *id)).unzip();
        db.run(&KEYS_TAKE, &[keys.into(), ids.into()]).each(|row| {
            holders.insert(row.must(1), row.must(2));
        });
    }
    raise(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "the idempotency keys of this batch keep changing hands",
        "Try again.",
    )
}

/// Drops the jobs whose key another job holds, and answers for them; returns how many.
fn drop_duplicates(jobs: &mut Vec<Job>, holders: &HashMap<String, Uuid>, answers: &mut [Value]) -> usize {
    let before = jobs.len();
    jobs.retain(|job| {
        let holder = job.key.as_ref().and_then(|key| holders.get(key)).copied().unwrap_or(job.id);
        if holder != job.id {
            answers[job.index] =
                json!({"index": job.index, "code": "duplicate", "duplicate": true, "job_id": holder.to_string()});
        }
        holder == job.id
    });
    before - jobs.len()
}

fn write(db: &Db, source: Jsonb, jobs: &[Job], now: Micros) {
    if jobs.is_empty() {
        return;
    }
    let scheduled = |job: &Job| job.asked_at.unwrap_or(now);
    db.run(
        &ENQUEUE_BATCH,
        &[
            source.into(),
            jobs.iter().map(|job| job.index as i32).collect::<Vec<_>>().into(),
            jobs.iter().map(|job| job.id).collect::<Vec<_>>().into(),
            jobs.iter().map(|job| job.queue.queue_id).collect::<Vec<_>>().into(),
            jobs.iter().map(|job| job.priority).collect::<Vec<_>>().into(),
            jobs.iter().map(|job| job.max_attempts).collect::<Vec<_>>().into(),
            jobs.iter().map(|job| timestamp(scheduled(job))).collect::<Vec<_>>().into(),
            jobs.iter().map(|job| job.run_id).collect::<Vec<_>>().into(),
            timestamp(now).into(),
        ],
    );
    for job in jobs {
        let place = Place {
            job_id: job.id,
            queue_id: job.queue.queue_id,
            job_kind: job.kind.clone(),
            priority: job.priority,
            scheduled_at: scheduled(job),
        };
        if place.scheduled_at <= now { place.entered_ready(job.asked_at.is_some()) } else { place.entered_waiting() }
    }
}
