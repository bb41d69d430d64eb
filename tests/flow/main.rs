//! The flow room, over real connections with several sessions.

mod actions;
mod children;
mod effects;
mod missions;
mod signals;
mod steps;
