//! Removing what the loop has done with long ago. Waits for nobody.

use crate::base::clock::{Micros, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statement};

statement!(REACTIONS_CLEAN, "sql/reactions_clean.sql", [TIMESTAMPTZOID, INT8OID]);
statement!(COMMANDS_CLEAN, "sql/commands_clean.sql", [TIMESTAMPTZOID, INT8OID]);
statement!(COUNTS_CLEAN, "sql/counts_clean.sql", [TIMESTAMPTZOID]);

const DAY_US: i64 = 86_400_000_000;
/// Caps are counted by the day.
const COUNTS_KEPT_DAYS: i64 = 7;

/// Removes so many at most: reactions as old as events that are not kept any more, ended commands as old as such
/// audits. Returns how many.
pub fn sweep(settings: &Settings, at_most: i64, now: Micros) -> i64 {
    let before = |days: i64| (days > 0).then(|| timestamp(now - days * DAY_US));
    db::connect(|db| {
        let mut removed = 0;
        for (statement, days) in
            [(&REACTIONS_CLEAN, settings.events_keep_days), (&COMMANDS_CLEAN, settings.audit_keep_days)]
        {
            if let Some(before) = before(days) {
                removed += db.run(statement, &[before.into(), at_most.into()]).must::<i64>(1);
            }
        }
        db.run(&COUNTS_CLEAN, &[before(COUNTS_KEPT_DAYS).into()]);
        removed
    })
}
