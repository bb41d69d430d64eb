//! Whose rights are in force, and who acts.

use super::{Db, connect, statements};
use crate::json::Jsonb;
use pgrx::pg_sys;
use std::cell::Cell;

statements!("rights.sql": EXTENSION_OWNER);

thread_local!(static ACTING: Cell<Option<pg_sys::Oid>> = const { Cell::new(None) });

/// Says for whom a session of the engine's acts from now on: the role of a handler, or again nobody.
pub fn act_as(role: Option<pg_sys::Oid>) {
    ACTING.set(role);
}

/// The role for which this session of the engine's acts: while a handler runs, that of the handler. The session is that of a
/// superuser, who would else seem to do all that the handler does.
pub fn acting_for() -> Option<pg_sys::Oid> {
    ACTING.get()
}

/// Runs `work` with the rights of the extension's owner, for a function that has those of its caller, and hands its answer
/// out of the connection.
pub fn answer_as_owner(work: impl FnOnce(&Db) -> Jsonb) -> Jsonb {
    as_owner(|db| work(db).beyond_connection())
}

/// Runs `work` with the rights of the extension's owner. What it returns must not point into rows.
pub fn as_owner<R>(work: impl FnOnce(&Db) -> R) -> R {
    connect(|db| {
        let owner: pg_sys::Oid = db.run(&EXTENSION_OWNER, &[]).only();
        // SAFETY: the rights are put back below; after an error the abort of the transaction, or
        // of the subtransaction in which it is caught, puts them back.
        unsafe {
            let (mut user, mut context) = (pg_sys::InvalidOid, 0);
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            pg_sys::SetUserIdAndSecContext(owner, context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32);
            let result = work(db);
            pg_sys::SetUserIdAndSecContext(user, context);
            result
        }
    })
}
