//! base: one way to read time, settings, ids and roles. It knows none of the rooms above it.

pub mod actor;
pub mod audit;
pub mod bounds;
pub mod cache;
pub mod clock;
pub mod config;
pub mod guard;
pub mod ids;
pub mod roles;
pub mod settings;
pub mod signal;
pub mod text;
pub mod texts;
pub mod tokens;
pub mod version;

use crate::room::Room;

pub static ROOM: Room = Room {
    settings: settings::KEYS,
    expiring: &[&tokens::TOKENS_FORGET],
    at_end: &[tokens::at_end],
    init,
    ..Room::EMPTY
};

fn init() {
    guard::init();
    clock::init();
    ids::init();
}
