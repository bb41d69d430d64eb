//! Telling when the pressure on the queues has changed.

use crate::base::clock;
use crate::db::{self, statements};
use crate::events;
use crate::queue::rules::Rulebook;
use crate::room::Outcome;
use agentq_core::limits::GLOBAL;

statements!("pressure.sql": PRESSURE);

/// Writes the event backpressure.changed when the level of fn_backpressure_status has changed.
pub fn watch() -> Outcome {
    // Without a limit for all jobs the level is always normal.
    let is_limited = Rulebook::current().limits.of(GLOBAL).is_some();
    db::connect(|db| {
        let row = db.run(&PRESSURE, &[is_limited.into()]);
        let (before, pgrx::JsonB(status)): (String, _) = (row.must("before"), row.must("status"));
        let level = status["level"].as_str().unwrap_or("normal").to_owned();
        if level == before {
            return Outcome::default();
        }
        let what = serde_json::json!({"level": level, "before": before, "utilization": status["global_utilization"],
            "queue_depth": status["queue_depth"], "recommendations": status["recommendations"]});
        events::emit(db, "backpressure.changed", "backpressure", what, clock::now());
        Outcome::rows(1)
    })
}
