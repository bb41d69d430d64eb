//! Lets go of a database that someone wants for himself: to drop it, rename it, move it or copy it, or to drop or update
//! the extension in it.
//!
//! The server refuses the former while another session is connected, and the engine always is. The latter locks every
//! table of agentq, one after the other, and whoever is at work has others locked: one of the two would lose a deadlock. So
//! the engine's workers are asked to leave first, and come back if there is still something to do; and the tables are
//! locked before the command runs, all of them at once or none.

#![allow(unsafe_code, reason = "reading the server's commands")]

use crate::db::{self, statements};
use crate::error::raise;
use crate::pg::ownership::{owns_database, owns_extension};
use crate::queue::waking::notices;
use crate::server;
use crate::shared::process::{Process, sleep};
use crate::shared::seats::{self, State};
use pgrx::prelude::*;
use pgrx::{PgTryBuilder, is_a};
use std::ffi::{CStr, c_char};
use std::panic::AssertUnwindSafe;

statements!("drop_database.sql": EXTENSION_RELATIONS);

/// The database that the command wants for itself.
fn wanted(statement: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: each cast follows the tag of the node; names of a statement are texts that end in NUL.
    unsafe {
        let name = if is_a(statement, pg_sys::NodeTag::T_DropdbStmt) {
            (*statement.cast::<pg_sys::DropdbStmt>()).dbname
        } else if is_a(statement, pg_sys::NodeTag::T_RenameStmt) {
            let rename = statement.cast::<pg_sys::RenameStmt>();
            if (*rename).renameType != pg_sys::ObjectType::OBJECT_DATABASE {
                return None;
            }
            (*rename).subname
        } else if is_a(statement, pg_sys::NodeTag::T_AlterDatabaseStmt) {
            let alter = statement.cast::<pg_sys::AlterDatabaseStmt>();
            option((*alter).options, c"tablespace")?;
            (*alter).dbname
        } else if is_a(statement, pg_sys::NodeTag::T_CreatedbStmt) {
            option((*statement.cast::<pg_sys::CreatedbStmt>()).options, c"template")?
        } else {
            return wants_extension(statement).then(server::my_database).map(pg_sys::Oid::from_u32);
        };
        let database = pg_sys::get_database_oid(name, true);
        // The server will refuse such a command for somebody else's database: nobody has to leave for it.
        (database != pg_sys::InvalidOid && owns_database(database)).then_some(database)
    }
}

/// Whether the command drops or updates the extension, and may.
unsafe fn wants_extension(statement: *mut pg_sys::Node) -> bool {
    // SAFETY: each cast follows the tag of the node; the objects of a drop of extensions are a list of their names.
    unsafe {
        let is_meant = if is_a(statement, pg_sys::NodeTag::T_DropStmt) {
            let drop = statement.cast::<pg_sys::DropStmt>();
            let names = (*drop).objects.as_ref().filter(|_| (*drop).removeType == pg_sys::ObjectType::OBJECT_EXTENSION);
            let name = |list: &pg_sys::List, place: i32| (*list.elements.add(place as usize)).ptr_value;
            names.is_some_and(|names| {
                (0..names.length).any(|place| is_ours((*name(names, place).cast::<pg_sys::String>()).sval))
            })
        } else if is_a(statement, pg_sys::NodeTag::T_AlterExtensionStmt) {
            is_ours((*statement.cast::<pg_sys::AlterExtensionStmt>()).extname)
        } else {
            return false;
        };
        let extension = if is_meant { pg_sys::get_extension_oid(NAME.as_ptr(), true) } else { pg_sys::InvalidOid };
        extension != pg_sys::InvalidOid && owns_extension(extension)
    }
}

const NAME: &CStr = c"agentq";

unsafe fn is_ours(name: *const c_char) -> bool {
    // SAFETY: names of a statement are texts that end in NUL.
    !name.is_null() && unsafe { CStr::from_ptr(name) } == NAME
}

/// The text of an option of a command, if it is given.
unsafe fn option(options: *mut pg_sys::List, name: &CStr) -> Option<*mut c_char> {
    // SAFETY: the options are a list of DefElem; defGetString reads the value of one.
    unsafe {
        let length = options.as_ref().map_or(0, |list| list.length);
        (0..length)
            .map(|place| (*(*options).elements.add(place as usize)).ptr_value.cast::<pg_sys::DefElem>())
            .find(|option| CStr::from_ptr((**option).defname) == name && !(**option).arg.is_null())
            .map(|option| pg_sys::defGetString(option))
    }
}

/// Asks the workers of a database to leave, and waits until they have, for some seconds at most.
fn hold(database: u32) {
    let Some(workers) = seats::with_seat(database, |seat| {
        seat.hold();
        seat.excused = seat.worker.is_some();
        std::iter::once(seat.worker).chain(seat.sql.map(|sql| sql.process)).collect::<Vec<_>>()
    }) else {
        return;
    };
    workers.iter().for_each(|worker| worker.terminate());
    for _ in 0..500 {
        if !workers.iter().any(|worker| worker.is_alive()) {
            break;
        }
        sleep(10_000);
    }
}

fn release(database: u32) {
    let launcher = seats::with(|seats| {
        if let Some(seat) = seats.find(database) {
            seat.release(|holder| holder == Process::me());
            if seat.state != State::Absent && !seat.is_held() {
                seat.state = State::Wanted;
            }
        }
        seats.launcher
    });
    launcher.wake();
}

/// Locks all that the extension has, so that the command waits for nobody who waits for it.
fn lock_extension() {
    let relations: Vec<pg_sys::Oid> = db::connect(|db| {
        let mut relations = Vec::new();
        db.run(&EXTENSION_RELATIONS, &[]).each(|row| relations.push(row.must("oid")));
        relations
    });
    if let Err(waited) = db::lock_all(&relations, pg_sys::AccessExclusiveLock) {
        raise(
            PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
            format!("agentq could not be had alone in {:.1} s: others are at work with it", waited.as_secs_f64()),
            "Nothing was changed. Look in pg_stat_activity for a transaction that is open for long, end it, and try again.",
        )
    }
}

/// Runs a command that wants a database for itself without the engine in it.
pub fn watch(command: *mut pg_sys::Node, run: &mut dyn FnMut()) {
    let Some(database) = wanted(command).map(|oid| oid.to_u32()) else { return run() };
    PgTryBuilder::new(AssertUnwindSafe(|| {
        hold(database);
        // SAFETY: the server passes a statement.
        if unsafe { wants_extension(command) } {
            lock_extension();
        }
        run();
        // SAFETY: the server passes a statement.
        if unsafe { is_a(command, pg_sys::NodeTag::T_DropdbStmt) } {
            seats::with_seat(database, |seat| *seat = seats::NO_SEAT);
            notices::take_of(database);
        }
    }))
    .finally(|| release(database))
    .execute()
}
