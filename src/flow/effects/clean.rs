//! Removing effects that nobody needs any more. Waits for nobody.

use crate::base::clock::{Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::queue::finish::youngest_id;
use agentq_core::config;
use pgrx::Uuid;

statement!(EFFECTS_CLEAN, "sql/effects_clean.sql", [UUIDOID, UUIDOID, INT8OID, TIMESTAMPTZOID]);
statement!(CHAINS_CLEAN, "sql/chains_clean.sql", [UUIDOID, INT8OID, TIMESTAMPTZOID]);
statement!(DRIFT_CLEAN, "sql/drift_clean.sql", [UUIDOID, INT8OID, TIMESTAMPTZOID]);

/// Removes what is too old among the next `limit` effects from `from` on. Says how many rows went, and where to go on;
/// None: all have been looked at.
pub fn sweep(settings: &Settings, from: Uuid, limit: i64, now: Micros) -> (i64, Option<Uuid>) {
    let keep = settings.value(config::EFFECTS_KEEP_SECONDS).as_i64().unwrap_or(i64::from(i32::MAX));
    let before = now - keep * 1_000_000;
    let youngest = youngest_id(before);
    db::connect(|db| {
        let row = db.run(&EFFECTS_CLEAN, &[from.into(), youngest.into(), limit.into(), timestamp(before).into()]);
        let (looked_at, mut removed): (i64, i64) = (row.must(1), row.must(2));
        let last: Option<Uuid> = row.get(3);
        for clean in [&CHAINS_CLEAN, &DRIFT_CLEAN] {
            removed += db.run(clean, &[youngest.into(), limit.into(), timestamp(before).into()]).must::<i64>(1);
        }
        (removed, last.filter(|_| looked_at == limit))
    })
}
