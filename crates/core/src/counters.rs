//! How much of each key is in use, and how many jobs stand in its line, in a table of fixed size that all sessions
//! share.
//!
//! A key is that of a limit, of which a job takes one slot, or that of a budget, of which it takes an amount. Each database
//! has its share of the places. What is in use goes before jobs that only wait: those can be found in the tables, too. A
//! key that a rule names has its place whether it is in use or not.

use crate::name::Name;
use crate::shares::Shares;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A look for one key goes over at most this many places. Beyond them, the table counts as full.
const PROBES: usize = 64;
/// One job's share of a turn, at a weight of 1.
pub const TURN: u64 = 1 << 20;

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

pub struct Counters<const N: usize> {
    databases: [u32; N],
    names: [Name; N],
    active: [i64; N],
    /// Jobs that stand in the line. Below 0 for a moment, when the table is told of a job that left before it is told
    /// that it came.
    in_line: [i32; N],
    /// What the job wanted that was refused last.
    needed: [i64; N],
    /// Whether a rule names the key, so that it keeps its place.
    named: [bool; N],
    /// Whether a claim was kept from jobs because nothing was left.
    wanted: [bool; N],
    /// The places at which jobs wait, without gaps, so that nobody has to look at all places; and where each stands
    /// in this list.
    waiting: [u32; N],
    stands_at: [u32; N],
    waiting_count: usize,
    /// How many places each database has for what is in use or named, and how many for lines alone.
    shares: Shares,
    /// The database whose jobs in a line were forgotten last, to make room.
    forgotten: u32,
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Counters {
            databases: [0; N],
            names: [Name::NONE; N],
            active: [0; N],
            in_line: [0; N],
            needed: [0; N],
            named: [false; N],
            wanted: [false; N],
            waiting: [0; N],
            stands_at: [0; N],
            waiting_count: 0,
            shares: Shares::default(),
            forgotten: 0,
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

    fn is_free(&self, place: usize) -> bool {
        self.active[place] == 0 && self.in_line[place] == 0 && !self.named[place]
    }

    /// The place of a counter, or one for it: where nothing is counted, it may move in. What is in use may also take the
    /// place of jobs that only wait.
    fn find_or_make(&mut self, counter: CounterKey<'_>, only_waits: bool) -> Option<usize> {
        if let Some(place) = self.find(counter) {
            return Some(place);
        }
        let name = Name::new(counter.key)?;
        let database = counter.database;
        let has_room = self.shares.has_room(database, N);
        // Lines alone have half of what a database may have.
        let may_move_in =
            if only_waits { has_room && self.lines_of(database) < self.shares.of(database, N) / 2 } else { has_room };
        let mut place = Self::places(counter).find(|place| may_move_in && self.is_free(*place));
        if place.is_none() && !only_waits {
            let may_go = |place: &usize| {
                let gives_way = has_room || self.databases[*place] == database;
                gives_way && self.active[*place] == 0 && self.in_line[*place] > 0 && !self.named[*place]
            };
            place = Self::places(counter).find(may_go);
            if let Some(place) = place {
                self.forget_line(place);
            }
        }
        let place = place?;
        (self.databases[place], self.names[place], self.needed[place]) = (database, name, 0);
        self.wanted[place] = false;
        Some(place)
    }

    fn forget_line(&mut self, place: usize) {
        self.forgotten = self.databases[place];
        self.end_waiting(place);
        self.in_line[place] = 0;
        self.shares.give_back(self.databases[place]);
    }

    /// The database whose jobs in lines were forgotten to make room, if there was any since this was last asked.
    pub fn take_forgotten(&mut self) -> Option<u32> {
        Some(std::mem::take(&mut self.forgotten)).filter(|database| *database != 0)
    }

    /// How many places of a database hold a line for which nothing is in use.
    fn lines_of(&self, database: u32) -> usize {
        // Where few wait, there is no need to count.
        if self.waiting_count < N / 8 {
            return 0;
        }
        self.waiting(database).filter(|place| self.active[*place] == 0).count()
    }

    /// Does something to a place, and keeps the shares right.
    fn at<R>(&mut self, place: usize, change: impl FnOnce(&mut Self) -> R) -> R {
        let (database, was_free) = (self.databases[place], self.is_free(place));
        let result = change(self);
        match (was_free, self.is_free(place)) {
            (true, false) => self.shares.take(database),
            (false, true) => self.shares.give_back(database),
            _ => {}
        }
        result
    }

    /// Gives a key that a rule names its place. False: there is no room for it.
    pub fn name(&mut self, counter: CounterKey<'_>) -> bool {
        let Some(place) = self.find_or_make(counter, false) else { return false };
        self.at(place, |all| all.named[place] = true);
        true
    }

    /// Whether the key has a place.
    pub fn knows(&self, counter: CounterKey<'_>) -> bool {
        self.find(counter).is_some_and(|place| !self.is_free(place))
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
        if let Some(place) = self.find_or_make(counter, true) {
            self.wanted[place] = true;
        }
    }

    /// An amount of a key is free again. True: somebody waits for it.
    pub fn give_back(&mut self, counter: CounterKey<'_>, amount: i64) -> bool {
        self.add_active(counter, -amount);
        self.find(counter).is_some_and(|place| std::mem::take(&mut self.wanted[place]) || self.in_line[place] > 0)
    }

    /// The places of a database at which jobs wait.
    fn waiting(&self, database: u32) -> impl Iterator<Item = usize> {
        let places = self.waiting[..self.waiting_count].iter().map(|place| *place as usize);
        places.filter(move |place| self.databases[*place] == database)
    }

    /// The keys of a database for which jobs wait.
    pub fn waited_for(&self, database: u32) -> impl Iterator<Item = &str> {
        self.waiting(database).map(|place| self.names[place].as_str())
    }

    fn begin_waiting(&mut self, place: usize) {
        self.waiting[self.waiting_count] = place as u32;
        self.stands_at[place] = self.waiting_count as u32;
        self.waiting_count += 1;
    }

    fn end_waiting(&mut self, place: usize) {
        let (at, last) = (self.stands_at[place] as usize, self.waiting[self.waiting_count - 1]);
        self.waiting[at] = last;
        self.stands_at[last as usize] = at as u32;
        self.waiting_count -= 1;
    }

    /// Takes the amount of each, or nothing and says of which there is not enough.
    pub fn take(&mut self, database: u32, wanted: &[CounterDemand<'_>]) -> Result<(), usize> {
        for (number, wish) in wanted.iter().enumerate() {
            let place = self.find_or_make(CounterKey { database, key: wish.key }, false);
            if let Some(place) = place
                && self.active[place].saturating_add(wish.amount.max(1)) <= wish.most
            {
                self.at(place, |all| all.active[place] += wish.amount);
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
        if change <= 0 && self.find(counter).is_none() {
            return true;
        }
        let Some(place) = self.find_or_make(counter, false) else { return false };
        self.at(place, |all| all.active[place] = all.active[place].saturating_add(change).max(0));
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
                self.at(place, |all| all.active[place] = 0);
            }
        }
    }

    /// Jobs have come into a line, or left it. False: there is no room for the counter.
    pub fn change_line(&mut self, counter: CounterKey<'_>, change: i32) -> bool {
        let Some(place) = self.find_or_make(counter, true) else { return false };
        let before = self.in_line[place] > 0;
        self.at(place, |all| all.in_line[place] = all.in_line[place].saturating_add(change));
        match (before, self.in_line[place] > 0) {
            (false, true) => self.begin_waiting(place),
            (true, false) => self.end_waiting(place),
            _ => {}
        }
        // The one that was refused last may have gone.
        if change < 0 {
            self.needed[place] = 0;
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
            self.at(place, |all| (all.active[place], all.in_line[place], all.named[place]) = (0, 0, false));
            (self.databases[place], self.names[place]) = (0, Name::NONE);
        }
    }
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
