//! A job, in as few bytes as the model needs, and what the core makes of it.
//!
//! Each call unpacks the job into a queue of the core, lets the core answer, and packs what is left. An instant is a
//! second there. Of tokens it is enough to know whether one is that of the present lease: the core only compares them.

use crate::bounds::{Bounds, Call, Mutation};
use crate::world::Instant;
use agentq_core::life::{self, Failed, Holder, Queue, Terms};
use agentq_core::limits::Rules;
use agentq_core::retry::{Backoff, Policy, Verdict};
use agentq_core::state::JobState;
use std::cell::RefCell;
use std::collections::HashMap;

/// A lease lasts this many instants.
pub const LEASE: Instant = 1;
const JOB: &str = "job";
const NAMES: [&str; crate::world::WORKERS] = ["ann", "bob", "cleo"];
const NEW_TOKEN: &str = "the token of the present lease";
const OLD_TOKEN: &str = "the token of an older lease";

/// What a worker remembers of a claim: whether its token is that of the job's last lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Token {
    Fresh,
    Stale,
}

impl Token {
    fn text(self) -> &'static str {
        match self {
            Token::Fresh => NEW_TOKEN,
            Token::Stale => OLD_TOKEN,
        }
    }
}

/// The row that says where the job rests. A job that is held or finished has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    None,
    Waiting,
    Ready,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    pub state: JobState,
    pub attempts: u8,
    /// Where it stands, or stood before it was claimed.
    pub due: Instant,
    pub row: Row,
    /// When the lease ends.
    pub until: Option<Instant>,
    /// The claim that gave it away may not be on disk yet; this is the state before it.
    pub before_claim: Option<JobState>,
}

impl Job {
    pub fn new(due: Instant) -> Job {
        Job { state: JobState::Queued, attempts: 0, due, row: Row::Ready, until: None, before_claim: None }
    }

    pub fn is_held(&self) -> bool {
        self.until.is_some()
    }

    fn unpack(&self, bounds: &Bounds, owner: Option<usize>) -> Queue {
        let mut queue = Queue::new(terms());
        let lease = self.until.zip(owner).map(|(until, owner)| life::Lease {
            owner: NAMES[owner].to_owned(),
            token: NEW_TOKEN.to_owned(),
            until: i64::from(until),
            cancel_requested: false,
            slots: Vec::new(),
        });
        let acked = (self.state == JobState::Succeeded).then_some(owner).flatten();
        let job = life::Job {
            kind: String::new(),
            state: self.state,
            attempts: i32::from(self.attempts),
            max_attempts: i32::from(bounds.max_attempts),
            due: i64::from(self.due),
            keys: Vec::new(),
            lease,
            acked_by: acked.map(|owner| (NAMES[owner].to_owned(), NEW_TOKEN.to_owned())),
            silent_in_a_row: 0,
            letter: None,
            replay_of: None,
        };
        queue.enqueue(JOB, job);
        queue
    }

    /// Packs what the core has left.
    fn pack(&mut self, queue: &Queue) {
        let job = &queue.jobs[JOB];
        self.state = job.state;
        self.attempts = job.attempts as u8;
        self.due = job.due as Instant;
        self.until = job.lease.as_ref().map(|lease| lease.until as Instant);
    }

    /// Puts the row where the state and the time say. Also says whether it rests where a claim can find it.
    pub fn put_down(&mut self, now: Instant) -> bool {
        self.row = match self.state {
            JobState::Queued | JobState::RetryWaiting if self.due > now => Row::Waiting,
            JobState::Queued | JobState::RetryWaiting => Row::Ready,
            _ => Row::None,
        };
        self.row == Row::Ready
    }

    pub fn claim(&mut self, bounds: &Bounds, who: usize, now: Instant) -> Option<&'static str> {
        self.ask(bounds, Question::Claim(who), None, now)
    }

    /// What is left of the job, and what `who` hears, who shows this token. `owner` is who holds the job, or has acked
    /// it.
    pub fn call(
        &self,
        bounds: &Bounds,
        call: Call,
        (who, token): (usize, Token),
        owner: Option<usize>,
        now: Instant,
    ) -> (Job, &'static str) {
        let is_unfenced = bounds.breaks(Mutation::DropFence) && owner == Some(who);
        let shown = if is_unfenced { Token::Fresh } else { token };
        let mut job = *self;
        let told = job.ask(bounds, Question::Call(call, who, shown), owner, now);
        (job, told.unwrap_or_default())
    }

    /// Takes the job from a holder whose lease has ended; None: it has not.
    pub fn expire(&mut self, bounds: &Bounds, owner: Option<usize>, now: Instant) -> Option<&'static str> {
        self.ask(bounds, Question::Expire, owner, now)
    }

    /// Asks the core. It is pure, so that each question is asked once.
    fn ask(&mut self, bounds: &Bounds, question: Question, owner: Option<usize>, now: Instant) -> Option<&'static str> {
        let terms = (bounds.max_attempts, bounds.retry_after);
        let key = (*self, question, owner, now, terms);
        let (job, told) = ANSWERS.with_borrow_mut(|answers| {
            *answers.entry(key).or_insert_with(|| {
                let mut queue = self.unpack(bounds, owner);
                let told = question.put_to(&mut queue, bounds, now);
                let mut job = *self;
                job.pack(&queue);
                (job, told)
            })
        });
        *self = job;
        told
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Question {
    Claim(usize),
    Call(Call, usize, Token),
    Expire,
}

type Asked = (Job, Question, Option<usize>, Instant, (u8, Instant));

thread_local!(static ANSWERS: RefCell<HashMap<Asked, (Job, Option<&'static str>)>> = RefCell::default());

impl Question {
    fn put_to(self, queue: &mut Queue, bounds: &Bounds, now: Instant) -> Option<&'static str> {
        let (lease, now) = (i64::from(LEASE), i64::from(now));
        let (call, who, token) = match self {
            Question::Expire => return queue.expire(JOB, now),
            Question::Claim(who) => {
                let worker = life::Worker { name: NAMES[who].to_owned(), worker_type: None };
                return Some(queue.claim(JOB, &worker, NEW_TOKEN, lease, now));
            }
            Question::Call(call, who, token) => (call, who, token),
        };
        let holder = Holder { owner: NAMES[who], token: token.text() };
        let retry_after = Some(f64::from(bounds.retry_after));
        Some(match call {
            Call::Start => queue.start(JOB, holder),
            Call::Extend => queue.extend(JOB, holder, lease, now),
            Call::Ack => queue.ack(JOB, holder),
            Call::Fail => {
                queue.fail(JOB, holder, Failed { class: "timeout", verdict: Verdict::Fail, retry_after }, now)
            }
            Call::Release => queue.release(JOB, holder),
        })
    }
}

/// No limits, no poison, and waits as workers ask for them.
fn terms() -> Terms {
    let policy = Policy { backoff: Backoff::doubling(1), retryable: None, non_retryable: Vec::new() };
    Terms { rules: Rules::default(), policy, max_crashes: 0 }
}
