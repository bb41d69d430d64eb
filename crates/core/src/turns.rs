//! Fair lines: in which of them jobs wait, and whose turn it is, in a table of fixed size that all sessions share.
//!
//! The lines of one fairness key are a group, and groups take turns. Whoever asks sees the groups of one queue only, and of
//! these no more than a window from the front of its list: what that costs does not grow with the number of lines. A group
//! that was served goes to the end of the list.

use crate::counters::{CounterKey, TURN};
use crate::line::Fair;
use crate::name::Name;
use crate::shares::Shares;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A look for one line, group or queue goes over at most this many places. Beyond them, the table counts as full.
const PROBES: usize = 64;
/// The table knows at most this many queues with fair lines.
const QUEUES: usize = 1_024;
/// Groups among which the one is chosen that has had least.
const WINDOW: usize = 128;
/// Groups that are looked at, at most, also when all are asked for.
const MOST_GROUPS: usize = 1_024;
/// Stands for no place: all links are one more than a place.
const NONE: u32 = 0;

/// A fair line in which jobs wait, and its turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineTurn {
    /// How much it has had: who has had least is next.
    pub had: u64,
    /// Where its next turn begins. It does not make up for what it has missed.
    pub turn: u64,
    pub group: u32,
    pub line: String,
}

/// The bit of a kind of jobs. Two kinds may share one: then a line is looked into that has none of them.
pub fn kind_bit(kind: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    1 << (hasher.finish() % 64)
}

/// A line. Its place is free if nothing stands in it.
#[derive(Clone, Copy)]
struct LineRow {
    database: u32,
    name: Name,
    /// Below 0 for a moment, when the table is told of a job that left before it is told that it came.
    in_line: i32,
    /// The kinds of jobs that have come since it was empty.
    kinds: u64,
    /// Its group, and its neighbours in the group, if jobs stand in it.
    group: u32,
    next: u32,
    before: u32,
}

/// A group of lines. Its place is free if no jobs stand in any.
#[derive(Clone, Copy, Default)]
struct GroupRow {
    database: u32,
    queue: i32,
    group: u32,
    turn: u64,
    first_line: u32,
    /// Its neighbours in the list of its queue.
    next: u32,
    before: u32,
}

#[derive(Clone, Copy, Default)]
struct QueueRow {
    database: u32,
    queue: i32,
    /// How far the turns have come: where the job stood that was given out last.
    turn: u64,
    /// What jobs without a fairness key have had. They are among the ready ones, or in a fair line for what they require.
    without_key: u64,
    /// Its groups in which jobs wait.
    first: u32,
    last: u32,
    groups: u32,
    /// The kinds of jobs that have come since it had none.
    kinds: u64,
}

pub struct FairLines<const N: usize> {
    lines: [LineRow; N],
    groups: [GroupRow; N],
    queues: [QueueRow; QUEUES],
    shares: Shares,
    /// Lines in which jobs wait.
    waited_in: usize,
}

impl<const N: usize> Default for FairLines<N> {
    fn default() -> Self {
        let line =
            LineRow { database: 0, name: Name::NONE, in_line: 0, kinds: 0, group: NONE, next: NONE, before: NONE };
        FairLines {
            lines: [line; N],
            groups: [GroupRow::default(); N],
            queues: [QueueRow::default(); QUEUES],
            shares: Shares::default(),
            waited_in: 0,
        }
    }
}

fn probe(what: impl Hash, places: usize) -> impl Iterator<Item = usize> {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    let first = hasher.finish() as usize % places;
    (0..PROBES.min(places)).map(move |step| (first + step) % places)
}

fn link(place: usize) -> u32 {
    place as u32 + 1
}

fn place(link: u32) -> Option<usize> {
    (link != NONE).then(|| link as usize - 1)
}

/// Finding and making rows.
impl<const N: usize> FairLines<N> {
    fn find(&self, line: CounterKey<'_>) -> Option<usize> {
        let is_it = |place: &usize| {
            let row = &self.lines[*place];
            row.database == line.database && row.in_line != 0 && row.name.is(line.key)
        };
        probe(line, N).find(is_it)
    }

    fn find_or_make(&mut self, line: CounterKey<'_>) -> Option<usize> {
        if let Some(place) = self.find(line) {
            return Some(place);
        }
        if !self.shares.has_room(line.database, N) {
            return None;
        }
        let name = Name::new(line.key)?;
        let place = probe(line, N).find(|place| self.lines[*place].in_line == 0)?;
        let row = &mut self.lines[place];
        (row.database, row.name, row.kinds) = (line.database, name, 0);
        (row.group, row.next, row.before) = (NONE, NONE, NONE);
        Some(place)
    }

    fn group(&self, database: u32, queue: i32, group: u32) -> Option<usize> {
        let key = (database, queue, group);
        probe(key, N).find(|place| {
            let row = &self.groups[*place];
            (row.database, row.queue, row.group) == key
        })
    }

    fn group_or_make(&mut self, database: u32, queue: i32, group: u32) -> Option<usize> {
        if let Some(place) = self.group(database, queue, group) {
            return Some(place);
        }
        let place = probe((database, queue, group), N).find(|place| self.groups[*place].first_line == NONE)?;
        self.groups[place] = GroupRow { database, queue, group, ..GroupRow::default() };
        Some(place)
    }

    fn queue(&self, database: u32, queue: i32) -> Option<usize> {
        probe((database, queue), QUEUES).find(|place| {
            let row = &self.queues[*place];
            (row.database, row.queue) == (database, queue)
        })
    }

    fn queue_or_make(&mut self, database: u32, queue: i32) -> Option<usize> {
        if let Some(place) = self.queue(database, queue) {
            return Some(place);
        }
        let is_free = |place: &usize| self.queues[*place].database == 0;
        // One in which nobody waits makes room: it only forgets how far its turns had come.
        let is_idle = |place: &usize| self.queues[*place].first == NONE;
        let place = probe((database, queue), QUEUES)
            .find(is_free)
            .or_else(|| probe((database, queue), QUEUES).find(is_idle))?;
        self.queues[place] = QueueRow { database, queue, ..QueueRow::default() };
        Some(place)
    }
}

/// The lists: of the lines of a group, and of the groups of a queue.
impl<const N: usize> FairLines<N> {
    fn append_group(&mut self, queue: usize, group: usize) {
        let last = self.queues[queue].last;
        (self.groups[group].before, self.groups[group].next) = (last, NONE);
        match place(last) {
            Some(last) => self.groups[last].next = link(group),
            None => self.queues[queue].first = link(group),
        }
        self.queues[queue].last = link(group);
    }

    fn remove_group(&mut self, queue: usize, group: usize) {
        let (before, next) = (self.groups[group].before, self.groups[group].next);
        match place(before) {
            Some(before) => self.groups[before].next = next,
            None => self.queues[queue].first = next,
        }
        match place(next) {
            Some(next) => self.groups[next].before = before,
            None => self.queues[queue].last = before,
        }
    }

    /// Jobs have come into a line. False: there is no room for its group or its queue.
    fn begin_waiting(&mut self, line: usize) -> bool {
        let database = self.lines[line].database;
        let name = self.lines[line].name;
        let Some(fair) = Fair::parse(name.as_str()) else { return false };
        let Some(queue) = self.queue_or_make(database, fair.queue_id) else { return false };
        let Some(group) = self.group_or_make(database, fair.queue_id, fair.group()) else { return false };
        if self.groups[group].first_line == NONE {
            // It begins with the others: nobody makes up for what he has missed.
            self.groups[group].turn = self.groups[group].turn.max(self.queues[queue].turn);
            self.append_group(queue, group);
            self.queues[queue].groups += 1;
        }
        let next = self.groups[group].first_line;
        (self.lines[line].group, self.lines[line].next, self.lines[line].before) = (link(group), next, NONE);
        if let Some(next) = place(next) {
            self.lines[next].before = link(line);
        }
        self.groups[group].first_line = link(line);
        self.waited_in += 1;
        true
    }

    /// No jobs are left in a line.
    fn end_waiting(&mut self, line: usize) {
        let row = self.lines[line];
        let Some(group) = place(row.group) else { return };
        match place(row.before) {
            Some(before) => self.lines[before].next = row.next,
            None => self.groups[group].first_line = row.next,
        }
        if let Some(next) = place(row.next) {
            self.lines[next].before = row.before;
        }
        (self.lines[line].group, self.lines[line].next, self.lines[line].before) = (NONE, NONE, NONE);
        self.lines[line].kinds = 0;
        self.waited_in -= 1;
        let (database, queue) = (self.groups[group].database, self.groups[group].queue);
        if self.groups[group].first_line == NONE
            && let Some(queue) = self.queue(database, queue)
        {
            self.remove_group(queue, group);
            self.queues[queue].groups -= 1;
            if self.queues[queue].groups == 0 {
                self.queues[queue].kinds = 0;
            }
        }
    }

    fn lines_of(&self, group: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(place(self.groups[group].first_line), |line| place(self.lines[*line].next))
    }

    fn groups_of(&self, queue: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(place(self.queues[queue].first), |group| place(self.groups[*group].next))
    }
}

impl<const N: usize> FairLines<N> {
    /// Whether jobs wait in any line.
    pub fn is_waited_in(&self) -> bool {
        self.waited_in > 0
    }

    pub fn in_line(&self, line: CounterKey<'_>) -> u32 {
        self.find(line).map_or(0, |place| self.lines[place].in_line.max(0) as u32)
    }

    /// Jobs of these kinds have come into a line, or some have left it. False: there is no room for the line.
    pub fn change(&mut self, line: CounterKey<'_>, change: i32, kinds: u64) -> bool {
        let Some(place) = self.find_or_make(line) else { return false };
        let before = self.lines[place].in_line;
        let after = before.saturating_add(change);
        if before <= 0 && after > 0 && !self.begin_waiting(place) {
            return false;
        }
        if before == 0 && after != 0 {
            self.shares.take(line.database);
        }
        self.lines[place].in_line = after;
        if change > 0 {
            self.lines[place].kinds |= kinds;
            let queue = Fair::parse(line.key).and_then(|fair| self.queue(line.database, fair.queue_id));
            queue.into_iter().for_each(|queue| self.queues[queue].kinds |= kinds);
        }
        if before > 0 && after <= 0 {
            self.end_waiting(place);
        }
        if before != 0 && after == 0 {
            self.shares.give_back(line.database);
        }
        true
    }

    /// Forgets the lines of a database.
    pub fn clear(&mut self, database: u32) {
        for place in 0..N {
            if self.lines[place].database == database && self.lines[place].in_line != 0 {
                if self.lines[place].in_line > 0 {
                    self.end_waiting(place);
                }
                self.lines[place].in_line = 0;
                self.shares.give_back(database);
            }
        }
        self.groups
            .iter_mut()
            .filter(|group| group.database == database)
            .for_each(|group| *group = GroupRow::default());
        self.queues
            .iter_mut()
            .filter(|queue| queue.database == database)
            .for_each(|queue| *queue = QueueRow::default());
    }

    /// How far the turns of a queue have come. Whoever begins to wait, or could not be served for a while, begins here,
    /// because it does not make up for what it has missed. (0 in a queue for which there is no room.)
    fn time(&self, database: u32, queue: i32) -> u64 {
        self.queue(database, queue).map_or(0, |place| self.queues[place].turn)
    }

    /// The fair lines of a queue in which jobs of these kinds may wait, of at most `most` groups: those that have had least
    /// of the first that `may` lets through, the least first.
    pub fn of_queue(
        &self,
        database: u32,
        queue: i32,
        most: usize,
        kinds: u64,
        may: impl Fn(Fair<'_>) -> bool,
    ) -> Vec<LineTurn> {
        let Some(queue) = self.queue(database, queue).filter(|queue| self.queues[*queue].kinds & kinds != 0) else {
            return Vec::new();
        };
        let time = self.queues[queue].turn;
        let lines_of = |group: usize| {
            let (had, number) = (self.groups[group].turn, self.groups[group].group);
            let may = |line: &usize| {
                let row = &self.lines[*line];
                row.kinds & kinds != 0 && Fair::parse(row.name.as_str()).is_some_and(&may)
            };
            let turn = move |line: usize| LineTurn {
                had,
                turn: had.max(time),
                group: number,
                line: self.lines[line].name.as_str().to_owned(),
            };
            self.lines_of(group).filter(may).map(turn).collect::<Vec<_>>()
        };
        let window = if most == usize::MAX { MOST_GROUPS } else { WINDOW.max(most) };
        let found = self.groups_of(queue).map(lines_of).filter(|lines| !lines.is_empty()).take(window);
        let mut found: Vec<Vec<LineTurn>> = found.collect();
        found.sort_unstable_by_key(|lines| (lines[0].had, lines[0].group));
        found.truncate(most);
        let mut lines: Vec<LineTurn> = found.into_iter().flatten().collect();
        lines.sort();
        lines
    }

    /// How much jobs without a fairness key have had.
    pub fn had_without_key(&self, database: u32, queue: i32) -> u64 {
        self.queue(database, queue).map_or(0, |place| self.queues[place].without_key)
    }

    /// Where their next turn begins.
    pub fn turn_without_key(&self, database: u32, queue: i32) -> u64 {
        self.had_without_key(database, queue).max(self.time(database, queue))
    }

    /// Jobs of a group were given out, each with this share of its turn.
    pub fn served(&mut self, database: u32, queue: i32, group: u32, share: u64, jobs: u64) {
        let Some(of_queue) = self.queue_or_make(database, queue) else { return };
        let time = self.queues[of_queue].turn;
        let row = self.group(database, queue, group).filter(|row| self.groups[*row].first_line != NONE);
        let had =
            if group == 0 { self.queues[of_queue].without_key } else { row.map_or(0, |row| self.groups[row].turn) };
        // Where the window does not show all of them, one may be behind through no fault of its own.
        let behind = if self.queues[of_queue].groups as usize > WINDOW { TURN } else { 0 };
        let begins = had.max(time.saturating_sub(behind));
        let turn = begins.saturating_add(share.saturating_mul(jobs));
        if group == 0 {
            self.queues[of_queue].without_key = turn;
        }
        if let Some(row) = row {
            self.let_through(of_queue, row);
            self.groups[row].turn = turn;
            // Who has had less than a whole turn is next again.
            if turn / TURN != had / TURN {
                self.remove_group(of_queue, row);
                self.append_group(of_queue, row);
            }
        }
        let last = begins.saturating_add(share.saturating_mul(jobs.saturating_sub(1)));
        self.queues[of_queue].turn = time.max(last);
    }

    /// Those in front of a group that have had more than it go to the end, so that they do not fill the window.
    fn let_through(&mut self, queue: usize, group: usize) {
        let had = self.groups[group].turn;
        let in_front = self.groups_of(queue).take(WINDOW).take_while(|other| *other != group);
        let ahead: Vec<usize> = in_front.filter(|other| self.groups[*other].turn > had).collect();
        for other in ahead {
            self.remove_group(queue, other);
            self.append_group(queue, other);
        }
    }

    /// There was no job without a fairness key when their turn came: they get the next one when the others have had
    /// theirs.
    pub fn passed_over(&mut self, database: u32, queue: i32) {
        let turn = self.turn_without_key(database, queue) + TURN;
        if let Some(place) = self.queue_or_make(database, queue) {
            self.queues[place].without_key = turn;
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
