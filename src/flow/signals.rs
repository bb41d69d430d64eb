//! Signals: what a job waits for, and who tells it.
//!
//! A signal has a name and a key, and is taken by one wait; each wait takes one, the oldest first. Senders and waits of one
//! name and key lock its channel, so that a wait that found nothing and goes to sleep is always seen by the sender that
//! comes next. What a wait got is kept as a step of its job. Locks: for a wait the lease, the channel, the row of the step,
//! then what giving a job back takes; for a sender the channel, the row of the step, then the sleeping job if nobody has it.

use super::missions::step_waits;
use super::sleep::check_wait;
use super::step_rows::{self, Wanted};
use crate::base::actor::actor;
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::new_id;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required};
use crate::json::{self, Jsonb};
use crate::queue::answer;
use crate::queue::ends::dormant::{self, Woken};
use crate::queue::ends::lease;
use crate::queue::storage::LockedLease;
use crate::queue::storage::lock_against_rule_change;
use crate::server;
use crate::shared::process;
use agentq_core::jsonb::Item;
use agentq_core::reader::Reader;
use agentq_core::steps::{Inputs, LONGEST_NAME, Next, Options};
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::prelude::*;
use serde_json::json;

statements!("signals.sql": CHANNEL_LOCK, CHANNEL_FREE, SIGNAL_ADD, SIGNAL_KNOWN, SIGNAL_FORGET, SIGNAL_TAKE, SIGNAL_GIVE, SIGNAL_THERE, WAIT_REGISTER, WAIT_GONE, WAIT_OLDEST, STEP_IS_DONE);

/// Seconds for which a signal that nobody takes is kept, unless its sender says otherwise.
const KEPT_SECONDS: f64 = 604_800.0;
const LONGEST_SECONDS: f64 = 315_360_000.0;
/// A wait in the server holds a snapshot: seconds at most.
const LONGEST_IN_SERVER: f64 = 60.0;
const FIRST_PAUSE_US: i64 = 5_000;
const LONGEST_PAUSE_US: i64 = 100_000;

fn key_of(key: Option<&str>) -> Result<&str, Refusal> {
    let key = key.unwrap_or_default();
    if key.is_empty() { Ok(key) } else { input::name("p_key", key, LONGEST_NAME) }
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_signal_send(
    p_name: Option<&str>,
    p_key: default!(Option<&str>, "''"),
    p_payload: default!(Option<Jsonb>, "'{}'"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_signal_send: p_name, p_key, p_payload, p_options);
    answer::if_on(|rules| {
        let name = input::signal("p_name", required("p_name", p_name)).or_raise();
        let key = key_of(p_key).or_raise();
        let payload = p_payload.unwrap_or_else(Jsonb::empty_object);
        step_rows::check_size(rules, "p_payload", payload).or_raise();
        let (dedupe_key, ttl) = json::options(p_options, &["dedupe_key", "ttl"]).and_then(read_options).or_raise();
        db::answer(|db| {
            // A change of limits is waited for before anything else is locked: it may wait for a wait of this channel.
            lock_against_rule_change();
            db.run(&CHANNEL_LOCK, &[name.into(), key.into()]);
            let now = clock::now();
            if let Some(dedupe) = dedupe_key {
                db.run(&SIGNAL_FORGET, &[name.into(), key.into(), dedupe.into(), timestamp(now).into()]);
                let known = db.run(&SIGNAL_KNOWN, &[name.into(), key.into(), dedupe.into()]);
                if !known.is_empty() {
                    return Jsonb::from_value(json!({
                        "ok": true, "code": "duplicate", "duplicate": true, "name": name, "key": key,
                        "signal_id": known.must::<Uuid>("signal_id").to_string(),
                        "delivered_to": known.get::<Uuid>("taken_by").map(|job| job.to_string()),
                    }));
                }
            }
            let (id, job, expires_at) = add(db, (name, key), payload, dedupe_key, ttl, now);
            Jsonb::from_value(json!({
                "ok": true, "code": "sent", "duplicate": false, "signal_id": id.to_string(), "name": name, "key": key,
                "delivered_to": job.map(|job| job.to_string()), "expires_at": expires_at,
            }))
        })
    })
}

/// Adds a signal to a channel that is locked, and gives it to whoever has waited longest. Returns it, who got it, and until
/// when it is kept if nobody did.
fn add(
    db: &Db,
    (name, key): (&str, &str),
    payload: Jsonb,
    dedupe_key: Option<&str>,
    ttl: f64,
    now: Micros,
) -> (Uuid, Option<Uuid>, TimestampWithTimeZone) {
    let (id, by) = (new_id(), actor());
    let args = [
        id.into(),
        name.into(),
        key.into(),
        payload.into(),
        dedupe_key.into(),
        timestamp(now).into(),
        by.as_str().into(),
        ttl.into(),
    ];
    let expires_at: TimestampWithTimeZone = db.run(&SIGNAL_ADD, &args).only();
    let result = what_came(id, timestamp(now), &by, payload);
    (id, deliver(db, name, key, id, result, now), expires_at)
}

/// Sends a signal for this room, which is kept for as long as a signal can be. The caller must have called
/// `lock_against_rule_change` before.
pub fn send(db: &Db, name: &str, key: &str, payload: Jsonb, now: Micros) {
    db.run(&CHANNEL_LOCK, &[name.into(), key.into()]);
    add(db, (name, key), payload, None, LONGEST_SECONDS, now);
}

fn read_options(options: Reader<'_>) -> Result<(Option<&str>, f64), Refusal> {
    let ttl = options.member("ttl").hint("For example: {\"ttl\": 3600}.").seconds(1.0..=LONGEST_SECONDS)?;
    Ok((options.member("dedupe_key").name(LONGEST_NAME)?, ttl.unwrap_or(KEPT_SECONDS)))
}

/// What is kept of a signal in the step of the wait that got it.
fn what_came(id: Uuid, sent_at: TimestampWithTimeZone, sent_by: &str, payload: Jsonb) -> Jsonb {
    let known = json!({"signal_id": id.to_string(), "sent_at": sent_at, "sent_by": sent_by});
    Jsonb::from_value(known).with("payload", payload)
}

/// Gives a signal to the job or the step that has waited longest, and wakes it. None: nobody waits.
fn deliver(db: &Db, name: &str, key: &str, id: Uuid, result: Jsonb, now: Micros) -> Option<Uuid> {
    loop {
        if let Some(step) = step_waits::give(db, name, key, result, now) {
            db.run(&SIGNAL_GIVE, &[id.into(), step.into(), timestamp(now).into(), false.into()]);
            free_channel(db, name, key);
            return Some(step);
        }
        let row = db.run(&WAIT_OLDEST, &[name.into(), key.into()]);
        if row.is_empty() {
            return None;
        }
        // One that has been cancelled, or has ended otherwise, waits no longer.
        if !row.must::<bool>("is_alive") {
            continue;
        }
        let (job_id, step, occurrence): (Uuid, String, i32) =
            (row.must("job_id"), row.must("step"), row.must("occurrence"));
        step_rows::end(db, job_id, &step, occurrence, Ok(Some(result)), now);
        let busy = dormant::wake(db, job_id, now) == Woken::Busy;
        db.run(&SIGNAL_GIVE, &[id.into(), job_id.into(), timestamp(now).into(), busy.into()]);
        free_channel(db, name, key);
        return Some(job_id);
    }
}

/// Takes the oldest signal for a step of a mission, which keeps what was sent. None: there is none, and senders see the step
/// from now on, as it has the channel.
pub fn take_for_step(db: &Db, name: &str, key: &str, step: Uuid, now: Micros) -> Option<Jsonb> {
    db.run(&CHANNEL_LOCK, &[name.into(), key.into()]);
    let came = take(db, name, key, step, now)?;
    free_channel(db, name, key);
    Some(came)
}

/// Takes the oldest signal of a channel that is locked.
fn take(db: &Db, name: &str, key: &str, by: Uuid, now: Micros) -> Option<Jsonb> {
    let taken = db.run(&SIGNAL_TAKE, &[name.into(), key.into(), timestamp(now).into(), by.into()]);
    let came = || {
        let by: String = taken.must("sent_by");
        what_came(taken.must("signal_id"), taken.must("sent_at"), &by, taken.must("payload"))
    };
    (!taken.is_empty()).then(came)
}

/// Removes a channel on which nothing is sent and nobody waits.
pub fn free_channel(db: &Db, name: &str, key: &str) {
    db.run(&CHANNEL_FREE, &[name.into(), key.into()]);
}

/// A wait that a holder asks for.
pub struct Wait<'a> {
    pub name: &'a str,
    pub key: &'a str,
    pub step: &'a str,
    pub timeout_us: Option<i64>,
}

/// Who asks for it.
pub struct Holder<'a> {
    pub job_id: Uuid,
    pub owner: &'a str,
    pub token: Option<Uuid>,
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_signal_wait(
    p_job_id: Option<Uuid>,
    p_lease_owner: Option<&str>,
    p_name: Option<&str>,
    p_key: default!(Option<&str>, "''"),
    p_timeout: default!(Option<Interval>, "NULL"),
    p_lease_token: default!(Option<Uuid>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
) -> Jsonb {
    bounded!(fn_signal_wait: p_lease_owner, p_name, p_key, p_options);
    answer::if_on(|_| {
        let job_id = required("p_job_id", p_job_id);
        let owner = required("p_lease_owner", p_lease_owner);
        let name = input::signal("p_name", required("p_name", p_name)).or_raise();
        let key = key_of(p_key).or_raise();
        let timeout_us = p_timeout.map(|wait| check_wait("p_timeout", &wait).or_raise());
        let accepted = ["index", "repeat", "ordered", "step", "wait_seconds"];
        let given = json::options(p_options, &accepted).or_raise();
        let options = Options::read(&given, &accepted).or_raise();
        let in_server = given.member("wait_seconds").seconds(0.0..=LONGEST_IN_SERVER).or_raise();
        let step = match given.member("step").name(LONGEST_NAME).or_raise() {
            None if key.is_empty() => format!("signal {name}"),
            None => format!("signal {name}/{key}"),
            Some(step) => step.to_owned(),
        };
        let wait = Wait { name, key, step: &step, timeout_us };
        let holder = Holder { job_id, owner, token: p_lease_token };
        db::answer(|db| wait.ask(db, &holder, &options, in_server.map(|seconds| (seconds * 1e6) as i64)))
    })
}

impl Wait<'_> {
    /// Takes what has come, or puts the job to rest until it comes. `in_server_us`: it first waits for so long with the
    /// job held.
    pub fn ask(&self, db: &Db, holder: &Holder<'_>, options: &Options, in_server_us: Option<i64>) -> Jsonb {
        let Holder { job_id, owner, token } = *holder;
        let lost = || answer::lease_lost(db, job_id, Some(owner), token);
        // Nothing is locked while it looks: a cancel does not wait for it.
        let Some(own) = lease::token_of(db, job_id, owner, token) else { return lost() };
        let about = json::object(&mut [("signal", self.name.into()), ("key", self.key.into())]);
        let inputs = Inputs::of(Item::Container(&about));
        let until = self.timeout_us.map(|wait| clock::now() + wait);
        let wanted = Wanted { job_id, token: own, name: self.step, kind: "signal", inputs: &inputs, options, until };
        let occurrence = wanted.occurrence(db);
        if let Some(micros) = in_server_us {
            self.look(db, job_id, occurrence, micros);
        }
        match LockedLease::lock(db, job_id, Some(owner), Some(own)) {
            Some(held) => self.run(db, &held, &wanted, occurrence),
            None => lost(),
        }
    }

    /// Whether what is waited for has come. Locks nothing.
    fn has_come(&self, db: &Db, job_id: Uuid, occurrence: i32) -> bool {
        let now = timestamp(clock::now());
        self.is_over(db, job_id, occurrence)
            || !db.run(&SIGNAL_THERE, &[self.name.into(), self.key.into(), now.into()]).is_empty()
    }

    fn is_over(&self, db: &Db, job_id: Uuid, occurrence: i32) -> bool {
        !db.run(&STEP_IS_DONE, &[job_id.into(), self.step.into(), occurrence.into()]).is_empty()
    }

    /// Looks again and again, for so long, until it has come.
    fn look(&self, db: &Db, job_id: Uuid, occurrence: i32, wait_us: i64) {
        let wait_us = self.timeout_us.map_or(wait_us, |timeout| timeout.min(wait_us));
        let deadline = clock::real_now() + wait_us;
        let mut pause = FIRST_PAUSE_US;
        // With one snapshot for the whole transaction nothing new would ever be seen.
        while !server::has_fixed_snapshot() && !self.has_come(db, job_id, occurrence) {
            let left = deadline - clock::real_now();
            if left <= 0 {
                return;
            }
            process::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE_US);
        }
    }

    fn run(&self, db: &Db, held: &LockedLease, wanted: &Wanted<'_>, occurrence: i32) -> Jsonb {
        let job_id = wanted.job_id;
        // What was got before is given again, and needs no channel.
        if !self.is_over(db, job_id, occurrence) {
            db.run(&CHANNEL_LOCK, &[self.name.into(), self.key.into()]);
        }
        let now = clock::now();
        let (next, step) = wanted.begin(db, occurrence, now);
        if next != Next::Run {
            return self.answer(held, occurrence, step.result, true);
        }
        if let Some(result) = take(db, self.name, self.key, job_id, now) {
            return self.end(db, held, occurrence, result, now);
        }
        if step.until.is_some_and(|until| until <= now) {
            return self.end(db, held, occurrence, Jsonb::from_value(json!({"timed_out": true})), now);
        }
        let args = [
            job_id.into(),
            self.name.into(),
            self.key.into(),
            self.step.into(),
            occurrence.into(),
            timestamp(now).into(),
        ];
        db.run(&WAIT_REGISTER, &args);
        self.rest(db, held, step.until, occurrence, now)
    }

    /// Puts the job to sleep until a signal or its time comes.
    fn rest(&self, db: &Db, held: &LockedLease, until: Option<Micros>, occurrence: i32, now: Micros) -> Jsonb {
        let of = if self.key.is_empty() { String::new() } else { format!(" with the key {}", self.key) };
        let why = json!({"gate": "signal", "message": format!("it waits for the signal {}{of}", self.name),
            "signal": self.name, "key": self.key, "step": self.step,
            "hint": "Send it with fn_signal_send."});
        if let Some(cancelled) = dormant::rest_until(db, held, "waiting", until.unwrap_or(dormant::FOR_EVER), why, now)
        {
            db.run(&WAIT_GONE, &[held.place.job_id.into()]);
            return cancelled;
        }
        Jsonb::from_value(json!({
            "ok": true, "code": "waiting", "job_id": held.place.job_id.to_string(), "state": "queued",
            "name": self.name, "key": self.key, "step": self.step, "occurrence": occurrence,
            "until": until.map(timestamp),
            "message": "nothing has come yet, and the job is no longer held: stop working on it",
        }))
    }

    fn end(&self, db: &Db, held: &LockedLease, occurrence: i32, result: Jsonb, now: Micros) -> Jsonb {
        let job_id = held.place.job_id;
        step_rows::end(db, job_id, self.step, occurrence, Ok(Some(result)), now);
        db.run(&WAIT_GONE, &[job_id.into()]);
        free_channel(db, self.name, self.key);
        self.answer(held, occurrence, Some(result), false)
    }

    fn answer(&self, held: &LockedLease, occurrence: i32, result: Option<Jsonb>, again: bool) -> Jsonb {
        let result = result.unwrap_or_else(Jsonb::empty_object);
        let timed_out = result.has_key("timed_out");
        let answer = Jsonb::from_value(json!({
            "ok": true, "code": if timed_out { "timed_out" } else { "received" },
            "job_id": held.place.job_id.to_string(), "name": self.name, "key": self.key, "step": self.step,
            "occurrence": occurrence, "again": again, "cancel_requested": held.cancel_requested,
        }));
        answer.merged(result.without("timed_out"))
    }
}
