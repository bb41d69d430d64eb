//! Reading the log, for the rooms above.
//!
//! A reader keeps the number of the last event it has dealt with, and asks for those after it. What it
//! has passed is complete: an event never appears behind a reader.

use crate::base::clock::Micros;
use crate::db::{Budget, Db, statements};
use crate::json::Jsonb;
use agentq_core::context::Context;
use agentq_core::reader::Reader;
use pgrx::Uuid;
use pgrx::prelude::*;
use std::ops::ControlFlow;

statements!("log.sql": pub LAST_SEQ, LOG_READ);

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
    pub payload: Jsonb,
    pub mission_id: Option<Uuid>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    /// Whether a caller has written it, and not agentq.
    pub is_callers: bool,
}

impl Entry {
    /// Its trace and its correlation, for what it causes.
    pub fn context(&self) -> Context {
        let (trace_id, correlation_id) = (self.trace_id.clone(), self.correlation_id.clone());
        Context { trace_id, correlation_id, ..Context::default() }
    }

    /// What it tells, for reading.
    pub fn data(&self) -> Reader<'static> {
        Reader::at("the payload", self.payload.item())
    }
}

/// How many rows of the log a read looks at when the events of the next ones are gone.
const WIDE: i64 = 1_000;

/// What a reader finds.
#[derive(Debug, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// How far it has looked: also beyond the last entry, over events whose partition has been dropped.
    pub passed: i64,
    /// Whether there may be more.
    pub more: bool,
}

/// The next events after a place, at most `limit`, and no more than a turn may read at once. Passes over events whose partition
/// has been dropped, but looks at a bounded number of rows in one call.
pub fn read(db: &Db, after_seq: i64, limit: i64) -> Page {
    let page = look(db, after_seq, limit, limit);
    if page.entries.is_empty() && page.more {
        return look(db, page.passed, limit, WIDE.max(limit));
    }
    page
}

/// Looks at the next `rows` rows of the log, for at most `limit` events.
fn look(db: &Db, after: i64, limit: i64, rows: i64) -> Page {
    let mut page = Page { entries: Vec::new(), passed: after, more: false };
    let (mut looked_at, mut budget) = (0, Budget::of_a_turn());
    db.walk(&LOG_READ, &[after.into(), rows.into()], |row| {
        if page.entries.len() as i64 >= limit || budget.is_spent() {
            page.more = true;
            return ControlFlow::Break(());
        }
        looked_at += 1;
        page.passed = row.must("seq");
        let Some(event_kind) = row.get("event_kind") else { return ControlFlow::Continue(()) };
        let payload = row.must::<Jsonb>("payload").copied();
        let _ = budget.take(payload.size() + size_of::<Entry>());
        page.entries.push(Entry {
            seq: page.passed,
            event_id: row.must("event_id"),
            event_at: row.must::<TimestampWithTimeZone>("event_at").into_inner(),
            purpose: row.must("purpose"),
            event_kind,
            subject: row.must("subject"),
            source: row.get("source"),
            tags: row.get("tags").unwrap_or_default(),
            payload,
            mission_id: row.get("mission_id"),
            correlation_id: row.get("correlation_id"),
            trace_id: row.get("trace_id"),
            is_callers: row.get::<String>("origin").is_some_and(|origin| origin == "caller"),
        });
        ControlFlow::Continue(())
    });
    page.more |= looked_at >= rows;
    page
}
