//! All that can happen next, and what comes of it.
//!
//! A commit or a rollback has two steps, as in the server: first others see it, then the session puts the marks right.
//! A session of a worker that dies in a transaction is a rollback; one that dies between the two steps takes the server
//! with it, which is a crash of the server.

use crate::bounds::{Bounds, Call, Looks, Mutation};
use crate::checks;
use crate::job::{Job, Row, Token};
use crate::lane::{Lane, Spot};
use crate::world::{Entry, Fault, GHOSTS, Ghost, JOBS, Owed, Session, WORKERS, World, is_late};
use agentq_core::life::LEASE_LOST;
use agentq_core::state::JobState;
use stateright::{Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    TimePasses,
    /// A session is about to insert this job: it announces itself, and then reads the clock.
    Announce(usize),
    CommitInsert(usize),
    RollBackInsert(usize),
    /// The session that has inserted the job sees to the marks.
    SettleInsert(usize),
    /// This worker's claim goes on.
    Scan(usize),
    /// Somebody cancels this worker's claim before it has taken a job.
    Cancel(usize),
    CommitClaim(usize),
    RollBackClaim(usize),
    /// This worker's session lowers the marks for what it has put back.
    Lower(usize),
    Call(usize, Call),
    /// This worker's process falls silent, and another takes its name.
    FallSilent(usize),
    /// A process of this worker that was silent comes back.
    GhostCalls(usize, usize, Call),
    GhostLowers(usize, usize),
    /// The engine takes a job from a holder whose lease has expired.
    Recover(usize),
    /// The engine makes a job ready whose time has come.
    Promote(usize),
    EngineLowers,
    /// Another lane takes the place of this one in the table.
    CrowdOut,
    CrashServer {
        forgets_claims: bool,
    },
}

impl Bounds {
    fn steps_of_jobs(&self, world: &World, steps: &mut Vec<Step>) {
        let is_absent = |number: &usize| matches!(world.jobs[*number], Entry::Absent);
        // Ids grow with the inserts.
        steps.extend((0..self.jobs).find(is_absent).map(Step::Announce));
        for number in 0..self.jobs {
            match world.jobs[number] {
                Entry::Announced(_) => steps.extend([Step::CommitInsert(number), Step::RollBackInsert(number)]),
                Entry::There { settles: Some(_), .. } => steps.push(Step::SettleInsert(number)),
                _ => {}
            }
            let Some(job) = world.job(number).filter(|_| world.engine.is_none()) else { continue };
            if job.until.is_some_and(|until| until <= world.now) {
                steps.push(Step::Recover(number));
            }
            if job.row == Row::Waiting && job.due <= world.now {
                steps.push(Step::Promote(number));
            }
        }
    }

    fn steps_of_worker(&self, world: &World, who: usize, steps: &mut Vec<Step>) {
        let worker = &world.workers[who];
        match worker.session {
            Session::Idle => steps.push(Step::Scan(who)),
            Session::Capped(_) | Session::Noted { .. } | Session::Looks(_) | Session::Sees { .. } => {
                steps.push(Step::Scan(who));
                if self.is_fine {
                    steps.push(Step::Cancel(who));
                }
            }
            Session::Took { raises: Some(_), .. } => steps.push(Step::Scan(who)),
            Session::Took { raises: None, .. } => steps.extend([Step::CommitClaim(who), Step::RollBackClaim(who)]),
            Session::Owes(_) => steps.push(Step::Lower(who)),
            Session::Holds { .. } => {
                steps.extend(self.calls.iter().map(|call| Step::Call(who, *call)));
                if world.crashes < self.crashes && worker.ghosts[0].is_none() {
                    steps.push(Step::FallSilent(who));
                }
            }
            Session::Missing => {}
        }
        for number in 0..GHOSTS {
            match worker.ghosts[number] {
                Some(Ghost { owes: Some(_), .. }) => steps.push(Step::GhostLowers(who, number)),
                Some(_) => steps.extend(self.calls.iter().map(|call| Step::GhostCalls(who, number, *call))),
                None => {}
            }
        }
    }

    fn take(&self, world: &mut World, step: Step) {
        match step {
            Step::TimePasses => world.now += 1,
            Step::Announce(number) => world.jobs[number] = Entry::Announced(world.now),
            Step::CommitInsert(number) => world.commit_insert(self, number),
            Step::RollBackInsert(number) => world.jobs[number] = Entry::Absent,
            Step::SettleInsert(number) => world.settle_insert(self, number),
            Step::Scan(who) if self.is_fine => drop(world.scan_on(self, who)),
            Step::Scan(who) => world.scan_far(self, who),
            Step::Cancel(who) => world.workers[who].session = Session::Idle,
            Step::CommitClaim(who) => {
                if let Session::Took { job, at, .. } = world.workers[who].session {
                    world.commit_claim(self, who, job as usize, at);
                }
            }
            Step::RollBackClaim(who) => {
                if let Session::Took { job, .. } = world.workers[who].session {
                    world.roll_back_claim(self, who, job as usize);
                }
            }
            Step::Lower(who) => {
                if let Session::Owes(owed) = std::mem::replace(&mut world.workers[who].session, Session::Idle) {
                    world.lower(self, owed);
                }
            }
            Step::Call(who, call) => world.worker_calls(self, who, call),
            Step::FallSilent(who) => world.fall_silent(who),
            Step::GhostCalls(who, number, call) => world.ghost_calls(self, (who, number), call),
            Step::GhostLowers(who, number) => world.ghost_lowers(self, who, number),
            Step::Recover(number) => world.recover(self, number),
            Step::Promote(number) => {
                world.job_mut(number).into_iter().for_each(|job| job.row = Row::Ready);
                world.flush();
                world.engine = world.owe(self, number);
            }
            Step::EngineLowers => {
                if let Some(owed) = world.engine.take() {
                    world.lower(self, owed);
                }
            }
            Step::CrowdOut => {
                let now = world.now;
                world.change_marks(self, |table| table.crowd_out(now));
            }
            Step::CrashServer { forgets_claims } => world.crash(self, forgets_claims),
        }
    }
}

impl World {
    fn commit_insert(&mut self, bounds: &Bounds, number: usize) {
        if let Entry::Announced(began) = self.jobs[number] {
            let job = Job::new(began - bounds.back[number]);
            self.jobs[number] = Entry::There { settles: Some(began), job };
            self.flush();
        }
    }

    /// Lowers the mark for a row that came late, or behind the present, or that no mark leads to.
    fn settle_insert(&mut self, bounds: &Bounds, number: usize) {
        let Entry::There { settles, .. } = &mut self.jobs[number] else { return };
        let Some(began) = settles.take() else { return };
        // Where it was put when it was made: it may be elsewhere by now.
        let at = began - bounds.back[number];
        let spot = Spot::of(at, number);
        let behind = bounds.back[number] > 0;
        let late = is_late(began, self.now) && !bounds.breaks(Mutation::LateInsertKeepsMark);
        let adds = !bounds.breaks(Mutation::NewPriorityIsNotAdded);
        if behind || late || (adds && !self.lane.covers(bounds.priorities[number], spot)) {
            self.lower(bounds, Owed { job: number as u8, at });
        }
    }

    /// Lets every session that has ended a transaction see to the marks.
    fn settle_all(&mut self, bounds: &Bounds) {
        (0..JOBS).for_each(|number| self.settle_insert(bounds, number));
        self.engine.take().into_iter().for_each(|owed| self.lower(bounds, owed));
        for who in 0..WORKERS {
            if let Session::Owes(owed) = self.workers[who].session {
                self.workers[who].session = Session::Idle;
                self.lower(bounds, owed);
            }
            for number in 0..GHOSTS {
                self.ghost_lowers(bounds, who, number);
            }
        }
    }

    fn ghost_lowers(&mut self, bounds: &Bounds, who: usize, number: usize) {
        if let Some(ghost) = &mut self.workers[who].ghosts[number]
            && let Some(at) = ghost.owes.take()
        {
            let owed = Owed { job: ghost.job, at };
            self.lower(bounds, owed);
        }
    }

    /// A commit that waits for the disk takes all earlier ones there.
    fn flush(&mut self) {
        (0..JOBS).for_each(|number| self.job_mut(number).into_iter().for_each(|job| job.before_claim = None));
    }

    /// What a session that has put this job back is about to lower the marks for.
    fn owe(&self, bounds: &Bounds, number: usize) -> Option<Owed> {
        let job = self.job(number).filter(|job| job.row == Row::Ready)?;
        let keeps = bounds.breaks(Mutation::PutBackKeepsMark);
        Some(Owed { job: number as u8, at: job.due }).filter(|_| !keeps)
    }

    /// Somebody who shows this token calls. Answers whether he goes on holding the job, and what he owes the marks.
    fn call(
        &mut self,
        bounds: &Bounds,
        call: Call,
        (who, number, token): (usize, usize, Token),
    ) -> (bool, Option<Owed>) {
        let (owner, now) = (self.owner(number), self.now);
        let Some(before) = self.job(number).copied() else {
            self.fault = Some(Fault::JobVanished);
            return (false, None);
        };
        let (mut job, told) = before.call(bounds, call, (who, token), owner, now);
        let is_lost = told == LEASE_LOST;
        match token {
            Token::Stale if !is_lost || job != before => self.fault = Some(Fault::StaleTokenCounted),
            Token::Fresh if is_lost => self.fault = Some(Fault::HolderWasRefused),
            _ => {}
        }
        if before.state.is_finished() && told == JobState::Succeeded.name() {
            self.fault = Some(Fault::AckedTwice);
        }
        if job != before {
            self.flush();
            job.before_claim = None;
        }
        let has_ended = before.is_held() && !job.is_held();
        if has_ended {
            job.put_down(now);
        }
        self.job_mut(number).into_iter().for_each(|place| *place = job);
        // Who has acked may ask again, and hears that it has been done.
        if has_ended && job.state != JobState::Succeeded {
            self.end_lease(number);
        }
        (job.is_held() && !is_lost, if has_ended { self.owe(bounds, number) } else { None })
    }

    fn end_lease(&mut self, number: usize) {
        self.tokens(number).for_each(|token| *token = Token::Stale);
        self.set_owner(number, None);
    }

    pub(crate) fn worker_calls(&mut self, bounds: &Bounds, who: usize, call: Call) {
        let Session::Holds { job, token } = self.workers[who].session else { return };
        let (goes_on, owed) = self.call(bounds, call, (who, job as usize, token));
        if !goes_on {
            self.workers[who].session = owed.map_or(Session::Idle, Session::Owes);
        }
    }

    fn ghost_calls(&mut self, bounds: &Bounds, (who, number): (usize, usize), call: Call) {
        let Some(ghost) = self.workers[who].ghosts[number] else { return };
        let (_, owed) = self.call(bounds, call, (who, ghost.job as usize, ghost.token));
        if let Some(ghost) = &mut self.workers[who].ghosts[number] {
            ghost.owes = owed.map(|owed| owed.at);
        }
    }

    fn fall_silent(&mut self, who: usize) {
        let worker = &mut self.workers[who];
        if let Session::Holds { job, token } = worker.session {
            worker.session = Session::Idle;
            // Sorted, so that a free place is the first.
            worker.ghosts[0] = Some(Ghost { job, token, owes: None });
            self.crashes += 1;
        }
    }

    fn recover(&mut self, bounds: &Bounds, number: usize) {
        let (owner, now) = (self.owner(number), self.now);
        let Some(job) = self.job_mut(number) else { return };
        if job.expire(bounds, owner, now).is_some() {
            job.put_down(now);
            self.flush();
            self.end_lease(number);
            self.engine = self.owe(bounds, number);
        }
    }

    /// What was not committed is gone, and so are the marks. Workers remember what they knew.
    fn crash(&mut self, bounds: &Bounds, forgets_claims: bool) {
        self.crashes += 1;
        self.engine = None;
        if !bounds.breaks(Mutation::CrashKeepsMarks) {
            self.lane = Lane::default();
        }
        for worker in &mut self.workers {
            if !matches!(worker.session, Session::Holds { .. } | Session::Missing) {
                worker.session = Session::Idle;
            }
            worker.ghosts.iter_mut().flatten().for_each(|ghost| ghost.owes = None);
        }
        for number in 0..JOBS {
            match &mut self.jobs[number] {
                Entry::There { settles, job } => {
                    *settles = None;
                    if let Some(state) = job.before_claim.take().filter(|_| forgets_claims) {
                        (job.state, job.until, job.row) = (state, None, Row::Ready);
                        self.end_lease(number);
                    }
                }
                entry => *entry = Entry::Absent,
            }
        }
    }

    /// What holds for each step, whatever it is.
    fn compare(&mut self, before: &World) {
        for number in 0..JOBS {
            match (before.job(number), self.job(number)) {
                (Some(_), None) => self.fault = Some(Fault::JobVanished),
                (Some(old), Some(new)) if old.state != new.state && !old.state.may_become(new.state) => {
                    self.fault = Some(Fault::NoSuchArrow);
                }
                _ => {}
            }
        }
    }
}

impl Model for Bounds {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        if self.is_lean {
            assert!(self.jobs_are_alike() && self.mutation.is_none());
            assert!(!self.calls.contains(&Call::Fail) && self.looks == Looks::Dear);
            assert!(!self.calls.contains(&Call::Release) || !self.settles_later);
        }
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.fault.is_some() {
            return;
        }
        if world.now < self.last {
            steps.push(Step::TimePasses);
        }
        self.steps_of_jobs(world, steps);
        for who in 0..WORKERS {
            // Two workers in the same place do the same.
            if who == 0 || world.workers[who] != world.workers[who - 1] {
                self.steps_of_worker(world, who, steps);
            }
        }
        if world.engine.is_some() {
            steps.push(Step::EngineLowers);
        }
        if self.is_crowded {
            steps.push(Step::CrowdOut);
        }
        if world.crashes < self.crashes {
            steps.push(Step::CrashServer { forgets_claims: false });
            if (0..JOBS).any(|number| world.job(number).is_some_and(|job| job.before_claim.is_some())) {
                steps.push(Step::CrashServer { forgets_claims: true });
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        self.take(&mut next, step);
        if !self.settles_later {
            next.settle_all(self);
        }
        next.compare(world);
        next.tidy(self);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Bounds>> {
        checks::properties(self)
    }
}
