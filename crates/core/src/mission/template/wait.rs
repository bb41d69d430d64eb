//! Reading a step without a worker: it sleeps, or waits for a signal.

use super::step::{Reading, TIMEOUTS};
use super::{Outside, Wait};
use crate::Refusal;
use crate::error::shown;
use crate::input::OWN_SIGNALS;
use crate::reader::Reader;
use crate::steps::LONGEST_NAME;
use std::collections::BTreeSet;

/// What only a job has.
const OF_JOBS: [&str; 8] = ["params", "executor", "for_each", "stall_seconds", "retry", "queue", "priority", "mission"];

impl<'a, O: Outside> Reading<'_, 'a, O> {
    /// What the step waits for; None: it has a worker.
    pub(super) fn wait(&self, reads: &mut BTreeSet<String>) -> Result<Option<Wait>, Refusal> {
        let (sleep, signal) = (self.at.member("sleep").reader(), self.at.member("signal").reader());
        let (what, wait) = match (sleep, signal) {
            (None, None) => return Ok(None),
            (Some(sleep), None) => ("sleeps", self.sleep(&sleep, reads)?),
            (None, Some(signal)) => ("waits for a signal", self.signal(&signal, reads)?),
            (Some(_), Some(signal)) => {
                return Err(signal.refuse("a step cannot both sleep and wait for a signal", "Make two steps of it."));
            }
        };
        let never = if matches!(wait, Wait::Signal { .. }) { None } else { Some("timeout_seconds") };
        for key in OF_JOBS.into_iter().chain(never) {
            if let Some(other) = self.at.member(key).reader() {
                let problem = format!("a step that {what} has no worker, and so no {key}");
                return Err(other.refuse(problem, "Leave it out, or put it into a step of its own."));
            }
        }
        self.outside.has_waits().map_err(|refusal| self.at.told(refusal))?;
        Ok(Some(wait))
    }

    fn sleep(&self, at: &Reader<'a>, reads: &mut BTreeSet<String>) -> Result<Wait, Refusal> {
        let at = at.clone().hint("For example: {\"seconds\": 3600}, or {\"until\": \"$.input.opens_at\"}.");
        at.object(&["seconds", "until"])?;
        let (seconds, until) = (at.member("seconds").seconds(TIMEOUTS)?, at.member("until").reader());
        match (seconds, until) {
            (Some(seconds), None) => Ok(Wait::Sleep(seconds)),
            (None, Some(until)) => {
                let text = until.text()?;
                if Wait::is_path(text) {
                    self.path(&until, text, false, reads)?;
                } else {
                    self.outside.moment(&until)?;
                }
                Ok(Wait::Until(text.to_owned()))
            }
            _ => Err(at.refuse(
                "say for how many seconds it sleeps, or until when, but not both or neither",
                "For example: {\"seconds\": 3600}.",
            )),
        }
    }

    fn signal(&self, at: &Reader<'a>, reads: &mut BTreeSet<String>) -> Result<Wait, Refusal> {
        let at = at.clone().hint("For example: {\"name\": \"approved\", \"key\": \"$.input.order\"}.");
        if at.is_text() {
            return Ok(Wait::Signal { name: signal_name(&at)?, key: String::new() });
        }
        at.object(&["name", "key"])?;
        let name = signal_name(&at.needed("name"))?;
        let key = at.member("key").reader().map(|key| {
            let text = key.name(LONGEST_NAME)?;
            if Wait::is_path(text) { self.path(&key, text, false, reads) } else { Ok(text) }
        });
        Ok(Wait::Signal { name, key: key.transpose()?.unwrap_or_default().to_owned() })
    }
}

/// The name of a signal that a step may wait for.
fn signal_name(at: &Reader<'_>) -> Result<String, Refusal> {
    let name = at.name(LONGEST_NAME)?;
    if name.starts_with(OWN_SIGNALS) {
        let problem = format!("the signal \"{}\" begins with {OWN_SIGNALS}", shown(name));
        return Err(at.refuse(problem, "Signals that begin so are agentq's own. Use a name such as approved."));
    }
    Ok(name.to_owned())
}
