//! The model on its own: its answers, and what must hold however it is walked.

use super::sessions::Sessions;
use super::*;
use crate::limits::Rule;
use crate::retry::Backoff;
use proptest::prelude::*;

const KINDS: [&str; 2] = ["a", "b"];
const RULES: [(&str, u32); 4] = [("global", 5), ("tenant:*", 2), ("kind:a", 3), ("worker:crew:*", 1)];
const CLASSES: [&str; 3] = ["timeout", "validation_error", "poison_task"];

fn terms() -> Terms {
    let rule = |most| Rule { max_concurrent: Some(most), ..Rule::default() };
    Terms {
        rules: Rules::new(RULES.map(|(key, most)| (key.to_owned(), rule(most)))),
        policy: Policy { backoff: Backoff::doubling(10), retryable: None, non_retryable: Vec::new() },
        max_crashes: 3,
    }
}

fn worker(name: &str) -> Worker {
    Worker { name: name.to_owned(), worker_type: None }
}

fn job(max_attempts: i32) -> Job {
    Job::new("default", "b", &["tenant:1".to_owned()], max_attempts, 0)
}

/// A queue with a job that `ann` holds with the token `t` for 60 seconds from 0 on.
fn held(max_attempts: i32) -> Queue {
    let mut queue = Queue::new(terms());
    queue.enqueue("j", job(max_attempts));
    assert_eq!(queue.claim("j", &worker("ann"), "t", 60, 0), "claimed");
    queue
}

const ANN: Holder<'static> = Holder { owner: "ann", token: "t" };
const TIMEOUT: Failed<'static> = Failed { class: "timeout", verdict: Verdict::Fail, retry_after: None };

#[test]
fn only_the_holder_of_the_token_ends_a_job_and_only_once() {
    let mut queue = held(5);
    for (owner, token) in [("bob", "t"), ("ann", "u")] {
        assert_eq!(queue.ack("j", Holder { owner, token }), LEASE_LOST);
    }
    assert_eq!(
        (queue.start("j", ANN), queue.start("j", ANN), queue.ack("j", ANN)),
        ("started", "started", "succeeded")
    );
    assert_eq!((queue.ack("j", ANN), queue.cancel("j")), (ALREADY_FINISHED, ALREADY_FINISHED));
    assert_eq!(queue.held("tenant:1"), 0);
}

#[test]
fn a_failure_waits_and_the_last_one_leaves_a_letter() {
    let mut queue = held(2);
    assert_eq!(queue.fail("j", ANN, TIMEOUT, 5), "retry_waiting");
    assert_eq!((queue.jobs["j"].due, queue.claim("j", &worker("ann"), "t", 60, 14)), (15, "empty"));
    assert_eq!(queue.claim("j", &worker("ann"), "t", 60, 15), "claimed");
    assert_eq!(queue.fail("j", ANN, TIMEOUT, 16), "dead_letter");
    assert_eq!(queue.jobs["j"].letter, Some(Letter { reason: Reason::Exhausted, redriven_as: None }));
    assert_eq!((queue.redrive("j", "k", false), queue.redrive("j", "l", false)), ("redriven", "already_redriven"));
    assert_eq!(queue.redrive("j", "l", true), "redriven");
    assert_eq!(queue.jobs["l"].replay_of.as_deref(), Some("j"));
    assert_eq!((queue.jobs.len(), queue.jobs["k"].attempts, &queue.jobs["k"].keys), (3, 0, &queue.jobs["j"].keys));
}

#[test]
fn a_job_that_silences_its_workers_is_poison() {
    let mut queue = held(9);
    assert_eq!((queue.expire("j", 59), queue.expire("j", 60)), (None, Some("queued")));
    queue.claim("j", &worker("ann"), "t", 60, 60);
    assert_eq!(queue.release("j", ANN), "released");
    // Counted anew since it was given back.
    for (round, end) in ["queued", "queued", "dead_letter"].into_iter().enumerate() {
        assert_eq!(queue.claim("j", &worker("ann"), "t", 60, 1000 * round as i64 + 100), "claimed");
        assert_eq!(queue.expire("j", 1000 * round as i64 + 160), Some(end));
    }
    assert_eq!(queue.jobs["j"].attempts, 4);
    assert_eq!(queue.jobs["j"].letter.as_ref().map(|letter| letter.reason), Some(Reason::Poison));
}

#[test]
fn a_requested_cancel_ends_the_job_when_its_holder_lets_go() {
    let ends: [fn(&mut Queue) -> Option<&'static str>; 4] = [
        |queue| Some(queue.release("j", ANN)),
        |queue| Some(queue.fail("j", ANN, TIMEOUT, 1)),
        |queue| queue.expire("j", 60),
        |queue| Some(queue.ack("j", ANN)),
    ];
    for (end, state) in ends.into_iter().zip(["cancelled", "cancelled", "cancelled", "succeeded"]) {
        let mut queue = held(1);
        assert_eq!(queue.cancel("j"), "cancel_requested");
        assert_eq!((end(&mut queue), &queue.jobs["j"].letter), (Some(state), &None));
    }
}

#[test]
fn a_slot_is_free_for_others_when_its_end_has_committed_and_for_oneself_before() {
    let mut all = Sessions::new(2, terms());
    for id in ["1", "2", "3", "4"] {
        all.act(0, |queue| queue.enqueue(id, job(5)));
    }
    let claim = |all: &mut Sessions, who, id: &str| {
        all.act(who, |queue| queue.claim(id, &worker("ann"), &format!("t{id}"), 60, 0))
    };
    assert_eq!((claim(&mut all, 0, "1"), claim(&mut all, 0, "2")), ("claimed", "claimed"));
    all.begin(0);
    all.act(0, |queue| queue.ack("1", Holder { owner: "ann", token: "t1" }));
    assert_eq!((claim(&mut all, 1, "3"), all.counted("tenant:1")), ("empty", 2));
    all.savepoint(0);
    assert_eq!((claim(&mut all, 0, "3"), claim(&mut all, 0, "4")), ("claimed", "empty"));
    assert_eq!(all.counted("tenant:1"), 2);
    all.leave_savepoint(0, false);
    all.end(0, true);
    assert_eq!((all.counted("tenant:1"), claim(&mut all, 1, "4")), (1, "claimed"));
    // A claim that is rolled back gives its slot back.
    all.act(1, |queue| queue.ack("4", Holder { owner: "ann", token: "t4" }));
    all.begin(0);
    assert_eq!((claim(&mut all, 0, "3"), claim(&mut all, 1, "3")), ("claimed", "empty"));
    all.end(0, false);
    assert_eq!(claim(&mut all, 1, "3"), "claimed");
}

/// One step of a walk: who, what, and two numbers that say to which job and how.
type Step = (usize, usize, usize, usize);

struct Walk {
    all: Sessions,
    now: i64,
    /// How many jobs each session has made and not committed, at each of its savepoints.
    made: Vec<Vec<usize>>,
    committed: usize,
    ids: usize,
}

impl Walk {
    fn id(&mut self) -> String {
        self.ids += 1;
        format!("job {}", self.ids)
    }

    fn make(&mut self, who: usize) {
        match self.made[who].last_mut() {
            Some(made) => *made += 1,
            None => self.committed += 1,
        }
    }

    /// Opens, ends and nests transactions; what follows goes to the model of the jobs.
    fn step(&mut self, (who, what, which, how): Step) {
        match what {
            0 if !self.all.is_open(who) => {
                self.all.begin(who);
                self.made[who].push(0);
            }
            0 if self.all.savepoints(who) < 2 => {
                self.all.savepoint(who);
                let made = self.made[who].last().copied().unwrap_or_default();
                self.made[who].push(made);
            }
            1 if self.all.savepoints(who) > 0 => {
                self.all.leave_savepoint(who, how.is_multiple_of(2));
                let made = self.made[who].pop().unwrap_or_default();
                if let Some(outer) = self.made[who].last_mut().filter(|_| how.is_multiple_of(2)) {
                    *outer = made;
                }
            }
            1 => {
                self.all.end(who, how % 3 > 0);
                self.committed += self.made[who].pop().filter(|_| how % 3 > 0).unwrap_or_default();
            }
            2 => self.now += 30,
            _ => self.act(who, what, which, how),
        }
    }

    fn act(&mut self, who: usize, what: usize, which: usize, how: usize) {
        let now = self.now;
        let new = self.id();
        if what < 6 {
            let job = Job::new("q", KINDS[how % 2], &[format!("tenant:{}", which % 3)], how as i32 % 4 + 1, now);
            self.all.act(who, |queue| queue.enqueue(&new, job));
            return self.make(who);
        }
        let view = self.all.view(who);
        let free: Vec<&String> = view.jobs.keys().filter(|id| !self.all.is_locked(who, id)).collect();
        let Some(id) = free.get(which % free.len().max(1)).copied() else { return };
        let before = &view.jobs[id];
        let token = before.lease.as_ref().map(|lease| (lease.owner.clone(), lease.token.clone())).unwrap_or_default();
        let holder = Holder { owner: &token.0, token: &token.1 };
        let me = Worker { name: format!("w{who}"), worker_type: how.is_multiple_of(3).then(|| "crew".to_owned()) };
        let verdict = [Verdict::Fail, Verdict::Fail, Verdict::Cancel, Verdict::Discard][how % 4];
        let failed = Failed { class: CLASSES[how % 3], verdict, retry_after: how.is_multiple_of(5).then_some(7.0) };
        let redriven = before.letter.is_some() && what == 15;
        let code = self.all.act(who, |queue| match what {
            6..10 => queue.claim(id, &me, &new, 60, now),
            10 => queue.ack(id, holder),
            11 => queue.fail(id, holder, failed, now),
            12 => queue.release(id, holder),
            13 => queue.expire(id, now).unwrap_or(LEASE_LOST),
            14 => queue.cancel(id),
            15 if redriven => queue.redrive(id, &new, how.is_multiple_of(2)),
            16 => queue.start(id, holder),
            17 if how == 0 => queue.move_to_dead_letter(id),
            _ => queue.extend(id, holder, 90, now),
        });
        if code == "redriven" {
            self.make(who);
        }
        let after = &self.all.view(who).jobs[id];
        let same = before.state == after.state;
        assert!(same || before.state.may_become(after.state), "{code}: {before:?} -> {after:?}");
    }

    fn check(&self) {
        let jobs = &self.all.committed().jobs;
        assert_eq!(jobs.len(), self.committed, "jobs were lost, or came from nowhere");
        for key in ["global", "tenant:0", "tenant:1", "tenant:2", "kind:a", "worker:crew:w0", "worker:crew:w1"] {
            let most = terms().rules.slots(key).unwrap_or_default();
            let counted = self.all.counted(key);
            assert!(self.all.committed().held(key) <= counted && counted <= most, "{key}: {counted}");
        }
        for job in jobs.values() {
            let is_held = matches!(job.state, JobState::Leased | JobState::InProgress);
            assert_eq!(job.lease.is_some(), is_held, "{job:?}");
            assert!(job.state == JobState::DeadLetter || job.letter.is_none() || job.state == JobState::Cancelled);
            assert!(job.letter.is_some() || job.state != JobState::DeadLetter, "{job:?}");
            assert!(job.state.is_finished() || job.attempts < job.max_attempts, "{job:?}");
            let lineage = job.replay_of.as_ref().map(|old| jobs[old].letter.as_ref().map(|letter| &letter.redriven_as));
            assert!(lineage.is_none_or(|made| made.is_some_and(Option::is_some)), "{job:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_is_done_the_machine_the_limits_and_the_number_of_jobs_hold(
        steps in proptest::collection::vec((0_usize..4, 0_usize..18, 0_usize..1000, 0_usize..60), 1..300),
    ) {
        let mut walk =
            Walk { all: Sessions::new(4, terms()), now: 0, made: vec![Vec::new(); 4], committed: 0, ids: 0 };
        for step in steps {
            walk.step(step);
            walk.check();
        }
    }
}
