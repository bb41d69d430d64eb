//! One way to turn a refusal into a PostgreSQL error: what was wrong, with which value, what to do.

use agentq_core::Refusal;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Raises an error with a HINT. Never returns.
pub fn raise(code: PgSqlErrorCode, message: impl Into<String>, hint: impl Into<String>) -> ! {
    ErrorReport::new(code, message.into(), "agentq").set_hint(hint.into()).report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

pub trait OrRaise<T> {
    /// The value, or an "invalid parameter value" error that says what to do.
    fn or_raise(self) -> T;
}

impl<T> OrRaise<T> for Result<T, Refusal> {
    fn or_raise(self) -> T {
        self.unwrap_or_else(|refusal| {
            raise(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, refusal.message, refusal.hint)
        })
    }
}

/// Raises the error for a job id that nobody knows.
pub fn unknown_job(job_id: pgrx::Uuid) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
        format!("there is no job {job_id}"),
        "Use the job_id that agentq.fn_job_enqueue or agentq.fn_job_claim returned. Finished jobs may have been purged.",
    )
}

/// An argument that must be given.
pub fn required<T>(what: &str, value: Option<T>) -> T {
    value.unwrap_or_else(|| {
        raise(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("{what} must not be NULL"),
            format!("Give {what} a value."),
        )
    })
}
