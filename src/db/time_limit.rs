//! A limit on how long a part of a transaction may take: what users wrote, such as a condition, must not hold up whoever
//! happens to evaluate it.
//!
//! The timer is one of the server's own, of the sort that extensions register. It asks for a cancel of the statement, which
//! the server obeys wherever it would obey a person, and this module tells the two apart.

use super::parts::{Caught, subtransaction};
use crate::pg::timeouts::Timer;
use pgrx::{PgSqlErrorCode, pg_sys};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

static FIRED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static TIMER: Timer = const { Timer::new(fire) };
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Called from a signal handler: it only leaves word.
extern "C-unwind" fn fire() {
    FIRED.store(true, SeqCst);
    // SAFETY: what the server's own handler of a cancel does.
    unsafe {
        pg_sys::QueryCancelPending = 1;
        pg_sys::InterruptPending = 1;
        pg_sys::SetLatch(pg_sys::MyLatch);
    }
}

/// Runs `work` in a subtransaction, for at most this many milliseconds. An error undoes what it did, and is returned, and so
/// is the end of its time. A person's cancel goes on. A limit inside another has no effect: the outer one holds.
pub fn attempt_within<R>(limit_ms: i32, work: impl FnOnce() -> R) -> Result<R, Caught> {
    if IS_RUNNING.replace(true) {
        return subtransaction(work, |_| true);
    }
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            IS_RUNNING.set(false);
            TIMER.with(Timer::stop);
            if FIRED.swap(false, SeqCst) {
                // SAFETY: it was set by this timer, and what it was to end is over.
                unsafe { pg_sys::QueryCancelPending = 0 };
            }
        }
    }
    FIRED.store(false, SeqCst);
    let stop = Stop;
    TIMER.with(|timer| timer.set(limit_ms));
    let result = subtransaction(work, |error| {
        // Before the rollback, which would otherwise be cancelled by it.
        TIMER.with(Timer::stop);
        error.code != PgSqlErrorCode::ERRCODE_QUERY_CANCELED || FIRED.load(SeqCst)
    });
    let timed_out = FIRED.load(SeqCst);
    drop(stop);
    result.map_err(|error| match error.code {
        PgSqlErrorCode::ERRCODE_QUERY_CANCELED if timed_out => {
            Caught { message: format!("it took longer than {limit_ms} ms"), ..error }
        }
        _ => error,
    })
}
