//! Tells the engine, when a transaction that has written events has committed, that there is
//! something to seal.

#![allow(unsafe_code, reason = "a transaction callback")]

use crate::shared::{feed, seats};
use pgrx::prelude::*;
use std::cell::Cell;

thread_local! {
    static EMITTED: Cell<bool> = const { Cell::new(false) };
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

/// This transaction has written an event.
pub fn note() {
    EMITTED.set(true);
    if !LISTENING.replace(true) {
        // SAFETY: the callback is a plain function that lives as long as the library.
        unsafe { pg_sys::RegisterXactCallback(Some(at_transaction_end), std::ptr::null_mut()) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction_end(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::*;
    if !matches!(event, XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE) {
        return;
    }
    // A prepared one is found by the sealer's next regular look after it has been committed.
    if EMITTED.take() && event == XACT_EVENT_COMMIT && feed::bring_news() {
        seats::wake_engine();
    }
}
