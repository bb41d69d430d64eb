//! Removing effects that nobody needs any more. Waits for nobody.

use crate::base::clock::{self, timestamp};
use crate::base::ids::youngest_id;
use crate::db::{self, statements};
use crate::flow::settings::EFFECTS_KEEP_SECONDS;
use crate::queue::rules::Rulebook;
use crate::room::Outcome;
use pgrx::Uuid;
use std::cell::Cell;

statements!("clean.sql": EFFECTS_CLEAN, CHAINS_CLEAN, DRIFT_CLEAN);

/// Effects looked at in one transaction.
const AT_MOST: i64 = 1_000;

thread_local!(static SWEPT_TO: Cell<[u8; 16]> = const { Cell::new([0; 16]) });

/// Removes effects that have been kept as long as the settings say and whose jobs are gone. The sweep remembers where
/// it was; effects that stay are passed once per sweep.
pub fn sweep() -> Outcome {
    let before = clock::now() - Rulebook::current().number(EFFECTS_KEEP_SECONDS) * 1_000_000;
    let (from, youngest) = (Uuid::from_bytes(SWEPT_TO.get()), youngest_id(before));
    db::connect(|db| {
        let row = db.run(&EFFECTS_CLEAN, &[from.into(), youngest.into(), AT_MOST.into(), timestamp(before).into()]);
        let (looked_at, mut removed): (i64, i64) = (row.must("looked_at"), row.must("removed"));
        let last: Option<Uuid> = row.get("last");
        for clean in [&CHAINS_CLEAN, &DRIFT_CLEAN] {
            removed += db.run(clean, &[youngest.into(), AT_MOST.into(), timestamp(before).into()]).only::<i64>();
        }
        let more = looked_at == AT_MOST;
        SWEPT_TO.set(last.filter(|_| more).map_or([0; 16], |id| *id.as_bytes()));
        Outcome::and_more(removed, more)
    })
}
