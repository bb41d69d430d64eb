//! Tells the engine, when a transaction that has written events has committed, that there is
//! something to seal.

use super::{feed, origin};
use crate::db::Db;
use crate::journal::{self, End};
use crate::shared::seats;
use std::cell::Cell;

thread_local! {
    static EMITTED: Cell<bool> = const { Cell::new(false) };
    /// Whether a part of this transaction was undone, and with it perhaps what it wrote of the origin.
    static UNDONE: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this transaction has written an event.
pub fn note(db: &Db) {
    origin::note(db);
    EMITTED.set(true);
    journal::open();
}

pub fn at_end(end: End) {
    match end {
        End::Committed => {
            let is_whole = !UNDONE.take();
            origin::ended(is_whole);
            if EMITTED.take() && feed::bring_news() {
                seats::wake_engine();
            }
        }
        // It may have written some.
        End::PreparedEnded => {
            if feed::bring_news() {
                seats::wake_engine();
            }
        }
        End::Prepared | End::RolledBack => {
            origin::ended(false);
            EMITTED.set(false);
            UNDONE.set(false);
        }
        End::PartUndone { .. } => UNDONE.set(true),
        End::Committing | End::Preparing | End::PartKept { .. } => {}
    }
}
