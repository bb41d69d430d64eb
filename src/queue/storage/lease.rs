//! Leases: locked by those who end an attempt, and kept still by those who change rules.

use super::place::Place;
use crate::db::{Db, Rows, statements};
use crate::queue::rows::job_lease;
use crate::table::Table;
use pgrx::Uuid;
use pgrx::prelude::*;

statements!("lease.sql": HOLD);

/// A job under lease, its lease row locked.
pub struct LockedLease {
    pub place: Place,
    pub lease_owner: String,
    pub attempts: i32,
    pub max_attempts: i32,
    pub cancel_requested: bool,
    pub state: String,
}

impl LockedLease {
    /// A lease as all statements answer it that lock one.
    pub fn from_row(row: &Rows) -> LockedLease {
        LockedLease {
            place: Place::from_row(row),
            lease_owner: row.must("lease_owner"),
            attempts: row.must("attempts"),
            max_attempts: row.must("max_attempts"),
            cancel_requested: row.must("cancel_requested"),
            state: row.must("state"),
        }
    }

    /// Locks the lease, if this owner (and, where given, this token) holds it. With no owner:
    /// whoever holds it.
    pub fn lock(db: &Db, job_id: Uuid, owner: Option<&str>, token: Option<Uuid>) -> Option<LockedLease> {
        lock_against_rule_change();
        let row = db.run(&HOLD, &[job_id.into(), owner.into(), token.into()]);
        (!row.is_empty()).then(|| LockedLease::from_row(&row))
    }
}

/// Takes the lock that a change of limits or budgets waits for, before a row of the leases is locked.
pub fn lock_against_rule_change() {
    drop(Table::open(&job_lease::TABLE));
}

/// Keeps everybody from taking or ending leases until this transaction ends.
#[allow(unsafe_code, reason = "locking a table")]
pub fn keep_all_as_they_are() {
    let leases = Table::open(&job_lease::TABLE);
    // SAFETY: the table is open; the lock is kept to the end of the transaction.
    unsafe { pg_sys::LockRelationOid(leases.id(), pg_sys::ShareRowExclusiveLock as i32) }
}
