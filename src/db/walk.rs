//! Reading rows a few at a time, so that what they take does not depend on how many there are, nor on how large they are.

use super::plan;
use super::{Db, Rows, Statement};
use crate::memory;
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;
use std::ops::ControlFlow;

/// Rows that are fetched together. Each may be as large as a payload.
const FEW: i64 = 8;

/// How much one turn reads, in bytes. The row that crosses it is still read, so that a row which is larger by itself is read
/// alone, and what is left is for the next turn.
const OF_A_TURN: usize = 8 * 1024 * 1024;

/// What is left of the bytes that a turn may read.
pub struct Budget(usize);

impl Budget {
    pub fn of_a_turn() -> Budget {
        Budget(OF_A_TURN)
    }

    /// Counts what was read. Break: that was enough.
    pub fn take(&mut self, bytes: usize) -> ControlFlow<()> {
        self.0 = self.0.saturating_sub(bytes);
        if self.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

impl Db {
    /// Runs a statement that only reads, or locks what it reads, and calls `each` with its rows, until that has had enough. Rows
    /// behind that one are neither read nor locked, but for a few. A row is gone after its call: what is kept of it is copied.
    pub fn walk(
        &self,
        statement: &Statement,
        args: &[DatumWithOid<'_>],
        mut each: impl FnMut(&Rows) -> ControlFlow<()>,
    ) {
        memory::must_not_be_short();
        let (portal, plan) = plan::open(statement, args);
        let mut few = 1;
        loop {
            // SAFETY: connected; the portal is open, and what is fetched is given back before the next fetch.
            let table = unsafe {
                pg_sys::SPI_cursor_fetch(portal, true, few);
                pg_sys::SPI_tuptable
            };
            // SAFETY: it is what was just fetched with this plan.
            let rows = unsafe { Rows::new(table, plan.clone()) };
            let (found, enough) = (rows.len() as i64, rows.try_each(&mut each).is_break());
            // SAFETY: nothing points into it any more.
            unsafe { pg_sys::SPI_freetuptable(table) };
            if enough || found < few {
                break;
            }
            few = FEW;
        }
        // SAFETY: it is open. After an error the server closes it, with the transaction or its part.
        unsafe { pg_sys::SPI_cursor_close(portal) };
    }
}
