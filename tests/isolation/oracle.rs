//! What may come of two calls: what comes of them one after the other, in either order, and a short list of exceptions.

use crate::operations::{OPERATIONS, Operation, STATES};
use crate::outcome::Said;
use crate::stage::{Level, Outcome, Overlap, Stage};
use agentq_tests::shared_cluster;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// How many schedules are played at a time: many of them wait.
const AT_ONCE: usize = 5;

/// What was said, in the order of the two sessions, and what is left.
type Came = (Vec<String>, String);

pub struct Pair {
    pub state: &'static str,
    pub a: &'static Operation,
    pub b: &'static Operation,
    /// First `a`, then `b`, and the other way round.
    orders: [Came; 2],
    /// One of them alone.
    only_a: Came,
    only_b: Came,
    /// Neither.
    start: String,
}

/// Why an outcome that no order gives is right all the same. The document has a row for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exception {
    Skipped,
    WokenLater,
    SamePosition,
}

impl Exception {
    pub const ALL: [Exception; 3] = [Exception::Skipped, Exception::WokenLater, Exception::SamePosition];

    /// What the document says of it.
    pub fn reason(self) -> &'static str {
        match self {
            Exception::Skipped => "It takes what nobody has locked, and does not wait for the rest.",
            Exception::WokenLater => {
                "The sender delivers the signal and does not wait. The chore `clean_flow` wakes the job."
            }
            Exception::SamePosition => "Both begin at once, and so share their position.",
        }
    }
}

/// What a schedule has shown.
pub enum Verdict {
    InOrder,
    Excused(Exception),
    /// One was told to run its transaction again: by agentq in its call, or by the server at its COMMIT.
    RunAgain {
        told_by: &'static Operation,
        at_commit: bool,
    },
}

/// Every pair, with what its two orders come to. Found out once.
pub fn pairs() -> &'static [Pair] {
    static PAIRS: OnceLock<Vec<Pair>> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let wanted: Vec<(&'static str, &'static Operation, &'static Operation)> = STATES
            .iter()
            .flat_map(|state| {
                let fitting = move || OPERATIONS.iter().filter(move |op| op.fits(state));
                fitting().flat_map(move |a| fitting().map(move |b| (*state, a, b)))
            })
            .collect();
        let pairs = Mutex::new(Vec::with_capacity(wanted.len()));
        on_stages(&wanted, |stage, alone, (state, a, b)| {
            let mut alone = |calls: &[(&'static Operation, &'static str)]| -> Came {
                let names = calls.first().map(|(op, me)| (op.name, *me));
                alone.entry((*state, names)).or_insert_with(|| stage.in_turn(state, calls)).clone()
            };
            let (only_a, only_b, start) = (alone(&[(a, "a")]), alone(&[(b, "b")]), alone(&[]).1);
            let ab = stage.in_turn(state, &[(a, "a"), (b, "b")]);
            let (mut said, left) = stage.in_turn(state, &[(b, "b"), (a, "a")]);
            said.reverse();
            let pair = Pair { state, a, b, orders: [ab, (said, left)], only_a, only_b, start };
            pairs.lock().expect("no panic").push(pair);
        });
        pairs.into_inner().expect("no panic")
    })
}

/// What calls come to that are alone, by state, operation and session.
type Alone = HashMap<(&'static str, Option<(&'static str, &'static str)>), Came>;

/// Does the work on each item, on several stages at a time.
pub fn on_stages<T: Sync>(items: &[T], work: impl Fn(&mut Stage<'_>, &mut Alone, &T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let (mut stage, mut alone) = (Stage::new(shared_cluster()), Alone::new());
                while let Some(item) = items.get(next.fetch_add(1, Ordering::SeqCst)) {
                    work(&mut stage, &mut alone, item);
                }
            });
        }
    });
}

impl Pair {
    /// What one schedule shows, or what is wrong with it.
    pub fn judge(&self, level: Level, overlap: Overlap, outcome: &Outcome) -> Result<Verdict, String> {
        if outcome.left.contains("UNSOUND") {
            return Err("the queue is not sound".to_owned());
        }
        let calls = [(self.a, &outcome.first, &self.only_b), (self.b, &outcome.second, &self.only_a)];
        for (op, said, other) in calls {
            if said.sqlstate() == Some("40001") {
                self.may_be_told(op, said, level, overlap)?;
                return run_again(op, false, outcome, other);
            }
        }
        let ends = [(self.a, &outcome.first_end, &self.only_b), (self.b, &outcome.second_end, &self.only_a)];
        for (op, end, other) in ends {
            match end {
                Some(end) if level == Level::Serializable && end.sqlstate() == Some("40001") => {
                    return run_again(op, true, outcome, other);
                }
                Some(end) => return Err(format!("the COMMIT of {} failed: {end:?}", op.name)),
                None => {}
            }
        }
        let said = vec![outcome.first.short(), outcome.second.short()];
        let came = (said, outcome.left.clone());
        let possible = self.possible(overlap);
        if possible.contains(&came) {
            return Ok(Verdict::InOrder);
        }
        self.excuse(overlap, &came).map(Verdict::Excused).ok_or_else(|| format!("possible is {possible:#?}"))
    }

    /// What the two may come to, without exceptions.
    fn possible(&self, overlap: Overlap) -> Vec<Came> {
        if overlap == Overlap::Rollback {
            return vec![(vec![self.only_a.0[0].clone(), self.only_b.0[0].clone()], self.only_b.1.clone())];
        }
        self.orders.to_vec()
    }

    /// Who may be told to run the transaction again, and in which words.
    fn may_be_told(&self, op: &Operation, said: &Said, level: Level, overlap: Overlap) -> Result<(), String> {
        let Said::Error { message, hint, .. } = said else { return Ok(()) };
        if !level.is_fixed() {
            return Err(format!("{} failed with {said:?} where every statement sees what is new", op.name));
        }
        if overlap == Overlap::Rollback {
            return Err(format!("{} failed with {said:?}, though nothing has changed", op.name));
        }
        // Which row was changed only the predicate locks of SERIALIZABLE say, and they cannot be passed over.
        if op.is_one_of(&["claim", "reap", "promote", "deadlines", "job_get"]) && level == Level::RepeatableRead {
            return Err(format!("{} has only to pass over what has changed, and failed with {said:?}", op.name));
        }
        if message.contains("could not serialize") || !hint.starts_with("Run the transaction again") {
            return Err(format!("{} failed with the server's own words: {said:?}", op.name));
        }
        Ok(())
    }

    fn excuse(&self, overlap: Overlap, (said, left): &Came) -> Option<Exception> {
        let sides = [(self.a, self.b, &said[1], &self.only_a), (self.b, self.a, &said[0], &self.only_b)];
        // Of two that are one after the other, only the second can have been in the way of the first.
        let sides = if overlap == Overlap::Race { &sides[..] } else { &sides[..1] };
        for (first, second, answer, alone) in sides {
            let untouched = if overlap == Overlap::Rollback { left == &self.start } else { left == &alone.1 };
            let skips = second.is_one_of(&["claim", "reap", "promote", "deadlines", "purge", "letter_purge"]);
            let found_none = ["empty", "ticked 0 rows", "purged 0"].contains(&answer.as_str());
            // Who keeps one snapshot leaves a head behind which somebody has put a job since.
            let behind = first.name == "enqueue_order" && self.state == "late";
            if skips && found_none && untouched && (first.locks_for(second) || behind) {
                return Some(Exception::Skipped);
            }
            if second.name == "signal_send" && first.is_one_of(&["cancel", "change", "move_to_dead_letter", "claim"]) {
                let same =
                    |(words, came): &Came| words == said && came.replace(" later", "") == left.replace(" later", "");
                if self.possible(overlap).iter().any(same) {
                    return Some(Exception::WokenLater);
                }
            }
        }
        let begins = |op: &Operation| op.is_one_of(&["step_begin", "step_begin_another", "sleep", "signal_wait"]);
        let same = |(words, came): &Came| words == said && without_positions(came) == without_positions(left);
        (begins(self.a) && begins(self.b) && self.orders.iter().any(same)).then_some(Exception::SamePosition)
    }
}

/// One has to run again: only the other may have left anything.
fn run_again(op: &'static Operation, at_commit: bool, outcome: &Outcome, other: &Came) -> Result<Verdict, String> {
    if outcome.left == other.1 {
        Ok(Verdict::RunAgain { told_by: op, at_commit })
    } else {
        Err(format!("{} did not count, but the other alone leaves: {}", op.name, other.1))
    }
}

/// Steps without their number.
fn without_positions(left: &str) -> String {
    let mut lines: Vec<String> = left
        .split("; ")
        .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            ["step", name, _, status, attempts] => format!("step {name} {status} {attempts}"),
            _ => line.to_owned(),
        })
        .collect();
    lines.sort();
    lines.join("; ")
}

/// Counts by name.
pub type Counts = BTreeMap<String, usize>;
