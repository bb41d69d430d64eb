//! Signals of the server's processes.

use super::declared;
use pgrx::pg_sys;

declared! {
    pub fn die(signal: i32);
    pub fn SignalHandlerForConfigReload(signal: i32);
}

/// Lets this process end at once when asked to, and reload the configuration, by the server's own handlers.
pub fn attach() {
    #[cfg(not(feature = "pg18"))]
    use pg_sys::pqsignal as set;
    #[cfg(feature = "pg18")]
    use pg_sys::pqsignal_be as set;
    // SAFETY: the server's own handlers, set before the signals are let through.
    unsafe {
        set(pg_sys::SIGTERM as i32, Some(die));
        set(pg_sys::SIGHUP as i32, Some(SignalHandlerForConfigReload));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}
