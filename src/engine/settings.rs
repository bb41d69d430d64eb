//! The settings of the server that the engine has: it must know them before a database is open.

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

/// Whether the engine runs at all.
pub static ENGINE: GucSetting<bool> = GucSetting::<bool>::new(true);
/// Workers that run the SQL of registered handlers, per database that has any.
pub static SQL_WORKERS: GucSetting<i32> = GucSetting::<i32>::new(2);
/// How long a turn of a chore may take, in seconds. None should come near it.
pub static CHORE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(60);

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
    GucRegistry::define_int_guc(
        c"agentq.chore_timeout",
        c"Seconds after which the server cancels a turn of one of the engine's chores.",
        c"It fails and is tried again later, and the other chores go on.",
        &CHORE_TIMEOUT,
        1,
        600,
        GucContext::Sighup,
        GucFlags::default(),
    );
}
