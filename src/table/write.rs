//! Inserting rows, one by one or many together.
//!
//! A table that has nothing but plain indexes gets its rows and their index entries by the access methods' own
//! calls. What needs more (a trigger on INSERT, a CHECK, an index over an expression) goes the way of the
//! server's logical replication, through the executor.

use super::{Places, Row, guarded};
use pgrx::prelude::*;
use std::cell::RefCell;
use std::ptr;
use std::rc::Rc;

/// Rows that are written together at most.
pub const AT_ONCE: usize = 500;

/// What inserting needs beside the table.
pub struct Writer {
    relation: pg_sys::Relation,
    places: Rc<Places>,
    /// As many as rows have been written together.
    slots: RefCell<Vec<*mut pg_sys::TupleTableSlot>>,
    way: Way,
}

enum Way {
    Plain(Vec<Index>),
    Executor(Executor),
}

/// An index over plain columns, open for writing.
struct Index {
    relation: pg_sys::Relation,
    /// The columns of the table that it has, counted from 0.
    columns: Vec<usize>,
    unique: pg_sys::IndexUniqueCheck::Type,
    /// What access methods other than that of B-trees want to see.
    info: *mut pg_sys::IndexInfo,
}

struct Executor {
    state: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
}

impl Writer {
    pub fn open(relation: pg_sys::Relation, places: Rc<Places>) -> Writer {
        let plain = is_plain(relation).then(|| Index::open_all(relation)).flatten();
        let way = plain.map_or_else(|| Way::Executor(Executor::open(relation)), Way::Plain);
        Writer { relation, places, slots: RefCell::default(), way }
    }

    /// Lets go of what inserting needed. An error does so by itself.
    pub fn close(self) {
        // SAFETY: made by this value, and released once.
        unsafe {
            self.slots.take().into_iter().for_each(|slot| pg_sys::ExecDropSingleTupleTableSlot(slot));
        }
        match self.way {
            Way::Plain(indexes) => indexes.into_iter().for_each(Index::close),
            Way::Executor(executor) => executor.close(),
        }
    }

    /// Inserts rows, with their index entries.
    pub fn insert_all(&self, rows: &[Row]) {
        match rows {
            [row] => self.insert(row),
            // A trigger may want to see the rows before it.
            rows if self.needs_one_by_one() => rows.iter().for_each(|row| self.insert(row)),
            rows => rows.chunks(AT_ONCE).for_each(|rows| self.insert_together(rows)),
        }
    }

    /// Whether the table has what only the insertion of a single row takes care of.
    fn needs_one_by_one(&self) -> bool {
        // SAFETY: the table is open.
        let rules = unsafe { (*(*self.relation).rd_att).constr.as_ref() };
        has_triggers(self.relation) || rules.is_some_and(|rules| rules.has_generated_stored)
    }

    /// Slots that hold these rows. The values must outlive their use.
    fn fill(&self, rows: &[Row]) -> Vec<*mut pg_sys::TupleTableSlot> {
        let mut slots = self.slots.borrow_mut();
        // SAFETY: a slot has room for every column of the table, whose numbers `places` has.
        unsafe {
            while slots.len() < rows.len() {
                let descriptor = (*self.relation).rd_att;
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

    /// Whether a column that must not be NULL is.
    fn lacks_something(&self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: the slot has as many columns as the table.
        unsafe {
            let descriptor = &*(*self.relation).rd_att;
            let attributes = descriptor.attrs.as_slice(descriptor.natts as usize);
            let nulls = std::slice::from_raw_parts((*slot).tts_isnull, attributes.len());
            attributes.iter().zip(nulls).any(|(attribute, is_null)| attribute.attnotnull && *is_null)
        }
    }

    fn insert(&self, row: &Row) {
        let slot = self.fill(std::slice::from_ref(row))[0];
        match &self.way {
            Way::Plain(_) if self.lacks_something(slot) => Executor::open(self.relation).insert(slot),
            // SAFETY: the slot holds a row of the table, whose values outlive the call; a table has an access
            // method, which has this call.
            Way::Plain(indexes) => unsafe {
                let insert = (*(*self.relation).rd_tableam).tuple_insert.expect("tables can insert");
                let command = pg_sys::GetCurrentCommandId(true);
                guarded(|| insert(self.relation, slot, command, 0, ptr::null_mut()));
                indexes.iter().for_each(|index| index.add(self.relation, slot));
            },
            Way::Executor(executor) => executor.insert(slot),
        }
    }

    /// Inserts rows as COPY does: each page is filled and logged once, then come the index entries.
    fn insert_together(&self, rows: &[Row]) {
        let mut slots = self.fill(rows);
        match &self.way {
            Way::Plain(_) if slots.iter().any(|slot| self.lacks_something(*slot)) => {
                let executor = Executor::open(self.relation);
                slots.iter().for_each(|slot| executor.insert(*slot));
            }
            Way::Plain(indexes) => {
                self.fill_pages(&mut slots);
                // One index after the other: the page that they go to stays at hand.
                for index in indexes {
                    slots.iter().for_each(|slot| index.add(self.relation, *slot));
                }
            }
            Way::Executor(executor) => {
                slots.iter().for_each(|slot| executor.check(*slot));
                self.fill_pages(&mut slots);
                slots.iter().for_each(|slot| executor.index(*slot));
            }
        }
    }

    fn fill_pages(&self, slots: &mut [*mut pg_sys::TupleTableSlot]) {
        // SAFETY: the slots hold rows of the table, whose values outlive the call; a table has an access method,
        // which has this call.
        unsafe {
            let insert = (*(*self.relation).rd_tableam).multi_insert.expect("tables can insert");
            let command = pg_sys::GetCurrentCommandId(true);
            let (rows, number) = (slots.as_mut_ptr(), slots.len() as i32);
            guarded(|| insert(self.relation, rows, number, command, 0, ptr::null_mut()));
        }
    }
}

fn has_triggers(relation: pg_sys::Relation) -> bool {
    // SAFETY: an open table has its triggers, if it has any.
    let triggers = unsafe { (*relation).trigdesc.as_ref() };
    triggers.is_some_and(|on| on.trig_insert_before_row || on.trig_insert_after_row || on.trig_insert_instead_row)
}

/// Whether rows need nothing but to be written: NOT NULL is the only rule.
fn is_plain(relation: pg_sys::Relation) -> bool {
    // SAFETY: the table is open.
    let rules = unsafe { (*(*relation).rd_att).constr.as_ref() };
    !has_triggers(relation) && rules.is_none_or(|rules| rules.num_check == 0 && !rules.has_generated_stored)
}

impl Index {
    /// The indexes of a table. None: one of them is not over plain columns.
    fn open_all(table: pg_sys::Relation) -> Option<Vec<Index>> {
        // SAFETY: the table is open, and the list holds the ids of its indexes.
        let ids: Vec<pg_sys::Oid> = unsafe {
            let list = pg_sys::RelationGetIndexList(table);
            let ids = list.as_ref().map(|list| {
                std::slice::from_raw_parts(list.elements, list.length as usize).iter().map(|cell| cell.oid_value)
            });
            let ids = ids.into_iter().flatten().collect();
            pg_sys::list_free(list);
            ids
        };
        let mut indexes = Vec::with_capacity(ids.len());
        for id in ids {
            // SAFETY: the index belongs to an open table.
            let relation = unsafe { pg_sys::index_open(id, pg_sys::RowExclusiveLock as i32) };
            match Index::of(relation) {
                Some(index) if index.is_ready() => indexes.push(index),
                Some(index) => index.close(),
                None => {
                    // SAFETY: opened above.
                    unsafe { pg_sys::index_close(relation, pg_sys::RowExclusiveLock as i32) };
                    indexes.into_iter().for_each(Index::close);
                    return None;
                }
            }
        }
        Some(indexes)
    }

    fn of(relation: pg_sys::Relation) -> Option<Index> {
        // SAFETY: an open index has its row of the catalog at hand.
        unsafe {
            let (form, row) = (&*(*relation).rd_index, (*relation).rd_indextuple);
            let is_plain = form.indimmediate
                && !form.indisexclusion
                && [pg_sys::Anum_pg_index_indexprs, pg_sys::Anum_pg_index_indpred]
                    .iter()
                    .all(|column| pg_sys::heap_attisnull(row, *column as i32, ptr::null_mut()));
            let columns = form.indkey.values.as_slice(form.indnatts as usize);
            if !is_plain || columns.iter().any(|column| *column <= 0) {
                return None;
            }
            use pg_sys::IndexUniqueCheck::{UNIQUE_CHECK_NO, UNIQUE_CHECK_YES};
            let is_btree = (*(*relation).rd_rel).relam == pg_sys::BTREE_AM_OID;
            Some(Index {
                relation,
                columns: columns.iter().map(|column| *column as usize - 1).collect(),
                unique: if form.indisunique { UNIQUE_CHECK_YES } else { UNIQUE_CHECK_NO },
                info: if is_btree { ptr::null_mut() } else { pg_sys::BuildIndexInfo(relation) },
            })
        }
    }

    /// One that is being made or dropped beside the work gets no entries.
    fn is_ready(&self) -> bool {
        // SAFETY: as in `of`.
        unsafe { (*(*self.relation).rd_index).indisready }
    }

    /// Adds the entry of a row that was just written.
    fn add(&self, table: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
        const MOST: usize = pg_sys::INDEX_MAX_KEYS as usize;
        let (mut values, mut nulls) = ([pg_sys::Datum::from(0); MOST], [false; MOST]);
        // SAFETY: the slot holds a row of the table and knows where it was written.
        unsafe {
            for (place, column) in self.columns.iter().enumerate() {
                (values[place], nulls[place]) = (*(*slot).tts_values.add(*column), *(*slot).tts_isnull.add(*column));
            }
            let row_id = &raw mut (*slot).tts_tid;
            let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::index_insert(self.relation, values, nulls, row_id, table, self.unique, false, self.info);
        }
    }

    fn close(self) {
        // SAFETY: opened by `open_all`, and closed once; its lock may go before the transaction does.
        unsafe { pg_sys::index_close(self.relation, pg_sys::RowExclusiveLock as i32) }
    }
}

impl Executor {
    fn open(relation: pg_sys::Relation) -> Executor {
        // SAFETY: what the server's logical replication does before it inserts into a table.
        unsafe {
            let state = pg_sys::CreateExecutorState();
            (*state).es_output_cid = pg_sys::GetCurrentCommandId(true);
            let target = pg_sys::palloc0(size_of::<pg_sys::ResultRelInfo>()).cast();
            pg_sys::InitResultRelInfo(target, relation, 0, ptr::null_mut(), 0);
            pg_sys::ExecOpenIndices(target, false);
            Executor { state, target }
        }
    }

    fn relation(&self) -> pg_sys::Relation {
        // SAFETY: the target was made for an open table.
        unsafe { (*self.target).ri_RelationDesc }
    }

    fn insert(&self, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: the slot holds a row of the table, whose values outlive the call.
        unsafe {
            let triggers = has_triggers(self.relation());
            if triggers {
                pg_sys::AfterTriggerBeginQuery();
            }
            pg_sys::ExecSimpleRelationInsert(self.target, self.state, slot);
            if triggers {
                pg_sys::AfterTriggerEndQuery(self.state);
            }
        }
    }

    /// Raises an error for a row that breaks a rule of the table.
    fn check(&self, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: the slot holds a row of the table.
        unsafe {
            if !(*(*self.relation()).rd_att).constr.is_null() {
                pg_sys::ExecConstraints(self.target, slot, self.state);
            }
        }
    }

    /// Adds the index entries of a row that was just written.
    fn index(&self, slot: *mut pg_sys::TupleTableSlot) {
        let none = ptr::null_mut();
        // SAFETY: the slot holds a row of the table and knows where it was written.
        unsafe {
            pg_sys::ExecInsertIndexTuples(self.target, slot, self.state, false, false, none, ptr::null_mut());
            pg_sys::MemoryContextReset((*pg_sys::MakePerTupleExprContext(self.state)).ecxt_per_tuple_memory);
        }
    }

    fn close(self) {
        // SAFETY: made by this value, and released once.
        unsafe {
            pg_sys::ExecCloseIndices(self.target);
            pg_sys::FreeExecutorState(self.state);
        }
    }
}
