//! Whose rights are in force, and who acts.

use super::{Db, connect, statements};
use crate::json::Jsonb;
use crate::server;
use pgrx::pg_sys;
use std::cell::Cell;

statements!("rights.sql": EXTENSION_OWNER);

thread_local!(static ACTING: Cell<Option<pg_sys::Oid>> = const { Cell::new(None) });

/// Says for whom a session of the engine's acts from now on: the role of a handler, or again nobody.
pub fn act_as(role: Option<pg_sys::Oid>) {
    ACTING.set(role);
}

/// Whether this session of the engine's acts for somebody.
pub fn is_acting() -> bool {
    ACTING.get().is_some()
}

/// The role that opened the session: who acts, whatever the function's own rights are. While a handler runs, this is
/// the role of the handler: the session is that of a superuser, who would else seem to do all that the handler does.
pub fn session_user() -> String {
    server::role_name(ACTING.get().unwrap_or_else(server::session_role))
}

/// Runs `work` with the rights of the extension's owner, for a function that has those of its caller, and hands its answer
/// out of the connection.
pub fn answer_as_owner(work: impl FnOnce(&Db) -> Jsonb) -> Jsonb {
    connect(|db| {
        let owner: pg_sys::Oid = db.run(&EXTENSION_OWNER, &[]).only();
        // SAFETY: the rights are put back below; after an error the abort of the transaction, or
        // of the subtransaction in which it is caught, puts them back.
        unsafe {
            let (mut user, mut context) = (pg_sys::InvalidOid, 0);
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            pg_sys::SetUserIdAndSecContext(owner, context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32);
            let answer = work(db).beyond_connection();
            pg_sys::SetUserIdAndSecContext(user, context);
            answer
        }
    })
}
