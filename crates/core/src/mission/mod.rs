//! Missions: several steps with an order between them.
//!
//! A template is read and checked here (`template`), together with what its texts refer to (`path`, `params`). Which
//! step may begin, and which never will, is decided here (`plan`), and so is how a mission is drawn (`graph`). The
//! extension keeps the counters in rows and asks.

pub mod graph;
pub mod params;
pub mod path;
pub mod plan;
pub mod template;

#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod template_tests;

/// Where a mission stands, and every arrow between two of these.
pub const MISSION_ARROWS: &[(&str, &str, &str)] = &[
    ("approved", "running", "fn_mission_resume"),
    ("approved", "cancelling", "fn_mission_cancel"),
    ("running", "succeeded", "the end of its last step"),
    ("running", "failed", "the end of its last step"),
    ("running", "cancelling", "fn_mission_cancel"),
    ("cancelling", "cancelled", "the end of its last step"),
    ("cancelling", "compensating", "the end of its last step"),
    ("compensating", "cancelled", "the end of its last compensation"),
];

/// Where a step stands as it is stored; that it runs is seen from its job's lease.
pub const STEP_ARROWS: &[(&str, &str, &str)] = &[
    ("waiting", "queued", "the end of a step before it"),
    ("waiting", "skipped", "the end of a step before it"),
    ("waiting", "succeeded", "an empty list to work through"),
    ("waiting", "failed", "parameters that cannot be made"),
    ("waiting", "cancelled", "the end of the mission"),
    ("queued", "succeeded", "the end of its job"),
    ("queued", "failed", "the end of its job"),
    ("queued", "cancelled", "the end of its job"),
];

pub const MISSION_ENDS: [&str; 3] = ["succeeded", "failed", "cancelled"];
pub const STEP_ENDS: [&str; 4] = ["succeeded", "failed", "skipped", "cancelled"];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arrows: &[(&str, &str, &str)], first: &str, ends: &[&str]) {
        for (from, to, _) in arrows {
            assert!(!ends.contains(from), "{from} is an end");
            assert!(ends.contains(to) || arrows.iter().any(|(f, ..)| f == to), "{to} leads nowhere");
            assert!(*from == first || arrows.iter().any(|(_, t, _)| t == from), "{from} cannot be reached");
        }
        for end in ends {
            assert!(arrows.iter().any(|(_, to, _)| to == end), "{end} cannot be reached");
        }
    }

    #[test]
    fn every_status_can_be_reached_and_leads_to_an_end() {
        check(MISSION_ARROWS, "approved", &MISSION_ENDS);
        check(STEP_ARROWS, "waiting", &STEP_ENDS);
    }
}
