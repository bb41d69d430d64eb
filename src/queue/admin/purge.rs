//! Removing finished jobs: by hand, and by the engine when they have been kept as long as their queue says.

use crate::base::clock::{self, moment_before, timestamp};
use crate::base::ids::youngest_id;
use crate::db::{self, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::rules::Rulebook;
use crate::room::Outcome;
use agentq_core::input;
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::Cell;

statements!("purge.sql": JOB_PURGE, CLEAN_FINISHED);

/// Finished jobs that the engine looks at in one transaction.
const SWEEP_AT_MOST: i64 = 1_000;

thread_local!(static SWEPT_TO: Cell<[u8; 16]> = const { Cell::new([0; 16]) });

/// Removes finished jobs. Their dead letters stay.
#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_job_purge(p_older_than: Option<pgrx::datum::Interval>, p_limit: default!(Option<i32>, "10000")) -> Jsonb {
    answer::if_on(|_| {
        let before = moment_before(required("p_older_than", p_older_than)).or_raise();
        let limit = input::purge_limit(required("p_limit", p_limit)).or_raise();
        let args = [timestamp(before).into(), i64::from(limit).into(), youngest_id(before).into()];
        db::answer(|db| db.run(&JOB_PURGE, &args).only())
    })
}

/// Removes finished jobs that have been kept as long as their queue says. The oldest come first, each batch in a
/// transaction of its own that waits for nobody. The sweep remembers where it was; rows that another queue keeps longer
/// are passed once per sweep.
pub fn sweep() -> Outcome {
    let (rules, now) = (Rulebook::current(), clock::now());
    let youngest = youngest_id(now - rules.queues.shortest_keep_seconds(rules.keep_seconds) * 1_000_000);
    let from = Uuid::from_bytes(SWEPT_TO.get());
    db::connect(|db| {
        let at = timestamp(now);
        let args = [from.into(), youngest.into(), SWEEP_AT_MOST.into(), at.into(), rules.keep_seconds.into()];
        let row = db.run(&CLEAN_FINISHED, &args);
        let (looked_at, removed): (i64, i64) = (row.must("looked_at"), row.must("removed"));
        let last: Option<Uuid> = row.get("last");
        let more = looked_at == SWEEP_AT_MOST;
        SWEPT_TO.set(last.filter(|_| more).map_or([0; 16], |id| *id.as_bytes()));
        Outcome::and_more(removed, more)
    })
}
