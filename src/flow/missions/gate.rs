//! The gate of a mission: those who steer it pass alone, and those whose jobs were its steps pass together.
//!
//! Who steers a mission may leave the transaction open. An end of a job does not wait for that: it asks for the gate without
//! waiting, and leaves what it had to say to the engine if somebody is at it, or stands in line for it. Whoever steers waits
//! for the ends that are under way, as it would for their rows. Gates come before all rows of their mission; the rows alone keep
//! it right, so that one who cannot have the gate may go on without.

#![allow(unsafe_code, reason = "locks of the server's by a key of our own")]

use crate::base::settings::is_schema_previous;
use crate::pg::locks::try_lock;
use crate::pg::process::my_transaction;
use crate::server::my_database;
use pgrx::Uuid;
use pgrx::pg_sys::{self, LockAcquireResult};
use std::cell::Cell;

/// Tells these locks from the advisory locks of others.
const OURS: u16 = 0xA9;
/// A transaction keeps at most this many gates that it has passed together, since the server has room for some thousands of
/// locks in all. Beyond these it passes without keeping the gate, and may then have to wait for somebody who comes right
/// behind it.
const MOST: usize = 64;

// In which transaction this session has passed gates together, and how many it has kept.
thread_local!(static KEPT: Cell<(u32, usize)> = const { Cell::new((0, 0)) });

fn tag(mission: Uuid) -> pg_sys::LOCKTAG {
    let id = u128::from_be_bytes(*mission.as_bytes());
    let key = (id as u64) ^ ((id >> 64) as u64).rotate_left(32);
    pg_sys::LOCKTAG {
        locktag_field1: my_database(),
        locktag_field2: (key >> 32) as u32,
        locktag_field3: key as u32,
        locktag_field4: OURS,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

/// Passes alone, to the end of the transaction. One that has ended jobs before waits for no gate: it may have passed this one
/// together with another who waits for its rows.
pub fn pass_alone(mission: Uuid) {
    has_passed_alone(mission);
}

/// The same. False: it has ended jobs, and somebody is at the gate.
pub fn has_passed_alone(mission: Uuid) -> bool {
    let tag = tag(mission);
    let taken = if KEPT.get().0 == my_transaction() {
        try_lock(&tag, pg_sys::ExclusiveLock)
    } else {
        // SAFETY: the tag lives through the call; the server lets go of the lock with the transaction.
        unsafe { pg_sys::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, false, false) }
    };
    taken != LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// Gives back a gate that was just passed alone.
pub fn step_back(mission: Uuid) {
    // SAFETY: the tag lives through the call, and the caller has the lock.
    unsafe { pg_sys::LockRelease(&tag(mission), pg_sys::ExclusiveLock as i32, false) };
}

/// Passes together with others, without waiting. False: somebody steers the mission, or is about to.
pub fn passes(mission: Uuid) -> bool {
    // The version before has no place to leave word: there the end of a job waits.
    if is_schema_previous() {
        return true;
    }
    let tag = tag(mission);
    let taken = try_lock(&tag, pg_sys::ShareLock);
    if taken == LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
        return false;
    }
    let now = my_transaction();
    let (before, kept) = KEPT.get();
    let kept = if before == now { kept } else { 0 };
    if taken != LockAcquireResult::LOCKACQUIRE_OK || kept < MOST {
        KEPT.set((now, kept + usize::from(taken == LockAcquireResult::LOCKACQUIRE_OK)));
    } else {
        KEPT.set((now, kept));
        // SAFETY: it was just taken.
        unsafe { pg_sys::LockRelease(&tag, pg_sys::ShareLock as i32, false) };
    }
    true
}
