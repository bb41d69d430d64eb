//! What must hold in every state, and what must come up somewhere, so that the first says something.

use crate::bounds::{Bounds, Call};
use crate::job::{Job, Row, Token};
use crate::lane::{Lane, Spot, UNTIL_NEXT_LOOK};
use crate::world::{Entry, Fault, Instant, JOBS, Session, World};
use agentq_core::life::LEASE_LOST;
use agentq_core::state::JobState;
use stateright::Property;
use std::cell::RefCell;
use std::collections::HashMap;

pub const NOT_LOST: &str = "no job is lost: each is ready, held or finished";
pub const ONE_HOLDER: &str = "no job has two holders";
pub const FENCED: &str = "a token of an older lease changes nothing";
pub const HEARD: &str = "the holder of a lease is heard";
pub const ACKED_ONCE: &str = "a job is acked once";
pub const NOT_HIDDEN: &str = "no mark hides a ready job, unless somebody is about to lower it";
pub const CLAIMED: &str = "a worker who claims and acks gets every ready job";

/// Lane, jobs, now, the jobs to get, and whether to wait.
type Alone = (Lane, [Entry; JOBS], Instant, u8, bool);

/// A job, who holds or has acked it, and now.
type Asked = (Job, Option<usize>, Instant);

// Each thread walks worlds of one kind. What it has found once it need not find again.
thread_local! {
    static DRAINS: RefCell<HashMap<Alone, bool>> = RefCell::default();
    static REFUSALS: RefCell<HashMap<Asked, bool>> = RefCell::default();
}

type Check = Property<Bounds>;

pub fn properties(bounds: &Bounds) -> Vec<Check> {
    let mut all = vec![
        Check::always(NOT_LOST, |_, world| {
            !matches!(world.fault, Some(Fault::JobVanished | Fault::NoSuchArrow)) && world.every_job_is_in_one_place()
        }),
        Check::always(ONE_HOLDER, |_, world| {
            world.fault != Some(Fault::ClaimedTwice) && world.every_held_job_has_one_holder()
        }),
        Check::always(FENCED, |bounds, world| {
            world.fault != Some(Fault::StaleTokenCounted) && (!bounds.is_lean || world.refuses_old_tokens(bounds))
        }),
        Check::always(HEARD, |_, world| world.fault != Some(Fault::HolderWasRefused)),
        Check::always(ACKED_ONCE, |_, world| world.fault != Some(Fault::AckedTwice)),
        Check::always(NOT_HIDDEN, |bounds, world| world.hides_nothing(bounds)),
        Check::always(CLAIMED, |bounds, world| world.drains(bounds)),
    ];
    all.extend(occurrences(bounds));
    all
}

/// What comes up somewhere in these worlds. One in which it does not is not walked as it should be.
fn occurrences(bounds: &Bounds) -> Vec<Check> {
    let mut all = vec![
        Check::sometimes("every job is finished, after all crashes", |bounds, world| {
            let is_over = |number| world.job(number).is_some_and(|job| job.state.is_finished());
            world.crashes == bounds.crashes && (0..bounds.jobs).all(is_over)
        }),
        Check::sometimes("a mark is raised", |_, world| world.lane.is_raised()),
    ];
    if bounds.workers > 1 {
        all.push(Check::sometimes("a scan is overtaken", |_, world| {
            let is_overtaken = |session| matches!(session, Session::Sees { reading, .. } if !reading.is_fresh);
            world.workers.iter().any(|worker| is_overtaken(worker.session))
        }));
    }
    if bounds.workers > 1 && !bounds.is_lean {
        all.push(Check::sometimes("a worker has slept through its lease while another holds the job", |_, world| {
            let is_held = |number| world.job(number).is_some_and(Job::is_held);
            (0..JOBS).any(|number| is_held(number) && world.remembered(number).any(|token| token == Token::Stale))
        }));
    }
    if bounds.settles_later {
        all.push(Check::sometimes("a mark hides a job for a moment", |bounds, world| {
            world.ready().any(|number| !world.is_taken(number) && !world.is_led_to(bounds, number))
        }));
    }
    if !bounds.is_lean {
        all.push(Check::sometimes("a job is given up", |_, world| {
            (0..JOBS).any(|number| world.job(number).is_some_and(|job| job.state == JobState::DeadLetter))
        }));
    }
    if bounds.retry_after > 0 {
        all.push(Check::sometimes("a job waits", |_, world| {
            (0..JOBS).any(|number| world.job(number).is_some_and(|job| job.row == Row::Waiting))
        }));
    }
    if bounds.forgets_claims {
        // No lease expires before the first instant.
        all.push(Check::sometimes("a crash undoes a claim that a worker remembers", |_, world| {
            world.now == 0 && (0..JOBS).any(|number| world.remembered(number).any(|token| token == Token::Stale))
        }));
    }
    all
}

impl World {
    fn every_job_is_in_one_place(&self) -> bool {
        let is_right = |job: &Job| {
            let rests = matches!(job.state, JobState::Queued | JobState::RetryWaiting);
            let is_held = matches!(job.state, JobState::Leased | JobState::InProgress);
            let places = [job.row != Row::None, job.is_held(), job.state.is_finished()];
            places == [rests, is_held, job.state.is_finished()]
                && places.iter().filter(|is_there| **is_there).count() == 1
        };
        (0..JOBS).filter_map(|number| self.job(number)).all(is_right)
    }

    /// Any other job has none, but for the one who has acked it and may ask again.
    fn every_held_job_has_one_holder(&self) -> bool {
        (0..JOBS).all(|number| {
            let owners = self.workers.iter().filter(|worker| worker.owns & (1 << number) != 0).count();
            let fresh = self.fresh_tokens(number);
            match self.job(number) {
                Some(job) if job.is_held() => owners == 1 && fresh == 1,
                Some(job) if job.state == JobState::Succeeded => owners <= 1 && fresh <= 1,
                _ => owners == 0 && fresh == 0,
            }
        })
    }

    fn fresh_tokens(&self, number: usize) -> usize {
        self.remembered(number).filter(|token| *token == Token::Fresh).count()
    }

    /// Whether nobody can do anything with an older token of any job, whatever his name is.
    fn refuses_old_tokens(&self, bounds: &Bounds) -> bool {
        let (now, workers) = (self.now, bounds.workers);
        let refuses = |job: &Job, owner: Option<usize>| {
            let asked = (0..workers).flat_map(|who| Call::ALL.iter().map(move |call| (who, *call)));
            asked
                .into_iter()
                .all(|(who, call)| job.call(bounds, call, (who, Token::Stale), owner, now) == (*job, LEASE_LOST))
        };
        (0..JOBS).all(|number| {
            let (Some(job), owner) = (self.job(number), self.owner(number)) else { return true };
            REFUSALS.with_borrow_mut(|known| *known.entry((*job, owner, now)).or_insert_with(|| refuses(job, owner)))
        })
    }

    fn is_led_to(&self, bounds: &Bounds, number: usize) -> bool {
        self.job(number).is_none_or(|job| self.lane.leads_to(bounds.priorities[number], Spot::of(job.due, number)))
    }

    /// Whether a scan from the marks comes by every ready job for which nobody is about to lower the marks.
    fn hides_nothing(&self, bounds: &Bounds) -> bool {
        let is_hidden = |number: usize| {
            let Entry::There { settles: None, job } = self.jobs[number] else { return false };
            !self.is_led_to(bounds, number)
                && !self.is_taken(number)
                && !self.owed().any(|owed| owed.job as usize == number && owed.at <= job.due)
        };
        !self.ready().any(is_hidden)
    }

    /// Lets one worker that is free claim and ack until it hears "empty", while all others stand still, and says
    /// whether it got every job that was ready and that no other claim had taken. It begins at once, or, if somebody is
    /// about to lower the marks, when the next full look is due.
    fn drains(&self, bounds: &Bounds) -> bool {
        let wanted = self.ready().filter(|number| !self.is_taken(*number)).fold(0, |bits, number| bits | 1 << number);
        let free = self.workers.iter().position(|worker| worker.session == Session::Idle);
        let (Some(who), true) = (free, wanted > 0) else { return true };
        let settles = self.jobs.iter().any(|entry| matches!(entry, Entry::There { settles: Some(_), .. }));
        let waits = settles || self.owed().next().is_some();
        // Nothing else makes a difference to one who works alone.
        let key = (self.lane, self.jobs, self.now, wanted, waits);
        DRAINS.with_borrow_mut(|known| {
            *known.entry(key).or_insert_with(|| self.clone().drain(bounds, who, wanted, waits))
        })
    }

    fn drain(mut self, bounds: &Bounds, who: usize, wanted: u8, waits: bool) -> bool {
        if waits {
            self.now += UNTIL_NEXT_LOOK;
        }
        while self.claim_alone(bounds, who) {
            self.worker_calls(bounds, who, Call::Ack);
        }
        let is_done = |number| self.job(number).is_some_and(|job| job.state == JobState::Succeeded);
        (0..JOBS).all(|number| wanted & (1 << number) == 0 || is_done(number))
    }

    fn claim_alone(&mut self, bounds: &Bounds, who: usize) -> bool {
        while self.scan_on(bounds, who) {
            if self.workers[who].session == Session::Idle {
                return false;
            }
        }
        if let Session::Took { job, at, .. } = self.workers[who].session {
            self.commit_claim(bounds, who, job as usize, at);
        }
        true
    }
}
