//! What a process of the server is, and its number among all.

use pgrx::pg_sys;

/// The number of this session among all that the server can have, from 1.
pub fn my_backend() -> usize {
    // SAFETY: a plain variable of the server's.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return pg_sys::MyBackendId as usize;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return pg_sys::MyProcNumber as usize + 1;
    }
}

/// The place of this process in the server's list of processes. A process that runs our code has one.
pub fn my_process_number() -> i32 {
    // SAFETY: a plain variable of the server's; where it is a pointer, it points at the entry of this process.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return (*pg_sys::MyProc).pgprocno;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return pg_sys::MyProcNumber;
    }
}

/// The number of this session's transaction among its own.
pub fn my_transaction() -> u32 {
    // SAFETY: the entry of this process, which no other changes here.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return (*pg_sys::MyProc).lxid;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return (*pg_sys::MyProc).vxid.lxid;
    }
}

/// Whether this process is a background worker, and not the session of a caller.
pub fn is_background_worker() -> bool {
    // SAFETY: a plain variable of the server's.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return pg_sys::IsBackgroundWorker;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return pg_sys::MyBackendType == pg_sys::BackendType::B_BG_WORKER;
    }
}

/// The two numbers that a transaction keeps for its life, also a prepared one.
pub fn numbers_of(transaction: &pg_sys::VirtualTransactionId) -> (i32, u32) {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    return (transaction.backendId, transaction.localTransactionId);
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    return (transaction.procNumber, transaction.localTransactionId);
}
