//! Where a job rests: ready to run, with all the others or in a fair line; waiting for its time; or in a line for a
//! limit, a budget or its ordering key. The only module that puts jobs into these places or takes them out (claims take
//! what is ready themselves).

use super::lease::lock_against_rule_change;
use super::marks::{self, LaneName};
use crate::base::clock::{Micros, timestamp};
use crate::db::{Db, Rows, statements};
use crate::queue::counting::{changes, count_first};
use crate::queue::rows::{job, job_line, job_ready, job_waiting};
use crate::server::has_fixed_snapshot;
use crate::table::{Common, Deleted, Moment, Row, RowReader, Scan, Table};
use agentq_core::line::{Fair, Line};
use agentq_core::marks::Position;
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("place.sql": ENTER_READY, ENTER_WAITING, TAKE_RESTING, ENTER_LINE);

/// The keys by which a job is found in its place.
#[derive(Clone, Debug)]
pub struct Place {
    pub job_id: Uuid,
    pub queue_id: i32,
    pub job_kind: String,
    pub priority: i32,
    pub scheduled_at: Micros,
    /// The line in which it stands; None: it rests with all the others.
    pub line: Option<Line>,
}

impl Place {
    /// Reads a place from the columns job_id, queue_id, job_kind, priority and scheduled_at.
    pub fn from_row(row: &Rows) -> Place {
        Place {
            job_id: row.must("job_id"),
            queue_id: row.must("queue_id"),
            job_kind: row.must("job_kind"),
            priority: row.must("priority"),
            scheduled_at: row.must::<TimestampWithTimeZone>("scheduled_at").into_inner(),
            line: None,
        }
    }

    pub fn position(&self) -> Position {
        Position { at: self.scheduled_at, id: *self.job_id.as_bytes() }
    }

    fn lanes(&self) -> [LaneName<'_>; 2] {
        match &self.line {
            None => [LaneName::Kind(self.queue_id, &self.job_kind), LaneName::Any(self.queue_id)],
            Some(line) => [
                LaneName::InLine(line.name(), self.queue_id, Some(&self.job_kind)),
                LaneName::InLine(line.name(), self.queue_id, None),
            ],
        }
    }

    /// Tells the marks that a row of this job was put where it may run: among the ready ones, or into a fair line.
    /// `behind`: at a time that may lie before the present.
    pub fn entered_ready(&self, behind: bool) {
        marks::entered(&self.lanes(), self.priority, self.position(), behind);
        let fair = self.line.as_ref().and_then(|line| Fair::parse(line.name()));
        marks::brought(self.queue_id, &self.job_kind, fair.is_some_and(|fair| !fair.needs.is_empty()));
        self.line.iter().for_each(|line| changes::joined(line, &self.job_kind));
    }

    /// Tells the marks that a row of this job was put into a line in which it has to wait.
    pub fn entered_line(&self) {
        marks::entered(&self.lanes(), self.priority, self.position(), true);
        self.line.iter().for_each(|line| changes::joined(line, &self.job_kind));
    }

    /// Tells the marks that a row of this job was put among the waiting ones.
    pub fn entered_waiting(&self) {
        marks::entered(&[LaneName::Waiting], 0, self.position(), true);
    }

    /// Tells the marks that the row of this job was taken: the ready one, or the one in its line.
    pub fn left(&self) {
        marks::left(&self.lanes(), self.priority, self.position());
        self.line.iter().for_each(changes::left);
    }

    /// Whether it stands in a fair line, and so may run.
    pub fn is_in_fair_line(&self) -> bool {
        self.line.as_ref().is_some_and(Line::is_fair)
    }

    /// Where the job rests when it may run: in its fair line, or with all the others.
    fn at_home(&self) -> Place {
        let (jobs, moment) = (Table::open(&job::TABLE), Moment::latest());
        let mut body = Scan::by_id(&jobs, &moment, c"job_pkey", self.job_id);
        let line = if body.next() { fair_line_of(&body, self.queue_id) } else { None };
        if line.is_some() {
            count_first();
        }
        Place { line, ..self.clone() }
    }

    /// Tells the marks that the waiting row of this job was taken.
    pub fn left_waiting(&self) {
        marks::left(&[LaneName::Waiting], 0, self.position());
    }

    /// The row of this job among the ready ones.
    pub fn ready_row(&self, keyed: bool) -> Row {
        self.ready_row_with(keyed, Common::of(self.job_id), Common::of(self.job_kind.as_str()))
    }

    /// The row of this job among the ready ones, with id and kind as another row has them.
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

    /// The row of this job in its line.
    pub fn line_row(&self, keyed: bool) -> Row {
        Row::of(&job_line::TABLE)
            .set(job_line::scheduled_at, timestamp(self.scheduled_at))
            .set(job_line::queue_id, self.queue_id)
            .set(job_line::any_queue_id, self.queue_id)
            .set(job_line::priority, self.priority)
            .set(job_line::job_id, self.job_id)
            .set(job_line::keyed, keyed)
            .set(job_line::job_kind, self.job_kind.as_str())
            .set(job_line::line, self.line.as_ref().map(Line::name))
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
        marks::announce();
        let at = timestamp(self.scheduled_at);
        if self.line.is_none() && self.scheduled_at > now {
            db.run(&ENTER_WAITING, &[at.into(), self.job_id.into()]);
            return self.entered_waiting();
        }
        let place = if self.line.is_none() { self.at_home() } else { self.clone() };
        if let Some(line) = &place.line {
            db.run(&ENTER_LINE, &[self.job_id.into(), line.name().into()]);
            return if line.is_fair() { place.entered_ready(true) } else { place.entered_line() };
        }
        let kind = self.job_kind.as_str();
        let args = [self.queue_id.into(), kind.into(), self.priority.into(), at.into(), self.job_id.into()];
        db.run(&ENTER_READY, &args);
        place.entered_ready(true);
    }

    /// Puts a job that this transaction's snapshot may not show where its schedule says.
    pub fn enter_unseen(&self, keyed: bool, now: Micros) {
        marks::announce();
        let place = self.at_home();
        if self.scheduled_at > now {
            Table::open(&job_waiting::TABLE).insert_all(&[place.waiting_row()]);
            return place.entered_waiting();
        }
        place.entered_ready(true);
        write_ready(&[(place, keyed)]);
    }
}

/// The fair line in which a job rests when it may run, if it has one.
fn fair_line_of(body: &RowReader, queue_id: i32) -> Option<Line> {
    let key = body.maybe_bytes(job::fairness_key).map(String::from_utf8_lossy);
    Line::fair(queue_id, &body.texts(job::requires), key.as_deref())
}

/// Takes a job out of the place where it rests, and says which that was. None: it does not rest.
pub fn take_resting(db: &Db, job_id: Uuid) -> Option<Place> {
    // Taken before any row is locked: a change of limits is over by now, or waits for this transaction.
    lock_against_rule_change();
    let row = db.run(&TAKE_RESTING, &[job_id.into()]);
    if row.is_empty() {
        return take_from_line(job_id, true);
    }
    let place = Place::from_row(&row);
    if row.must("was_ready") {
        place.left()
    } else {
        place.left_waiting()
    }
    Some(place)
}

/// Takes a job out of the line in which it stands. With `wait`, it waits for a session that has the job locked;
/// without, such a job counts as not there. The place that it returns has no line but that of an ordering key: a job
/// that waited for a slot may look for one again, but one that stood behind another job still does.
pub fn take_from_line(job_id: Uuid, wait: bool) -> Option<Place> {
    count_first();
    let lines = Table::open(&job_line::TABLE);
    loop {
        pgrx::check_for_interrupts!();
        let moment = Moment::now();
        let mut scan = Scan::by_id(&lines, &moment, c"job_line_pkey", job_id);
        if !scan.next() {
            return None;
        }
        if lines.delete(&scan, wait) == Deleted::Yes {
            let mut place = Place {
                job_id,
                queue_id: scan.int(job_line::queue_id),
                job_kind: String::from_utf8_lossy(scan.bytes(job_line::job_kind)).into_owned(),
                priority: scan.int(job_line::priority),
                scheduled_at: scan.time(job_line::scheduled_at),
                line: Some(Line::parse(scan.text(job_line::line))),
            };
            place.left();
            place.line.take_if(|line| !line.is_order());
            return Some(place);
        }
        // Another session has moved it: look where it is now. A fixed snapshot would show it here for ever.
        if !wait || has_fixed_snapshot() {
            return None;
        }
    }
}

/// Writes the rows of jobs that may run now, each with whether it has an idempotency key.
pub fn write_ready(places: &[(Place, bool)]) {
    let (own, all): (Vec<_>, Vec<_>) = places.iter().partition(|(place, _)| place.is_in_fair_line());
    if !all.is_empty() {
        let rows: Vec<Row> = all.iter().map(|(place, keyed)| place.ready_row(*keyed)).collect();
        Table::open(&job_ready::TABLE).insert_all(&rows);
    }
    if !own.is_empty() {
        count_first();
        let rows: Vec<Row> = own.iter().map(|(place, keyed)| place.line_row(*keyed)).collect();
        Table::open(&job_line::TABLE).insert_all(&rows);
    }
}
