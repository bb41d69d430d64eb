//! What is in use of limits, rates and budgets, and who stands in which line, as all sessions count it.
//!
//! `board` holds the counters in shared memory, `changes` what this transaction does to them until it ends, `asking` what
//! claims want to know, `gauges` what was begun under rates, and `tables` counts from the tables themselves.

pub mod asking;
pub mod board;
pub mod changes;
pub mod gauges;
pub mod tables;

pub use board::Count;
pub use tables::count_first;

pub fn init() {
    board::init();
    gauges::init();
}
