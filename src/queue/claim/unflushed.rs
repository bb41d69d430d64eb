//! Claims that need not be on disk before they are answered.
//!
//! A queue may say that its claims are not durable: if the server crashes, those of the last moments
//! are undone, and their jobs are ready again. Then a transaction that has done nothing but claim
//! does not wait for the disk. One that has written anything else does, as its settings say.

use crate::db::set_for_transaction;
use crate::journal::{self, End};
use crate::server::written_to;
use pgrx::pg_sys::XLogRecPtr;
use std::cell::Cell;

/// No place in the log: nothing written.
const NOWHERE: XLogRecPtr = 0;

thread_local! {
    /// Up to where this transaction has written nothing but claims.
    static CLAIMED_TO: Cell<XLogRecPtr> = const { Cell::new(NOWHERE) };
}

/// Runs a claim of which the disk may learn later.
pub fn claim<R>(work: impl FnOnce() -> R) -> R {
    let only_claims = written_to() == CLAIMED_TO.get();
    let result = work();
    if only_claims {
        journal::open();
        CLAIMED_TO.set(written_to());
    }
    result
}

pub fn at_end(end: End) {
    match end {
        End::Committing => {
            let claimed_to = CLAIMED_TO.get();
            if claimed_to != NOWHERE && claimed_to == written_to() {
                set_for_transaction(c"synchronous_commit", c"off");
            }
        }
        End::Committed | End::RolledBack | End::Prepared => CLAIMED_TO.set(NOWHERE),
        End::Preparing | End::PreparedEnded | End::PartKept { .. } | End::PartUndone { .. } => {}
    }
}
