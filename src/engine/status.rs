//! What the engine is doing, as the views show it.

use super::{chores, settings};
use crate::base::clock::timestamp;
use crate::queue::waking::waiters;
use crate::server::{is_on_standby, my_database};
use crate::shared::is_preloaded;
use crate::shared::seats::{self, State};
use pgrx::prelude::*;

/// The last run of each chore in this database, as the engine remembers it.
#[pg_extern(schema = "agentq_internal", volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity, reason = "the columns of the table")]
fn fn_engine_live() -> TableIterator<
    'static,
    (
        name!(chore, String),
        name!(last_run_at, TimestampWithTimeZone),
        name!(next_run_at, TimestampWithTimeZone),
        name!(last_seconds, f64),
        name!(last_rows, i64),
        name!(runs, i64),
        name!(failures, i32),
    ),
> {
    let live = seats::with_seat(my_database(), |seat| seat.chores);
    let rows =
        chores::all().iter().zip(live.into_iter().flatten()).filter(|(_, live)| live.runs > 0).map(|(chore, live)| {
            (
                chore.name.to_owned(),
                timestamp(live.last_run_at),
                timestamp(live.next_run_at),
                live.micros as f64 / 1e6,
                live.rows,
                live.runs,
                live.failures,
            )
        });
    TableIterator::new(rows.collect::<Vec<_>>())
}

/// How the engine of this database stands.
#[pg_extern(schema = "agentq_internal", volatile, security_definer)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity, reason = "the columns of the table")]
fn fn_engine_state() -> TableIterator<
    'static,
    (
        name!(mode, String),
        name!(launcher_pid, Option<i32>),
        name!(worker_pid, Option<i32>),
        name!(started_at, Option<TimestampWithTimeZone>),
        name!(restarts, i32),
        name!(retry_at, Option<TimestampWithTimeZone>),
        name!(trouble, Option<String>),
        name!(waiting_claims, i32),
        name!(sql_workers, i32),
        name!(sql_workers_busy, i32),
    ),
> {
    let launcher = is_preloaded().then(|| seats::with(|seats| seats.launcher.pid)).filter(|pid| *pid != 0);
    let seat = seats::with_seat(my_database(), |seat| *seat);
    let running = seat.filter(|seat| seat.worker.is_some() && seat.state == State::Running);
    let sql = seat.map(|seat| seat.sql.iter().filter(|sql| sql.process.is_some()).count()).unwrap_or_default();
    let busy = seat.map(|seat| seat.sql.iter().filter(|sql| sql.process.is_some() && sql.job.is_some()).count());
    let row = (
        mode(seat.map(|seat| seat.state), running.is_some()).to_owned(),
        launcher,
        running.map(|seat| seat.worker.pid),
        running.map(|seat| timestamp(seat.started_at)),
        seat.map_or(0, |seat| seat.restarts as i32),
        seat.filter(|seat| seat.state == State::Waiting).map(|seat| timestamp(seat.retry_at)),
        seat.map(|seat| seat.trouble.as_str().to_owned()).filter(|trouble| !trouble.is_empty()),
        waiters::count() as i32,
        sql as i32,
        busy.unwrap_or_default() as i32,
    );
    TableIterator::once(row)
}

fn mode(state: Option<State>, running: bool) -> &'static str {
    if is_on_standby() {
        return "standby";
    }
    if !is_preloaded() {
        return "manual";
    }
    if !settings::ENGINE.get() {
        return "off";
    }
    if running { "running" } else { state.map_or("wanted", State::name) }
}
