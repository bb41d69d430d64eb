//! Leases: locked by those who end an attempt, and kept still by those who change rules.

use super::place::Place;
use crate::db::{self, Db, Rows, statements};
use crate::error::raise;
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

/// Keeps everybody from taking or ending leases until this transaction ends. It waits for whoever has claimed or ended jobs in
/// a transaction that is still open, without holding up all the others meanwhile.
pub fn keep_all_as_they_are() {
    let leases = Table::open(&job_lease::TABLE);
    let id = leases.id();
    // Two of these must not wait for what the other has of it.
    leases.let_go();
    if let Err(waited) = db::lock_all(&[id], pg_sys::ShareRowExclusiveLock) {
        raise(
            PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
            format!(
                "limits could not be changed in {:.1} s: a transaction that has claimed, ended, cancelled or changed jobs, or sent a signal, is still open",
                waited.as_secs_f64()
            ),
            "Nothing was changed. Look for it in pg_stat_activity (state 'idle in transaction'), end it, and try again.",
        )
    }
    idle::bound()
}

/// Nobody can claim while a change of rules is not committed: the server ends a session whose transaction goes on, whether it is
/// idle or at work on something else.
#[allow(unsafe_code, reason = "a setting and a timer of the server's, for the rest of one transaction")]
pub mod idle {
    use crate::journal::{self, End};
    use crate::pg::timeouts::Timer;
    use crate::server;
    use pgrx::pg_sys;
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    /// How long such a transaction may go on, in milliseconds.
    const AT_MOST_MS: i32 = 10_000;

    #[derive(Clone, Copy)]
    struct Bound {
        /// The setting as it was.
        before: i32,
        /// The part of the transaction that has the lock.
        part: pg_sys::SubTransactionId,
        until: Instant,
    }

    thread_local! {
        static BOUND: Cell<Option<Bound>> = const { Cell::new(None) };
        static TIMER: Timer = const { Timer::new(fire) };
    }

    /// Called from a signal handler: asks for what the server does about a transaction that is idle for too long.
    extern "C-unwind" fn fire() {
        // SAFETY: what the server's own handler of that timer does.
        unsafe {
            pg_sys::IdleInTransactionSessionTimeoutPending = 1;
            pg_sys::InterruptPending = 1;
            pg_sys::SetLatch(pg_sys::MyLatch);
        }
    }

    /// Bounds how long this transaction may go on from now. The engine's own have a shorter bound.
    pub fn bound() {
        if BOUND.get().is_some() || server::is_background_worker() {
            return;
        }
        journal::open();
        // SAFETY: a plain variable of the server's, which it reads whenever it begins to wait for a command.
        unsafe {
            let before = pg_sys::IdleInTransactionSessionTimeout;
            let until = Instant::now() + Duration::from_millis(AT_MOST_MS as u64);
            BOUND.set(Some(Bound { before, part: server::subtransaction(), until }));
            if before == 0 || before > AT_MOST_MS {
                pg_sys::IdleInTransactionSessionTimeout = AT_MOST_MS;
            }
        }
        TIMER.with(|timer| timer.set(AT_MOST_MS));
    }

    /// Puts setting and timer back when the transaction has ended, or the part of it that had the lock was undone.
    pub fn at_end(end: End) {
        let Some(bound) = BOUND.get() else { return };
        match end {
            End::PartKept { part, parent } if part == bound.part => BOUND.set(Some(Bound { part: parent, ..bound })),
            End::PartUndone { part } if part == bound.part => put_back(bound.before),
            // With an error the server stops all timers of the session.
            End::PartUndone { .. } => {
                let left = bound.until.saturating_duration_since(Instant::now());
                TIMER.with(|timer| timer.set((left.as_millis() as i32).max(1)));
            }
            End::Committed | End::RolledBack | End::Prepared => put_back(bound.before),
            _ => {}
        }
    }

    fn put_back(before: i32) {
        BOUND.set(None);
        TIMER.with(Timer::stop);
        // SAFETY: as above.
        unsafe {
            pg_sys::IdleInTransactionSessionTimeoutPending = 0;
            pg_sys::IdleInTransactionSessionTimeout = before;
        }
    }
}
