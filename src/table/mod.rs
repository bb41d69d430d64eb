//! Reading and writing agentq's own tables without SQL, for the hot path.
//!
//! A third of the time of a small statement goes into setting up and tearing down its plan. Here a
//! row is found by an index scan, deleted, and written with all its indexes, constraints and INSERT
//! triggers, by the calls that the server's logical replication makes for the same purpose.
//! Triggers on DELETE are not fired.
//!
//! On an error nothing is released here: the server does that when it aborts the transaction.

#![allow(unsafe_code, reason = "the one place that handles the server's tables")]

mod all;
mod names;
mod raw;
mod read;
mod row;
mod scan;
mod write;

pub use all::All;
pub use names::id;
pub use read::RowReader;
pub(crate) use row::layout;
pub use row::{Column, Common, Layout, Row};
pub use scan::{Bound, Key, Scan};
use write::Writer;

use crate::base::settings::is_schema_previous;
use crate::pg::tables;
use pgrx::prelude::*;
use std::cell::{OnceCell, RefCell};
use std::ffi::CStr;
use std::ptr;
use std::rc::Rc;

/// A table of the extension's schema, open for reading and writing.
pub struct Table {
    relation: pg_sys::Relation,
    places: Rc<Places>,
    writer: OnceCell<Writer>,
}

/// What became of a row that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Yes,
    /// Someone else has changed or deleted it.
    No,
    /// Someone else has it locked, and this call did not want to wait.
    Locked,
}

/// A moment: the rows that are visible, until it is dropped.
pub struct Moment(pg_sys::Snapshot);

impl Moment {
    /// The present, with everything this transaction has written so far.
    pub fn now() -> Moment {
        // SAFETY: what the server does before each statement of a function.
        Moment(unsafe {
            raw::guarded(|| {
                raw::CommandCounterIncrement();
                raw::PushActiveSnapshot(raw::GetTransactionSnapshot());
                raw::GetActiveSnapshot()
            })
        })
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pushed by `now`; moments are dropped in the reverse order of their making.
            unsafe { raw::guarded(|| raw::PopActiveSnapshot()) }
        }
    }
}

impl Moment {
    /// The present, also in a transaction that keeps one snapshot.
    pub fn latest() -> Moment {
        // SAFETY: as in `now`.
        unsafe {
            pg_sys::CommandCounterIncrement();
            pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
            Moment(pg_sys::GetActiveSnapshot())
        }
    }
}

/// Refuses to go on in a transaction that may not write, as a statement would.
pub fn must_write(what: &CStr) {
    // SAFETY: the name outlives the calls, which raise or return.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(what.as_ptr());
        pg_sys::PreventCommandIfParallelMode(what.as_ptr());
    }
}

thread_local!(static PLACES: RefCell<Vec<Rc<Places>>> = RefCell::default());

/// Where the columns of a layout are in the table itself.
pub struct Places {
    table: pg_sys::Oid,
    /// How many columns the table had when this was found out.
    columns: usize,
    /// The number of each column in the table, counted from 1. 0: the schema of the version before lacks it.
    numbers: Vec<usize>,
    short: Option<Short>,
}

/// The first columns of a table, behind which a row may end: the rest of it, if there is any, is NULL. Such a row is
/// shorter, and it is quicker made, because the server need not count the users of our description of it.
struct Short {
    columns: usize,
    descriptor: pg_sys::TupleDesc,
}

impl Short {
    /// Up to the last column that new rows have. None: not all of those behind it may be left out.
    fn of(descriptor: pg_sys::TupleDesc, columns: usize) -> Option<Short> {
        // SAFETY: the descriptor is that of an open table; the copy is made where it outlives the transaction.
        unsafe {
            let attributes = tables::columns(descriptor);
            // A column that was added with a default shows it in rows that end before it.
            let has_defaults = (*descriptor).constr.as_ref().is_some_and(|rules| !rules.missing.is_null());
            if has_defaults || attributes[columns..].iter().any(|a| a.attnotnull) {
                return None;
            }
            let before = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let short = pg_sys::CreateTemplateTupleDesc(columns as i32);
            for number in 1..=columns as i16 {
                pg_sys::TupleDescCopyEntry(short, number, descriptor, number);
            }
            pg_sys::MemoryContextSwitchTo(before);
            Some(Short { columns, descriptor: short })
        }
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made by `of`; slots with it are dropped before those who hold its places.
            unsafe { pg_sys::FreeTupleDesc(self.descriptor) }
        }
    }
}

/// Forgets what is known of a table that has changed; InvalidOid stands for all.
fn forget_places(table: pg_sys::Oid) {
    PLACES.with_borrow_mut(|known| known.retain(|places| table != pg_sys::InvalidOid && places.table != table));
}

impl Places {
    /// Found out once per session, and again when the table has changed.
    fn of(relation: pg_sys::Relation, layout: &Layout) -> Rc<Places> {
        // SAFETY: an open relation has an id and a descriptor with that many attributes.
        let (id, descriptor, attributes) = unsafe {
            let descriptor = (*relation).rd_att;
            ((*relation).rd_id, descriptor, tables::columns(descriptor))
        };
        let is_it = |places: &&Rc<Places>| places.table == id && places.columns == attributes.len();
        if let Some(places) = PLACES.with_borrow(|known| known.iter().find(is_it).cloned()) {
            return places;
        }
        let find = |name: &&str| {
            // SAFETY: the server ends a name with a NUL.
            let is_named = |attribute: &pg_sys::FormData_pg_attribute| unsafe {
                CStr::from_ptr(attribute.attname.data.as_ptr()).to_bytes() == name.as_bytes()
            };
            attributes.iter().position(is_named)
        };
        let number = |name: &&str| match find(name) {
            Some(place) => place + 1,
            None if layout.rarely.contains(name) && is_schema_previous() => 0,
            None => names::other_version(layout.name),
        };
        let numbers: Vec<usize> = layout.columns.iter().chain(layout.rarely).map(number).collect();
        let last = numbers[..layout.columns.len()].iter().max().copied().unwrap_or_default();
        let places =
            Rc::new(Places { table: id, columns: attributes.len(), short: Short::of(descriptor, last), numbers });
        PLACES.with_borrow_mut(|known| {
            known.retain(|places| places.table != id);
            known.push(Rc::clone(&places));
        });
        places
    }

    /// The number of a column, counted from 1; 0 if the table lacks it.
    fn number(&self, column: Column) -> usize {
        self.numbers[column.0]
    }
}

impl Table {
    pub fn open(layout: &Layout) -> Table {
        loop {
            let id = names::id(layout.name);
            // SAFETY: the lock is kept to the end of the transaction.
            let relation = unsafe { raw::guarded(|| raw::try_table_open(id, pg_sys::RowExclusiveLock as i32)) };
            if !relation.is_null() {
                return Table { relation, places: Places::of(relation, layout), writer: OnceCell::new() };
            }
            // While this session waited for the lock, an upgrade has put another table with this name in its place.
            names::forget_all();
        }
    }

    /// Closes the table and lets go of its lock, which nobody has made use of.
    pub fn let_go(self) {
        let id = self.id();
        drop(self);
        // SAFETY: `open` has taken this lock once more than it was let go of.
        unsafe { pg_sys::UnlockRelationOid(id, pg_sys::RowExclusiveLock as i32) }
    }

    pub fn id(&self) -> pg_sys::Oid {
        // SAFETY: an open relation has an id.
        unsafe { (*self.relation).rd_id }
    }

    /// Deletes the row on which the scan stands. With `wait`, it waits for a transaction that has the row locked.
    pub fn delete(&self, scan: &Scan<'_>, wait: bool) -> Deleted {
        // SAFETY: the scan stands on a row of this table; a table has an access method, which has
        // this call.
        let result = unsafe {
            let delete = (*(*self.relation).rd_tableam).tuple_delete.expect("tables can delete");
            let mut failure = pg_sys::TM_FailureData::default();
            let (relation, row, snapshot) = (self.relation, scan.row_id(), scan.snapshot());
            raw::guarded(|| {
                let command = raw::GetCurrentCommandId(true);
                delete(relation, row, command, snapshot, ptr::null_mut(), wait, &mut failure, false)
            })
        };
        match result {
            pg_sys::TM_Result::TM_Ok => Deleted::Yes,
            pg_sys::TM_Result::TM_BeingModified | pg_sys::TM_Result::TM_WouldBlock => Deleted::Locked,
            _ => Deleted::No,
        }
    }

    /// Inserts rows, with their index entries. Constraints and triggers of the table hold, rules of
    /// domains must have been checked.
    pub fn insert_all(&self, rows: &[Row]) {
        self.writer.get_or_init(|| Writer::open(self.relation, Rc::clone(&self.places))).insert_all(rows);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Some(writer) = self.writer.take() {
            writer.close();
        }
        // SAFETY: opened by this value, and closed once.
        unsafe { raw::guarded(|| raw::table_close(self.relation, pg_sys::NoLock as i32)) }
    }
}
