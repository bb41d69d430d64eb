//! Reading the log by SQL: what comes after a place, with a wait for it.
//!
//! Where no engine runs, a reader seals what has been committed itself, if it can: not in a
//! transaction that goes on, which might be rolled back after its reader has acted on it. One that has
//! sealed does not wait, since others see it, and can seal again, when its statement is over.

use super::{feed, seal};
use crate::base::bounds::bounded;
use crate::base::clock;
use crate::base::ids::parse_id;
use crate::base::settings::Settings;
use crate::db::{self, Db, statements};
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::server::has_fixed_snapshot;
use crate::shared::process::sleep;
use crate::shared::seats;
use agentq_core::Refusal;
use agentq_core::event::{self, Filter};
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::prelude::*;

statements!("read.sql": READ, READ_OF_MISSION);

/// The longest wait, in microseconds. Meanwhile the caller's statement holds a snapshot.
const LONGEST_WAIT_US: i64 = 60_000_000;
/// A reader that waits looks again this often, in microseconds.
const LOOK_EVERY_US: i64 = 50_000;
const MUCH_WORK_US: i64 = 200_000;
/// How many places a reader with a filter looks through at once, and how often in one call.
const PAGE: i64 = 1_000;
const PAGES: usize = 100;

#[pg_extern(security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn fn_event_read(
    p_after: default!(Option<i64>, "0"),
    p_limit: default!(Option<i32>, "100"),
    p_wait: default!(Option<Interval>, "NULL"),
    p_options: default!(Option<Jsonb>, "'{}'"),
) -> Jsonb {
    bounded!(fn_event_read: p_options);
    let mut after = required("p_after", p_after);
    let limit = i64::from(event::read_limit(required("p_limit", p_limit)).or_raise());
    let wait = p_wait.as_ref().map(check_wait).transpose().or_raise().unwrap_or(0);
    let filter = match p_options {
        None => Filter::default(),
        Some(options) => options.reader("p_options").and_then(|options| Filter::read(&options)).or_raise(),
    };
    let page = if filter.is_all() { limit } else { PAGE.max(limit) };
    let mission = filter.mission.as_deref().and_then(parse_id);
    let query = Query { limit, page, filter, mission };
    let deadline = clock::real_now() + wait;
    feed::use_it();
    db::answer(|db| {
        let mut sealed = false;
        loop {
            let last = seal::last_seq(db);
            let (found, seen, answer) = query.look(db, after);
            if found || sealed {
                return answer;
            }
            // What is gone from the log by now, or has never been there, is not waited for.
            after = seen.max(last);
            while seal::last_seq(db) <= after {
                sealed = seals_itself() && seal_here(db);
                let now = clock::real_now();
                if sealed {
                    break;
                }
                if now >= deadline {
                    return answer;
                }
                sleep(LOOK_EVERY_US.min(deadline - now));
            }
        }
    })
}

/// What a reader asks for.
struct Query {
    limit: i64,
    page: i64,
    filter: Filter,
    mission: Option<Uuid>,
}

impl Query {
    /// Looks through the log after a place. Returns whether the look is over, how far it went, and the answer. It keeps
    /// no locks, so that a reader that waits is not in the way of partitions that come and go.
    fn look(&self, db: &Db, after: i64) -> (bool, i64, Jsonb) {
        let (mut after, mut pages) = (after, 0);
        loop {
            let (count, seen, answer) = db::worth_keeping(|| {
                let (limit, page) = (self.limit, self.page);
                let filter = &self.filter;
                let kinds =
                    filter.kinds.as_ref().map(|kinds| kinds.iter().map(|kind| event::like(kind)).collect::<Vec<_>>());
                let args = [
                    after.into(),
                    limit.into(),
                    kinds.into(),
                    filter.purposes.clone().into(),
                    filter.subject.as_deref().into(),
                    self.mission.into(),
                    page.into(),
                    filter.tags.clone().into(),
                    filter.source.as_deref().into(),
                    filter.origin.into(),
                ];
                let row = db.run(if self.mission.is_some() { &READ_OF_MISSION } else { &READ }, &args);
                (
                    (row.must::<i64>("found"), row.get::<i64>("seen"), row.must::<Jsonb>("answer").beyond_connection()),
                    false,
                )
            });
            pages += 1;
            match seen {
                _ if count > 0 || pages >= PAGES => return (true, after, answer),
                None => return (false, after, answer),
                Some(seen) => after = seen,
            }
        }
    }
}

/// Seals what has been committed, and says whether that is kept. A turn that gave no places and came no further is
/// undone, and keeps no lock on the sealer's row, unless it was much work.
fn seal_here(db: &Db) -> bool {
    db::worth_keeping(|| {
        let began = clock::real_now();
        let came_on = seal::seal(db, seal::AT_MOST).is_some_and(|turn| turn.count > 0 || turn.moved);
        let keep = came_on || clock::real_now() - began > MUCH_WORK_US;
        (keep, keep)
    })
}

/// Whether nobody else will seal, and this session may.
fn seals_itself() -> bool {
    let engine = seats::engine_runs() && Settings::current().worker_enabled;
    !engine && seal::may_be_done_here()
}

fn check_wait(wait: &Interval) -> Result<i64, Refusal> {
    let micros = wait.as_micros();
    if !(0..=i128::from(LONGEST_WAIT_US)).contains(&micros) {
        return Err(Refusal::new(
            format!("p_wait must be from 0 to {} seconds, but is {wait}", LONGEST_WAIT_US / 1_000_000),
            "A reader that waits keeps vacuum back: wait for a while, and then call again.",
        ));
    }
    if micros > 0 && has_fixed_snapshot() {
        return Err(Refusal::new(
            "a reader cannot wait in a transaction of REPEATABLE READ or SERIALIZABLE, which never sees new events",
            "Leave out p_wait, or read under READ COMMITTED.",
        ));
    }
    Ok(micros as i64)
}
