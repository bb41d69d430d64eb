//! base: one way to read time, settings and ids.

pub mod clock;
pub mod config;
pub mod ids;
pub mod policies;
pub mod settings;
