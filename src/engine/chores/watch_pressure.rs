//! Tells when the pressure on the queues has changed.

use super::{Chore, Outcome};
use crate::base::clock;
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::events;
use agentq_core::limits::GLOBAL;

statement!(PRESSURE, "../sql/pressure.sql", [BOOLOID], freely);

pub static CHORE: Chore = Chore {
    name: "watch_pressure",
    activity: c"agentq: watch_pressure",
    about: "Writes the event backpressure.changed when the level of fn_backpressure_status has changed.",
    every_us: 10_000_000,
    run,
};

fn run() -> Outcome {
    let settings = Settings::current();
    // Without a limit for all jobs the level is always normal.
    let is_limited = settings.limits.of(GLOBAL).is_some();
    db::connect(|db| {
        let row = db.run(&PRESSURE, &[is_limited.into()]);
        let (before, pgrx::JsonB(status)): (String, _) = (row.must(1), row.must(2));
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
