//! All that there is at a moment: jobs, workers and what they remember, marks, transactions under way.
//!
//! Workers have no names of their own: they stand in order, so that two worlds in which only the names are exchanged
//! are the same world. Jobs do have their place, since ids decide between jobs of one instant; ids grow with the
//! inserts.

use crate::bounds::{Bounds, Mutation};
use crate::job::{Job, Row, Token};
use crate::lane::{Lane, STEP, Spot, Starts, Table};
use agentq_core::marks::LATE_US;

pub type Instant = i8;
pub const JOBS: usize = 3;
pub const WORKERS: usize = 3;
/// At most this many processes of a worker come back after somebody took them for dead.
pub const GHOSTS: usize = 2;

/// A job, or its insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    Absent,
    /// Its insert has announced itself at this instant, and has not committed.
    Announced(Instant),
    /// Committed. `settles`: its insert began at this instant and has still to see to the marks.
    There {
        settles: Option<Instant>,
        job: Job,
    },
}

/// A row that somebody has made visible to others, and for which he is about to lower the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owed {
    pub job: u8,
    pub at: Instant,
}

/// What a scan may rely on. Noted before its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reading {
    pub cap: Instant,
    /// Whether the lane has still the generation that was noted.
    pub is_fresh: bool,
    /// Whether it looks again, in full, if it finds nothing.
    pub may_look: bool,
}

/// Where the session of a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Session {
    Idle,
    /// Has noted its cap.
    Capped(Instant),
    /// Has noted what it may rely on. No marks: it looks in full.
    Noted {
        reading: Reading,
        marks: Option<Starts>,
    },
    /// Has begun a full look.
    Looks(Reading),
    /// Has its snapshot: the priorities that it reads, the rows in it that can still be taken, and what a full look
    /// found.
    Sees {
        reading: Reading,
        priorities: u8,
        rows: u8,
        found: Option<Starts>,
    },
    /// Has taken a job out of the ready ones, and has not committed. `raises`: it has still to raise the marks.
    Took {
        job: u8,
        at: Instant,
        raises: Option<(Reading, u8)>,
    },
    /// Its transaction has put a job back, and has still to lower the marks.
    Owes(Owed),
    /// Works at a job, as far as it knows.
    Holds {
        job: u8,
        token: Token,
    },
    /// There is no such worker.
    Missing,
}

/// A process that slept while another took over its name. It may come back at any time and go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ghost {
    pub job: u8,
    pub token: Token,
    /// It has put the job back, and has still to lower the marks.
    pub owes: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    pub session: Session,
    /// The jobs, as bits, whose last lease has its name.
    pub owns: u8,
    pub ghosts: [Option<Ghost>; GHOSTS],
}

/// What must not happen, and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A job that was committed is not there.
    JobVanished,
    /// A job took a way that the machine does not have.
    NoSuchArrow,
    /// A token of an older lease changed something, or its owner heard anything but `lease_lost`.
    StaleTokenCounted,
    /// The holder of the token heard `lease_lost` while nobody had taken the job.
    HolderWasRefused,
    /// A job that was held or finished was claimed.
    ClaimedTwice,
    AckedTwice,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Instant,
    pub crashes: u8,
    pub lane: Lane,
    pub jobs: [Entry; JOBS],
    pub workers: [Worker; WORKERS],
    /// The engine, which recovers and promotes one job at a time.
    pub engine: Option<Owed>,
    pub fault: Option<Fault>,
}

impl World {
    pub fn new(bounds: &Bounds) -> World {
        let worker = |number: usize| Worker {
            session: if number < bounds.workers { Session::Idle } else { Session::Missing },
            owns: 0,
            ghosts: [None; GHOSTS],
        };
        World {
            now: 0,
            crashes: 0,
            lane: Lane::default(),
            jobs: [Entry::Absent; JOBS],
            workers: std::array::from_fn(worker),
            engine: None,
            fault: None,
        }
    }

    pub fn job(&self, number: usize) -> Option<&Job> {
        match &self.jobs[number] {
            Entry::There { job, .. } => Some(job),
            _ => None,
        }
    }

    pub fn job_mut(&mut self, number: usize) -> Option<&mut Job> {
        match &mut self.jobs[number] {
            Entry::There { job, .. } => Some(job),
            _ => None,
        }
    }

    pub fn owner(&self, job: usize) -> Option<usize> {
        self.workers.iter().position(|worker| worker.owns & (1 << job) != 0)
    }

    pub fn set_owner(&mut self, job: usize, owner: Option<usize>) {
        for (number, worker) in self.workers.iter_mut().enumerate() {
            worker.owns &= !(1 << job);
            worker.owns |= u8::from(owner == Some(number)) << job;
        }
    }

    /// Whether a claim has taken the job and has not committed.
    pub fn is_taken(&self, job: usize) -> bool {
        let took = |worker: &Worker| matches!(worker.session, Session::Took { job: took, .. } if took as usize == job);
        self.workers.iter().any(took)
    }

    /// The jobs whose ready row everybody sees.
    pub fn ready(&self) -> impl Iterator<Item = usize> {
        (0..JOBS).filter(|number| self.job(*number).is_some_and(|job| job.row == Row::Ready))
    }

    /// How far a scan may raise a mark that begins now: to the present, or to when the oldest insert in flight began.
    /// One that counts as late anyway is left out.
    pub fn cap(&self, bounds: &Bounds) -> Instant {
        if bounds.breaks(Mutation::InsertIsNotAnnounced) {
            return self.now;
        }
        let began = self.jobs.iter().filter_map(|entry| match entry {
            Entry::Announced(began) | Entry::There { settles: Some(began), .. } => Some(*began),
            _ => None,
        });
        began.filter(|began| !is_late(*began, self.now)).min().unwrap_or(self.now)
    }

    /// What others are about to lower the marks for.
    pub fn owed(&self) -> impl Iterator<Item = Owed> {
        let of_workers = self.workers.iter().filter_map(|worker| match worker.session {
            Session::Owes(owed) => Some(owed),
            _ => None,
        });
        let ghosts = self.workers.iter().flat_map(|worker| worker.ghosts).flatten();
        let of_ghosts = ghosts.filter_map(|ghost| Some(Owed { job: ghost.job, at: ghost.owes? }));
        of_workers.chain(of_ghosts).chain(self.engine)
    }

    /// All that remember a claim of this job.
    pub fn tokens(&mut self, job: usize) -> impl Iterator<Item = &mut Token> {
        self.workers.iter_mut().flat_map(move |Worker { session, ghosts, .. }| {
            let held = match session {
                Session::Holds { job: held, token } if *held as usize == job => Some(token),
                _ => None,
            };
            let slept = ghosts.iter_mut().flatten().filter(move |ghost| ghost.job as usize == job);
            held.into_iter().chain(slept.map(|ghost| &mut ghost.token))
        })
    }

    /// What is remembered of claims of this job.
    pub fn remembered(&self, number: usize) -> impl Iterator<Item = Token> {
        self.workers.iter().flat_map(move |Worker { session, ghosts, .. }| {
            let held = match session {
                Session::Holds { job, token } if *job as usize == number => Some(*token),
                _ => None,
            };
            let slept = ghosts.iter().flatten().filter(move |ghost| ghost.job as usize == number);
            held.into_iter().chain(slept.map(|ghost| ghost.token))
        })
    }

    /// Lets the core change the marks. Who has noted an older generation may not raise them any more.
    pub fn change_marks<T>(&mut self, bounds: &Bounds, change: impl FnOnce(&mut Table) -> T) -> T {
        let (result, is_new) = self.lane.change(bounds.look_cost(), change);
        if is_new {
            self.outdate_readings();
        }
        result
    }

    pub fn outdate_readings(&mut self) {
        for worker in &mut self.workers {
            match &mut worker.session {
                Session::Noted { reading, .. }
                | Session::Looks(reading)
                | Session::Sees { reading, .. }
                | Session::Took { raises: Some((reading, _)), .. } => reading.is_fresh = false,
                _ => {}
            }
        }
    }

    pub fn lower(&mut self, bounds: &Bounds, owed: Owed) {
        let priority = i32::from(bounds.priorities[owed.job as usize]);
        let position = Spot::of(owed.at, owed.job as usize).position();
        self.change_marks(bounds, |table| table.0.lower(Table::TAG, priority, position));
    }
}

/// Whether an insert that began then and commits now counts as late.
pub fn is_late(began: Instant, now: Instant) -> bool {
    i64::from(now - began) * STEP > LATE_US
}
