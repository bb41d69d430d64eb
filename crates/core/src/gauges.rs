//! The gauges of many keys, in a table of fixed size that shared memory can hold.

use crate::counters::CounterKey;
use crate::name::Name;
use crate::rate::Gauge;
use crate::shares::Shares;

type Micros = i64;

/// Places that are looked at for one key.
const PROBES: usize = 64;

pub struct Gauges<const N: usize> {
    databases: [u32; N],
    names: [Name; N],
    gauges: [Gauge; N],
    /// Whether it has changed since it was last written down.
    changed: [bool; N],
    /// Places that each database has taken, whether idle or not.
    shares: Shares,
}

impl<const N: usize> Default for Gauges<N> {
    fn default() -> Self {
        Gauges {
            databases: [0; N],
            names: [Name::NONE; N],
            gauges: [Gauge::default(); N],
            changed: [false; N],
            shares: Shares::default(),
        }
    }
}

impl<const N: usize> Gauges<N> {
    fn places(counter: CounterKey<'_>) -> impl Iterator<Item = usize> + use<N> {
        let first = counter.hash() as usize % N;
        (0..PROBES.min(N)).map(move |step| (first + step) % N)
    }

    fn find(&self, counter: CounterKey<'_>) -> Option<usize> {
        Self::places(counter)
            .find(|place| self.databases[*place] == counter.database && self.names[*place].is(counter.key))
    }

    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    pub fn get(&self, counter: CounterKey<'_>) -> Option<Gauge> {
        self.find(counter).map(|place| self.gauges[place])
    }

    /// The gauge of a key, which has changed when this returns. None: there is no room for it.
    pub fn change(&mut self, counter: CounterKey<'_>, now: Micros) -> Option<&mut Gauge> {
        let place = match self.find(counter) {
            Some(place) => place,
            None => {
                let name = Name::new(counter.key)?;
                let has_room = self.shares.has_room(counter.database, N);
                // One that has all that it may have can only put its own idle ones away.
                let is_free = |place: &usize| match self.databases[*place] {
                    0 => has_room,
                    database => (has_room || database == counter.database) && self.gauges[*place].is_idle(now),
                };
                let place = Self::places(counter).find(is_free)?;
                if self.databases[place] != 0 {
                    self.shares.give_back(self.databases[place]);
                }
                self.shares.take(counter.database);
                (self.databases[place], self.names[place]) = (counter.database, name);
                self.gauges[place] = Gauge::default();
                place
            }
        };
        self.changed[place] = true;
        Some(&mut self.gauges[place])
    }

    /// Whether what the other side said of a key may close it. A pattern is about any number of keys, and who reports makes them
    /// up: those of one pattern may close a quarter of the places of their database, and those of all patterns half. A key that is
    /// closed already, or that has a rule of its own, may always be.
    pub fn may_close(&self, counter: CounterKey<'_>, pattern: Option<&str>, now: Micros) -> bool {
        let Some(start) = pattern else { return true };
        if self.find(counter).is_some_and(|place| self.gauges[place].is_closed(now)) {
            return true;
        }
        let (mut closed, mut of_pattern, share) = (0, 0, self.shares.of(counter.database, N));
        for place in (0..N).filter(|place| self.databases[*place] == counter.database) {
            if self.gauges[place].is_closed(now) {
                closed += 1;
                of_pattern += usize::from(self.names[place].as_str().starts_with(start));
            }
        }
        closed < share / 2 && of_pattern < share / 4
    }

    /// The gauges of a database that have changed since this was last asked.
    pub fn take_changed(&mut self, database: u32) -> Vec<(String, Gauge)> {
        let mut found = Vec::new();
        for place in 0..N {
            if self.databases[place] == database && std::mem::take(&mut self.changed[place]) {
                found.push((self.names[place].as_str().to_owned(), self.gauges[place]));
            }
        }
        found
    }

    /// All gauges of a database look again, because rules have changed.
    pub fn look_again(&mut self, database: u32) {
        for place in (0..N).filter(|place| self.databases[*place] == database).collect::<Vec<_>>() {
            self.gauges[place].look_again();
        }
    }

    /// The first moment after this one at which a key opens that is closed.
    pub fn next_opening(&self, database: u32, after: Micros) -> Option<Micros> {
        let here = (0..N).filter(|place| self.databases[*place] == database);
        here.map(|place| self.gauges[place].closed_until()).filter(|at| *at > after).min()
    }

    /// Forgets the gauges of a database.
    pub fn clear(&mut self, database: u32) {
        for place in 0..N {
            if self.databases[place] == database {
                (self.databases[place], self.names[place]) = (0, Name::NONE);
                self.changed[place] = false;
                self.shares.give_back(database);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Rate;

    const NOW: Micros = 1_000_000;

    fn counter(key: &str) -> CounterKey<'_> {
        CounterKey { database: 1, key }
    }

    #[test]
    fn an_idle_gauge_makes_room_for_another() {
        let rate = Rate { amount: 1, per: 10, burst: 1, is_window: false };
        let mut gauges = Gauges::<4>::default();
        for key in ["one", "two", "four"] {
            gauges.change(counter(key), NOW).expect("room").take(&rate, 1, NOW);
        }
        assert!(gauges.change(counter("three"), NOW).is_none());
        assert!(gauges.change(counter("three"), NOW + 10).is_some());
        gauges.clear(1);
        assert!(gauges.is_empty());
    }

    #[test]
    fn one_database_leaves_room_for_another() {
        let mut gauges = Gauges::<1024>::default();
        let mut fill = |database: u32| {
            let room = |number: &i32| {
                let key = format!("key:{number}");
                let gauge = gauges.change(CounterKey { database, key: &key }, NOW);
                gauge.map(|gauge| gauge.close(NOW + 5, NOW)).is_some()
            };
            (0..5_000).filter(room).count()
        };
        assert!((600..=768).contains(&fill(1)));
        assert!(fill(2) > 100);
        gauges.clear(1);
        gauges.clear(2);
        assert!(gauges.is_empty());
    }

    #[test]
    fn the_keys_of_one_pattern_close_a_quarter_and_those_of_all_half() {
        let mut gauges = Gauges::<1024>::default();
        let mut close = |pattern: &str, count: i32| {
            let fits = |number: &i32| {
                let key = format!("{pattern}{number}");
                let may = gauges.may_close(counter(&key), Some(pattern), NOW);
                may && gauges.change(counter(&key), NOW).map(|gauge| gauge.close(NOW + 5, NOW)).is_some()
            };
            (0..count).filter(fits).count()
        };
        assert_eq!([close("a:", 1_000), close("b:", 1_000), close("c:", 1_000)], [192, 192, 0]);
        // Those that are closed may be closed for longer, or opened.
        assert_eq!(close("a:", 10), 10);
        assert!(gauges.may_close(counter("c:1"), None, NOW) && !gauges.may_close(counter("c:1"), Some("c:"), NOW));
        assert!(gauges.may_close(counter("c:1"), Some("c:"), NOW + 5));
    }

    #[test]
    fn what_has_changed_is_told_once() {
        let mut gauges = Gauges::<8>::default();
        gauges.change(counter("one"), NOW).expect("room").close(NOW + 5, NOW);
        gauges.change(CounterKey { database: 2, key: "one" }, NOW).expect("room").close(NOW + 3, NOW);
        assert_eq!(gauges.next_opening(1, NOW), Some(NOW + 5));
        assert_eq!(gauges.next_opening(1, NOW + 5), None);
        let told = gauges.take_changed(1);
        assert_eq!(told.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["one"]);
        assert!(gauges.take_changed(1).is_empty());
        assert_eq!(gauges.take_changed(2).len(), 1);
    }
}
