//! events: what happened, never lost and never rewritten.
//!
//! An event is a row, written with the caller's transaction. When that has committed, the sealer gives
//! it its place in the log, a sequence without gaps in which nothing ever appears behind a reader, and
//! a link in a chain of hashes. Rows go by whole partitions.

pub mod chores;
mod emit;
pub mod feed;
pub mod log;
mod origin;
mod partitions;
mod read;
pub mod seal;
pub mod settings;
mod verify;
mod wake;

pub use emit::{Event, emit, emit_given};

use crate::base::audit;
use crate::room::Room;

pub static ROOM: Room =
    Room { settings: settings::KEYS, chores: chores::CHORES, at_end: &[wake::at_end], init, ..Room::EMPTY };

fn init() {
    audit::told_by(emit::audit);
}
