//! Tells when the pressure on the queues has changed.

use super::{Chore, Outcome};
use crate::base::clock;
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::events;

statement!(PRESSURE, "../sql/pressure.sql", [], freely);

pub static CHORE: Chore = Chore {
    name: "watch_pressure",
    activity: c"agentq: watch_pressure",
    about: "Writes the event backpressure.changed when the level of fn_backpressure_status has changed.",
    every_us: 10_000_000,
    run,
};

fn run() -> Outcome {
    // Without a limit for all jobs the level is always normal.
    let settings = Settings::current();
    if !settings.has_policies || settings.limits.of("global").is_none() {
        return Outcome::default();
    }
    db::connect(|db| {
        let row = db.run(&PRESSURE, &[]);
        let (pgrx::JsonB(status), before): (_, String) = (row.must(1), row.must(2));
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
