//! The row on which a scan stands.

use super::{Column, Places, Table, raw};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::ptr;
use std::rc::Rc;

pub struct RowReader {
    pub(super) slot: *mut pg_sys::TupleTableSlot,
    places: Rc<Places>,
}

impl RowReader {
    pub(super) fn of(table: &Table) -> Self {
        // SAFETY: the table is open.
        let slot = unsafe { raw::guarded(|| raw::table_slot_create(table.relation, ptr::null_mut())) };
        RowReader::with(slot, table)
    }

    /// Reads what a slot of the table holds, and drops the slot in the end.
    pub(super) fn with(slot: *mut pg_sys::TupleTableSlot, table: &Table) -> Self {
        RowReader { slot, places: Rc::clone(&table.places) }
    }

    fn datum(&self, column: Column) -> Option<pg_sys::Datum> {
        let place = self.places.number(column);
        if place == 0 {
            return None;
        }
        // SAFETY: the slot holds a row, and the column is one of its table's.
        unsafe {
            if usize::from((*self.slot).tts_nvalid as u16) < place {
                // All of them at once: who reads one column of a row reads more.
                let columns = self.places.columns as i32;
                raw::guarded(|| raw::slot_getsomeattrs_int(self.slot, columns));
            }
            let is_null = *(*self.slot).tts_isnull.add(place - 1);
            (!is_null).then(|| *(*self.slot).tts_values.add(place - 1))
        }
    }

    pub fn is_null(&self, column: Column) -> bool {
        self.datum(column).is_none()
    }

    fn value(&self, column: Column) -> pg_sys::Datum {
        self.datum(column).expect("the column is never NULL")
    }

    pub fn int(&self, column: Column) -> i32 {
        self.value(column).value() as i32
    }

    pub fn maybe_int(&self, column: Column) -> Option<i32> {
        self.datum(column).map(|datum| datum.value() as i32)
    }

    pub fn long(&self, column: Column) -> i64 {
        self.value(column).value() as i64
    }

    pub fn maybe_float(&self, column: Column) -> Option<f64> {
        self.datum(column).map(|datum| f64::from_bits(datum.value() as u64))
    }

    /// A number of any precision, as near as a float comes.
    pub fn numeric(&self, column: Column) -> f64 {
        let value = self.value(column);
        // SAFETY: the column holds a numeric, and the function answers with a float.
        unsafe { pgrx::direct_function_call(pg_sys::numeric_float8_no_overflow, &[Some(value)]) }.unwrap_or_default()
    }

    pub fn bool(&self, column: Column) -> bool {
        self.value(column).value() as u8 != 0
    }

    /// A moment, in microseconds of the server's.
    pub fn time(&self, column: Column) -> i64 {
        self.value(column).value() as i64
    }

    pub fn id(&self, column: Column) -> Uuid {
        self.maybe_id(column).expect("the column is never NULL")
    }

    pub fn maybe_id(&self, column: Column) -> Option<Uuid> {
        // SAFETY: an id is sixteen bytes, which the row holds.
        self.datum(column).map(|datum| Uuid::from_bytes(unsafe { *datum.cast_mut_ptr::<[u8; 16]>() }))
    }

    /// A text, or the bytes of a jsonb, as long as the scan stands there.
    pub fn maybe_bytes(&self, column: Column) -> Option<&[u8]> {
        // SAFETY: the column holds a varlena; one stored elsewhere or compressed is copied to
        // memory that outlives this call.
        self.datum(column).map(|datum| unsafe {
            let value = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            std::slice::from_raw_parts(pgrx::vardata_any(value).cast(), pgrx::varsize_any_exhdr(value))
        })
    }

    /// A list of texts; empty if it is NULL.
    pub fn texts(&self, column: Column) -> Vec<String> {
        // SAFETY: the column holds an array of texts.
        let list = self.datum(column).and_then(|datum| unsafe { Vec::<Option<String>>::from_datum(datum, false) });
        list.into_iter().flatten().flatten().collect()
    }

    /// A list of numbers; empty if it is NULL.
    pub fn ints(&self, column: Column) -> Vec<i32> {
        // SAFETY: the column holds an array of integers.
        let list = self.datum(column).and_then(|datum| unsafe { Vec::<Option<i32>>::from_datum(datum, false) });
        list.into_iter().flatten().flatten().collect()
    }

    /// A text that is never NULL.
    pub fn text(&self, column: Column) -> String {
        String::from_utf8_lossy(self.bytes(column)).into_owned()
    }

    pub fn bytes(&self, column: Column) -> &[u8] {
        self.maybe_bytes(column).expect("the column is never NULL")
    }
}

impl Drop for RowReader {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made by this value, and dropped once.
            unsafe { raw::guarded(|| raw::ExecDropSingleTupleTableSlot(self.slot)) }
        }
    }
}
