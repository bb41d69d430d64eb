//! The sealer: gives every committed event its place in the log.
//!
//! One session seals at a time: it locks the one row of the sealer, and others do not wait for that. It finds what is
//! new by two snapshots, the one up to which all is sealed and a new one: events of transactions that were in progress
//! in the first, or had not begun, and have ended in the second. So nothing is deleted or marked, and a transaction
//! that stays open holds up its own events and no others. The next turn goes on with what one turn does not finish:
//! both snapshots and the place in between are kept. Each turn tells listeners once, when it commits.
//!
//! In another server, or another database, the numbers of transactions mean nothing. Then the sealer goes through all
//! events once, for those that have no place. Numbers of the past may come again, so it looks events up to the highest
//! of them up in the log before they get a place.

use super::feed;
use super::log::LAST_SEQ;
use super::origin::{self, origin};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::{Settings, is_schema_previous};
use crate::db::{self, Budget, Db, Rows, statements};
use crate::room::Outcome;
use crate::server;
use agentq_core::chain::{self, Body, Chain, End, Hash, Head};
use agentq_core::snapshot::Snapshot;
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;

statements!("seal.sql": SEAL_LOCK, SEAL_ANY, SEAL_BEGIN, SEAL_SNAPSHOT, SEAL_WRITERS, SEAL_NEXT, SEAL_LAST_XID, SEAL_PLACES, SEAL_SAVE, CHAIN, CHAIN_SAVE, LOG_ADD);

/// Where listeners hear of events.
const CHANNEL: &str = "agentq_event";
/// One turn seals at most this many events, and no more than it may read at once.
pub const AT_MOST: i64 = 2_000;
/// Places in one part of the log.
pub const PART: i64 = 1_000_000;
/// A snapshot that brought nothing new is kept after this long, in microseconds, so that the list of
/// transactions to ask for stays short.
const KEEP_EVERY_US: i64 = 10_000_000;
/// Beyond every transaction.
const LAST: &str = "9223372036854775807";
const ALL: &str = "9223372036854775807:9223372036854775807:";

/// What a turn did.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    pub count: i64,
    /// Whether there may be more to seal.
    pub more: bool,
    /// Whether it has finished what a former turn had begun, which is progress also without any event.
    pub moved: bool,
    /// Whether it began with what had been committed at that time. If there is no more, all of that
    /// has its place.
    pub fresh: bool,
}

/// The sealer's row.
struct State {
    last_seq: i64,
    sealed: Option<String>,
    target: Option<String>,
    adopting: bool,
    at_xid: String,
    at_event: Uuid,
    foreign_to: String,
    origin: String,
    updated_at: Micros,
}

/// An event without a place.
struct Unsealed {
    xid: String,
    event_id: Uuid,
    event_at: TimestampWithTimeZone,
    head: Head,
    body: Body,
}

/// Whether this session may seal what it reads: one that changes things, sees what others have
/// committed, and keeps no lock beyond its statement.
pub fn may_be_done_here() -> bool {
    !server::is_read_only() && sees_others() && !server::is_on_standby() && !server::is_in_transaction_block()
}

/// Whether a statement sees what others have committed before it began.
pub fn sees_others() -> bool {
    !server::has_fixed_snapshot()
}

/// One turn of the engine's: gives places to the next events.
pub fn turn() -> Outcome {
    let sealed = db::connect(|db| seal(db, AT_MOST));
    sealed.map_or_else(Outcome::default, |turn| Outcome::and_more(turn.count, turn.more))
}

/// Gives places to the next events. None: someone else is at it, or this is not the time.
pub fn seal(db: &Db, at_most: i64) -> Option<Sealed> {
    let origin = origin();
    // The engine leaves a database that is being restored alone until somebody uses it: a place given too early would
    // be in the way of those that are to come.
    if server::is_background_worker() && !feed::is_used() {
        return None;
    }
    // Mostly there is nothing, and then nothing is locked or written.
    let any = db.run(&SEAL_ANY, &[origin.as_str().into()]);
    if !any.is_empty() && !any.only::<bool>() {
        return Some(Sealed { count: 0, more: false, moved: false, fresh: true });
    }
    let mut state = lock(db)?;
    let now = snapshot(db);
    let is_ours = state.origin == origin && !state.sealed.as_deref().is_some_and(|sealed| is_after(sealed, &now));
    let mut fresh = true;
    if !is_ours || state.sealed.is_none() && !state.adopting {
        state.begin(now.clone());
        state.adopting = true;
        state.sealed = None;
        state.origin = origin;
    } else if state.target.is_none() {
        state.begin(now.clone());
    } else {
        fresh = false;
    }
    let mut budget = Budget::of_a_turn();
    let mut found = state.next(db, at_most, &mut budget);
    let moved = found.is_empty() && !fresh;
    if moved {
        // The last turn had just reached its end. This one looks for what has come since.
        state.finish(db);
        state.begin(now);
        fresh = true;
        found = state.next(db, at_most, &mut budget);
    }
    let count = found.len() as i64;
    place(db, &mut state, &found);
    let is_full = count >= at_most || budget.is_spent();
    // What a former turn had begun says nothing of what was committed since.
    let sealed = Sealed { count, more: is_full || !fresh, moved, fresh };
    let now = clock::real_now();
    if let Some(last) = found.last().filter(|_| is_full) {
        (state.at_xid, state.at_event) = (last.xid.clone(), last.event_id);
    } else {
        let adopted = state.finish(db);
        if count == 0 && !adopted && !moved && (0..KEEP_EVERY_US).contains(&(now - state.updated_at)) {
            return Some(sealed);
        }
    }
    state.save(db, now);
    if count > 0 && Settings::current().notify_enabled {
        let text = json!({"last_seq": state.last_seq, "count": count}).to_string();
        db.notify(CHANNEL, &text);
    }
    Some(sealed)
}

/// A snapshot of the transactions that have ended by now. This one is not among them.
fn snapshot(db: &Db) -> String {
    let row = db.run(&SEAL_SNAPSHOT, &[]);
    let (now, me): (String, String) = (row.must("snapshot"), row.must("me"));
    match (Snapshot::read(&now), me.parse()) {
        (Some(snapshot), Ok(me)) => snapshot.without(me).to_string(),
        _ => now,
    }
}

/// Says that events are used here if they were before the server started: the engine's worker asks when
/// it begins, which is never in the middle of a restore.
pub fn resume(db: &Db) {
    if origin::is_known(db) {
        feed::go_on();
    }
}

/// Keeps all others from sealing until this transaction ends. False: someone is at it.
pub fn hold(db: &Db) -> bool {
    lock(db).is_some()
}

/// Whether a snapshot is younger than one that was just taken.
fn is_after(one: &str, now: &str) -> bool {
    match (Snapshot::read(one), Snapshot::read(now)) {
        (Some(one), Some(now)) => one.xmax > now.xmax,
        _ => true,
    }
}

fn lock(db: &Db) -> Option<State> {
    let mut row = db.run(&SEAL_LOCK, &[]);
    if row.is_empty() {
        db.run(&SEAL_BEGIN, &[]);
        row = db.run(&SEAL_LOCK, &[]);
    }
    (!row.is_empty()).then(|| State {
        last_seq: row.must("last_seq"),
        sealed: row.get("sealed"),
        target: row.get("target"),
        adopting: row.must("adopting"),
        at_xid: row.must("at_xid"),
        at_event: row.must("at_event"),
        foreign_to: row.must("foreign_to"),
        origin: row.must("origin"),
        updated_at: row.must::<TimestampWithTimeZone>("updated_at").into_inner(),
    })
}

impl State {
    fn begin(&mut self, target: String) {
        self.target = Some(target);
        self.at_xid = "0".to_owned();
        self.at_event = Uuid::from_bytes([0; 16]);
    }

    /// All of the target has its place. True: that was the end of an adoption.
    fn finish(&mut self, db: &Db) -> bool {
        if self.adopting {
            let last = db.run(&SEAL_LAST_XID, &[]);
            self.foreign_to = if last.is_empty() { "0".to_owned() } else { last.only() };
        }
        self.sealed = self.target.take();
        std::mem::take(&mut self.adopting)
    }

    /// The next events without a place, in the order in which they get it.
    fn next(&self, db: &Db, at_most: i64, budget: &mut Budget) -> Vec<Unsealed> {
        let target = self.target.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        let mut read = |from: &str, to: &str, seen: &str, foreign: &str, found: &mut Vec<Unsealed>| {
            let left = at_most - found.len() as i64;
            if left > 0 && !budget.is_spent() {
                let (at_xid, at_event) = (self.at_xid.as_str(), self.at_event);
                let args =
                    [from.into(), to.into(), at_xid.into(), at_event.into(), seen.into(), foreign.into(), left.into()];
                db.walk(&SEAL_NEXT, &args, |row| {
                    let event = Unsealed::read(row);
                    let size = event.size();
                    found.push(event);
                    budget.take(size)
                });
            }
        };
        if self.adopting {
            read("0", LAST, ALL, LAST, &mut found);
            return found;
        }
        let sealed = self.sealed.as_deref().and_then(Snapshot::read);
        let (Some(sealed), Some(now)) = (sealed, Snapshot::read(target)) else { return found };
        let at: u64 = self.at_xid.parse().unwrap_or_default();
        let ended: Vec<String> =
            now.ended_since(&sealed).iter().filter(|xid| **xid >= at).map(u64::to_string).collect();
        if !ended.is_empty() {
            let mut writers: Vec<u64> = Vec::new();
            db.run(&SEAL_WRITERS, &[ended.into()]).each(|row| writers.extend(row.only::<String>().parse::<u64>()));
            for xid in writers {
                read(&xid.to_string(), &(xid + 1).to_string(), target, &self.foreign_to, &mut found);
            }
        }
        read(&sealed.xmax.to_string(), &now.xmax.to_string(), target, &self.foreign_to, &mut found);
        found
    }

    fn save(&self, db: &Db, now: Micros) {
        let (sealed, target) = (self.sealed.as_deref(), self.target.as_deref());
        db.run(
            &SEAL_SAVE,
            &[
                self.last_seq.into(),
                sealed.into(),
                target.into(),
                self.adopting.into(),
                self.at_xid.as_str().into(),
                self.at_event.into(),
                self.foreign_to.as_str().into(),
                self.origin.as_str().into(),
                timestamp(now).into(),
            ],
        );
    }
}

impl Unsealed {
    fn read(row: &Rows) -> Unsealed {
        let (event_id, event_at): (Uuid, TimestampWithTimeZone) = (row.must("event_id"), row.must("event_at"));
        Unsealed {
            xid: row.must("xid"),
            event_id,
            event_at,
            head: head(event_id, event_at, row.must("purpose")),
            body: body(row),
        }
    }

    /// About how many bytes it takes.
    fn size(&self) -> usize {
        let tags: usize = self.body.tags.iter().map(String::len).sum();
        size_of::<Unsealed>() + self.body.payload.len() + self.body.subject.len() + tags
    }
}

/// What a link says of an event.
pub fn head(event_id: Uuid, event_at: TimestampWithTimeZone, purpose: String) -> Head {
    const UNIX_TO_SERVER_EPOCH_US: i64 = 946_684_800_000_000;
    let event_at = event_at.into_inner().saturating_add(UNIX_TO_SERVER_EPOCH_US);
    Head { event_id: event_id.to_string(), event_at, purpose }
}

/// The rest of an event.
pub fn body(row: &Rows) -> Body {
    Body {
        event_kind: row.must("event_kind"),
        subject: row.must("subject"),
        payload: row.must("payload"),
        source: row.get("source"),
        tags: row.get("tags").unwrap_or_default(),
        dedupe_key: row.get("dedupe_key"),
        correlation_id: row.get("correlation_id"),
        trace_id: row.get("trace_id"),
        mission_id: row.get("mission_id"),
        origin: row.get("origin"),
        actor: row.get("actor"),
        target_type: row.get("target_type"),
        target_id: row.get("target_id"),
        command_id: row.get("command_id"),
        agent_run_id: row.get("agent_run_id"),
        swarm_run_id: row.get("swarm_run_id"),
        step_index: row.get("step_index"),
        tool_name: row.get("tool_name"),
        latency_ms: row.get("latency_ms"),
        token_usage: row.get("token_usage"),
        cost_units: row.get("cost_units"),
    }
}

pub fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Option<Hash> {
    let byte = |at: usize| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Vec<u8> = (0..32).map(byte).collect::<Option<_>>()?;
    bytes.try_into().ok()
}

/// A chain as its row has it.
pub struct Stand {
    pub last_seq: i64,
    pub end: End,
    /// What its first link that is still there follows.
    pub before_first: End,
    pub dropped_before: Micros,
}

pub fn stand(db: &Db, chain: Chain) -> Stand {
    let row = db.run(&CHAIN, &[chain.name().into()]);
    if row.is_empty() {
        let nothing = End::of_nothing(chain);
        return Stand { last_seq: 0, end: nothing.clone(), before_first: nothing, dropped_before: Micros::MIN };
    }
    let hash = |column| row.get::<String>(column).and_then(|text| unhex(&text)).unwrap_or_else(|| chain.genesis());
    Stand {
        last_seq: row.must("last_seq"),
        end: End { place: row.must("last_place"), hash: hash("last_hash") },
        before_first: End { place: row.must::<i64>("first_place") - 1, hash: hash("first_hash") },
        dropped_before: row.must::<TimestampWithTimeZone>("dropped_before").into_inner(),
    }
}

/// Writes the places of these events down.
fn place(db: &Db, state: &mut State, found: &[Unsealed]) {
    if found.is_empty() {
        return;
    }
    let mut stands = Chain::ALL.map(|chain| stand(db, chain));
    // The schema of the version before knows the first form alone.
    let form = if is_schema_previous() { 1 } else { chain::FORM };
    let (mut seqs, mut purposes, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ids, mut times, mut digests, mut hashes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for event in found {
        state.last_seq += 1;
        let chain = Chain::of(&event.head.purpose);
        let stand = &mut stands[chain as usize];
        if stand.last_seq == 0 || stand.last_seq / PART != state.last_seq / PART {
            db.run(&LOG_ADD, &[chain.name().into(), (state.last_seq / PART).into(), PART.into()]);
        }
        stand.last_seq = state.last_seq;
        let link = stand.end.link(form, state.last_seq, event.head.clone(), &event.body);
        seqs.push(link.seq);
        purposes.push(link.head.purpose);
        places.push(link.place);
        ids.push(event.event_id);
        times.push(event.event_at);
        digests.push(hex(&link.digest));
        hashes.push(hex(&link.hash));
    }
    let form = i32::from(form);
    db.run(
        &SEAL_PLACES,
        &[
            seqs.into(),
            purposes.into(),
            places.into(),
            ids.into(),
            times.into(),
            digests.into(),
            hashes.into(),
            form.into(),
        ],
    );
    for (chain, stand) in Chain::ALL.into_iter().zip(&stands).filter(|(_, stand)| stand.last_seq > 0) {
        let hash = hex(&stand.end.hash);
        db.run(&CHAIN_SAVE, &[chain.name().into(), stand.last_seq.into(), stand.end.place.into(), hash.into()]);
    }
}

/// The last place that was given.
pub fn last_seq(db: &Db) -> i64 {
    let row = db.run(&LAST_SEQ, &[]);
    if row.is_empty() { 0 } else { row.only() }
}
