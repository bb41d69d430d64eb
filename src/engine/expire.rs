//! Removes rows whose `expires_at` has passed, from every table of every room that has one.

use crate::base::clock::{self, timestamp};
use crate::db;
use crate::room::{self, Outcome};

/// Rows removed from a table in one transaction.
const AT_MOST: i64 = 1_000;

pub fn expire() -> Outcome {
    let now = timestamp(clock::now());
    let tables = room::all().iter().flat_map(|room| room.expiring);
    let gone: Vec<i64> =
        db::connect(|db| tables.map(|table| db.run(table, &[now.into(), AT_MOST.into()]).only()).collect());
    Outcome::and_more(gone.iter().sum(), gone.contains(&AT_MOST))
}
