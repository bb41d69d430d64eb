//! The states of a job and every arrow between them.
//!
//! `ARROWS` is the only list: the documentation draws it, and the property test walks it.

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    Queued,
    Leased,
    InProgress,
    Succeeded,
    Failed,
    RetryWaiting,
    DeadLetter,
    Cancelled,
    Cleaned,
}

use JobState::*;

pub const ALL: [JobState; 9] =
    [Queued, Leased, InProgress, Succeeded, Failed, RetryWaiting, DeadLetter, Cancelled, Cleaned];

/// Every allowed step, with the function that takes it.
pub const ARROWS: &[(JobState, JobState, &str)] = &[
    (Queued, Leased, "fn_job_claim"),
    (RetryWaiting, Leased, "fn_job_claim"),
    (Leased, InProgress, "fn_job_start"),
    (Leased, Succeeded, "fn_job_ack"),
    (InProgress, Succeeded, "fn_job_ack"),
    (Leased, RetryWaiting, "fn_job_fail_or_retry"),
    (InProgress, RetryWaiting, "fn_job_fail_or_retry"),
    (Leased, DeadLetter, "fn_job_fail_or_retry"),
    (InProgress, DeadLetter, "fn_job_fail_or_retry"),
    (Leased, Failed, "fn_job_fail_or_retry"),
    (InProgress, Failed, "fn_job_fail_or_retry"),
    (RetryWaiting, Succeeded, "fn_job_reconcile"),
    (RetryWaiting, Queued, "fn_job_reconcile"),
    (RetryWaiting, DeadLetter, "fn_job_reconcile"),
    (Leased, Queued, "fn_job_release"),
    (InProgress, Queued, "fn_job_release"),
    (Queued, Cancelled, "fn_job_cancel"),
    (RetryWaiting, Cancelled, "fn_job_cancel"),
    (Leased, Cancelled, "fn_job_cancel"),
    (InProgress, Cancelled, "fn_job_cancel"),
    (Queued, DeadLetter, "fn_job_move_to_dead_letter"),
    (RetryWaiting, DeadLetter, "fn_job_move_to_dead_letter"),
    (Succeeded, Cleaned, "fn_job_purge"),
    (Failed, Cleaned, "fn_job_purge"),
    (DeadLetter, Cleaned, "fn_job_purge"),
    (Cancelled, Cleaned, "fn_job_purge"),
];

impl JobState {
    pub const fn name(self) -> &'static str {
        match self {
            Queued => "queued",
            Leased => "leased",
            InProgress => "in_progress",
            Succeeded => "succeeded",
            Failed => "failed",
            RetryWaiting => "retry_waiting",
            DeadLetter => "dead_letter",
            Cancelled => "cancelled",
            Cleaned => "cleaned",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        ALL.into_iter().find(|state| state.name() == name)
    }

    /// Finished: nothing will run it again, and its idempotency key is free.
    /// Whether nobody holds it, and it is to run.
    pub const fn is_at_rest(self) -> bool {
        matches!(self, Queued | RetryWaiting)
    }

    pub const fn is_finished(self) -> bool {
        matches!(self, Succeeded | Failed | DeadLetter | Cancelled | Cleaned)
    }

    pub fn may_become(self, next: JobState) -> bool {
        ARROWS.iter().any(|(from, to, _)| *from == self && *to == next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for state in ALL {
            assert_eq!(JobState::parse(state.name()), Some(state));
        }
        assert_eq!(JobState::parse("running"), None);
    }

    #[test]
    fn a_finished_job_can_only_be_cleaned() {
        for (from, to, _) in ARROWS {
            assert!(!from.is_finished() || *to == Cleaned, "{from:?} -> {to:?}");
        }
    }

    #[test]
    fn every_state_can_be_reached_from_queued() {
        let mut seen = vec![Queued];
        let mut grew = true;
        while grew {
            grew = false;
            for (from, to, _) in ARROWS {
                if seen.contains(from) && !seen.contains(to) {
                    seen.push(*to);
                    grew = true;
                }
            }
        }
        let unreached: Vec<_> = ALL.into_iter().filter(|s| !seen.contains(s)).collect();
        assert_eq!(unreached, []);
    }
}
