//! queue: jobs, attempts, leases, dead letters and heartbeats.
//!
//! Promise: each job is done at least once, by one holder at a time, and never lost.
//! Lock order: lease, ready or waiting row, job, idempotency key (see `docs/locking.md`).

pub mod ack;
pub mod ack_and_claim;
pub mod admission;
pub mod answer;
pub mod batch;
pub mod budgets;
pub mod change;
pub mod claim;
pub mod dead_letters;
pub mod deadlines;
pub mod enqueue;
pub mod filter;
pub mod finish;
pub mod gates;
pub mod get;
pub mod handlers;
pub mod heartbeat;
pub mod held;
pub mod hints;
pub mod hooks;
pub mod lane;
pub mod limits;
pub mod nap;
pub mod new_job;
pub mod order;
pub mod payloads;
pub mod place;
pub mod policies;
pub mod queues;
pub mod reap;
pub mod reconcile;
pub mod replay;
pub mod rows;
pub mod schedules;
pub mod settle;
pub mod submitted;
pub mod terms;
pub mod turns;
pub mod unflushed;
pub mod unique;
pub mod wait;
