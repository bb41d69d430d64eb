//! Takes the measure of the queue once a minute, for charts.

use super::{Chore, Outcome};
use crate::base::clock::{self, Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use pgrx::prelude::*;

statement!(MEASURED_UNTIL, "../sql/measured_until.sql", []);
statement!(MEASURE, "../sql/measure.sql", [TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, FLOAT8OID], freely);

const EVERY_US: i64 = 60_000_000;

pub static CHORE: Chore = Chore {
    name: "measure",
    activity: c"agentq: measure",
    about: "Writes depth, throughput, wait and run time of each kind into the metrics history.",
    every_us: EVERY_US,
    run,
};

fn run() -> Outcome {
    let settings = Settings::current();
    let now = clock::now();
    db::connect(|db| {
        let last = db.run(&MEASURED_UNTIL, &[]);
        let last: Option<Micros> = last.get::<TimestampWithTimeZone>(1).map(|at| at.into_inner());
        // After a long pause only the last hour is measured.
        let from = last.unwrap_or(now - EVERY_US).max(now - 60 * EVERY_US);
        if from >= now {
            return Outcome::rows(0);
        }
        let expires = now + settings.metrics_keep_seconds * 1_000_000;
        let seconds = (now - from) as f64 / 1e6;
        let args = [timestamp(from).into(), timestamp(now).into(), timestamp(expires).into(), seconds.into()];
        Outcome::rows(db.run(&MEASURE, &args).must(1))
    })
}
