//! Tells the engine, when a transaction has committed, that a step without a worker is there or may end.

use crate::journal::{self, End};
use crate::shared::news::{self, News};
use crate::shared::seats;
use std::cell::Cell;

thread_local!(static NOTED: Cell<bool> = const { Cell::new(false) });

/// Notes that this transaction has begun such a step, or has a signal for one.
pub fn note() {
    NOTED.set(true);
    journal::open();
}

pub fn at_end(end: End) {
    match end {
        End::Committed => {
            if NOTED.take() && news::bring(News::StepWaits) {
                seats::wake_engine();
            }
        }
        // It may have begun one.
        End::PreparedEnded => {
            if news::bring(News::StepWaits) {
                seats::wake_engine();
            }
        }
        End::Prepared | End::RolledBack => NOTED.set(false),
        End::Committing | End::Preparing | End::PartKept { .. } | End::PartUndone { .. } => {}
    }
}
