//! The clock. Everything in agentq asks it, and nothing asks `now()`, so that a test can move it.

use crate::guc;
use pgrx::prelude::*;

/// Microseconds since the server's epoch.
pub type Micros = i64;

/// The real time, untouched by tests.
#[allow(unsafe_code, reason = "reading the server's clock")]
pub fn real_now() -> Micros {
    // SAFETY: reads the system clock and nothing else.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// agentq's time.
pub fn now() -> Micros {
    real_now() + (guc::CLOCK_OFFSET.get() * 1e6) as i64
}

/// Whether a test has moved the clock of this session.
pub fn is_shifted() -> bool {
    guc::CLOCK_OFFSET.get() != 0.0
}

pub fn timestamp(at: Micros) -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(at).unwrap_or_else(|_| TimestampWithTimeZone::positive_infinity())
}

#[pg_extern(volatile, parallel_safe)]
fn fn_clock_now() -> TimestampWithTimeZone {
    timestamp(now())
}

#[pg_extern(immutable, parallel_safe)]
fn fn_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
