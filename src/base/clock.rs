//! The clock. Everything in agentq asks it, and nothing asks `now()`, so that a test can move it.

use crate::json;
use agentq_core::Refusal;
use agentq_core::reader::Reader;
use pgrx::datum::Interval;
use pgrx::prelude::*;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

/// Seconds added to the clock: lets a test move time without waiting.
static OFFSET: GucSetting<f64> = GucSetting::<f64>::new(0.0);

pub fn init() {
    GucRegistry::define_float_guc(
        c"agentq.clock_offset",
        c"Seconds added to agentq's clock in this session.",
        c"For tests: leases, schedules and backoff all ask agentq.fn_clock_now(), which this moves.",
        &OFFSET,
        -315_360_000.0,
        315_360_000.0,
        GucContext::Suset,
        GucFlags::default(),
    );
}

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
    real_now() + (OFFSET.get() * 1e6) as i64
}

/// Whether a test has moved the clock of this session.
pub fn is_shifted() -> bool {
    OFFSET.get() != 0.0
}

pub fn timestamp(at: Micros) -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(at).unwrap_or_else(|_| TimestampWithTimeZone::positive_infinity())
}

#[pg_extern(volatile, parallel_safe)]
fn fn_clock_now() -> TimestampWithTimeZone {
    timestamp(now())
}

/// Refuses a time that is not a moment.
pub fn check_moment(what: &str, at: Micros) -> Result<Micros, Refusal> {
    if at == Micros::MAX || at == Micros::MIN {
        return Err(Refusal::new(
            format!("{what} must be a moment, not infinity"),
            "Leave it out, or pause its queue to hold jobs back.",
        ));
    }
    Ok(at)
}

/// A moment in JSON, read as the server reads it, and refused rather than raised.
pub fn parse_moment(at: Reader<'_>) -> Result<Micros, Refusal> {
    let at = at.hint("Write it as in 2030-01-31T12:00:00Z.");
    let moment = at.parsed("a timestamp", json::parse_timestamp)?;
    check_moment(at.path(), moment.into_inner())
}

/// The moment that lies an age before now.
pub fn moment_before(age: Interval) -> Result<Micros, Refusal> {
    if age.as_micros() < 0 {
        return Err(Refusal::new(
            format!("p_older_than must not be negative, but is {age}"),
            "For example: SELECT agentq.fn_job_purge('7 days').",
        ));
    }
    Ok(i64::try_from(i128::from(now()) - age.as_micros()).unwrap_or(Micros::MIN + 1))
}
