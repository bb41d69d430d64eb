//! governance: the rules in force, and what may be done under them.
//!
//! Promise: nothing consequential runs without a recorded decision.
//!
//! An event that fits a pattern of the policy reaction_matrix gets a reaction (`reactions`); the
//! reaction becomes a proposal (`propose`), which passes the gate or not (`gate`), is approved by
//! policy or by a person (`proposals`), and starts a mission of the flow room.

pub mod clean;
pub mod gate;
pub mod hook;
pub mod ops;
pub mod paths;
pub mod policies;
pub mod proposals;
pub mod propose;
pub mod reactions;

use crate::base::clock::Micros;
use crate::db::Db;
use crate::events;
use pgrx::Uuid;
use serde_json::Value;

/// Writes down what was decided.
fn audit(db: &Db, kind: &str, subject: &str, payload: Value, mission: Option<Uuid>, now: Micros) {
    events::Event::new(kind, subject, payload).purpose("audit").mission_id(mission).emit(db, now);
}
