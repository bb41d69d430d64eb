//! What a claim is asked for: who claims, from which queues and kinds, how many jobs, for how long.

use super::lanes::Lane;
use super::wait;
use crate::error::{OrRaise, required};
use crate::json::{self, Jsonb};
use crate::queue::capabilities::capabilities;
use crate::queue::capacity::limits::Worker;
use crate::queue::rules::Rulebook;
use crate::server::has_fixed_snapshot;
use agentq_core::reader::Reader;
use agentq_core::{Refusal, input};
use pgrx::datum::Interval;
use std::rc::Rc;

/// The keys of p_options.
const OPTIONS: [&str; 5] = ["queues", "kinds", "worker_type", "capabilities", "acks"];
/// A list in the options has at most this many names.
const MOST_NAMES: usize = 100;
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
        Ok(())
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
