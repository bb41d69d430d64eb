//! Waiting for the end of a job, or of whatever else has an id.
//!
//! A session that waits sleeps on its latch, and the commit that ends the thing wakes it. Where nobody can call it, it looks
//! again after a growing pause.

use super::waiters::{self, Waiting};
use crate::base::clock;
use crate::journal::{self, End};
use crate::server::{self, has_fixed_snapshot, my_database};
use crate::shared::is_preloaded;
use crate::shared::process::sleep;
use agentq_core::Refusal;
use pgrx::Uuid;
use pgrx::datum::Interval;
use std::cell::RefCell;

/// The longest wait, in microseconds. Meanwhile the caller's statement holds a snapshot.
const LONGEST_US: i64 = 60_000_000;
/// One who waits looks again this often even if nobody calls, in microseconds.
const LOOK_EVERY_US: i64 = 5_000_000;
/// The first and the longest pause where nobody can call.
const FIRST_PAUSE_US: i64 = 5_000;
const LONGEST_PAUSE_US: i64 = 250_000;

thread_local!(static ENDED: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) });

/// Notes that this transaction has ended something, to wake those who wait for it when it commits.
pub fn note(id: Uuid) {
    if is_preloaded() {
        journal::open();
        ENDED.with_borrow_mut(|ended| ended.push(*id.as_bytes()));
    }
}

/// What the end of a transaction means for those who wait. What a part that was undone has noted wakes them for nothing.
pub fn at_end(end: End) {
    match end {
        End::Committed => ENDED.with_borrow_mut(|ended| {
            if !ended.is_empty() && waiters::any_for_ends() {
                let tags: Vec<u64> = ended.iter().map(tag).collect();
                waiters::wake_for_ends(&tags);
            }
            ended.clear();
        }),
        End::RolledBack | End::Prepared => ENDED.with_borrow_mut(Vec::clear),
        // It may have ended anything.
        End::PreparedEnded => waiters::wake_all_for_ends(),
        End::Committing | End::Preparing | End::PartKept { .. } | End::PartUndone { .. } => {}
    }
}

/// The number by which an end is known. Two ends may have one: then a call is for nothing.
fn tag(id: &[u8; 16]) -> u64 {
    let id = u128::from_be_bytes(*id);
    (id as u64) ^ ((id >> 64) as u64).rotate_left(32) ^ u64::from(my_database())
}

/// Microseconds to wait.
pub fn check_wait(wait: &Interval) -> Result<i64, Refusal> {
    let micros = wait.as_micros();
    if !(0..=i128::from(LONGEST_US)).contains(&micros) {
        return Err(Refusal::new(
            format!("p_wait must be from 0 to {} seconds, but is {wait}", LONGEST_US / 1_000_000),
            "A call that waits keeps vacuum back: wait for a while, and then call again.",
        ));
    }
    if micros > 0 && has_fixed_snapshot() {
        return Err(Refusal::new(
            "nobody can wait in a transaction of REPEATABLE READ or SERIALIZABLE, which never sees what others do",
            "Give p_wait => '0', or wait under READ COMMITTED.",
        ));
    }
    Ok(micros as i64)
}

/// Looks until there is an answer, for at most `wait_us` microseconds.
pub fn until<R>(id: Uuid, wait_us: i64, mut look: impl FnMut() -> Option<R>) -> Option<R> {
    let deadline = clock::real_now() + wait_us;
    let found = look();
    if found.is_some() || wait_us == 0 {
        return found;
    }
    // On a standby nobody commits, so that nobody calls.
    let waiting = if server::is_on_standby() { None } else { Waiting::for_end(tag(id.as_bytes())) };
    let mut pause = FIRST_PAUSE_US;
    loop {
        let found = look();
        let left = deadline - clock::real_now();
        if found.is_some() || left <= 0 {
            return found;
        }
        match &waiting {
            None => {
                sleep(pause.min(left));
                pause = (pause * 2).min(LONGEST_PAUSE_US);
            }
            Some(waiting) => {
                let look_at = clock::real_now() + LOOK_EVERY_US.min(left);
                while !waiting.was_woken() {
                    let rest = look_at - clock::real_now();
                    if rest <= 0 {
                        break;
                    }
                    sleep(rest);
                }
            }
        }
    }
}
