//! Tables, their columns and their indexes.

use super::declared;
use pgrx::pg_sys::*;
use std::ffi::c_int;
use std::ptr;

/// The columns of a table.
///
/// # Safety
/// The descriptor must outlive what is returned.
pub unsafe fn columns<'a>(descriptor: TupleDesc) -> &'a [FormData_pg_attribute] {
    // SAFETY: the caller's; a descriptor has as many columns as it says.
    unsafe {
        let count = (*descriptor).natts as usize;
        #[cfg(not(feature = "pg18"))]
        return (*descriptor).attrs.as_slice(count);
        // They lie behind as many short ones.
        #[cfg(feature = "pg18")]
        return std::slice::from_raw_parts((*descriptor).compact_attrs.as_ptr().add(count).cast(), count);
    }
}

#[cfg(not(feature = "pg18"))]
declared! {
    pub fn index_beginscan(heap: Relation, index: Relation, snapshot: Snapshot, keys: c_int, orders: c_int) -> IndexScanDesc;
}
#[cfg(feature = "pg18")]
declared! {
    pub fn index_beginscan(
        heap: Relation,
        index: Relation,
        snapshot: Snapshot,
        counters: *mut IndexScanInstrumentation,
        keys: c_int,
        orders: c_int,
    ) -> IndexScanDesc;
}

/// Begins a scan of an index. To be called under a guard.
///
/// # Safety
/// As the server's `index_beginscan`.
pub unsafe fn begin_scan(heap: Relation, index: Relation, snapshot: Snapshot, keys: c_int) -> IndexScanDesc {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return index_beginscan(heap, index, snapshot, keys, 0);
        #[cfg(feature = "pg18")]
        return index_beginscan(heap, index, snapshot, ptr::null_mut(), keys, 0);
    }
}

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
declared! {
    pub fn index_insert_cleanup(index: Relation, info: *mut IndexInfo);
}

/// Lets go of what an access method has kept from one insertion to the next, such as the pages of a BRIN index. To be called
/// under a guard.
///
/// # Safety
/// The index is open, and `info` is what it was inserted into with.
pub unsafe fn end_insertions(index: Relation, info: *mut IndexInfo) {
    // SAFETY: the caller's.
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    if !info.is_null() {
        unsafe { index_insert_cleanup(index, info) }
    }
    // Before 17 they keep nothing.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    let _ = (index, info);
}

/// Adds the index entries of a row that was just written.
///
/// # Safety
/// The target's indexes are open, and the slot holds a row of it.
pub unsafe fn insert_index_tuples(target: *mut ResultRelInfo, slot: *mut TupleTableSlot, state: *mut EState) {
    let none = ptr::null_mut();
    // SAFETY: the caller's.
    unsafe {
        #[cfg(feature = "pg15")]
        ExecInsertIndexTuples(target, slot, state, false, false, none, ptr::null_mut());
        #[cfg(not(feature = "pg15"))]
        ExecInsertIndexTuples(target, slot, state, false, false, none, ptr::null_mut(), false);
    }
}
