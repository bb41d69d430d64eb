//! How large a world is, what happens in it, and what is broken in it on purpose.

use crate::lane::LATEST_LOOK;
use crate::world::{Instant, JOBS};

/// What a worker says of the job that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Start,
    Extend,
    Ack,
    Fail,
    Release,
}

impl Call {
    pub const ALL: &[Call] = &[Call::Start, Call::Extend, Call::Ack, Call::Fail, Call::Release];
}

/// What a full look costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// Nothing: each claim that finds nothing looks in full before it says "empty".
    Cheap,
    /// So much that no second look comes before the last instant: claims have only the marks to go by.
    Dear,
}

/// A rule that this model breaks. `agentq_core` stays as it is: the model hands it the wrong thing, or does not ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// A call of a worker compares the owner only: any token of that owner fits.
    DropFence,
    /// A scan raises marks whatever has happened since it noted the generation.
    RaiseIgnoresGeneration,
    /// A full look keeps what it found whatever has happened since it noted the generation.
    LearnIgnoresGeneration,
    /// A scan raises marks as far as it has read, without a cap.
    RaiseAboveCap,
    /// A scan notes its cap after its snapshot.
    CapAfterSnapshot,
    /// A claim that is rolled back leaves the marks as they are.
    RollbackKeepsMark,
    /// A job that is given back, retried or recovered leaves the marks as they are.
    PutBackKeepsMark,
    /// An insert that commits late leaves the marks as they are.
    LateInsertKeepsMark,
    /// An insert of a priority that the lane does not know does not add it.
    NewPriorityIsNotAdded,
    /// An insert does not announce itself.
    InsertIsNotAnnounced,
    /// The marks outlive a crash of the server.
    CrashKeepsMarks,
}

#[derive(Clone, Debug)]
pub struct Bounds {
    pub jobs: usize,
    pub workers: usize,
    /// Crashes of the server, or of workers, all together.
    pub crashes: u8,
    /// Time goes from instant 0 to this one.
    pub last: Instant,
    pub max_attempts: u8,
    /// 0 or 1 for each job.
    pub priorities: [u8; JOBS],
    /// How many instants before its insert a job is scheduled.
    pub back: [Instant; JOBS],
    /// What holders do.
    pub calls: &'static [Call],
    /// Instants from a failure to the next try.
    pub retry_after: Instant,
    /// Whether others may come between each two accesses of a scan to what it shares with them. If not, a scan has two
    /// steps: it notes everything and takes its snapshot; it keeps what it learned, takes a job and raises the marks.
    pub is_fine: bool,
    /// Whether others may come between a commit, or a rollback, and what the session then does to the marks.
    pub settles_later: bool,
    pub looks: Looks,
    /// Whether another lane may take the place of this one.
    pub is_crowded: bool,
    /// Whether a crash of the server may undo claims after which nothing has been flushed.
    pub forgets_claims: bool,
    /// Whether worlds leave out what can make no difference; see `tidy`. For jobs of one priority that keep their place
    /// and are never given up, and for rules that hold.
    pub is_lean: bool,
    pub mutation: Option<Mutation>,
}

impl Bounds {
    /// One job, one worker, no crash, and nobody but the holder does anything with the job.
    pub const SMALL: Bounds = Bounds {
        jobs: 1,
        workers: 1,
        crashes: 0,
        last: 2,
        max_attempts: 2,
        priorities: [0; JOBS],
        back: [0; JOBS],
        calls: &[Call::Ack],
        retry_after: 0,
        is_fine: false,
        settles_later: true,
        looks: Looks::Dear,
        is_crowded: false,
        forgets_claims: false,
        is_lean: false,
        mutation: None,
    };

    pub fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Whether all inserts are the same.
    pub fn jobs_are_alike(&self) -> bool {
        self.priorities == [0; JOBS] && self.back == [0; JOBS]
    }

    /// What a full look takes, in microseconds.
    pub fn look_cost(&self) -> i64 {
        match self.looks {
            Looks::Cheap => 0,
            Looks::Dear => LATEST_LOOK,
        }
    }
}
