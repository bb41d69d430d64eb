//! The metrics history: the measure of the queue, taken once a minute, for charts.

use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statements};
use crate::error::raise;
use crate::queue::settings::METRICS_KEEP_SECONDS;
use crate::room::Outcome;
use pgrx::prelude::*;

statements!("metrics.sql": MEASURED_UNTIL, MEASURE);

pub const EVERY_US: i64 = 60_000_000;
/// Kinds of which a measure is kept, those with the most jobs, and milliseconds that it may take.
const MOST_KINDS: i64 = 1_000;
const LONGEST_MS: i32 = 5_000;

/// Writes depth, throughput, wait and run time of each kind since the last measure. After a long pause only the last hour
/// is measured; and if that takes too long, only the last minute.
pub fn measure() -> Outcome {
    let expires = clock::now() + Settings::current().number(METRICS_KEEP_SECONDS) * 1_000_000;
    let now = clock::now();
    db::connect(|db| {
        let last = db.run(&MEASURED_UNTIL, &[]);
        let last: Option<Micros> = last.maybe_only::<TimestampWithTimeZone>().map(|at| at.into_inner());
        let from = last.unwrap_or(now - EVERY_US).max(now - 60 * EVERY_US);
        if from >= now {
            return Outcome::default();
        }
        let since = |from: Micros| {
            let seconds = (now - from) as f64 / 1e6;
            let args = [
                timestamp(from).into(),
                timestamp(now).into(),
                timestamp(expires).into(),
                seconds.into(),
                MOST_KINDS.into(),
            ];
            db::attempt_within(LONGEST_MS, || db.run(&MEASURE, &args).only::<i64>())
        };
        let shortest = from.max(now - EVERY_US);
        let measured = since(from).or_else(|error| if from < shortest { since(shortest) } else { Err(error) });
        Outcome::rows(measured.unwrap_or_else(|error| match error.code {
            // This is nobody's cancel, which would end all that the caller does.
            PgSqlErrorCode::ERRCODE_QUERY_CANCELED => raise(
                PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                error.message,
                "There is no measure of this time.",
            ),
            code => raise(code, error.message, error.hint),
        }))
    })
}
