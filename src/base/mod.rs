//! base: one way to read time, settings, ids and roles. It knows none of the rooms above it.

pub mod actor;
pub mod bounds;
pub mod cache;
pub mod clock;
pub mod config;
pub mod ids;
pub mod roles;
pub mod settings;
pub mod signal;
pub mod text;
pub mod texts;
pub mod version;

use crate::room::Room;

pub static ROOM: Room = Room { settings: settings::KEYS, init, ..Room::EMPTY };

fn init() {
    clock::init();
    ids::init();
}
