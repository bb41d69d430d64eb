//! agentq: a durable job queue for agents, inside PostgreSQL.
//!
//! SQL owns the shape (see `schema.rs` for its table of contents), Rust the behaviour, and the
//! crate `agentq-core` the pure decisions.

use pgrx::prelude::*;
use room::Room;

mod base;
mod commands;
mod db;
mod engine;
mod error;
mod events;
mod flow;
mod governance;
mod journal;
mod json;
mod memory;
mod pg;
mod prepared;
mod queue;
mod room;
mod schema;
mod server;
mod shared;
mod table;

::pgrx::pg_module_magic!(name, version);

/// The rooms, from the lowest to the highest: each may name those before it.
static ROOMS: &[&Room] = &[&base::ROOM, &events::ROOM, &queue::ROOM, &flow::ROOM, &governance::ROOM, &engine::ROOM];

/// Runs when the library is loaded: at server start if preloaded, else at a session's first call.
#[pg_guard]
#[allow(non_snake_case, reason = "the server looks for this name")]
pub extern "C-unwind" fn _PG_init() {
    base::guard::must_be_in_time();
    keep_backtraces_in();
    room::open_all(ROOMS);
    if server::is_preloading() {
        shared::init();
        commands::watch(prepared::watch);
        ROOMS.iter().for_each(|room| (room.init_preloaded)());
    }
}

/// A backtrace in an error tells a client how the library is built. Whoever has started the server with these variables set
/// meant another program.
#[allow(unsafe_code, reason = "changing the environment")]
fn keep_backtraces_in() {
    for variable in ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE"] {
        // SAFETY: the server's processes have one thread.
        unsafe { std::env::remove_var(variable) };
    }
}
