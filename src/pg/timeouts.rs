//! The server's timers. pgrx does not read their header: a test compiles it, and holds the types and numbers to what stands
//! here (`tests/house/headers.rs`).

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
