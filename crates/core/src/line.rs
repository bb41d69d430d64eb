//! Lines: where jobs stand that may run but are not among all the others.
//!
//! A job waits in the line of a limit or a budget that has nothing left for it, or behind another job with its ordering
//! key. A job that has a fairness key, or requires capabilities, stands in a fair line: nothing holds it, but it takes
//! turns with others, or only some workers may run it. The name of a line, as the tables keep it, says which it is.

use std::hash::{DefaultHasher, Hash, Hasher};

/// What the name of each kind of line begins with. All others are keys of limits.
const ORDER: &str = "order:";
const FAIR: &str = "fair:";
const BUDGET: &str = crate::budget::START;
/// Beginnings of names that are no keys of jobs.
pub const RESERVED: [&str; 3] = [ORDER, FAIR, BUDGET];
/// The longest list of required capabilities, with commas.
pub const LONGEST_NEEDS: usize = crate::bounds::NEEDS;
/// The longest fairness key.
pub const LONGEST_FAIRNESS_KEY: usize = crate::bounds::FAIRNESS_KEY;

/// A line, with its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// For a slot, or the rate, of the limit with this key.
    Limit(String),
    /// For a part of the budget that is counted under this name.
    Budget(String),
    /// Behind the job at the head of an ordering key.
    Order(String),
    /// For nothing but its turn, or a worker that has what it requires.
    Fair(String),
}

impl Line {
    /// The line of this name.
    pub fn parse(name: impl Into<String>) -> Line {
        let name = name.into();
        if name.starts_with(ORDER) {
            Line::Order(name)
        } else if name.starts_with(FAIR) {
            Line::Fair(name)
        } else if name.starts_with(BUDGET) {
            Line::Budget(name)
        } else {
            Line::Limit(name)
        }
    }

    /// The line behind the head of an ordering key.
    pub fn behind(ordering_key: &str) -> Line {
        Line::Order(format!("{ORDER}{ordering_key}"))
    }

    /// The fair line in which a job rests when it may run; None: it rests with all the others.
    pub fn fair(queue_id: i32, needs: &[String], fairness_key: Option<&str>) -> Option<Line> {
        if needs.is_empty() && fairness_key.is_none() {
            return None;
        }
        Some(Fair { queue_id, needs: &needs.join(","), fairness_key: fairness_key.unwrap_or_default() }.line())
    }

    pub fn name(&self) -> &str {
        match self {
            Line::Limit(name) | Line::Budget(name) | Line::Order(name) | Line::Fair(name) => name,
        }
    }

    /// Whether its jobs may run now.
    pub fn is_fair(&self) -> bool {
        matches!(self, Line::Fair(_))
    }

    /// Whether its jobs wait for another with their ordering key.
    pub fn is_order(&self) -> bool {
        matches!(self, Line::Order(_))
    }
}

/// Whether this is the name of a fair line.
pub fn is_fair(name: &str) -> bool {
    name.starts_with(FAIR)
}

/// Whether this is the name of a budget's line, and so of its counter.
pub fn is_budget(name: &str) -> bool {
    name.starts_with(BUDGET)
}

/// What the name of a fair line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fair<'a> {
    pub queue_id: i32,
    /// Capabilities, sorted, with commas.
    pub needs: &'a str,
    /// Empty: without one.
    pub fairness_key: &'a str,
}

impl<'a> Fair<'a> {
    /// Reads the name of a line. None: it is no fair one.
    pub fn parse(name: &'a str) -> Option<Fair<'a>> {
        let (queue_id, rest) = name.strip_prefix(FAIR)?.split_once('|')?;
        let (needs, fairness_key) = rest.split_once('|')?;
        Some(Fair { queue_id: queue_id.parse().ok()?, needs, fairness_key })
    }

    fn line(&self) -> Line {
        Line::Fair(format!("{FAIR}{}|{}|{}", self.queue_id, self.needs, self.fairness_key))
    }

    /// Whether a worker with these capabilities may run its jobs.
    pub fn admits(&self, capabilities: &[String]) -> bool {
        self.needs.is_empty() || self.needs.split(',').all(|need| capabilities.iter().any(|has| has == need))
    }

    /// The number of the group that takes turns: one for all lines of a fairness key. 0: the group without a fairness
    /// key.
    pub fn group(&self) -> u32 {
        if self.fairness_key.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.fairness_key.hash(&mut hasher);
        (hasher.finish() as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_line_is_known_by_its_name() {
        assert_eq!(Line::parse("tenant:42"), Line::Limit("tenant:42".to_owned()));
        assert_eq!(Line::parse("global"), Line::Limit("global".to_owned()));
        assert_eq!(Line::parse("order:account:7"), Line::behind("account:7"));
        assert_eq!(Line::parse("budget:usd:day:2030-01-01:t"), Line::Budget("budget:usd:day:2030-01-01:t".to_owned()));
        let fair = Line::fair(7, &[], Some("tenant:a")).expect("a line");
        assert!(Line::parse(fair.name()) == fair && fair.is_fair() && !fair.is_order());
        assert!(Line::behind("k").is_order() && !is_fair(Line::behind("fair:k").name()));
        for line in [Line::behind("a"), fair, Line::parse("x")] {
            assert_eq!(Line::parse(line.name()), line);
        }
    }

    #[test]
    fn what_a_fair_line_is_for_is_found_in_its_name_again() {
        assert_eq!(Line::fair(7, &[], None), None);
        for (needs, key) in
            [(texts(&["gpu", "web"]), Some("tenant:a|b")), (texts(&[]), Some("t")), (texts(&["x"]), None)]
        {
            let line = Line::fair(7, &needs, key).expect("a line");
            let fair = Fair::parse(line.name()).expect("a fair line");
            assert_eq!(
                (fair.queue_id, fair.needs, fair.fairness_key),
                (7, needs.join(",").as_str(), key.unwrap_or(""))
            );
        }
        assert_eq!(Fair::parse("tenant:42"), None);
        assert_eq!(Fair::parse("fair:x|a|b"), None);
    }

    #[test]
    fn all_that_is_required_must_be_there() {
        let fair = Fair { queue_id: 1, needs: "gpu,web", fairness_key: "" };
        assert!(fair.admits(&texts(&["web", "gpu", "more"])));
        assert!(!fair.admits(&texts(&["web"])) && !fair.admits(&[]));
        assert!(Fair { needs: "", ..fair }.admits(&[]));
    }

    #[test]
    fn lines_of_one_fairness_key_take_turns_together() {
        let group = |needs, fairness_key| Fair { queue_id: 1, needs, fairness_key }.group();
        assert_eq!(group("gpu", "t"), group("", "t"));
        assert_ne!(group("", "t"), group("", "u"));
        assert_eq!(group("gpu", ""), 0);
    }
}
