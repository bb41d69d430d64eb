//! One holder at a time: by the attempts, by what the holders themselves believed, and among the jobs of an ordering key. Times at which
//! the clock was moved are left out.

use super::books::{Books, Claim};
use super::snapshot::{Attempt, Snapshot};
use super::{Moved, Problem, Rule};
use crate::ledger::Micros;
use std::collections::HashMap;
use uuid::Uuid;

pub fn check(books: &Books, snapshot: &Snapshot, moved: &Moved) -> Vec<Problem> {
    let mut problems = by_attempts(snapshot, moved);
    problems.extend(ended_early(books, snapshot, moved));
    problems.extend(by_belief(books, moved));
    problems.extend(by_order(books, snapshot, moved));
    problems
}

/// No attempt begins before the one before it has ended.
fn by_attempts(snapshot: &Snapshot, moved: &Moved) -> Vec<Problem> {
    let overlaps = |pair: &[Attempt]| {
        let (first, second) = (&pair[0], &pair[1]);
        let ended = first.ended.unwrap_or(Micros::MAX);
        ended > second.began && !moved.touches(first.began, second.began)
    };
    let of = |(job, attempts): (&Uuid, &Vec<Attempt>)| {
        let both = attempts.windows(2).find(|pair| overlaps(pair))?;
        let text = format!("job {job}: attempt {} begins before {} has ended", both[1].number, both[0].number);
        Some(Problem::new(Rule::OneHolder, text))
    };
    snapshot.attempts.iter().filter_map(of).collect()
}

/// A lease that was confirmed until a time is not recovered before.
fn ended_early(books: &Books, snapshot: &Snapshot, moved: &Moved) -> Vec<Problem> {
    let of = |(token, claim): (&Uuid, &Claim)| {
        let attempt = snapshot.attempt(claim.job, *token)?;
        let ended = attempt.ended.filter(|_| attempt.outcome.as_deref() == Some("lease_expired"))?;
        let early = ended < claim.until && !moved.touches(attempt.began, claim.until);
        let text = format!("job {} was taken from {} {} µs too early", claim.job, claim.owner, claim.until - ended);
        early.then(|| Problem::new(Rule::OneHolder, text))
    };
    books.claims.iter().filter_map(of).collect()
}

/// From when it was told of its claim until its lease runs out, or it asks for its end, a holder may believe that it is the only one.
fn by_belief(books: &Books, moved: &Moved) -> Vec<Problem> {
    let mut by_job: HashMap<Uuid, Vec<(Micros, Micros, &str)>> = HashMap::new();
    for claim in books.claims.values().filter(|claim| !claim.doubted) {
        let until = claim.ending_at.unwrap_or(Micros::MAX).min(claim.until);
        if !moved.touches(claim.at, claim.until) {
            by_job.entry(claim.job).or_default().push((claim.at, until, &claim.owner));
        }
    }
    overlapping(by_job, |job| format!("job {job}"))
}

/// Of the jobs with one ordering key, one is under way at a time, from its first attempt to its end.
fn by_order(books: &Books, snapshot: &Snapshot, moved: &Moved) -> Vec<Problem> {
    let mut by_key: HashMap<String, Vec<(Micros, Micros, String)>> = HashMap::new();
    for (job, key) in &books.orders {
        let attempts = snapshot.attempts.get(job).map(Vec::as_slice).unwrap_or_default();
        let (Some(first), Some(last)) = (attempts.first(), attempts.last()) else { continue };
        let finished = snapshot.jobs.get(job).is_some_and(|job| is_finished(&job.state));
        let end = last.ended.filter(|_| finished).unwrap_or(Micros::MAX);
        if !moved.touches(first.began, end.min(last.began)) {
            by_key.entry(key.clone()).or_default().push((first.began, end, job.to_string()));
        }
    }
    let borrowed = by_key
        .iter()
        .map(|(key, spans)| (key.clone(), spans.iter().map(|(from, to, job)| (*from, *to, job.as_str())).collect()))
        .collect();
    overlapping(borrowed, |key| format!("ordering key {key}"))
}

pub fn is_finished(state: &str) -> bool {
    ["succeeded", "failed", "dead_letter", "cancelled"].contains(&state)
}

fn overlapping<K: std::hash::Hash + Eq>(
    spans: HashMap<K, Vec<(Micros, Micros, &str)>>,
    name: impl Fn(&K) -> String,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, mut spans) in spans {
        spans.retain(|(from, until, _)| from < until);
        spans.sort_unstable();
        for pair in spans.windows(2).filter(|pair| pair[0].1 > pair[1].0) {
            let text = format!(
                "{}: {} and {} at once, for {} µs",
                name(&key),
                pair[0].2,
                pair[1].2,
                pair[0].1.min(pair[1].1) - pair[1].0
            );
            problems.push(Problem::new(Rule::OneHolder, text));
        }
    }
    problems
}
