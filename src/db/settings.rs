//! Settings of the server that hold for a while. An error undoes them with the (sub)transaction.

use crate::pg::search_path;
use pgrx::pg_sys;
use std::ffi::CStr;

/// Runs `work` with one setting.
pub fn with_setting<R>(name: &CStr, value: &CStr, work: impl FnOnce() -> R) -> R {
    with_settings(&[(name, value)], work)
}

/// Runs `work` with these settings.
pub fn with_settings<R>(settings: &[(&CStr, &CStr)], work: impl FnOnce() -> R) -> R {
    // SAFETY: plain calls of the server's, which puts the settings back at the end of the level.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        settings.iter().for_each(|(name, value)| set_locally(name, value));
        let result = work();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}

/// Sets a setting until the present level of settings ends.
pub fn set_locally(name: &CStr, value: &CStr) {
    set(name, value, pg_sys::GucAction::GUC_ACTION_SAVE);
}

/// Sets a setting until the transaction ends.
pub fn set_for_transaction(name: &CStr, value: &CStr) {
    set(name, value, pg_sys::GucAction::GUC_ACTION_LOCAL);
}

fn set(name: &CStr, value: &CStr, action: pg_sys::GucAction::Type) {
    // SAFETY: the server copies the value.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            action,
            true,
            0,
            false,
        );
    }
}

/// Runs `work` with a search path of the server's own schema alone.
pub fn with_own_names<R>(work: impl FnOnce() -> R) -> R {
    search_path::with_own(|| super::parts::with_our_40001(work))
}
