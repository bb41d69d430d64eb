//! Every pair of operations, from every state, at each level.

use crate::document;
use crate::operations::Operation;
use crate::oracle::{Counts, Exception, Pair, Verdict, on_stages, pairs};
use crate::stage::{Level, Overlap};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// What the schedules of one level have shown.
#[derive(Default)]
struct Shown {
    counts: Counts,
    exceptions: BTreeSet<Exception>,
    /// Which operations were told to run again, in a call.
    told: BTreeSet<&'static str>,
    wrong: Vec<String>,
}

impl Shown {
    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }
}

fn play(level: Level, overlaps: &[Overlap]) -> Shown {
    let schedules: Vec<(&Pair, Overlap)> =
        pairs().iter().flat_map(|pair| overlaps.iter().map(move |overlap| (pair, *overlap))).collect();
    let shown = Mutex::new(Shown::default());
    on_stages(&schedules, |stage, _, (pair, overlap)| {
        let outcome = stage.play(pair.state, level, *overlap, pair.a, pair.b);
        let verdict = pair.judge(level, *overlap, &outcome);
        let mut shown = shown.lock().expect("no panic");
        shown.count("schedules");
        if outcome.waited {
            shown.count("the second waits for the first");
        }
        match verdict {
            Ok(Verdict::InOrder) => shown.count("as one after the other"),
            Ok(Verdict::Excused(exception)) => {
                shown.exceptions.insert(exception);
                shown.count(&format!("{exception:?}"));
            }
            Ok(Verdict::RunAgain { at_commit: true, .. }) => shown.count("run again, said by the server at COMMIT"),
            Ok(Verdict::RunAgain { told_by, .. }) => {
                shown.count("run again, said by agentq");
                shown.told.insert(told_by.name);
            }
            Err(why) => shown
                .wrong
                .push(format!("{}: {} and {}, {overlap:?}\n{outcome:#?}\n{why}", pair.state, pair.a.name, pair.b.name)),
        }
    });
    let shown = shown.into_inner().expect("no panic");
    println!("{}: {:#?}", level.sql(), shown.counts);
    let wrong = &shown.wrong;
    assert!(
        wrong.is_empty(),
        "{} schedules of {}:\n{}",
        wrong.len(),
        level.sql(),
        wrong[..wrong.len().min(5)].join("\n")
    );
    shown
}

#[test]
fn at_read_committed_two_calls_come_to_what_one_order_gives_and_nobody_has_to_run_again() {
    let shown = play(Level::ReadCommitted, &[Overlap::Commit, Overlap::Rollback, Overlap::Race]);
    assert!(shown.counts["the second waits for the first"] > 0);
    // Each exception is needed, and none is missing in the document.
    assert_eq!(shown.exceptions, Exception::ALL.into());
    document::has_the_exceptions();
}

#[test]
fn at_repeatable_read_two_calls_come_to_what_one_order_gives_or_one_is_told_to_run_again() {
    let shown = play(Level::RepeatableRead, &[Overlap::Commit, Overlap::Rollback, Overlap::Before, Overlap::Race]);
    document::names_who_is_told(&shown.told);
}

#[test]
fn at_serializable_two_calls_come_to_what_one_order_gives_or_one_is_told_to_run_again() {
    play(Level::Serializable, &[Overlap::Commit, Overlap::Before]);
}

/// Two that give up a late job and both pass over what is locked must not leave it to each other: one race shows that in
/// one of thirty tries only.
#[test]
fn of_two_that_give_up_a_late_job_at_the_same_time_one_does() {
    let giving_up = |op: &Operation| op.is_one_of(&["claim", "deadlines"]);
    let late = pairs().iter().filter(|pair| pair.state == "late" && giving_up(pair.a) && giving_up(pair.b));
    let races: Vec<&Pair> = late.flat_map(|pair| std::iter::repeat_n(pair, 60)).collect();
    assert_eq!(races.len(), 240);
    on_stages(&races, |stage, _, pair| {
        let outcome = stage.play(pair.state, Level::ReadCommitted, Overlap::Race, pair.a, pair.b);
        assert!(outcome.left.contains("it dead_letter"), "{} and {}: {outcome:#?}", pair.a.name, pair.b.name);
    });
}
