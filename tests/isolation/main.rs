//! Two sessions at one job, at every isolation level.
//!
//! Every pair of operations on a job is played from every state in which both mean something: with a snapshot in both
//! sessions, the first open, committed or rolled back when the second comes. What they come to must be what one of the
//! two orders, one after the other, would have come to; what is not is listed, with its reason.

mod document;
mod operations;
mod oracle;
mod outcome;
mod pairs;
mod snapshots;
mod stage;
mod workers;
