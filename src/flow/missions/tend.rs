//! What has to happen to missions by itself: time-outs, missions inside others that were stopped, jobs that could not be
//! taken back at once, and the removal of old ones. One mission in a transaction.

use super::advance::Line;
use super::stop::{self, Why};
use super::{counts, finalize};
use crate::base::clock::{Micros, timestamp};
use crate::db::{self, statement};
use crate::queue::limits;
use pgrx::Uuid;
use pgrx::prelude::*;

statement!(MISSIONS_LATE, "sql/missions_late.sql", [TIMESTAMPTZOID]);
statement!(MISSIONS_ORPHANED, "sql/missions_orphaned.sql", [], freely);
statement!(MISSIONS_STOPPING, "sql/missions_stopping.sql", [], freely);
statement!(MISSIONS_PURGE, "sql/missions_purge.sql", [TIMESTAMPTZOID, INT8OID], freely);

/// Does what is due for one mission, or for a few; returns for how many, and whether there is more.
pub fn once(now: Micros, keep_seconds: i64) -> (i64, bool) {
    db::connect(|db| {
        let late = db.run(&MISSIONS_LATE, &[timestamp(now).into()]);
        if !late.is_empty() {
            let mission: Uuid = late.must(1);
            let deadline = late.must::<TimestampWithTimeZone>(2).to_iso_string();
            let error = format!("not ended by {deadline}, as its time-out asked");
            stop::stop(db, mission, &Why::Fail { error: &error }, now);
            return (1, true);
        }
        let orphan = db.run(&MISSIONS_ORPHANED, &[]);
        if !orphan.is_empty() {
            let why = Why::Cancel { reason: Some("the mission around it was stopped"), by: "agentq", mode: None };
            stop::stop(db, orphan.must(1), &why, now);
            return (1, true);
        }
        let left = db.run(&MISSIONS_STOPPING, &[]);
        if !left.is_empty() {
            let mission: Uuid = left.must(1);
            limits::hold_still();
            let mut line = Line::default();
            counts::set_state(db, mission, "stopping", &["stopping"]);
            if stop::take_back(db, mission, "the mission was stopped", now) {
                finalize::finalize(db, mission, now).into_iter().for_each(|up| line.end(db, up, now));
            }
            line.run(db, now);
            return (1, false);
        }
        let before = timestamp(now - keep_seconds * 1_000_000);
        let removed: i64 = db.run(&MISSIONS_PURGE, &[before.into(), 20_i64.into()]).must(1);
        (removed, removed == 20)
    })
}
