//! Schedules: jobs that are enqueued again and again, at the times of a cron rule.
//!
//! To fire a slot, one transaction locks the schedule, enqueues its job and moves the schedule on to the next slot: no
//! slot can be fired twice, and none is lost to a crash.

use super::starters::{self, Slot};
use crate::base::bounds::bounded;
use crate::base::clock::{self, Micros, timestamp};
use crate::base::ids::parse_id;
use crate::db::{self, Budget, Db, statements};
use crate::error::{OrRaise, raise, required};
use crate::events;
use crate::json::Jsonb;
use crate::memory;
use crate::queue::intake::batch;
use crate::queue::rules::Rulebook;
use crate::queue::storage::marks::wake_all_at_commit;
use agentq_core::input;
use agentq_core::schedule::{Missed, Rule};
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::json;
use std::time::{Duration, Instant};

statements!("schedules.sql": SCHEDULE_SET, SCHEDULE_PAUSE, SCHEDULE_REMOVE, SCHEDULE_RULE, SCHEDULES_DUE, SCHEDULE_FIRED, SCHEDULE_NEXT, IS_UNFINISHED);

/// Slots that a backfill fires in one transaction.
const SLOTS_AT_ONCE: usize = 100;
/// A turn that has fired for this long leaves the other schedules to the next turn, and one schedule its other slots.
const TURN: Duration = Duration::from_millis(1_000);
const LONGEST: Duration = Duration::from_millis(500);

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_schedule_set(
    p_schedule: Option<&str>,
    p_cron: Option<&str>,
    p_job: Option<Jsonb>,
    p_timezone: default!(Option<&str>, "'UTC'"),
    p_missed: default!(Option<&str>, "'once'"),
    p_overlap: default!(Option<bool>, "true"),
) -> Jsonb {
    bounded!(fn_schedule_set: p_schedule, p_cron, p_job, p_timezone, p_missed);
    let name = input::name("p_schedule", required("p_schedule", p_schedule), input::LONGEST_NAME).or_raise();
    let (cron, timezone) = (required("p_cron", p_cron), p_timezone.unwrap_or("UTC"));
    let rule = Rule::parse(cron, timezone).or_raise();
    let missed = Missed::parse(p_missed.unwrap_or("once")).or_raise();
    let job = required("p_job", p_job);
    check_job(job);
    let now = clock::now();
    let next = rule.next_after(now).map(timestamp);
    wake_all_at_commit();
    db::answer(|db| {
        let args = [
            name.into(),
            cron.into(),
            job.into(),
            timezone.into(),
            missed.name().into(),
            p_overlap.unwrap_or(true).into(),
            next.into(),
            timestamp(now).into(),
        ];
        db.run(&SCHEDULE_SET, &args).only()
    })
}

/// A job of a schedule keeps the rules of an enqueue. Its time and its key are the schedule's affair.
fn check_job(job: Jsonb) {
    let at = job.reader("p_job").or_raise();
    if let Some(starter) = if at.is_object() { starters::of(&at).or_raise() } else { None } {
        return (starter.check)(&at).or_raise();
    }
    for key in ["scheduled_at", "idempotency_key"] {
        if job.has_key(key) {
            raise(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("p_job must not have {key}: every job of a schedule gets its own"),
                "Leave it out.",
            )
        }
    }
    batch::check(&Rulebook::current(), job).or_raise();
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_schedule_pause(p_schedule: Option<&str>) -> Jsonb {
    bounded!(fn_schedule_pause: p_schedule);
    pause(required("p_schedule", p_schedule), true)
}

/// Slots that passed meanwhile were not missed: they were not wanted.
#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_schedule_resume(p_schedule: Option<&str>) -> Jsonb {
    bounded!(fn_schedule_resume: p_schedule);
    pause(required("p_schedule", p_schedule), false)
}

fn pause(name: &str, paused: bool) -> Jsonb {
    let now = clock::now();
    wake_all_at_commit();
    db::answer(|db| {
        let row = db.run(&SCHEDULE_RULE, &[name.into()]);
        if row.is_empty() {
            unknown(name)
        }
        let (cron, timezone): (String, String) = (row.must("cron"), row.must("timezone"));
        let next = Rule::parse(&cron, &timezone).or_raise().next_after(now).map(timestamp);
        db.run(&SCHEDULE_PAUSE, &[name.into(), paused.into(), next.into(), timestamp(now).into()]).only()
    })
}

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_schedule_remove(p_schedule: Option<&str>) -> Jsonb {
    bounded!(fn_schedule_remove: p_schedule);
    let name = required("p_schedule", p_schedule);
    db::answer(|db| {
        let row = db.run(&SCHEDULE_REMOVE, &[name.into()]);
        if row.is_empty() {
            unknown(name)
        }
        row.only()
    })
}

fn unknown(name: &str) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
        format!("there is no schedule \"{}\"", agentq_core::error::shown(name)),
        "The schedules are in agentq.v_schedule; make one with agentq.fn_schedule_set.",
    )
}

/// The times at which a rule fires next.
#[pg_extern(stable, parallel_safe)]
fn fn_schedule_upcoming(
    p_cron: Option<&str>,
    p_timezone: default!(Option<&str>, "'UTC'"),
    p_count: default!(Option<i32>, "5"),
    p_after: default!(Option<TimestampWithTimeZone>, "NULL"),
) -> Vec<TimestampWithTimeZone> {
    bounded!(fn_schedule_upcoming: p_cron, p_timezone);
    let rule = Rule::parse(required("p_cron", p_cron), p_timezone.unwrap_or("UTC")).or_raise();
    let after = p_after.map_or_else(clock::now, |at| at.into_inner());
    let count = p_count.unwrap_or(5).clamp(0, 1000) as usize;
    rule.upcoming(after, count).into_iter().map(timestamp).collect()
}

struct Due {
    name: String,
    cron: String,
    timezone: String,
    job: Jsonb,
    missed: String,
    overlap: bool,
    next_fire_at: Micros,
    last_job_id: Option<Uuid>,
}

/// Fires what is due; returns how many jobs were enqueued, and when the next slot comes.
pub fn fire_due(now: Micros) -> (i64, Option<Micros>) {
    db::connect(|db| {
        let mut due = Vec::new();
        let mut budget = Budget::of_a_turn();
        db.walk(&SCHEDULES_DUE, &[timestamp(now).into(), db::PutOff::current(&LEFT).into()], |row| {
            let job = row.must::<Jsonb>("job").copied();
            due.push(Due {
                name: row.must("schedule"),
                cron: row.must("cron"),
                timezone: row.must("timezone"),
                job,
                missed: row.must("missed"),
                overlap: row.must("overlap"),
                next_fire_at: row.must::<TimestampWithTimeZone>("next_fire_at").into_inner(),
                last_job_id: row.get("last_job_id"),
            });
            budget.take(job.size())
        });
        let (patience, began) = (db::Patience::of_a_turn(), Instant::now());
        // Those that the time does not suffice for are due still, and come first in the next turn.
        let in_time = due.iter().take_while(|_| began.elapsed() < TURN);
        let fire = |schedule| memory::given_back(|| fire_or_report(db, schedule, now, &patience));
        let fired = in_time.map(fire).sum();
        let next = db.run(&SCHEDULE_NEXT, &[]).maybe_only::<TimestampWithTimeZone>().map(|at| at.into_inner());
        (fired, next)
    })
}

// Schedules whose jobs could not be enqueued because somebody had their key in hand.
thread_local!(static LEFT: db::PutOff<String> = db::PutOff::new());

/// Fires a schedule. One whose job is not accepted any more is reported and goes on with its next
/// slot, or, if it has none, is paused; it keeps no other from firing. One whose key somebody has in hand fires a little
/// later.
fn fire_or_report(db: &Db, schedule: &Due, now: Micros, patience: &db::Patience) -> i64 {
    patience.attempt(|| fire(db, schedule, now)).unwrap_or_else(|error| {
        if error.is_in_the_way() {
            db::PutOff::add(&LEFT, schedule.name.clone());
            return 0;
        }
        let next = Rule::parse(&schedule.cron, &schedule.timezone).ok().and_then(|rule| rule.next_after(now));
        let name = schedule.name.as_str();
        warning!("agentq: schedule \"{name}\" could not fire: {}", error.message);
        events::emit(db, "schedule.failed", name, json!({"error": error.message}), now);
        match next {
            Some(next) => {
                let args = [
                    name.into(),
                    timestamp(next).into(),
                    None::<TimestampWithTimeZone>.into(),
                    schedule.last_job_id.into(),
                    0_i64.into(),
                    0_i64.into(),
                ];
                db.run(&SCHEDULE_FIRED, &args);
            }
            None => {
                let none = None::<TimestampWithTimeZone>;
                db.run(&SCHEDULE_PAUSE, &[name.into(), true.into(), none.into(), timestamp(now).into()]);
            }
        }
        0
    })
}

fn fire(db: &Db, schedule: &Due, now: Micros) -> i64 {
    let rule = Rule::parse(&schedule.cron, &schedule.timezone).or_raise();
    let missed = Missed::parse(&schedule.missed).or_raise();
    let firing = rule.due(schedule.next_fire_at, now, missed, SLOTS_AT_ONCE);
    let mut last_job = schedule.last_job_id;
    let (mut fired, mut skipped) = (0, 0);
    let at = schedule.job.reader("the schedule").or_raise();
    let given = schedule.job.parse("the schedule").or_raise();
    let starter = starters::of(&at).or_raise();
    let is_open = |id: Uuid| match &starter {
        Some(starter) => (starter.is_open)(db, id),
        None => db.run(&IS_UNFINISHED, &[id.into()]).only::<bool>(),
    };
    let began = Instant::now();
    let mut next = firing.next;
    let mut last_slot = None;
    for slot in &firing.slots {
        // One that has many slots to make up for leaves the rest to its next turn.
        if last_slot.is_some() && began.elapsed() > LONGEST {
            next = Some(*slot);
            break;
        }
        last_slot = Some(timestamp(*slot));
        let busy = !schedule.overlap && last_job.is_some_and(is_open);
        if busy {
            skipped += 1;
            continue;
        }
        if let Some(starter) = &starter {
            let slot = Slot { schedule: &schedule.name, at: *slot };
            last_job = (starter.start)(db, &at, &slot, now).or_raise().or(last_job);
            fired += 1;
            continue;
        }
        let mut job = given.clone();
        job["scheduled_at"] = json!(timestamp(*slot));
        if job["source_ref"].is_null() {
            job["source_ref"] = json!(format!("schedule:{}", schedule.name));
        }
        let answer = batch::enqueue(
            &Rulebook::current(),
            Jsonb::from_value(json!([job])),
            batch::Options { all_or_nothing: true, ids: false },
        );
        let answer = answer.parse("the answer").or_raise();
        if answer["ok"] != json!(true) {
            raise(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("schedule \"{}\": {}", schedule.name, answer["jobs"][0]["reason"]),
                "Set the schedule again with a job that is accepted, or remove it.",
            )
        }
        last_job = answer["jobs"][0]["job_id"].as_str().and_then(parse_id);
        fired += 1;
    }
    let next = next.map(timestamp);
    let args =
        [schedule.name.as_str().into(), next.into(), last_slot.into(), last_job.into(), fired.into(), skipped.into()];
    db.run(&SCHEDULE_FIRED, &args);
    fired
}
