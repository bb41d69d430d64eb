//! Compares what was confirmed to producers and workers with what the database has. Every rule is a file, and every problem names the
//! rule that it breaks. `tests/planted` plants faults of each kind, which must be found.

mod attempts;
pub mod books;
mod effects;
mod jobs;
mod leaks;
mod leases;
mod places;
pub mod snapshot;

use crate::ledger::Micros;
use books::Books;
pub use effects::effects;
pub use leaks::{drained, overdue, slots};
use snapshot::Snapshot;
use std::fmt;
use std::time::Duration;

/// How long counts that are read one after the other may disagree.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What is promised, and was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Every confirmed enqueue exists.
    NothingLost,
    /// It exists once, and nothing exists that nobody asked for.
    NothingTwice,
    /// A confirmed ack, or cancel, is final.
    Final,
    /// No two holders have valid leases at once.
    OneHolder,
    /// Every claim is an attempt, and attempts add up.
    AttemptsAddUp,
    /// A worker's own row and its ack are both there, or neither.
    Together,
    /// No job is outside of the state machine, or in no place, or in two.
    States,
    /// No slot, budget, key or ordering key stays taken.
    NothingLeaks,
    /// Nothing but the faults themselves is met as an error.
    NoSurprise,
    /// Work stands still no longer than is stated of the fault.
    NoStall,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub rule: Rule,
    pub what: String,
}

impl Problem {
    pub fn new(rule: Rule, what: impl Into<String>) -> Problem {
        Problem { rule, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// Times at which the clock was moved: what happened then is not compared by its time.
#[derive(Clone, Debug, Default)]
pub struct Moved(Vec<(Micros, Micros)>);

impl Moved {
    pub fn add(&mut self, from: Micros, to: Micros) {
        self.0.push((from, to));
    }

    pub fn touches(&self, from: Micros, to: Micros) -> bool {
        self.0.iter().any(|(start, end)| from <= *end && *start <= to)
    }
}

/// The longest time between these two in which nobody was told of an ack, in seconds; a breach if it is longer than stated.
pub fn stall(books: &Books, from: Micros, to: Micros, stated: f64) -> (f64, Option<Problem>) {
    let stall = books.longest_silence(from, to);
    let problem = || Problem::new(Rule::NoStall, format!("nobody was told of an ack for {stall:.1} s"));
    (stall, (stall > stated).then(problem))
}

/// Everything that can be said of one snapshot.
pub fn everything(books: &Books, snapshot: &Snapshot, moved: &Moved) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(jobs::check(books, snapshot, moved));
    problems.extend(attempts::check(books, snapshot, moved));
    problems.extend(leases::check(books, snapshot, moved));
    problems.extend(places::check(snapshot));
    problems.extend(books.surprises.iter().map(|surprise| Problem::new(Rule::NoSurprise, surprise.clone())));
    problems
}
