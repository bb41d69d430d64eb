//! What makes no difference to anything that can still happen is left out, so that worlds that differ in nothing else
//! are one.
//!
//! All worlds: workers have no names of their own, and stand in order; a job to come has a higher number than those
//! that are there, where jobs are alike. Lean worlds, in addition:
//!
//! - A token of an older lease is forgotten. `checks` tries one on every job in every state instead.
//! - A mark, and a cap, is compared only with places where a job stands or will stand. What lies between two of them is
//!   moved to the later one.
//! - A job that has finished keeps no place among the others: those that are left move up.

use crate::bounds::{Bounds, Mutation};
use crate::job::{LEASE, Token};
use crate::lane::{Spot, Starts};
use crate::world::{Entry, Instant, JOBS, Owed, Session, World};

/// The job to come, in a spot, before the jobs have their new numbers.
const NEXT: u8 = JOBS as u8 + 2;

impl World {
    pub fn tidy(&mut self, bounds: &Bounds) {
        let heeds =
            !bounds.breaks(Mutation::RaiseIgnoresGeneration) && !bounds.breaks(Mutation::LearnIgnoresGeneration);
        for worker in &mut self.workers {
            // What an outdated scan has noted, it will not use.
            if let Session::Sees { reading, priorities, rows, found } = &mut worker.session
                && heeds
                && !reading.is_fresh
                && !reading.may_look
            {
                (reading.cap, *priorities, *found) = (self.now, 0, None);
                if *rows == 0 {
                    worker.session = Session::Idle;
                }
            }
        }
        if bounds.is_lean {
            self.forget_old_tokens();
        }
        for number in 0..JOBS {
            let Entry::There { settles: None, job } = &mut self.jobs[number] else { continue };
            if job.state.is_finished() {
                (job.attempts, job.due) = (0, 0);
                if self.tokens(number).all(|token| *token == Token::Stale) {
                    self.set_owner(number, None);
                }
            }
        }
        if bounds.is_lean {
            self.round();
        }
        if bounds.jobs_are_alike() {
            self.move_up(bounds);
        }
        self.workers.iter_mut().for_each(|worker| worker.ghosts.sort_unstable());
        self.workers.sort_unstable();
    }

    /// Who has an old token, or that of a job that he has acked, has nothing to do but to hear so.
    fn forget_old_tokens(&mut self) {
        let is_over = self.jobs.map(|entry| matches!(entry, Entry::There { job, .. } if job.state.is_finished()));
        let now = self.now;
        for worker in &mut self.workers {
            // Whether a lease has expired makes a difference, but not since when.
            if let Session::Took { at, .. } = &mut worker.session
                && *at + LEASE <= now
            {
                *at = now - LEASE;
            }
            if let Session::Holds { job, token } = worker.session
                && (token == Token::Stale || is_over[job as usize])
            {
                worker.session = Session::Idle;
            }
            for place in &mut worker.ghosts {
                place.take_if(|ghost| {
                    ghost.owes.is_none() && (ghost.token == Token::Stale || is_over[ghost.job as usize])
                });
            }
        }
        for number in 0..JOBS {
            if let Some(job) = self.job_mut(number) {
                job.attempts = 0;
                job.until = job.until.map(|until| if until <= now { 0 } else { until });
            }
        }
    }

    /// Where jobs stand that have not finished, or whose insert has still to see to the marks.
    fn standing(&self) -> [Option<Spot>; JOBS] {
        std::array::from_fn(|number| match self.jobs[number] {
            Entry::Absent => None,
            Entry::Announced(began) => Some(Spot::of(began, number)),
            Entry::There { settles: None, job } if job.state.is_finished() => None,
            Entry::There { job, .. } => Some(Spot::of(job.due, number)),
        })
    }

    /// Moves marks and caps to the next place where a job stands, or else to where the next to come will.
    fn round(&mut self) {
        let (now, standing) = (self.now, self.standing());
        let next = |spot: Spot| {
            let later = standing.iter().flatten().filter(|other| **other >= spot).min();
            later.copied().unwrap_or(Spot { at: now, job: NEXT })
        };
        let round_all = |starts: &mut Starts| starts.iter_mut().flatten().for_each(|spot| *spot = next(*spot));
        let round_cap = |cap: &mut Instant| *cap = next(Spot { at: *cap, job: 0 }).at;
        let round_owed = |owed: &mut Owed| {
            if standing[owed.job as usize].is_none() {
                let spot = next(Spot::of(owed.at, owed.job as usize));
                *owed = Owed { job: spot.job - 1, at: spot.at };
            }
        };
        self.lane.starts_mut().into_iter().for_each(round_all);
        self.engine.iter_mut().for_each(round_owed);
        for worker in &mut self.workers {
            match &mut worker.session {
                Session::Capped(cap) => round_cap(cap),
                Session::Noted { reading, marks } => {
                    round_cap(&mut reading.cap);
                    marks.iter_mut().for_each(round_all);
                }
                Session::Looks(reading) | Session::Took { raises: Some((reading, _)), .. } => {
                    round_cap(&mut reading.cap)
                }
                Session::Sees { reading, found, .. } => {
                    round_cap(&mut reading.cap);
                    found.iter_mut().for_each(round_all);
                }
                Session::Owes(owed) => round_owed(owed),
                _ => {}
            }
        }
    }

    /// Gives the jobs new numbers: those to come are the last, since ids grow with the inserts. In a lean world those
    /// that stand somewhere are the first, in their order, and those that have finished go behind those to come.
    fn move_up(&mut self, bounds: &Bounds) {
        let standing = self.standing();
        let mut order: [usize; JOBS] = std::array::from_fn(|number| number);
        order[..bounds.jobs].sort_by_key(|number| match (standing[*number], self.jobs[*number]) {
            (Some(spot), _) => (0, bounds.is_lean.then_some(spot)),
            (None, Entry::Absent) => (1, None),
            (None, _) => (if bounds.is_lean { 2 } else { 0 }, None),
        });
        let mut new = [0; NEXT as usize];
        order.iter().enumerate().for_each(|(place, number)| new[*number] = place as u8);
        new[NEXT as usize - 1] = standing.iter().flatten().count() as u8;
        let move_bits = |bits: &mut u8| {
            *bits = (0..JOBS).filter(|one| *bits & (1 << one) != 0).fold(0, |all, one| all | 1 << new[one])
        };
        let move_spots = |starts: &mut Starts| {
            starts
                .iter_mut()
                .flatten()
                .filter(|spot| spot.job > 0)
                .for_each(|spot| spot.job = new[spot.job as usize - 1] + 1)
        };
        let move_job = |job: &mut u8| *job = new[*job as usize];
        self.jobs = order.map(|number| self.jobs[number]);
        self.lane.starts_mut().into_iter().for_each(move_spots);
        self.engine.iter_mut().for_each(|owed| move_job(&mut owed.job));
        for worker in &mut self.workers {
            move_bits(&mut worker.owns);
            worker.ghosts.iter_mut().flatten().for_each(|ghost| move_job(&mut ghost.job));
            match &mut worker.session {
                Session::Noted { marks, .. } => marks.iter_mut().for_each(move_spots),
                Session::Sees { rows, found, .. } => {
                    move_bits(rows);
                    found.iter_mut().for_each(move_spots);
                }
                Session::Took { job, .. } | Session::Owes(Owed { job, .. }) | Session::Holds { job, .. } => {
                    move_job(job)
                }
                _ => {}
            }
        }
    }
}
