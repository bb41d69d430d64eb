//! Where a scan may start: the low-water marks of the queue's indexes.
//!
//! Vacuum cannot remove dead index entries while any old transaction is open, and a scan from the
//! front of an index would walk over all of them. A mark remembers, per lane and priority, a
//! position before which no live row is left, so that a scan starts there.
//!
//! A mark is a hint, never the truth. These rules keep it right:
//! * A reader notes the lane's generation and a `cap` *before* it takes its snapshot, and may raise
//!   a mark only if the generation has not changed, and never above the cap. The cap is the moment
//!   of the reading, or the moment at which the oldest insert still in flight began, if earlier.
//! * An insert that lands behind the present moment, or that commits long after it began, lowers
//!   the mark after its commit, which changes the generation. So does a claim that is rolled back.
//! * An insert of a priority that the lane does not know adds it, and changes the generation.
//! * The end of a prepared transaction, of whose rows nobody knows any more, casts doubt on all lanes of its
//!   database: it changes their generations, and the next full look that is affordable comes at once.
//!
//! What no rule can see (a clock set back) is found by the full look that every lane takes from time to time.

/// Distinct priorities a lane remembers. A lane with more is looked at in full each time.
pub const PRIORITIES: usize = 16;
/// How far from its hash a lane may sit in the table.
const REACH: usize = 8;
/// An insert that commits later than this after it began counts as late, in microseconds.
pub const LATE_US: i64 = 1_000_000;
/// A lane is looked at in full at least this often, in microseconds …
const LOOK_EVERY_US: i64 = 1_000_000;
/// … unless that would cost more than one part in this many of the time.
const LOOK_SHARE: i64 = 50;

/// A place in an index: a time in microseconds, then an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub at: i64,
    pub id: [u8; 16],
}

impl Position {
    /// Before every row.
    pub const START: Position = Position { at: i64::MIN, id: [0; 16] };

    pub const fn at(at: i64) -> Self {
        Self { at, id: [0; 16] }
    }
}

/// Scanning priority `priority` may start at `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub priority: i32,
    pub from: Position,
}

const NO_MARK: Mark = Mark { priority: 0, from: Position::START };

/// The marks of one lane: an index prefix whose rows are ordered by priority, time and id.
#[derive(Clone, Copy, Debug)]
pub struct LaneMarks {
    tag: u64,
    database: u32,
    generation: u64,
    /// Whether rows may have come behind the marks since the last full look.
    doubted: bool,
    /// Whether the marks name every priority that has a row.
    known: bool,
    count: u8,
    marks: [Mark; PRIORITIES],
    looked_at: i64,
    look_cost: i64,
}

const NO_MARKS: LaneMarks = LaneMarks {
    tag: 0,
    database: 0,
    generation: 0,
    doubted: false,
    known: false,
    count: 0,
    marks: [NO_MARK; PRIORITIES],
    looked_at: i64::MIN,
    look_cost: 0,
};

impl LaneMarks {
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The marks in order of priority, if they can be relied on.
    pub fn marks(&self) -> Option<&[Mark]> {
        self.known.then_some(&self.marks[..self.count as usize])
    }

    /// Whether a full look is affordable now.
    pub fn may_look(&self, now: i64) -> bool {
        now.saturating_sub(self.looked_at) >= self.look_cost.saturating_mul(LOOK_SHARE)
    }

    /// Whether a full look is due even though the marks answer.
    pub fn must_look(&self, now: i64) -> bool {
        (self.doubted || now.saturating_sub(self.looked_at) >= LOOK_EVERY_US) && self.may_look(now)
    }

    fn mark_mut(&mut self, priority: i32) -> Option<&mut Mark> {
        self.marks[..self.count as usize].iter_mut().find(|mark| mark.priority == priority)
    }

    fn add(&mut self, mark: Mark) {
        let count = self.count as usize;
        if count == PRIORITIES {
            self.known = false;
            return;
        }
        let place = self.marks[..count].iter().take_while(|s| s.priority < mark.priority).count();
        self.marks.copy_within(place..count, place + 1);
        self.marks[place] = mark;
        self.count += 1;
    }
}

/// All lanes of a server, in fixed space. A lane that finds no room takes the place of another.
#[derive(Clone, Copy, Debug)]
pub struct Marks<const N: usize> {
    lanes: [LaneMarks; N],
    generations: u64,
}

impl<const N: usize> Default for Marks<N> {
    fn default() -> Self {
        Self { lanes: [NO_MARKS; N], generations: 0 }
    }
}

impl<const N: usize> Marks<N> {
    fn places(tag: u64) -> impl Iterator<Item = usize> {
        (0..REACH).map(move |step| (tag as usize).wrapping_add(step) % N)
    }

    pub fn find(&self, tag: u64) -> Option<&LaneMarks> {
        Self::places(tag).map(|place| &self.lanes[place]).find(|lane| lane.tag == tag)
    }

    fn find_mut(&mut self, tag: u64) -> Option<&mut LaneMarks> {
        let place = Self::places(tag).find(|place| self.lanes[*place].tag == tag)?;
        Some(&mut self.lanes[place])
    }

    fn next_generation(&mut self) -> u64 {
        self.generations += 1;
        self.generations
    }

    /// Announces a full look, and returns the generation to hand to `learn`. The lane is made if it
    /// is not there.
    pub fn begin_look(&mut self, tag: u64, database: u32, now: i64) -> u64 {
        if self.find(tag).is_none() {
            let generation = self.next_generation();
            let place = Self::places(tag)
                .min_by_key(|place| (self.lanes[*place].tag != 0, self.lanes[*place].looked_at))
                .unwrap_or(0);
            self.lanes[place] = LaneMarks { tag, database, generation, ..NO_MARKS };
        }
        let lane = self.find_mut(tag).expect("the lane was just made");
        lane.looked_at = now;
        lane.generation
    }

    /// Keeps what a full look found: the first row of each priority. `cost` is what it took.
    pub fn learn(&mut self, tag: u64, generation: u64, found: &[Mark], cap: i64, cost: i64) {
        let Some(lane) = self.find_mut(tag) else { return };
        lane.look_cost = cost;
        if lane.generation != generation {
            return;
        }
        // A priority that the lane knew and the look did not see stays: an insert may have counted
        // on its mark a moment ago. A lane that runs out of marks starts anew.
        let known_before = lane.known.then_some((lane.count as usize, lane.marks));
        lane.known = true;
        lane.doubted = false;
        lane.count = 0;
        for mark in found {
            lane.add(Mark { from: mark.from.min(Position::at(cap)), ..*mark });
        }
        let (count, marks) = known_before.unwrap_or((0, [NO_MARK; PRIORITIES]));
        for mark in &marks[..count] {
            if lane.mark_mut(mark.priority).is_none() {
                lane.add(Mark { from: mark.from.max(Position::at(cap)), ..*mark });
            }
        }
    }

    /// Moves a mark forward after a scan that found nothing before `to`.
    pub fn raise(&mut self, tag: u64, generation: u64, priority: i32, to: Position, cap: i64) {
        let Some(lane) = self.find_mut(tag) else { return };
        if lane.generation != generation || !lane.known {
            return;
        }
        if let Some(mark) = lane.mark_mut(priority) {
            mark.from = mark.from.max(to.min(Position::at(cap)));
        }
    }

    /// Whether a row committed at `position`, in time and not behind, is covered by the marks.
    pub fn covers(&self, tag: u64, priority: i32, position: Position) -> bool {
        self.find(tag).is_none_or(|lane| {
            lane.marks()
                .is_some_and(|marks| marks.iter().any(|mark| mark.priority == priority && mark.from <= position))
        })
    }

    /// Makes sure that a row which has appeared at `position` will be found.
    pub fn lower(&mut self, tag: u64, priority: i32, position: Position) {
        let generation = self.next_generation();
        let Some(lane) = self.find_mut(tag) else { return };
        lane.generation = generation;
        if !lane.known {
            return;
        }
        match lane.mark_mut(priority) {
            Some(mark) => mark.from = mark.from.min(position),
            None => lane.add(Mark { priority, from: position }),
        }
    }

    /// Rows may have appeared anywhere in this database. To be called when they can be seen.
    pub fn doubt(&mut self, database: u32) {
        let generation = self.next_generation();
        for lane in self.lanes.iter_mut().filter(|lane| lane.tag != 0 && lane.database == database) {
            // A scan that has not seen them must not raise a mark beyond them after the look that finds them.
            lane.generation = generation;
            lane.doubted = true;
        }
    }
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;
