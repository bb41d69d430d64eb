//! Parts of a transaction that may fail by themselves: subtransactions, and errors that are caught.

use crate::error::{changed_meanwhile, is_of_server, raise};
use crate::server::{Outside, has_fixed_snapshot};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgSqlErrorCode, PgTryBuilder, pg_sys};
use std::fmt::{Display, Formatter};
use std::panic::AssertUnwindSafe;

/// A subtransaction that is open, and what was in force before it.
struct Part {
    context: pg_sys::MemoryContext,
    owner: pg_sys::ResourceOwner,
    outside: Option<Outside>,
}

impl Part {
    fn begin() -> Part {
        let outside = Outside::now();
        // SAFETY: what PL/pgSQL does around a block with an exception handler.
        let (context, owner) = unsafe {
            let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
            pg_sys::BeginInternalSubTransaction(std::ptr::null());
            pg_sys::MemoryContextSwitchTo(context);
            (context, owner)
        };
        Part { context, owner, outside: outside.map(Outside::remembered) }
    }

    fn end(self, is_kept: bool) {
        if let Some(outside) = self.outside {
            outside.forget();
        }
        // SAFETY: as above.
        unsafe {
            if is_kept {
                pg_sys::ReleaseCurrentSubTransaction();
            } else {
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
            }
            pg_sys::MemoryContextSwitchTo(self.context);
            pg_sys::CurrentResourceOwner = self.owner;
        }
    }
}

/// An error that was caught.
pub struct Caught {
    pub code: PgSqlErrorCode,
    pub message: String,
    pub hint: String,
}

impl Display for Caught {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.message)
    }
}

/// Runs `work`; an error is returned.
pub fn caught<R>(work: impl FnOnce() -> R) -> Result<R, Caught> {
    let read = |error: CaughtError| {
        let (report, is_bug) = match error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => (report, false),
            CaughtError::RustPanic { ereport, .. } => (ereport, true),
        };
        let hint = report.hint().unwrap_or_default().to_owned();
        let mut message = report.message().to_owned();
        // Whoever reads it has nothing else to find the place by.
        if is_bug {
            message += &format!(" (at {}:{})", report.file(), report.line_number());
        }
        Err(Caught { code: report.sql_error_code(), message, hint })
    };
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(work()))).catch_others(read).catch_rust_panic(read).execute()
}

/// Runs `work`. In a transaction that keeps one snapshot the server refuses to act on rows that have changed since; we say
/// in our words that this happened, and what to do. Elsewhere there is nothing to catch, and no price to pay.
pub fn with_our_40001<R>(work: impl FnOnce() -> R) -> R {
    if !has_fixed_snapshot() {
        return work();
    }
    PgTryBuilder::new(AssertUnwindSafe(work))
        .catch_when(PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, |error| match error {
            CaughtError::PostgresError(report) if is_of_server(&report) => changed_meanwhile(report.message()),
            error => error.rethrow(),
        })
        .execute()
}

/// Runs `work` in a subtransaction; an error undoes what it did, and is returned. A cancel goes on.
pub fn attempt<R>(work: impl FnOnce() -> R) -> Result<R, Caught> {
    subtransaction(work, |error| error.code != PgSqlErrorCode::ERRCODE_QUERY_CANCELED)
}

/// Runs `work` in a subtransaction; an error undoes what it did, and is returned if the caller keeps it, or else goes on.
pub fn subtransaction<R>(work: impl FnOnce() -> R, keeps: impl FnOnce(&Caught) -> bool) -> Result<R, Caught> {
    let part = Part::begin();
    let result = caught(work);
    let kept = result.as_ref().err().is_none_or(keeps);
    part.end(result.is_ok());
    if let Err(error) = &result
        && !kept
    {
        raise(error.code, error.message.clone(), "What it had done is undone.")
    }
    result
}

/// Runs `work`, which on behalf of all takes the rows that nobody has touched, and leaves the rest. In a transaction
/// that keeps one snapshot, the server ends a statement that meets a row changed since, instead of passing over it:
/// then all rows are left, for somebody who sees more.
pub fn leaving_what_changed(work: impl FnOnce() -> usize) -> usize {
    if has_fixed_snapshot() { nothing_if_changed(attempt(work)) } else { work() }
}

/// What a part has done, or 0 if it met a row that has changed since the snapshot. Any other error goes on.
pub fn nothing_if_changed(done: Result<usize, Caught>) -> usize {
    done.unwrap_or_else(|error| match error.code {
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE => 0,
        code => raise(code, error.message, error.hint),
    })
}

/// Runs `work` in a subtransaction, and undoes it if `work` says that it is not worth keeping: then no
/// lock is kept either. What it returns must not point into rows. An error undoes it as well, and goes on.
pub fn worth_keeping<R>(work: impl FnOnce() -> (R, bool)) -> R {
    let part = Part::begin();
    // Left open by an error, it would leave the session in a transaction that nobody has begun.
    let done = caught(|| with_our_40001(work));
    part.end(matches!(done, Ok((_, true))));
    match done {
        Ok((result, _)) => result,
        Err(error) => raise(error.code, error.message, error.hint),
    }
}
