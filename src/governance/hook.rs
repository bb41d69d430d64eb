//! The hook: a function of the user's, named in the policy proposal_caps, which the gate asks about each proposal.
//!
//! It never runs with the rights of agentq's owner, but with those of the role that the policy names. Whoever set the
//! policy must be a member of that role, then and now, and so must the owner of the function, who can change what it
//! does at any time. The function cannot leave anything behind that would run with the rights of the caller: no
//! deferred trigger, no cursor that outlives the transaction, no change of role or of a setting.

#![allow(unsafe_code, reason = "changing rights, and running a function with them")]

use super::policies::InForce;
use crate::db::{self, Db, statements};
use crate::error::raise;
use crate::json::Jsonb;
use crate::server::{self, is_member, is_superuser, role_id, role_name};
use agentq_core::error::shown;
use agentq_core::policy::Hook;
use agentq_core::proposal::{self, Stopped};
use pgrx::prelude::*;
use pgrx::{FromDatum, IntoDatum};
use serde_json::Value;
use std::ffi::{CStr, CString};

statements!("hook.sql": HOOK_OWNER);

/// What helps when the owner of a function has fewer rights than its role.
pub const OWNER_HINT: &str = "Name a role in hook.role whose rights the owner of the function has, or give the function to \
                              such an owner: ALTER FUNCTION … OWNER TO …";

/// In the engine, where nobody waits and nobody could cancel it, a hook has this long.
const LONGEST_MS: i32 = 2_000;

/// Asks the hook. One that raises an error has not decided anything: the error goes on.
pub fn ask(db: &Db, hook: &Hook, caps: &InForce, template: Jsonb, source: &str) -> Result<(), Stopped> {
    let name = format!("{}.{}", hook.schema, hook.function);
    let by = caps.set_by.as_deref().unwrap_or_default();
    let role = hook.role.as_deref().unwrap_or(by);
    let Some(role_oid) = role_id(role) else { stale(&name, &format!("its role \"{}\" is gone", shown(role))) };
    let by_oid = role_id(by);
    if is_superuser(role_oid) && !by_oid.is_some_and(is_superuser) {
        stale(&name, &format!("its role \"{}\" has become a superuser", shown(role)))
    }
    if !by_oid.is_some_and(|by| is_member(by, role_oid)) {
        stale(&name, &format!("{}, who set it, is no member of its role \"{}\"", shown(by), shown(role)))
    }
    let Some(owner) = owner(db, &hook.schema, &hook.function) else {
        raise(
            PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
            format!(
                "the hook {name} of the policy proposal_caps cannot be asked: there is no function {name}(jsonb, text)"
            ),
            "Make it again, or take it out of the policy.",
        )
    };
    if !may_run_as(owner, role_oid) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!(
                "the hook {name} of the policy proposal_caps cannot be asked: it belongs to \"{}\", who does not have the \
                 rights of its role \"{}\"",
                shown(&role_name(owner)),
                shown(role)
            ),
            OWNER_HINT,
        )
    }
    // The names are plain ones: the policy accepts no others.
    let sql = format!("SELECT pg_catalog.to_jsonb(\"{}\".\"{}\"($1, $2))", hook.schema, hook.function);
    let answer = call(&name, &CString::new(sql).unwrap_or_default(), role_oid, template, source);
    proposal::hook_verdict(&name, answer.as_ref())
}

/// Who owns the function, if it is there.
pub fn owner(db: &Db, schema: &str, function: &str) -> Option<pg_sys::Oid> {
    let row = db.run(&HOOK_OWNER, &[schema.into(), function.into()]);
    (!row.is_empty()).then(|| row.only())
}

/// Whether a function of this owner may run as a role: only if that gives the owner nothing new.
pub fn may_run_as(owner: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    is_member(owner, role) && (is_superuser(owner) || !is_superuser(role))
}

fn stale(name: &str, why: &str) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("the hook {name} of the policy proposal_caps cannot be asked: {why}"),
        "Set the policy anew, with a role that the hook may run as.",
    )
}

fn call(name: &str, sql: &CStr, role: pg_sys::Oid, template: Jsonb, source: &str) -> Option<Value> {
    // SAFETY: rights and settings are put back below; after an error the abort of the transaction, or
    // of the subtransaction in which it is caught, puts them back.
    unsafe {
        let bounded = server::is_background_worker();
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        let settings = pg_sys::NewGUCNestLevel();
        let fence = pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
        pg_sys::SetUserIdAndSecContext(role, context | fence as i32);
        let called = db::with_setting(c"search_path", c"pg_catalog, pg_temp", || match bounded {
            true => db::attempt_within(LONGEST_MS, || run(sql, template, source)),
            false => db::caught(|| run(sql, template, source)),
        });
        match called {
            Ok(answer) => {
                pg_sys::SetUserIdAndSecContext(user, context);
                // Also what the function itself has set.
                pg_sys::AtEOXact_GUC(false, settings);
                answer
            }
            // What it had done goes with the (sub)transaction that this error ends.
            Err(error) if bounded && error.code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED => raise(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("the hook {name} of the policy proposal_caps took longer than 2 s: {}", error.message),
                "A hook must answer at once. Mend it, or take it out of the policy.",
            ),
            Err(error) => raise(
                error.code,
                format!("the hook {name} of the policy proposal_caps failed: {}", error.message),
                "Nothing was decided. Mend the function, or take it out of the policy.",
            ),
        }
    }
}

/// Runs the statement; the first value of its first row.
unsafe fn run(sql: &CStr, template: Jsonb, source: &str) -> Option<Value> {
    // SAFETY: connected; the arguments are of the types that are named, and outlive the call.
    unsafe {
        let mut types = [pg_sys::JSONBOID, pg_sys::TEXTOID];
        let mut values = [template.into_datum()?, source.into_datum()?];
        let (sql, nulls) = (sql.as_ptr(), std::ptr::null());
        let code = pg_sys::SPI_execute_with_args(sql, 2, types.as_mut_ptr(), values.as_mut_ptr(), nulls, false, 1);
        let table = pg_sys::SPI_tuptable;
        if code < 0 || table.is_null() || (*table).numvals == 0 {
            return None;
        }
        let mut is_null = false;
        let value = pg_sys::SPI_getbinval(*(*table).vals, (*table).tupdesc, 1, &mut is_null);
        Jsonb::from_datum(value, is_null)?.parse("the hook's answer").ok()
    }
}
