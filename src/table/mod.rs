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
mod read;
mod row;
mod scan;
mod write;

pub use all::All;
pub use read::Reader;
pub(crate) use row::layout;
pub use row::{Column, Layout, Row};
pub use scan::{Bound, Key, Scan};
use write::Writer;

use crate::error::raise;
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
    /// Someone else has locked, changed or deleted it.
    No,
}

/// A moment: the rows that are visible, until it is dropped.
pub struct Moment(pg_sys::Snapshot);

impl Moment {
    /// The present, with everything this transaction has written so far.
    pub fn now() -> Moment {
        // SAFETY: what the server does before each statement of a function.
        unsafe {
            pg_sys::CommandCounterIncrement();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            Moment(pg_sys::GetActiveSnapshot())
        }
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pushed by `now`; moments are dropped in the reverse order of their making.
            unsafe { pg_sys::PopActiveSnapshot() }
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

/// Makes a call of an access method's. Those are pointers, which the bindings do not guard: an error has to unwind, and
/// not to jump over what is put back here and in the callers.
unsafe fn guarded<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: the closure owns nothing that would have to be dropped.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(call) }
}

fn relation_id(name: &CStr) -> pg_sys::Oid {
    // SAFETY: lookups by name in the server's caches.
    let id = unsafe {
        let schema = pg_sys::get_namespace_oid(c"agentq".as_ptr(), false);
        pg_sys::get_relname_relid(name.as_ptr(), schema)
    };
    if id == pg_sys::InvalidOid {
        other_version(name)
    }
    id
}

/// The library and the tables are of different versions.
fn other_version(name: &CStr) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("agentq.{} is not as this version of agentq made it", name.to_string_lossy()),
        "Run ALTER EXTENSION agentq UPDATE.",
    )
}

thread_local!(static PLACES: RefCell<Vec<Rc<Places>>> = RefCell::default());

/// Where the columns of a layout are in the table itself.
pub struct Places {
    table: pg_sys::Oid,
    /// How many columns the table had when this was found out.
    columns: usize,
    /// The number of each column in the table; None: this version of the schema does not have it.
    numbers: Vec<Option<usize>>,
    required: Vec<bool>,
}

impl Places {
    /// Found out once per session, and again when the number of columns has changed.
    fn of(relation: pg_sys::Relation, layout: &Layout) -> Rc<Places> {
        // SAFETY: an open relation has an id and a descriptor with that many attributes.
        let (id, attributes) = unsafe {
            let descriptor = &*(*relation).rd_att;
            ((*relation).rd_id, descriptor.attrs.as_slice(descriptor.natts as usize))
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
        let found: Vec<Option<usize>> = layout.columns.iter().chain(layout.sometimes).map(find).collect();
        if found[..layout.columns.len()].contains(&None) {
            other_version(layout.name)
        }
        let places = Rc::new(Places {
            table: id,
            columns: attributes.len(),
            required: found.iter().map(|place| place.is_some_and(|place| attributes[place].attnotnull)).collect(),
            numbers: found.into_iter().map(|place| place.map(|place| place + 1)).collect(),
        });
        PLACES.with_borrow_mut(|known| {
            known.retain(|places| places.table != id);
            known.push(Rc::clone(&places));
        });
        places
    }

    /// The number of a column, counted from 1.
    fn number(&self, column: Column) -> Option<usize> {
        self.numbers[column.0]
    }
}

impl Table {
    pub fn open(layout: &Layout) -> Table {
        loop {
            // SAFETY: the id was just looked up; the lock is kept to the end of the transaction.
            let relation = unsafe { pg_sys::try_table_open(relation_id(layout.name), pg_sys::RowExclusiveLock as i32) };
            // While the lock was waited for, an upgrade may have put another table in its place, with the same name.
            if !relation.is_null() {
                return Table { relation, places: Places::of(relation, layout), writer: OnceCell::new() };
            }
        }
    }

    /// Closes the table and lets go of its lock, of which nothing was made use.
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

    /// Whether the table refuses a row without this column, as that of another version may.
    pub fn requires(&self, column: Column) -> bool {
        self.places.required[column.0]
    }

    /// Whether the table has this column.
    pub fn has(&self, column: Column) -> bool {
        self.places.number(column).is_some()
    }

    /// Deletes the row on which the scan stands. With `wait`, a transaction that has it locked is
    /// waited for.
    pub fn delete(&self, scan: &Scan<'_>, wait: bool) -> Deleted {
        // SAFETY: the scan stands on a row of this table; a table has an access method, which has
        // this call.
        let result = unsafe {
            let delete = (*(*self.relation).rd_tableam).tuple_delete.expect("tables can delete");
            let mut failure = pg_sys::TM_FailureData::default();
            let (row, command) = (scan.row_id(), pg_sys::GetCurrentCommandId(true));
            let (snapshot, none) = (scan.snapshot(), ptr::null_mut());
            guarded(|| delete(self.relation, row, command, snapshot, none, wait, &mut failure, false))
        };
        if result == pg_sys::TM_Result::TM_Ok { Deleted::Yes } else { Deleted::No }
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
        unsafe { pg_sys::table_close(self.relation, pg_sys::NoLock as i32) }
    }
}
