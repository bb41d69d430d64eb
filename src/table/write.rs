//! Inserting rows, one by one or many together.
//!
//! A table that has nothing but plain indexes gets its rows and their index entries by the access methods' own
//! calls. What needs more (a trigger on INSERT, a CHECK, an index over an expression) goes the way of the
//! server's logical replication, through the executor.

use super::{Places, Row, raw};
use crate::pg::tables;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::ptr;
use std::rc::Rc;

/// At most this many rows are written together.
pub const AT_ONCE: usize = 500;

/// What inserting needs beside the table.
pub struct Writer {
    relation: pg_sys::Relation,
    places: Rc<Places>,
    slots: RefCell<Slots>,
    way: Way,
}

/// As many as rows have been written together.
#[derive(Default)]
struct Slots {
    /// Whether they hold rows that end early.
    short: bool,
    slots: Vec<*mut pg_sys::TupleTableSlot>,
}

impl Slots {
    fn drop_all(&mut self) {
        let slots = self.slots.as_slice();
        // SAFETY: made by `Writer::fill`, and dropped once.
        unsafe { raw::guarded(|| slots.iter().for_each(|slot| raw::ExecDropSingleTupleTableSlot(*slot))) }
        self.slots.clear();
    }
}

enum Way {
    Plain(Vec<Index>),
    Executor(Executor),
}

/// An index over plain columns, open for writing.
struct Index {
    relation: pg_sys::Relation,
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
        self.slots.borrow_mut().drop_all();
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
        let mut kept = self.slots.borrow_mut();
        let short = self.places.short.as_ref().filter(|_| matches!(self.way, Way::Plain(_)));
        let short = short.filter(|short| rows.iter().all(|row| self.ends_within(row, short.columns)));
        if kept.short != short.is_some() {
            kept.drop_all();
            kept.short = short.is_some();
        }
        // SAFETY: a slot has room for every column of its descriptor, whose numbers `places` has.
        unsafe {
            let descriptor = short.map_or((*self.relation).rd_att, |short| short.descriptor);
            let before = kept.slots.len();
            kept.slots.resize(before.max(rows.len()), ptr::null_mut());
            let (new, ways) = (&mut kept.slots[before..], &raw const pg_sys::TTSOpsVirtual);
            raw::guarded(|| new.iter_mut().for_each(|slot| *slot = raw::MakeSingleTupleTableSlot(descriptor, ways)));
            for (slot, row) in kept.slots.iter().zip(rows) {
                let slot = &mut **slot;
                std::slice::from_raw_parts_mut(slot.tts_isnull, (*descriptor).natts as usize).fill(true);
                for (value, number) in row.values().iter().zip(&self.places.numbers) {
                    if let Some(value) = value
                        && *number > 0
                    {
                        *slot.tts_values.add(number - 1) = *value;
                        *slot.tts_isnull.add(number - 1) = false;
                    }
                }
            }
            let (filled, clear) =
                (&kept.slots[..rows.len()], pg_sys::TTSOpsVirtual.clear.expect("slots can be cleared"));
            raw::guarded(|| {
                for slot in filled {
                    // The server's macro ExecClearTuple: forget the row before.
                    clear(*slot);
                    raw::ExecStoreVirtualTuple(*slot);
                }
            });
        }
        kept.slots[..rows.len()].to_vec()
    }

    /// Whether all of the columns behind these are NULL in a row.
    fn ends_within(&self, row: &Row, columns: usize) -> bool {
        row.values().iter().zip(&self.places.numbers).all(|(value, number)| value.is_none() || *number <= columns)
    }

    /// Whether a column that must not be NULL is.
    fn lacks_something(&self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: the slot has as many columns as its descriptor; columns behind those may be NULL.
        unsafe {
            let attributes = tables::columns((*self.relation).rd_att);
            let columns = (*(*slot).tts_tupleDescriptor).natts as usize;
            let nulls = std::slice::from_raw_parts((*slot).tts_isnull, columns);
            attributes.iter().zip(nulls).any(|(attribute, is_null)| attribute.attnotnull && *is_null)
        }
    }

    fn insert(&self, row: &Row) {
        let slot = self.fill(std::slice::from_ref(row))[0];
        match &self.way {
            Way::Plain(_) if self.lacks_something(slot) => self.refuse(row),
            // SAFETY: the slot holds a row of the table, whose values outlive the call; a table has an access
            // method, which has this call.
            Way::Plain(indexes) => unsafe {
                let insert = (*(*self.relation).rd_tableam).tuple_insert.expect("tables can insert");
                let (table, indexes) = (self.relation, indexes.as_slice());
                raw::guarded(|| {
                    insert(table, slot, raw::GetCurrentCommandId(true), 0, ptr::null_mut());
                    for index in indexes {
                        index.add(table, slot);
                    }
                });
            },
            Way::Executor(executor) => executor.insert(slot),
        }
    }

    /// Inserts rows as COPY does: each page is filled and logged once, then come the index entries.
    fn insert_together(&self, rows: &[Row]) {
        let mut slots = self.fill(rows);
        match &self.way {
            Way::Plain(_) if slots.iter().any(|slot| self.lacks_something(*slot)) => {
                let lacking = slots.iter().position(|slot| self.lacks_something(*slot));
                lacking.into_iter().for_each(|place| self.refuse(&rows[place]));
            }
            Way::Plain(indexes) => {
                self.fill_pages(&mut slots);
                let (table, indexes, slots) = (self.relation, indexes.as_slice(), slots.as_slice());
                // SAFETY: the slots hold rows that were just written. One index after the other: the page that they
                // go to stays at hand.
                unsafe {
                    raw::guarded(|| {
                        for index in indexes {
                            for slot in slots {
                                index.add(table, *slot);
                            }
                        }
                    });
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
            let (first, count) = (slots.as_mut_ptr(), slots.len() as i32);
            raw::guarded(|| {
                insert(self.relation, first, count, raw::GetCurrentCommandId(true), 0, ptr::null_mut());
            });
        }
    }

    /// Raises the error that the server raises for a row that lacks a column.
    fn refuse(&self, row: &Row) {
        let way = Way::Executor(Executor::open(self.relation));
        let full = Writer { relation: self.relation, places: Rc::clone(&self.places), slots: RefCell::default(), way };
        full.insert(row);
        full.close();
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
        unsafe {
            let list = raw::guarded(|| raw::RelationGetIndexList(table));
            let Some(ids) = list.as_ref().map(|list| std::slice::from_raw_parts(list.elements, list.length as usize))
            else {
                return Some(Vec::new());
            };
            let mut indexes = Vec::with_capacity(ids.len());
            let mut all_plain = true;
            for id in ids {
                // Their locks are kept to the end of the transaction, as that of the table is.
                let id = id.oid_value;
                let relation = raw::guarded(|| raw::index_open(id, pg_sys::RowExclusiveLock as i32));
                match Index::of(relation) {
                    Some(index) if index.is_ready() => indexes.push(index),
                    found => {
                        all_plain &= found.is_some();
                        raw::guarded(|| raw::index_close(relation, pg_sys::NoLock as i32));
                    }
                }
            }
            raw::guarded(|| raw::list_free(list));
            if !all_plain {
                indexes.drain(..).for_each(Index::close);
            }
            all_plain.then_some(indexes)
        }
    }

    fn of(relation: pg_sys::Relation) -> Option<Index> {
        // SAFETY: an open index has its row of the catalog at hand.
        unsafe {
            let form = &*(*relation).rd_index;
            let columns = form.indkey.values.as_slice(form.indnatts as usize);
            if !form.indimmediate || form.indisexclusion || columns.iter().any(|column| *column <= 0) {
                return None;
            }
            let (row, is_btree) = ((*relation).rd_indextuple, (*(*relation).rd_rel).relam == pg_sys::BTREE_AM_OID);
            let (is_total, info) = raw::guarded(|| {
                let is_total = raw::heap_attisnull(row, pg_sys::Anum_pg_index_indpred as i32, ptr::null_mut());
                (is_total, if is_btree { ptr::null_mut() } else { raw::BuildIndexInfo(relation) })
            });
            use pg_sys::IndexUniqueCheck::{UNIQUE_CHECK_NO, UNIQUE_CHECK_YES};
            let unique = if form.indisunique { UNIQUE_CHECK_YES } else { UNIQUE_CHECK_NO };
            is_total.then_some(Index { relation, unique, info })
        }
    }

    /// One that is being made or dropped beside the work gets no entries.
    fn is_ready(&self) -> bool {
        // SAFETY: as in `of`.
        unsafe { (*(*self.relation).rd_index).indisready }
    }

    /// Adds the entry of a row that was just written. To be called under a guard.
    ///
    /// # Safety
    /// The slot holds a row of the table and knows where it was written.
    unsafe fn add(&self, table: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
        const MOST: usize = pg_sys::INDEX_MAX_KEYS as usize;
        let mut values = [const { std::mem::MaybeUninit::<pg_sys::Datum>::uninit() }; MOST];
        let mut nulls = [const { std::mem::MaybeUninit::<bool>::uninit() }; MOST];
        // SAFETY: the columns are those of the index, which are at most INDEX_MAX_KEYS, each with a number of the
        // table's; one that a short row does not have is NULL.
        unsafe {
            let form = &*(*self.relation).rd_index;
            let (columns, count) = (form.indkey.values.as_ptr(), form.indnatts as usize);
            let (values, nulls) = (values.as_mut_ptr().cast::<pg_sys::Datum>(), nulls.as_mut_ptr().cast::<bool>());
            for place in 0..count {
                let column = *columns.add(place) as usize - 1;
                let is_null = column >= (*slot).tts_nvalid as usize || *(*slot).tts_isnull.add(column);
                *nulls.add(place) = is_null;
                *values.add(place) = if is_null { pg_sys::Datum::null() } else { *(*slot).tts_values.add(column) };
            }
            let row_id = &raw mut (*slot).tts_tid;
            raw::index_insert(self.relation, values, nulls, row_id, table, self.unique, false, self.info);
        }
    }

    fn close(self) {
        // SAFETY: opened by `open_all`, and closed once.
        unsafe {
            raw::guarded(|| {
                tables::end_insertions(self.relation, self.info);
                raw::index_close(self.relation, pg_sys::NoLock as i32);
            })
        }
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
        // SAFETY: the slot holds a row of the table and knows where it was written.
        unsafe {
            tables::insert_index_tuples(self.target, slot, self.state);
            pg_sys::MemoryContextReset((*pg_sys::MakePerTupleExprContext(self.state)).ecxt_per_tuple_memory);
        }
    }

    fn close(self) {
        // SAFETY: made by this value, and released once.
        unsafe {
            pg_sys::ExecCloseIndices(self.target);
            // Triggers have opened the table once more, and have slots for its rows.
            pg_sys::ExecResetTupleTable((*self.state).es_tupleTable, false);
            pg_sys::ExecCloseResultRelations(self.state);
            pg_sys::FreeExecutorState(self.state);
        }
    }
}
