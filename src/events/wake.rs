//! Tells the engine, when a transaction that has written events has committed, that there is
//! something to seal.

use super::feed;
use crate::journal::{self, End};
use crate::shared::seats;
use std::cell::Cell;

thread_local!(static EMITTED: Cell<bool> = const { Cell::new(false) });

/// Notes that this transaction has written an event.
pub fn note() {
    EMITTED.set(true);
    journal::open();
}

pub fn at_end(end: End) {
    match end {
        End::Committed => {
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
        End::Prepared | End::RolledBack => EMITTED.set(false),
        End::Committing | End::Preparing | End::PartKept { .. } | End::PartUndone { .. } => {}
    }
}
