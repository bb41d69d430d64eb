//! Every confirmed enqueue, and every confirmed mission, exists exactly once, and nothing exists that nobody asked for.

use super::books::{Asked, Books};
use super::snapshot::Snapshot;
use super::{Problem, Rule};
use std::collections::HashMap;
use uuid::Uuid;

/// The jobs of missions' steps, which no producer has asked for by itself.
const STEP: &str = "step";

pub fn check(books: &Books, snapshot: &Snapshot) -> Vec<Problem> {
    let jobs = snapshot.jobs.iter().filter(|(_, job)| job.kind != STEP).map(|(id, job)| (*id, job.key.as_str()));
    let missions = snapshot.missions.iter().map(|(id, (key, _))| (*id, key.as_deref().unwrap_or_default()));
    let mut problems = compare("job", &books.keys, jobs);
    problems.extend(compare("mission", &books.missions, missions));
    for job in &books.cancelled {
        let state = snapshot.jobs.get(job).map_or("nowhere", |job| job.state.as_str());
        if state != "cancelled" {
            problems.push(Problem::new(Rule::Final, format!("job {job} was cancelled, and is {state}")));
        }
    }
    problems
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
