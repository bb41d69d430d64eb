//! The classes of errors that agentq knows: whether trying again may help. This is the only list;
//! the table takes its first rows from here, and operators may add to it.

/// A class of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorClass {
    pub name: &'static str,
    pub retryable: bool,
    /// Other names that mean the same. Case and the choice between `-`, space and `_` never matter.
    pub aliases: &'static [&'static str],
    pub about: &'static str,
}

const fn again(name: &'static str, aliases: &'static [&'static str], about: &'static str) -> ErrorClass {
    ErrorClass { name, retryable: true, aliases, about }
}

const fn never(name: &'static str, aliases: &'static [&'static str], about: &'static str) -> ErrorClass {
    ErrorClass { name, retryable: false, aliases, about }
}

pub const LEASE_EXPIRED: &str = "lease_expired";
pub const EXECUTOR_STALE: &str = "executor_stale";
pub const STALLED: &str = "stalled";
/// Classes that agentq itself gives to an attempt whose worker fell silent.
pub const SILENT: [&str; 4] = [LEASE_EXPIRED, EXECUTOR_STALE, STALLED, WORKER_DIED];
pub const WORKER_DIED: &str = "worker_died";
pub const OUTCOME_UNKNOWN: &str = "outcome_unknown";
pub const POISON: &str = "poison_task";
pub const START_DEADLINE: &str = "start_deadline_missed";
pub const FINISH_DEADLINE: &str = "finish_deadline_missed";
/// The class of a failure that names none.
pub const UNKNOWN: &str = "unknown_error";

pub const CLASSES: &[ErrorClass] = &[
    again("timeout", &["timed_out"], "Something took too long."),
    again("rate_limited", &["too_many_requests"], "A service asked for fewer calls."),
    again("service_unavailable", &["unavailable"], "A service does not answer at the moment."),
    again("transient_connector_error", &[], "A connector failed in a way that passes."),
    again("temporary_database_error", &[], "A database failed in a way that passes."),
    again("agent_failed", &[], "An agent gave up; another try may go better."),
    again(LEASE_EXPIRED, &[], "The worker fell silent and its lease ran out."),
    again(EXECUTOR_STALE, &[], "The executor that held the job has fallen silent."),
    again(STALLED, &[], "The worker held the job and made no progress."),
    again(WORKER_DIED, &[], "The worker ended while it ran the job."),
    again("handler_error", &[], "A SQL handler raised an error."),
    again(UNKNOWN, &["unknown"], "Nobody said what kind of error it was."),
    never("validation_error", &["invalid_input"], "The input is wrong and will be wrong again."),
    never("malformed_payload", &[], "The payload cannot be read."),
    never("permission_denied", &["unauthorized", "forbidden"], "The work is not allowed."),
    never("policy_denied", &[], "A policy forbids it."),
    never("approval_rejected", &[], "Someone was asked and said no."),
    never("human_input_missing", &[], "Someone was asked and did not answer."),
    never("budget_exceeded", &[], "The budget is used up."),
    never("permanent_connector_error", &[], "A connector failed in a way that stays."),
    never("cancelled", &["canceled"], "It was called off."),
    never("rescue_failed", &[], "It was rescued too often."),
    never(POISON, &["poison"], "It takes its workers down with it."),
    never(START_DEADLINE, &[], "It was not begun in time."),
    never(FINISH_DEADLINE, &["deadline_exceeded"], "It was not finished in time."),
    never(OUTCOME_UNKNOWN, &[], "It may have had its effect or not: someone has to find out."),
];

/// The form in which names are compared: `RATE-LIMITED` is `rate_limited`.
pub fn normal(name: &str) -> String {
    name.trim().to_lowercase().replace(['-', ' '], "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_and_alias_is_in_normal_form_and_there_once() {
        let mut seen = HashSet::new();
        for class in CLASSES {
            for name in class.aliases.iter().chain([&class.name]) {
                assert_eq!(normal(name), *name);
                assert!(seen.insert(*name), "{name} is there twice");
            }
        }
    }

    #[test]
    fn spelling_does_not_matter() {
        for spelled in ["RATE_LIMITED", " rate-limited ", "Rate Limited"] {
            assert_eq!(normal(spelled), "rate_limited");
        }
    }
}
