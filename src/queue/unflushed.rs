//! Claims that need not be on disk before they are answered.
//!
//! A queue may say that its claims are not durable: if the server crashes, those of the last moments
//! are undone, and their jobs are ready again. Then a transaction that has done nothing but claim
//! does not wait for the disk. One that has written anything else does, as its settings say.

#![allow(unsafe_code, reason = "reading the server's place in its log, and a transaction callback")]

use pgrx::prelude::*;
use std::cell::Cell;

/// No place in the log: nothing written.
const NOWHERE: pg_sys::XLogRecPtr = 0;

thread_local! {
    /// Up to where this transaction has written nothing but claims.
    static CLAIMED_TO: Cell<pg_sys::XLogRecPtr> = const { Cell::new(NOWHERE) };
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

/// Up to where this transaction has written.
fn written_to() -> pg_sys::XLogRecPtr {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::XactLastRecEnd }
}

/// Runs a claim of which the disk may learn later.
pub fn claim<R>(work: impl FnOnce() -> R) -> R {
    let only_claims = written_to() == CLAIMED_TO.get();
    let result = work();
    if only_claims {
        listen();
        CLAIMED_TO.set(written_to());
    }
    result
}

fn listen() {
    if !LISTENING.replace(true) {
        // SAFETY: the callback is a plain function that lives as long as the library.
        unsafe { pg_sys::RegisterXactCallback(Some(at_transaction_end), std::ptr::null_mut()) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::*;
    match event {
        XACT_EVENT_PRE_COMMIT => {
            let claimed_to = CLAIMED_TO.get();
            if claimed_to != NOWHERE && claimed_to == written_to() {
                do_not_wait();
            }
        }
        XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE => CLAIMED_TO.set(NOWHERE),
        _ => {}
    }
}

/// For this transaction alone.
fn do_not_wait() {
    // SAFETY: the transaction is still open, and its end puts the setting back.
    unsafe {
        pg_sys::set_config_option(
            c"synchronous_commit".as_ptr(),
            c"off".as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_LOCAL,
            true,
            0,
            false,
        );
    }
}
