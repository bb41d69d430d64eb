//! A plain model of the life of jobs: what each call answers, and what it leaves behind.
//!
//! Nothing here runs in the server. It is what the documentation says of jobs, leases, limits and dead letters, in
//! a form that can be walked at random: a test holds the server against it. Times are seconds.

use crate::error_class::{CLASSES, LEASE_EXPIRED};
use crate::limits::{GLOBAL, Rules, kind_key, queue_key, worker_key, worker_type_key};
use crate::retry::{After, Failure, Policy, Reason, Verdict, after, is_poisonous};
use crate::state::JobState;
use std::collections::BTreeMap;

pub mod sessions;

/// The answer to whoever does not hold the job.
pub const LEASE_LOST: &str = "lease_lost";
/// The answer to whoever wants to end a job that has ended.
pub const ALREADY_FINISHED: &str = "already_finished";

/// Who claims.
#[derive(Clone, Debug)]
pub struct Worker {
    pub name: String,
    pub worker_type: Option<String>,
}

impl Worker {
    /// The keys that a job has because this worker claims it.
    fn keys(&self) -> impl Iterator<Item = String> {
        let keys = |worker_type: &String| [worker_type_key(worker_type), worker_key(worker_type, &self.name)];
        self.worker_type.as_ref().map(keys).into_iter().flatten()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub owner: String,
    pub token: String,
    pub until: i64,
    pub cancel_requested: bool,
    /// The keys of which it holds a slot.
    pub slots: Vec<String>,
}

/// What is left of a job that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub reason: Reason,
    /// The last job that was made of it.
    pub redriven_as: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub kind: String,
    pub state: JobState,
    /// Those that ended without success and cost one.
    pub attempts: i32,
    pub max_attempts: i32,
    /// Not to be claimed before.
    pub due: i64,
    /// The keys by which limits count it, whoever claims it.
    pub keys: Vec<String>,
    pub lease: Option<Lease>,
    /// Owner and token of the attempt that acked it.
    pub acked_by: Option<(String, String)>,
    /// The last attempts, as many as have ended with a silent worker.
    pub silent_in_a_row: i64,
    pub letter: Option<Letter>,
    /// The job whose dead letter it was made of.
    pub replay_of: Option<String>,
}

impl Job {
    pub fn new(queue: &str, kind: &str, limit_keys: &[String], max_attempts: i32, due: i64) -> Job {
        let mut keys = vec![GLOBAL.to_owned(), queue_key(queue), kind_key(kind)];
        keys.extend_from_slice(limit_keys);
        Job {
            kind: kind.to_owned(),
            state: JobState::Queued,
            attempts: 0,
            max_attempts,
            due,
            keys,
            lease: None,
            acked_by: None,
            silent_in_a_row: 0,
            letter: None,
            replay_of: None,
        }
    }

    pub fn is_resting(&self) -> bool {
        matches!(self.state, JobState::Queued | JobState::RetryWaiting)
    }

    pub fn has_expired(&self, now: i64) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.until <= now)
    }

    fn cancel_requested(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.cancel_requested)
    }

    /// Takes an arrow of the machine. Who does not hold the job any more has no lease.
    fn go_to(&mut self, next: JobState) -> &'static str {
        assert!(self.state.may_become(next), "there is no arrow from {:?} to {next:?}", self.state);
        self.state = next;
        self.lease.take_if(|_| !matches!(next, JobState::Leased | JobState::InProgress));
        next.name()
    }

    fn bury(&mut self, reason: Reason) -> &'static str {
        self.letter = Some(Letter { reason, redriven_as: None });
        self.go_to(JobState::DeadLetter)
    }

    /// What follows an attempt that failed; `rest` takes the job to its next try.
    fn follow(&mut self, after: After, rest: impl FnOnce(&mut Job, f64) -> &'static str) -> &'static str {
        match after {
            After::Retry(seconds) => rest(self, seconds),
            After::DeadLetter(reason) => self.bury(reason),
            After::Failed => self.go_to(JobState::Failed),
            After::Cancelled { letter } => {
                self.letter = letter.then_some(Letter { reason: Reason::Cancelled, redriven_as: None });
                self.go_to(JobState::Cancelled)
            }
        }
    }
}

/// What a worker proves that it holds a job with.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    pub owner: &'a str,
    pub token: &'a str,
}

/// What a worker says of an attempt that failed.
#[derive(Clone, Copy, Debug)]
pub struct Failed<'a> {
    pub class: &'a str,
    pub verdict: Verdict,
    pub retry_after: Option<f64>,
}

/// What holds for all jobs.
#[derive(Clone, Debug)]
pub struct Terms {
    pub rules: Rules,
    pub policy: Policy,
    /// Silent workers in a row that make a job poison; 0: any number.
    pub max_crashes: i64,
}

/// The jobs, as one session sees them.
#[derive(Clone, Debug)]
pub struct Queue {
    pub jobs: BTreeMap<String, Job>,
    pub terms: Terms,
    /// Slots that claims have taken which this session does not see yet.
    pub taken_elsewhere: BTreeMap<String, u32>,
}

impl Queue {
    pub fn new(terms: Terms) -> Queue {
        Queue { jobs: BTreeMap::new(), terms, taken_elsewhere: BTreeMap::new() }
    }

    fn job(&mut self, id: &str) -> &mut Job {
        self.jobs.get_mut(id).unwrap_or_else(|| panic!("the model has no job {id}"))
    }

    /// The job, if this holder has it, or else what it is told.
    fn held_by(&mut self, id: &str, holder: Holder<'_>) -> Result<&mut Job, &'static str> {
        let fits = |lease: &Lease| lease.owner == holder.owner && lease.token == holder.token;
        let job = self.job(id);
        let acked = job.acked_by.as_ref().is_some_and(|(owner, token)| owner == holder.owner && token == holder.token);
        let told = if acked { ALREADY_FINISHED } else { LEASE_LOST };
        Some(job).filter(|job| job.lease.as_ref().is_some_and(fits)).ok_or(told)
    }

    /// Jobs that hold a slot of this key.
    pub fn held(&self, key: &str) -> u32 {
        let leases = self.jobs.values().filter_map(|job| job.lease.as_ref());
        leases.filter(|lease| lease.slots.iter().any(|slot| slot == key)).count() as u32
    }

    fn has_slot(&self, key: &str) -> bool {
        let elsewhere = self.taken_elsewhere.get(key).copied().unwrap_or_default();
        self.terms.rules.slots(key).is_none_or(|most| self.held(key) + elsewhere < most)
    }

    fn keys_of(&self, job: &Job, worker: &Worker) -> Vec<String> {
        job.keys.iter().cloned().chain(worker.keys()).collect()
    }

    /// Whether this worker may be given the job now.
    pub fn may_claim(&self, id: &str, worker: &Worker, now: i64) -> bool {
        let fits = |job: &Job| {
            job.is_resting() && job.due <= now && self.keys_of(job, worker).iter().all(|key| self.has_slot(key))
        };
        self.jobs.get(id).is_some_and(fits)
    }

    pub fn enqueue(&mut self, id: &str, job: Job) -> &'static str {
        let before = self.jobs.insert(id.to_owned(), job);
        assert!(before.is_none(), "there are two jobs {id}");
        "enqueued"
    }

    /// Gives the job to a worker, if it may have it.
    pub fn claim(&mut self, id: &str, worker: &Worker, token: &str, seconds: i64, now: i64) -> &'static str {
        if !self.may_claim(id, worker, now) {
            return "empty";
        }
        let mut slots = self.keys_of(&self.jobs[id], worker);
        // Those of the worker are counted also where there is no rule, so that a later one finds them.
        slots.retain(|key| self.terms.rules.slots(key).is_some() || worker.keys().any(|own| own == *key));
        let (owner, token) = (worker.name.clone(), token.to_owned());
        let job = self.job(id);
        job.go_to(JobState::Leased);
        job.lease = Some(Lease { owner, token, until: now + seconds, cancel_requested: false, slots });
        "claimed"
    }

    pub fn start(&mut self, id: &str, holder: Holder<'_>) -> &'static str {
        let job = match self.held_by(id, holder) {
            Ok(job) => job,
            Err(told) => return told,
        };
        if job.state == JobState::Leased {
            job.go_to(JobState::InProgress);
        }
        "started"
    }

    /// A heartbeat. It never shortens a lease.
    pub fn extend(&mut self, id: &str, holder: Holder<'_>, seconds: i64, now: i64) -> &'static str {
        match self.held_by(id, holder) {
            Err(told) => told,
            Ok(job) => {
                job.lease.iter_mut().for_each(|lease| lease.until = lease.until.max(now + seconds));
                "extended"
            }
        }
    }

    /// Also when a cancel was requested: the work is done.
    pub fn ack(&mut self, id: &str, holder: Holder<'_>) -> &'static str {
        match self.held_by(id, holder) {
            Err(told) => told,
            Ok(job) => {
                job.acked_by = Some((holder.owner.to_owned(), holder.token.to_owned()));
                job.go_to(JobState::Succeeded)
            }
        }
    }

    pub fn fail(&mut self, id: &str, holder: Holder<'_>, failed: Failed<'_>, now: i64) -> &'static str {
        let policy = self.terms.policy.clone();
        let job = match self.held_by(id, holder) {
            Ok(job) => job,
            Err(told) => return told,
        };
        job.attempts += 1;
        job.silent_in_a_row = 0;
        let after = after(&failure(job, failed), &policy);
        job.follow(after, |job, seconds| {
            job.due = now + seconds as i64;
            job.go_to(JobState::RetryWaiting)
        })
    }

    /// Costs no attempt, and the job keeps its place.
    pub fn release(&mut self, id: &str, holder: Holder<'_>) -> &'static str {
        let job = match self.held_by(id, holder) {
            Ok(job) => job,
            Err(told) => return told,
        };
        job.silent_in_a_row = 0;
        if job.cancel_requested() {
            return job.go_to(JobState::Cancelled);
        }
        job.go_to(JobState::Queued);
        "released"
    }

    /// Takes the job away from a holder whose lease has expired; None: it has not. The job keeps its place.
    pub fn expire(&mut self, id: &str, now: i64) -> Option<&'static str> {
        let Terms { policy, max_crashes, .. } = self.terms.clone();
        let job = Some(self.job(id)).filter(|job| job.has_expired(now))?;
        job.attempts += 1;
        job.silent_in_a_row += 1;
        let silence = Failed { class: LEASE_EXPIRED, verdict: Verdict::Fail, retry_after: None };
        let mut after = after(&failure(job, silence), &policy);
        if is_poisonous(job.silent_in_a_row, max_crashes) && !job.cancel_requested() {
            after = After::DeadLetter(Reason::Poison);
        }
        Some(job.follow(after, |job, _| job.go_to(JobState::Queued)))
    }

    /// Ends a job that rests. The holder of one that is held hears of it.
    pub fn cancel(&mut self, id: &str) -> &'static str {
        let job = self.job(id);
        if let Some(lease) = &mut job.lease {
            lease.cancel_requested = true;
            return "cancel_requested";
        }
        if job.state.is_finished() { ALREADY_FINISHED } else { job.go_to(JobState::Cancelled) }
    }

    pub fn move_to_dead_letter(&mut self, id: &str) -> &'static str {
        let job = self.job(id);
        if job.state.is_finished() { ALREADY_FINISHED } else { job.bury(Reason::Manual) }
    }

    /// Makes a new job of the dead letter of an old one. It stands where the old one was made, and so is due at once.
    pub fn redrive(&mut self, id: &str, new: &str, again: bool) -> &'static str {
        let Job { kind, keys, max_attempts, letter, .. } = self.job(id);
        let letter = letter.as_mut().unwrap_or_else(|| panic!("{id} has no dead letter"));
        if letter.redriven_as.is_some() && !again {
            return "already_redriven";
        }
        letter.redriven_as = Some(new.to_owned());
        let mut job = Job::new("", kind, &[], *max_attempts, i64::MIN);
        (job.keys, job.replay_of) = (keys.clone(), Some(id.to_owned()));
        self.enqueue(new, job);
        "redriven"
    }
}

fn failure<'a>(job: &Job, failed: Failed<'a>) -> Failure<'a> {
    Failure {
        failures: job.attempts,
        max_attempts: job.max_attempts,
        cancel_requested: job.cancel_requested(),
        verdict: failed.verdict,
        class: failed.class,
        retryable: CLASSES.iter().find(|class| class.name == failed.class).is_none_or(|class| class.retryable),
        retry_after: failed.retry_after,
        chance: 0.5,
    }
}

#[cfg(test)]
mod tests;
