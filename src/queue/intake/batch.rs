//! Many jobs enqueued in one round trip.
//!
//! A batch is checked job by job before anything is written, then written together. Keys are taken
//! in sorted order, so that two batches with the same keys cannot wait for each other.

use super::admission::Admission;
use super::enqueue::as_id;
use super::new_job::{self, NewJob};
use super::{admission, job_spec};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock;
use crate::base::ids::{self, new_id, new_ids};
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required, run_again};
use crate::json::{self, Jsonb};
use crate::queue::rules::Rulebook;
use crate::queue::storage::marks;
use crate::queue::{answer, batch_list};
use crate::table;
use agentq_core::Refusal;
use agentq_core::jsonb::Item;
use agentq_core::reader::Reader;
use pgrx::Uuid;
use pgrx::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;

statements!("batch.sql": KEYS_TAKE, KEYS_HOLDERS);

/// Why a job of a batch is not enqueued.
#[derive(Clone, Debug)]
pub struct TurnedAway {
    pub refusal: Refusal,
    /// There is no room for it now: when there should be, in seconds from now.
    pub retry_after: Option<i64>,
}

impl From<Refusal> for TurnedAway {
    fn from(refusal: Refusal) -> TurnedAway {
        TurnedAway { refusal, retry_after: None }
    }
}

/// What became of one job of a batch.
pub enum Fate {
    Refused(TurnedAway),
    /// Another job holds its key.
    Duplicate(Uuid),
    Enqueued(Uuid),
}

#[pg_extern(security_definer)]
fn fn_job_enqueue_batch(p_jobs: Option<Jsonb>, p_options: default!(Option<Jsonb>, "NULL")) -> Jsonb {
    bounded!(fn_job_enqueue_batch: p_jobs, p_options);
    answer::if_on(|rules| {
        let jobs = batch_list::checked("p_jobs", required("p_jobs", p_jobs), "[{\"job_kind\": \"mail.send\"}]");
        let options = json::options(p_options, &OPTIONS).and_then(|options| Options::read(&options)).or_raise();
        enqueue(rules, jobs, options)
    })
}

/// The keys of the options.
pub const OPTIONS: [&str; 2] = ["all_or_nothing", "answer"];

/// What a caller may ask for.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Whether one job that is refused keeps the whole batch out.
    pub all_or_nothing: bool,
    /// Whether to answer with the ids alone.
    pub ids: bool,
}

impl Options {
    pub fn read(options: &Reader<'_>) -> Result<Options, Refusal> {
        let answer =
            options.member("answer").hint("Use \"jobs\" to be told of each job, or \"ids\" for their ids alone.");
        let all_or_nothing = options.member("all_or_nothing");
        let all_or_nothing = all_or_nothing.hint("For example: p_options => '{\"all_or_nothing\": true}'.");
        Ok(Options {
            all_or_nothing: all_or_nothing.flag()?.unwrap_or(false),
            ids: answer.word(&["jobs", "ids"])? == Some("ids"),
        })
    }
}

/// Enqueues an array of jobs, and says of each what became of it.
pub fn enqueue(rules: &Rulebook, jobs: Jsonb, options: Options) -> Jsonb {
    let mut admission = Admission::default();
    let read = jobs.container().elements().zip(new_ids());
    let read = read.map(|(item, id)| admit(&mut admission, rules, job_spec::read(rules, id, item)?));
    enqueue_read(c"fn_job_enqueue_batch()", read.collect(), options)
}

/// Turns a job away if there is no room for it.
pub fn admit<'a>(admission: &mut Admission, rules: &Rulebook, job: NewJob<'a>) -> Result<NewJob<'a>, TurnedAway> {
    match admission::refusal(admission.verdict(rules, &job)) {
        None => Ok(job),
        Some((refusal, retry_after)) => Err(TurnedAway { refusal, retry_after }),
    }
}

/// Enqueues those of a batch that were not refused, and says of each what became of it.
pub fn enqueue_read(function: &CStr, read: Vec<Result<NewJob<'_>, TurnedAway>>, options: Options) -> Jsonb {
    let turned_away = read.iter().filter_map(|job| job.as_ref().err());
    let (turned_away, deferred) =
        turned_away.fold((0, 0), |(all, later), one| (all + 1, later + usize::from(one.retry_after.is_some())));
    if options.all_or_nothing && turned_away > 0 {
        return none_of(read);
    }
    table::must_write(function);
    let fates = settle(read);
    let created = fates.iter().filter(|fate| matches!(fate, Fate::Enqueued(_))).count();
    let (name, list) = if options.ids { ("job_ids", ids_of(&fates)) } else { ("jobs", told(fates.iter().enumerate())) };
    let duplicates = fates.len() - turned_away - created;
    // What the whole came to: what most concerns whoever asks stands for all.
    let code = match (created, duplicates) {
        (0, 0) if turned_away > 0 && turned_away == deferred => "deferred",
        (0, 0) if turned_away > 0 => "refused",
        (0, 1..) => "duplicate",
        _ => "enqueued",
    };
    Jsonb::from_container(&json::object(&mut [
        ("ok", (created + duplicates > 0 || turned_away == 0).into()),
        ("code", code.into()),
        ("created", (created as i64).into()),
        ("duplicates", (duplicates as i64).into()),
        ("refused", ((turned_away - deferred) as i64).into()),
        ("deferred", (deferred as i64).into()),
        (name, Item::Container(&list)),
    ]))
}

/// Writes the jobs that were not refused and whose keys are free, and says what became of each.
pub fn settle(read: Vec<Result<NewJob<'_>, TurnedAway>>) -> Vec<Fate> {
    marks::announce();
    let now = clock::now();
    let holders = take_keys(read.iter().flatten());
    let mut fates = Vec::with_capacity(read.len());
    let mut accepted = Vec::with_capacity(read.len());
    for job in read {
        fates.push(match job {
            Err(turned_away) => Fate::Refused(turned_away),
            Ok(job) => match job.key.and_then(|key| holders.get(key)) {
                Some(holder) if *holder != job.id => Fate::Duplicate(*holder),
                _ => {
                    accepted.push(job);
                    Fate::Enqueued(accepted[accepted.len() - 1].id)
                }
            },
        });
    }
    if !accepted.is_empty() {
        new_job::write(&accepted, now, &actor());
    }
    fates
}

/// The ids of the jobs of a batch, or of those that hold their keys; null for one that was refused.
fn ids_of(fates: &[Fate]) -> Vec<u8> {
    let id = |fate: &Fate| match fate {
        Fate::Refused(_) => None,
        Fate::Duplicate(id) | Fate::Enqueued(id) => Some(ids::text(*id)),
    };
    let ids: Vec<Option<ids::Text>> = fates.iter().map(id).collect();
    json::array(ids.iter().map(|id| id.as_ref().map_or(Item::Null, ids::Text::item)))
}

/// The answer to a batch of which nothing was enqueued, because some were refused.
fn none_of(read: Vec<Result<NewJob<'_>, TurnedAway>>) -> Jsonb {
    let size = read.len();
    let fates = read.into_iter().enumerate().filter_map(|(index, job)| Some((index, Fate::Refused(job.err()?))));
    let fates: Vec<(usize, Fate)> = fates.collect();
    let message = format!("{} of {size} jobs were refused, so none was enqueued", fates.len());
    Jsonb::from_container(&json::object(&mut [
        ("ok", false.into()),
        ("code", "refused".into()),
        ("created", 0.into()),
        ("duplicates", 0.into()),
        ("refused", (fates.len() as i64).into()),
        ("message", message.as_str().into()),
        ("jobs", Item::Container(&told(fates.iter().map(|(index, fate)| (*index, fate))))),
    ]))
}

/// A list that says of each job what became of it.
fn told<'a>(fates: impl Iterator<Item = (usize, &'a Fate)>) -> Vec<u8> {
    let told: Vec<Vec<u8>> = fates.map(|(index, fate)| fate.told(index)).collect();
    json::array(told.iter().map(|fate| Item::Container(fate)))
}

impl Fate {
    fn told(&self, index: usize) -> Vec<u8> {
        let index = (index as i64).into();
        match self {
            Fate::Refused(TurnedAway { refusal, retry_after }) => {
                let mut told = vec![
                    ("index", index),
                    ("code", if retry_after.is_some() { "deferred" } else { "refused" }.into()),
                    ("duplicate", false.into()),
                    ("job_id", Item::Null),
                    ("reason", refusal.message.as_str().into()),
                    ("hint", refusal.hint.as_str().into()),
                ];
                told.extend(retry_after.map(|seconds| ("retry_after_seconds", seconds.into())));
                json::object(&mut told)
            }
            Fate::Duplicate(job_id) | Fate::Enqueued(job_id) => {
                let duplicate = matches!(self, Fate::Duplicate(_));
                json::object(&mut [
                    ("index", index),
                    ("code", if duplicate { "duplicate" } else { "enqueued" }.into()),
                    ("duplicate", duplicate.into()),
                    ("job_id", ids::text(*job_id).item()),
                ])
            }
        }
    }
}

/// Whether a job would be accepted.
pub fn check(rules: &Rulebook, job: Jsonb) -> Result<(), Refusal> {
    job_spec::read(rules, new_id(), job.container().item()).map(drop)
}

/// Takes the keys that these jobs have, and says which job holds each: theirs, or one that was there before.
fn take_keys<'a>(jobs: impl Iterator<Item = &'a NewJob<'a>>) -> HashMap<String, Uuid> {
    let mut wanted: BTreeMap<&str, Uuid> = BTreeMap::new();
    for job in jobs {
        if let Some(key) = job.key {
            wanted.entry(key).or_insert(job.id);
        }
    }
    if wanted.is_empty() { HashMap::new() } else { db::connect(|db| take(db, &wanted)) }
}

fn take(db: &Db, wanted: &BTreeMap<&str, Uuid>) -> HashMap<String, Uuid> {
    let mut holders: HashMap<String, Uuid> = HashMap::new();
    for _ in 0..100 {
        let open = wanted.keys().filter(|key| !holders.contains_key(**key));
        let keys: Vec<String> = open.map(|key| (*key).to_owned()).collect();
        if keys.is_empty() {
            return holders;
        }
        // A job that was given no key answers to its id.
        let as_ids: Vec<Uuid> = keys.iter().filter_map(|key| as_id(key)).collect();
        db.run(&KEYS_HOLDERS, &[keys.into(), as_ids.into()]).each(|row| {
            holders.insert(row.must("idempotency_key"), row.must("job_id"));
        });
        let free = wanted.iter().filter(|(key, _)| !holders.contains_key(**key));
        let (keys, ids): (Vec<String>, Vec<Uuid>) = free.map(|(key, id)| ((*key).to_owned(), *id)).unzip();
        db.run(&KEYS_TAKE, &[keys.into(), ids.into()]).each(|row| {
            holders.insert(row.must("idempotency_key"), row.must("job_id"));
        });
    }
    run_again("the idempotency keys of this batch keep changing hands")
}
