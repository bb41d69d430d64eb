//! A session's copy of what some tables say, read again when another session changes them.
//!
//! Such a table carries a trigger that invalidates its own catalog entry (`fn_settings_changed`). The server carries that
//! to every session with the commit, and the callback here counts it: no polling, no shared memory, and it works on a
//! standby too. A room declares a cache for its own tables:
//!
//! ```ignore
//! thread_local!(static RULES: Cache<Rules> = const { Cache::new(&[c"rule"], Rules::load) });
//! RULES.with(Cache::current)
//! ```

#![allow(unsafe_code, reason = "registering with the server's invalidation")]

use crate::{server, table};
use pgrx::prelude::*;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::CStr;
use std::rc::Rc;

/// A copy of what `load` reads from `tables`.
pub struct Cache<T: 'static> {
    tables: &'static [&'static CStr],
    load: fn() -> T,
    /// The copy, and how many changes had been heard of when it was read.
    copy: RefCell<Option<(u64, Rc<T>)>>,
    watch: OnceCell<Rc<Watch>>,
}

/// The tables of a cache, and how often the server has said that one of them has changed.
#[derive(Default)]
struct Watch {
    tables: RefCell<Vec<pg_sys::Oid>>,
    changes: Cell<u64>,
}

thread_local! {
    static WATCHES: RefCell<Vec<Rc<Watch>>> = const { RefCell::new(Vec::new()) };
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

impl<T> Cache<T> {
    pub const fn new(tables: &'static [&'static CStr], load: fn() -> T) -> Cache<T> {
        Cache { tables, load, copy: RefCell::new(None), watch: OnceCell::new() }
    }

    /// What holds now.
    pub fn current(&self) -> Rc<T> {
        // SAFETY: the server does the same whenever it locks a table.
        unsafe { pg_sys::AcceptInvalidationMessages() }
        if let Some(copy) = self.loaded() {
            return copy;
        }
        let watch = self.watch.get_or_init(watch);
        *watch.tables.borrow_mut() = self.tables.iter().map(|table| table::id(table)).collect();
        let before = watch.changes.get();
        let copy = Rc::new((self.load)());
        // A change may have come in while loading; and under REPEATABLE READ what was read may be older than a change
        // already announced.
        if watch.changes.get() == before && !server::has_fixed_snapshot() {
            self.copy.replace(Some((before, Rc::clone(&copy))));
        }
        copy
    }

    /// The copy of this session, if it has one that holds. Reads nothing.
    pub fn loaded(&self) -> Option<Rc<T>> {
        let heard = self.watch.get()?.changes.get();
        self.copy.borrow().as_ref().filter(|(read, _)| *read == heard).map(|(_, copy)| Rc::clone(copy))
    }
}

fn watch() -> Rc<Watch> {
    let watch = Rc::new(Watch::default());
    WATCHES.with_borrow_mut(|watches| watches.push(Rc::clone(&watch)));
    if !LISTENING.replace(true) {
        // SAFETY: the callback is a plain function that lives as long as the library.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(hear), pg_sys::Datum::from(0)) }
    }
    watch
}

/// Called by the server when a table's catalog entry is invalidated; InvalidOid stands for all.
#[pg_guard]
unsafe extern "C-unwind" fn hear(_arg: pg_sys::Datum, table: pg_sys::Oid) {
    WATCHES.with_borrow(|watches| {
        for watch in watches {
            let tables = watch.tables.borrow();
            if table == pg_sys::InvalidOid || tables.contains(&table) {
                watch.changes.set(watch.changes.get() + 1);
            }
        }
    });
}

/// Statement trigger on every table that a cache reads.
#[pg_trigger(sql = "CREATE FUNCTION agentq_internal.fn_settings_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';")]
fn fn_settings_changed<'a>(
    trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, impl WhoAllocated>>, PgTriggerError> {
    let table = trigger.relation()?.oid();
    // SAFETY: the table exists and is locked by the statement that fired the trigger.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) };
    Ok(trigger.old())
}
