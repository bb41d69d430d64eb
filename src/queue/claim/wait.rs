//! Claims that wait for a job inside the server.
//!
//! A waiting claim sleeps on its latch. It is woken by the commit that brings a job of its lanes;
//! jobs that fall due are made ready by the engine, whose commit wakes it as well. Where there is no
//! engine, it looks for itself when the next job falls due, and now and then; without shared memory
//! it looks again after a growing pause.

use super::search::Outcome;
use crate::base::clock;
use crate::queue::counting::gauges;
use crate::queue::storage::marks;
use crate::queue::waking::waiters::Waiting;
use crate::shared::process::sleep;
use crate::shared::seats;

/// The longest wait, in microseconds. Meanwhile the caller's statement holds a snapshot.
pub const LONGEST_US: i64 = 60_000_000;
/// A claim looks again this often even if nobody calls, in microseconds: with the engine at work,
/// and without.
const LOOK_EVERY_US: i64 = 10_000_000;
const LOOK_WITHOUT_ENGINE_US: i64 = 1_000_000;
/// After a call that brought nothing, it looks again after this long, in microseconds.
const LOOK_SOON_US: i64 = 200_000;
/// How long a job that has fallen due is left to the engine, if that is at work, in microseconds.
const GRACE_US: i64 = 20_000;
/// The first and the longest pause where nobody can call.
const FIRST_PAUSE_US: i64 = 5_000;
const LONGEST_PAUSE_US: i64 = 250_000;

/// Runs `claim` until it finds a job, for at most `wait_us` microseconds. It also ends when a claim has moved jobs
/// without taking them, since others see these only when the caller commits.
pub fn until(tags: &[u64], wait_us: i64, mut claim: impl FnMut() -> Outcome) -> Outcome {
    let is_over = |outcome: &Outcome| outcome.moved || !outcome.claimed.is_empty();
    let deadline = clock::real_now() + wait_us;
    // The first look takes no place among the waiters: mostly there is work.
    let mut outcome = claim();
    if is_over(&outcome) {
        return outcome;
    }
    let waiting = Waiting::join(tags);
    let mut pause = FIRST_PAUSE_US;
    let mut called = false;
    loop {
        outcome = claim();
        let now = clock::real_now();
        if is_over(&outcome) || now >= deadline {
            return outcome;
        }
        match &waiting {
            None => {
                sleep(pause.min(deadline - now));
                pause = (pause * 2).min(LONGEST_PAUSE_US);
            }
            Some(waiting) => called = until_called(waiting, deadline, called),
        }
    }
}

/// Sleeps until there is reason to look again; says whether somebody called. A call may come before its reason can be
/// seen: a session tells of a changed queue just before others see the change. So after a call that brought nothing,
/// one more look follows soon.
fn until_called(waiting: &Waiting, deadline: i64, called_for_nothing: bool) -> bool {
    let engine = seats::engine_runs();
    let began = clock::real_now();
    let usual = if engine { LOOK_EVERY_US } else { LOOK_WITHOUT_ENGINE_US };
    let look_at = began + if called_for_nothing { LOOK_SOON_US } else { usual };
    loop {
        if waiting.was_woken() {
            return true;
        }
        let now = clock::real_now();
        // What has fallen due is the engine's to make ready, if it is there and quick. What was due
        // before was just looked for: it is not for this claim.
        let due = marks::next_due()
            .filter(|due| *due > began)
            .map(|due| if engine { due.saturating_add(GRACE_US) } else { due });
        // A rate that opens lets jobs through, and nobody calls.
        let opening = gauges::next_opening(began).unwrap_or(look_at);
        let wake_at = deadline.min(look_at).min(due.unwrap_or(look_at)).min(opening);
        if wake_at <= now {
            return false;
        }
        sleep(wake_at - now);
    }
}
