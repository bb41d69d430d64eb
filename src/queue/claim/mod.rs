//! Claiming: a claim locks the best ready jobs, takes them out of the ready ones and leases them.
//!
//! A claim reads from top to bottom: `options` says what is asked for, `search` looks for the best jobs in `lanes` by
//! their `turns`, `lease` gives each a lease if it passes its gates, and `document` is what the worker gets. A claim that
//! finds nothing may `wait`.
//!
//! Priority, then schedule, then age decides, ties by id. A scan starts at the lane's marks; what another session has
//! locked is skipped. Before it answers "empty", a claim looks in full, if it can afford to, and recovers jobs whose lease
//! has expired.

mod ack_and_claim;
mod document;
mod given;
mod lanes;
mod lease;
mod options;
pub mod routing;
mod search;
mod turns;
pub mod unflushed;
mod wait;

pub use document::Claimed;

use crate::base::bounds::bounded;
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::answer;
use crate::queue::rules::Rulebook;
use crate::server::is_in_transaction_block;
use crate::table;
use lanes::Lane;
use options::{Arguments, Request};
use pgrx::datum::Interval;
use pgrx::prelude::*;
use search::{Outcome, Search};
use std::rc::Rc;

#[pg_extern(name = "fn_job_claim", security_definer)]
fn claim_or_wait(
    p_lease_owner: Option<&str>,
    p_job_kind: default!(Option<&str>, "NULL"),
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
    p_wait: default!(Option<Interval>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_claim: p_lease_owner, p_job_kind, p_options);
    claim(Arguments {
        owner: p_lease_owner,
        batch: None,
        kind: p_job_kind,
        lease_seconds: p_lease_seconds,
        options: p_options,
        wait: p_wait,
    })
}

#[pg_extern(name = "fn_job_claim_batch", security_definer)]
fn claim_batch_or_wait(
    p_lease_owner: Option<&str>,
    p_limit: Option<i32>,
    p_job_kind: default!(Option<&str>, "NULL"),
    p_lease_seconds: default!(Option<i32>, "NULL"),
    p_options: default!(Option<Jsonb>, "NULL"),
    p_wait: default!(Option<Interval>, "NULL"),
) -> Jsonb {
    bounded!(fn_job_claim_batch: p_lease_owner, p_job_kind, p_options);
    claim(Arguments {
        owner: p_lease_owner,
        batch: Some(required("p_limit", p_limit)),
        kind: p_job_kind,
        lease_seconds: p_lease_seconds,
        options: p_options,
        wait: p_wait,
    })
}

/// Claims what is asked for, and says what came of it.
fn claim(asked: Arguments<'_>) -> Jsonb {
    answer::if_on(|rules| {
        let request = Request::read(asked);
        request.warn_of_unknown_type(rules);
        if let Some(job_id) = request.job_id {
            return given::claim(&request, rules, job_id);
        }
        let (paused, open) = by_pause(request.lanes(rules).or_raise());
        if request.wait_us == 0 && open.is_empty() {
            return document::answer(&request, &Outcome::default(), &paused);
        }
        table::must_write(c"fn_job_claim()");
        let outcome = if request.wait_us == 0 {
            Search::new(&request, open, rules.lease_seconds, is_in_transaction_block()).run()
        } else {
            let tags: Vec<u64> = open.iter().chain(&paused).map(|lane| lane.name().tag()).collect();
            wait::until(&tags, request.wait_us, || search_again(&request))
        };
        document::answer(&request, &outcome, &paused)
    })
}

/// Looks once more for a claim that waits. The queues may be paused or resumed meanwhile, so it asks for the lanes
/// anew.
fn search_again(request: &Request<'_>) -> Outcome {
    let rules = Rulebook::current();
    let (_, open) = by_pause(request.lanes(&rules).or_raise());
    if open.is_empty() {
        return Outcome::default();
    }
    let outcome = Search::new(request, open, rules.lease_seconds, true).run();
    Outcome { limited_by: Default::default(), ..outcome }
}

/// The lanes of paused queues, and the others.
fn by_pause(lanes: Vec<Lane>) -> (Vec<Lane>, Vec<Lane>) {
    lanes.into_iter().partition(|lane| lane.queue.paused)
}

/// Claims one job from these queues and kinds, for a worker inside the server.
pub fn one_of(owner: &str, lanes: &[(&str, &str)], lease_seconds: i32) -> Option<Claimed> {
    let rules = Rulebook::current();
    let lanes = lanes.iter().filter_map(|(queue, kind)| {
        let queue = rules.queues.get(queue).filter(|queue| !queue.paused)?;
        Some(Lane::of(Rc::clone(queue), Some((*kind).to_owned())))
    });
    let lanes: Vec<Lane> = lanes.collect();
    if lanes.is_empty() {
        return None;
    }
    let request = Request { lease_seconds: Some(lease_seconds), ..Request::of(owner) };
    Search::new(&request, lanes, rules.lease_seconds, false).run().claimed.into_iter().next()
}

/// The numbers of the lanes of these queues and kinds, for a worker inside the server that waits for jobs.
pub fn lane_tags<'a>(lanes: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u64> {
    let rules = Rulebook::current();
    let tag = |(queue, kind): (&str, &str)| {
        Some(Lane::of(Rc::clone(rules.queues.get(queue)?), Some(kind.to_owned())).name().tag())
    };
    lanes.filter_map(tag).collect()
}
