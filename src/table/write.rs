//! Inserting rows, one by one or many together.

use super::{Places, Row};
use pgrx::prelude::*;
use std::cell::RefCell;
use std::ptr;
use std::rc::Rc;

/// Rows that are written together at most.
pub const AT_ONCE: usize = 500;

/// What inserting needs beside the table.
pub struct Writer {
    pub state: *mut pg_sys::EState,
    pub target: *mut pg_sys::ResultRelInfo,
    pub places: Rc<Places>,
    /// As many as rows have been written together.
    pub slots: RefCell<Vec<*mut pg_sys::TupleTableSlot>>,
}

impl Writer {
    fn relation(&self) -> pg_sys::Relation {
        // SAFETY: the target was made for an open table.
        unsafe { (*self.target).ri_RelationDesc }
    }

    /// Whether the table has what only the insertion of a single row takes care of.
    pub fn needs_one_by_one(&self) -> bool {
        // SAFETY: the table is open.
        let rules = unsafe { (*(*self.relation()).rd_att).constr.as_ref() };
        self.has_triggers() || rules.is_some_and(|rules| rules.has_generated_stored)
    }

    fn has_triggers(&self) -> bool {
        // SAFETY: the target has the table's triggers, if it has any.
        let triggers = unsafe { (*self.target).ri_TrigDesc.as_ref() };
        triggers.is_some_and(|on| on.trig_insert_before_row || on.trig_insert_after_row || on.trig_insert_instead_row)
    }

    /// Slots that hold these rows. The values must outlive their use.
    fn fill(&self, rows: &[Row]) -> Vec<*mut pg_sys::TupleTableSlot> {
        let mut slots = self.slots.borrow_mut();
        // SAFETY: a slot has room for every column of the table, whose numbers `places` has.
        unsafe {
            while slots.len() < rows.len() {
                let descriptor = (*self.relation()).rd_att;
                slots.push(pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsVirtual));
            }
            for (slot, row) in slots.iter().zip(rows) {
                let slot = &mut **slot;
                // The server's macro of this name: forget the row before.
                (*slot.tts_ops).clear.expect("slots can be cleared")(slot);
                std::slice::from_raw_parts_mut(slot.tts_isnull, self.places.columns).fill(true);
                for (value, number) in row.values().iter().zip(&self.places.numbers) {
                    if let (Some(value), Some(number)) = (value, number) {
                        *slot.tts_values.add(number - 1) = *value;
                        *slot.tts_isnull.add(number - 1) = false;
                    }
                }
                pg_sys::ExecStoreVirtualTuple(slot);
            }
        }
        slots[..rows.len()].to_vec()
    }

    pub fn insert(&self, row: &Row) {
        let slot = self.fill(std::slice::from_ref(row))[0];
        // SAFETY: the slot holds a row of the table, whose values outlive the call.
        unsafe {
            let triggers = self.has_triggers();
            if triggers {
                pg_sys::AfterTriggerBeginQuery();
            }
            pg_sys::ExecSimpleRelationInsert(self.target, self.state, slot);
            if triggers {
                pg_sys::AfterTriggerEndQuery(self.state);
            }
        }
    }

    /// Inserts rows as COPY does: each page is filled and logged once, then come the index entries.
    pub fn insert_together(&self, rows: &[Row]) {
        let mut slots = self.fill(rows);
        // SAFETY: the slots hold rows of the table, whose values outlive the call; a table has an
        // access method, which has this call.
        unsafe {
            let relation = self.relation();
            if !(*(*relation).rd_att).constr.is_null() {
                slots.iter().for_each(|slot| pg_sys::ExecConstraints(self.target, *slot, self.state));
            }
            let insert = (*(*relation).rd_tableam).multi_insert.expect("tables can insert");
            let command = pg_sys::GetCurrentCommandId(true);
            insert(relation, slots.as_mut_ptr(), slots.len() as i32, command, 0, ptr::null_mut());
            for slot in slots {
                pg_sys::ExecInsertIndexTuples(
                    self.target,
                    slot,
                    self.state,
                    false,
                    false,
                    ptr::null_mut(),
                    ptr::null_mut(),
                );
                pg_sys::MemoryContextReset((*pg_sys::MakePerTupleExprContext(self.state)).ecxt_per_tuple_memory);
            }
        }
    }
}
