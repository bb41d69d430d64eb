//! Reading and writing agentq's own tables without SQL, for the hot path.
//!
//! A third of the time of a small statement goes into setting up and tearing down its plan. Here a
//! row is found by an index scan, deleted, and written with all its indexes, constraints and INSERT
//! triggers, by the calls that the server's logical replication makes for the same purpose.
//! Triggers on DELETE are not fired.
//!
//! On an error nothing is released here: the server does that when it aborts the transaction.

#![allow(unsafe_code, reason = "the one place that handles the server's tables")]

mod row;
mod scan;

pub(crate) use row::layout;
pub use row::{Column, Layout, Row};
pub use scan::{Bound, Key, Scan};

use crate::error::raise;
use pgrx::prelude::*;
use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;
use std::ffi::CStr;
use std::ptr;

/// A table of the extension's schema, open for reading and writing.
pub struct Table {
    relation: pg_sys::Relation,
    writer: OnceCell<Writer>,
}

/// What inserting needs beside the table.
struct Writer {
    state: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
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

/// Refuses to go on in a transaction that may not write, as a statement would.
pub fn must_write(what: &CStr) {
    // SAFETY: the name outlives the calls, which raise or return.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(what.as_ptr());
        pg_sys::PreventCommandIfParallelMode(what.as_ptr());
    }
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

thread_local!(static COMPARED: RefCell<HashSet<pg_sys::Oid>> = RefCell::default());

/// Whether the table is as the library knows it. Its columns are compared once per session, their
/// number every time.
fn fits(relation: pg_sys::Relation, layout: &Layout) -> bool {
    // SAFETY: an open relation has an id and a descriptor with that many attributes.
    unsafe {
        let descriptor = &*(*relation).rd_att;
        let attributes = descriptor.attrs.as_slice(descriptor.natts as usize);
        let same_name = |(attribute, name): (&pg_sys::FormData_pg_attribute, &&str)| {
            CStr::from_ptr(attribute.attname.data.as_ptr()).to_bytes() == name.as_bytes()
        };
        attributes.len() == layout.columns.len()
            && (COMPARED.with_borrow(|seen| seen.contains(&(*relation).rd_id))
                || attributes.iter().zip(layout.columns).all(same_name)
                    && COMPARED.with_borrow_mut(|seen| seen.insert((*relation).rd_id)))
    }
}

impl Table {
    pub fn open(layout: &Layout) -> Table {
        // SAFETY: the id was just looked up; the lock is kept to the end of the transaction.
        let relation = unsafe { pg_sys::table_open(relation_id(layout.name), pg_sys::RowExclusiveLock as i32) };
        if !fits(relation, layout) {
            other_version(layout.name)
        }
        Table { relation, writer: OnceCell::new() }
    }

    /// Deletes the row on which the scan stands. With `wait`, a transaction that has it locked is
    /// waited for.
    pub fn delete(&self, scan: &Scan<'_>, wait: bool) -> Deleted {
        // SAFETY: the scan stands on a row of this table; a table has an access method, which has
        // this call.
        let result = unsafe {
            let delete = (*(*self.relation).rd_tableam).tuple_delete.expect("tables can delete");
            let mut failure = pg_sys::TM_FailureData::default();
            delete(
                self.relation,
                scan.row_id(),
                pg_sys::GetCurrentCommandId(true),
                scan.snapshot(),
                ptr::null_mut(),
                wait,
                &mut failure,
                false,
            )
        };
        if result == pg_sys::TM_Result::TM_Ok { Deleted::Yes } else { Deleted::No }
    }

    /// Inserts a row, with its index entries. Constraints and triggers of the table hold, rules of
    /// domains must have been checked.
    pub fn insert(&self, row: &Row) {
        let writer = self.writer.get_or_init(|| self.writer());
        // SAFETY: the slot has the table's descriptor, and the row as many values as that, which
        // `open` and `Row` see to. The values outlive the call.
        unsafe {
            let slot = &mut *writer.slot;
            for (place, value) in row.values().iter().enumerate() {
                *slot.tts_values.add(place) = value.unwrap_or(pg_sys::Datum::from(0));
                *slot.tts_isnull.add(place) = value.is_none();
            }
            pg_sys::ExecStoreVirtualTuple(slot);
            let triggers = !(*writer.target).ri_TrigDesc.is_null();
            if triggers {
                pg_sys::AfterTriggerBeginQuery();
            }
            pg_sys::ExecSimpleRelationInsert(writer.target, writer.state, slot);
            if triggers {
                pg_sys::AfterTriggerEndQuery(writer.state);
            }
            // The server's macro of this name: forget the row, so that the slot can be used again.
            (*slot.tts_ops).clear.expect("slots can be cleared")(slot);
        }
    }

    fn writer(&self) -> Writer {
        // SAFETY: what the server's logical replication does before it inserts into a table.
        unsafe {
            let state = pg_sys::CreateExecutorState();
            (*state).es_output_cid = pg_sys::GetCurrentCommandId(true);
            let target = pg_sys::palloc0(size_of::<pg_sys::ResultRelInfo>()).cast();
            pg_sys::InitResultRelInfo(target, self.relation, 0, ptr::null_mut(), 0);
            pg_sys::ExecOpenIndices(target, false);
            let slot = pg_sys::MakeSingleTupleTableSlot((*self.relation).rd_att, &raw const pg_sys::TTSOpsVirtual);
            Writer { state, target, slot }
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // SAFETY: opened by this value, and closed once.
        unsafe {
            if let Some(writer) = self.writer.take() {
                pg_sys::ExecDropSingleTupleTableSlot(writer.slot);
                pg_sys::ExecCloseIndices(writer.target);
                pg_sys::FreeExecutorState(writer.state);
            }
            pg_sys::table_close(self.relation, pg_sys::NoLock as i32);
        }
    }
}
