//! The server's own calls, several under one guard.
//!
//! pgrx puts a guard around each call of the server's, which turns an error into a panic. A guard costs as much as
//! a small call, and the hot path makes a hundred of them. Here the calls are declared as they are, and a guard is
//! put around those that belong together. What the access methods offer as pointers pgrx does not guard at all.

use crate::pg::declared;
use pgrx::pg_sys::*;
use std::ffi::{c_char, c_int};

/// Makes calls of the server's. An error in one of them becomes a panic, as with pgrx's own.
///
/// # Safety
/// The closure must not panic, and must hold nothing that has a destructor: an error jumps over it.
pub unsafe fn guarded<T>(calls: impl FnOnce() -> T) -> T {
    // SAFETY: the caller's.
    unsafe { ffi::pg_guard_ffi_boundary(calls) }
}

declared! {
    pub fn BuildIndexInfo(index: Relation) -> *mut IndexInfo;
    pub fn CommandCounterIncrement();
    pub fn ExecDropSingleTupleTableSlot(slot: *mut TupleTableSlot);
    pub fn ExecStoreVirtualTuple(slot: *mut TupleTableSlot) -> *mut TupleTableSlot;
    pub fn GetActiveSnapshot() -> Snapshot;
    pub fn GetCurrentCommandId(used: bool) -> CommandId;
    pub fn GetTransactionSnapshot() -> Snapshot;
    pub fn MakeSingleTupleTableSlot(tupdesc: TupleDesc, tts_ops: *const TupleTableSlotOps) -> *mut TupleTableSlot;
    pub fn PopActiveSnapshot();
    pub fn PushActiveSnapshot(snapshot: Snapshot);
    pub fn RelationGetIndexList(relation: Relation) -> *mut List;
    pub fn ScanKeyEntryInitialize(
        entry: ScanKey,
        flags: c_int,
        attributeNumber: AttrNumber,
        strategy: StrategyNumber,
        subtype: Oid,
        collation: Oid,
        procedure: RegProcedure,
        argument: Datum,
    );
    pub fn get_namespace_oid(nspname: *const c_char, missing_ok: bool) -> Oid;
    pub fn get_relname_relid(relname: *const c_char, relnamespace: Oid) -> Oid;
    pub fn heap_attisnull(tup: HeapTuple, attnum: c_int, tupleDesc: TupleDesc) -> bool;
    pub fn index_close(relation: Relation, lockmode: LOCKMODE);
    pub fn index_endscan(scan: IndexScanDesc);
    pub fn index_getnext_slot(scan: IndexScanDesc, direction: ScanDirection::Type, slot: *mut TupleTableSlot) -> bool;
    pub fn index_insert(
        indexRelation: Relation,
        values: *mut Datum,
        isnull: *mut bool,
        heap_t_ctid: ItemPointer,
        heapRelation: Relation,
        checkUnique: IndexUniqueCheck::Type,
        indexUnchanged: bool,
        indexInfo: *mut IndexInfo,
    ) -> bool;
    pub fn index_open(relationId: Oid, lockmode: LOCKMODE) -> Relation;
    pub fn index_rescan(scan: IndexScanDesc, keys: ScanKey, nkeys: c_int, orderbys: ScanKey, norderbys: c_int);
    pub fn list_free(list: *mut List);
    pub fn slot_getsomeattrs_int(slot: *mut TupleTableSlot, attnum: c_int);
    pub fn table_close(relation: Relation, lockmode: LOCKMODE);
    pub fn table_slot_create(relation: Relation, reglist: *mut *mut List) -> *mut TupleTableSlot;
    pub fn try_table_open(relationId: Oid, lockmode: LOCKMODE) -> Relation;
}
