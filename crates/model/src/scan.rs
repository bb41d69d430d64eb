//! A claim, step by step, in the order of `src/queue/claim/search.rs`.
//!
//! It notes its cap, then generation and marks; a full look announces itself; then comes the snapshot. A full look keeps
//! what it found. The claim takes the first job from there on that nobody has, and raises the marks up to it. All of
//! this comes before it commits.

use crate::bounds::{Bounds, Mutation};
use crate::job::{Row, Token};
use crate::lane::{FRESH, PRIORITIES, STALE, Spot, Starts, Table, micros, to_marks};
use crate::world::{Fault, Instant, JOBS, Owed, Reading, Session, World};
use agentq_core::marks::Position;

impl World {
    /// Takes the next step of the scan of a worker, who may be about to begin one. False: there is none.
    pub fn scan_on(&mut self, bounds: &Bounds, who: usize) -> bool {
        self.workers[who].session = match self.workers[who].session {
            Session::Idle => Session::Capped(self.cap(bounds)),
            Session::Capped(cap) => self.note(bounds, cap),
            Session::Noted { reading, marks: None } => self.begin_look(bounds, reading),
            Session::Noted { reading, marks: Some(marks) } => self.see(bounds, reading, &marks),
            Session::Looks(reading) => self.see_all(bounds, reading),
            Session::Sees { reading, priorities, rows, found: Some(found) } => {
                self.learn(bounds, reading, &found);
                Session::Sees { reading, priorities, rows, found: None }
            }
            Session::Sees { reading, priorities, rows, found: None } => self.take(bounds, reading, priorities, rows),
            Session::Took { job, at, raises: Some((reading, priorities)) } => {
                self.raise_to(bounds, reading, priorities, job as usize);
                Session::Took { job, at, raises: None }
            }
            _ => return false,
        };
        true
    }

    /// Scans until the snapshot is taken; or, from there on, until a job is taken or the scan has ended.
    pub fn scan_far(&mut self, bounds: &Bounds, who: usize) {
        if matches!(self.workers[who].session, Session::Sees { found: Some(_), .. }) {
            self.scan_on(bounds, who);
        }
        while self.scan_on(bounds, who) {
            if !matches!(
                self.workers[who].session,
                Session::Capped(_) | Session::Noted { .. } | Session::Looks(_) | Session::Took { raises: Some(_), .. }
            ) {
                return;
            }
        }
    }

    fn note(&self, bounds: &Bounds, cap: Instant) -> Session {
        let noted = self.lane.note(self.now, bounds.look_cost());
        let marks = noted.marks.filter(|_| !noted.must_look);
        let may_look = marks.is_some() && noted.may_look;
        Session::Noted { reading: Reading { cap, is_fresh: noted.is_there, may_look }, marks }
    }

    fn begin_look(&mut self, bounds: &Bounds, reading: Reading) -> Session {
        if self.lane.begin_look(self.now, bounds.look_cost()) {
            self.outdate_readings();
        }
        Session::Looks(Reading { is_fresh: true, may_look: false, ..reading })
    }

    fn spot(&self, job: usize) -> Option<Spot> {
        self.job(job).map(|job_there| Spot::of(job_there.due, job))
    }

    /// A snapshot, read from the marks on.
    fn see(&self, bounds: &Bounds, reading: Reading, marks: &Starts) -> Session {
        let reached = |job: &usize| {
            marks[bounds.priorities[*job] as usize].is_some_and(|from| self.spot(*job).is_some_and(|spot| from <= spot))
        };
        let rows = self.ready().filter(reached).fold(0, |rows, job| rows | 1 << job);
        Session::Sees { reading, priorities: listed(marks), rows, found: None }
    }

    /// A snapshot, read from the front on.
    fn see_all(&self, bounds: &Bounds, reading: Reading) -> Session {
        let mut found = Starts::default();
        for job in self.ready() {
            let first = &mut found[bounds.priorities[job] as usize];
            let spot = self.spot(job);
            *first = first.map_or(spot, |before| spot.map(|spot| spot.min(before)));
        }
        let rows = self.ready().fold(0, |rows, job| rows | 1 << job);
        Session::Sees { reading, priorities: listed(&found), rows, found: Some(found) }
    }

    /// What a full look hands to the core.
    fn learn(&mut self, bounds: &Bounds, reading: Reading, found: &Starts) {
        let cap = self.cap_of(bounds, reading);
        self.change_marks(bounds, |table| {
            let ignores = bounds.breaks(Mutation::LearnIgnoresGeneration);
            let generation = if ignores { table.generation() } else { noted_by(reading) };
            table.0.learn(Table::TAG, generation, &to_marks(found), cap, bounds.look_cost());
        });
    }

    /// Takes the first job in the snapshot that nobody has.
    fn take(&mut self, bounds: &Bounds, reading: Reading, priorities: u8, rows: u8) -> Session {
        let free = |job: &usize| rows & (1 << job) != 0 && !self.is_taken(*job);
        let first = (0..JOBS).filter(free).min_by_key(|job| (bounds.priorities[*job], self.spot(*job)));
        if let Some(job) = first {
            return Session::Took { job: job as u8, at: self.now, raises: Some((reading, priorities)) };
        }
        self.raise(bounds, reading, (0..PRIORITIES as u8).filter(|one| priorities & (1 << one) != 0), Spot::END);
        if reading.may_look { Session::Noted { reading, marks: None } } else { Session::Idle }
    }

    /// Nothing is left before the job that was taken.
    fn raise_to(&mut self, bounds: &Bounds, reading: Reading, priorities: u8, job: usize) {
        let last = bounds.priorities[job];
        self.raise(bounds, reading, (0..last).filter(|one| priorities & (1 << one) != 0), Spot::END);
        if let Some(spot) = self.spot(job) {
            self.raise(bounds, reading, std::iter::once(last), spot);
        }
    }

    fn raise(&mut self, bounds: &Bounds, reading: Reading, priorities: impl Iterator<Item = u8>, to: Spot) {
        let cap = self.cap_of(bounds, reading);
        self.change_marks(bounds, |table| {
            let ignores = bounds.breaks(Mutation::RaiseIgnoresGeneration);
            let generation = if ignores { table.generation() } else { noted_by(reading) };
            let to = if to == Spot::END { Position::at(i64::MAX) } else { to.position() };
            priorities.for_each(|one| table.0.raise(Table::TAG, generation, i32::from(one), to, cap));
        });
    }

    fn cap_of(&self, bounds: &Bounds, reading: Reading) -> i64 {
        match bounds.mutation {
            Some(Mutation::RaiseAboveCap) => i64::MAX,
            Some(Mutation::CapAfterSnapshot) => micros(self.cap(bounds)),
            _ => micros(reading.cap),
        }
    }

    /// The claim commits: the job is held from the moment on at which it was taken.
    pub fn commit_claim(&mut self, bounds: &Bounds, who: usize, number: usize, at: Instant) {
        let Some(mut job) = self.job(number).copied() else { return };
        let before = job.state;
        if job.claim(bounds, who, at) != Some("claimed") {
            self.fault = Some(Fault::ClaimedTwice);
        }
        job.row = Row::None;
        job.before_claim = bounds.forgets_claims.then_some(before);
        self.job_mut(number).into_iter().for_each(|place| *place = job);
        self.hide_row(number);
        self.tokens(number).for_each(|token| *token = Token::Stale);
        self.set_owner(number, Some(who));
        self.workers[who].session = Session::Holds { job: number as u8, token: Token::Fresh };
    }

    /// The claim is rolled back: others can take the job at once, and the marks follow.
    pub fn roll_back_claim(&mut self, bounds: &Bounds, who: usize, number: usize) {
        let at = self.job(number).map_or(0, |job| job.due);
        let lowers = !bounds.breaks(Mutation::RollbackKeepsMark);
        let owed = Session::Owes(Owed { job: number as u8, at });
        self.workers[who].session = if lowers { owed } else { Session::Idle };
    }

    /// The row is gone for good: who has it in his snapshot cannot take it.
    fn hide_row(&mut self, number: usize) {
        for worker in &mut self.workers {
            if let Session::Sees { rows, .. } = &mut worker.session {
                *rows &= !(1 << number);
            }
        }
    }
}

fn noted_by(reading: Reading) -> u64 {
    if reading.is_fresh { FRESH } else { STALE }
}

/// The priorities that have a mark, as bits.
fn listed(marks: &Starts) -> u8 {
    (0..PRIORITIES).filter(|one| marks[*one].is_some()).fold(0, |bits, one| bits | 1 << one)
}
