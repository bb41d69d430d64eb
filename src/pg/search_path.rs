//! A search path of the server's own schema alone, for a while.

use pgrx::pg_sys;

/// Runs `work` with it. An error puts the former one back with the (sub)transaction.
///
/// It does what SET search_path in a function's declaration does. Up to 16 the server can put a path on top of another, for
/// a tenth of the price; from 17 on it keeps the paths that it has worked out, so that setting one is cheap.
pub fn with_own<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the server copies the path, and keeps the copies on a stack.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    unsafe {
        let mut path = pg_sys::OverrideSearchPath { addCatalog: true, ..Default::default() };
        pg_sys::PushOverrideSearchPath(&mut path);
        let result = work();
        pg_sys::PopOverrideSearchPath();
        result
    }
    // SAFETY: plain calls of the server's, which puts the path back at the end of the level.
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        pg_sys::RestrictSearchPath();
        let result = work();
        pg_sys::AtEOXact_GUC(true, level);
        result
    }
}
