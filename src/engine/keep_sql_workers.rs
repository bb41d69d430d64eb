//! Looks after the SQL workers: says whether any are needed, ticks for those at work, and ends the
//! attempt of one that died.

use super::sql_worker::{end_of_the_dead, executor_name};
use crate::base::clock;
use crate::db;
use crate::queue::admin::{executors, handlers};
use crate::queue::answer;
use crate::room::Outcome;
use crate::server::my_database;
use crate::shared::is_preloaded;
use crate::shared::seats::{self, SqlSeat};
use pgrx::Uuid;
use pgrx::prelude::*;

pub fn keep() -> Outcome {
    let needed = db::connect(|db| !handlers::all(db).is_empty());
    let Some((seats, launcher)) = is_preloaded()
        .then(|| {
            seats::with(|all| {
                let launcher = all.launcher;
                all.find(my_database()).map(|seat| {
                    let changed = std::mem::replace(&mut seat.has_handlers, needed) != needed;
                    (seat.sql, changed.then_some(launcher))
                })
            })
        })
        .flatten()
    else {
        return Outcome::rows(0);
    };
    if let Some(launcher) = launcher {
        launcher.wake();
    }
    // Anybody may tick under the name of one of them, and not commit.
    let (mut rows, patience) = (0, db::Patience::of_a_turn());
    for (number, sql) in seats.iter().enumerate() {
        let done = if sql.process.is_alive() {
            patience.attempt(|| tick(number, sql))
        } else if let Some(job) = sql.job {
            patience.attempt(|| bury(number, Uuid::from_bytes(job), Uuid::from_bytes(sql.token)))
        } else {
            continue;
        };
        match done {
            Ok(()) => rows += 1,
            Err(error) => log!("agentq: SQL worker {} is looked after later: {error}", number + 1),
        }
    }
    Outcome::rows(rows)
}

fn tick(number: usize, sql: &SqlSeat) {
    let job = sql.job.map(Uuid::from_bytes);
    executors::tick_for(&executor_name(number), "PG_worker", job, clock::now());
}

fn bury(number: usize, job: Uuid, token: Uuid) {
    if db::connect(|db| answer::state_of(db, job)).is_some() {
        end_of_the_dead(&executor_name(number), job, token);
    }
    seats::with_seat(my_database(), |seat| seat.sql[number].job = None);
}
