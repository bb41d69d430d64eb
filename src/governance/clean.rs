//! Removing what the loop finished long ago. It waits for nobody.

use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statements};
use crate::events::settings::{AUDIT_KEEP_DAYS, EVENTS_KEEP_DAYS};
use crate::room::Outcome;

statements!("clean.sql": REACTIONS_CLEAN, COMMANDS_CLEAN, COUNTS_CLEAN);

const DAY_US: i64 = 86_400_000_000;
/// Rows of each table that are removed in one transaction.
const AT_MOST: i64 = 1_000;
/// Caps are counted by the day.
const COUNTS_KEPT_DAYS: i64 = 7;

/// Removes reactions as old as events that are not kept any more, and ended commands as old as such audits.
pub fn sweep() -> Outcome {
    let (settings, now) = (Settings::current(), clock::now());
    let before = |days: i64| (days > 0).then(|| timestamp(now - days * DAY_US));
    db::connect(|db| {
        let mut removed = 0;
        for (statement, days) in
            [(&REACTIONS_CLEAN, settings.number(EVENTS_KEEP_DAYS)), (&COMMANDS_CLEAN, settings.number(AUDIT_KEEP_DAYS))]
        {
            if let Some(before) = before(days) {
                removed += db.run(statement, &[before.into(), AT_MOST.into()]).only::<i64>();
            }
        }
        db.run(&COUNTS_CLEAN, &[before(COUNTS_KEPT_DAYS).into()]);
        Outcome::and_more(removed, removed >= AT_MOST)
    })
}
