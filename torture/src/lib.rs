//! The torture of agentq: producers and workers with ledgers of their own, faults at random under load, and a checker that compares
//! what was confirmed with what is there. `README.md` says what it does and how to read what it says.

pub mod check;
pub mod dice;
pub mod disk;
pub mod faults;
pub mod ledger;
pub mod load;
pub mod options;
pub mod outside;
pub mod report;
pub mod rounds;
pub mod soak;
pub mod stage;
pub mod ticker;

/// Whatever ends a run early.
pub type Failure = Box<dyn std::error::Error>;
