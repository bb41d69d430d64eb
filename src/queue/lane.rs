//! The ready jobs of one queue, of one kind or of any, in the order in which they are claimed.

use super::hints::LaneName;
use super::place::Place;
use super::rows::job_ready;
use crate::base::settings::Queue;
use crate::table::{Bound, Deleted, Key, Moment, Scan, Table};
use agentq_core::mark::{Position, SLOTS, Slot};
use pgrx::Uuid;
use std::ffi::CStr;
use std::rc::Rc;

pub struct Lane {
    pub queue: Rc<Queue>,
    pub kind: Option<String>,
}

impl Lane {
    pub fn name(&self) -> LaneName<'_> {
        match &self.kind {
            Some(kind) => LaneName::Kind(self.queue.queue_id, kind),
            None => LaneName::Any(self.queue.queue_id),
        }
    }

    /// The index whose rows begin with this lane's keys.
    fn scan<'a>(&self, ready: &'a Table, moment: &'a Moment, part: Part) -> Scan<'a> {
        let mut equal = vec![Key::Int(self.queue.queue_id)];
        let index: &CStr = match &self.kind {
            Some(kind) => {
                equal.push(Key::Text(kind));
                c"job_ready_kind_idx"
            }
            None => c"job_ready_any_idx",
        };
        match part {
            Part::All => Scan::begin(ready, moment, index, &equal, None),
            Part::Beyond(priority) => Scan::begin(ready, moment, index, &equal, Some(Bound::After(priority))),
            Part::Slot(slot) => {
                equal.push(Key::Int(slot.priority));
                let from = [Key::Time(slot.from.at), Key::Id(Uuid::from_bytes(slot.from.id))];
                Scan::begin(ready, moment, index, &equal, Some(Bound::From(&from)))
            }
        }
    }

    /// Finds the first row of each priority, from the front of the index; one priority more than
    /// the marks can hold, if there are so many.
    pub fn look(&self, ready: &Table, moment: &Moment) -> Vec<Slot> {
        let mut found: Vec<Slot> = Vec::new();
        while found.len() <= SLOTS {
            let part = found.last().map_or(Part::All, |slot| Part::Beyond(slot.priority));
            let mut scan = self.scan(ready, moment, part);
            if !scan.next() {
                break;
            }
            found.push(head(&scan));
        }
        found
    }
}

/// A part of a lane.
enum Part {
    All,
    /// Priorities that come after this one.
    Beyond(i32),
    /// One priority, from a position on.
    Slot(Slot),
}

fn head(scan: &Scan<'_>) -> Slot {
    let from = Position { at: scan.time(job_ready::scheduled_at), id: *scan.id(job_ready::job_id).as_bytes() };
    Slot { priority: scan.int(job_ready::priority), from }
}

/// A lane being read from its slots on.
pub struct Cursor<'a> {
    lane: &'a Lane,
    ready: &'a Table,
    moment: &'a Moment,
    parts: Vec<Part>,
    scan: Option<Scan<'a>>,
}

/// A ready job that was taken.
pub struct Taken {
    pub place: Place,
    pub keyed: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(lane: &'a Lane, ready: &'a Table, moment: &'a Moment, slots: &[Slot]) -> Self {
        let mut parts: Vec<Part> = slots.iter().copied().map(Part::Slot).collect();
        // More priorities than were listed: read on after the last.
        if let Some(last) = slots.get(SLOTS) {
            parts.push(Part::Beyond(last.priority));
        }
        parts.reverse();
        Cursor { lane, ready, moment, parts, scan: None }
    }

    /// Goes to the next ready job and says where it stands in the order of claims.
    pub fn next(&mut self) -> Option<Slot> {
        loop {
            if let Some(scan) = &mut self.scan
                && scan.next()
            {
                return Some(head(scan));
            }
            self.scan = None;
            let part = self.parts.pop()?;
            self.scan = Some(self.lane.scan(self.ready, self.moment, part));
        }
    }

    /// Takes the job on which the cursor stands, unless another session has it locked or taken.
    pub fn take(&self) -> Option<Taken> {
        let scan = self.scan.as_ref()?;
        if self.ready.delete(scan, false) == Deleted::No {
            return None;
        }
        let place = Place {
            job_id: scan.id(job_ready::job_id),
            queue_id: self.lane.queue.queue_id,
            job_kind: String::from_utf8_lossy(scan.bytes(job_ready::job_kind)).into_owned(),
            priority: scan.int(job_ready::priority),
            scheduled_at: scan.time(job_ready::scheduled_at),
        };
        place.left_ready();
        Some(Taken { place, keyed: scan.bool(job_ready::keyed) })
    }
}
