//! Removes finished jobs that have been kept as long as their queue says.
//!
//! The oldest come first, a thousand at a time, each in a transaction of its own that waits for
//! nobody. The sweep remembers where it was; rows that another queue keeps longer are passed once
//! per sweep.

use super::{Chore, Next, Outcome};
use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::queue::finish::youngest_id;
use pgrx::Uuid;
use std::cell::Cell;

statement!(CLEAN_FINISHED, "../sql/clean_finished.sql", [UUIDOID, UUIDOID, INT8OID, TIMESTAMPTZOID, INT8OID]);

/// Finished jobs looked at in one transaction.
const AT_MOST: i64 = 1_000;

pub static CHORE: Chore = Chore {
    name: "clean_finished",
    activity: c"agentq: clean_finished",
    about: "Removes finished jobs that are older than their queue keeps them. Dead letters stay.",
    every_us: 60_000_000,
    run,
};

thread_local!(static SWEPT_TO: Cell<[u8; 16]> = const { Cell::new([0; 16]) });

fn run() -> Outcome {
    let settings = Settings::current();
    let now = clock::now();
    let youngest = youngest_id(now - settings.shortest_keep_seconds() * 1_000_000);
    let from = Uuid::from_bytes(SWEPT_TO.get());
    db::connect(|db| {
        let args = [from.into(), youngest.into(), AT_MOST.into(), timestamp(now).into(), settings.keep_seconds.into()];
        let row = db.run(&CLEAN_FINISHED, &args);
        let (looked_at, rows): (i64, i64) = (row.must(1), row.must(2));
        let last: Option<Uuid> = row.get(3);
        let more = looked_at == AT_MOST;
        SWEPT_TO.set(last.filter(|_| more).map_or([0; 16], |id| *id.as_bytes()));
        Outcome { rows, next: if more { Next::AtOnce } else { Next::AsUsual } }
    })
}
