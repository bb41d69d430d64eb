//! How jobs come in: one, many, or many that differ in their payloads alone.
//!
//! `job_spec` and `job_options` read what a caller hands in, `admission` says whether there is room, `unique` what an
//! enqueue does about an earlier one with its key, and `new_job` writes the rows.

mod admission;
pub mod batch;
mod enqueue;
pub mod job_options;
pub mod job_spec;
pub mod new_job;
mod payloads;
pub mod unique;
