//! The statuses against the arrows between them, and against the schema.

use super::status::{CountState, MISSION_ARROWS, MissionStatus, Required, STEP_ARROWS, ShownStatus, StepStatus};
use super::template::MODES;
use crate::state::JobState;
use crate::words::listed;
use std::fmt::Debug;

const SCHEMA: &str = include_str!("../../../../sql/flow/mission.sql");
const VIEWS: &str = include_str!("../../../../sql/flow/mission_views.sql");

#[test]
fn every_name_parses_back() {
    for status in MissionStatus::ALL {
        assert_eq!(MissionStatus::parse(status.name()), Some(*status));
    }
    for status in StepStatus::ALL {
        assert_eq!(StepStatus::parse(status.name()), Some(*status));
    }
    for required in Required::ALL {
        assert_eq!(Required::parse(required.name()), Some(*required));
    }
    for state in CountState::ALL {
        assert_eq!(CountState::parse(state.name()), Some(*state));
    }
    assert_eq!((MissionStatus::parse("paused"), StepStatus::parse("running")), (None, None));
}

#[test]
fn the_schema_has_the_same_words() {
    assert_eq!(listed(SCHEMA, "CONSTRAINT mission_status_check"), MissionStatus::NAMES);
    assert_eq!(listed(SCHEMA, "DOMAIN agentq_internal.mission_step_status"), StepStatus::NAMES);
    assert_eq!(listed(SCHEMA, "DOMAIN agentq_internal.mission_count_state"), CountState::NAMES);
    assert_eq!(listed(SCHEMA, "CONSTRAINT mission_edge_required_check"), Required::NAMES);
    assert_eq!(listed(SCHEMA, "CONSTRAINT mission_mode_check"), MODES);
    let ends: Vec<&str> = MissionStatus::ALL.iter().filter(|status| status.is_end()).map(|end| end.name()).collect();
    assert_eq!(listed(SCHEMA, "CONSTRAINT mission_completed_check"), ends);
}

#[test]
fn people_are_shown_what_is_stored_and_that_a_step_runs() {
    let mut shown = ShownStatus::NAMES.to_vec();
    shown.retain(|name| *name != ShownStatus::Running.name());
    assert_eq!(shown, StepStatus::NAMES);
    assert!(VIEWS.contains(&format!("THEN '{}'", ShownStatus::Running.name())));
}

/// An end is what no arrow leaves, every status can be reached, and every way leads to an end.
fn check<S: Copy + Debug + PartialEq>(arrows: &[(S, S, &str)], all: &[S], first: S, is_end: fn(S) -> bool) {
    for status in all {
        let leaves = arrows.iter().any(|(from, ..)| from == status);
        assert_ne!(leaves, is_end(*status), "{status:?}");
        let mut seen = vec![first];
        while let Some((_, to, _)) = arrows.iter().find(|(from, to, _)| seen.contains(from) && !seen.contains(to)) {
            seen.push(*to);
        }
        assert!(seen.contains(status), "{status:?} cannot be reached");
    }
    for (number, (from, to, _)) in arrows.iter().enumerate() {
        let again = arrows[..number].iter().any(|(f, t, _)| (f, t) == (from, to));
        assert!(!again, "{from:?} to {to:?} stands there twice");
    }
}

#[test]
fn every_status_can_be_reached_and_leads_to_an_end() {
    check(MISSION_ARROWS, MissionStatus::ALL, MissionStatus::first(true), MissionStatus::is_end);
    check(STEP_ARROWS, StepStatus::ALL, StepStatus::Waiting, StepStatus::is_end);
}

#[test]
fn what_is_decided_follows_the_arrows() {
    let leads = |from: MissionStatus, to| MISSION_ARROWS.iter().any(|(f, t, _)| (*f, *t) == (from, to));
    for status in MissionStatus::ALL.iter().copied() {
        assert_eq!(status.goes_on(), leads(status, MissionStatus::Cancelling), "{status:?}");
        if status.waits_for_steps() {
            for end in [status.end(false), status.end(true)] {
                assert!(end.is_end() && leads(status, end), "{status:?} to {end:?}");
            }
        }
    }
    assert!(!MissionStatus::Compensating.waits_for_steps());
    assert_eq!(MissionStatus::Cancelling.end(true), MissionStatus::Cancelled);
    assert_eq!(MissionStatus::Running.end(true), MissionStatus::Failed);
    let ends = |status| STEP_ARROWS.iter().any(|(from, to, _)| (*from, *to) == (StepStatus::Queued, status));
    for state in crate::state::ALL {
        assert!(ends(StepStatus::of_job(state)), "{state:?}");
    }
    for status in MissionStatus::ALL.iter().filter(|status| status.is_end()) {
        assert_eq!(StepStatus::of_mission(*status).name(), status.name());
    }
}

#[test]
fn the_end_of_a_job_or_a_list_says_how_its_step_ends() {
    assert_eq!(StepStatus::of_job(JobState::Succeeded), StepStatus::Succeeded);
    assert_eq!(StepStatus::of_job(JobState::Cancelled), StepStatus::Cancelled);
    for state in [JobState::Failed, JobState::DeadLetter] {
        assert_eq!(StepStatus::of_job(state), StepStatus::Failed);
    }
    let ends = [(true, true), (true, false), (false, true), (false, false)];
    let ends = ends.map(|(enough, cancelled)| StepStatus::of_list(enough, cancelled));
    assert_eq!(ends, [StepStatus::Succeeded, StepStatus::Succeeded, StepStatus::Cancelled, StepStatus::Failed]);
}

#[test]
fn a_step_meets_what_is_asked_by_its_own_end_alone() {
    for status in StepStatus::ALL.iter().copied() {
        let met: Vec<&str> = Required::ALL.iter().filter(|it| it.is_met_by(status)).map(|it| it.name()).collect();
        let own = ["succeeded", "failed", "skipped"].into_iter().find(|name| *name == status.name());
        let expected: Vec<&str> = own.into_iter().chain(status.is_end().then_some("ended")).collect();
        assert_eq!(met, expected, "{status:?}");
    }
}

#[test]
fn a_fork_keeps_what_ended_well() {
    for fails_mission in [true, false] {
        let kept: Vec<StepStatus> =
            StepStatus::ALL.iter().copied().filter(|status| status.ended_well(fails_mission)).collect();
        let failed = (!fails_mission).then_some(StepStatus::Failed);
        let expected: Vec<StepStatus> =
            [Some(StepStatus::Succeeded), failed, Some(StepStatus::Skipped)].into_iter().flatten().collect();
        assert_eq!(kept, expected);
        assert!(kept.iter().all(|status| status.is_end()));
    }
    let failures: Vec<StepStatus> = StepStatus::ALL.iter().copied().filter(|status| status.is_failure()).collect();
    assert_eq!(failures, [StepStatus::Failed, StepStatus::Cancelled]);
}
