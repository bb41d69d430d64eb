//! Reactions: answers to events, waiting to become proposals.
//!
//! A turn reads the log of events on from a cursor, in batches. One transaction writes what a batch calls for and moves
//! the cursor, whose row it locks meanwhile: each event is read once, however many sessions read at once, and whenever
//! one of them dies. A session that finds the cursor locked leaves the batch to the other.
//!
//! An event is held against type, tags and source of every pattern in memory; only what fits these
//! costs statements. What cannot be worked out for one event is a failed reaction, and stops nothing.

use super::paths::Seen;
use super::policies;
use super::settings::{EVENT_BATCH, MAX_DEPTH};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::base::ids::parse_id;
use crate::base::settings::Settings;
use crate::db::{self, Caught, Db, statements};
use crate::error::{OrRaise, raise};
use crate::events::Event;
use crate::events::log::{self, Entry};
use crate::events::seal;
use crate::flow::missions;
use crate::json::Jsonb;
use crate::memory;
use crate::queue::storage::marks::wake_all_at_commit;
use crate::room::Outcome;
use agentq_core::context::Context;
use agentq_core::input;
use agentq_core::reaction::{self, Pattern, Piece};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::time::{Duration, Instant};

statements!("reactions.sql": CURSOR_MAKE, CURSOR_READ, CURSOR_LOCK, CURSOR_MOVE, PATTERN_LAST, PATTERN_COUNT, COMMAND_DEPTH, COMMANDS_END, COMMANDS_OPEN, COMPENSATION_MISSION, REACTION_MAKE);

const CONSUMER: &str = "react";
/// The kind of the events in which a turn by hand says what it has done.
pub const THOUGHT: &str = "agent:thought";
/// Without a pattern there is nothing to do but to read on.
const IDLE_BATCH: i64 = 1_000;
/// A dedupe key is part of the proposal's, together with the pattern's id.
const LONGEST_DEDUPE: usize = 700;

/// Milliseconds in which one event is held against one pattern; after which a turn leaves the rest of its batch to the next;
/// and what a pattern has in any case, when others have used up their turn's time.
const ONE_MS: u64 = 1_000;
const TURN_MS: u64 = 5_000;
const LEAST_MS: u64 = 50;

/// What a batch came to.
#[derive(Default)]
pub struct Reacted {
    pub events: i64,
    pub queued: i64,
    /// Whether there may be more to read.
    pub more: bool,
}

/// Commands whose end could not be noted, because somebody had them locked, are looked for this often, in microseconds, and
/// so many at a time.
const LOOK_BACK_EVERY_US: i64 = 5_000_000;
const LOOK_BACK_AT: i64 = 500;

// When this session looked back last, and behind which mission it goes on.
thread_local!(static LOOKED_BACK: Cell<(Micros, [u8; 16])> = const { Cell::new((0, [0; 16])) });

/// One turn of the engine's.
pub fn turn() -> Outcome {
    look_back(clock::now());
    let reacted = react(clock::now());
    Outcome::and_more(reacted.events, reacted.more)
}

/// Notes the ends of missions whose command was locked when their event was read. A part of the open commands at a time.
fn look_back(now: Micros) {
    let (at, from) = LOOKED_BACK.get();
    if (0..LOOK_BACK_EVERY_US).contains(&(now - at)) {
        return;
    }
    db::connect(|db| {
        let mut missions: Vec<Uuid> = Vec::new();
        db.run(&COMMANDS_OPEN, &[Uuid::from_bytes(from).into(), LOOK_BACK_AT.into()])
            .each(|row| missions.push(row.only()));
        let is_full = missions.len() as i64 == LOOK_BACK_AT;
        let next = missions.last().filter(|_| is_full).map_or([0; 16], |last| *last.as_bytes());
        LOOKED_BACK.set((now, next));
        if !missions.is_empty() {
            db.run(&COMMANDS_END, &[missions.into(), timestamp(now).into()]);
        }
    });
}

/// Reads one batch of events.
pub fn react(now: Micros) -> Reacted {
    let settings = Settings::current();
    let batch = settings.number(EVENT_BATCH);
    db::connect(|db| {
        if is_at_the_end(db) {
            return Reacted::default();
        }
        let Some(seq) = lock_cursor(db, now) else { return Reacted::default() };
        let (version, matrix) = policies::matrix(db);
        let batch = if matrix.is_idle() { batch.max(IDLE_BATCH) } else { batch };
        let log::Page { mut entries, mut passed, mut more } = log::read(db, seq, batch);
        if passed <= seq {
            return Reacted::default();
        }
        let max_depth = settings.number(MAX_DEPTH) as i32;
        let mut reading = Reading { db, version, max_depth, now, tallies: BTreeMap::new(), took: Duration::ZERO };
        let mut done = 0;
        for entry in &entries {
            done += 1;
            if is_thought(entry) {
                continue;
            }
            for pattern in matrix.fitting(&entry.event_kind, &entry.tags, entry.source.as_deref()) {
                memory::given_back(|| reading.weigh(entry, pattern));
            }
            if reading.took >= Duration::from_millis(TURN_MS) && done < entries.len() {
                (passed, more) = (entry.seq, true);
                break;
            }
        }
        entries.truncate(done);
        let queued = reading.write_down();
        note_ends(db, &entries, now);
        db.run(&CURSOR_MOVE, &[CONSUMER.into(), passed.into(), timestamp(now).into()]);
        if queued > 0 {
            // The engine need not wait until the next chore is due.
            wake_all_at_commit();
        }
        Reacted { events: entries.len() as i64, queued, more }
    })
}

/// What a turn by hand has said of itself: whoever reacted to that would never come to an end.
fn is_thought(entry: &Entry) -> bool {
    !entry.is_callers && entry.event_kind == THOUGHT
}

/// Whether there is nothing to read. Asked first, because a lock is a write: an idle loop writes nothing.
fn is_at_the_end(db: &Db) -> bool {
    let row = db.run(&CURSOR_READ, &[CONSUMER.into()]);
    let seq = if row.is_empty() { 0 } else { row.only() };
    seal::last_seq(db) <= seq
}

/// How far the log was read. None: another session reads it now.
fn lock_cursor(db: &Db, now: Micros) -> Option<i64> {
    let lock = || {
        let row = db.run(&CURSOR_LOCK, &[CONSUMER.into()]);
        (!row.is_empty()).then(|| row.only())
    };
    lock().or_else(|| {
        // Locked, or not there yet: the first one makes it. One that is there is not inserted, which
        // would wait for whoever has it locked.
        let made = db.run(&CURSOR_MAKE, &[CONSUMER.into(), timestamp(now).into()]);
        if made.is_empty() { None } else { lock() }
    })
}

/// The end of a mission is the end of the command that started it. An event only says where to look:
/// anybody may write one, and how a mission ended stands in its row.
fn note_ends(db: &Db, entries: &[Entry], now: Micros) {
    let ends = ["mission.succeeded", "mission.failed", "mission.cancelled"];
    let missions: Vec<Uuid> =
        entries.iter().filter(|entry| ends.contains(&entry.event_kind.as_str())).filter_map(mission_of).collect();
    if !missions.is_empty() {
        db.run(&COMMANDS_END, &[missions.into(), timestamp(now).into()]);
    }
}

/// What became of the events that fitted a pattern.
#[derive(Default)]
struct Tally {
    last_at: Option<Micros>,
    queued: i64,
    unlucky: i64,
    cooling: i64,
    duplicates: i64,
    too_deep: i64,
    failed: i64,
}

struct Reading<'a> {
    db: &'a Db,
    /// Of the matrix.
    version: i32,
    max_depth: i32,
    now: Micros,
    tallies: BTreeMap<String, Tally>,
    /// How long holding events against patterns took.
    took: Duration,
}

/// What is to be done about an event that fits a pattern.
enum Fate {
    /// Its data do not fit.
    None,
    Unlucky,
    Cooling,
    Duplicate,
    TooDeep,
    Queued,
}

impl Reading<'_> {
    /// Holds one event against one pattern. An error, or what takes too long, is noted as a failed reaction, unless trying
    /// again may help: then it ends the batch.
    fn weigh(&mut self, entry: &Entry, pattern: &Pattern) {
        let last_at = self.last_at(&pattern.name);
        let left = TURN_MS.saturating_sub(self.took.as_millis() as u64);
        let began = Instant::now();
        let limit = left.clamp(LEAST_MS, ONE_MS);
        // A lock that somebody has is not the pattern's fault: that error comes first, and the batch is tried again.
        let wait = CString::new(format!("{}ms", limit / 2)).expect("digits");
        let weighed = db::attempt_within(limit as i32, || {
            db::with_setting(c"lock_timeout", &wait, || self.fate(entry, pattern, last_at))
        });
        self.took += began.elapsed();
        let told = weighed.as_ref().err().is_some_and(|error| {
            pass_on(error);
            self.fail(entry, pattern, &error.message)
        });
        let tally = self.tallies.entry(pattern.name.clone()).or_default();
        match weighed {
            Ok(Fate::None) => {}
            Ok(Fate::Unlucky) => tally.unlucky += 1,
            Ok(Fate::Cooling) => tally.cooling += 1,
            Ok(Fate::Duplicate) => tally.duplicates += 1,
            Ok(Fate::TooDeep) => tally.too_deep += 1,
            Ok(Fate::Queued) => {
                tally.queued += 1;
                tally.last_at = tally.last_at.max(Some(entry.event_at));
            }
            Err(_) if told => tally.failed += 1,
            Err(_) => tally.too_deep += 1,
        }
    }

    /// When the last event happened that this pattern reacted to.
    fn last_at(&mut self, pattern: &str) -> Option<Micros> {
        if let Some(tally) = self.tallies.get(pattern) {
            return tally.last_at;
        }
        let row = self.db.run(&PATTERN_LAST, &[pattern.into()]);
        let last_at =
            if row.is_empty() { None } else { row.maybe_only::<TimestampWithTimeZone>().map(|at| at.into_inner()) };
        self.tallies.insert(pattern.to_owned(), Tally { last_at, ..Tally::default() });
        last_at
    }

    fn fate(&self, entry: &Entry, pattern: &Pattern, last_at: Option<Micros>) -> Fate {
        let db = self.db;
        if !pattern.is_lucky(entry.event_id.as_bytes()) {
            return Fate::Unlucky;
        }
        let seen = seen(entry);
        if pattern.when.as_ref().is_some_and(|when| !seen.holds(db, when)) {
            return Fate::None;
        }
        // By the time of the events, so that a backlog is thinned out as it would have been.
        let cooldown = (pattern.cooldown_seconds * 1e6) as i64;
        if last_at.is_some_and(|last| cooldown > 0 && entry.event_at < last.saturating_add(cooldown)) {
            return Fate::Cooling;
        }
        let depth = self.depth_of(entry) + 1;
        if depth > self.max_depth {
            let reason = format!("the loop has caused this event itself, {} times over", depth - 1);
            self.make(entry, pattern, "skipped", json!({"event": envelope(entry)}), Some(&reason), None, depth);
            return Fate::TooDeep;
        }
        let key = dedupe_key(db, &seen, &pattern.dedupe);
        if let Some(key) = &key {
            input::name("the dedupe key", key, LONGEST_DEDUPE).or_raise();
        }
        let mut value_of = |path: &str| match seen.first(db, path) {
            Some(value) => value.parse(path),
            None => Ok(Value::Null),
        };
        let template = reaction::resolve(&pattern.template, &mut value_of).or_raise();
        let payload = json!({"template": template, "event": envelope(entry)});
        if self.make(entry, pattern, "queued", payload, None, key.as_deref(), depth) {
            Fate::Queued
        } else {
            Fate::Duplicate
        }
    }

    /// How many times over the loop itself has caused an event: as deep as the command whose mission
    /// or decision it is about.
    fn depth_of(&self, entry: &Entry) -> i32 {
        let mission = mission_of(entry).or_else(|| self.mission_of_job(entry));
        let of_mission = mission.and_then(|mission| self.db.run(&COMMAND_DEPTH, &[mission.into()]).maybe_only::<i32>());
        // What a caller says of the loop counts for nothing.
        let own = !entry.is_callers && ["proposal.", "reaction."].iter().any(|room| entry.event_kind.starts_with(room));
        of_mission.unwrap_or_else(|| {
            let told = entry.data().member("depth").whole(i64::MIN..=i64::MAX).ok().flatten().filter(|_| own);
            told.map_or(0, |depth| depth.clamp(0, 1_000) as i32)
        })
    }

    /// The mission of whose step, or of whose compensation, an event of a job tells. The job itself may
    /// be gone by now.
    fn mission_of_job(&self, entry: &Entry) -> Option<Uuid> {
        if !entry.event_kind.starts_with("job.") {
            return None;
        }
        let hook = entry.data().member("on_end").text().ok().flatten().and_then(|hook| hook.strip_prefix("mission:"));
        match hook.and_then(|about| parse_id(about.split(':').next()?)) {
            Some(step) => missions::mission_of_step(self.db, step),
            None => {
                let job = parse_id(&entry.subject)?;
                missions::mission_of_job(self.db, job).map(|(mission, _)| mission).or_else(|| {
                    let row = self.db.run(&COMPENSATION_MISSION, &[job.into()]);
                    (!row.is_empty()).then(|| row.only())
                })
            }
        }
    }

    /// Writes a reaction. False: the event has one already, or another with its key does.
    #[allow(clippy::too_many_arguments, reason = "a row has as many columns")]
    fn make(
        &self,
        entry: &Entry,
        pattern: &Pattern,
        status: &str,
        payload: Value,
        reason: Option<&str>,
        key: Option<&str>,
        depth: i32,
    ) -> bool {
        let args = [
            new_id().into(),
            entry.event_id.into(),
            entry.seq.into(),
            pattern.name.as_str().into(),
            status.into(),
            Jsonb::from_value(payload).into(),
            reason.into(),
            key.into(),
            depth.into(),
            self.version.into(),
            timestamp(self.now).into(),
        ];
        !self.db.run(&REACTION_MAKE, &args).is_empty()
    }

    /// Notes an error and tells of it. False: it noted the error only, because the loop has caused the event itself,
    /// and telling of it would go on for ever.
    fn fail(&self, entry: &Entry, pattern: &Pattern, error: &str) -> bool {
        let depth = self.depth_of(entry) + 1;
        if depth > self.max_depth {
            self.make(entry, pattern, "skipped", json!({"event": envelope(entry)}), Some(error), None, depth);
            return false;
        }
        self.make(entry, pattern, "failed", json!({"event": envelope(entry)}), Some(error), None, depth);
        let failed = Failed { pattern: &pattern.name, event_id: entry.event_id, depth };
        failed.tell(self.db, error, entry.context(), self.now);
        true
    }

    /// Adds the tallies to those of the patterns; returns how many reactions were queued.
    fn write_down(self) -> i64 {
        let mut queued = 0;
        for (pattern, tally) in &self.tallies {
            let counts = [tally.queued, tally.unlucky, tally.cooling, tally.duplicates, tally.too_deep, tally.failed];
            if counts == [0; 6] {
                continue;
            }
            queued += tally.queued;
            let mut args = vec![pattern.as_str().into(), tally.last_at.map(timestamp).into()];
            args.extend(counts.map(Into::into));
            self.db.run(&PATTERN_COUNT, &args);
        }
        queued
    }
}

/// The mission that an event is about.
fn mission_of(entry: &Entry) -> Option<Uuid> {
    let told = || entry.data().member("mission_id").text().ok().flatten().and_then(parse_id);
    let subject = || entry.event_kind.starts_with("mission.").then(|| parse_id(&entry.subject)).flatten();
    entry.mission_id.or_else(told).or_else(subject)
}

/// What is known of an event beside its data.
fn envelope(entry: &Entry) -> Value {
    json!({"id": entry.event_id.to_string(), "seq": entry.seq, "at": timestamp(entry.event_at), "kind": entry.event_kind,
        "subject": entry.subject, "source": entry.source, "tags": entry.tags, "purpose": entry.purpose,
        "mission_id": entry.mission_id.map(|id| id.to_string()),
        "correlation_id": entry.correlation_id, "trace_id": entry.trace_id,
        "origin": if entry.is_callers { "caller" } else { "agentq" }})
}

fn seen(entry: &Entry) -> Seen {
    Seen { data: entry.payload, vars: Jsonb::from_value(json!({"event": envelope(entry)})) }
}

/// The key of an event. None: the pattern has no rule for it, or the event lacks a value.
fn dedupe_key(db: &Db, seen: &Seen, pieces: &[Piece]) -> Option<String> {
    let mut key = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => key.push_str(text),
            Piece::Path(path) => match seen.first(db, path)?.parse(path).or_raise() {
                Value::Null => return None,
                Value::String(text) => key.push_str(&text),
                other => key.push_str(&other.to_string()),
            },
        }
    }
    (!key.trim().is_empty()).then_some(key)
}

/// A reaction that came to nothing.
pub struct Failed<'a> {
    pub pattern: &'a str,
    pub event_id: Uuid,
    pub depth: i32,
}

impl Failed<'_> {
    /// Tells of it, with what its event belongs to.
    pub fn tell(&self, db: &Db, error: &str, context: Context, now: Micros) {
        let event = self.event_id.to_string();
        let what = json!({"pattern": self.pattern, "event_id": event, "reason": error, "depth": self.depth});
        let told = Event::new("reaction.failed", self.pattern, what).target("event", &event);
        told.context(context).emit(db, now);
    }
}

/// Raises an error again that is nobody's fault and may not come again.
pub fn pass_on(error: &Caught) {
    use PgSqlErrorCode::*;
    let passing = [
        ERRCODE_T_R_SERIALIZATION_FAILURE,
        ERRCODE_T_R_DEADLOCK_DETECTED,
        ERRCODE_LOCK_NOT_AVAILABLE,
        ERRCODE_OUT_OF_MEMORY,
        ERRCODE_DISK_FULL,
        ERRCODE_ADMIN_SHUTDOWN,
        ERRCODE_READ_ONLY_SQL_TRANSACTION,
    ];
    if passing.contains(&error.code) {
        raise(error.code, error.message.clone(), "Nothing was done. It is tried again.")
    }
}
