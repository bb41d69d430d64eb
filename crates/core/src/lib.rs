//! The pure decisions of agentq: no SQL, no clock, no server.
//!
//! Everything here is typed in and typed out, so that it is tested natively; the extension asks
//! these modules what to do and then does it with SQL.

pub mod access;
pub mod admission;
pub mod backoff;
pub mod bounds;
pub mod budget;
pub mod canonical;
pub mod chain;
pub mod config;
pub mod context;
pub mod counters;
pub mod effects;
pub mod error;
pub mod error_class;
pub mod event;
pub mod gauges;
#[cfg(test)]
mod hostile;
pub mod id;
pub mod input;
pub mod jsonb;
pub mod life;
pub mod limits;
pub mod line;
pub mod marks;
pub mod mission;
pub mod name;
pub mod partition;
pub mod payload;
pub mod policy;
pub mod proposal;
pub mod rate;
pub mod reaction;
pub mod reader;
pub mod replay;
pub mod retry;
pub mod retry_policy;
pub mod schedule;
pub mod shares;
pub mod snapshot;
pub mod state;
pub mod statement;
pub mod steps;
pub mod turns;
pub mod version;
mod words;

pub use error::Refusal;
