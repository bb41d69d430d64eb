//! Every confirmed enqueue, and every confirmed mission, exists exactly once, and nothing exists that nobody asked for.

use super::books::{Asked, Books};
use super::snapshot::Snapshot;
use super::{Moved, Problem, Rule};
use crate::ledger::Micros;
use std::collections::HashMap;
use uuid::Uuid;

/// Jobs that no producer has asked for by themselves: of missions' steps, of compensations, and of a schedule.
const OF_ITSELF: [&str; 5] = ["step", "book", "pay", "unbook", "scheduled"];

pub fn check(books: &Books, snapshot: &Snapshot, moved: &Moved) -> Vec<Problem> {
    let asked_for = snapshot.jobs.iter().filter(|(_, job)| !OF_ITSELF.contains(&job.kind.as_str()));
    let jobs = asked_for.map(|(id, job)| (*id, job.key.as_str()));
    let missions = snapshot.missions.iter().map(|(id, (key, _))| (*id, key.as_deref().unwrap_or_default()));
    let mut problems = compare("job", &books.keys, jobs);
    problems.extend(compare("mission", &books.missions, missions));
    problems.extend(side_by_side(snapshot, moved));
    for job in &books.cancelled {
        let state = snapshot.jobs.get(job).map_or("nowhere", |job| job.state.as_str());
        if state != "cancelled" {
            problems.push(Problem::new(Rule::Final, format!("job {job} was cancelled, and is {state}")));
        }
    }
    problems
}

/// An enqueue looks at the clock before it looks for the key. A job with the same key that ends in between does so, by its time, after
/// the new one was made.
const BETWEEN: Micros = 2_000_000;

/// While a job with a key is unfinished, there is no other with that key: a second ask is told of the first.
fn side_by_side(snapshot: &Snapshot, moved: &Moved) -> Vec<Problem> {
    let mut by_key: HashMap<&str, Vec<(Micros, Micros)>> = HashMap::new();
    for job in snapshot.jobs.values() {
        by_key.entry(&job.key).or_default().push((job.created, job.finished.unwrap_or(Micros::MAX)));
    }
    let of = |(key, mut lives): (&str, Vec<(Micros, Micros)>)| {
        lives.sort_unstable();
        let overlap = |both: &&[(Micros, Micros)]| {
            both[0].1 > both[1].0.saturating_add(BETWEEN) && !moved.touches(both[0].0, both[1].0)
        };
        let both = lives.windows(2).find(overlap)?;
        let text = format!("the key {key} has two jobs at once, made {} µs apart", both[1].0 - both[0].0);
        Some(Problem::new(Rule::NothingTwice, text))
    };
    by_key.into_iter().filter_map(of).collect()
}

fn compare<'a>(
    what: &str,
    asked: &HashMap<String, Asked>,
    found: impl Iterator<Item = (Uuid, &'a str)>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut by_key: HashMap<&str, Vec<Uuid>> = HashMap::new();
    for (id, key) in found {
        by_key.entry(key).or_default().push(id);
    }
    for (key, asked) in asked {
        let there = by_key.remove(key.as_str()).unwrap_or_default();
        for id in asked.told.iter().filter(|id| !there.contains(id)) {
            problems.push(Problem::new(Rule::NothingLost, format!("{what} {id} with the key {key} was confirmed")));
        }
        // An ask without an answer may have made one more.
        if there.len() > asked.told.len() + asked.unknown() {
            let text = format!("the key {key} has {what}s {there:?}, and was confirmed as {:?}", asked.told);
            problems.push(Problem::new(Rule::NothingTwice, text));
        }
    }
    for (key, there) in by_key {
        let text = format!("nobody has asked for {what}s {there:?} with the key {key}");
        problems.push(Problem::new(Rule::NothingTwice, text));
    }
    problems
}
