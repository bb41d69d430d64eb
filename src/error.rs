//! One way to turn a refusal into a PostgreSQL error: what was wrong, with which value, what to do.

use agentq_core::Refusal;
use agentq_core::error::clipped;
use pgrx::pg_sys::panic::{ErrorReport, ErrorReportWithLevel};
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// What errors of agentq name as the function that they come from.
const NAME: &str = "agentq";

/// Raises an error with a HINT. Never returns.
pub fn raise(code: PgSqlErrorCode, message: impl Into<String>, hint: impl Into<String>) -> ! {
    let (message, hint) = (clipped(message.into()), clipped(hint.into()));
    ErrorReport::new(code, message, NAME).set_hint(hint).report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// Raises a serialization failure: the way out is to run the transaction again.
pub fn run_again(message: impl Into<String>) -> ! {
    raise(PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, message, "Run the transaction again.")
}

/// Says in place of the server that this transaction, which keeps one snapshot, came too late; `detail` is what the
/// server said.
pub fn changed_meanwhile(detail: &str) -> ! {
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "another session has changed what this transaction has seen",
        NAME,
    )
    .set_detail(clipped(detail.to_owned()))
    .set_hint("Run the transaction again: a single call, just once more. READ COMMITTED sees the change and goes on.")
    .report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// Whether an error comes from the server itself, and not from agentq.
pub fn is_of_server(error: &ErrorReportWithLevel) -> bool {
    error.function_name() != Some(NAME)
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
