//! Reading a whole table, for one that is small.

use super::raw::guarded;
use super::{Moment, RowReader, Table};
use pgrx::prelude::*;
use std::ptr;

/// All visible rows of a table, in no order.
pub struct All<'a> {
    scan: pg_sys::TableScanDesc,
    row: RowReader,
    table: &'a Table,
    _moment: &'a Moment,
}

impl<'a> All<'a> {
    pub fn begin(table: &'a Table, moment: &'a Moment) -> Self {
        // SAFETY: the table is open and the snapshot lives as long as the scan; a table has an
        // access method, which has this call.
        unsafe {
            let begin = (*(*table.relation).rd_tableam).scan_begin.expect("tables can be read");
            let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
                | pg_sys::ScanOptions::SO_ALLOW_STRAT
                | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
            let scan = guarded(|| begin(table.relation, moment.0, 0, ptr::null_mut(), ptr::null_mut(), flags));
            All { scan, row: RowReader::of(table), table, _moment: moment }
        }
    }

    /// Goes to the next row.
    pub fn next(&mut self) -> Option<&RowReader> {
        // SAFETY: the scan is open, and the slot is of its table.
        let found = unsafe {
            let next = (*(*self.table.relation).rd_tableam).scan_getnextslot.expect("tables can be read");
            guarded(|| next(self.scan, pg_sys::ScanDirection::ForwardScanDirection, self.row.slot))
        };
        found.then_some(&self.row)
    }
}

impl Drop for All<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened by this value, and closed once.
            unsafe {
                let end = (*(*self.table.relation).rd_tableam).scan_end.expect("tables can be read");
                guarded(|| end(self.scan));
            }
        }
    }
}
