//! What people set up, change and look at: queues, schedules, handlers, retry policies, executors, single jobs.

mod change;
pub mod executors;
mod get;
pub mod handlers;
pub mod metrics;
mod policies;
pub mod purge;
mod queues;
pub mod schedules;
pub mod starters;
mod wait;
