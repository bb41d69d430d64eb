//! events: what happened, never lost and never rewritten.

use crate::base::clock::{Micros, timestamp};
use crate::base::ids::new_id;
use crate::db::{Db, statement};
use crate::json::Jsonb;
use serde_json::Value;

statement!(EMIT, "sql/emit.sql", [UUIDOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, JSONBOID]);

/// Writes an event down, with the caller's transaction.
pub fn emit(db: &Db, kind: &str, subject: &str, payload: Value, now: Micros) {
    let payload = Jsonb::from_value(payload);
    db.run(&EMIT, &[new_id().into(), timestamp(now).into(), kind.into(), subject.into(), payload.into()]);
}
