//! The launcher: finds the databases that have the extension and keeps their workers alive.
//!
//! `CREATE EXTENSION`, or the first call in a database, tells it of a new one. It also looks at the list of databases
//! when it starts and once a minute. The worker of a database finds out whether that has the extension, since only the
//! worker can look inside.

#![allow(unsafe_code, reason = "reading the list of databases")]

use super::process::{ENGINE_WAITS, connect, reload_if_asked, transaction};
use super::settings;
use crate::base::clock::{self, Micros};
use crate::pg::signals;
use crate::server;
use crate::shared::Text;
use crate::shared::process::{Process, is_woken_within, sleep};
use crate::shared::seats::{self, Seat, State};
use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime, DynamicBackgroundWorker};
use pgrx::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const LIBRARY: &str = "agentq";
/// A look at the list of databases is due this often, in microseconds.
const LIST_EVERY_US: i64 = 60_000_000;
/// At most this many workers are starting at a time, so that a server with many of them does not run out of workers
/// while it looks for the extension.
const STARTING_AT_ONCE: usize = 2;
/// The longest pause before a worker that keeps dying is tried again, in microseconds.
const LONGEST_PAUSE_US: i64 = 60_000_000;
/// Where there are more databases than workers, a database has a worker for at least this long before it makes room for
/// another that waits, in microseconds.
const SLICE_US: i64 = 5_000_000;
/// A worker that has lasted this long is well, in microseconds: the next pause is short again.
const WELL_AFTER_US: i64 = 60_000_000;

pub fn register() {
    BackgroundWorkerBuilder::new("agentq launcher")
        .set_type("agentq launcher")
        .set_library(LIBRARY)
        .set_function("agentq_launcher_main")
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(Duration::from_secs(1)))
        .load();
}

/// The workers that this launcher has started, by database, and by number for SQL workers.
#[derive(Default)]
struct Started {
    workers: HashMap<u32, DynamicBackgroundWorker>,
    sql: HashMap<(u32, usize), DynamicBackgroundWorker>,
    listed_at: Micros,
    complained_at: Micros,
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn agentq_launcher_main(_arg: pg_sys::Datum) {
    signals::attach();
    connect(None, ENGINE_WAITS);
    end_workers_of_a_former_launcher();
    seats::with(|seats| {
        seats.launcher = Process::me();
        seats.launcher_started_at = clock::real_now();
    });
    let mut started = Started::default();
    loop {
        reload_if_asked();
        let now = clock::real_now();
        if now - started.listed_at >= LIST_EVERY_US {
            started.list(now);
        }
        started.mourn(now);
        if settings::ENGINE.get() {
            make_room(now);
            started.start_wanted(now);
            started.start_sql_workers(now);
        } else {
            stop_all();
        }
        let is_woken = is_woken_within(started.pause(clock::real_now()));
        debug1!("agentq: the launcher takes a turn: {}", if is_woken { "it was woken" } else { "its time has come" });
    }
}

/// A launcher that died leaves workers that nobody would hear the end of.
fn end_workers_of_a_former_launcher() {
    let (former, workers): (Process, Vec<Process>) = seats::with(|seats| {
        let former = seats.launcher;
        let all = seats.all().flat_map(|seat| std::iter::once(seat.worker).chain(seat.sql.map(|sql| sql.process)));
        (former, all.filter(|process| process.is_some()).collect())
    });
    if !former.is_some() {
        return;
    }
    workers.iter().for_each(|worker| worker.terminate());
    for _ in 0..500 {
        if !workers.iter().any(|worker| worker.is_alive()) {
            break;
        }
        sleep(10_000);
    }
    seats::with(|seats| {
        for seat in seats.all() {
            *seat = Seat { database: seat.database, has_handlers: seat.has_handlers, ..seats::NO_SEAT };
        }
    });
}

fn stop_all() {
    let workers: Vec<Process> = seats::with(|seats| {
        seats.all().flat_map(|s| std::iter::once(s.worker).chain(s.sql.map(|sql| sql.process))).collect()
    });
    workers.iter().for_each(|worker| worker.terminate());
}

/// Where a database has waited for a worker for long, the one that has had its worker longest makes room, and waits in turn.
fn make_room(now: Micros) {
    seats::with(|seats| {
        let waits = |seat: &&mut Seat| matches!(seat.state, State::Wanted | State::Waiting) && !seat.is_held();
        if !seats.all().filter(waits).any(|seat| seat.waits_since > 0 && now - seat.waits_since >= SLICE_US) {
            return;
        }
        // One at a time: the room that was made has to be taken first.
        if seats.all().any(|seat| seat.excused || seat.state == State::Starting) {
            return;
        }
        let has_had_enough = |seat: &&mut Seat| seat.state == State::Running && now - seat.started_at >= SLICE_US;
        if let Some(seat) = seats.all().filter(has_had_enough).min_by_key(|seat| seat.started_at) {
            seat.excused = true;
            seat.waits_since = now;
            seat.worker.terminate();
        }
    });
}

/// The databases that can be connected to.
fn databases() -> HashSet<u32> {
    let mut found = HashSet::new();
    // SAFETY: reads a shared catalog, in a transaction, as the server's own launchers do.
    unsafe {
        let table = pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock as i32);
        let scan =
            pg_sys::systable_beginscan(table, pg_sys::InvalidOid, false, std::ptr::null_mut(), 0, std::ptr::null_mut());
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let header = (*tuple).t_data;
            let row = header.cast::<u8>().add((*header).t_hoff as usize).cast::<pg_sys::FormData_pg_database>();
            if (*row).datallowconn && !(*row).datistemplate {
                found.insert((*row).oid.to_u32());
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(table, pg_sys::AccessShareLock as i32);
    }
    found
}

fn worker(name: &str, function: &str, argument: i64) -> Option<DynamicBackgroundWorker> {
    BackgroundWorkerBuilder::new(name)
        .set_type(name.split(" of ").next().unwrap_or(name))
        .set_library(LIBRARY)
        .set_function(function)
        .set_argument(argument.into_datum())
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(None)
        .set_notify_pid(server::my_pid())
        .load_dynamic()
        .ok()
}

fn pause_after(failures: u32) -> i64 {
    (1_000_000_i64 << failures.min(6)).min(LONGEST_PAUSE_US)
}

impl Started {
    /// Makes a seat for each database that has none, and drops those of databases that are gone.
    fn list(&mut self, now: Micros) {
        self.listed_at = now;
        let Ok(databases) = transaction(databases) else { return };
        let full = seats::with(|seats| {
            for seat in seats.all() {
                if !databases.contains(&seat.database) && !seat.worker.is_some() && seat.state != State::Wanted {
                    *seat = seats::NO_SEAT;
                }
            }
            databases.iter().filter(|database| seats.find_or_make(**database).is_none()).count()
        });
        if full > 0 {
            log!("agentq: {full} databases are not looked after, because there is room for {} only", seats::DATABASES);
        }
    }

    /// Takes note of workers that have ended.
    fn mourn(&mut self, now: Micros) {
        let is_over = |handle: &DynamicBackgroundWorker| {
            matches!(handle.pid(), Err(pgrx::bgworkers::BackgroundWorkerStatus::Stopped))
        };
        let over: Vec<u32> = self.workers.iter().filter(|(_, h)| is_over(h)).map(|(database, _)| *database).collect();
        for database in over {
            self.workers.remove(&database);
            let failed = seats::with_seat(database, |seat| {
                seat.worker = Process::NONE;
                if seat.state == State::Absent {
                    return None;
                }
                if std::mem::take(&mut seat.excused) {
                    seat.state = State::Wanted;
                    return None;
                }
                let was_well = seat.started_at > 0 && now - seat.started_at >= WELL_AFTER_US;
                seat.failures = if was_well { 1 } else { seat.failures + 1 };
                seat.restarts += 1;
                seat.state = State::Waiting;
                seat.retry_at = now + pause_after(seat.failures - 1);
                Some(pause_after(seat.failures - 1) / 1_000_000)
            });
            if let Some(Some(pause)) = failed {
                log!("agentq: the worker of database {database} has ended; it is started again in {pause} s");
                self.listed_at = 0;
            }
        }
        let over: Vec<(u32, usize)> = self.sql.iter().filter(|(_, h)| is_over(h)).map(|(key, _)| *key).collect();
        for (database, number) in over {
            self.sql.remove(&(database, number));
            seats::with_seat(database, |seat| {
                let sql = &mut seat.sql[number];
                sql.process = Process::NONE;
                sql.starting = false;
                sql.failures += 1;
                sql.retry_at = now + pause_after(sql.failures.min(3) - 1);
            });
        }
    }

    fn start_wanted(&mut self, now: Micros) {
        let wanted: Vec<u32> = seats::with(|seats| {
            let starting = seats.all().filter(|seat| seat.state == State::Starting).count();
            let room = STARTING_AT_ONCE.saturating_sub(starting);
            seats.all().for_each(|seat| seat.release(|holder| !holder.is_alive()));
            let ready = seats.all().filter(|seat| {
                let due = seat.state == State::Waiting && (seat.retry_at <= now || seat.waits_since > 0);
                !seat.is_held() && (seat.state == State::Wanted || due)
            });
            // Who has waited longest comes first; whose turn does not come now, waits from now on.
            let mut ready: Vec<&mut Seat> = ready.collect();
            ready.sort_by_key(|seat| if seat.waits_since > 0 { seat.waits_since } else { now });
            ready.iter_mut().skip(room).filter(|seat| seat.waits_since == 0).for_each(|seat| seat.waits_since = now);
            ready.iter().take(room).map(|seat| seat.database).collect()
        });
        for database in wanted {
            if self.workers.contains_key(&database) {
                continue;
            }
            let name = format!("agentq worker of {database}");
            // Before it is started: the worker may be quicker than the next line here.
            seats::with_seat(database, |seat| seat.state = State::Starting);
            match worker(&name, "agentq_worker_main", i64::from(database)) {
                Some(handle) => {
                    self.workers.insert(database, handle);
                    seats::with_seat(database, |seat| seat.waits_since = 0);
                }
                None => self.no_slot(database, now),
            }
        }
    }

    /// Notes that all of max_worker_processes are taken. The log says so once a minute, and v_engine_status all the
    /// time.
    fn no_slot(&mut self, database: u32, now: Micros) {
        const TROUBLE: &str = "no background worker was free: raise max_worker_processes";
        seats::with_seat(database, |seat| {
            seat.state = State::Waiting;
            seat.retry_at = now + 2_000_000;
            seat.waits_since = if seat.waits_since > 0 { seat.waits_since } else { now };
            seat.trouble = Text::new(TROUBLE);
        });
        if now - self.complained_at >= 60_000_000 {
            self.complained_at = now;
            warning!("agentq: the worker of database {database} could not be started; {TROUBLE}");
        }
    }

    fn start_sql_workers(&mut self, now: Micros) {
        let wanted: Vec<(u32, usize)> = seats::with(|seats| {
            let most = settings::SQL_WORKERS.get() as usize;
            let mut wanted = Vec::new();
            for seat in seats.all().filter(|seat| seat.worker.is_some() && !seat.is_held()) {
                for (number, sql) in seat.sql.iter_mut().enumerate() {
                    let there = sql.process.is_some() || sql.starting;
                    if number < most && seat.has_handlers && !there && sql.retry_at <= now {
                        wanted.push((seat.database, number));
                    } else if (number >= most || !seat.has_handlers) && sql.process.is_some() {
                        sql.process.terminate();
                    }
                }
            }
            wanted
        });
        for (database, number) in wanted {
            let name = format!("agentq sql worker of {database}");
            seats::with_seat(database, |seat| seat.sql[number].starting = true);
            let handle = worker(&name, "agentq_sql_worker_main", (number as i64) << 32 | i64::from(database));
            if handle.is_none() {
                seats::with_seat(database, |seat| {
                    seat.sql[number].starting = false;
                    seat.sql[number].retry_at = now + 2_000_000;
                });
            }
            match handle {
                Some(handle) => {
                    self.sql.insert((database, number), handle);
                }
                None if now - self.complained_at >= 60_000_000 => {
                    self.complained_at = now;
                    warning!(
                        "agentq: an SQL worker of database {database} could not be started; raise max_worker_processes"
                    );
                }
                None => {}
            }
        }
    }

    /// How long nothing is to be done, in microseconds. News wake the launcher earlier.
    fn pause(&self, now: Micros) -> i64 {
        let next = seats::with(|seats| {
            let retries = seats.all().flat_map(|seat| {
                let waits = (seat.state == State::Waiting && settings::ENGINE.get() && !seat.is_held())
                    .then_some(seat.retry_at.max(now + 100_000));
                let held = seat.is_held().then_some(now + 1_000_000);
                let sql = seat.sql.iter().filter(|sql| sql.retry_at > now).map(|sql| sql.retry_at).min();
                waits.into_iter().chain(held).chain(sql)
            });
            retries.min().unwrap_or(Micros::MAX)
        });
        next.min(self.listed_at + LIST_EVERY_US).saturating_sub(now).clamp(10_000, LIST_EVERY_US)
    }
}
