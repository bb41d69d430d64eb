//! The flow room, over real connections with several sessions.

#[path = "../queue/helpers.rs"]
#[allow(dead_code, reason = "shared with the tests of other rooms")]
mod helpers;

mod actions;
mod effects;
mod missions;
mod signals;
mod steps;
