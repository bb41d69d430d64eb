//! The worker of one database: runs each chore when it is due, sends the NOTIFYs, and sleeps.

#![allow(unsafe_code, reason = "the entry point of a background worker")]

use super::chores::{self, CHORES, Chore, Outcome};
use super::process::{attach_signals, connect, reload_if_asked, report, transaction};
use crate::base::clock::{self, Micros};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::events::seal;
use crate::queue::hints;
use crate::shared::process::{Process, sleep};
use crate::shared::seats::{self, State};
use crate::shared::{Text, feed, my_database, notices};
use pgrx::prelude::*;

statement!(EXTENSION_VERSION, "sql/extension_version.sql", []);

/// The longest pause of a chore that keeps failing, in microseconds.
const LONGEST_PAUSE_US: i64 = 300_000_000;
/// A run that did nothing is written down this often, in microseconds; one that did something, or
/// failed, always.
const WRITE_EVERY_US: i64 = 60_000_000;
/// The gate and the pause between two NOTIFYs are read this often, in microseconds.
const READ_EVERY_US: i64 = 200_000;
/// What could not be moved is tried again after so long, in microseconds.
const AGAIN_US: i64 = 50_000;
/// Events are sealed this often at most, in microseconds: many commits at a time.
const SEAL_EVERY_US: i64 = 20_000;
/// Whether the extension is still there is asked this often, in microseconds.
const CHECK_EVERY_US: i64 = 1_000_000;

/// A chore in this process.
struct Turn {
    chore: &'static Chore,
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
    attach_signals();
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
    connect(Some(database.value() as u32));
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
            if row.is_empty() { None } else { row.get::<String>(1) }
        })
    });
    match version {
        Ok(None) => Extension::None,
        Ok(Some(version)) if version == env!("CARGO_PKG_VERSION") => Extension::Ours,
        Ok(Some(version)) => Extension::Other(version),
        Err(error) => Extension::Other(error),
    }
}

/// Turns until the extension is dropped.
fn run() {
    let now = clock::real_now();
    let mut turns: Vec<Turn> = CHORES
        .iter()
        .map(|chore| Turn { chore, due_at: now, failures: 0, written_at: 0, began: 0, is_on: true, rows: 0 })
        .collect();
    let (mut checked_at, mut notified_at, mut read_at) = (0, 0, 0);
    let (mut ours, mut open, mut interval) = (false, false, 20);
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
                    env!("CARGO_PKG_VERSION")
                )),
            };
            ours = trouble.as_str().is_empty();
            seats::with_seat(my_database(), |seat| seat.trouble = trouble);
        }
        // Before every chore; but not each time the worker wakes to notify, which under load is a
        // hundred times a second.
        if now - read_at >= READ_EVERY_US || turns.iter().any(|turn| turn.due_at <= now) {
            read_at = now;
            let settings = if ours { transaction(Settings::current).ok() } else { None };
            (open, interval) = settings.map_or((false, 20), |s| (s.worker_enabled, s.notify_interval_ms));
        }
        let mut wake_at = now + 1_000_000;
        if open {
            if notices::any() {
                let allowed_at = notified_at + interval * 1000;
                if allowed_at <= now {
                    notified_at = now;
                    notify();
                } else {
                    wake_at = wake_at.min(allowed_at);
                }
            }
            // A job that is due and cannot be moved (someone has it locked) is not tried all the time.
            let next_due = hints::next_due();
            let promotes = |turn: &&mut Turn| {
                turn.chore.name == "promote_due" && turn.failures == 0 && turn.is_on && turn.began + AGAIN_US <= now
            };
            if next_due.is_some_and(|due| due <= now) {
                turns.iter_mut().filter(promotes).for_each(|turn| turn.due_at = 0);
            }
            if feed::has_news() {
                turns
                    .iter_mut()
                    .filter(|turn| turn.chore.name == "seal_events")
                    .for_each(|turn| turn.hear_of_events(now));
            }
            let mut sealed = false;
            for turn in turns.iter_mut().filter(|turn| turn.due_at <= now) {
                turn.take();
                sealed |= matches!(turn.chore.name, "seal_events" | "keep_partitions") && turn.rows > 0;
            }
            if sealed {
                let reads = |turn: &&mut Turn| {
                    chores::READ_THE_LOG.contains(&turn.chore.name) && turn.failures == 0 && turn.is_on
                };
                turns.iter_mut().filter(reads).for_each(|turn| turn.due_at = 0);
            }
            let due = hints::next_due().map(|due| due.max(now + AGAIN_US));
            wake_at = turns.iter().map(|turn| turn.due_at).chain(due).fold(wake_at, i64::min);
        }
        report(None);
        sleep((wake_at - clock::real_now()).max(0));
        if seats::with_seat(my_database(), |seat| std::mem::take(&mut seat.news)).unwrap_or(false) {
            turns.iter_mut().for_each(|turn| turn.due_at = 0);
        }
    }
}

fn notify() {
    report(Some(c"agentq: notifying"));
    if let Err(error) = transaction(chores::notify::send) {
        warning!("agentq: NOTIFY failed: {error}");
    }
}

impl Turn {
    /// Events have been committed: the sealer's turn comes soon, unless it is switched off or failing.
    fn hear_of_events(&mut self, now: Micros) {
        if self.failures == 0 && self.is_on {
            self.due_at = self.due_at.min(self.began + SEAL_EVERY_US);
            if self.due_at <= now {
                feed::take_news();
            }
        }
    }

    /// Runs the chore once, in a transaction of its own, and notes how it went.
    fn take(&mut self) {
        report(Some(self.chore.activity));
        let began = clock::real_now();
        self.began = began;
        self.rows = 0;
        let mut every_us = self.chore.every_us;
        let result = transaction(|| {
            chores::settings_of(self.chore).map(|every| {
                every_us = every;
                (self.chore.run)()
            })
        });
        let ended = clock::real_now();
        let name = self.chore.name;
        match result {
            // Switched off by an operator: look again in a while.
            Ok(None) => {
                self.is_on = false;
                self.due_at = ended + 10_000_000;
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
            Err(error) => {
                self.failures += 1;
                let pause = (every_us << self.failures.min(10)).clamp(1_000_000, LONGEST_PAUSE_US);
                self.due_at = ended + pause;
                warning!("agentq: chore {name} failed, and is tried again in {} s: {error}", pause / 1_000_000);
                self.write(&Err(error), began, ended);
                self.show(began, ended, 0);
            }
        }
    }

    fn write(&mut self, result: &Result<Outcome, String>, began: Micros, ended: Micros) {
        self.written_at = ended;
        let (name, due_at) = (self.chore.name, self.due_at);
        if let Err(error) = transaction(|| chores::record(name, result, began, ended, due_at)) {
            warning!("agentq: the run of chore {name} could not be written down: {error}");
        }
    }

    fn show(&self, began: Micros, ended: Micros, rows: i64) {
        let place = CHORES.iter().position(|chore| chore.name == self.chore.name).unwrap_or_default();
        seats::with_seat(my_database(), |seat| {
            let live = &mut seat.chores[place];
            live.last_run_at = began;
            live.next_run_at = self.due_at;
            live.micros = ended - began;
            live.rows = rows;
            live.runs += 1;
            live.failures = self.failures as i32;
        });
    }
}
