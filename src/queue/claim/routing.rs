//! Telling of jobs that nobody can run, because no worker that is alive has what they require.

use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statements};
use crate::events;
use crate::queue::settings::ROUTING_ALERT;
use crate::room::Outcome;

statements!("routing.sql": UNROUTABLE);

/// Writes the event job.unroutable, at most once an hour for each set of capabilities.
pub fn watch() -> Outcome {
    let alert_after = Settings::current().number(ROUTING_ALERT);
    let now = clock::now();
    let mut told = 0;
    db::connect(|db| {
        db.run(&UNROUTABLE, &[alert_after.into(), timestamp(now).into()]).each(|row| {
            let (subject, pgrx::JsonB(what)): (String, _) = (row.must("requires"), row.must("told"));
            events::emit(db, "job.unroutable", &subject, what, now);
            told += 1;
        });
    });
    Outcome::rows(told)
}
