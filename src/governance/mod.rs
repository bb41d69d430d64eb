//! governance: the rules in force, and what may be done under them.
//!
//! Promise: nothing consequential runs without a recorded decision.
//!
//! An event that fits a pattern of the policy reaction_matrix gets a reaction (`reactions`); the
//! reaction becomes a proposal (`propose`), which passes the gate or not (`proposal_gate`), is approved by
//! policy or by a person (`proposals`), and starts a mission of the flow room.

mod chores;
mod clean;
mod hook;
mod ops;
mod paths;
mod policies;
mod proposal_gate;
mod proposals;
mod propose;
mod reactions;
mod scheduled;
mod settings;

use crate::base::clock::Micros;
use crate::db::Db;
use crate::events;
use crate::room::Room;
use agentq_core::context::Context;
use serde_json::Value;

pub static ROOM: Room = Room { settings: settings::KEYS, chores: chores::CHORES, init: scheduled::init, ..Room::EMPTY };

/// Writes down what was decided about a policy or a command.
fn audit(db: &Db, kind: &str, target: (&str, &str), payload: Value, context: Context, now: Micros) {
    let (what, id) = target;
    events::Event::new(kind, id, payload).audit().target(what, id).context(context).emit(db, now);
}
