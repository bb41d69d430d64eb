//! The journal: who has something to do when a transaction commits or is rolled back.
//!
//! A room lists its functions in `Room::at_end`. They are called in the order of the rooms, and of each room's list, at
//! every end of a transaction in which somebody has called `open`. Each keeps its own notes of what it has to do.

#![allow(unsafe_code, reason = "the callbacks of transactions")]

use crate::{prepared, room};
use pgrx::prelude::*;
use std::cell::Cell;

/// What happens to a transaction, or to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is about to commit, and may still fail.
    Committing,
    /// It is about to be prepared, and may still fail.
    Preparing,
    /// Others see what it has done.
    Committed,
    /// It waits for COMMIT PREPARED, which this session may never hear of.
    Prepared,
    RolledBack,
    /// A prepared transaction of this database that had taken notes has been committed or rolled back, and nobody knows any
    /// more which notes. It says nothing of the transaction that this session is in.
    PreparedEnded,
    /// A subtransaction has become a part of its parent.
    PartKept {
        part: pg_sys::SubTransactionId,
        parent: pg_sys::SubTransactionId,
    },
    /// A subtransaction has been undone.
    PartUndone {
        part: pg_sys::SubTransactionId,
    },
}

thread_local! {
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
    /// Whether this transaction has taken a note.
    static HAS_NOTES: Cell<bool> = const { Cell::new(false) };
}

/// Has the rooms told of every end from now on. Called by whoever takes a note.
pub fn open() {
    HAS_NOTES.set(true);
    if !IS_OPEN.replace(true) {
        // SAFETY: the callbacks are plain functions that live as long as the library.
        unsafe {
            pg_sys::RegisterXactCallback(Some(at_transaction), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(at_part), std::ptr::null_mut());
        }
    }
}

/// Tells every room.
pub fn tell(end: End) {
    room::all().iter().flat_map(|room| room.at_end).for_each(|hear| hear(end));
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::*;
    match event {
        XACT_EVENT_PRE_COMMIT => tell(End::Committing),
        XACT_EVENT_PRE_PREPARE => {
            tell(End::Preparing);
            if HAS_NOTES.get() {
                prepared::mark();
            }
        }
        XACT_EVENT_COMMIT => tell(End::Committed),
        XACT_EVENT_PREPARE => tell(End::Prepared),
        XACT_EVENT_ABORT => tell(End::RolledBack),
        // Parallel workers take no notes.
        _ => {}
    }
    if matches!(event, XACT_EVENT_COMMIT | XACT_EVENT_PREPARE | XACT_EVENT_ABORT) {
        HAS_NOTES.set(false);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_part(
    event: pg_sys::SubXactEvent::Type,
    part: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    use pg_sys::SubXactEvent::*;
    match event {
        SUBXACT_EVENT_COMMIT_SUB => tell(End::PartKept { part, parent }),
        SUBXACT_EVENT_ABORT_SUB => tell(End::PartUndone { part }),
        _ => {}
    }
}
