//! The list of what there is to do, and the lines that say how far it is.

use crate::results::Results;
use crate::{Bench, Failure};
use std::time::Instant;

/// One measurement.
pub struct Task {
    /// What it is about; `--only` looks here.
    pub name: String,
    /// What the line begins with.
    pub title: String,
    /// How long it takes, about.
    pub seconds: f64,
    /// Whether it is somebody else's fault when it fails: the run then goes on and says so at the end.
    pub of_peer: bool,
    /// Measures, notes what came out, and says it in a few words.
    pub run: Measurement,
}

type Measurement = Box<dyn FnOnce(&Bench, &mut Results) -> Result<String, Failure>>;

/// Does everything, one line each.
pub fn run(bench: &Bench, tasks: Vec<Task>, results: &mut Results) -> Result<(), Failure> {
    let mut progress = Progress::new(&tasks);
    for task in tasks {
        let found = (task.run)(bench, results);
        progress.advance(task.seconds);
        match found.map_err(|failure| explain(&*failure)) {
            Ok(words) => println!("{} {} {words}", progress.place(), task.title),
            Err(failure) if task.of_peer => {
                println!("{} {} FAILED: {failure}", progress.place(), task.title);
                results.troubles.push(format!("{}: {failure}", task.title.trim()));
            }
            Err(failure) => return Err(format!("{}: {failure}", task.title.trim()).into()),
        }
    }
    Ok(())
}

/// An error with its causes: a database's error says nothing by itself.
fn explain(failure: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(failure.source(), |cause| cause.source());
    causes.fold(failure.to_string(), |text, cause| format!("{text}: {cause}"))
}

struct Progress {
    began: Instant,
    done: usize,
    tasks: usize,
    seconds_done: f64,
    seconds: f64,
}

impl Progress {
    fn new(tasks: &[Task]) -> Progress {
        let seconds = tasks.iter().map(|task| task.seconds).sum();
        Progress { began: Instant::now(), done: 0, tasks: tasks.len(), seconds_done: 0.0, seconds }
    }

    fn advance(&mut self, seconds: f64) {
        self.done += 1;
        self.seconds_done += seconds;
    }

    /// "[ 12/173  1:05, 14:20 left]".
    fn place(&self) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let left = elapsed / self.seconds_done * (self.seconds - self.seconds_done);
        let width = self.tasks.to_string().len();
        format!("[{:>width$}/{} {:>5}, {:>5} left]", self.done, self.tasks, clock(elapsed), clock(left))
    }
}

/// Minutes and seconds.
fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_minutes_and_seconds() {
        assert_eq!(clock(0.4), "0:00");
        assert_eq!(clock(65.0), "1:05");
        assert_eq!(clock(3600.0), "60:00");
    }
}
