//! Commands of the server that agentq does something about: what is to be done before one runs, and after it.
//!
//! Each watcher runs the rest itself, and so may see how it ended. An error goes through all of them as a panic.

#![allow(unsafe_code, reason = "a hook into the server's commands")]

use pgrx::prelude::*;
use std::ffi::c_char;
use std::sync::Mutex;

/// Sees a command, and runs it by calling what it is given.
pub type Watcher = fn(command: *mut pg_sys::Node, run: &mut dyn FnMut());

/// More are not needed.
const MOST: usize = 4;

static WATCHERS: Mutex<[Option<Watcher>; MOST]> = Mutex::new([None; MOST]);
static mut BEFORE: pg_sys::ProcessUtility_hook_type = None;

/// Listens to commands from now on. Called while the server loads its libraries.
pub fn watch(watcher: Watcher) {
    let mut watchers = WATCHERS.lock().unwrap_or_else(|broken| broken.into_inner());
    let is_first = watchers[0].is_none();
    if let Some(free) = watchers.iter_mut().find(|place| place.is_none()) {
        *free = Some(watcher);
    }
    if is_first {
        // SAFETY: the server loads its libraries one after the other, in one process.
        unsafe {
            BEFORE = pg_sys::ProcessUtility_hook;
            pg_sys::ProcessUtility_hook = Some(process_utility);
        }
    }
}

fn through(watchers: &[Option<Watcher>], command: *mut pg_sys::Node, run: &mut dyn FnMut()) {
    match watchers {
        [Some(first), rest @ ..] => first(command, &mut || through(rest, command, run)),
        _ => run(),
    }
}

#[pg_guard]
#[allow(clippy::too_many_arguments, reason = "the server's signature")]
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
    read_only: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    let watchers = *WATCHERS.lock().unwrap_or_else(|broken| broken.into_inner());
    // SAFETY: passes on what the server has passed in.
    let mut run = || unsafe {
        match BEFORE {
            // An error in another library's hook comes out as one of the server's own functions.
            Some(next) => pg_sys::ffi::pg_guard_ffi_boundary(|| {
                next(statement, text, read_only, context, parameters, environment, receiver, completion)
            }),
            None => pg_sys::standard_ProcessUtility(
                statement,
                text,
                read_only,
                context,
                parameters,
                environment,
                receiver,
                completion,
            ),
        }
    };
    // SAFETY: the server passes a statement.
    through(&watchers, unsafe { (*statement).utilityStmt }, &mut run);
}
