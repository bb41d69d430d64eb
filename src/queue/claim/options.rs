//! What a claim is asked for: who claims, from which queues and kinds, how many jobs, for how long.

use super::lanes::Lane;
use super::wait;
use crate::base::ids::parse_id;
use crate::error::{OrRaise, required};
use crate::json::{self, Jsonb};
use crate::queue::capabilities::capabilities;
use crate::queue::capacity::limits::Worker;
use crate::queue::rules::Rulebook;
use crate::server::has_fixed_snapshot;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// The keys of p_options.
const OPTIONS: [&str; 6] = ["queues", "kinds", "worker_type", "capabilities", "acks", "job_id"];
/// A list in the options has at most this many names.
const MOST_NAMES: usize = agentq_core::bounds::NAMES;
const LONGEST_WORKER_TYPE: usize = 60;

/// What the caller passes, as SQL hands it over.
pub struct Arguments<'a> {
    pub owner: Option<&'a str>,
    /// How many jobs; None: the form that answers with one job.
    pub batch: Option<i32>,
    pub kind: Option<&'a str>,
    pub lease_seconds: Option<i32>,
    pub options: Option<Jsonb>,
    pub wait: Option<Interval>,
}

/// What a claim is asked for, checked.
pub struct Request<'a> {
    pub owner: &'a str,
    /// Whether the answer is a list of jobs.
    pub is_batch: bool,
    /// It wants at most this many jobs.
    pub limit: usize,
    pub lease_seconds: Option<i32>,
    pub wait_us: i64,
    /// Whether the answer is to have the list that acks its jobs.
    pub with_acks: bool,
    pub queues: Vec<String>,
    /// None: any kind.
    pub kinds: Vec<Option<String>>,
    pub worker_type: Option<String>,
    /// What the worker can do; None: as its heartbeat has announced.
    pub capabilities: Option<Vec<String>>,
    /// The one job that it wants; None: the best one.
    pub job_id: Option<Uuid>,
}

impl<'a> Request<'a> {
    pub fn read(asked: Arguments<'a>) -> Request<'a> {
        let limit = asked.batch.map_or(1, |limit| input::batch_limit(limit).or_raise());
        let owner =
            input::name("p_lease_owner", required("p_lease_owner", asked.owner), input::LONGEST_NAME).or_raise();
        let lease_seconds = asked.lease_seconds.map(|seconds| input::lease_seconds(seconds).or_raise());
        let wait_us = asked.wait.map_or(0, |wait| check_wait(&wait).or_raise());
        let mut request = Request {
            is_batch: asked.batch.is_some(),
            limit: limit as usize,
            lease_seconds,
            wait_us,
            kinds: vec![asked.kind.map(str::to_owned)],
            ..Request::of(owner)
        };
        asked.kind.map(|kind| input::name("job kind", kind, input::LONGEST_NAME).or_raise());
        if asked.options.is_some() {
            let options = json::options(asked.options, &OPTIONS).or_raise();
            request.read_options(&options, asked.kind).or_raise();
        }
        request
    }

    /// One job of any kind in the default queue, without a wait.
    pub fn of(owner: &'a str) -> Request<'a> {
        Request {
            owner,
            is_batch: false,
            limit: 1,
            lease_seconds: None,
            wait_us: 0,
            with_acks: false,
            queues: vec![input::DEFAULT_QUEUE.to_owned()],
            kinds: vec![None],
            worker_type: None,
            capabilities: None,
            job_id: None,
        }
    }

    fn read_options(&mut self, options: &Reader<'_>, kind: Option<&str>) -> Result<(), Refusal> {
        let acks = options.member("acks");
        if acks.is_there() && !self.is_batch {
            return Err(Refusal::new(
                "p_options.acks is for claims of many jobs",
                "Leave it out: one job is acked by its job_id and lease_token.",
            ));
        }
        let acks = acks.hint("With true, the answer has \"acks\", a list that fn_job_ack_batch takes as it is.");
        self.with_acks = acks.flag()?.unwrap_or(false);
        if let Some(queues) = options.member("queues").read(names)? {
            self.queues = queues;
        }
        if let Some(kinds) = options.member("kinds").read(names)? {
            if kind.is_some() {
                return Err(Refusal::new(
                    "p_job_kind and p_options.kinds were both given",
                    "Name the kinds in one place: leave p_job_kind NULL, or leave \"kinds\" out.",
                ));
            }
            self.kinds = kinds.into_iter().map(Some).collect();
        }
        self.worker_type = options.member("worker_type").name(LONGEST_WORKER_TYPE)?.map(str::to_owned);
        self.capabilities = options.member("capabilities").read(capabilities)?;
        let job_id = options.member("job_id").hint("Use the id that fn_job_enqueue returned.");
        self.job_id = job_id.parsed("a uuid", parse_id)?;
        let elsewhere = ["queues", "kinds"].iter().any(|key| options.member(key).is_there());
        if self.job_id.is_some() && (self.is_batch || kind.is_some() || elsewhere) {
            return Err(Refusal::new(
                "p_options.job_id names one job, and kinds, queues or a number of jobs were given as well",
                "Claim it with fn_job_claim(owner, p_options => '{\"job_id\": \"…\"}') alone.",
            ));
        }
        Ok(())
    }

    /// Warns, once in a session, of a type of worker that no rule is about, where there are rules for others: the worker would
    /// pass its limit.
    pub fn warn_of_unknown_type(&self, rules: &Rulebook) {
        thread_local!(static WARNED: RefCell<String> = const { RefCell::new(String::new()) });
        let Some(worker_type) = &self.worker_type else { return };
        if rules.limits.is_empty() || WARNED.with_borrow(|warned| warned == worker_type) {
            return;
        }
        if rules.limits.misses_worker_type(worker_type) {
            WARNED.set(worker_type.clone());
            ereport!(
                WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                format!("no limit is about the worker_type \"{}\"", agentq_core::error::shown(worker_type)),
                "There are limits for workers of other types. Mend the type, or set a limit for worker_type:<type> or worker:<type>:*."
            );
        }
    }

    /// The lanes that the claim reads: every named kind, or any, in every named queue.
    pub fn lanes(&self, rules: &Rulebook) -> Result<Vec<Lane>, Refusal> {
        let mut lanes = Vec::with_capacity(self.kinds.len() * self.queues.len());
        for name in &self.queues {
            let queue = rules.queue(name)?;
            lanes.extend(self.kinds.iter().map(|kind| Lane::of(Rc::clone(queue), kind.clone())));
        }
        Ok(lanes)
    }

    /// Who claims, as far as limits are concerned.
    pub fn worker(&self) -> Worker<'_> {
        Worker { owner: self.owner, worker_type: self.worker_type.as_deref() }
    }
}

/// A list of distinct names in the options.
fn names(at: Reader<'_>) -> Result<Vec<String>, Refusal> {
    let at = at.hint("For example: [\"mail\", \"sms\"].");
    let names = at.list("names", 1..=MOST_NAMES)?.map(|name| name.name(input::LONGEST_NAME).map(str::to_owned));
    let mut names = names.collect::<Result<Vec<String>, Refusal>>()?;
    names.sort();
    names.dedup();
    Ok(names)
}

/// Microseconds to wait. A claim that waits holds a snapshot, and so keeps vacuum back: not for long.
fn check_wait(wait: &Interval) -> Result<i64, Refusal> {
    let micros = wait.as_micros();
    if !(0..=i128::from(wait::LONGEST_US)).contains(&micros) {
        return Err(Refusal::new(
            format!("p_wait must be from 0 to {} seconds, but is {wait}", wait::LONGEST_US / 1_000_000),
            "A waiting claim keeps vacuum back: wait for a while, and then call again.",
        ));
    }
    if micros > 0 && has_fixed_snapshot() {
        return Err(Refusal::new(
            "a claim cannot wait in a transaction of REPEATABLE READ or SERIALIZABLE, which never sees new jobs",
            "Leave out p_wait, or claim under READ COMMITTED.",
        ));
    }
    Ok(micros as i64)
}
