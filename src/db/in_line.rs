//! Locks that conflict with everybody's work: whoever waits for one keeps all behind it waiting. So it stands in line for a
//! short time, then longer, and steps aside in between.

use super::parts::attempt;
use super::settings::with_setting;
use crate::error::raise;
use crate::server::lock_timeout;
use crate::shared::process;
use pgrx::pg_sys;
use std::ffi::CString;
use std::time::{Duration, Instant};

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
        match attempt(|| lock_within(tables, mode, in_line)) {
            Ok(()) => return Ok(()),
            Err(error) if !error.is_in_the_way() => raise(error.code, error.message, error.hint),
            Err(_) => {}
        }
        let most = lock_timeout().unwrap_or(Duration::from_secs(GIVE_UP_S));
        if began.elapsed() + Duration::from_millis(2 * in_line) > most {
            return Err(began.elapsed());
        }
        process::sleep(2_000 * in_line as i64);
        in_line = (2 * in_line).min(longest(tables.len()));
    }
}

fn longest(tables: usize) -> u64 {
    // SAFETY: a plain variable of the server's.
    let deadlock_ms = unsafe { pg_sys::DeadlockTimeout } as u64;
    if tables > 1 { LONGEST_IN_LINE_MS.min(deadlock_ms / 2).max(1) } else { LONGEST_IN_LINE_MS }
}

fn lock_within(tables: &[pg_sys::Oid], mode: u32, in_line: u64) {
    let until = Instant::now() + Duration::from_millis(in_line.min(longest(tables.len())));
    for table in tables {
        let left = until.saturating_duration_since(Instant::now()).as_millis().max(1);
        let wait = CString::new(format!("{left}ms")).expect("digits");
        // SAFETY: the lock is kept to the end of the transaction, or of the part in which others are not to be had.
        with_setting(c"lock_timeout", &wait, || unsafe { pg_sys::LockRelationOid(*table, mode as i32) });
    }
}
