//! The walks: every state of worlds of several sizes and kinds, and worlds in which a rule is broken.

use crate::bounds::{Bounds, Call, Looks, Mutation};
use crate::checks::{CLAIMED, FENCED, NOT_HIDDEN};
use crate::world::World;
use stateright::{Checker, HasDiscoveries, Model};
use std::collections::HashSet;

/// Two jobs and two workers; a commit and what follows it for the marks are one step.
const PAIR: Bounds = Bounds { jobs: 2, workers: 2, settles_later: false, ..Bounds::SMALL };

/// Walks all of a world, says how large it is, and holds it to its properties.
fn walk(name: &str, bounds: Bounds) {
    let began = std::time::Instant::now();
    let checker = bounds.checker().threads(2).spawn_bfs().join();
    let (states, unique, depth) = (checker.state_count(), checker.unique_state_count(), checker.max_depth());
    println!("{name}: {states} states, {unique} unique, depth {depth}, {:.1} s", began.elapsed().as_secs_f64());
    checker.assert_properties();
    assert!(checker.is_done());
}

#[test]
fn three_jobs_three_workers_and_two_crashes_keep_every_promise() {
    let bounds = Bounds { jobs: 3, workers: 3, crashes: 2, is_lean: true, ..PAIR };
    walk("lease, mark and fence", bounds);
}

#[test]
fn others_may_come_between_a_commit_and_its_lowering_of_the_marks() {
    let bounds = Bounds { crashes: 1, settles_later: true, is_lean: true, ..PAIR };
    walk("between commit and lowering", bounds);
}

#[test]
fn others_may_come_between_any_two_steps_of_a_scan() {
    let bounds = Bounds { settles_later: true, is_fine: true, is_lean: true, ..PAIR };
    walk("between the steps of a scan", bounds);
}

#[test]
fn holders_may_start_extend_fail_and_release_and_come_back_after_their_lease() {
    let bounds = Bounds { jobs: 1, crashes: 2, calls: Call::ALL, settles_later: true, ..PAIR };
    walk("all calls, old tokens kept", bounds);
}

#[test]
fn two_jobs_whose_holders_fall_silent_are_each_acked_once() {
    let calls = &[Call::Extend, Call::Ack, Call::Release];
    walk("two jobs, old tokens kept", Bounds { crashes: 2, calls, ..PAIR });
}

#[test]
fn a_retry_that_waits_is_promoted_and_claimed() {
    let calls = &[Call::Ack, Call::Fail];
    let bounds = Bounds { jobs: 1, last: 3, calls, retry_after: 1, settles_later: true, ..PAIR };
    walk("retries that wait", bounds);
}

#[test]
fn a_lane_may_lose_its_place_and_be_looked_at_in_full_at_any_time() {
    let bounds = Bounds { crashes: 1, looks: Looks::Cheap, is_crowded: true, ..PAIR };
    walk("full looks and a crowded table", bounds);
}

#[test]
fn a_new_priority_and_a_schedule_in_the_past_are_found() {
    let bounds = Bounds { priorities: [0, 1, 0], back: [0, 1, 0], settles_later: true, ..PAIR };
    walk("two priorities, one job behind", bounds);
}

#[test]
fn a_crash_may_undo_claims_that_are_not_on_disk() {
    let bounds = Bounds { crashes: 2, forgets_claims: true, ..PAIR };
    walk("claims that are not durable", bounds);
}

/// All that can be reached.
fn reachable(bounds: &Bounds) -> HashSet<World> {
    let mut todo = bounds.init_states();
    let mut seen: HashSet<World> = todo.iter().cloned().collect();
    while let Some(world) = todo.pop() {
        let new: Vec<World> = bounds.next_states(&world).into_iter().filter(|next| !seen.contains(next)).collect();
        seen.extend(new.iter().cloned());
        todo.extend(new);
    }
    seen
}

#[test]
fn a_lean_world_has_every_state_of_a_full_one() {
    let at_once = Bounds { crashes: 2, max_attempts: 9, workers: 1, ..PAIR };
    let later = Bounds { settles_later: true, is_fine: true, workers: 1, crashes: 1, ..at_once.clone() };
    let beside = Bounds { workers: 2, crashes: 0, ..at_once.clone() };
    for bounds in [at_once, later, beside] {
        let lean = Bounds { is_lean: true, ..bounds.clone() };
        let mut full = reachable(&bounds);
        let count = full.len();
        let without: HashSet<World> = full
            .drain()
            .map(|mut world| {
                world.tidy(&lean);
                world
            })
            .collect();
        println!("{count} states of a full world are {} of a lean one", without.len());
        assert!(without == reachable(&lean));
    }
}

/// Walks a world in which a rule is broken until a property fails, and says which and after how many steps.
fn finds(mutation: Mutation, property: &str, bounds: Bounds) {
    let sound = Bounds { mutation: None, ..bounds.clone() }.checker().threads(2).spawn_bfs().join();
    sound.assert_properties();
    let broken = Bounds { mutation: Some(mutation), ..bounds };
    let checker = broken.checker().threads(1).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let path = discoveries.get(property).unwrap_or_else(|| panic!("{mutation:?} is not found: {discoveries:?}"));
    let steps = path.clone().into_actions();
    println!("{mutation:?}: \"{property}\" fails after {} steps: {steps:?}", steps.len());
}

#[test]
fn dropping_the_fence_is_found() {
    // The worker sleeps through its lease, another of its name claims the job, and the first comes back and acks it.
    finds(Mutation::DropFence, FENCED, Bounds { jobs: 1, workers: 1, crashes: 1, ..PAIR });
}

#[test]
fn raising_a_mark_without_regard_to_the_generation_is_found() {
    finds(Mutation::RaiseIgnoresGeneration, NOT_HIDDEN, PAIR);
}

#[test]
fn learning_without_regard_to_the_generation_is_found() {
    finds(Mutation::LearnIgnoresGeneration, NOT_HIDDEN, PAIR);
}

#[test]
fn raising_a_mark_above_the_cap_is_found() {
    finds(Mutation::RaiseAboveCap, NOT_HIDDEN, PAIR);
}

#[test]
fn noting_the_cap_after_the_snapshot_is_found() {
    finds(Mutation::CapAfterSnapshot, NOT_HIDDEN, PAIR);
}

#[test]
fn an_insert_that_does_not_announce_itself_is_found() {
    finds(Mutation::InsertIsNotAnnounced, NOT_HIDDEN, PAIR);
}

#[test]
fn a_rollback_that_does_not_lower_the_mark_is_found() {
    finds(Mutation::RollbackKeepsMark, NOT_HIDDEN, PAIR);
}

#[test]
fn a_recovery_that_does_not_lower_the_mark_is_found() {
    finds(Mutation::PutBackKeepsMark, NOT_HIDDEN, PAIR);
}

#[test]
fn a_late_insert_that_does_not_lower_the_mark_is_found() {
    finds(Mutation::LateInsertKeepsMark, NOT_HIDDEN, PAIR);
}

#[test]
fn a_new_priority_that_is_not_added_is_found() {
    finds(Mutation::NewPriorityIsNotAdded, NOT_HIDDEN, PAIR);
}

#[test]
fn marks_that_outlive_a_crash_are_found() {
    finds(Mutation::CrashKeepsMarks, NOT_HIDDEN, Bounds { crashes: 1, ..PAIR });
}

#[test]
fn a_job_that_a_mark_hides_is_not_claimed_before_the_next_full_look() {
    finds(Mutation::RollbackKeepsMark, CLAIMED, PAIR);
}
