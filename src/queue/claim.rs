//! Claiming: the best ready jobs are locked, taken out of the ready ones and leased.
//!
//! Priority, then schedule, then age decides, ties by id. A scan starts at the lane's marks; what
//! another session has locked is skipped. Before it answers "empty", a claim looks in full, if it
//! can afford to, and recovers jobs whose lease has expired.

use super::deadlines::{self, Missed};
use super::enqueue::find_queue;
use super::gates::{self, Gates, Needed, Passed, Wishes};
use super::hints::{self, Look, Reading};
use super::lane::{Cursor, Lane, Taken};
use super::limits::{self, Worker};
use super::place::{self, Due, Place};
use super::rows::{job, job_blocked, job_checkpoint, job_lease, job_ready};
use super::turns::{Group, Part, Turns};
use super::{answer, budgets, hooks, order, reap, terms, turns, unflushed, wait};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids;
use crate::base::settings::Settings;
use crate::db;
use crate::error::{OrRaise, required};
use crate::json::{self, Jsonb};
use crate::shared::seats;
use crate::table::{self, Moment, Row, Scan, Table};
use agentq_core::counters::Order;
use agentq_core::jsonb::{Container, Item};
use agentq_core::mark::{Position, Slot};
use agentq_core::{Refusal, input, payload};
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::prelude::*;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Jobs that a claim moves from waiting to ready at most. Enough to get the order right when many
/// fall due together; bounded, because others see them only when the claim commits.
const PROMOTE_AT_MOST: i64 = 1_000;

/// How often a claim looks again because all it found had missed their deadline, or had no slot. What is left is the
/// engine's, or the next claim's.
const LATE_AT_MOST: usize = 100;
/// The same in a transaction that may go on for long, while others do not see what it has put aside.
const LATE_LINGERING: usize = 16;
/// Keys without slots that an answer names.
const NAMED_AT_MOST: usize = 10;

struct Claim<'a> {
    owner: &'a str,
    lanes: Vec<Lane>,
    lease_seconds: Option<i32>,
    limit: usize,
    now: Micros,
    default_lease: i32,
    /// Whether the transaction may go on for long after the claim.
    lingers: bool,
    /// Whether a job was found that has missed its deadline, or for which a limit has no slot.
    found_late: Cell<bool>,
    worker: WorkerOptions,
    /// Ready jobs that its transaction's snapshot does not show, each with whether it has a key.
    unseen: RefCell<Vec<(Place, bool)>>,
    /// The keys of limits that kept it from jobs.
    limited_by: RefCell<BTreeSet<String>>,
    needed: Needed,
}

/// What the options of a claim say of its worker.
#[derive(Clone, Default)]
struct WorkerOptions {
    worker_type: Option<String>,
    /// None: as its heartbeat has announced.
    capabilities: Option<Vec<String>>,
}

/// What came of a claim.
#[derive(Default)]
pub struct Run {
    pub held: Vec<Held>,
    /// Whether it has moved jobs that it did not take: others see them when it commits.
    moved: bool,
}

impl Run {
    pub fn is_over(&self) -> bool {
        self.moved || !self.held.is_empty()
    }
}

#[pg_extern(name = "fn_job_claim", security_definer)]
fn claim_or_wait(
    p_lease_owner: Option<&str>,
    p_job_kind: default!(Option<&str>, "NULL"),
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
    p_wait: default!(Option<Interval>, "NULL"),
) -> Jsonb {
    claim(p_lease_owner, None, p_job_kind, p_lease_seconds, p_options, p_wait)
}

#[pg_extern(name = "fn_job_claim_batch", security_definer)]
fn claim_batch_or_wait(
    p_lease_owner: Option<&str>,
    p_limit: Option<i32>,
    p_job_kind: default!(Option<&str>, "NULL"),
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
    p_wait: default!(Option<Interval>, "NULL"),
) -> Jsonb {
    claim(p_lease_owner, Some(required("p_limit", p_limit)), p_job_kind, p_lease_seconds, p_options, p_wait)
}

/// `batch`: how many jobs the caller asked for, or None for the form that answers with one job.
pub fn claim(
    owner: Option<&str>,
    batch: Option<i32>,
    kind: Option<&str>,
    lease_seconds: Option<i32>,
    options: Option<Jsonb>,
    wait: Option<Interval>,
) -> Jsonb {
    answer::gated(|settings| {
        let limit = batch.map_or(1, |limit| input::batch_limit(limit).or_raise());
        let owner = input::name("p_lease_owner", required("p_lease_owner", owner), input::LONGEST_NAME).or_raise();
        let lease_seconds = lease_seconds.map(|s| input::lease_seconds(s).or_raise());
        let wait = wait.map_or(0, |wait| check_wait(&wait).or_raise());
        let options = options.map(|o| o.parse("p_options").or_raise());
        let with_acks = with_acks(&options, batch.is_some()).or_raise();
        let all = lanes(settings, kind, &options).or_raise();
        let worker = worker_options(&options).or_raise();
        let (paused, lanes): (Vec<_>, Vec<_>) = all.into_iter().partition(|lane| lane.queue.paused);
        if wait == 0 && lanes.is_empty() {
            return empty(batch.is_some(), with_acks, &paused, &BTreeSet::new());
        }
        table::must_write(c"fn_job_claim()");
        let claim = |lanes, lingers| Claim {
            owner,
            lanes,
            lease_seconds,
            limit: limit as usize,
            now: clock::now(),
            default_lease: settings.lease_seconds,
            lingers,
            found_late: Cell::default(),
            worker: worker.clone(),
            unseen: RefCell::default(),
            limited_by: RefCell::default(),
            needed: Needed::default(),
        };
        let mut limited = BTreeSet::new();
        let held = if wait == 0 {
            let claim = claim(lanes, db::is_in_transaction_block());
            let run = claim.run();
            limited = claim.limited_by.into_inner();
            run.held
        } else {
            let tags: Vec<u64> = lanes.iter().chain(&paused).map(|lane| lane.name().tag()).collect();
            // The queues may be paused or resumed meanwhile, so the lanes are asked for anew.
            wait::until(&tags, wait, || {
                let all = self::lanes(&Settings::current(), kind, &options).or_raise();
                let open: Vec<Lane> = all.into_iter().filter(|lane| !lane.queue.paused).collect();
                if open.is_empty() { Run::default() } else { claim(open, true).run() }
            })
        };
        match batch {
            _ if held.is_empty() => empty(batch.is_some(), with_acks, &paused, &limited),
            None => Jsonb::from_container(&held[0].document),
            Some(_) => several(&held, with_acks),
        }
    })
}

/// Microseconds to wait. A claim that waits holds a snapshot, and so keeps vacuum back: not for long.
fn check_wait(wait: &Interval) -> Result<i64, Refusal> {
    let micros = wait.as_micros();
    if !(0..=i128::from(wait::LONGEST_US)).contains(&micros) {
        return Err(Refusal::new(
            format!("p_wait must be from 0 to {} seconds, but is {wait}", wait::LONGEST_US / 1_000_000),
            "A waiting claim keeps vacuum back: wait for a while, and then call again.",
        ));
    }
    if micros > 0 && db::has_fixed_snapshot() {
        return Err(Refusal::new(
            "a claim cannot wait in a transaction of REPEATABLE READ or SERIALIZABLE, which never sees new jobs",
            "Leave out p_wait, or claim under READ COMMITTED.",
        ));
    }
    Ok(micros as i64)
}

/// Claims one job from these queues and kinds, for a worker inside the server: its id, token, kind
/// and document.
pub fn one_of(owner: &str, lanes: &[(&str, &str)], lease_seconds: i32) -> Option<(Uuid, Uuid, String, Vec<u8>)> {
    let settings = Settings::current();
    let lanes = lanes.iter().filter_map(|(queue, kind)| {
        let queue = settings.queue(queue).filter(|queue| !queue.paused)?;
        Some(Lane { queue: Rc::clone(queue), kind: Some((*kind).to_owned()), blocked_by: None, group: None })
    });
    let claim = Claim {
        owner,
        lanes: lanes.collect(),
        lease_seconds: Some(lease_seconds),
        limit: 1,
        now: clock::now(),
        default_lease: settings.lease_seconds,
        lingers: false,
        found_late: Cell::default(),
        worker: WorkerOptions::default(),
        unseen: RefCell::default(),
        limited_by: RefCell::default(),
        needed: Needed::default(),
    };
    if claim.lanes.is_empty() {
        return None;
    }
    claim.run().held.into_iter().next().map(|job| (job.job_id, job.token, job.kind, job.document))
}

fn several(held: &[Held], with_acks: bool) -> Jsonb {
    let jobs = json::array(held.iter().map(|job| Item::Container(&job.document)));
    let acks = with_acks.then(|| acks_of(held));
    let mut members = vec![
        ("ok", true.into()),
        ("code", "claimed".into()),
        ("count", (held.len() as i64).into()),
        ("jobs", Item::Container(&jobs)),
    ];
    members.extend(acks.as_ref().map(|acks| ("acks", Item::Container(acks))));
    Jsonb::from_container(&json::object(&mut members))
}

/// The list that acks these jobs.
fn acks_of(held: &[Held]) -> Vec<u8> {
    let ack = |job: &Held| {
        let (id, token) = (ids::text(job.job_id), ids::text(job.token));
        json::object(&mut [("job_id", id.item()), ("lease_token", token.item())])
    };
    let acks: Vec<Vec<u8>> = held.iter().map(ack).collect();
    json::array(acks.iter().map(|ack| Item::Container(ack)))
}

fn empty(batch: bool, with_acks: bool, paused: &[Lane], limited: &BTreeSet<String>) -> Jsonb {
    let mut answer = json!({"ok": true, "code": "empty"});
    if batch {
        answer["count"] = json!(0);
        answer["jobs"] = json!([]);
    }
    if with_acks {
        answer["acks"] = json!([]);
    }
    if !paused.is_empty() {
        let mut names: Vec<_> = paused.iter().map(|lane| lane.queue.queue.clone()).collect();
        names.dedup();
        answer["paused"] = json!(names);
    }
    if !limited.is_empty() {
        answer["limited"] = json!(limited);
    }
    Jsonb::from_value(answer)
}

/// Which lanes a claim reads: every named kind (or any) in every named queue.
fn lanes(settings: &Settings, kind: Option<&str>, options: &Option<Value>) -> Result<Vec<Lane>, Refusal> {
    let mut kinds: Vec<Option<String>> = vec![kind.map(str::to_owned)];
    let mut queues = vec![input::DEFAULT_QUEUE.to_owned()];
    if let Some(options) = options {
        let Value::Object(map) = options else {
            return Err(payload::refuse_not_object("p_options", "this"));
        };
        input::known_options("p_options", map.keys(), &["queues", "kinds", "worker_type", "capabilities", "acks"])?;
        if let Some(names) = names(options, "queues")? {
            queues = names;
        }
        if let Some(names) = names(options, "kinds")? {
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
        let lane =
            |kind: &Option<String>| Lane { queue: Rc::clone(queue), kind: kind.clone(), blocked_by: None, group: None };
        lanes.extend(kinds.iter().map(lane));
    }
    Ok(lanes)
}

/// Whether the answer is to have the list that acks its jobs.
fn with_acks(options: &Option<Value>, batch: bool) -> Result<bool, Refusal> {
    match options.as_ref().and_then(|options| options.get("acks")) {
        None | Some(Value::Null) => Ok(false),
        Some(_) if !batch => Err(Refusal::new(
            "the option \"acks\" is for claims of many jobs",
            "Leave it out: one job is acked by its job_id and lease_token.",
        )),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(Refusal::new(
            format!("the option \"acks\" must be true or false, not {}", agentq_core::error::shown(&other.to_string())),
            "With true, the answer has \"acks\", a list that fn_job_ack_batch takes as it is.",
        )),
    }
}

/// What the options say of the worker.
fn worker_options(options: &Option<Value>) -> Result<WorkerOptions, Refusal> {
    let present = |key: &str| options.as_ref().and_then(|options| options.get(key)).filter(|value| !value.is_null());
    let worker_type = present("worker_type")
        .map(|name| input::name("the option \"worker_type\"", name.as_str().unwrap_or_default(), 60).map(str::to_owned))
        .transpose()?;
    let capabilities = present("capabilities").map(|list| {
        let list = agentq_core::jsonb::from_value(list)?;
        let list = agentq_core::jsonb::Container::new(&list).item();
        terms::capabilities(agentq_core::reader::Reader::at("p_options.capabilities", list))
    });
    let capabilities = capabilities.transpose()?;
    Ok(WorkerOptions { worker_type, capabilities })
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

impl Claim<'_> {
    fn run(&self) -> Run {
        if self.lanes.iter().all(|lane| !lane.queue.durable_claims) {
            return unflushed::claim(|| hooks::together(|| self.find_and_hold()));
        }
        hooks::together(|| self.find_and_hold())
    }

    fn find_and_hold(&self) -> Run {
        // What this claim recovers or promotes beside its own jobs, others see when it commits. If
        // that may take long, it touches no more than it takes. Where the engine is at work, it
        // recovers expired leases every second, and a claim does so only before it says "empty".
        let mut moved = !self.lingers && (clock::is_shifted() || !seats::engine_runs()) && reap::when_due(self.now) > 0;
        moved |= place::promote_due(self.now, || self.due(self.lingers)) > 0;
        let mut held = self.scan(moved || hints::has_entered());
        // Nothing there: a job whose holder died may be the next one. Not every recovered job is:
        // some end in the dead letters.
        let most = if self.lingers { self.limit as i64 } else { reap::AT_MOST };
        let mut late = 0;
        while held.is_empty() {
            if self.found_late.take() && late < if self.lingers { LATE_LINGERING } else { LATE_AT_MOST } {
                late += 1;
                // What was made ready may be all that was put aside: there may be more whose time has come.
                if self.lingers {
                    place::promote_due(self.now, || self.due(true));
                }
            } else if reap::now(self.now, most) == 0 {
                break;
            }
            moved = true;
            held = self.scan(true);
        }
        // Left for those who see them.
        self.unseen.take().into_iter().for_each(|(place, keyed)| place.enter_unseen(keyed, self.now));
        Run { held, moved }
    }

    fn due(&self, lingers: bool) -> Due {
        if !lingers {
            return Due::All(PROMOTE_AT_MOST);
        }
        let queues = self.lanes.iter().map(|lane| lane.queue.queue_id).collect();
        Due::Best(self.limit as i64, queues, self.lanes.iter().map(|lane| lane.kind.clone()).collect())
    }

    /// Looks for jobs that may run now. What waits for slots that are there, and lanes of their own, are looked at in
    /// parts.
    fn scan(&self, full: bool) -> Vec<Held> {
        // Before the rules are read, so that a change of them waits for this claim, or is seen by it.
        let leases = Table::open(&job_lease::TABLE);
        let settings = Settings::current();
        let newer = gates::rules_in_force();
        let rules = newer.as_ref().unwrap_or(&settings.limits);
        let newer = gates::budgets_in_force();
        let budgets = newer.as_ref().unwrap_or(&settings.budgets);
        let gated = !rules.is_empty() || !budgets.is_empty();
        let mut gates = gated.then(|| Gates::open(&leases, rules, budgets, &self.needed, self.now));
        let (lanes, keys, room) = match &gates {
            None => (self.lanes.clone(), Vec::new(), self.limit),
            Some(gates) => self.lanes_with_slots(gates),
        };
        let turns = Turns {
            leases: leases.id(),
            rules,
            capabilities: self.worker.capabilities.as_deref(),
            owner: self.owner,
            now: self.now,
        };
        let mut held = Vec::new();
        let mut read = |mut part: Part, held: &mut Vec<Held>| {
            if !part.lanes.is_empty() && room > held.len() {
                let mut found = Found { leases: &leases, gates: &mut gates, limit: room - held.len() };
                held.extend(self.scan_lanes(&mut found, &mut part, full));
            }
            held.len() >= room || self.found_late.get()
        };
        let own = turns.first_part(&lanes, room);
        let takes_turns = own.is_some();
        let mut first = own.unwrap_or_else(|| Part::of(lanes.clone()));
        let mut blocked = keys.chunks(limits::OPEN_AT_ONCE).map(|keys| Lane::blocked(&lanes, keys));
        first.lanes.extend(blocked.next().into_iter().flatten());
        let mut done = read(first, &mut held);
        // Those without a fairness key may have had nothing: then it is the turn of another.
        if takes_turns && !done {
            done = turns.first_part(&lanes, room).is_some_and(|part| read(part, &mut held));
        }
        for lanes in blocked {
            done = done || read(Part::of(lanes), &mut held);
        }
        if takes_turns && !done {
            turns.all_parts(&lanes).into_iter().any(|part| read(part, &mut held));
        }
        if held.is_empty() && !self.found_late.get() {
            leases.let_go();
        }
        held
    }

    /// Scans from the marks, or in full if there are none, or if this transaction has put rows in
    /// that the marks do not know. A scan that finds nothing is made again in full.
    fn scan_lanes(&self, found: &mut Found<'_, '_>, part: &mut Part, full: bool) -> Vec<Held> {
        let lanes = &part.lanes;
        let mut readings: Vec<Reading> = lanes.iter().map(|lane| Reading::of(lane.name())).collect();
        let marks: Vec<Option<Vec<Slot>>> =
            readings.iter_mut().map(|reading| reading.slots.take().filter(|_| !full)).collect();
        let looked = marks.iter().all(Option::is_none);
        let held = self.take(found, part, &mut readings, marks);
        let found_any = !held.is_empty() || self.found_late.get();
        if found_any || looked || !readings.iter().all(|reading| reading.may_look) {
            return held;
        }
        let none = vec![None; part.lanes.len()];
        self.take(found, part, &mut readings, none)
    }

    fn worker(&self) -> Worker<'_> {
        Worker { owner: self.owner, worker_type: self.worker.worker_type.as_deref() }
    }

    /// The lanes whose jobs pass all gates, as far as that can be said of all; the keys of which jobs wait for
    /// what is there now; and how many jobs this worker may take.
    fn lanes_with_slots(&self, gates: &Gates<'_>) -> (Vec<Lane>, Vec<String>, usize) {
        let mut open = Vec::with_capacity(self.lanes.len());
        for lane in &self.lanes {
            match gates.closed(&self.worker().wide_keys(&lane.queue.queue, lane.kind.as_deref())) {
                Some(key) => drop(self.limited_by.borrow_mut().insert(key)),
                None => open.push(lane.clone()),
            }
        }
        let room = gates.room(&self.worker().own_keys());
        let (mut free, full) = gates.waited_for();
        self.limited_by.borrow_mut().extend(full.into_iter().take(NAMED_AT_MOST));
        // Not always the same first, so that none is passed over for ever.
        let turn = self.now as usize % free.len().max(1);
        free.rotate_left(turn);
        (open, free, self.limit.min(room.unwrap_or(usize::MAX)))
    }

    /// Takes the first jobs from these slots on. A lane without slots is looked at first.
    fn take(
        &self,
        found: &mut Found<'_, '_>,
        part: &mut Part,
        readings: &mut [Reading],
        slots: Vec<Option<Vec<Slot>>>,
    ) -> Vec<Held> {
        let lanes = &part.lanes;
        let looks: Vec<Option<Look>> = readings
            .iter_mut()
            .zip(&slots)
            .map(|(reading, slots)| slots.is_none().then(|| reading.begin_look()))
            .collect();
        let ready = Table::open(&job_ready::TABLE);
        let blocked = lanes.iter().any(|lane| lane.blocked_by.is_some()).then(|| Table::open(&job_blocked::TABLE));
        let table = |lane: &Lane| match &blocked {
            Some(blocked) if lane.blocked_by.is_some() => blocked,
            _ => &ready,
        };
        let moment = Moment::now();
        let slots: Vec<Vec<Slot>> = slots
            .into_iter()
            .zip(lanes.iter().zip(&*readings).zip(&looks))
            .map(|(slots, ((lane, reading), look))| {
                slots.unwrap_or_else(|| {
                    let found = lane.look(table(lane), &moment);
                    look.iter().for_each(|look| reading.learn(look, &found));
                    found
                })
            })
            .collect();
        let mut cursors: Vec<Cursor<'_>> = lanes
            .iter()
            .zip(&slots)
            .map(|(lane, slots)| Cursor::new(lane, table(lane), &moment, slots, found.limit == 1))
            .collect();
        let taken = first_of(&mut cursors, lanes, &mut part.order, found.limit);
        for (number, (reading, slots)) in readings.iter().zip(&slots).enumerate() {
            match taken.iter().rev().find(|(lane, _)| *lane == number) {
                Some((_, last)) => raise(reading, slots, &last.place),
                // Fewer were there than wanted, so each lane was read to its end.
                None if taken.len() < found.limit => reading.raise_all(slots),
                None => {}
            }
        }
        drop(cursors);
        self.hold(found, lanes, taken, &moment)
    }

    fn lease_until(&self, lane: &Lane, picked_at: Micros) -> Micros {
        let seconds = self.lease_seconds.or(lane.queue.lease_seconds).unwrap_or(self.default_lease);
        picked_at + i64::from(seconds) * 1_000_000
    }

    /// Leases the jobs that were taken, and reads them.
    fn hold(
        &self,
        found: &mut Found<'_, '_>,
        lanes: &[Lane],
        taken: Vec<(usize, Taken)>,
        moment: &Moment,
    ) -> Vec<Held> {
        if taken.is_empty() {
            return Vec::new();
        }
        // Asked for only now: another's attempt at the same job may have ended since this call began.
        let picked_at = clock::now();
        let jobs = Table::open(&job::TABLE);
        let mut body: Option<Scan<'_>> = None;
        let mut held = Vec::with_capacity(taken.len());
        let mut rows = Vec::with_capacity(taken.len());
        let mut late: Vec<(Uuid, Missed)> = Vec::new();
        let mut blocked: Vec<(Place, bool)> = Vec::new();
        for (lane, taken) in taken {
            let lane = &lanes[lane];
            let id = taken.place.job_id;
            let body = match &mut body {
                Some(body) => {
                    body.again(id);
                    body
                }
                body => body.insert(Scan::by_id(&jobs, moment, c"job_pkey", id)),
            };
            if !body.next() {
                if db::has_fixed_snapshot() {
                    // Put there by this transaction, behind a job that has finished, and enqueued since its snapshot.
                    self.found_late.set(true);
                    self.unseen.borrow_mut().push((taken.place, taken.keyed));
                } else {
                    warning!("job {id} was ready but does not exist; its ready row was dropped");
                }
                continue;
            }
            if let Some(missed) = deadlines::missed(body, self.now) {
                // Someone may be putting another job behind it: then it is left for later.
                if body.is_null(job::ordering_key) || db::connect(|db| order::may_finish_now(db, id)) {
                    late.push((id, missed));
                } else {
                    taken.place.enter_unseen(taken.keyed, self.now);
                }
                continue;
            }
            let passed = match found.pass(self, lane, &taken, body) {
                Ok(passed) => passed,
                // The worker itself has no slot left; others may have.
                Err(key) if self.worker().own_keys().contains(&key) => {
                    taken.place.enter_unseen(taken.keyed, self.now);
                    self.limited_by.borrow_mut().insert(key);
                    continue;
                }
                Err(key) => {
                    blocked.push((Place { blocked_by: Some(key), ..taken.place }, taken.keyed));
                    continue;
                }
            };
            let lease = Lease { owner: self.owner, token: new_token(), until: self.lease_until(lane, picked_at) };
            let row = Row::of(&job_lease::TABLE)
                .set(job_lease::job_id, id)
                .set(job_lease::lease_token, lease.token)
                .set(job_lease::lease_until, timestamp(lease.until))
                .set(job_lease::picked_at, timestamp(picked_at))
                .set(job_lease::keyed, taken.keyed || !body.is_null(job::ordering_key) || !body.is_null(job::on_end))
                .set(job_lease::lease_owner, self.owner);
            rows.push(passed.put(row));
            let document = document(body, &lane.queue.queue, &lease, moment);
            held.push(Held { job_id: id, token: lease.token, kind: taken.place.job_kind, document });
        }
        if !rows.is_empty() {
            found.leases.insert_all(&rows);
        }
        if !late.is_empty() {
            self.found_late.set(true);
            db::connect(|db| late.iter().for_each(|(id, missed)| deadlines::give_up(db, *id, *missed, self.now)));
        }
        if !blocked.is_empty() {
            self.found_late.set(true);
            self.put_aside(blocked);
        }
        held
    }

    /// Puts jobs for which a limit has no slot where the next claims do not find them.
    fn put_aside(&self, blocked: Vec<(Place, bool)>) {
        hints::announce();
        let rows: Vec<Row> = blocked.iter().map(|(place, keyed)| place.blocked_row(*keyed)).collect();
        Table::open(&job_blocked::TABLE).insert_all(&rows);
        for (place, _) in &blocked {
            place.entered_blocked();
            self.limited_by.borrow_mut().extend(place.blocked_by.clone());
        }
    }
}

/// The first ready jobs over all cursors, taken one after the other; each with its lane. Whose turn it is decides
/// first, then priority, schedule and age.
fn first_of(cursors: &mut [Cursor<'_>], lanes: &[Lane], order: &mut Order<Group>, limit: usize) -> Vec<(usize, Taken)> {
    let group = |lane: usize| lanes[lane].group.map(|group| (lanes[lane].queue.queue_id, group));
    let mut heads: Vec<Option<Slot>> = cursors.iter_mut().map(Cursor::next).collect();
    let mut shares: BTreeMap<Group, (u64, u64)> = BTreeMap::new();
    let mut taken = Vec::new();
    while taken.len() < limit {
        pgrx::check_for_interrupts!();
        let turn = |lane: usize| group(lane).map_or(0, |group| order.turn(&group));
        let next = heads.iter().enumerate().filter_map(|(lane, head)| head.map(|head| (lane, head)));
        let Some((lane, _)) = next.min_by_key(|(lane, head)| (turn(*lane), head.priority, head.from, *lane)) else {
            break;
        };
        if let Some(job) = cursors[lane].take() {
            taken.push((lane, job));
            if let Some(group) = group(lane) {
                let (share, jobs) = shares.entry(group).or_default();
                (*share, *jobs) = (order.taken(&group), *jobs + 1);
            }
        }
        if taken.len() < limit {
            heads[lane] = cursors[lane].next();
        }
    }
    turns::served(&shares, lanes.iter().zip(&heads).filter(|(_, head)| head.is_none()).map(|(lane, _)| lane));
    taken
}

/// What a claim may take.
struct Found<'a, 'b> {
    leases: &'a Table,
    /// None: there is nothing to pass.
    gates: &'a mut Option<Gates<'b>>,
    /// How many jobs are wanted.
    limit: usize,
}

impl Found<'_, '_> {
    /// Passes a job through its gates, or says which is closed.
    fn pass(&mut self, claim: &Claim<'_>, lane: &Lane, taken: &Taken, body: &Scan<'_>) -> Result<Passed, String> {
        let worker = claim.worker().own_keys();
        let Some(gates) = self.gates else {
            return Ok(Passed { limits: worker, ..Passed::default() });
        };
        let wide = claim.worker().wide_keys(&lane.queue.queue, Some(&taken.place.job_kind));
        let mut keys: Vec<(String, u32)> = wide.into_iter().map(|key| (key, 1)).collect();
        if !body.is_null(job::limit_keys) {
            let weights = body.ints(job::limit_weights).into_iter().map(|weight| weight as u32);
            keys.extend(body.texts(job::limit_keys).into_iter().zip(weights.chain(std::iter::repeat(1))));
        }
        gates.pass(&Wishes { worker, keys, cost: budgets::cost_of(body) })
    }
}

struct Lease<'a> {
    owner: &'a str,
    token: Uuid,
    until: Micros,
}

/// A claimed job.
pub struct Held {
    job_id: Uuid,
    token: Uuid,
    kind: String,
    /// As its worker sees it, in the server's binary form of JSON.
    document: Vec<u8>,
}

fn new_token() -> Uuid {
    Uuid::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}

/// The lane was read up to this job: nothing is left before it.
fn raise(reading: &Reading, slots: &[Slot], last: &Place) {
    for slot in slots.iter().filter(|slot| slot.priority < last.priority) {
        reading.raise(slot.priority, Position::at(Micros::MAX));
    }
    reading.raise(last.priority, last.position());
}

fn document(body: &Scan<'_>, queue: &str, lease: &Lease<'_>, moment: &Moment) -> Vec<u8> {
    let id = body.id(job::job_id);
    let attempts = body.int(job::attempts);
    let (id_text, token) = (ids::text(id), ids::text(lease.token));
    let run_id = body.maybe_id(job::run_id).map(ids::text);
    let text = |column| body.maybe_bytes(column).map_or(Item::Null, Item::Text);
    let time = |column| json::moment(body.time(column));
    let (scheduled_at, created_at, until) = (time(job::scheduled_at), time(job::created_at), json::moment(lease.until));
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
        ("payload_ref", text(job::payload_ref)),
        ("max_attempts", body.int(job::max_attempts).into()),
        ("payload_json", Item::Container(body.bytes(job::payload_json))),
        ("scheduled_at", scheduled_at.item()),
        ("idempotency_key", body.maybe_bytes(job::idempotency_key).map_or(id_text.item(), Item::Text)),
    ];
    members.extend(finish_by.as_ref().map(|at| ("finish_by", at.item())));
    json::object(&mut members)
}

fn checkpoint(id: Uuid, moment: &Moment) -> Option<Vec<u8>> {
    let checkpoints = Table::open(&job_checkpoint::TABLE);
    let mut scan = Scan::by_id(&checkpoints, moment, c"job_checkpoint_pkey", id);
    scan.next().then(|| scan.bytes(job_checkpoint::checkpoint).to_vec())
}
