//! The entry guard: a login that acts for others may call what the role of its token may call, and nothing else.
//!
//! Such a login has the level `delegate`, and so EXECUTE on every function of agentq that any level has. The server tells
//! this module of every function that a session is about to run, right after it has looked at the privileges, on every path
//! by which a function is called; here the role of the transaction's token is looked at too. For all other roles nothing
//! changes: their privileges are the whole answer.

#![allow(unsafe_code, reason = "the server's hook for access to objects, and its catalog")]

use super::tokens;
use crate::error::raise;
use crate::pg::ownership::{may_execute, owns_function};
use crate::server;
use pgrx::prelude::*;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};

/// Roles that were looked at last, each with whether it acts for others.
type Known = [(pg_sys::Oid, bool); 4];

thread_local! {
    static KNOWN: Cell<(Known, usize)> = const { Cell::new(([(pg_sys::InvalidOid, false); 4], 0)) };
    static LISTENING: Cell<bool> = const { Cell::new(false) };
}

static mut BEFORE: pg_sys::object_access_hook_type = None;

/// Stands at the door from now on.
pub fn init() {
    // SAFETY: the server loads its libraries one after the other, in one process.
    unsafe {
        BEFORE = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(hear);
    }
}

/// A library that comes with a session's first call comes too late to guard that call: a login that acts for others is sent
/// away. Called before anything else is done.
pub fn must_be_in_time() {
    if server::is_preloading() || !server::is_in_transaction() {
        return;
    }
    let roles = [server::current_role(), server::outer_role(), server::session_role()];
    if let Some(role) = roles.into_iter().find(|role| acts_for_others(*role)) {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("\"{}\" acts for others, and the server has not preloaded agentq", server::role_name(role)),
            "Add agentq to shared_preload_libraries and restart the server.",
        )
    }
}

/// Whether a role has the level `delegate`: it may call fn_act_as, and is not the one that owns it.
pub fn acts_for_others(role: pg_sys::Oid) -> bool {
    let (mut known, next) = KNOWN.get();
    if let Some((_, acts)) = known.iter().find(|(one, _)| *one == role) {
        return *acts;
    }
    listen();
    let acts = act_as().is_some_and(|function| may_execute(role, function) && !owns_function(role, function));
    known[next] = (role, acts);
    KNOWN.set((known, (next + 1) % known.len()));
    acts
}

/// Has what is known of roles forgotten when the server says that a role, a membership or a function has changed.
fn listen() {
    use pg_sys::SysCacheIdentifier::{AUTHMEMMEMROLE, AUTHOID, PROCOID};
    if !LISTENING.replace(true) {
        for cache in [AUTHOID, AUTHMEMMEMROLE, PROCOID] {
            // SAFETY: the callback is a plain function that lives as long as the library.
            unsafe { pg_sys::CacheRegisterSyscacheCallback(cache as c_int, Some(forget), pg_sys::Datum::from(0)) }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn forget(_arg: pg_sys::Datum, _cache: c_int, _hash: u32) {
    KNOWN.set(([(pg_sys::InvalidOid, false); 4], 0));
}

fn schema() -> pg_sys::Oid {
    // SAFETY: looks a name up in the catalog.
    unsafe { pg_sys::get_namespace_oid(c"agentq".as_ptr(), true) }
}

/// Whether a role has the rights of the one that owns agentq.
pub fn owns_agentq(role: pg_sys::Oid) -> bool {
    act_as().is_some_and(|function| owns_function(role, function))
}

/// Whether a role may call a function of agentq that takes a text and a document.
pub fn may_call(role: pg_sys::Oid, name: &CStr) -> bool {
    function(name, &[pg_sys::TEXTOID, pg_sys::JSONBOID]).is_some_and(|function| may_execute(role, function))
}

/// The function `agentq.fn_act_as(text)`, if this database has it.
fn act_as() -> Option<pg_sys::Oid> {
    function(c"fn_act_as", &[pg_sys::TEXTOID])
}

fn function(name: &CStr, arguments: &[pg_sys::Oid]) -> Option<pg_sys::Oid> {
    const OID: pg_sys::AttrNumber = pg_sys::Anum_pg_proc_oid as pg_sys::AttrNumber;
    // SAFETY: looks a name up in the catalog; the keys live through the call.
    let found = unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as c_int,
            OID,
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(pg_sys::buildoidvector(arguments.as_ptr(), arguments.len() as c_int)),
            pg_sys::Datum::from(schema()),
            pg_sys::Datum::from(0),
        )
    };
    Some(found).filter(|found| *found != pg_sys::InvalidOid)
}

#[pg_guard]
unsafe extern "C-unwind" fn hear(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: c_int,
    arg: *mut c_void,
) {
    // SAFETY: passes on what the server has passed in.
    if let Some(next) = unsafe { BEFORE } {
        unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| next(access, class, object, part, arg)) };
    }
    if access == pg_sys::ObjectAccessType::OAT_FUNCTION_EXECUTE && acts_for_others(server::current_role()) {
        check(object);
    }
}

/// Lets a login that acts for others call a function, or raises an error.
fn check(function: pg_sys::Oid) {
    // Who leads a parallel statement was asked before.
    // SAFETY: looks an id up in the catalog.
    if server::is_parallel_worker() || unsafe { pg_sys::get_func_namespace(function) } != schema() {
        return;
    }
    if act_as() == Some(function) {
        return;
    }
    let Some(acting) = tokens::acting() else {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!(
                "\"{}\" acts for others, and has not said for whom in this transaction",
                server::role_name(server::current_role())
            ),
            "In one transaction, call agentq.fn_act_as(token) first, and then what the token's role may call.",
        )
    };
    let name = name(function);
    if !acting.must_allow(Some(&name)) || !may_execute(acting.role, function) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("\"{}\", for whom this session acts, may not call agentq.{name}", server::role_name(acting.role)),
            if acting.has_scopes() {
                "Its role has no level with this function, or the token's scopes have none: agentq.fn_whoami() shows both."
            } else {
                "Its role has no level with this function: agentq.fn_whoami() shows which it has."
            },
        )
    }
}

fn name(function: pg_sys::Oid) -> String {
    // SAFETY: the server answers with a text that ends in NUL, in memory of the caller's context, or with NULL.
    let name = unsafe { pg_sys::get_func_name(function) };
    assert!(!name.is_null(), "a function that is called exists");
    // SAFETY: as above.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}
