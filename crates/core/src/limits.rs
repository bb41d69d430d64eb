//! How many jobs may run at once, or be begun in a time: the rules.
//!
//! A rule is about a key. A job has the key `global`, that of its queue and of its kind, that of the
//! type of worker that claims it, and any that it was enqueued with. A rule for `tenant:*` holds for each
//! key that begins with `tenant:`, on its own.

use crate::rate::Rate;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A rule as it is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Jobs with this key that may be held at once; None: any number.
    pub max_concurrent: Option<u32>,
    /// Jobs with this key that may wait at once.
    pub max_pending: Option<u32>,
    /// How long the oldest that may run may have waited before new ones are deferred, in seconds.
    pub max_age_seconds: Option<f64>,
    /// Slots that something else than a job holds.
    pub taken_by_hand: u32,
    /// Things that wait and are no jobs: they count among those that may wait.
    pub pending_by_hand: u32,
    pub rate: Option<Rate>,
    /// The share of a fairness key; None: 1.
    pub weight: Option<f64>,
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
    /// Whether there are rules for workers by their type, and none of them is for this type.
    pub fn misses_worker_type(&self, worker_type: &str) -> bool {
        let (of_type, of_worker) = (worker_type_key(worker_type), format!("worker:{worker_type}:"));
        let (mut any, mut found) = (false, false);
        let all = self.exact.keys().map(|key| (key, false)).chain(self.patterns.iter().map(|(start, _)| (start, true)));
        for (key, is_pattern) in all {
            if !key.starts_with("worker_type:") && !key.starts_with("worker:") {
                continue;
            }
            any = true;
            found |= *key == of_type || key.starts_with(&of_worker);
            found |= is_pattern && (of_type.starts_with(key.as_str()) || of_worker.starts_with(key.as_str()));
        }
        any && !found
    }

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

    /// The keys of rules about one key each that limit how many jobs are held at once.
    pub fn named(&self) -> Vec<String> {
        self.exact.iter().filter(|(_, rule)| rule.max_concurrent.is_some()).map(|(key, _)| key.clone()).collect()
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

    /// What the keys of the pattern begin with whose rule holds for this one. None: it has a rule of its own, or none.
    pub fn pattern_of(&self, key: &str) -> Option<&str> {
        if self.exact.contains_key(key) {
            return None;
        }
        self.patterns.iter().map(|(start, _)| start.as_str()).find(|start| key.starts_with(start))
    }

    /// Slots for jobs with this key; None: any number.
    pub fn slots(&self, key: &str) -> Option<u32> {
        self.of(key)?.slots()
    }

    /// The share of a fairness key.
    pub fn weight(&self, key: &str) -> f64 {
        self.of(key).and_then(|rule| rule.weight).unwrap_or(1.0)
    }
}

/// The longest key of a rule.
pub const LONGEST_KEY: usize = crate::bounds::LIMIT_KEY;

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(max_concurrent: u32) -> Rule {
        Rule { max_concurrent: Some(max_concurrent), ..Rule::default() }
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
    fn a_type_of_worker_that_no_rule_is_about_is_noticed_where_there_are_rules_for_others() {
        let rule = |key: &str| (key.to_owned(), Rule::default());
        assert!(!Rules::new([rule("global"), rule("tenant:*")]).misses_worker_type("crew"));
        let rules = Rules::new([rule("worker_type:crew"), rule("worker:vp:*"), rule("worker:ceo:ann")]);
        for (worker_type, misses) in
            [("crew", false), ("vp", false), ("ceo", false), ("crw", true), ("v", true), ("vpx", true)]
        {
            assert_eq!(rules.misses_worker_type(worker_type), misses, "{worker_type}");
        }
        assert!(!Rules::new([rule("worker_type:*")]).misses_worker_type("any"));
    }
}
