//! engine: the background workers that keep the queue alive from inside the server.
//!
//! Promise: the loop keeps turning; one failing chore never stops another.
//! The launcher starts one worker for each database that has the extension, and SQL workers where
//! handlers are registered. A worker runs the chores, each in a transaction of its own.

mod chores;
mod drop_database;
mod expire;
mod keep_sql_workers;
mod launcher;
mod process;
mod settings;
mod sql_worker;
mod status;
mod tick;
mod worker;

use crate::commands;
use crate::room::Room;
use crate::server;
use crate::shared::seats;

pub static ROOM: Room = Room {
    chores: chores::OF_THE_ENGINE,
    init: || {
        settings::init();
        // The first call of a session: if nobody has told the launcher of this database, it is told now.
        crate::base::settings::when_read(seats::request_engine);
    },
    init_preloaded: || {
        // pg_upgrade copies a server that stands still.
        if !server::is_in_binary_upgrade() {
            launcher::register();
        }
        commands::watch(drop_database::watch);
    },
    ..Room::EMPTY
};
