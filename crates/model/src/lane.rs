//! The marks of the one lane that all jobs are in, in as few bytes as they need.
//!
//! Each change is made by `agentq_core::marks`: the marks are unpacked into a table of one lane, the core changes it,
//! and it is packed again. Generations only grow and are only compared, so that it is enough to keep, for each reader,
//! whether the lane still has the generation that he noted: `FRESH` stands for that generation, and `STALE` for any
//! older one.

use crate::world::Instant;
use agentq_core::marks::{LaneMarks, Mark, Marks, Position};

const TAG: u64 = 1;
const OTHER_TAG: u64 = 2;
const DATABASE: u32 = 1;
pub const FRESH: u64 = 1;
pub const STALE: u64 = 0;
/// Priorities in the model.
pub const PRIORITIES: usize = 2;
/// From one instant to the next, in microseconds. An insert that commits two instants after it began is late, and two
/// instants after a full look the next is due; one instant is neither.
pub const STEP: i64 = 600_000;
/// A look that costs this much is followed by the next ten instants later.
pub const LATEST_LOOK: i64 = 120_000;
/// Long enough for a full look to be due again, whatever the last one has cost.
pub const UNTIL_NEXT_LOOK: Instant = 11;

/// A place in the lane: an instant, and the job that stands there. Job 0 is before all jobs of the instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spot {
    pub at: Instant,
    pub job: u8,
}

impl Spot {
    pub const END: Spot = Spot { at: Instant::MAX, job: 0 };

    pub fn of(at: Instant, job: usize) -> Spot {
        Spot { at, job: job as u8 + 1 }
    }

    pub fn position(self) -> Position {
        Position { at: micros(self.at), id: [self.job; 16] }
    }

    fn from(position: Position) -> Spot {
        let at = match position.at {
            i64::MAX => Instant::MAX,
            i64::MIN => Instant::MIN,
            at => (at / STEP) as Instant,
        };
        Spot { at, job: position.id[0] }
    }
}

/// The ends of time stay what they are.
pub fn micros(at: Instant) -> i64 {
    match at {
        Instant::MAX => i64::MAX,
        Instant::MIN => i64::MIN,
        at => i64::from(at) * STEP,
    }
}

/// For each priority, where a scan of it begins.
pub type Starts = [Option<Spot>; PRIORITIES];

pub fn to_marks(starts: &Starts) -> Vec<Mark> {
    let mark = |(priority, from): (usize, &Option<Spot>)| {
        from.map(|from| Mark { priority: priority as i32, from: from.position() })
    };
    starts.iter().enumerate().filter_map(mark).collect()
}

fn to_starts(marks: &[Mark]) -> Starts {
    let mut starts = Starts::default();
    marks.iter().for_each(|mark| starts[mark.priority as usize] = Some(Spot::from(mark.from)));
    starts
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Whether the table has the lane at all.
    is_there: bool,
    /// What the marks are, if they can be relied on.
    marks: Option<Starts>,
    looked_at: Instant,
}

/// What a scan reads of the lane.
pub struct Noted {
    pub is_there: bool,
    pub may_look: bool,
    pub must_look: bool,
    pub marks: Option<Starts>,
}

/// The table of the core, with room for one lane.
pub struct Table(pub Marks<1>);

impl Table {
    pub const TAG: u64 = TAG;

    pub fn lane(&self) -> Option<&LaneMarks> {
        self.0.find(TAG)
    }

    pub fn generation(&self) -> u64 {
        self.lane().map_or(STALE, LaneMarks::generation)
    }

    /// Another lane takes the only place.
    pub fn crowd_out(&mut self, now: Instant) {
        self.0.begin_look(OTHER_TAG, DATABASE, micros(now));
    }
}

impl Lane {
    fn unpack(&self, look_cost: i64) -> Table {
        let mut table = Table(Marks::default());
        if self.is_there {
            let generation = table.0.begin_look(TAG, DATABASE, micros(self.looked_at));
            assert_eq!(generation, FRESH, "the first generation of a table");
            if let Some(marks) = &self.marks {
                table.0.learn(TAG, generation, &to_marks(marks), i64::MAX, look_cost);
            }
        }
        table
    }

    /// Lets the core change the marks. The last of the answers: whether the generation is a new one.
    pub fn change<T>(&mut self, look_cost: i64, change: impl FnOnce(&mut Table) -> T) -> (T, bool) {
        let mut table = self.unpack(look_cost);
        let before = table.generation();
        let result = change(&mut table);
        let lane = table.lane();
        self.is_there = lane.is_some();
        self.marks = lane.and_then(LaneMarks::marks).map(to_starts);
        if !self.is_there {
            self.looked_at = 0;
        }
        (result, table.generation() != before)
    }

    /// Begins a full look. What it answers is whether the generation is a new one.
    pub fn begin_look(&mut self, now: Instant, look_cost: i64) -> bool {
        let (_, is_new) = self.change(look_cost, |table| table.0.begin_look(TAG, DATABASE, micros(now)));
        // Looks that cost much are none too often from any instant on: which one it was makes no difference.
        self.looked_at = if look_cost == 0 { now } else { 0 };
        is_new
    }

    pub fn note(&self, now: Instant, look_cost: i64) -> Noted {
        let table = self.unpack(look_cost);
        let lane = table.lane();
        Noted {
            is_there: self.is_there,
            may_look: lane.is_none_or(|lane| lane.may_look(micros(now))),
            must_look: lane.is_some_and(|lane| lane.must_look(micros(now))),
            marks: self.marks,
        }
    }

    /// Whether a scan from the marks would come by this place. A lane that cannot be relied on is looked at in full.
    pub fn leads_to(&self, priority: u8, spot: Spot) -> bool {
        self.marks.is_none() || self.unpack(0).0.covers(TAG, i32::from(priority), spot.position())
    }

    pub fn covers(&self, priority: u8, spot: Spot) -> bool {
        self.unpack(0).0.covers(TAG, i32::from(priority), spot.position())
    }

    pub fn starts_mut(&mut self) -> Option<&mut Starts> {
        self.marks.as_mut()
    }

    /// Whether a mark has gone further than the first instant.
    pub fn is_raised(&self) -> bool {
        self.marks.is_some_and(|marks| marks.iter().flatten().any(|mark| mark.at > 0))
    }
}
