//! Tells of jobs that nobody can run, because no worker that is alive has what they require.

use super::{Chore, Outcome};
use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statement};
use crate::events;

statement!(UNROUTABLE, "../sql/unroutable.sql", [INT8OID, TIMESTAMPTZOID], freely);

pub static CHORE: Chore = Chore {
    name: "watch_routing",
    activity: c"agentq: watch_routing",
    about: "Writes the event job.unroutable, at most once an hour for each set of capabilities, when jobs that require them wait and no live worker has announced them.",
    every_us: 30_000_000,
    run,
};

fn run() -> Outcome {
    let settings = Settings::current();
    let now = clock::now();
    db::connect(|db| {
        let mut told = 0;
        db.run(&UNROUTABLE, &[settings.routing_alert_seconds.into(), timestamp(now).into()]).each(|row| {
            let (subject, pgrx::JsonB(what)): (String, _) = (row.must(1), row.must(2));
            events::emit(db, "job.unroutable", &subject, what, now);
            told += 1;
        });
        Outcome::rows(told)
    })
}
