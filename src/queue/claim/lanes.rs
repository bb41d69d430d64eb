//! The ready jobs of one queue, of one kind or of any, in the order in which they are claimed.

use crate::base::clock::Micros;
use crate::queue::rows::job_ready;
use crate::queue::rules::Queue;
use crate::queue::storage::Place;
use crate::queue::storage::marks::{LaneName, Reading};
use crate::table::{Bound, Deleted, Key, Moment, Scan, Table};
use agentq_core::line::Line;
use agentq_core::marks::{Mark, PRIORITIES, Position};
use pgrx::Uuid;
use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;

#[derive(Clone)]
pub struct Lane {
    pub queue: Rc<Queue>,
    pub kind: Option<String>,
    /// The line in which its jobs stand; None: they are with all the others.
    pub line: Option<Line>,
    /// The group of its queue that takes turns with others; None: it is read before them.
    pub group: Option<u32>,
}

impl Lane {
    /// The ready jobs of a queue that are in no line.
    pub fn of(queue: Rc<Queue>, kind: Option<String>) -> Lane {
        Lane { queue, kind, line: None, group: None }
    }

    pub fn name(&self) -> LaneName<'_> {
        match (&self.line, &self.kind) {
            (Some(line), kind) => LaneName::InLine(line.name(), self.queue.queue_id, kind.as_deref()),
            (None, Some(kind)) => LaneName::Kind(self.queue.queue_id, kind),
            (None, None) => LaneName::Any(self.queue.queue_id),
        }
    }

    /// The lanes of the jobs that stand in the lines with these names.
    pub fn in_lines(lanes: &[Lane], names: &[String]) -> Vec<Lane> {
        let of = |lane: &Lane, name: &String| Lane { line: Some(Line::parse(name)), group: None, ..lane.clone() };
        lanes.iter().flat_map(|lane| names.iter().map(move |name| of(lane, name))).collect()
    }

    /// The index whose rows begin with this lane's keys.
    fn scan<'a>(&self, ready: &'a Table, moment: &'a Moment, part: Stretch) -> Scan<'a> {
        let mut equal: Vec<Key<'_>> = self.line.iter().map(|line| Key::Text(line.name())).collect();
        equal.push(Key::Int(self.queue.queue_id));
        equal.extend(self.kind.iter().map(|kind| Key::Text(kind)));
        let index: &'static CStr = match (&self.line, &self.kind) {
            (None, Some(_)) => c"job_ready_kind_idx",
            (None, None) => c"job_ready_any_idx",
            (Some(_), Some(_)) => c"job_line_kind_idx",
            (Some(_), None) => c"job_line_any_idx",
        };
        match part {
            Stretch::All => Scan::begin(ready, moment, index, &equal, None),
            Stretch::Beyond(priority) => Scan::begin(ready, moment, index, &equal, Some(Bound::After(priority))),
            Stretch::Beside(mark, until) => {
                equal.extend([Key::Int(mark.priority), Key::Time(mark.from.at)]);
                let from = [Key::Id(Uuid::from_bytes(mark.from.id))];
                let until = Key::Id(Uuid::from_bytes(until.to_be_bytes()));
                Scan::begin(ready, moment, index, &equal, Some(Bound::Between(&from, until)))
            }
            Stretch::From(mark) | Stretch::Near(mark, _) => {
                equal.push(Key::Int(mark.priority));
                let from = [Key::Time(mark.from.at), Key::Id(Uuid::from_bytes(mark.from.id))];
                let bound = match part {
                    Stretch::Near(_, until) => Bound::Between(&from, Key::Time(until)),
                    _ => Bound::From(&from),
                };
                Scan::begin(ready, moment, index, &equal, Some(bound))
            }
        }
    }

    /// Whether it has jobs.
    pub fn has_any(&self, ready: &Table, moment: &Moment) -> bool {
        let marks = Reading::of(self.name()).marks.unwrap_or_else(|| self.look(ready, moment));
        Cursor::new(self, ready, moment, &marks, false).next().is_some()
    }

    /// Finds the first row of each priority, from the front of the index; one priority more than
    /// the marks can hold, if there are more.
    pub fn look(&self, ready: &Table, moment: &Moment) -> Vec<Mark> {
        let mut found: Vec<Mark> = Vec::new();
        while found.len() <= PRIORITIES {
            let part = found.last().map_or(Stretch::All, |mark| Stretch::Beyond(mark.priority));
            let mut scan = self.scan(ready, moment, part);
            if !scan.next() {
                break;
            }
            found.push(head(&scan));
        }
        found
    }
}

/// A stretch of a lane.
#[derive(Clone, Copy)]
enum Stretch {
    All,
    /// Priorities that come after this one.
    Beyond(i32),
    /// One priority, from a position on.
    From(Mark),
    /// One priority, from a position on, up to a time.
    Near(Mark, Micros),
    /// One priority, at the time of the position only, up to an id.
    Beside(Mark, u128),
}

/// How far ahead the next job is likely to be found. A scan reads its whole index page before it
/// shows the first row: hundreds of entries, for a claim that wants one.
#[derive(Clone, Copy)]
enum Reach {
    Unknown,
    /// Ahead in time, in microseconds.
    Time(Micros),
    /// At the same time, as the jobs of a batch are: ahead in their ids.
    Ids(u128),
}

/// How far a scan reaches ahead, in time and in ids: a multiple of the distance between the last two jobs that this
/// session has taken from the lane.
const REACH: Micros = 8;
const REACH_IDS: u128 = 4;

/// The lane from which this session has taken its last single job, where that was, and how far from the one before.
#[derive(Clone, Copy)]
struct Reached {
    lane: u64,
    last: Position,
    reach: Reach,
}

thread_local!(static REACHED: Cell<Reached> = const {
    Cell::new(Reached { lane: 0, last: Position::START, reach: Reach::Unknown })
});

impl Reach {
    fn of(lane: u64) -> Reach {
        let reached = REACHED.get();
        if reached.lane == lane { reached.reach } else { Reach::Unknown }
    }

    fn learn(lane: u64, at: Position) {
        let before = REACHED.get();
        let reach = if before.lane != lane {
            Reach::Unknown
        } else if before.last.at == at.at {
            let [one, other] = [before.last.id, at.id].map(u128::from_be_bytes);
            Reach::Ids(one.abs_diff(other).saturating_mul(REACH_IDS).max(1))
        } else {
            Reach::Time((at.at - before.last.at).saturating_mul(REACH).max(1))
        };
        REACHED.set(Reached { lane, last: at, reach });
    }

    /// The stretch of a lane to read first.
    fn part(self, mark: Mark) -> Stretch {
        match self {
            Reach::Time(width) if mark.from.at > Micros::MIN => Stretch::Near(mark, mark.from.at.saturating_add(width)),
            // A mark without an id stands before all jobs of its time.
            Reach::Ids(width) if mark.from.id != [0; 16] => {
                Stretch::Beside(mark, u128::from_be_bytes(mark.from.id).saturating_add(width))
            }
            _ => Stretch::From(mark),
        }
    }
}

fn head(scan: &Scan<'_>) -> Mark {
    let from = Position { at: scan.time(job_ready::scheduled_at), id: *scan.id(job_ready::job_id).as_bytes() };
    Mark { priority: scan.int(job_ready::priority), from }
}

/// A lane being read from its marks on.
pub struct Cursor<'a> {
    lane: &'a Lane,
    ready: &'a Table,
    moment: &'a Moment,
    parts: Vec<Stretch>,
    /// The lane's tag, if no more than one job is wanted.
    single: Option<u64>,
    scan: Option<Scan<'a>>,
}

/// A ready job that was taken.
pub struct Taken {
    pub place: Place,
    pub keyed: bool,
}

impl<'a> Cursor<'a> {
    /// `single`: no more than one job is wanted.
    pub fn new(lane: &'a Lane, ready: &'a Table, moment: &'a Moment, marks: &[Mark], single: bool) -> Self {
        let single = single.then(|| lane.name().tag());
        let reach = single.map_or(Reach::Unknown, Reach::of);
        let mut parts: Vec<Stretch> = marks.iter().map(|mark| reach.part(*mark)).collect();
        // More priorities than were listed: read on after the last.
        if let Some(last) = marks.get(PRIORITIES) {
            parts.push(Stretch::Beyond(last.priority));
        }
        parts.reverse();
        Cursor { lane, ready, moment, parts, single, scan: None }
    }

    /// Goes to the next ready job and says where it stands in the order of claims.
    pub fn next(&mut self) -> Option<Mark> {
        loop {
            if let Some(scan) = &mut self.scan
                && scan.next()
            {
                return Some(head(scan));
            }
            self.scan = None;
            let part = self.parts.pop()?;
            // What lies beyond comes before the next priority.
            let beyond = match part {
                Stretch::Near(mark, until) if until < Micros::MAX => Some((mark, Position::at(until + 1))),
                Stretch::Beside(mark, until) => Some((mark, Position { id: until.to_be_bytes(), ..mark.from })),
                _ => None,
            };
            self.parts.extend(beyond.map(|(mark, from)| Stretch::From(Mark { from, ..mark })));
            self.scan = Some(self.lane.scan(self.ready, self.moment, part));
        }
    }

    /// Takes the job on which the cursor stands, unless another session has it locked or taken.
    pub fn take(&self) -> Option<Taken> {
        let scan = self.scan.as_ref()?;
        if self.ready.delete(scan, false) != Deleted::Yes {
            return None;
        }
        let place = Place {
            job_id: scan.id(job_ready::job_id),
            queue_id: self.lane.queue.queue_id,
            job_kind: scan.text(job_ready::job_kind),
            priority: scan.int(job_ready::priority),
            scheduled_at: scan.time(job_ready::scheduled_at),
            line: self.lane.line.clone(),
        };
        place.left();
        if let Some(lane) = self.single {
            Reach::learn(lane, place.position());
        }
        Some(Taken { place, keyed: scan.bool(job_ready::keyed) })
    }
}
