//! engine: the background workers that keep the queue alive from inside the server.
//!
//! Promise: the loop keeps turning; one failing chore never stops another.
//! The launcher starts one worker for each database that has the extension, and SQL workers where
//! handlers are registered. A worker runs the chores, each in a transaction of its own.

pub mod chores;
pub mod drop_database;
pub mod launcher;
pub mod process;
pub mod sql_worker;
pub mod status;
pub mod tick;
pub mod worker;

/// Runs when the library is preloaded.
pub fn init() {
    launcher::register();
    drop_database::watch();
}
