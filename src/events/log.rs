//! Reading the log, for the rooms above.
//!
//! A reader keeps the number of the last event it has dealt with, and asks for those after it. What it
//! has passed is complete: an event never appears behind a reader.

use crate::base::clock::Micros;
use crate::db::{Db, statement};
use crate::json::Jsonb;
use pgrx::Uuid;
use pgrx::prelude::*;
use serde_json::Value;

statement!(pub LAST_SEQ, "sql/last_seq.sql", []);
statement!(LOG_READ, "sql/log_read.sql", [INT8OID, INT8OID]);

/// An event and its place.
#[derive(Clone, Debug)]
pub struct Entry {
    pub seq: i64,
    pub event_id: Uuid,
    pub event_at: Micros,
    pub purpose: String,
    pub event_kind: String,
    pub subject: String,
    pub source: Option<String>,
    pub tags: Vec<String>,
    pub payload: Value,
    pub mission_id: Option<Uuid>,
    pub correlation_id: Option<Uuid>,
    pub trace_id: Option<String>,
}

/// The next events after a place, at most so many. None: that was the last of them. Events whose
/// partition has been dropped are passed over.
pub fn read(db: &Db, after_seq: i64, limit: i64) -> Vec<Entry> {
    let (mut after, mut entries) = (after_seq, Vec::new());
    loop {
        let rows = db.run(&LOG_READ, &[after.into(), limit.into()]);
        if rows.is_empty() {
            return entries;
        }
        rows.each(|row| {
            after = row.must(1);
            if let Some(event_kind) = row.get(5) {
                let payload = row.must::<Jsonb>(9).parse("the payload").unwrap_or_default();
                entries.push(Entry {
                    seq: after,
                    event_id: row.must(2),
                    event_at: row.must::<TimestampWithTimeZone>(3).into_inner(),
                    purpose: row.must(4),
                    event_kind,
                    subject: row.must(6),
                    source: row.get(7),
                    tags: row.get(8).unwrap_or_default(),
                    payload,
                    mission_id: row.get(10),
                    correlation_id: row.get(11),
                    trace_id: row.get(12),
                });
            }
        });
        if !entries.is_empty() {
            return entries;
        }
    }
}
