//! Making jobs ready when their time has come.

use super::marks::{self, LaneName, Reading};
use super::place::{Place, write_ready};
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, Db, statements};
use crate::queue::rules::Rulebook;
use crate::server::has_fixed_snapshot;
use agentq_core::line::Line;
use agentq_core::marks::{Mark, Position};
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("promote.sql": TAKE_DUE, TAKE_BEST_DUE, NEXT_DUE);

/// Which jobs to move to the ready ones when their time has come. Other sessions see them only when
/// the caller commits.
pub enum Due {
    /// At most this many, for a caller that commits at once.
    All(i64),
    /// At most this many, the best of these queues and kinds, for a caller whose transaction may go on for long.
    Best(i64, Vec<i32>, Option<Vec<String>>),
}

impl Due {
    /// A transaction that keeps one snapshot may itself have put a job there that it does not see, behind one that has
    /// finished. It must not take that out, so it looks at the jobs first.
    fn seen(self) -> Due {
        match self {
            Due::All(limit) if has_fixed_snapshot() => Due::Best(limit, Rulebook::current().queues.ids(), None),
            due => due,
        }
    }
}

/// Moves jobs whose time has come to the ready ones; returns how many.
pub fn promote_due(now: Micros, due: impl FnOnce() -> Due) -> usize {
    let mut reading = Reading::of(LaneName::Waiting);
    let from = match reading.marks.as_deref() {
        Some([mark]) if mark.from.at > now => return 0,
        Some([mark]) => mark.from,
        _ => Position::START,
    };
    db::leaving_what_changed(|| db::connect(|db| promote(db, &mut reading, from, now, due())))
}

fn promote(db: &Db, reading: &mut Reading, from: Position, now: Micros, due: Due) -> usize {
    let (from_at, from_id) = (timestamp(from.at), Uuid::from_bytes(from.id));
    let look = reading.marks.is_none().then(|| reading.begin_look());
    let now_at = timestamp(now);
    let rows = match due.seen() {
        Due::All(limit) => db.run(&TAKE_DUE, &[from_at.into(), from_id.into(), now_at.into(), limit.into()]),
        Due::Best(limit, queues, kinds) => {
            let args = [from_at.into(), from_id.into(), now_at.into(), limit.into(), queues.into(), kinds.into()];
            db.run(&TAKE_BEST_DUE, &args)
        }
    };
    let moved = rows.len();
    if moved > 0 {
        marks::announce();
        let mut due: Vec<(Place, bool)> = Vec::with_capacity(moved);
        rows.each(|row| {
            let place = Place::from_row(row);
            place.left_waiting();
            let requires = row.get::<Vec<String>>("requires").unwrap_or_default();
            let line = Line::fair(place.queue_id, &requires, row.get::<String>("fairness_key").as_deref());
            due.push((Place { line, ..place }, row.must("keyed")));
        });
        write_ready(&due);
        due.iter().for_each(|(place, _)| place.entered_ready(true));
        return moved;
    }
    let next = db.run(&NEXT_DUE, &[from_at.into(), from_id.into()]);
    let next = if next.is_empty() {
        Position::at(Micros::MAX)
    } else {
        let id: Uuid = next.must("job_id");
        Position { at: next.must::<TimestampWithTimeZone>("scheduled_at").into_inner(), id: *id.as_bytes() }
    };
    match look {
        Some(look) => reading.learn(&look, &[Mark { priority: 0, from: next }]),
        None => reading.raise(0, next),
    }
    0
}
