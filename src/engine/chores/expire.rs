//! Removes rows whose `expires_at` has passed, from every table that has one.

use super::{Chore, Next, Outcome};
use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, Statement, statement};

statement!(EXPIRE_EVENT, "../sql/expire_event.sql", [TIMESTAMPTZOID, INT8OID]);
statement!(EXPIRE_METRIC, "../sql/expire_metric.sql", [TIMESTAMPTZOID, INT8OID]);

statement!(EXPIRE_THROTTLE, "../sql/expire_throttle.sql", [TIMESTAMPTZOID, INT8OID]);

static TABLES: [&Statement; 3] = [&EXPIRE_EVENT, &EXPIRE_METRIC, &EXPIRE_THROTTLE];

/// Rows removed from a table in one transaction.
const AT_MOST: i64 = 1_000;

pub static CHORE: Chore = Chore {
    name: "expire",
    activity: c"agentq: expire",
    about: "Removes events, metrics and windows of throttled keys whose expires_at has passed.",
    every_us: 60_000_000,
    run,
};

fn run() -> Outcome {
    let now = timestamp(clock::now());
    // Up to 0.4.0 keys were not throttled.
    let tables = if Settings::current().has_policies { &TABLES[..] } else { &TABLES[..2] };
    let gone: Vec<i64> =
        db::connect(|db| tables.iter().map(|table| db.run(table, &[now.into(), AT_MOST.into()]).must(1)).collect());
    let more = gone.contains(&AT_MOST);
    Outcome { rows: gone.iter().sum(), next: if more { Next::AtOnce } else { Next::AsUsual } }
}
