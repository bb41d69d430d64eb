//! agentq: a durable job queue for agents, inside PostgreSQL.
//!
//! SQL owns the shape (see `schema.rs` for its table of contents), Rust the behaviour, and the
//! crate `agentq-core` the pure decisions.

use pgrx::prelude::*;

mod base;
mod db;
mod engine;
mod error;
mod events;
mod flow;
mod governance;
mod guc;
mod json;
mod queue;
mod schema;
mod shared;
mod table;

::pgrx::pg_module_magic!(name, version);

/// Runs when the library is loaded: at server start if preloaded, else at a session's first call.
#[pg_guard]
#[allow(non_snake_case, reason = "the server looks for this name")]
pub extern "C-unwind" fn _PG_init() {
    guc::init();
    flow::init();
    if shared::init() {
        queue::hints::init();
        engine::init();
    }
}
