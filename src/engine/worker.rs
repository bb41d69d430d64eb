//! The worker of one database: runs each chore when it is due, sends the NOTIFYs, and sleeps.

#![allow(unsafe_code, reason = "the entry point of a background worker")]

use super::chores;
use super::process::{ENGINE_WAITS, connect, reload_if_asked, report, time_limited, transaction};
use crate::base::clock::{self, Micros};
use crate::base::settings::Settings;
use crate::base::version;
use crate::db::{self, statements};
use crate::events::seal;
use crate::pg::signals;
use crate::queue::settings::NOTIFY_INTERVAL;
use crate::queue::waking::{listeners, notices};
use crate::room::{Chore, Outcome, Wakes};
use crate::server::my_database;
use crate::shared::Text;
use crate::shared::process::{Process, sleep};
use crate::shared::seats::{self, State};
use agentq_core::version::Schema;
use pgrx::prelude::*;
use std::ffi::CString;

statements!("worker.sql": EXTENSION_VERSION);

/// The longest pause of a chore that keeps failing, in microseconds.
const LONGEST_PAUSE_US: i64 = 300_000_000;
/// A run that did nothing is written down this often, in microseconds; one that did something, or
/// failed, always.
const WRITE_EVERY_US: i64 = 60_000_000;
/// The switch and the pause between two NOTIFYs are read this often, in microseconds.
const READ_EVERY_US: i64 = 200_000;
/// Whether the extension is still there is asked this often, in microseconds.
const CHECK_EVERY_US: i64 = 1_000_000;
/// A chore that an operator has switched off, or that rests, is asked about again after this long, in microseconds.
const OFF_FOR_US: i64 = 1_000_000;
/// A chore in whose way somebody was is tried again after this long, in microseconds.
const IN_THE_WAY_US: i64 = 500_000;

/// A chore in this process: when it is due, and how it went.
struct Duty {
    chore: &'static Chore,
    /// Its place among all chores.
    place: usize,
    due_at: Micros,
    failures: u32,
    written_at: Micros,
    began: Micros,
    is_on: bool,
    /// What the last run did.
    rows: i64,
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn agentq_worker_main(database: pg_sys::Datum) {
    signals::attach();
    // SAFETY: a background worker runs this, and gets what the launcher gave it.
    unsafe { pg_sys::before_shmem_exit(Some(leave), database) };
    // Whoever wants the database for himself finds the worker here from now on, and asks it to leave.
    let wanted = seats::with_seat(database.value() as u32, |seat| {
        seat.worker = if seat.is_held() { Process::NONE } else { Process::me() };
        seat.excused = seat.is_held();
        seat.worker.is_some()
    });
    if wanted != Some(true) {
        return;
    }
    connect(Some(database.value() as u32), ENGINE_WAITS);
    let held = seats::with_seat(my_database(), |seat| {
        seat.excused |= seat.is_held();
        seat.is_held()
    });
    if held != Some(false) {
        return;
    }
    if matches!(extension(), Extension::None) {
        // Unless it has been made meanwhile.
        seats::with_seat(my_database(), |seat| {
            seat.excused = std::mem::take(&mut seat.news);
            seat.state = if seat.excused { State::Wanted } else { State::Absent };
        });
        return;
    }
    seats::begin_work();
    seats::with_seat(my_database(), |seat| {
        seat.state = State::Running;
        seat.started_at = clock::real_now();
        seat.trouble = Text::EMPTY;
    });
    // It may start the next one now.
    seats::with(|seats| seats.launcher).wake();
    run();
    // The extension is gone, and with it the work of the SQL workers.
    seats::with_seat(my_database(), |seat| {
        seat.state = State::Absent;
        seat.has_handlers = false;
        seat.sql.iter().for_each(|sql| sql.process.terminate());
    });
}

#[pg_guard]
unsafe extern "C-unwind" fn leave(_code: i32, database: pg_sys::Datum) {
    seats::end_work();
    let launcher = seats::with(|seats| {
        if let Some(seat) = seats.find(database.value() as u32) {
            seat.worker = Process::NONE;
        }
        seats.launcher
    });
    launcher.wake();
}

/// Whether this database has the extension, and if so, whether in the version of this library.
enum Extension {
    None,
    Other(String),
    Ours,
}

fn extension() -> Extension {
    let version = transaction(|| {
        db::connect(|db| {
            let row = db.run(&EXTENSION_VERSION, &[]);
            if row.is_empty() { None } else { row.maybe_only::<String>() }
        })
    });
    match version {
        Ok(None) => Extension::None,
        Ok(Some(version)) if version::schema(&version) == Schema::Current => Extension::Ours,
        Ok(Some(version)) => Extension::Other(version),
        Err(error) => Extension::Other(error.message),
    }
}

/// Turns until the extension is dropped.
fn run() {
    let now = clock::real_now();
    let duty = |(place, chore): (usize, &&'static Chore)| Duty::new(chore, place, now);
    let mut duties: Vec<Duty> = chores::all().iter().enumerate().map(duty).collect();
    let (mut checked_at, mut notified_at, mut read_at) = (0, 0, 0);
    let (mut is_ours, mut is_on, mut interval_ms) = (false, false, 20);
    // Events that were written before the server stopped have not been forgotten.
    if let Err(error) = transaction(|| db::connect(seal::resume)) {
        warning!("agentq: whether events are used here is not known: {error}");
    }
    loop {
        reload_if_asked();
        let now = clock::real_now();
        if now - checked_at >= CHECK_EVERY_US {
            checked_at = now;
            let trouble = match extension() {
                Extension::None => return,
                Extension::Ours => Text::EMPTY,
                Extension::Other(version) => Text::new(&format!(
                    "the schema is of version {version}, the library of {}: run ALTER EXTENSION agentq UPDATE",
                    version::LIBRARY
                )),
            };
            is_ours = trouble.as_str().is_empty();
            seats::with_seat(my_database(), |seat| seat.trouble = trouble);
        }
        // Before every chore; but not each time the worker wakes to notify, which under load is a
        // hundred times a second.
        if now - read_at >= READ_EVERY_US || duties.iter().any(|duty| duty.due_at <= now) {
            read_at = now;
            let settings = if is_ours { transaction(Settings::current).ok() } else { None };
            (is_on, interval_ms) =
                settings.map_or((false, 20), |settings| (settings.worker_enabled, settings.number(NOTIFY_INTERVAL)));
        }
        let mut wake_at = now + 1_000_000;
        if is_on {
            if notices::any() {
                let allowed_at = notified_at + interval_ms * 1000;
                if allowed_at <= now {
                    notified_at = now;
                    notify();
                } else {
                    wake_at = wake_at.min(allowed_at);
                }
            }
            wake_at = do_what_is_due(&mut duties, now).min(wake_at);
        }
        report(None);
        sleep((wake_at - clock::real_now()).max(0));
        if seats::with_seat(my_database(), |seat| std::mem::take(&mut seat.news)).unwrap_or(false) {
            duties.iter_mut().for_each(|duty| duty.due_at = 0);
        }
    }
}

/// Runs each chore that is due, one after the other; says when the next one is.
fn do_what_is_due(duties: &mut [Duty], now: Micros) -> Micros {
    duties.iter_mut().for_each(|duty| duty.hear(now));
    let mut changed: Vec<&'static Chore> = Vec::new();
    for duty in duties.iter_mut().filter(|duty| duty.due_at <= now) {
        duty.run();
        changed.extend((duty.rows > 0).then_some(duty.chore));
    }
    duties.iter_mut().for_each(|duty| duty.hear_of_changes(&changed));
    duties.iter().map(|duty| duty.wakes_at(now)).min().unwrap_or(Micros::MAX)
}

fn notify() {
    report(Some(c"agentq: notifying"));
    if let Err(error) = transaction(listeners::tell) {
        warning!("agentq: NOTIFY failed: {error}");
    }
}

impl Duty {
    fn new(chore: &'static Chore, place: usize, now: Micros) -> Duty {
        Duty { chore, place, due_at: now, failures: 0, written_at: 0, began: 0, is_on: true, rows: 0 }
    }

    /// Whether what wakes it counts: not if it is switched off or keeps failing.
    fn is_well(&self) -> bool {
        self.failures == 0 && self.is_on
    }

    /// Makes it due before its time if what it waits for has come.
    fn hear(&mut self, now: Micros) {
        if !self.is_well() {
            return;
        }
        match self.chore.wakes_on {
            Wakes::Moment { next, pause_us } => {
                if self.began + pause_us <= now && next().is_some_and(|at| at <= now) {
                    self.due_at = 0;
                }
            }
            Wakes::News { is_there, take, pause_us } => {
                if is_there() {
                    self.due_at = self.due_at.min(self.began + pause_us);
                    if self.due_at <= now {
                        take();
                    }
                }
            }
            Wakes::Time | Wakes::After(_) => {}
        }
    }

    /// Makes it due if it comes after a chore that has changed something.
    fn hear_of_changes(&mut self, changed: &[&'static Chore]) {
        if let Wakes::After(chores) = self.chore.wakes_on
            && self.is_well()
            && chores.iter().any(|chore| changed.iter().any(|other| std::ptr::eq(*chore, *other)))
        {
            self.due_at = 0;
        }
    }

    /// When it has to be looked at next.
    fn wakes_at(&self, now: Micros) -> Micros {
        match self.chore.wakes_on {
            Wakes::Moment { next, pause_us } => {
                next().map_or(self.due_at, |at| self.due_at.min(at.max(now + pause_us)))
            }
            _ => self.due_at,
        }
    }

    /// Runs the chore once, in a transaction of its own, and notes how it went.
    fn run(&mut self) {
        let name = self.chore.name;
        report(Some(&CString::new(format!("agentq: {name}")).unwrap_or_default()));
        let began = clock::real_now();
        self.began = began;
        self.rows = 0;
        let mut every_us = self.chore.every_us;
        let result = time_limited(|| {
            transaction(|| {
                chores::settings_of(self.chore).map(|every| {
                    every_us = every;
                    (self.chore.run)()
                })
            })
        });
        let ended = clock::real_now();
        match result {
            Ok(None) => {
                self.is_on = false;
                self.due_at = ended + OFF_FOR_US;
            }
            Ok(Some(outcome)) => {
                self.is_on = true;
                self.rows = outcome.rows;
                let recovered = std::mem::take(&mut self.failures) > 0;
                self.due_at = outcome.next_at(began, every_us);
                if recovered || outcome.rows > 0 || ended - self.written_at >= WRITE_EVERY_US {
                    self.write(&Ok(outcome), began, ended);
                }
                self.show(began, ended, outcome.rows);
            }
            // Nothing is wrong with it, and it is not to be left alone for ever longer.
            Err(error) if error.is_in_the_way() => {
                self.due_at = ended + IN_THE_WAY_US;
                log!("agentq: chore {name} is tried again in a moment: {error}");
                self.show(began, ended, 0);
            }
            Err(error) => {
                self.failures += 1;
                let pause = (every_us << self.failures.min(10)).clamp(1_000_000, LONGEST_PAUSE_US);
                self.due_at = ended + pause;
                warning!("agentq: chore {name} failed, and is tried again in {} s: {error}", pause / 1_000_000);
                self.write(&Err(error.message), began, ended);
                self.show(began, ended, 0);
            }
        }
    }

    fn write(&mut self, result: &Result<Outcome, String>, began: Micros, ended: Micros) {
        self.written_at = ended;
        let (name, due_at) = (self.chore.name, self.due_at);
        // Whoever runs chores by hand in a long transaction has this row locked. Shared memory knows how it went.
        let record =
            || db::with_setting(c"lock_timeout", c"1ms", || chores::record(name, result, began, ended, due_at));
        if let Err(error) = transaction(record)
            && !error.is_in_the_way()
        {
            warning!("agentq: the run of chore {name} could not be written down: {error}");
        }
    }

    fn show(&self, began: Micros, ended: Micros, rows: i64) {
        seats::with_seat(my_database(), |seat| {
            let live = &mut seat.chores[self.place];
            live.last_run_at = began;
            live.next_run_at = self.due_at;
            live.micros = ended - began;
            live.rows = rows;
            live.runs += 1;
            live.failures = self.failures as i32;
        });
    }
}
