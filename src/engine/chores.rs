//! The chores of all rooms, in the order in which one turn of the engine runs them; how often each runs, and how it went.

use super::{expire, keep_sql_workers};
use crate::base::clock::{Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statements};
use crate::room::{self, Chore, Outcome, Stage, Wakes};
use pgrx::prelude::*;
use std::sync::OnceLock;

statements!("chores.sql": CHORE_SETTINGS, CHORE_RECORD);

pub static OF_THE_ENGINE: &[&Chore] = &[&KEEP_SQL_WORKERS, &EXPIRE];

static KEEP_SQL_WORKERS: Chore = Chore {
    name: "keep_sql_workers",
    about: "Gives a sign of life for each SQL worker, and recovers the job of one that died.",
    every_us: 10_000_000,
    stage: Stage::Work,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: keep_sql_workers::keep,
};

static EXPIRE: Chore = Chore {
    name: "expire",
    about: "Removes metrics, windows of throttled keys, results of actions and signals whose expires_at has passed.",
    every_us: 60_000_000,
    stage: Stage::Tidy,
    moves_jobs: false,
    wakes_on: Wakes::Time,
    run: expire::expire,
};

/// The chores of all rooms, by stage.
pub fn all() -> &'static [&'static Chore] {
    static ALL: OnceLock<Vec<&'static Chore>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut chores: Vec<&Chore> = room::all().iter().flat_map(|room| room.chores).copied().collect();
        chores.sort_by_key(|chore| chore.stage);
        chores
    })
}

/// The chores as the library knows them; the table takes their settings from here.
#[pg_extern(schema = "agentq_internal", immutable, parallel_safe)]
fn fn_engine_chore_defaults()
-> TableIterator<'static, (name!(chore, &'static str), name!(every_seconds, f64), name!(about, &'static str))> {
    TableIterator::new(all().iter().map(|chore| (chore.name, chore.every_us as f64 / 1e6, chore.about)))
}

/// Whether a chore has to rest, because the queue is switched off.
pub fn rests(chore: &Chore) -> bool {
    chore.moves_jobs && !Settings::current().substrate_enabled
}

/// Microseconds between two runs of a chore. None: an operator has switched it off, or it rests.
pub fn settings_of(chore: &Chore) -> Option<i64> {
    if rests(chore) {
        return None;
    }
    db::connect(|db| {
        let row = db.run(&CHORE_SETTINGS, &[chore.name.into()]);
        if row.is_empty() {
            return Some(chore.every_us);
        }
        let seconds: f64 = row.must("every_seconds");
        row.must::<bool>("enabled").then_some((seconds * 1e6) as i64)
    })
}

/// Writes down how a run went.
pub fn record(chore: &str, result: &Result<Outcome, String>, began: Micros, ended: Micros, next: Micros) {
    let seconds = (ended - began) as f64 / 1e6;
    let rows = result.as_ref().ok().map(|outcome| outcome.rows);
    let error = result.as_ref().err().map(String::as_str);
    db::connect(|db| {
        let (began, ended, next) = (timestamp(began), timestamp(ended), timestamp(next));
        let args = [chore.into(), began.into(), seconds.into(), rows.into(), error.into(), ended.into(), next.into()];
        db.run(&CHORE_RECORD, &args);
    });
}
