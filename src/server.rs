//! What the server knows of itself, of this session and of its transaction: plain values that are only read.

#![allow(unsafe_code, reason = "reading variables of the server's")]

pub use crate::pg::process::{is_background_worker, my_backend, my_process_number};
use pgrx::pg_sys;
use std::cell::Cell;
use std::ffi::{CStr, CString};

/// The database of this session.
pub fn my_database() -> u32 {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::MyDatabaseId }.to_u32()
}

/// How many sessions the server can have.
pub fn most_backends() -> usize {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::MaxBackends as usize }
}

/// The process of this session.
pub fn my_pid() -> i32 {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::MyProcPid }
}

/// Whether a process with this pid belongs to the server.
pub fn has_process(pid: i32) -> bool {
    // SAFETY: looks the pid up among the server's processes.
    pid != 0 && unsafe { !pg_sys::BackendPidGetProc(pid).is_null() }
}

/// Whether the server is loading its preloaded libraries, which is when it hands out shared memory.
pub fn is_preloading() -> bool {
    // SAFETY: a plain flag of the server's.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Whether pg_upgrade has started this server.
pub fn is_in_binary_upgrade() -> bool {
    // SAFETY: a plain flag of the server's.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Whether the script of an extension runs.
pub fn is_creating_extension() -> bool {
    // SAFETY: a plain flag of the server's.
    unsafe { pg_sys::creating_extension }
}

/// Whether this server only replays what another one writes.
pub fn is_on_standby() -> bool {
    // SAFETY: reads a state of the server.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// The number with which the cluster was made.
pub fn system_identifier() -> u64 {
    // SAFETY: reads what the server was made with.
    unsafe { pg_sys::GetSystemIdentifier() }
}

/// Whether a database with this id exists.
pub fn has_database(id: u32) -> bool {
    let (key, none) = (pg_sys::Datum::from(pg_sys::Oid::from_u32(id)), pg_sys::Datum::from(0));
    // SAFETY: looks an id up among the server's databases.
    unsafe { pg_sys::SearchSysCacheExists(pg_sys::SysCacheIdentifier::DATABASEOID as i32, key, none, none, none) }
}

/// Whether this transaction keeps one snapshot, and so may not see what others have committed.
pub fn has_fixed_snapshot() -> bool {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Whether this transaction may not write.
pub fn is_read_only() -> bool {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::XactReadOnly }
}

// Whether the caller has opened a transaction, as it was before a subtransaction of ours: within one the server says so always.
thread_local!(static OUTSIDE: Cell<Option<bool>> = const { Cell::new(None) });

/// Whether the caller has opened a transaction, and so decides when it ends. True within a subtransaction of the caller's.
pub fn is_in_transaction_block() -> bool {
    // SAFETY: reads the state of the transaction.
    OUTSIDE.get().unwrap_or_else(|| unsafe { pg_sys::IsTransactionBlock() })
}

/// What is remembered while a subtransaction of ours is open, by the first of them.
pub struct Outside(bool);

impl Outside {
    /// None: a subtransaction of ours is open, and it is remembered already.
    pub fn now() -> Option<Outside> {
        OUTSIDE.get().is_none().then(|| Outside(is_in_transaction_block()))
    }

    pub fn remembered(self) -> Outside {
        OUTSIDE.set(Some(self.0));
        self
    }

    pub fn forget(self) {
        OUTSIDE.set(None);
    }
}

/// The innermost subtransaction that is open.
pub fn subtransaction() -> pg_sys::SubTransactionId {
    // SAFETY: reads a number of the transaction.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}

/// Up to where in the log this transaction has written; 0: it has written nothing.
pub fn written_to() -> pg_sys::XLogRecPtr {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::XactLastRecEnd }
}

/// The time zone of this session. Time zones live as long as the session.
pub fn time_zone() -> *mut pg_sys::pg_tz {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::session_timezone }
}

/// The role whose rights are in force.
pub fn current_role() -> pg_sys::Oid {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::GetUserId() }
}

/// The role whose rights are in force outside of functions that run with those of their owner: the one that opened the
/// session, or that SET ROLE has named.
pub fn outer_role() -> pg_sys::Oid {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::GetOuterUserId() }
}

/// The role that opened the session.
pub fn session_role() -> pg_sys::Oid {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::GetSessionUserId() }
}

/// The id of a role, if the server has it.
pub fn role_id(name: &str) -> Option<pg_sys::Oid> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks the name up.
    Some(unsafe { pg_sys::get_role_oid(name.as_ptr(), true) }).filter(|id| *id != pg_sys::InvalidOid)
}

/// Whether a role with this id exists.
pub fn has_role(id: pg_sys::Oid) -> bool {
    let (key, none) = (pg_sys::Datum::from(id), pg_sys::Datum::from(0));
    // SAFETY: looks an id up among the server's roles.
    unsafe { pg_sys::SearchSysCacheExists(pg_sys::SysCacheIdentifier::AUTHOID as i32, key, none, none, none) }
}

/// Whether a transaction is open. While the server starts a session, none is.
pub fn is_in_transaction() -> bool {
    // SAFETY: reads the state of the transaction.
    unsafe { pg_sys::IsTransactionState() }
}

/// Whether this process helps with a statement that another one has begun.
pub fn is_parallel_worker() -> bool {
    // SAFETY: a plain variable of the server's.
    unsafe { pg_sys::ParallelWorkerNumber >= 0 }
}

/// The name of a role that exists.
pub fn role_name(role: pg_sys::Oid) -> String {
    // SAFETY: the server answers with a text that ends in NUL, in memory of the caller's context.
    unsafe { CStr::from_ptr(pg_sys::GetUserNameFromId(role, false)) }.to_string_lossy().into_owned()
}

/// Whether a role has the rights of another.
pub fn is_member(member: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: looks the roles up.
    unsafe { pg_sys::is_member_of_role(member, role) }
}

/// Whether a role is a superuser.
pub fn is_superuser(role: pg_sys::Oid) -> bool {
    // SAFETY: looks the role up.
    unsafe { pg_sys::superuser_arg(role) }
}

/// When this transaction began, in the server's microseconds: it tells transactions of a session apart.
pub fn transaction_began() -> i64 {
    // SAFETY: a value that is only read.
    unsafe { pg_sys::GetCurrentTransactionStartTimestamp() }
}

/// How long a statement of this session waits for a lock; None: for ever.
pub fn lock_timeout() -> Option<std::time::Duration> {
    // SAFETY: a plain variable of the server's.
    let ms = unsafe { pg_sys::LockTimeout };
    (ms > 0).then(|| std::time::Duration::from_millis(ms as u64))
}
