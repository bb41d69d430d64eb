//! Claiming: the best ready jobs are locked, taken out of the ready ones and leased.
//!
//! Priority, then schedule, then age decides, ties by id. A scan starts at the lane's marks; what
//! another session has locked is skipped. Before it answers "empty", a claim looks in full, if it
//! can afford to, and recovers jobs whose lease has expired.

use super::enqueue::find_queue;
use super::hints::{self, LaneName, Reading};
use super::place::{self, Due, Place};
use super::{answer, reap};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::{Queue, Settings};
use crate::db::{self, Db, Rows, Statement, statement};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use agentq_core::mark::{Position, SLOTS, Slot};
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::rc::Rc;

statement!(LOOK_KIND, "sql/look_kind.sql", [INT4OID, TEXTOID]);
statement!(LOOK_ANY, "sql/look_any.sql", [INT4OID]);

const ONE_TYPES: [pg_sys::Oid; 10] = {
    use pg_sys::{INT4OID as INT, INT8OID, TEXTOID as TEXT, TIMESTAMPTZOID as TIME, UUIDOID};
    [TEXT, TIME, INT8OID, INT, TEXT, TIME, INT, TIME, UUIDOID, TEXT]
};
const BATCH_TYPES: [pg_sys::Oid; 11] = {
    use pg_sys::{INT4ARRAYOID as INTS, INT8OID, TEXTARRAYOID as TEXTS, TEXTOID, TIMESTAMPTZARRAYOID as TIMES};
    use pg_sys::{TIMESTAMPTZOID, UUIDARRAYOID as IDS};
    [TEXTOID, TIMESTAMPTZOID, INT8OID, INTS, TEXTS, TIMES, INTS, TIMES, IDS, TEXTS, INT8OID]
};

/// Declares a claim of one job, and one of several, from the part that picks the rows.
macro_rules! claim_one {
    ($name:ident, $pick:literal) => {
        static $name: Statement = Statement {
            sql: concat!(include_str!($pick), include_str!("sql/claim_lease.sql"), include_str!("sql/claim_one.sql")),
            types: &ONE_TYPES,
        };
    };
}
macro_rules! claim_batch {
    ($name:ident, $pick:literal) => {
        static $name: Statement = Statement {
            sql: concat!(
                include_str!($pick),
                include_str!("sql/claim_delete.sql"),
                include_str!("sql/claim_lease.sql"),
                include_str!("sql/claim_batch.sql")
            ),
            types: &BATCH_TYPES,
        };
    };
}
claim_one!(KIND_ONE, "sql/claim_kind_one.sql");
claim_one!(ANY_ONE, "sql/claim_any_one.sql");
claim_batch!(KIND, "sql/claim_kind.sql");
claim_batch!(ANY, "sql/claim_any.sql");
claim_batch!(KIND_WIDE, "sql/claim_kind_wide.sql");
claim_batch!(ANY_WIDE, "sql/claim_any_wide.sql");
claim_batch!(MANY, "sql/claim_many.sql");
statement!(CLAIM_AGAIN, "sql/claim_again.sql", [JSONBOID, UUIDOID]);

/// Jobs that a claim moves from waiting to ready at most. Enough to get the order right when many
/// fall due together; bounded, because others see them only when the claim commits.
const PROMOTE_AT_MOST: i64 = 1_000;

/// A claim from several lanes compares the first rows of each before it locks any. If others have
/// locked all of the first few, it compares more.
const WINDOWS: [i64; 2] = [64, 10_000];

/// The ready jobs of one queue, of one kind or of any.
struct Lane {
    queue: Rc<Queue>,
    kind: Option<String>,
}

struct Claim<'a> {
    owner: &'a str,
    lanes: Vec<Lane>,
    lease_seconds: Option<i32>,
    limit: i64,
    now: Micros,
    default_lease: i32,
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_claim(
    p_lease_owner: Option<&str>,
    p_job_kind: default!(Option<&str>, "NULL"),
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    claim(p_lease_owner, None, p_job_kind, p_lease_seconds, p_options)
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_claim_batch(
    p_lease_owner: Option<&str>,
    p_limit: Option<i32>,
    p_job_kind: default!(Option<&str>, "NULL"),
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    let limit = input::batch_limit(required("p_limit", p_limit)).or_raise();
    claim(p_lease_owner, Some(limit), p_job_kind, p_lease_seconds, p_options)
}

/// `batch`: how many jobs the caller asked for, or None for the form that answers with one job.
fn claim(
    owner: Option<&str>,
    batch: Option<i32>,
    kind: Option<&str>,
    lease_seconds: Option<i32>,
    options: Option<Jsonb>,
) -> Jsonb {
    answer::gated(|settings| {
        let owner = input::name("p_lease_owner", required("p_lease_owner", owner), input::LONGEST_NAME).or_raise();
        let lanes = lanes(settings, kind, options.map(|o| o.parse("p_options").or_raise())).or_raise();
        let (paused, lanes): (Vec<_>, Vec<_>) = lanes.into_iter().partition(|lane| lane.queue.paused);
        let claim = Claim {
            owner,
            lanes,
            lease_seconds: lease_seconds.map(|s| input::lease_seconds(s).or_raise()),
            limit: batch.unwrap_or(1).into(),
            now: clock::now(),
            default_lease: settings.lease_seconds,
        };
        if claim.lanes.is_empty() {
            return empty(batch.is_some(), &paused);
        }
        db::answer(|db| claim.run(db, batch.is_some()).unwrap_or_else(|| empty(batch.is_some(), &paused)))
    })
}

fn empty(batch: bool, paused: &[Lane]) -> Jsonb {
    let mut answer = json!({"ok": true, "code": "empty"});
    if batch {
        answer["count"] = json!(0);
        answer["jobs"] = json!([]);
    }
    if !paused.is_empty() {
        let mut names: Vec<_> = paused.iter().map(|lane| lane.queue.queue.clone()).collect();
        names.dedup();
        answer["paused"] = json!(names);
    }
    Jsonb::from_value(answer)
}

/// Which lanes a claim reads: every named kind (or any) in every named queue.
fn lanes(settings: &Settings, kind: Option<&str>, options: Option<Value>) -> Result<Vec<Lane>, Refusal> {
    let mut kinds: Vec<Option<String>> = vec![kind.map(str::to_owned)];
    let mut queues = vec![input::DEFAULT_QUEUE.to_owned()];
    if let Some(options) = options {
        let Value::Object(map) = &options else {
            return Err(payload::refuse_not_object("p_options", "this"));
        };
        input::known_options("p_options", map.keys(), &["queues", "kinds"])?;
        if let Some(names) = names(&options, "queues")? {
            queues = names;
        }
        if let Some(names) = names(&options, "kinds")? {
            if kind.is_some() {
                return Err(Refusal::new(
                    "p_job_kind and the option \"kinds\" were both given",
                    "Name the kinds in one place: leave p_job_kind NULL, or leave \"kinds\" out.",
                ));
            }
            kinds = names.into_iter().map(Some).collect();
        }
    }
    for kind in kinds.iter().flatten() {
        input::name("job kind", kind, input::LONGEST_NAME)?;
    }
    let mut lanes = Vec::with_capacity(kinds.len() * queues.len());
    for name in &queues {
        let queue = find_queue(settings, name)?;
        lanes.extend(kinds.iter().map(|kind| Lane { queue: Rc::clone(queue), kind: kind.clone() }));
    }
    Ok(lanes)
}

/// A list of distinct names in the options.
fn names(options: &Value, key: &str) -> Result<Option<Vec<String>>, Refusal> {
    let Some(value) = options.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let mut names: Vec<String> = serde_json::from_value(value.clone()).unwrap_or_default();
    names.sort();
    names.dedup();
    if names.is_empty() || names.len() > 100 {
        return Err(Refusal::new(
            format!(
                "the option \"{key}\" must be a list of 1 to 100 names, not {}",
                agentq_core::error::shown(&value.to_string())
            ),
            format!("For example: p_options => '{{\"{key}\": [\"mail\", \"sms\"]}}'."),
        ));
    }
    Ok(Some(names))
}

impl Lane {
    fn name(&self) -> LaneName<'_> {
        match &self.kind {
            Some(kind) => LaneName::Kind(self.queue.queue_id, kind),
            None => LaneName::Any(self.queue.queue_id),
        }
    }

    /// Finds the first row of each priority, from the front of the index.
    fn look(&self, db: &Db, reading: &mut Reading) -> Vec<Slot> {
        let look = reading.begin_look();
        let rows = match &self.kind {
            Some(kind) => db.run(&LOOK_KIND, &[self.queue.queue_id.into(), kind.as_str().into()]),
            None => db.run(&LOOK_ANY, &[self.queue.queue_id.into()]),
        };
        let mut found = Vec::with_capacity(rows.len());
        rows.each(|row| {
            let id: Uuid = row.must(3);
            let at = row.must::<TimestampWithTimeZone>(2).into_inner();
            found.push(Slot { priority: row.must(1), from: Position { at, id: *id.as_bytes() } });
        });
        reading.learn(&look, &found);
        found
    }
}

impl Claim<'_> {
    fn run(&self, db: &Db, batch: bool) -> Option<Jsonb> {
        // What this claim recovers or promotes beside its own jobs, others see when it commits. If
        // that may take long, it touches no more than it takes.
        let lingers = db::is_in_transaction_block();
        let mut moved = !lingers && reap::when_due(db, self.now) > 0;
        moved |= place::promote_due(db, self.now, self.due(lingers)) > 0;
        moved |= hints::has_entered();
        if let Some(answer) = self.scan(db, batch, moved) {
            return Some(answer);
        }
        // Nothing there: a job whose holder died may be the next one. Not every recovered job is:
        // some end in the dead letters.
        while reap::now(db, self.now, if lingers { self.limit } else { reap::AT_MOST }) > 0 {
            if let Some(answer) = self.scan(db, batch, true) {
                return Some(answer);
            }
        }
        None
    }

    fn due(&self, lingers: bool) -> Due {
        if !lingers {
            return Due::All(PROMOTE_AT_MOST);
        }
        let queues = self.lanes.iter().map(|lane| lane.queue.queue_id).collect();
        Due::Best(self.limit, queues, self.lanes.iter().map(|lane| lane.kind.clone()).collect())
    }

    /// Scans from the marks, or in full if there are none, or if this transaction has put rows in
    /// that the marks do not know. A scan that finds nothing is made again in full.
    fn scan(&self, db: &Db, batch: bool, full: bool) -> Option<Jsonb> {
        let mut readings: Vec<Reading> = self.lanes.iter().map(|lane| Reading::of(lane.name())).collect();
        let mut looked = true;
        let mut slots: Vec<Vec<Slot>> = Vec::with_capacity(self.lanes.len());
        for (lane, reading) in self.lanes.iter().zip(&mut readings) {
            let marked = if full { None } else { reading.slots.take() };
            looked &= marked.is_none();
            slots.push(marked.unwrap_or_else(|| lane.look(db, reading)));
        }
        if let Some(answer) = self.take(db, batch, &readings, &slots) {
            return Some(answer);
        }
        // A scan of one lane goes to its end; one of several stops at the first few of each.
        if let [reading] = readings.as_slice() {
            reading.raise_all(&slots[0]);
        }
        if looked || !readings.iter().all(|reading| reading.may_look) {
            return None;
        }
        let slots: Vec<_> =
            self.lanes.iter().zip(&mut readings).map(|(lane, reading)| lane.look(db, reading)).collect();
        self.take(db, batch, &readings, &slots)
    }

    /// Takes the first jobs found from these slots on.
    fn take(&self, db: &Db, batch: bool, readings: &[Reading], slots: &[Vec<Slot>]) -> Option<Jsonb> {
        let total: usize = slots.iter().map(Vec::len).sum();
        if total == 0 {
            return None;
        }
        // The common case, one job from one priority of one lane, has a plan of its own: half of
        // what a small statement costs is setting up the nodes of its plan.
        if let ([lane], 1, false) = (self.lanes.as_slice(), total, batch) {
            return self.take_one(db, lane, &readings[0], &slots[0]);
        }
        let lanes = || self.lanes.iter().zip(slots).flat_map(|(lane, slots)| slots.iter().map(move |s| (lane, s)));
        let queue_ids: Vec<i32> = lanes().map(|(lane, _)| lane.queue.queue_id).collect();
        let kinds: Vec<Option<&str>> = lanes().map(|(lane, _)| lane.kind.as_deref()).collect();
        let queues: Vec<&str> = lanes().map(|(lane, _)| lane.queue.queue.as_str()).collect();
        let untils: Vec<TimestampWithTimeZone> = lanes().map(|(lane, _)| self.lease_until(lane)).collect();
        let priorities: Vec<i32> = lanes().map(|(_, slot)| slot.priority).collect();
        let ats: Vec<TimestampWithTimeZone> = lanes().map(|(_, slot)| timestamp(slot.from.at)).collect();
        let ids: Vec<Uuid> = lanes().map(|(_, slot)| Uuid::from_bytes(slot.from.id)).collect();
        let mut args: [DatumWithOid<'_>; 11] = [
            self.owner.into(),
            timestamp(self.now).into(),
            self.limit.into(),
            queue_ids.into(),
            kinds.into(),
            untils.into(),
            priorities.into(),
            ats.into(),
            ids.into(),
            queues.into(),
            0_i64.into(),
        ];
        let (statement, windows): (_, &[i64]) = match self.lanes.as_slice() {
            // More priorities than a look lists: read on from the first.
            [Lane { kind: Some(_), .. }] if total > SLOTS => (&KIND_WIDE, &[0]),
            [Lane { kind: None, .. }] if total > SLOTS => (&ANY_WIDE, &[0]),
            [Lane { kind: Some(_), .. }] => (&KIND, &[0]),
            [Lane { kind: None, .. }] => (&ANY, &[0]),
            _ => (&MANY, &WINDOWS),
        };
        windows.iter().find_map(|window| {
            args[10] = (*window).into();
            let row = db.run(statement, &args);
            (row.must::<i64>(2) > 0).then(|| self.took_batch(&row, batch, readings, slots))
        })
    }

    fn lease_until(&self, lane: &Lane) -> TimestampWithTimeZone {
        let seconds = self.lease_seconds.or(lane.queue.lease_seconds).unwrap_or(self.default_lease);
        timestamp(self.now + i64::from(seconds) * 1_000_000)
    }

    fn take_one(&self, db: &Db, lane: &Lane, reading: &Reading, slots: &[Slot]) -> Option<Jsonb> {
        let slot = &slots[0];
        let args: [DatumWithOid<'_>; 10] = [
            self.owner.into(),
            timestamp(self.now).into(),
            self.limit.into(),
            lane.queue.queue_id.into(),
            lane.kind.as_deref().into(),
            self.lease_until(lane).into(),
            slot.priority.into(),
            timestamp(slot.from.at).into(),
            Uuid::from_bytes(slot.from.id).into(),
            lane.queue.queue.as_str().into(),
        ];
        let row = db.run(if lane.kind.is_some() { &KIND_ONE } else { &ANY_ONE }, &args);
        if row.is_empty() {
            return None;
        }
        let place = Place::from_row(&row, 2);
        self.raise(reading, slots, &place);
        place.left_ready();
        let job: Jsonb = row.must(1);
        // Only a job that was held before can have a checkpoint.
        if row.must(7) {
            let again = db.run(&CLAIM_AGAIN, &[job.into(), place.job_id.into()]);
            return Some(if again.is_empty() { job } else { again.must(1) });
        }
        Some(job)
    }

    fn took_batch(&self, row: &Rows, batch: bool, readings: &[Reading], slots: &[Vec<Slot>]) -> Jsonb {
        let queue_ids: Vec<i32> = row.must(3);
        let kinds: Vec<String> = row.must(4);
        let priorities: Vec<i32> = row.must(5);
        let ats: Vec<TimestampWithTimeZone> = row.must(6);
        let ids: Vec<Uuid> = row.must(7);
        let places: Vec<Place> = (0..ids.len())
            .map(|i| Place {
                queue_id: queue_ids[i],
                job_kind: kinds[i].clone(),
                priority: priorities[i],
                scheduled_at: ats[i].into_inner(),
                job_id: ids[i],
            })
            .collect();
        // With several lanes the rows are picked before they are locked, so what lies before the
        // last one may still be there: the marks stay.
        if self.lanes.len() == 1 {
            for place in &places {
                self.raise(&readings[0], &slots[0], place);
            }
        }
        places.iter().for_each(Place::left_ready);
        if batch { row.must(1) } else { row.must(8) }
    }

    /// The lane was scanned up to this job: nothing is left before it.
    fn raise(&self, reading: &Reading, slots: &[Slot], place: &Place) {
        for slot in slots.iter().filter(|slot| slot.priority < place.priority) {
            reading.raise(slot.priority, Position::at(Micros::MAX));
        }
        reading.raise(place.priority, place.position());
    }
}
