//! What this room does that is to be known later. The log of events is a room above: it says here how to write there.

use super::clock::Micros;
use crate::db::Db;
use serde_json::Value;
use std::sync::OnceLock;

/// Writes an audit event: its kind, what it is about, and the rest.
type Tell = fn(db: &Db, kind: &str, target: (&str, &str), payload: Value, now: Micros);

static TELL: OnceLock<Tell> = OnceLock::new();

/// Called once, by the room of the log.
pub fn told_by(tell: Tell) {
    TELL.get_or_init(|| tell);
}

pub fn tell(db: &Db, kind: &str, target: (&str, &str), payload: Value, now: Micros) {
    TELL.get().expect("the room of the log is open")(db, kind, target, payload, now);
}
