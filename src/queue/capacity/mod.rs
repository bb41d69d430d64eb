//! What a claim must pass: how many jobs may be held at once, or begun in a time, and what they may cost.

pub mod budgets;
pub mod gates;
pub mod limits;
pub mod maintain;
pub mod pressure;
