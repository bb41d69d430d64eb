//! Who acts, and with whose rights.
//!
//! A session acts as the role that opened it; a login that acts for others as the role of the token that it has given to
//! this transaction (`fn_act_as`); a handler in an SQL worker as its own role. Every "who" that is recorded, and every
//! question what somebody may see, comes here.

use super::guard;
use super::tokens;
use crate::db::{self, Db};
use crate::json::Jsonb;
use crate::server;
use pgrx::prelude::*;

/// What the engine does by itself has this name.
const ENGINE: &str = "agentq";

/// Who acts, by name, whatever rights the function has that is called.
pub fn actor() -> String {
    match someone() {
        Some(role) => server::role_name(role),
        None if server::is_background_worker() => ENGINE.to_owned(),
        None => server::role_name(server::session_role()),
    }
}

/// The role that acts in place of the one that opened the session.
fn someone() -> Option<pg_sys::Oid> {
    tokens::role().or_else(db::acting_for)
}

/// The role whose rights are in force, for a function that runs with those of its caller: in the transaction of a login that
/// acts for others, the role of its token.
pub fn role_in_force() -> pg_sys::Oid {
    let role = server::current_role();
    if guard::acts_for_others(role) { tokens::role().unwrap_or(role) } else { role }
}

/// Runs `work` with the rights of the caller, for a function that only reads what the caller may read. Who acts for others has
/// been let in as its token's role, and reads nothing by itself: then with the owner's.
pub fn answer(work: impl FnOnce(&Db) -> Jsonb) -> Jsonb {
    if guard::acts_for_others(server::current_role()) { db::answer_as_owner(work) } else { db::answer(work) }
}

/// The role that decides what the caller sees, for functions that run with the rights of their owner. None: a login that
/// acts for others, and has not said for whom.
fn role_that_sees() -> Option<pg_sys::Oid> {
    if let Some(role) = someone() {
        return Some(role);
    }
    let role = server::outer_role();
    (!guard::acts_for_others(role)).then_some(role)
}

#[pg_extern(schema = "agentq_internal", stable)]
fn fn_actor() -> String {
    actor()
}

#[pg_extern(schema = "agentq_internal", stable)]
fn fn_role_that_sees() -> Option<pg_sys::Oid> {
    role_that_sees()
}
