//! The bounds of every scalar argument, and the words for crossing them.

use crate::bounds;
use crate::error::{Refusal, shown};
use std::ops::RangeInclusive;

pub const DEFAULT_QUEUE: &str = "default";
pub const DEFAULT_PRIORITY: i32 = 100;
pub const LONGEST_LEASE_SECONDS: i32 = 86_400;
pub const LARGEST_BATCH: i32 = bounds::CLAIMS as i32;
pub const LARGEST_PURGE: i32 = 1_000_000;
pub const LONGEST_NAME: usize = bounds::NAME;
pub const LONGEST_KEY: usize = bounds::KEY;
pub const LONGEST_REFERENCE: usize = bounds::REFERENCE;

/// What a job's numbers may be, and what is advised about each.
pub const PRIORITIES: RangeInclusive<i32> = 0..=i32::MAX;
pub const PRIORITY_HINT: &str = "A smaller number runs first; 0 is the most urgent, 100 the default.";
pub const ATTEMPTS: RangeInclusive<i32> = 1..=i32::MAX;
pub const ATTEMPTS_HINT: &str = "1 means no retry: the first failure ends in the dead letters.";
pub const LEASES: RangeInclusive<i32> = 1..=LONGEST_LEASE_SECONDS;
/// How long a holder may make no progress, in seconds: up to a year.
pub const STALLS: std::ops::RangeInclusive<i32> = 1..=31_536_000;
pub const LEASE_HINT: &str =
    "Take a lease of minutes and extend it with agentq.fn_job_heartbeat while the work goes on.";
pub const KEEP_HINT: &str =
    "0 removes a job as soon as it has finished; NULL keeps it as long as queue.retention.keep_seconds says.";

/// The executor kinds that may report a heartbeat.
pub const EXECUTOR_KINDS: [&str; 7] =
    ["DOT", "Agent", "Hermes", "Codex", "PG_worker", "external_worker", "future_Kestra_adapter"];
pub const TICK_STATUSES: [&str; 3] = ["ok", "warn", "error"];
pub const TRIAGE_STATUSES: [&str; 5] = ["pending", "acknowledged", "manual_replay", "escalated", "closed"];

/// A text that must say something and fit into an index key.
pub fn name<'a>(what: &str, value: &'a str, longest: usize) -> Result<&'a str, Refusal> {
    if value.trim().is_empty() {
        return Err(Refusal::new(
            format!("{what} must not be empty or blank, but is \"{}\"", shown(value)),
            format!("Give {what} a text with at least one visible character."),
        ));
    }
    if value.len() > longest {
        return Err(Refusal::new(
            format!("{what} is {} bytes long, more than the {longest} allowed: \"{}\"", value.len(), shown(value)),
            "Use a short name, and put long content where payload_ref can point at it.",
        ));
    }
    Ok(value)
}

/// What keys begin with that agentq itself gives to jobs and proposals. No caller can take such a key, and so be in the way
/// of what it stands for.
pub const OWN_KEYS: &str = "agentq:";

/// A key that a caller gives to a job or a proposal, so that there is only one of it.
pub fn key<'a>(what: &str, value: &'a str) -> Result<&'a str, Refusal> {
    let value = name(what, value, LONGEST_KEY)?;
    if value.starts_with(OWN_KEYS) {
        return Err(Refusal::new(
            format!("{what} \"{}\" begins with {OWN_KEYS}", shown(value)),
            "Keys that begin so are agentq's own. Use one such as invoice:42.",
        ));
    }
    Ok(value)
}

/// What names of signals begin with that agentq itself sends. Nobody else can send or take one, and so say that something has
/// happened that has not.
pub const OWN_SIGNALS: &str = "agentq.";

/// The name of a signal that a caller sends or waits for.
pub fn signal<'a>(what: &str, value: &'a str) -> Result<&'a str, Refusal> {
    let value = name(what, value, LONGEST_NAME)?;
    if value.starts_with(OWN_SIGNALS) {
        return Err(Refusal::new(
            format!("{what} \"{}\" begins with {OWN_SIGNALS}", shown(value)),
            "Signals that begin so are agentq's own. Use a name such as approved.",
        ));
    }
    Ok(value)
}

/// A reference to something that is kept elsewhere; it may be empty.
pub fn reference<'a>(what: &str, value: Option<&'a str>) -> Result<Option<&'a str>, Refusal> {
    match value.filter(|value| value.len() > LONGEST_REFERENCE) {
        None => Ok(value),
        Some(long) => Err(Refusal::new(
            format!(
                "{what} is {} bytes long, more than the {LONGEST_REFERENCE} allowed: \"{}\"",
                long.len(),
                shown(long)
            ),
            "A reference says where something is. Keep the thing itself elsewhere.",
        )),
    }
}

pub fn priority(value: i32) -> Result<i32, Refusal> {
    if value >= 0 {
        return Ok(value);
    }
    Err(Refusal::new(format!("priority must be 0 or more, but is {value}"), PRIORITY_HINT))
}

pub fn max_attempts(value: i32) -> Result<i32, Refusal> {
    if value >= 1 {
        return Ok(value);
    }
    Err(Refusal::new(format!("max_attempts must be 1 or more, but is {value}"), ATTEMPTS_HINT))
}

pub fn lease_seconds(value: i32) -> Result<i32, Refusal> {
    if (1..=LONGEST_LEASE_SECONDS).contains(&value) {
        return Ok(value);
    }
    Err(Refusal::new(
        format!("a lease must last from 1 to {LONGEST_LEASE_SECONDS} seconds, but {value} was asked for"),
        LEASE_HINT,
    ))
}

pub fn batch_limit(value: i32) -> Result<i32, Refusal> {
    if (1..=LARGEST_BATCH).contains(&value) {
        return Ok(value);
    }
    Err(Refusal::new(
        format!("a batch claims from 1 to {LARGEST_BATCH} jobs, but {value} were asked for"),
        "Claim in several calls.",
    ))
}

pub fn purge_limit(value: i32) -> Result<i32, Refusal> {
    if (1..=LARGEST_PURGE).contains(&value) {
        return Ok(value);
    }
    Err(Refusal::new(
        format!("a purge removes from 1 to {LARGEST_PURGE} jobs, but {value} were asked for"),
        "Purge in several calls, as long as the answer says more.",
    ))
}

/// One of a fixed list of words.
pub fn one_of<'a>(what: &str, value: &'a str, accepted: &[&str]) -> Result<&'a str, Refusal> {
    if accepted.contains(&value) {
        return Ok(value);
    }
    Err(Refusal::new(
        format!("{what} \"{}\" is not known", shown(value)),
        format!("Use one of: {}.", accepted.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_and_overlong_names_are_refused() {
        for bad in ["", " ", "\t\n", &"k".repeat(201)] {
            assert!(name("job_kind", bad, LONGEST_NAME).is_err());
        }
        assert_eq!(name("job_kind", "email.send", LONGEST_NAME), Ok("email.send"));
    }

    #[test]
    fn a_reference_may_be_empty_but_not_long() {
        assert_eq!((reference("r", None), reference("r", Some(""))), (Ok(None), Ok(Some(""))));
        assert!(reference("r", Some(&"x".repeat(LONGEST_REFERENCE))).is_ok());
        let refusal = reference("r", Some(&"x".repeat(LONGEST_REFERENCE + 1))).unwrap_err();
        assert!(refusal.message.contains("10001 bytes") && refusal.message.len() < 200);
    }

    #[test]
    fn numbers_keep_to_their_bounds() {
        assert!(priority(-1).is_err() && priority(0).is_ok());
        assert!(max_attempts(0).is_err() && max_attempts(1).is_ok());
        assert!(lease_seconds(0).is_err() && lease_seconds(1).is_ok());
        assert!(lease_seconds(315_360_000).is_err() && lease_seconds(86_400).is_ok());
        assert!(batch_limit(0).is_err() && batch_limit(1001).is_err() && batch_limit(1000).is_ok());
    }

    #[test]
    fn an_unknown_word_lists_the_known_ones() {
        let refusal = one_of("executor kind", "robot", &EXECUTOR_KINDS).unwrap_err();
        assert!(refusal.message.contains("robot") && refusal.hint.contains("PG_worker"));
    }
}
