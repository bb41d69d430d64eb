//! Classes the executors by their last sign of life, tells of every change as an event, and, where
//! that is switched on, recovers the jobs of those that have gone silent.

use super::{Chore, Outcome};
use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::events;
use crate::queue::reap;
use serde_json::json;

statement!(CLASS_EXECUTORS, "../sql/class_executors.sql", [INT4OID, TIMESTAMPTZOID]);

/// Jobs of stale executors recovered in one run.
const AT_MOST: i64 = 500;

pub static CHORE: Chore = Chore {
    name: "check_executors",
    activity: c"agentq: check_executors",
    about: "Classes executors as fresh, warning or stale, with an event for each change.",
    every_us: 10_000_000,
    run,
};

fn run() -> Outcome {
    let settings = Settings::current();
    let now = clock::now();
    let changed = db::connect(|db| {
        let mut changed = 0;
        db.run(&CLASS_EXECUTORS, &[settings.stale_threshold_seconds.into(), timestamp(now).into()]).each(|row| {
            let (name, was, is): (String, String, String) = (row.must(1), row.must(2), row.must(3));
            let kind = format!("executor.{is}");
            let more = json!({"executor_kind": row.must::<String>(4), "was": was, "is": is,
                "silent_seconds": row.must::<f64>(5)});
            events::emit(db, &kind, &name, more, now);
            changed += 1;
        });
        changed
    });
    let recovered =
        if settings.reap_stale { reap::of_stale_executors(settings.stale_threshold_seconds, now, AT_MOST) } else { 0 };
    Outcome::rows(changed + recovered as i64)
}
