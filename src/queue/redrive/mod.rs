//! Work that is done once more, as a new job: dead letters that people redrive, and finished jobs that they replay.

mod dead_letters;
mod filter;
mod letter_end;
mod replay;

pub use letter_end::init;
