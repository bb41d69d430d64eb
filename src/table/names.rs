//! Where the tables and indexes of the extension are, remembered in each session.
//!
//! Looking for a name takes two lookups in the server's caches, and a call opens half a dozen of them. What was found
//! is kept until the server says that one of them has changed.

use super::raw;
use crate::error::raise;
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char};

thread_local! {
    static KNOWN: RefCell<Vec<(*const c_char, pg_sys::Oid)>> = RefCell::default();
    /// Counts what the server has said, so that nothing is kept that was looked up before it did.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

/// Storage first, because most of what is looked for is there; rules such as `limit_rule` are in the schema for callers.
const SCHEMAS: [&CStr; 2] = [c"agentq_internal", c"agentq"];

/// The id of a table or index of agentq's.
pub fn id(name: &'static CStr) -> pg_sys::Oid {
    let is_it = |(known, _): &&(*const c_char, pg_sys::Oid)| *known == name.as_ptr();
    if let Some(id) = KNOWN.with_borrow(|known| known.iter().find(is_it).map(|(_, id)| *id)) {
        return id;
    }
    listen();
    let before = CHANGES.get();
    // SAFETY: lookups by name in the server's caches.
    let look_in = |schema: &CStr| unsafe {
        raw::guarded(|| raw::get_relname_relid(name.as_ptr(), raw::get_namespace_oid(schema.as_ptr(), false)))
    };
    let Some(id) = SCHEMAS.into_iter().map(look_in).find(|id| *id != pg_sys::InvalidOid) else { other_version(name) };
    if CHANGES.get() == before {
        KNOWN.with_borrow_mut(|known| known.push((name.as_ptr(), id)));
    }
    id
}

/// The library and the tables are of different versions.
pub fn other_version(name: &CStr) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("the table or index {} is not as this version of agentq made it", name.to_string_lossy()),
        "Run ALTER EXTENSION agentq UPDATE.",
    )
}

/// Forgets what was found, which has turned out to be out of date.
pub fn forget_all() {
    KNOWN.with_borrow_mut(Vec::clear);
}

fn listen() {
    if !LISTENING.replace(true) {
        // SAFETY: the callback is a plain function that lives as long as the library.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(forget), pg_sys::Datum::from(0)) }
    }
}

/// Called by the server when a catalog entry is invalidated; InvalidOid stands for all.
#[pg_guard]
unsafe extern "C-unwind" fn forget(_arg: pg_sys::Datum, relation: pg_sys::Oid) {
    CHANGES.set(CHANGES.get() + 1);
    KNOWN.with_borrow_mut(|known| {
        if relation == pg_sys::InvalidOid || known.iter().any(|(_, id)| *id == relation) {
            known.clear();
        }
    });
    super::forget_places(relation);
}
