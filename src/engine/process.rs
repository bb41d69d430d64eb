//! What the engine's processes have in common: how they begin, how they run a transaction, how an
//! error in it leaves them.

#![allow(unsafe_code, reason = "signals, connections and transactions of a background worker")]

use crate::db::{self, Caught};
use crate::pg::timeouts::{self, STATEMENT_TIMEOUT, disable_timeout, enable_timeout_after};
use pgrx::prelude::*;
use std::ffi::CStr;

/// Settings of the engine's own sessions, whatever the server's defaults are.
const SETTINGS: [(&CStr, &CStr); 2] =
    [(c"search_path", c"pg_catalog, pg_temp"), (c"default_transaction_isolation", c"read committed")];

/// Runs `work`, a turn of a chore. If it takes too long, the server cancels it as it would cancel a statement.
pub fn time_limited<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the server has registered this timer in every process that has a database.
    unsafe { enable_timeout_after(STATEMENT_TIMEOUT, super::settings::CHORE_TIMEOUT.get() * 1_000) };
    let result = work();
    // SAFETY: as above; a cancel that came too late must not meet the next turn.
    unsafe {
        disable_timeout(STATEMENT_TIMEOUT, false);
        pg_sys::QueryCancelPending = 0;
    }
    result
}

/// How long the engine waits for a lock, wherever it says nothing shorter: it works for all, and whoever is in its way is
/// left alone for a while. The SQL of a handler has a worker for itself.
pub const ENGINE_WAITS: &CStr = c"250ms";
pub const HANDLERS_WAIT: &CStr = c"5s";

/// Connects this process to a database, with this `lock_timeout`. None: to the catalogs that all databases share.
pub fn connect(database: Option<u32>, waits: &CStr) {
    let database = database.map_or(pg_sys::InvalidOid, pg_sys::Oid::from_u32);
    // SAFETY: called once, by a background worker.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
        let settings = SETTINGS.into_iter().chain([(c"lock_timeout", waits)]);
        for (name, value) in settings.chain(timeouts::SETTINGS.map(|name| (name, c"0"))) {
            let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_OVERRIDE);
            pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source);
        }
    }
}

/// Reads the configuration file again if asked to.
pub fn reload_if_asked() {
    // SAFETY: a flag that the signal handler sets, and what the server's own processes do about it.
    unsafe {
        if pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}

/// Shows what this process is doing in pg_stat_activity.
pub fn report(activity: Option<&CStr>) {
    // SAFETY: the text is copied.
    unsafe {
        match activity {
            Some(text) => pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, text.as_ptr()),
            None => pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null()),
        }
    }
}

/// Runs `work` in a transaction. An error rolls it back and is returned; the process goes on.
pub fn transaction<R>(work: impl FnOnce() -> R) -> Result<R, Caught> {
    // SAFETY: a background worker is in no transaction between two of these.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
    let result = db::caught(|| {
        let result = work();
        // SAFETY: pushed and started above.
        unsafe {
            pg_sys::PopActiveSnapshot();
            pg_sys::CommitTransactionCommand();
        }
        result
    });
    if result.is_err() {
        // SAFETY: undoes what was begun above, as the server's main loop does after an error.
        unsafe { pg_sys::AbortCurrentTransaction() };
    }
    // SAFETY: reports what this session did to the statistics, outside a transaction.
    unsafe { pg_sys::pgstat_report_stat(false) };
    result
}
