//! Locks that conflict with everybody's work: whoever waits for one keeps all behind it waiting. So it stands in line for a
//! short time, then longer, and steps aside in between.

use super::parts::{attempt, worth_keeping};
use super::settings::with_setting;
use super::{connect, statements};
use crate::error::raise;
use crate::server::lock_timeout;
use crate::shared::process;
use pgrx::pg_sys;
use std::cell::Cell;
use std::ffi::CString;
use std::time::{Duration, Instant};

statements!("in_line.sql": IS_VACUUMED);

/// It stands in line for this long at a time, in milliseconds, then longer, and steps aside for twice as long.
const IN_LINE_MS: u64 = 50;
const LONGEST_IN_LINE_MS: u64 = 1_000;
/// And it gives up after this long, in seconds, unless the session's `lock_timeout` says something else.
const GIVE_UP_S: u64 = 60;

/// Takes such locks of these tables to the end of the transaction, all or none at a time. It holds some for less than the
/// time after which the server looks for deadlocks, so nobody is ended for its sake. Err: it has given up after that long.
pub fn lock_all(tables: &[pg_sys::Oid], mode: u32) -> Result<(), Duration> {
    let began = Instant::now();
    let mut in_line = IN_LINE_MS;
    loop {
        let at = Cell::new(0);
        match attempt(|| lock_within(tables, mode, in_line, &at)) {
            Ok(()) => return Ok(()),
            Err(error) if !error.is_in_the_way() => raise(error.code, error.message, error.hint),
            Err(_) => outwait_autovacuum(tables[at.get()], mode),
        }
        let most = lock_timeout().unwrap_or(Duration::from_secs(GIVE_UP_S));
        if began.elapsed() + Duration::from_millis(2 * in_line) > most {
            return Err(began.elapsed());
        }
        process::sleep(2_000 * in_line as i64);
        in_line = (2 * in_line).min(longest(tables.len()));
    }
}

/// The server sends an autovacuum away that somebody has waited for as long as it takes to look for deadlocks: so this table is
/// waited for once, by itself, and let go of again.
fn outwait_autovacuum(table: pg_sys::Oid, mode: u32) {
    if !connect(|db| db.run(&IS_VACUUMED, &[table.into()]).only::<bool>()) {
        return;
    }
    let wait = CString::new(format!("{}ms", deadlock_ms() + 200)).expect("digits");
    // SAFETY: what it locks goes with the part.
    let lock = || with_setting(c"lock_timeout", &wait, || unsafe { pg_sys::LockRelationOid(table, mode as i32) });
    match attempt(|| worth_keeping(|| (lock(), false))) {
        Err(error) if !error.is_in_the_way() => raise(error.code, error.message, error.hint),
        _ => {}
    }
}

fn deadlock_ms() -> u64 {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::DeadlockTimeout as u64 }
}

fn longest(tables: usize) -> u64 {
    let deadlock_ms = deadlock_ms();
    if tables > 1 { LONGEST_IN_LINE_MS.min(deadlock_ms / 2).max(1) } else { LONGEST_IN_LINE_MS }
}

/// Locks one after the other, and notes at which it is.
fn lock_within(tables: &[pg_sys::Oid], mode: u32, in_line: u64, at: &Cell<usize>) {
    let until = Instant::now() + Duration::from_millis(in_line.min(longest(tables.len())));
    for (number, table) in tables.iter().enumerate() {
        at.set(number);
        let left = until.saturating_duration_since(Instant::now()).as_millis().max(1);
        let wait = CString::new(format!("{left}ms")).expect("digits");
        // SAFETY: the lock is kept to the end of the transaction, or of the part in which others are not to be had.
        with_setting(c"lock_timeout", &wait, || unsafe { pg_sys::LockRelationOid(*table, mode as i32) });
    }
}
