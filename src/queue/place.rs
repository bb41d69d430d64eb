//! Where a job rests: ready to run, with all the others or in a lane of its own; waiting for its time; or blocked.
//! The only module that puts jobs into these places or takes them out (claims take what is ready themselves).

use super::hints::{self, LaneName, Reading};
use super::rows::{job, job_blocked, job_ready, job_waiting};
use super::{gates, hooks, limits, order};
use crate::base::clock::{Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, Db, Rows, statement};
use crate::shared::slots;
use crate::table::{Common, Deleted, Moment, Reader, Row, Scan, Table};
use agentq_core::lane;
use agentq_core::mark::{Position, Slot};
use pgrx::Uuid;
use pgrx::prelude::*;

statement!(ENTER_READY, "sql/enter_ready.sql", [INT4OID, TEXTOID, INT4OID, TIMESTAMPTZOID, UUIDOID]);
statement!(ENTER_WAITING, "sql/enter_waiting.sql", [TIMESTAMPTZOID, UUIDOID]);
statement!(TAKE_RESTING, "sql/take_resting.sql", [UUIDOID]);
statement!(ENTER_BLOCKED, "sql/enter_blocked.sql", [UUIDOID, TEXTOID]);
statement!(TAKE_DUE, "sql/take_due.sql", [TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID, INT8OID]);
statement!(
    TAKE_BEST_DUE,
    "sql/take_best_due.sql",
    [TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID, INT8OID, INT4ARRAYOID, TEXTARRAYOID]
);
statement!(NEXT_DUE, "sql/next_due.sql", [TIMESTAMPTZOID, UUIDOID]);

/// The keys by which a job is found in its place.
#[derive(Clone, Debug)]
pub struct Place {
    pub job_id: Uuid,
    pub queue_id: i32,
    pub job_kind: String,
    pub priority: i32,
    pub scheduled_at: Micros,
    /// The key of the limit that it waits for, the name of the ordering key at whose head is another job, or its
    /// own lane, if it stands there; None: with all the others.
    pub blocked_by: Option<String>,
}

impl Place {
    /// Reads a place from five columns, of which `first` is the first: job_id, queue_id, job_kind,
    /// priority, scheduled_at.
    pub fn from_row(row: &Rows, first: usize) -> Place {
        Place {
            job_id: row.must(first),
            queue_id: row.must(first + 1),
            job_kind: row.must(first + 2),
            priority: row.must(first + 3),
            scheduled_at: row.must::<TimestampWithTimeZone>(first + 4).into_inner(),
            blocked_by: None,
        }
    }

    pub fn position(&self) -> Position {
        Position { at: self.scheduled_at, id: *self.job_id.as_bytes() }
    }

    fn lanes(&self) -> [LaneName<'_>; 2] {
        match &self.blocked_by {
            None => [LaneName::Kind(self.queue_id, &self.job_kind), LaneName::Any(self.queue_id)],
            Some(key) => [
                LaneName::Blocked(key, self.queue_id, Some(&self.job_kind)),
                LaneName::Blocked(key, self.queue_id, None),
            ],
        }
    }

    /// Tells the marks that a row of this job was put among the ready ones, or into its own lane.
    pub fn entered_ready(&self, behind: bool) {
        hints::entered(&self.lanes(), self.priority, self.position(), behind);
        let lane = self.blocked_by.as_deref().and_then(lane::Lane::parse);
        hints::brought(self.queue_id, &self.job_kind, lane.is_some_and(|lane| !lane.needs.is_empty()));
        self.counted_as().into_iter().for_each(slots::blocked);
    }

    /// Tells the marks that a row of this job was put among the blocked ones.
    pub fn entered_blocked(&self) {
        hints::entered(&self.lanes(), self.priority, self.position(), true);
        self.counted_as().into_iter().for_each(slots::blocked);
    }

    /// Tells the marks that a row of this job was put among the waiting ones.
    pub fn entered_waiting(&self) {
        hints::entered(&[LaneName::Waiting], 0, self.position(), true);
    }

    /// Tells the marks that the ready, or blocked, row of this job was taken.
    pub fn left_ready(&self) {
        hints::left(&self.lanes(), self.priority, self.position());
        self.counted_as().into_iter().for_each(slots::unblocked);
    }

    /// The key of the limit that it waits for, or its own lane: what is counted.
    fn counted_as(&self) -> Option<&str> {
        self.blocked_by.as_deref().filter(|name| order::key_in(name).is_none())
    }

    /// Whether it stands in a lane of its own, and so may run.
    pub fn is_in_lane(&self) -> bool {
        self.blocked_by.as_deref().is_some_and(|name| name.starts_with(lane::START))
    }

    /// The same job where it rests when it may run: in its own lane, or with all the others.
    fn at_home(&self) -> Place {
        let (jobs, moment) = (Table::open(&job::TABLE), Moment::latest());
        let mut body = Scan::by_id(&jobs, &moment, c"job_pkey", self.job_id);
        let blocked_by = if body.next() { lane_of(&body, self.queue_id) } else { None };
        if blocked_by.is_some() {
            gates::count_first();
        }
        Place { blocked_by, ..self.clone() }
    }

    /// Tells the marks that the waiting row of this job was taken.
    pub fn left_waiting(&self) {
        hints::left(&[LaneName::Waiting], 0, self.position());
    }

    /// The row of this job among the ready ones.
    pub fn ready_row(&self, keyed: bool) -> Row {
        self.ready_row_with(keyed, Common::of(self.job_id), Common::of(self.job_kind.as_str()))
    }

    /// The same, with id and kind as another row has them.
    pub fn ready_row_with(&self, keyed: bool, job_id: Option<Common>, job_kind: Option<Common>) -> Row {
        Row::of(&job_ready::TABLE)
            .set(job_ready::scheduled_at, timestamp(self.scheduled_at))
            .set(job_ready::queue_id, self.queue_id)
            .set(job_ready::any_queue_id, self.queue_id)
            .set(job_ready::priority, self.priority)
            .set(job_ready::job_id, job_id)
            .set(job_ready::keyed, keyed)
            .set(job_ready::job_kind, job_kind)
    }

    /// The row of this job among the blocked ones.
    pub fn blocked_row(&self, keyed: bool) -> Row {
        Row::of(&job_blocked::TABLE)
            .set(job_blocked::scheduled_at, timestamp(self.scheduled_at))
            .set(job_blocked::queue_id, self.queue_id)
            .set(job_blocked::any_queue_id, self.queue_id)
            .set(job_blocked::priority, self.priority)
            .set(job_blocked::job_id, self.job_id)
            .set(job_blocked::keyed, keyed)
            .set(job_blocked::job_kind, self.job_kind.as_str())
            .set(job_blocked::blocked_by, self.blocked_by.as_deref())
    }

    /// The row of this job among the waiting ones.
    pub fn waiting_row(&self) -> Row {
        Row::of(&job_waiting::TABLE)
            .set(job_waiting::scheduled_at, timestamp(self.scheduled_at))
            .set(job_waiting::job_id, self.job_id)
    }

    /// Puts a job that was held, or taken out of its place, where its schedule says; or back behind the
    /// head of its ordering key.
    pub fn enter(&self, db: &Db, now: Micros) {
        hints::announce();
        let at = timestamp(self.scheduled_at);
        if self.blocked_by.is_none() && self.scheduled_at > now {
            db.run(&ENTER_WAITING, &[at.into(), self.job_id.into()]);
            return self.entered_waiting();
        }
        let place = if self.blocked_by.is_none() { self.at_home() } else { self.clone() };
        if place.blocked_by.is_some() {
            db.run(&ENTER_BLOCKED, &[self.job_id.into(), place.blocked_by.as_deref().into()]);
            return if place.is_in_lane() { place.entered_ready(true) } else { place.entered_blocked() };
        }
        let kind = self.job_kind.as_str();
        let args = [self.queue_id.into(), kind.into(), self.priority.into(), at.into(), self.job_id.into()];
        db.run(&ENTER_READY, &args);
        place.entered_ready(true);
    }

    /// Puts a job that this transaction's snapshot may not show where its schedule says.
    pub fn enter_unseen(&self, keyed: bool, now: Micros) {
        hints::announce();
        let place = self.at_home();
        if self.scheduled_at > now {
            Table::open(&job_waiting::TABLE).insert_all(&[place.waiting_row()]);
            return place.entered_waiting();
        }
        place.entered_ready(true);
        write_ready(&[(place, keyed)]);
    }
}

/// The lane of its own in which a job rests when it may run, if it has one.
pub fn lane_of(body: &Reader, queue_id: i32) -> Option<String> {
    let key = body.maybe_bytes(job::fairness_key).map(String::from_utf8_lossy);
    lane::of(queue_id, &body.texts(job::requires), key.as_deref())
}

/// Takes a job out of the place where it rests, and says which that was. None: it does not rest.
pub fn take_resting(db: &Db, job_id: Uuid) -> Option<Place> {
    // Before any row, so that a change of limits is waited for, and waits.
    limits::hold_still();
    let row = db.run(&TAKE_RESTING, &[job_id.into()]);
    if row.is_empty() {
        return take_blocked(job_id, true);
    }
    let place = Place::from_row(&row, 2);
    if row.must(1) {
        place.left_ready()
    } else {
        place.left_waiting()
    }
    Some(place)
}

/// Takes a job out of the blocked ones. With `wait`, a session that has it locked is waited for; without, it
/// counts as not there.
pub fn take_blocked(job_id: Uuid, wait: bool) -> Option<Place> {
    gates::count_first();
    let blocked = Table::open(&job_blocked::TABLE);
    loop {
        pgrx::check_for_interrupts!();
        let moment = Moment::now();
        let mut scan = Scan::by_id(&blocked, &moment, c"job_blocked_pkey", job_id);
        if !scan.next() {
            return None;
        }
        if blocked.delete(&scan, wait) == Deleted::Yes {
            let mut place = Place {
                job_id,
                queue_id: scan.int(job_blocked::queue_id),
                job_kind: String::from_utf8_lossy(scan.bytes(job_blocked::job_kind)).into_owned(),
                priority: scan.int(job_blocked::priority),
                scheduled_at: scan.time(job_blocked::scheduled_at),
                blocked_by: Some(String::from_utf8_lossy(scan.bytes(job_blocked::blocked_by)).into_owned()),
            };
            place.left_ready();
            // What waited for a slot may look for one again; what stood behind another still does.
            place.blocked_by.take_if(|name| order::key_in(name).is_none());
            return Some(place);
        }
        // Moved by another session: it is looked for where it is now. A fixed snapshot would show it here for ever.
        if !wait || db::has_fixed_snapshot() {
            return None;
        }
    }
}

/// Which jobs to move to the ready ones when their time has come. Other sessions see them only when
/// the caller commits.
pub enum Due {
    /// As many as this, for a caller that commits at once.
    All(i64),
    /// The best so many of these queues and kinds, for a caller whose transaction may go on for long.
    Best(i64, Vec<i32>, Option<Vec<String>>),
}

impl Due {
    /// A transaction that keeps one snapshot may itself have put a job there that it does not see, behind one that has
    /// finished. It must not take that out, so it looks at the jobs first.
    fn seen(self) -> Due {
        match self {
            Due::All(limit) if db::has_fixed_snapshot() => Due::Best(limit, Settings::current().queue_ids(), None),
            due => due,
        }
    }
}

/// Moves jobs whose time has come to the ready ones; returns how many.
pub fn promote_due(now: Micros, due: impl FnOnce() -> Due) -> usize {
    let mut reading = Reading::of(LaneName::Waiting);
    let from = match reading.slots.as_deref() {
        Some([slot]) if slot.from.at > now => return 0,
        Some([slot]) => slot.from,
        _ => Position::START,
    };
    hooks::skipping(|| db::connect(|db| promote(db, &mut reading, from, now, due())))
}

fn promote(db: &Db, reading: &mut Reading, from: Position, now: Micros, due: Due) -> usize {
    let (from_at, from_id) = (timestamp(from.at), Uuid::from_bytes(from.id));
    let look = reading.slots.is_none().then(|| reading.begin_look());
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
        hints::announce();
        let mut due: Vec<(Place, bool)> = Vec::with_capacity(moved);
        rows.each(|row| {
            let place = Place::from_row(row, 1);
            place.left_waiting();
            let requires = row.get::<Vec<String>>(7).unwrap_or_default();
            let lane = lane::of(place.queue_id, &requires, row.get::<String>(8).as_deref());
            due.push((Place { blocked_by: lane, ..place }, row.must(6)));
        });
        write_ready(&due);
        due.iter().for_each(|(place, _)| place.entered_ready(true));
        return moved;
    }
    let next = db.run(&NEXT_DUE, &[from_at.into(), from_id.into()]);
    let next = if next.is_empty() {
        Position::at(Micros::MAX)
    } else {
        let id: Uuid = next.must(2);
        Position { at: next.must::<TimestampWithTimeZone>(1).into_inner(), id: *id.as_bytes() }
    };
    match look {
        Some(look) => reading.learn(&look, &[Slot { priority: 0, from: next }]),
        None => reading.raise(0, next),
    }
    0
}

/// Writes the rows of jobs that may run now, each with whether it has a key of its own.
pub fn write_ready(places: &[(Place, bool)]) {
    let (own, all): (Vec<_>, Vec<_>) = places.iter().partition(|(place, _)| place.is_in_lane());
    if !all.is_empty() {
        let rows: Vec<Row> = all.iter().map(|(place, keyed)| place.ready_row(*keyed)).collect();
        Table::open(&job_ready::TABLE).insert_all(&rows);
    }
    if !own.is_empty() {
        gates::count_first();
        let rows: Vec<Row> = own.iter().map(|(place, keyed)| place.blocked_row(*keyed)).collect();
        Table::open(&job_blocked::TABLE).insert_all(&rows);
    }
}
