//! Every job is in one place and in a state that exists, and who is in the dead letters has a letter.

use super::snapshot::Snapshot;
use super::{Problem, Rule};

const STATES: [&str; 8] =
    ["queued", "leased", "in_progress", "retry_waiting", "succeeded", "failed", "dead_letter", "cancelled"];

pub fn check(snapshot: &Snapshot) -> Vec<Problem> {
    let mut texts: Vec<String> = snapshot.unsound.clone();
    texts.extend(snapshot.shown_twice.iter().map(|job| format!("job {job} is shown twice")));
    for (id, job) in &snapshot.jobs {
        if !STATES.contains(&job.state.as_str()) {
            texts.push(format!("job {id} is {}", job.state));
        }
        if (job.state == "dead_letter") != snapshot.letters.contains(id) {
            texts.push(format!("job {id} is {}, and its letter does not fit", job.state));
        }
    }
    let orphans = snapshot.attempts.keys().filter(|job| !snapshot.jobs.contains_key(job));
    texts.extend(orphans.map(|job| format!("there are attempts at job {job}, and no job")));
    texts.into_iter().map(|text| Problem::new(Rule::States, text)).collect()
}
