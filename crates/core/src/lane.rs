//! Lanes of their own: where jobs rest that not every worker may run, or that take turns with others.
//!
//! A job that requires capabilities, or has a fairness key, does not stand among all the others but in the
//! lane of those that are like it. The name of a lane says which worker may read it, and whose turn it is.

use std::hash::{DefaultHasher, Hash, Hasher};

/// What the name of a lane begins with.
pub const START: &str = "lane:";
/// The longest list of required capabilities, with commas.
pub const LONGEST_NEEDS: usize = 100;
/// The longest fairness key.
pub const LONGEST_FAIRNESS_KEY: usize = 80;

/// A lane of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane<'a> {
    pub queue_id: i32,
    /// Capabilities, sorted, with commas.
    pub needs: &'a str,
    /// Empty: without one.
    pub fairness_key: &'a str,
}

impl<'a> Lane<'a> {
    /// Reads the name of a lane. None: it is none.
    pub fn parse(name: &'a str) -> Option<Lane<'a>> {
        let (queue_id, rest) = name.strip_prefix(START)?.split_once('|')?;
        let (needs, fairness_key) = rest.split_once('|')?;
        Some(Lane { queue_id: queue_id.parse().ok()?, needs, fairness_key })
    }

    pub fn name(&self) -> String {
        format!("{START}{}|{}|{}", self.queue_id, self.needs, self.fairness_key)
    }

    /// Whether someone with these capabilities may run its jobs.
    pub fn admits(&self, capabilities: &[String]) -> bool {
        self.needs.is_empty() || self.needs.split(',').all(|need| capabilities.iter().any(|has| has == need))
    }

    /// A number for those who take turns: all lanes of a fairness key have the same. 0: without one.
    pub fn group(&self) -> u32 {
        if self.fairness_key.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.fairness_key.hash(&mut hasher);
        (hasher.finish() as u32).max(1)
    }
}

/// The lane in which a job rests when it may run; None: with all the others.
pub fn of(queue_id: i32, needs: &[String], fairness_key: Option<&str>) -> Option<String> {
    if needs.is_empty() && fairness_key.is_none() {
        return None;
    }
    Some(Lane { queue_id, needs: &needs.join(","), fairness_key: fairness_key.unwrap_or_default() }.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_lane_is_found_in_its_name_again() {
        assert_eq!(of(7, &[], None), None);
        for (needs, key) in
            [(texts(&["gpu", "web"]), Some("tenant:a|b")), (texts(&[]), Some("t")), (texts(&["x"]), None)]
        {
            let name = of(7, &needs, key).expect("a lane");
            let lane = Lane::parse(&name).expect("a lane");
            assert_eq!(
                (lane.queue_id, lane.needs, lane.fairness_key),
                (7, needs.join(",").as_str(), key.unwrap_or(""))
            );
        }
        assert_eq!(Lane::parse("tenant:42"), None);
        assert_eq!(Lane::parse("lane:x|a|b"), None);
    }

    #[test]
    fn all_that_is_required_must_be_there() {
        let lane = Lane { queue_id: 1, needs: "gpu,web", fairness_key: "" };
        assert!(lane.admits(&texts(&["web", "gpu", "more"])));
        assert!(!lane.admits(&texts(&["web"])) && !lane.admits(&[]));
        assert!(Lane { needs: "", ..lane }.admits(&[]));
    }

    #[test]
    fn lanes_of_one_fairness_key_take_turns_together() {
        let lane = |needs, fairness_key| Lane { queue_id: 1, needs, fairness_key }.group();
        assert_eq!(lane("gpu", "t"), lane("", "t"));
        assert_ne!(lane("", "t"), lane("", "u"));
        assert_eq!(lane("gpu", ""), 0);
    }
}
