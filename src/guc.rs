//! Settings the server itself holds, all named `agentq.*`.

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

/// Seconds added to the clock: lets a test move time without waiting.
pub static CLOCK_OFFSET: GucSetting<f64> = GucSetting::<f64>::new(0.0);

pub fn init() {
    GucRegistry::define_float_guc(
        c"agentq.clock_offset",
        c"Seconds added to agentq's clock in this session.",
        c"For tests: leases, schedules and backoff all ask agentq.fn_clock_now(), which this moves.",
        &CLOCK_OFFSET,
        -315_360_000.0,
        315_360_000.0,
        GucContext::Suset,
        GucFlags::default(),
    );
}
