//! What a claim is asked for: who claims, from which queues and kinds, how many jobs, for how long.

use super::lanes::Lane;
use super::wait;
use crate::error::{OrRaise, required};
use crate::json::Jsonb;
use crate::queue::capabilities::capabilities;
use crate::queue::capacity::limits::Worker;
use crate::queue::rules::Rulebook;
use crate::server::has_fixed_snapshot;
use agentq_core::{Refusal, input, payload};
use pgrx::datum::Interval;
use serde_json::Value;
use std::rc::Rc;

/// The keys of p_options.
const OPTIONS: [&str; 5] = ["queues", "kinds", "worker_type", "capabilities", "acks"];
/// Names that a list in the options has, at most.
const MOST_NAMES: usize = 100;

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
    /// Jobs that are wanted, at most.
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
        if let Some(options) = asked.options {
            let options = options.parse("p_options").or_raise();
            request.read_options(&options, asked.kind).or_raise();
        }
        for kind in request.kinds.iter().flatten() {
            input::name("job kind", kind, input::LONGEST_NAME).or_raise();
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

    fn read_options(&mut self, options: &Value, kind: Option<&str>) -> Result<(), Refusal> {
        let Value::Object(map) = options else {
            return Err(payload::refuse_not_object("p_options", "this"));
        };
        input::known_options("p_options", map.keys(), &OPTIONS)?;
        let present = |key: &str| map.get(key).filter(|value| !value.is_null());
        self.with_acks = present("acks").map(|acks| self.acks(acks)).transpose()?.unwrap_or(false);
        if let Some(queues) = present("queues") {
            self.queues = names("queues", queues)?;
        }
        if let Some(kinds) = present("kinds") {
            let kinds = names("kinds", kinds)?;
            if kind.is_some() {
                return Err(Refusal::new(
                    "p_job_kind and the option \"kinds\" were both given",
                    "Name the kinds in one place: leave p_job_kind NULL, or leave \"kinds\" out.",
                ));
            }
            self.kinds = kinds.into_iter().map(Some).collect();
        }
        let worker_type = |name: &Value| {
            input::name("the option \"worker_type\"", name.as_str().unwrap_or_default(), 60).map(str::to_owned)
        };
        self.worker_type = present("worker_type").map(worker_type).transpose()?;
        self.capabilities = present("capabilities").map(|list| capabilities("capabilities", list)).transpose()?;
        Ok(())
    }

    fn acks(&self, value: &Value) -> Result<bool, Refusal> {
        match value {
            _ if !self.is_batch => Err(Refusal::new(
                "the option \"acks\" is for claims of many jobs",
                "Leave it out: one job is acked by its job_id and lease_token.",
            )),
            Value::Bool(flag) => Ok(*flag),
            other => Err(Refusal::new(
                format!(
                    "the option \"acks\" must be true or false, not {}",
                    agentq_core::error::shown(&other.to_string())
                ),
                "With true, the answer has \"acks\", a list that fn_job_ack_batch takes as it is.",
            )),
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
fn names(key: &str, value: &Value) -> Result<Vec<String>, Refusal> {
    let mut names: Vec<String> = serde_json::from_value(value.clone()).unwrap_or_default();
    names.sort();
    names.dedup();
    if names.is_empty() || names.len() > MOST_NAMES {
        return Err(Refusal::new(
            format!(
                "the option \"{key}\" must be a list of 1 to {MOST_NAMES} names, not {}",
                agentq_core::error::shown(&value.to_string())
            ),
            format!("For example: p_options => '{{\"{key}\": [\"mail\", \"sms\"]}}'."),
        ));
    }
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
