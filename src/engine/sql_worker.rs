//! A worker that runs jobs inside the server: it claims jobs of the kinds that have a handler, and
//! runs the handler's SQL with the rights of its role.
//!
//! The handler and the ack are one transaction. What the SQL can do is bounded: it cannot leave its
//! role, change a setting beyond its end, leave a cursor or a deferred trigger behind for the rights
//! of the worker, leave anything in the session for the next job, or run longer than its time: one
//! that does not heed the end of its time loses its worker.

#![allow(unsafe_code, reason = "changing rights, and running SQL with them")]

use super::process::{HANDLERS_WAIT, connect, reload_if_asked, report, transaction};
use crate::base::clock;
use crate::base::settings::Settings;
use crate::db;
use crate::json::Jsonb;
use crate::pg::signals::{self, die};
use crate::pg::timeouts::*;
use crate::queue::admin::executors;
use crate::queue::admin::handlers::{self, Handler};
use crate::queue::claim;
use crate::queue::ends::fail::{self, Failed};
use crate::queue::ends::{ack, dormant};
use crate::queue::waking::waiters::Waiting;
use crate::server::{self, my_database};
use crate::shared::process::{Process, sleep};
use crate::shared::seats::{self, SqlSeat};
use pgrx::prelude::*;
use pgrx::{IntoDatum, Uuid};
use std::ffi::{CStr, CString};

/// A lease lasts this much longer than its handler may run, in seconds.
const LEASE_MARGIN: i32 = 30;
/// A handler that catches the cancel at the end of its time has this much longer, in milliseconds.
const GRACE_MS: i32 = 5_000;
/// Without news the worker looks for jobs this often, in microseconds.
const LOOK_EVERY_US: i64 = 5_000_000;

thread_local!(static OVERRUN: Timer = const { Timer::new(overrun) });

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn agentq_sql_worker_main(argument: pg_sys::Datum) {
    signals::attach();
    // The launcher gives the number of the seat and the database in one word.
    let (number, database) = ((argument.value() >> 32), argument.value() as u32);
    // SAFETY: the callback is a plain function.
    unsafe { pg_sys::before_shmem_exit(Some(leave), argument) };
    connect(Some(database), HANDLERS_WAIT);
    if seats::with_seat(database, |seat| seat.is_held()).unwrap_or(true) {
        return;
    }
    let name = executor_name(number);
    let left = seats::with_seat(database, |seat| {
        let sql = &mut seat.sql[number];
        sql.process = Process::me();
        sql.starting = false;
        sql.job.take().map(|job| (Uuid::from_bytes(job), Uuid::from_bytes(sql.token)))
    });
    if let Some(Some((job, token))) = left {
        transaction(|| end_of_the_dead(&name, job, token)).ok();
    }
    transaction(|| executors::tick_for(&name, "PG_worker", None, clock::now())).ok();
    loop {
        reload_if_asked();
        // Read again before each job: a handler may have been changed, removed or switched off.
        let handlers = transaction(|| if is_open() { db::connect(handlers::all) } else { Vec::new() });
        let handlers = handlers.unwrap_or_default();
        // The worker takes a place among the waiters before it looks, so that no job can slip in between. It gives the
        // place up before the job runs, so that calls go to those who are free.
        let tags = transaction(|| lane_tags(&handlers)).unwrap_or_default();
        let waiting = if tags.is_empty() { None } else { Waiting::join(&tags) };
        let job = claim_one(&name, &handlers);
        if job.is_none() {
            report(None);
            sleep(LOOK_EVERY_US);
        }
        drop(waiting);
        if let Some(job) = job
            && !run(number, &name, &handlers, job)
        {
            return;
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn leave(_code: i32, argument: pg_sys::Datum) {
    let (number, database) = ((argument.value() >> 32), argument.value() as u32);
    let (launcher, worker) = seats::with(|seats| {
        let launcher = seats.launcher;
        let worker = seats.find(database).map_or(Process::NONE, |seat| {
            seat.sql[number].process = Process::NONE;
            seat.news = true;
            seat.worker
        });
        (launcher, worker)
    });
    launcher.wake();
    worker.wake();
}

/// Ends the attempt of a worker that died with its job. It counts as a failed one. While the queue is switched off its
/// lease is left to run out.
pub fn end_of_the_dead(name: &str, job: Uuid, token: Uuid) {
    if !Settings::current().substrate_enabled {
        return;
    }
    fail::fail(job, name, Some(token), &Failed::with("the SQL worker ended while it ran the job", Some("worker_died")));
}

pub fn executor_name(number: usize) -> String {
    format!("agentq-sql-{}", number + 1)
}

fn is_open() -> bool {
    let settings = Settings::current();
    settings.worker_enabled && settings.substrate_enabled
}

fn lane_tags(handlers: &[Handler]) -> Vec<u64> {
    claim::lane_tags(handlers.iter().map(|handler| (handler.queue.as_str(), handler.kind.as_str())))
}

struct Job {
    id: Uuid,
    token: Uuid,
    handler: usize,
    document: Vec<u8>,
}

/// Claims the best job of any handler.
fn claim_one(name: &str, handlers: &[Handler]) -> Option<Job> {
    if handlers.is_empty() {
        return None;
    }
    report(Some(c"agentq: claiming"));
    let lease = handlers.iter().map(|handler| handler.timeout_seconds).max().unwrap_or_default() + LEASE_MARGIN;
    let claimed = transaction(|| {
        let lanes: Vec<(&str, &str)> = handlers.iter().map(|h| (h.queue.as_str(), h.kind.as_str())).collect();
        claim::one_of(name, &lanes, lease)
    });
    let job = match claimed {
        Ok(found) => found?,
        Err(error) => {
            warning!("agentq: an SQL worker could not claim: {error}");
            return None;
        }
    };
    let handler = handlers.iter().position(|handler| handler.kind == job.kind)?;
    Some(Job { id: job.job_id, token: job.token, handler, document: job.document })
}

/// Runs one job to its end: acked with its handler's transaction, or failed. False: something of it is
/// left in the session, which must not serve anybody else.
fn run(number: usize, name: &str, handlers: &[Handler], job: Job) -> bool {
    let handler = &handlers[job.handler];
    let busy = |job: Option<&Job>| {
        seats::with_seat(my_database(), |seat| {
            let sql: &mut SqlSeat = &mut seat.sql[number];
            sql.job = job.map(|job| *job.id.as_bytes());
            sql.token = job.map_or([0; 16], |job| *job.token.as_bytes());
            sql.since = clock::real_now();
            sql.failures = 0;
        });
    };
    busy(Some(&job));
    let activity = CString::new(format!("agentq: job {} of kind {}", job.id, handler.kind)).unwrap_or_default();
    report(Some(&activity));
    let outcome = transaction(|| {
        let result = execute(handler, Jsonb::from_container(&job.document));
        db::act_as(None);
        // A handler may have put its job to sleep: then it runs again when the job wakes.
        if !ack::by(name, job.id, job.token, result) && !dormant::ended_attempt(job.id, job.token) {
            error!("the job's lease was lost meanwhile");
        }
    });
    db::act_as(None);
    OVERRUN.with(Timer::stop);
    // SAFETY: the other timer is put to rest too, however the handler ended, and so is a cancel that one may have asked for
    // since.
    let timed_out = unsafe {
        disable_timeout(STATEMENT_TIMEOUT, true);
        pg_sys::QueryCancelPending = 0;
        get_timeout_indicator(STATEMENT_TIMEOUT, true)
    };
    if let Err(error) = outcome {
        let class = if timed_out { "timeout" } else { "handler_error" };
        let failed =
            transaction(|| fail::fail(job.id, name, Some(job.token), &Failed::with(&error.message, Some(class))));
        if let Err(error) = failed {
            warning!("agentq: the failure of job {} could not be recorded: {error}", job.id);
        }
    }
    busy(None);
    tidy_up()
}

/// Takes away what a handler may have left in the session. False: something is still there. A temporary table, say, may
/// be locked by a session of its owner, and the handler of another role would find it before its own.
fn tidy_up() -> bool {
    let statements =
        [c"DEALLOCATE ALL", c"DISCARD TEMP", c"DISCARD SEQUENCES", c"SELECT pg_catalog.pg_advisory_unlock_all()"];
    statements.into_iter().all(|statement| {
        let done = transaction(|| db::connect(|_| execute_plain(statement)));
        done.inspect_err(|error| warning!("agentq: an SQL worker could not tidy up, and ends: {error}")).is_ok()
    })
}

/// The handler has not heeded the end of its time. An end of the process cannot be caught.
extern "C-unwind" fn overrun() {
    // SAFETY: what the server does at SIGTERM, made to be called by a signal.
    unsafe { die(pg_sys::SIGTERM as i32) };
}

fn execute_plain(sql: &CStr) {
    // SAFETY: connected; the text outlives the call.
    let code = unsafe { pg_sys::SPI_execute(sql.as_ptr(), false, 0) };
    assert!(code >= 0, "the server answered {code} to {}", sql.to_string_lossy());
}

/// Runs the handler's SQL with the rights of its role; returns the first value of its first row.
fn execute(handler: &Handler, job: Jsonb) -> Option<Jsonb> {
    let Some(role) = server::role_id(&handler.role) else { error!("the handler's role \"{}\" is gone", handler.role) };
    let by = server::role_id(&handler.registered_by);
    if server::is_superuser(role) && !by.is_some_and(server::is_superuser) {
        error!("the handler's role \"{}\" has become a superuser", handler.role)
    }
    if !by.is_some_and(|by| server::is_member(by, role)) {
        error!("{}, who registered the handler, is no member of its role \"{}\"", handler.registered_by, handler.role)
    }
    let sql = CString::new(handler.sql.as_str()).unwrap_or_default();
    db::connect(|_| {
        // SAFETY: rights and settings are put back below; after an error the abort of the
        // transaction puts them back, as it does for a function with rights of its own.
        unsafe {
            let (mut user, mut context) = (pg_sys::InvalidOid, 0);
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            let settings = pg_sys::NewGUCNestLevel();
            db::set_locally(c"search_path", c"\"$user\", public");
            db::set_locally(c"lock_timeout", c"0");
            pg_sys::SetUserIdAndSecContext(role, context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32);
            db::act_as(Some(role));
            enable_timeout_after(STATEMENT_TIMEOUT, handler.timeout_seconds * 1000);
            OVERRUN.with(|timer| timer.set(handler.timeout_seconds * 1000 + GRACE_MS));
            let mut types = [pg_sys::JSONBOID];
            let mut values = [job.into_datum().expect("a job")];
            let code = pg_sys::SPI_execute_with_args(
                sql.as_ptr(),
                1,
                types.as_mut_ptr(),
                values.as_mut_ptr(),
                std::ptr::null(),
                false,
                0,
            );
            if code < 0 {
                error!("the handler's SQL cannot be run this way ({code})");
            }
            let result = first_value().map(Jsonb::beyond_connection);
            // Nothing may be left to run at the end of the transaction, with other rights.
            // A trigger that fires now may defer others again: these are fired until none is left.
            execute_plain(c"SET CONSTRAINTS ALL IMMEDIATE");
            pg_sys::AfterTriggerFireDeferred();
            execute_plain(c"CLOSE ALL");
            disable_timeout(STATEMENT_TIMEOUT, false);
            pg_sys::SetUserIdAndSecContext(user, context);
            pg_sys::AtEOXact_GUC(false, settings);
            result
        }
    })
}

/// The first value of the first row: jsonb as it is, anything else as its text.
unsafe fn first_value() -> Option<Jsonb> {
    // SAFETY: the table, if any, lives until the connection ends.
    unsafe {
        let table = pg_sys::SPI_tuptable;
        if table.is_null() || (*table).numvals == 0 || (*(*table).tupdesc).natts == 0 {
            return None;
        }
        let (row, columns) = (*(*table).vals, (*table).tupdesc);
        if pg_sys::SPI_gettypeid(columns, 1) == pg_sys::JSONBOID {
            let mut is_null = false;
            let value = pg_sys::SPI_getbinval(row, columns, 1, &mut is_null);
            return pgrx::FromDatum::from_datum(value, is_null);
        }
        let text = pg_sys::SPI_getvalue(row, columns, 1);
        (!text.is_null()).then(|| Jsonb::from_value(CStr::from_ptr(text).to_string_lossy().into_owned().into()))
    }
}
