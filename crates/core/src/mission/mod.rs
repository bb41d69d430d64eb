//! Missions: several steps with an order between them.
//!
//! `template` reads and checks a template, together with what its texts refer to (`path`, `params`). `status` says where
//! missions and steps can stand, and what follows from that. `plan` decides which step may begin, and which never will.
//! `graph` draws a mission. The extension keeps the counters in rows and asks.

pub mod graph;
pub mod params;
pub mod path;
pub mod plan;
pub mod status;
pub mod template;

#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod status_tests;
#[cfg(test)]
mod template_tests;
