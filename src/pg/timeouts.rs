//! The server's timers. pgrx does not read their header: a test compiles it, and holds the types and numbers to what stands
//! here (`tests/house/headers.rs`).

use std::cell::Cell;
use std::ffi::CStr;

unsafe extern "C-unwind" {
    pub fn RegisterTimeout(id: i32, handler: extern "C-unwind" fn()) -> i32;
    pub fn enable_timeout_after(id: i32, delay_ms: i32);
    pub fn disable_timeout(id: i32, keep_indicator: bool);
    pub fn get_timeout_indicator(id: i32, reset: bool) -> bool;
}

/// The place of statement_timeout in the server's list of timers.
pub const STATEMENT_TIMEOUT: i32 = 3;

/// The first place in the list that is free for extensions.
pub const USER_TIMEOUT: i32 = if cfg!(any(feature = "pg15", feature = "pg16")) { 12 } else { 13 };

/// Settings that end what takes too long. The engine has limits of its own.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub const SETTINGS: [&CStr; 2] = [c"statement_timeout", c"idle_in_transaction_session_timeout"];
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
pub const SETTINGS: [&CStr; 3] = [c"statement_timeout", c"idle_in_transaction_session_timeout", c"transaction_timeout"];

/// A timer of ours. It takes its place in the server's list when it is first set, once in the life of a process.
pub struct Timer {
    place: Cell<Option<i32>>,
    fire: extern "C-unwind" fn(),
}

impl Timer {
    /// The server calls `fire` from a signal handler.
    pub const fn new(fire: extern "C-unwind" fn()) -> Timer {
        Timer { place: Cell::new(None), fire }
    }

    pub fn set(&self, delay_ms: i32) {
        // SAFETY: the function lives as long as the library, and the timer is registered.
        unsafe {
            let place = self.place.get().unwrap_or_else(|| RegisterTimeout(USER_TIMEOUT, self.fire));
            self.place.set(Some(place));
            enable_timeout_after(place, delay_ms);
        }
    }

    pub fn stop(&self) {
        if let Some(place) = self.place.get() {
            // SAFETY: the timer is registered.
            unsafe { disable_timeout(place, false) }
        }
    }
}
