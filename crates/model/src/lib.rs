//! A model of lease, mark and fence: jobs, workers, marks and crashes in every order that can happen.
//!
//! `agentq_core` decides what becomes of a job and of a mark. This crate puts workers, transactions, time and crashes
//! around it, and stateright walks every state that they can come to. `docs/model.md` says what is in it and what is
//! not.

pub mod bounds;
pub mod checks;
pub mod job;
pub mod lane;
pub mod scan;
pub mod steps;
pub mod tidy;
pub mod world;

pub use bounds::{Bounds, Call, Looks, Mutation};

#[cfg(test)]
mod tests;
