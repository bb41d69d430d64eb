//! How many jobs may run at once: the rules, and the counters that keep them.
//!
//! A rule is about a key. A job has the key `global`, that of its queue and of its kind, that of the
//! type of worker that claims it, and any that it was enqueued with. A rule for `tenant:*` holds for each
//! key that begins with `tenant:`, on its own.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A rule as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Jobs with this key that may be held at once; None: any number.
    pub max_concurrent: Option<u32>,
    /// Jobs with this key that may wait at once.
    pub max_pending: Option<u32>,
    /// Slots that something else than a job holds.
    pub taken_by_hand: u32,
}

impl Rule {
    /// Slots for jobs.
    pub fn slots(&self) -> Option<u32> {
        self.max_concurrent.map(|most| most.saturating_sub(self.taken_by_hand))
    }
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    exact: HashMap<String, Rule>,
    /// By what a key begins with; the longest first.
    patterns: Vec<(String, Rule)>,
}

pub const GLOBAL: &str = "global";

/// A key that a table of fixed size can hold: what is too long ends with a number that stands for it.
fn bounded(key: String) -> String {
    if key.len() <= LONGEST_KEY {
        return key;
    }
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let mut end = LONGEST_KEY - 17;
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}#{:016x}", &key[..end], hasher.finish())
}

pub fn queue_key(queue: &str) -> String {
    bounded(format!("queue:{queue}"))
}

pub fn kind_key(kind: &str) -> String {
    bounded(format!("kind:{kind}"))
}

pub fn worker_type_key(worker_type: &str) -> String {
    bounded(format!("worker_type:{worker_type}"))
}

/// The key of one worker of a type.
pub fn worker_key(worker_type: &str, owner: &str) -> String {
    bounded(format!("worker:{worker_type}:{owner}"))
}

impl Rules {
    pub fn new(rules: impl IntoIterator<Item = (String, Rule)>) -> Rules {
        let mut all = Rules::default();
        for (key, rule) in rules {
            match key.strip_suffix('*') {
                Some(start) => all.patterns.push((start.to_owned(), rule)),
                None => drop(all.exact.insert(key, rule)),
            }
        }
        all.patterns.sort_by_key(|(start, _)| std::cmp::Reverse(start.len()));
        all
    }

    /// The keys of the rules themselves.
    pub fn names(&self) -> Vec<String> {
        let patterns = self.patterns.iter().map(|(start, _)| format!("{start}*"));
        self.exact.keys().cloned().chain(patterns).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.patterns.is_empty()
    }

    /// The rule for a key: its own, or that of the longest pattern.
    pub fn of(&self, key: &str) -> Option<&Rule> {
        self.exact
            .get(key)
            .or_else(|| self.patterns.iter().find(|(start, _)| key.starts_with(start.as_str())).map(|(_, rule)| rule))
    }

    /// Slots for jobs with this key; None: any number.
    pub fn slots(&self, key: &str) -> Option<u32> {
        self.of(key)?.slots()
    }
}

/// The longest key.
pub const LONGEST_KEY: usize = 100;

/// A key as a table of fixed size can hold it.
#[derive(Clone, Copy)]
struct Name {
    length: u8,
    bytes: [u8; LONGEST_KEY],
}

impl Name {
    const NONE: Name = Name { length: 0, bytes: [0; LONGEST_KEY] };

    fn new(key: &str) -> Option<Name> {
        let mut name = Name { length: u8::try_from(key.len()).ok()?, ..Name::NONE };
        name.bytes.get_mut(..key.len())?.copy_from_slice(key.as_bytes());
        Some(name)
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Places that are looked at for one key. Beyond, the table counts as full.
const PROBES: usize = 64;

/// Slots in use, and jobs that wait for one, by key and database, in a table of fixed size.
pub struct Counters<const N: usize> {
    databases: [u32; N],
    names: [Name; N],
    active: [u32; N],
    /// Side by side, because they are all looked at to find those that are not 0. For a moment below 0, when
    /// one that left is told before it came.
    blocked: [i32; N],
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Counters { databases: [0; N], names: [Name::NONE; N], active: [0; N], blocked: [0; N] }
    }
}

/// A key in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot<'a> {
    pub database: u32,
    pub key: &'a str,
}

impl<const N: usize> Counters<N> {
    fn places(slot: Slot<'_>) -> impl Iterator<Item = usize> {
        let mut hasher = DefaultHasher::new();
        slot.hash(&mut hasher);
        let first = hasher.finish() as usize % N;
        (0..PROBES.min(N)).map(move |step| (first + step) % N)
    }

    fn find(&self, slot: Slot<'_>) -> Option<usize> {
        let is_it = |place: &usize| {
            self.databases[*place] == slot.database && self.names[*place].as_bytes() == slot.key.as_bytes()
        };
        Self::places(slot).find(is_it)
    }

    /// The place of a counter, or one for it: where nothing is counted, it may move in.
    fn find_or_make(&mut self, slot: Slot<'_>) -> Option<usize> {
        if let Some(place) = self.find(slot) {
            return Some(place);
        }
        let name = Name::new(slot.key)?;
        let place = Self::places(slot).find(|place| self.active[*place] == 0 && self.blocked[*place] == 0)?;
        (self.databases[place], self.names[place]) = (slot.database, name);
        Some(place)
    }

    pub fn active(&self, slot: Slot<'_>) -> u32 {
        self.find(slot).map_or(0, |place| self.active[place])
    }

    pub fn blocked(&self, slot: Slot<'_>) -> u32 {
        self.find(slot).map_or(0, |place| self.blocked[place].max(0) as u32)
    }

    /// The keys of a database for which jobs wait, each with its slots in use.
    pub fn waited_for(&self, database: u32) -> impl Iterator<Item = (&str, u32)> {
        let here = move |place: &usize| self.blocked[*place] > 0 && self.databases[*place] == database;
        let key =
            |place: usize| (std::str::from_utf8(self.names[place].as_bytes()).unwrap_or_default(), self.active[place]);
        (0..N).filter(here).map(key)
    }

    /// Takes one slot of each, or none and says which is full.
    pub fn take(&mut self, wanted: &[(Slot<'_>, u32)]) -> Result<(), usize> {
        for (number, (slot, most)) in wanted.iter().enumerate() {
            if self.active(*slot) >= *most || self.find_or_make(*slot).is_none() {
                for (slot, _) in &wanted[..number] {
                    self.add_active(*slot, -1);
                }
                return Err(number);
            }
            self.add_active(*slot, 1);
        }
        Ok(())
    }

    /// False: there is no room for the counter.
    pub fn add_active(&mut self, slot: Slot<'_>, change: i64) -> bool {
        let Some(place) = self.find_or_make(slot) else { return false };
        self.active[place] = (i64::from(self.active[place]) + change).max(0) as u32;
        true
    }

    /// False: there is no room for the counter.
    pub fn add_blocked(&mut self, slot: Slot<'_>, change: i32) -> bool {
        let Some(place) = self.find_or_make(slot) else { return false };
        self.blocked[place] += change;
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
            (self.databases[place], self.names[place]) = (0, Name::NONE);
            (self.active[place], self.blocked[place]) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(max_concurrent: u32) -> Rule {
        Rule { max_concurrent: Some(max_concurrent), ..Rule::default() }
    }

    const KEYS: [&str; 6] = ["", "one", "two", "three", "four", "five"];

    fn slot(number: usize) -> Slot<'static> {
        Slot { database: 1, key: KEYS[number] }
    }

    #[test]
    fn a_key_has_its_own_rule_or_that_of_the_longest_pattern() {
        let rules = [("global", 200), ("tenant:*", 10), ("tenant:big:*", 50), ("tenant:7", 1)];
        let rules = Rules::new(rules.map(|(key, most)| (key.to_owned(), rule(most))));
        for (key, slots) in [
            ("global", Some(200)),
            ("tenant:7", Some(1)),
            ("tenant:8", Some(10)),
            ("tenant:big:1", Some(50)),
            ("queue:x", None),
        ] {
            assert_eq!(rules.slots(key), slots, "{key}");
        }
        assert_eq!(Rule { taken_by_hand: 3, ..rule(2) }.slots(), Some(0));
    }

    #[test]
    fn a_long_key_is_cut_and_stays_one_of_its_own() {
        let (one, other) = (kind_key(&"ä".repeat(100)), kind_key(&format!("{}b", "ä".repeat(99))));
        assert!(one.len() <= LONGEST_KEY && other.len() <= LONGEST_KEY && one != other);
        assert!(one.starts_with("kind:ä"));
        assert_eq!(kind_key("short"), "kind:short");
    }

    #[test]
    fn all_slots_are_taken_or_none() {
        let mut counters = Counters::<16>::default();
        assert_eq!(counters.take(&[(slot(1), 2), (slot(2), 1)]), Ok(()));
        assert_eq!(counters.take(&[(slot(1), 2), (slot(2), 1)]), Err(1));
        assert_eq!((counters.active(slot(1)), counters.active(slot(2))), (1, 1));
        counters.add_active(slot(2), -1);
        assert_eq!(counters.take(&[(slot(1), 2), (slot(2), 1)]), Ok(()));
        assert_eq!(counters.take(&[(slot(1), 2)]), Err(0));
        // Another database has its own.
        assert_eq!(counters.take(&[(Slot { database: 2, key: "one" }, 1)]), Ok(()));
        counters.clear(1);
        assert_eq!((counters.active(slot(1)), counters.active(Slot { database: 2, key: "one" })), (0, 1));
    }

    #[test]
    fn a_full_table_gives_no_slots_away() {
        let mut counters = Counters::<4>::default();
        for tag in 1..=4 {
            assert_eq!(counters.take(&[(slot(tag), 9)]), Ok(()));
        }
        assert_eq!(counters.take(&[(slot(5), 9)]), Err(0));
        counters.add_active(slot(3), -1);
        assert_eq!(counters.take(&[(slot(5), 9)]), Ok(()));
        // Nor does a key that it cannot hold.
        let long = "k".repeat(LONGEST_KEY + 1);
        assert_eq!(counters.take(&[(Slot { database: 1, key: &long }, 9)]), Err(0));
    }

    #[test]
    fn what_is_waited_for_is_found() {
        let mut counters = Counters::<64>::default();
        counters.add_blocked(slot(2), 3);
        counters.add_active(slot(2), 1);
        counters.add_blocked(Slot { database: 2, key: "one" }, 1);
        counters.add_blocked(slot(4), 1);
        counters.add_blocked(slot(4), -1);
        assert_eq!(counters.waited_for(1).collect::<Vec<_>>(), [("two", 1)]);
    }

    proptest! {
        #[test]
        fn counts_agree_with_a_plain_model(
            steps in proptest::collection::vec((0_usize..40, 0_u32..4, proptest::bool::ANY), 1..400),
        ) {
            let keys: Vec<String> = (0..40).map(|number| format!("key:{number}")).collect();
            let mut counters = Counters::<256>::default();
            let mut model = [0; 40];
            for (number, most, free) in steps {
                let slot = Slot { database: 7, key: &keys[number] };
                let held = &mut model[number];
                if free && *held > 0 {
                    counters.add_active(slot, -1);
                    *held -= 1;
                } else if !free {
                    let taken = counters.take(&[(slot, most)]).is_ok();
                    prop_assert_eq!(taken, *held < most);
                    *held += u32::from(taken);
                }
                prop_assert_eq!(counters.active(slot), *held);
            }
        }
    }
}
