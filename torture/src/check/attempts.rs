//! Every confirmed claim is an attempt, with the end that was confirmed; an ack is final; the numbers add up; and a worker's own row is
//! there exactly if its ack is.

use super::books::{Books, Claim, Told};
use super::snapshot::{Attempt, Job, Snapshot};
use super::{Moved, Problem, Rule};
use crate::ledger::End;
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// Ends that nobody but the holder of the token can bring about.
const BY_HOLDER: [&str; 4] = ["succeeded", "failed", "released", "snoozed"];

pub fn check(books: &Books, snapshot: &Snapshot, moved: &Moved) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (token, claim) in &books.claims {
        match snapshot.attempt(claim.job, *token) {
            None if claim.doubted => {}
            None => {
                let text = format!("{} held job {} with {token}, and there is no such attempt", claim.owner, claim.job);
                let acked = claim.told == Some(Told::Ended(End::Ack));
                problems.extend(acked.then(|| Problem::new(Rule::Final, format!("its ack was confirmed: {text}"))));
                problems.push(Problem::new(Rule::AttemptsAddUp, text));
            }
            Some(attempt) => problems.extend(compare(claim, attempt, snapshot.jobs.get(&claim.job), moved)),
        }
    }
    problems.extend(unexplained(books, snapshot));
    for (id, job) in &snapshot.jobs {
        let attempts = snapshot.attempts.get(id).map(Vec::as_slice).unwrap_or_default();
        // Attempts are numbered by the times at which they began.
        let ordered = !attempts.iter().any(|attempt| moved.touches(attempt.began, attempt.began));
        problems.extend(add_up(*id, job, attempts, ordered));
    }
    problems.extend(own_rows(books, snapshot));
    problems
}

/// What the holder was told of the end, beside what the attempt says.
fn compare(claim: &Claim, attempt: &Attempt, job: Option<&Job>, moved: &Moved) -> Vec<Problem> {
    let mut problems = Vec::new();
    let outcome = attempt.outcome.as_deref().unwrap_or("held");
    let mut broken = |rule, text: &str| {
        problems.push(Problem::new(rule, format!("{} of job {}: {text}, and it is {outcome}", claim.owner, claim.job)));
    };
    if attempt.owner != claim.owner {
        broken(Rule::OneHolder, &format!("its token is also {}'s", attempt.owner));
    }
    match claim.told {
        Some(Told::Ended(End::Ack)) if outcome != "succeeded" => broken(Rule::Final, "its ack was confirmed"),
        Some(Told::Ended(End::Ack)) if job.is_none_or(|job| job.state != "succeeded") => {
            broken(Rule::Final, &format!("its ack was confirmed, and the job is {:?}", job.map(|job| &job.state)));
        }
        // A job that somebody wanted cancelled is so when its holder gives it back.
        Some(Told::Ended(end)) if outcome != end.outcome() && outcome != "cancelled" => {
            broken(Rule::AttemptsAddUp, &format!("its {end:?} was confirmed"));
        }
        Some(Told::Lost(at)) if attempt.ended.is_none_or(|ended| ended > at) && !moved.touches(attempt.began, at) => {
            broken(Rule::OneHolder, "it was told that its lease is lost, when it was not");
        }
        // Only its holder can end it so, and it was told otherwise, or has not asked for that.
        Some(Told::Lost(_)) if BY_HOLDER.contains(&outcome) => {
            broken(Rule::OneHolder, "it was told that its lease is lost");
        }
        Some(Told::NotEnded(_)) if BY_HOLDER.contains(&outcome) => {
            broken(Rule::NothingTwice, "its end was refused or rolled back");
        }
        None if BY_HOLDER.contains(&outcome) && claim.asked.map(End::outcome) != Some(outcome) => {
            broken(Rule::NothingTwice, &format!("it has asked for {:?}", claim.asked));
        }
        _ => {}
    }
    problems
}

/// Attempts that nobody's ledger has must be claims that were never answered.
fn unexplained(books: &Books, snapshot: &Snapshot) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut by_owner: HashMap<&str, u64> = HashMap::new();
    for attempt in snapshot.attempts.values().flatten().filter(|attempt| !books.claims.contains_key(&attempt.token)) {
        *by_owner.entry(&attempt.owner).or_default() += 1;
        if let Some(outcome) = attempt.outcome.as_deref().filter(|outcome| BY_HOLDER.contains(outcome)) {
            let text = format!("{} has {outcome} with {}, which nobody was told of", attempt.owner, attempt.token);
            problems.push(Problem::new(Rule::NothingTwice, text));
        }
    }
    let too_many = |owner: &str, count: u64| match books.unknown_claims(owner) {
        None => Some(format!("{count} attempts are of {owner}, whom nobody knows")),
        Some(allowed) => {
            (count > allowed).then(|| format!("{owner} has {count} attempts beyond its ledger, and {allowed} may be"))
        }
    };
    let texts = by_owner.into_iter().filter_map(|(owner, count)| too_many(owner, count));
    problems.extend(texts.map(|text| Problem::new(Rule::AttemptsAddUp, text)));
    problems
}

/// The attempts of one job, beside what the job says. Where the clock was moved, their order says nothing.
fn add_up(id: Uuid, job: &Job, attempts: &[Attempt], ordered: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let outcomes: Vec<&str> = attempts.iter().map(|attempt| attempt.outcome.as_deref().unwrap_or("held")).collect();
    let mut broken = |rule, text: String| problems.push(Problem::new(rule, format!("job {id}: {text} {outcomes:?}")));
    if attempts.iter().zip(1..).any(|(attempt, number)| attempt.number != number) {
        broken(Rule::AttemptsAddUp, "its attempts are not numbered from one".to_owned());
    }
    let tokens: HashSet<Uuid> = attempts.iter().map(|attempt| attempt.token).collect();
    if tokens.len() != attempts.len() {
        broken(Rule::OneHolder, "two of its attempts have one token".to_owned());
    }
    let count = |wanted: &[&str]| outcomes.iter().filter(|outcome| wanted.contains(outcome)).count();
    let failures = count(&["failed", "lease_expired"]);
    if failures != job.attempts as usize {
        broken(Rule::AttemptsAddUp, format!("it counts {} attempts", job.attempts));
    }
    let last = outcomes.last().copied();
    let successes = count(&["succeeded"]);
    if successes > 1 || (ordered && successes == 1 && last != Some("succeeded")) {
        broken(Rule::NothingTwice, "it was done, and begun again".to_owned());
    }
    if (job.state == "succeeded") != (successes == 1) {
        broken(Rule::States, format!("it is {}", job.state));
    }
    let held = count(&["held"]);
    if held > 1 || (ordered && held == 1 && last != Some("held")) {
        broken(Rule::OneHolder, "it is held more than once".to_owned());
    }
    if ["leased", "in_progress"].contains(&job.state.as_str()) != (held == 1) {
        broken(Rule::States, format!("it is {}", job.state));
    }
    problems
}

fn own_rows(books: &Books, snapshot: &Snapshot) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut written: HashMap<Uuid, usize> = HashMap::new();
    for (job, token) in &snapshot.own_rows {
        *written.entry(*token).or_default() += 1;
        let outcome = snapshot.attempt(*job, *token).and_then(|attempt| attempt.outcome.as_deref());
        if outcome != Some("succeeded") {
            let text = format!("job {job} has a row of {token}, and its attempt is {outcome:?}");
            problems.push(Problem::new(Rule::Together, text));
        }
    }
    for (token, claim) in books.claims.iter().filter(|(_, claim)| claim.with_own_row) {
        let rows = written.get(token).copied().unwrap_or(0);
        let outcome = snapshot.attempt(claim.job, *token).and_then(|attempt| attempt.outcome.as_deref());
        if rows != usize::from(outcome == Some("succeeded")) {
            let text = format!("job {} is {outcome:?} by {token}, with {rows} rows of its worker's", claim.job);
            problems.push(Problem::new(Rule::Together, text));
        }
    }
    problems
}
