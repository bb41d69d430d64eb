//! The chores: one file each, one transaction each, one schedule each.

pub mod check_executors;
pub mod clean_effects;
pub mod clean_finished;
pub mod clean_flow;
pub mod clean_governance;
pub mod enforce_deadlines;
pub mod expire;
pub mod keep_partitions;
pub mod keep_sql_workers;
pub mod measure;
pub mod notify;
pub mod promote_due;
pub mod propose;
pub mod react;
pub mod reap_leases;
pub mod run_schedules;
pub mod seal_events;
pub mod tend_limits;
pub mod tend_missions;
pub mod watch_pressure;
pub mod watch_routing;

use crate::base::clock::{Micros, timestamp};
use crate::db::{self, statement};
use pgrx::prelude::*;
use std::ffi::CStr;

statement!(CHORE_SETTINGS, "../sql/chore_settings.sql", [TEXTOID]);
statement!(
    CHORE_RECORD,
    "../sql/chore_record.sql",
    [TEXTOID, TIMESTAMPTZOID, FLOAT8OID, INT8OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID]
);

/// Something the engine does again and again.
pub struct Chore {
    pub name: &'static str,
    /// What pg_stat_activity shows meanwhile.
    pub activity: &'static CStr,
    pub about: &'static str,
    /// Microseconds from one run to the next, unless an operator or the outcome says otherwise.
    pub every_us: i64,
    pub run: fn() -> Outcome,
}

/// What a run did, and when the next one is due.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    /// Rows that were changed.
    pub rows: i64,
    pub next: Next,
}

#[derive(Clone, Copy, Default)]
pub enum Next {
    /// After the usual time.
    #[default]
    AsUsual,
    /// At once: there is more to do.
    AtOnce,
    /// At this moment, or after the usual time if that is earlier.
    At(Micros),
}

impl Outcome {
    pub fn rows(rows: i64) -> Outcome {
        Outcome { rows, next: Next::AsUsual }
    }

    pub fn next_at(self, began: Micros, every_us: i64) -> Micros {
        match self.next {
            Next::AsUsual => began + every_us,
            Next::AtOnce => began,
            // A moment that has passed, and nothing was done: someone is in the way.
            Next::At(at) if at <= began && self.rows == 0 => began + 1_000_000,
            Next::At(at) => at.min(began + every_us),
        }
    }
}

pub static CHORES: &[&Chore] = &[
    &reap_leases::CHORE,
    &promote_due::CHORE,
    &enforce_deadlines::CHORE,
    &run_schedules::CHORE,
    &keep_sql_workers::CHORE,
    &check_executors::CHORE,
    &clean_finished::CHORE,
    &clean_effects::CHORE,
    &expire::CHORE,
    &measure::CHORE,
    &watch_pressure::CHORE,
    &tend_limits::CHORE,
    &watch_routing::CHORE,
    &seal_events::CHORE,
    &react::CHORE,
    &propose::CHORE,
    &keep_partitions::CHORE,
    &tend_missions::CHORE,
    &clean_flow::CHORE,
    &clean_governance::CHORE,
];

/// Chores that read the log: due at once when events have been sealed.
pub static READ_THE_LOG: &[&str] = &["react"];

/// The chores as the library knows them; the table takes their settings from here.
#[pg_extern(immutable, parallel_safe)]
fn fn_engine_chore_defaults()
-> TableIterator<'static, (name!(chore, &'static str), name!(every_seconds, f64), name!(about, &'static str))> {
    TableIterator::new(CHORES.iter().map(|chore| (chore.name, chore.every_us as f64 / 1e6, chore.about)))
}

/// Microseconds between two runs of a chore. None: an operator has switched it off.
pub fn settings_of(chore: &Chore) -> Option<i64> {
    db::connect(|db| {
        let row = db.run(&CHORE_SETTINGS, &[chore.name.into()]);
        if row.is_empty() {
            return Some(chore.every_us);
        }
        let seconds: f64 = row.must(1);
        row.must::<bool>(2).then_some((seconds * 1e6) as i64)
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
