//! events: what happened, never lost and never rewritten.
//!
//! An event is a row, written with the caller's transaction. When that has committed, the sealer gives
//! it its place in the log, a sequence without gaps in which nothing ever appears behind a reader, and
//! a link in a chain of hashes. Rows go by whole partitions.

mod emit;
pub mod log;
pub mod partitions;
mod read;
pub mod seal;
mod verify;
mod wake;

pub use emit::{Event, emit};
