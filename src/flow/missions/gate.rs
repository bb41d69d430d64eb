//! The gate of a mission: those who steer it pass alone, and those whose jobs were its steps pass together.
//!
//! Who steers a mission may leave the transaction open. An end of a job does not wait for that: it asks for the gate without
//! waiting, and leaves what it had to say to the engine if somebody is at it, or stands in line for it. Whoever steers waits
//! for the ends that are under way, as it would for their rows. Gates come before all rows of their mission.

#![allow(unsafe_code, reason = "locks of the server's by a key of our own")]

use crate::base::settings::is_schema_previous;
use crate::server::my_database;
use pgrx::{Uuid, pg_sys};
use std::cell::Cell;

/// Tells these locks from the advisory locks of others.
const OURS: u16 = 0xA9;
/// A transaction keeps at most this many gates, since the server has room for some thousands of locks in all. Beyond these it
/// passes without keeping the gate, and may then have to wait for somebody who comes right behind it.
const MOST: usize = 256;

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

/// Passes alone, to the end of the transaction.
pub fn pass_alone(mission: Uuid) {
    // SAFETY: the tag lives through the call; the server lets go of the lock with the transaction.
    unsafe { pg_sys::LockAcquire(&tag(mission), pg_sys::ExclusiveLock as i32, false, false) };
}

/// Passes together with others, without waiting. False: somebody steers the mission, or is about to.
pub fn passes(mission: Uuid) -> bool {
    // The version before has no place to leave word: there the end of a job waits.
    if is_schema_previous() {
        return true;
    }
    let (tag, mode) = (tag(mission), pg_sys::ShareLock as i32);
    // SAFETY: the tag lives through the calls.
    unsafe {
        if pg_sys::LockAcquire(&tag, mode, false, true) == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
            return false;
        }
        let transaction = (*pg_sys::MyProc).lxid;
        let (of, count) = KEPT.get();
        let count = if of == transaction { count + 1 } else { 1 };
        KEPT.set((transaction, count));
        if count > MOST {
            pg_sys::LockRelease(&tag, mode, false);
        }
    }
    true
}
