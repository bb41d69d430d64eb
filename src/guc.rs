//! Settings the server itself holds, all named `agentq.*`.

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

/// Seconds added to the clock: lets a test move time without waiting.
pub static CLOCK_OFFSET: GucSetting<f64> = GucSetting::<f64>::new(0.0);

/// Whether the engine runs at all.
pub static ENGINE: GucSetting<bool> = GucSetting::<bool>::new(true);
/// Workers that run the SQL of registered handlers, per database that has any.
pub static SQL_WORKERS: GucSetting<i32> = GucSetting::<i32>::new(2);

pub fn init() {
    GucRegistry::define_bool_guc(
        c"agentq.engine",
        c"Whether agentq's background workers run.",
        c"Off: no housekeeping happens but what claims do, and what agentq.fn_engine_tick() is called for.",
        &ENGINE,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"agentq.sql_workers",
        c"Workers that run the jobs of registered handlers, in each database that has one.",
        c"Each takes one of max_worker_processes.",
        &SQL_WORKERS,
        0,
        16,
        GucContext::Sighup,
        GucFlags::default(),
    );
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
