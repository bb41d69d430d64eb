//! Prepared transactions: who hears that one has ended.
//!
//! The session that says COMMIT PREPARED knows nothing of what the transaction did, and no callback of a transaction is
//! called in it. So a transaction that has taken notes is marked before it is prepared, by a lock of its own, which the server
//! keeps with it, also over a crash. Where such a lock goes with COMMIT PREPARED or ROLLBACK PREPARED, the rooms are told.

#![allow(unsafe_code, reason = "the server's commands, and its locks")]

use crate::journal::{self, End};
use crate::pg::process::numbers_of;
use crate::server::my_database;
use pgrx::is_a;
use pgrx::prelude::*;
use std::ffi::c_int;

/// The lock: of the sort that pg_advisory_lock takes, with a class that its callers cannot name.
fn tag() -> pg_sys::LOCKTAG {
    const CLASS: u16 = 0xA6;
    pg_sys::LOCKTAG {
        locktag_field1: my_database(),
        locktag_field2: 0,
        locktag_field3: 0,
        locktag_field4: CLASS,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

/// Marks this transaction, which is about to be prepared. Nobody ever waits for this lock.
pub fn mark() {
    // SAFETY: the server copies the tag; the lock goes with the transaction.
    unsafe { pg_sys::LockAcquire(&tag(), pg_sys::ShareLock as i32, false, false) };
}

/// The transactions that are marked, each by the numbers that it keeps for its life.
fn marked() -> Vec<(i32, u32)> {
    let mut count: c_int = 0;
    // SAFETY: the server answers with a list of that length, in memory of the statement.
    unsafe {
        let list = pg_sys::GetLockConflicts(&tag(), pg_sys::ExclusiveLock as i32, &raw mut count);
        let all = std::slice::from_raw_parts(list, count as usize);
        all.iter().map(numbers_of).collect()
    }
}

/// Whether a command ends a prepared transaction.
fn ends_prepared(statement: *mut pg_sys::Node) -> bool {
    use pg_sys::TransactionStmtKind::{TRANS_STMT_COMMIT_PREPARED, TRANS_STMT_ROLLBACK_PREPARED};
    // SAFETY: the cast follows the tag of the node.
    unsafe {
        is_a(statement, pg_sys::NodeTag::T_TransactionStmt)
            && matches!(
                (*statement.cast::<pg_sys::TransactionStmt>()).kind,
                TRANS_STMT_COMMIT_PREPARED | TRANS_STMT_ROLLBACK_PREPARED
            )
    }
}

/// Tells the rooms when a command has ended a prepared transaction that was marked.
pub fn watch(command: *mut pg_sys::Node, run: &mut dyn FnMut()) {
    let before = if ends_prepared(command) { marked() } else { Vec::new() };
    run();
    // Others see what it did by now, and its locks are gone. That of another session may have gone too: then the rooms
    // are told twice.
    if !before.is_empty() {
        let now = marked();
        if before.iter().any(|one| !now.contains(one)) {
            journal::tell(End::PreparedEnded);
        }
    }
}
