//! Telling of jobs that nobody can run, because no worker that is alive has what they require.
//!
//! A producer may make up any number of capabilities, and a worker any number of executors. So a run looks at some of the
//! lines, for a short time, and the next run goes on behind them.

use crate::base::clock::{self, timestamp};
use crate::base::settings::Settings;
use crate::db::{self, statements};
use crate::events;
use crate::queue::settings::ROUTING_ALERT;
use crate::room::{Next, Outcome};
use std::cell::RefCell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

statements!("routing.sql": ROUTES, UNROUTABLE);

/// How many lines a run looks at, and for how long. What is left comes after a pause, in microseconds.
const LINES: i64 = 2_000;
const LONGEST: Duration = Duration::from_millis(200);
const PAUSE_US: i64 = 1_000_000;
/// What the names of fair lines begin with.
const FIRST: &str = "fair:";

// The line behind which the next run of this session goes on.
thread_local!(static FROM: RefCell<String> = RefCell::new(FIRST.to_owned()));

/// What the jobs of a fair line require: the second of the three parts of its name.
fn requires_of(line: &str) -> &str {
    line.split('|').nth(1).unwrap_or_default()
}

/// Writes the event job.unroutable, at most once an hour for each set of capabilities.
pub fn watch() -> Outcome {
    let alert_after = Settings::current().number(ROUTING_ALERT);
    let (now, began) = (clock::now(), Instant::now());
    db::connect(|db| {
        let from = FROM.with_borrow(String::clone);
        let mut lines: Vec<String> = Vec::new();
        db.run(&ROUTES, &[from.into(), LINES.into()]).each(|row| lines.push(row.only()));
        // Where the next run goes on; none: from the front.
        let mut goes_on = lines.last().filter(|_| lines.len() as i64 == LINES);
        let (mut told, mut seen) = (0, HashSet::new());
        for (place, line) in lines.iter().enumerate() {
            let requires = requires_of(line);
            if requires.is_empty() || !seen.insert(requires) {
                continue;
            }
            if seen.len() > 1 && began.elapsed() > LONGEST {
                goes_on = Some(&lines[place - 1]);
                break;
            }
            // The same needs may stand in lines of several queues and keys.
            let all = lines[place..].iter().filter(|other| requires_of(other) == requires);
            let args = [
                requires.into(),
                all.map(String::as_str).collect::<Vec<&str>>().into(),
                alert_after.into(),
                timestamp(now).into(),
            ];
            db.run(&UNROUTABLE, &args).each(|row| {
                let pgrx::JsonB(what) = row.must("told");
                events::emit(db, "job.unroutable", requires, what, now);
                told += 1;
            });
        }
        FROM.set(goes_on.map_or(FIRST, String::as_str).to_owned());
        let next = if goes_on.is_some() { Next::At(now + PAUSE_US) } else { Next::AsUsual };
        Outcome { rows: told, next }
    })
}
