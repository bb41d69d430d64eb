//! The queue room, over real connections with several sessions.

mod ack_and_claim;
mod bad_input;
mod batch;
mod cancel;
mod change;
mod claim_order;
mod concurrency;
mod config;
mod crash;
mod dead_letters;
mod enqueue;
mod finish;
mod heartbeat;
mod helpers;
mod idempotency;
mod job_queue_view;
mod lease;
mod marks;
mod model;
mod plans;
mod queues;
mod storage;
mod torture;
mod transactions;
mod views;
