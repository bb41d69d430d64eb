//! How attempts and jobs end: acked, failed, given back, cancelled, given up, recovered from a silent holder, or put to rest.
//!
//! `settle` does what all ends but an ack have in common, `ack` is the quick way of those that succeed, and `hooks` tells
//! upper rooms that a job has finished.

pub mod ack;
pub mod again;
pub mod deadlines;
pub mod dormant;
pub mod fail;
pub mod hooks;
pub mod late_ends;
pub mod lease;
pub mod reap;
pub mod reconcile;
pub mod settle;
pub mod telling;
mod tries;
