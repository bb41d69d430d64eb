//! Locks of the server's own table.

use pgrx::pg_sys::{self, LOCKTAG, LockAcquireResult};
use std::ptr;

/// Takes a lock to the end of the transaction, if it is free now. A table of locks that is full is as a lock that is not.
pub fn try_lock(tag: &LOCKTAG, mode: u32) -> LockAcquireResult::Type {
    let mode = mode as i32;
    // SAFETY: the tag lives through the call; the server lets go of the lock with the transaction.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return pg_sys::LockAcquireExtended(tag, mode, false, true, false, ptr::null_mut());
        #[cfg(feature = "pg18")]
        return pg_sys::LockAcquireExtended(tag, mode, false, true, false, ptr::null_mut(), false);
    }
}
