//! Roles that a caller may lend to work that runs later, or for somebody else.

use crate::error::raise;
use crate::server::{is_member, is_superuser, role_id};
use pgrx::prelude::*;

/// Refuses a role that is not the caller's to lend: the caller must be a member of it, and only a superuser may name one.
pub fn check_lendable(name: &str, caller: pg_sys::Oid) {
    let Some(role) = role_id(name) else {
        raise(
            PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
            format!("there is no role \"{}\"", agentq_core::error::shown(name)),
            "Create it first: CREATE ROLE …",
        )
    };
    if !is_member(caller, role) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("you are not a member of the role \"{name}\", so its rights are not yours to give"),
            "Register with a role of your own, or ask for membership: GRANT … TO …",
        )
    }
    if is_superuser(role) && !is_superuser(caller) {
        raise(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("the role \"{name}\" is a superuser, and only a superuser may let jobs run as one"),
            "Use a role with no more rights than the jobs need.",
        )
    }
}
