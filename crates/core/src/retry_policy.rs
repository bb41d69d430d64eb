//! Reading a retry policy: of a kind, of a queue, of one job or of one step.

use crate::Refusal;
use crate::error_class::normal;
use crate::reader::{Member, Reader};
use crate::retry::LONGEST_WAIT;
use serde_json::{Value, json};

pub const BACKOFFS: [&str; 6] = ["doubling", "fixed", "linear", "exponential", "quartic", "list"];
/// What a policy says about the tries of one job.
pub const KEYS: [&str; 8] =
    ["backoff", "seconds", "multiplier", "max_seconds", "delays", "jitter", "retryable", "non_retryable"];
/// Delays and classes that one policy lists.
const MOST_DELAYS: usize = 1_000;
const MOST_CLASSES: usize = 1_000;
const EXAMPLE: &str = "For example: {\"backoff\": \"list\", \"delays\": [30, 120, 600]}.";

/// Checks what a policy says of `KEYS`, and brings the names of classes into their normal form. What other keys there may be
/// the caller has checked.
pub fn checked(policy: &Reader<'_>) -> Result<Value, Refusal> {
    let hint = "Waits are in seconds; jitter is a share from 0 to 1.";
    for (key, range) in [
        ("seconds", 0.0..=LONGEST_WAIT),
        ("multiplier", 1.0..=1e6),
        ("max_seconds", 0.0..=LONGEST_WAIT),
        ("jitter", 0.0..=1.0),
    ] {
        policy.member(key).hint(hint).number(range)?;
    }
    policy.member("backoff").word(&BACKOFFS)?;
    policy.member("delays").hint("Give it a list of numbers of seconds, such as [30, 120, 600].").read(|delays| {
        delays.list("numbers", 1..=MOST_DELAYS)?.try_for_each(|delay| delay.number(0.0..=LONGEST_WAIT).map(drop))
    })?;
    let mut value = policy.value()?;
    for key in ["retryable", "non_retryable"] {
        if let Some(names) = classes(policy.member(key))? {
            value[key] = json!(names);
        }
    }
    Ok(value)
}

/// The policy of one job, or of one step: whole in itself, so that a list of waits has its waits. `more`: keys that mean
/// something else to the caller. None: it says nothing.
pub fn of_one(policy: &Reader<'_>, more: &[&str]) -> Result<Option<Value>, Refusal> {
    let keys: Vec<&str> = KEYS.iter().chain(more).copied().collect();
    policy.clone().hint(EXAMPLE).object(&keys)?;
    let mut value = checked(policy)?;
    if value["backoff"] == "list" && !policy.member("delays").is_there() {
        return Err(lacks_delays(policy));
    }
    if let Some(value) = value.as_object_mut() {
        value.retain(|key, _| KEYS.contains(&key.as_str()));
    }
    Ok(Some(value).filter(|value| value.as_object().is_some_and(|map| !map.is_empty())))
}

fn lacks_delays(policy: &Reader<'_>) -> Refusal {
    policy.refuse("the backoff \"list\" needs its delays", EXAMPLE)
}

fn classes(at: Member<'_>) -> Result<Option<Vec<String>>, Refusal> {
    at.hint("Give it a list of names of error classes, such as [\"timeout\"].")
        .read(|names| names.list("names", 0..=MOST_CLASSES)?.map(|name| name.text().map(normal)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonb;

    fn read(text: &str) -> Result<Option<Value>, Refusal> {
        let document = jsonb::from_value(&serde_json::from_str(text).expect("JSON")).expect("small");
        of_one(&Reader::at("retry", jsonb::Container::new(&document).item()), &["max_attempts"])
    }

    #[test]
    fn a_policy_of_one_job_keeps_what_is_about_its_tries() {
        let kept = read(r#"{"max_attempts": 3, "backoff": "fixed", "seconds": 5, "non_retryable": ["Bad-Input"]}"#);
        assert_eq!(kept.ok(), Some(Some(json!({"backoff": "fixed", "seconds": 5, "non_retryable": ["bad_input"]}))));
        assert_eq!(read(r#"{"max_attempts": 3}"#).ok(), Some(None));
    }

    #[test]
    fn what_is_wrong_with_it_is_told_with_its_path() {
        for (text, expected) in [
            (r#"{"backoff": "list"}"#, "retry: the backoff \"list\" needs its delays"),
            (r#"{"backoff": "wild"}"#, "retry.backoff"),
            (r#"{"seconds": -1}"#, "retry.seconds"),
            (r#"{"requires_idempotency_key": true}"#, "requires_idempotency_key"),
            (r#"{"delays": []}"#, "retry.delays"),
        ] {
            let refusal = read(text).expect_err(text);
            assert!(refusal.message.contains(expected), "{text}: {}", refusal.message);
        }
    }
}
