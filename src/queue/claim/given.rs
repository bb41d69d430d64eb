//! Claiming one given job, if it may run now. It passes the gates that every other passes, and waits for nobody.

use super::document;
use super::lanes::{Lane, Taken};
use super::options::Request;
use super::search::{Outcome, Search};
use super::wait;
use crate::base::clock::{self, timestamp};
use crate::db::{self, Db, statements};
use crate::error::unknown_job;
use crate::json::Jsonb;
use crate::queue::ends::hooks;
use crate::queue::rules::{Queue, Rulebook};
use crate::queue::storage::{Place, lock_against_rule_change, place};
use crate::table;
use pgrx::Uuid;
use serde_json::json;
use std::rc::Rc;

statements!("given.sql": GIVEN_JOB, GIVEN_TAKE, GIVEN_LINE);

/// What is known of the job before anything is taken.
struct Given {
    queue: Rc<Queue>,
    kind: String,
    keyed: bool,
    state: String,
    requires: Vec<String>,
}

impl Given {
    fn find(db: &Db, rules: &Rulebook, job_id: Uuid) -> Given {
        let row = db.run(&GIVEN_JOB, &[job_id.into()]);
        if row.is_empty() {
            unknown_job(job_id)
        }
        let name: String = row.must("queue");
        Given {
            queue: rules.queues.get(name.as_str()).map(Rc::clone).unwrap_or_else(|| unknown_job(job_id)),
            kind: row.must("job_kind"),
            keyed: row.must("keyed"),
            state: row.must("state"),
            requires: row.get("requires").unwrap_or_default(),
        }
    }

    fn lane(&self) -> Lane {
        Lane::of(Rc::clone(&self.queue), Some(self.kind.clone()))
    }
}

/// Claims the job, and says what came of it.
pub fn claim(request: &Request<'_>, rules: &Rulebook, job_id: Uuid) -> Jsonb {
    table::must_write(c"fn_job_claim()");
    let given = db::connect(|db| Given::find(db, rules, job_id));
    let lane = given.lane();
    let look = || hooks::together(|| take(request, job_id));
    let outcome = if request.wait_us == 0 {
        look()
    } else {
        wait::until(&[lane.name().tag()], request.wait_us, || Outcome { limited_by: Default::default(), ..look() })
    };
    if !outcome.claimed.is_empty() {
        return document::answer(request, &outcome, &[]);
    }
    let paused = if given.queue.paused { vec![lane] } else { Vec::new() };
    let state = db::connect(|db| Given::find(db, &Rulebook::current(), job_id)).state;
    let known =
        json!({"job_id": job_id.to_string(), "state": state, "hint": "agentq.fn_job_explain says what holds it."});
    document::answer(request, &outcome, &paused).merged(Jsonb::from_value(known))
}

/// Takes the job from where it rests, if it may run, and leases it.
fn take(request: &Request<'_>, job_id: Uuid) -> Outcome {
    let rules = Rulebook::current();
    db::connect(|db| {
        let given = Given::find(db, &rules, job_id);
        if given.queue.paused {
            return Outcome::default();
        }
        let search = Search::new(request, vec![given.lane()], rules.lease_seconds, true);
        if !search.can_do(&given.requires) {
            return Outcome::default();
        }
        lock_against_rule_change();
        let Some(place) = free(db, job_id) else { return Outcome::default() };
        search.lease_given(given.lane(), Taken { place, keyed: given.keyed })
    })
}

/// Takes a job out of its place if nobody else has it locked, its time has come, and no other job with its ordering key comes
/// before it.
fn free(db: &Db, job_id: Uuid) -> Option<Place> {
    let row = db.run(&GIVEN_TAKE, &[job_id.into(), timestamp(clock::now()).into()]);
    if !row.is_empty() {
        let place = Place::from_row(&row);
        if row.must("was_ready") {
            place.left()
        } else {
            place.left_waiting()
        }
        return Some(place);
    }
    if db.run(&GIVEN_LINE, &[job_id.into()]).is_empty() { None } else { place::take_from_line(job_id, false) }
}
