//! Removes rows whose `expires_at` has passed, from every table that has one.

use super::{Chore, Next, Outcome};
use crate::base::clock::{self, timestamp};
use crate::db::{self, Statement, statement};

statement!(EXPIRE_METRIC, "../sql/expire_metric.sql", [TIMESTAMPTZOID, INT8OID]);

statement!(EXPIRE_THROTTLE, "../sql/expire_throttle.sql", [TIMESTAMPTZOID, INT8OID]);
statement!(EXPIRE_ACTION, "../sql/expire_action.sql", [TIMESTAMPTZOID, INT8OID]);
statement!(EXPIRE_SIGNAL, "../sql/expire_signal.sql", [TIMESTAMPTZOID, INT8OID]);

static TABLES: [&Statement; 4] = [&EXPIRE_METRIC, &EXPIRE_THROTTLE, &EXPIRE_ACTION, &EXPIRE_SIGNAL];

/// Rows removed from a table in one transaction.
const AT_MOST: i64 = 1_000;

pub static CHORE: Chore = Chore {
    name: "expire",
    activity: c"agentq: expire",
    about: "Removes metrics, windows of throttled keys, results of actions and signals whose expires_at has passed.",
    every_us: 60_000_000,
    run,
};

fn run() -> Outcome {
    let now = timestamp(clock::now());
    let gone: Vec<i64> =
        db::connect(|db| TABLES.iter().map(|table| db.run(table, &[now.into(), AT_MOST.into()]).must(1)).collect());
    let more = gone.contains(&AT_MOST);
    Outcome { rows: gone.iter().sum(), next: if more { Next::AtOnce } else { Next::AsUsual } }
}
