//! What the engine does to missions, one in a transaction.
//!
//! It fails those whose time is over, cancels those inside a mission that was stopped, cancels jobs that could not be
//! cancelled when their mission was stopped, keeps jobs of paused ones from running, and removes old missions.

use super::ended::EndedSteps;
use super::stop::{self, Why};
use super::{counts, finalize, pause};
use crate::base::clock::{self, timestamp};
use crate::db::{self, Db, statements};
use crate::queue::rules::Rulebook;
use crate::queue::storage::lock_against_rule_change;
use crate::room::Outcome;
use agentq_core::mission::status::CountState;
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("maintain.sql": MISSIONS_LATE, MISSIONS_ORPHANED, MISSIONS_STOPPING, MISSIONS_PURGE);

// Missions that could not be tended because somebody had them locked, or a hook failed.
thread_local!(static LEFT: db::PutOff<[u8; 16]> = db::PutOff::new());

/// Runs `work` for the first of these for which it succeeds: one that somebody has locked, or whose hook fails, keeps no
/// other from it. False: it succeeded for none.
fn first_of<T>(all: Vec<(Uuid, T)>, patience: &db::Patience, work: impl Fn(&Db, Uuid, &T)) -> bool {
    all.iter().any(|(mission, one)| {
        let done = patience.attempt(|| db::connect(|db| work(db, *mission, one)));
        done.inspect_err(|error| {
            log!("agentq: mission {mission} is left for later: {}", error.message);
            db::PutOff::add(&LEFT, *mission.as_bytes());
        })
        .is_ok()
    })
}

/// Does what is due for one mission, or for a few.
pub fn maintain() -> Outcome {
    let (now, keep_seconds) = (clock::now(), Rulebook::current().keep_seconds);
    db::connect(|db| {
        let patience = db::Patience::of_a_turn();
        let left = || -> Vec<Uuid> { db::PutOff::current(&LEFT).into_iter().map(Uuid::from_bytes).collect() };
        let mut late: Vec<(Uuid, String)> = Vec::new();
        db.run(&MISSIONS_LATE, &[timestamp(now).into(), left().into()]).each(|row| {
            late.push((row.must("mission_id"), row.must::<TimestampWithTimeZone>("deadline_at").to_iso_string()))
        });
        let fail = |db: &Db, mission: Uuid, deadline: &String| {
            let error = format!("not ended by {deadline}, as its time-out asked");
            stop::stop(db, mission, &Why::Fail { error: &error }, now);
        };
        if first_of(late, &patience, fail) {
            return Outcome::and_more(1, true);
        }
        let mut orphans: Vec<(Uuid, ())> = Vec::new();
        db.run(&MISSIONS_ORPHANED, &[left().into()]).each(|row| orphans.push((row.only(), ())));
        let cancel = |db: &Db, mission: Uuid, (): &()| {
            let why = Why::Cancel { reason: Some("the mission around it was stopped"), by: "agentq", mode: None };
            stop::stop(db, mission, &why, now);
        };
        if first_of(orphans, &patience, cancel) {
            return Outcome::and_more(1, true);
        }
        let mut stopping: Vec<(Uuid, Option<String>)> = Vec::new();
        db.run(&MISSIONS_STOPPING, &[left().into()]).each(|row| {
            let why = || row.get::<String>("cancel_reason").unwrap_or_else(|| stop::CANCELLED.to_owned());
            stopping.push((row.must("owner_id"), row.must::<bool>("is_cancelled").then(why)));
        });
        let take_back = |db: &Db, mission: Uuid, cancelled: &Option<String>| {
            lock_against_rule_change();
            cancelled.iter().for_each(|why| stop::tell_holders(db, mission, why));
            counts::set_state(db, mission, CountState::Stopping, &[CountState::Stopping]);
            if stop::take_back(db, mission, "the mission was stopped", now) {
                EndedSteps::settle(db, finalize::finalize(db, mission, now), now);
            }
        };
        let taken_back = i64::from(first_of(stopping, &patience, take_back));
        let went_on = patience.attempt(|| db::connect(|db| pause::go_on(db, now)));
        went_on.unwrap_or_else(|error| log!("agentq: paused missions are left for later: {}", error.message));
        let before = timestamp(now - keep_seconds * 1_000_000);
        let removed: i64 = db.run(&MISSIONS_PURGE, &[before.into(), 20_i64.into()]).only();
        Outcome::and_more(taken_back + removed, removed == 20)
    })
}
