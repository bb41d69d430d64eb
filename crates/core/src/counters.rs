//! How much of each key is in use, and how many jobs stand in its line, in a table of fixed size that all sessions
//! share.
//!
//! A key is that of a limit, of which a job takes one slot; that of a budget, of which it takes an amount; or the name
//! of a fair line, of which nothing is taken but turns.

use crate::line::{Fair, Line};
use crate::name::Name;
use std::collections::{BTreeSet, BinaryHeap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A look for one key goes over at most this many places. Beyond them, the table counts as full.
const PROBES: usize = 64;
/// One job's share of a turn, at a weight of 1.
pub const TURN: u64 = 1 << 20;
/// The table remembers how far turns have come for at most this many queues with fair lines.
const QUEUES: usize = 1_024;

/// A key in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterKey<'a> {
    pub database: u32,
    pub key: &'a str,
}

impl CounterKey<'_> {
    pub(crate) fn hash(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(&self, &mut hasher);
        hasher.finish()
    }
}

/// What a job asks of a key: an amount, of which there is at most `most`.
#[derive(Clone, Copy, Debug)]
pub struct CounterDemand<'a> {
    pub key: &'a str,
    pub most: i64,
    pub amount: i64,
}

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

/// How far the turns of a queue have come.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    database: u32,
    queue: i32,
    turn: u64,
}

pub struct Counters<const N: usize> {
    databases: [u32; N],
    names: [Name; N],
    active: [i64; N],
    /// Jobs that stand in the line. Below 0 for a moment, when the table is told of a job that left before it is told
    /// that it came.
    in_line: [i32; N],
    /// What the job wanted that was refused last.
    needed: [i64; N],
    /// Of a fair line: its queue and its group.
    queues: [i32; N],
    groups: [u32; N],
    turns: [u64; N],
    /// Whether a claim was kept from jobs because nothing was left.
    wanted: [bool; N],
    /// How far the turns of each queue have come: where the job stood that was given out last.
    times: [Time; QUEUES],
    /// The places at which jobs wait, without gaps, so that nobody has to look at all places; and where each stands
    /// in this list.
    waiting: [u32; N],
    stands_at: [u32; N],
    waiting_count: usize,
    /// How many of them are fair lines.
    fair_lines_waited_in: usize,
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Counters {
            databases: [0; N],
            names: [Name::NONE; N],
            active: [0; N],
            in_line: [0; N],
            needed: [0; N],
            queues: [0; N],
            groups: [0; N],
            turns: [0; N],
            wanted: [false; N],
            times: [Time::default(); QUEUES],
            waiting: [0; N],
            stands_at: [0; N],
            waiting_count: 0,
            fair_lines_waited_in: 0,
        }
    }
}

impl<const N: usize> Counters<N> {
    fn places(counter: CounterKey<'_>) -> impl Iterator<Item = usize> + use<N> {
        let first = counter.hash() as usize % N;
        (0..PROBES.min(N)).map(move |step| (first + step) % N)
    }

    fn find(&self, counter: CounterKey<'_>) -> Option<usize> {
        Self::places(counter)
            .find(|place| self.databases[*place] == counter.database && self.names[*place].is(counter.key))
    }

    /// The place of a counter, or one for it: where nothing is counted, it may move in.
    fn find_or_make(&mut self, counter: CounterKey<'_>) -> Option<usize> {
        if let Some(place) = self.find(counter) {
            return Some(place);
        }
        let name = Name::new(counter.key)?;
        let place = Self::places(counter).find(|place| self.active[*place] == 0 && self.in_line[*place] == 0)?;
        let (queue, group) = Fair::parse(counter.key).map_or((0, 0), |fair| (fair.queue_id, fair.group()));
        (self.databases[place], self.names[place]) = (counter.database, name);
        (self.queues[place], self.groups[place], self.turns[place], self.needed[place]) = (queue, group, 0, 0);
        self.wanted[place] = false;
        Some(place)
    }

    pub fn active(&self, counter: CounterKey<'_>) -> i64 {
        self.find(counter).map_or(0, |place| self.active[place])
    }

    pub fn in_line(&self, counter: CounterKey<'_>) -> u32 {
        self.find(counter).map_or(0, |place| self.in_line[place].max(0) as u32)
    }

    /// Whether there is not enough for the job that was refused last, or for any; `back` is what the one who asks
    /// gives back.
    pub fn is_full(&self, counter: CounterKey<'_>, most: i64, back: i64) -> bool {
        let (active, needed) = self.find(counter).map_or((0, 0), |place| (self.active[place], self.needed[place]));
        (active - back).saturating_add(needed.max(1)) > most
    }

    /// Whether nothing is left; `back` is what the one who asks gives back.
    pub fn is_used_up(&self, counter: CounterKey<'_>, most: i64, back: i64) -> bool {
        self.active(counter) - back >= most
    }

    /// Whether a claim is known to have been kept from jobs by this key.
    pub fn is_wanted(&self, counter: CounterKey<'_>) -> bool {
        self.find(counter).is_some_and(|place| self.wanted[place])
    }

    /// Remembers that a claim was kept from jobs by this key.
    pub fn want(&mut self, counter: CounterKey<'_>) {
        if let Some(place) = self.find_or_make(counter) {
            self.wanted[place] = true;
        }
    }

    /// An amount of a key is free again. True: somebody waits for it.
    pub fn give_back(&mut self, counter: CounterKey<'_>, amount: i64) -> bool {
        self.add_active(counter, -amount);
        self.find(counter).is_some_and(|place| std::mem::take(&mut self.wanted[place]) || self.in_line[place] > 0)
    }

    /// Whether jobs wait for any key, or in any fair line.
    pub fn is_waited(&self) -> (bool, bool) {
        (self.waiting_count > self.fair_lines_waited_in, self.fair_lines_waited_in > 0)
    }

    /// The places of a database at which jobs wait: of keys, which have no queue, or of the fair lines of a queue.
    fn waiting(&self, database: u32, queue: i32) -> impl Iterator<Item = usize> {
        let places = self.waiting[..self.waiting_count].iter().map(|place| *place as usize);
        places.filter(move |place| self.databases[*place] == database && self.queues[*place] == queue)
    }

    /// The keys of a database for which jobs wait.
    pub fn waited_for(&self, database: u32) -> impl Iterator<Item = &str> {
        self.waiting(database, 0).map(|place| self.names[place].as_str())
    }

    fn begin_waiting(&mut self, place: usize) {
        self.waiting[self.waiting_count] = place as u32;
        self.stands_at[place] = self.waiting_count as u32;
        self.waiting_count += 1;
        self.fair_lines_waited_in += usize::from(self.queues[place] != 0);
    }

    fn end_waiting(&mut self, place: usize) {
        let (at, last) = (self.stands_at[place] as usize, self.waiting[self.waiting_count - 1]);
        self.waiting[at] = last;
        self.stands_at[last as usize] = at as u32;
        self.waiting_count -= 1;
        self.fair_lines_waited_in -= usize::from(self.queues[place] != 0);
    }

    /// Takes the amount of each, or nothing and says of which there is not enough.
    pub fn take(&mut self, database: u32, wanted: &[CounterDemand<'_>]) -> Result<(), usize> {
        for (number, wish) in wanted.iter().enumerate() {
            let place = self.find_or_make(CounterKey { database, key: wish.key });
            if let Some(place) = place
                && self.active[place].saturating_add(wish.amount.max(1)) <= wish.most
            {
                self.active[place] += wish.amount;
                self.needed[place] = 0;
                continue;
            }
            place.into_iter().for_each(|place| self.needed[place] = wish.amount);
            for taken in &wanted[..number] {
                self.add_active(CounterKey { database, key: taken.key }, -taken.amount);
            }
            return Err(number);
        }
        Ok(())
    }

    /// False: there is no room for the counter. Those who wait look anew at what has come back.
    pub fn add_active(&mut self, counter: CounterKey<'_>, change: i64) -> bool {
        let Some(place) = self.find_or_make(counter) else { return false };
        self.active[place] = self.active[place].saturating_add(change).max(0);
        if change < 0 {
            self.needed[place] = 0;
        }
        true
    }

    /// Forgets what is in use of these keys of a database, if nobody waits for them.
    pub fn forget(&mut self, database: u32, is_meant: impl Fn(&str) -> bool) {
        for place in 0..N {
            if self.databases[place] == database
                && self.active[place] != 0
                && self.in_line[place] == 0
                && is_meant(self.names[place].as_str())
            {
                self.active[place] = 0;
            }
        }
    }

    /// False: there is no room for the counter.
    pub fn change_line(&mut self, counter: CounterKey<'_>, change: i32) -> bool {
        let Some(place) = self.find_or_make(counter) else { return false };
        let before = self.in_line[place] > 0;
        self.in_line[place] += change;
        match (before, self.in_line[place] > 0) {
            (false, true) => {
                if self.queues[place] != 0 {
                    self.turns[place] = self.first_turn(place);
                }
                self.begin_waiting(place);
            }
            (true, false) => self.end_waiting(place),
            _ => {}
        }
        // The one that was refused last may have gone.
        if change < 0 {
            self.needed[place] = 0;
        }
        true
    }

    /// Sets how many jobs stand in a line that the table does not know yet. False: there is no room for the counter.
    pub fn restore_line(&mut self, counter: CounterKey<'_>, in_line: u32) -> bool {
        let Some(place) = self.find_or_make(counter) else { return false };
        if self.in_line[place] == 0 && in_line > 0 {
            self.turns[place] = self.time(counter.database, self.queues[place]);
            self.in_line[place] = in_line as i32;
            self.begin_waiting(place);
        }
        true
    }

    /// The databases that have counters.
    pub fn databases(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.databases.iter().copied().filter(|database| *database != 0).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Forgets the counters of a database.
    pub fn clear(&mut self, database: u32) {
        for place in (0..N).filter(|place| self.databases[*place] == database).collect::<Vec<_>>() {
            if self.in_line[place] > 0 {
                self.end_waiting(place);
            }
            (self.databases[place], self.names[place], self.queues[place]) = (0, Name::NONE, 0);
            (self.active[place], self.in_line[place]) = (0, 0);
        }
        self.times.iter_mut().filter(|time| time.database == database).for_each(|time| *time = Time::default());
    }
}

/// Turns: the fair lines of a queue are served so that each group gets its share.
impl<const N: usize> Counters<N> {
    fn time_place(&self, database: u32, queue: i32) -> Option<usize> {
        let mut hasher = DefaultHasher::new();
        (database, queue).hash(&mut hasher);
        let first = hasher.finish() as usize % QUEUES;
        let is_it = |time: &Time| (time.database == database && time.queue == queue) || time.database == 0;
        (0..PROBES).map(|step| (first + step) % QUEUES).find(|place| is_it(&self.times[*place]))
    }

    /// How far the turns of a queue have come. Whoever begins to wait, or could not be served for a while, begins here,
    /// because it does not make up for what it has missed. (0 in a queue for which there is no room.)
    fn time(&self, database: u32, queue: i32) -> u64 {
        self.time_place(database, queue).map_or(0, |place| self.times[place].turn)
    }

    fn pass_time(&mut self, database: u32, queue: i32, turn: u64) {
        if let Some(place) = self.time_place(database, queue) {
            let turn = self.times[place].turn.max(turn);
            self.times[place] = Time { database, queue, turn };
        }
    }

    /// Where the turn of a fair line begins when the first jobs come into it: with its group, or with the others.
    fn first_turn(&self, place: usize) -> u64 {
        let (database, queue, group) = (self.databases[place], self.queues[place], self.groups[place]);
        let of_group = self.waiting(database, queue).find(|other| self.groups[*other] == group);
        of_group.map_or_else(|| self.turns[place].max(self.time(database, queue)), |other| self.turns[other])
    }

    /// The fair lines of a queue in which jobs wait, of at most `most` groups: those that have had least, the least first.
    pub fn fair_lines(
        &self,
        database: u32,
        queue: i32,
        most: usize,
        may: impl Fn(&Self, Fair<'_>) -> bool,
    ) -> Vec<LineTurn> {
        let may = |place: usize| Fair::parse(self.names[place].as_str()).is_some_and(|fair| may(self, fair));
        // With the greatest on top. Few have to be asked for their names.
        let mut best: BinaryHeap<(u64, u32)> = BinaryHeap::new();
        for place in self.waiting(database, queue) {
            let group = (self.turns[place], self.groups[place]);
            if best.len() >= most && best.peek().is_some_and(|greatest| group >= *greatest) {
                continue;
            }
            if (most == usize::MAX || !best.iter().any(|other| *other == group)) && may(place) {
                best.push(group);
                if best.len() > most {
                    best.pop();
                }
            }
        }
        let best: BTreeSet<(u64, u32)> = best.into_iter().collect();
        let chosen = |place: &usize| best.contains(&(self.turns[*place], self.groups[*place])) && may(*place);
        let time = self.time(database, queue);
        let turn = |place: usize| LineTurn {
            had: self.turns[place],
            turn: self.turns[place].max(time),
            group: self.groups[place],
            line: self.names[place].as_str().to_owned(),
        };
        let mut lines: Vec<LineTurn> = self.waiting(database, queue).filter(chosen).map(turn).collect();
        lines.sort();
        lines
    }

    /// How much jobs without a fairness key have had. They are among the ready ones, or in a fair line for what they
    /// require.
    pub fn had_without_key(&self, database: u32, queue: i32) -> u64 {
        self.find(CounterKey { database, key: &without_key(queue) }).map_or(0, |place| self.turns[place])
    }

    /// Where their next turn begins.
    pub fn turn_without_key(&self, database: u32, queue: i32) -> u64 {
        self.had_without_key(database, queue).max(self.time(database, queue))
    }

    fn set_turn_without_key(&mut self, database: u32, queue: i32, turn: u64) {
        if let Some(place) = self.find_or_make(CounterKey { database, key: &without_key(queue) }) {
            self.turns[place] = turn;
        }
    }

    /// Jobs of a group were given out, each with this share of its turn.
    pub fn served(&mut self, database: u32, queue: i32, group: u32, share: u64, jobs: u64) {
        let mut begins = self.time(database, queue);
        if group == 0 {
            begins = self.turn_without_key(database, queue);
            self.set_turn_without_key(database, queue, begins + share * jobs);
        }
        for number in 0..self.waiting_count {
            let place = self.waiting[number] as usize;
            if self.queues[place] == queue && self.groups[place] == group && self.databases[place] == database {
                begins = begins.max(self.turns[place]);
                self.turns[place] = begins + share * jobs;
            }
        }
        self.pass_time(database, queue, begins + share * jobs.saturating_sub(1));
    }

    /// There was no job without a fairness key when their turn came: they get the next one when the others have had
    /// theirs.
    pub fn passed_over(&mut self, database: u32, queue: i32) {
        let turn = self.turn_without_key(database, queue) + TURN;
        self.set_turn_without_key(database, queue, turn);
    }
}

fn without_key(queue: i32) -> String {
    Line::fair(queue, &[], Some("")).map_or_else(String::new, |line| line.name().to_owned())
}

/// Groups that are to be served, in turn: each time the one that has had least, for its weight.
pub struct Order<T>(Vec<(u64, u64, T)>);

impl<T: PartialEq> Order<T> {
    /// Each with what it has had and its weight.
    pub fn new(groups: impl IntoIterator<Item = (T, u64, f64)>) -> Order<T> {
        Order(groups.into_iter().map(|(group, turn, weight)| (turn, share(weight), group)).collect())
    }

    /// Where a group stands: the smallest number is next.
    pub fn turn(&self, group: &T) -> u64 {
        self.0.iter().find(|(_, _, other)| other == group).map_or(0, |(turn, ..)| *turn)
    }

    /// A job of the group was taken. Returns what one job is of its turn.
    pub fn taken(&mut self, group: &T) -> u64 {
        let Some((turn, share, _)) = self.0.iter_mut().find(|(_, _, other)| other == group) else { return 0 };
        *turn += *share;
        *share
    }
}

/// What a job costs of a turn.
pub fn share(weight: f64) -> u64 {
    (TURN as f64 / weight.clamp(0.001, 1_000.0)) as u64
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
