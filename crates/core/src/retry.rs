//! What follows a failure: another try and when, or the end of the job and how.

use crate::backoff::backoff_seconds;
use crate::error_class;

/// No wait is longer, whoever asks for it: ten years, in seconds.
pub const LONGEST_WAIT: f64 = 315_360_000.0;

/// How waits grow with the number of failures.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// `seconds * 2^(n-1)`, up to 1,024 times. The default.
    Doubling,
    /// Always `seconds`.
    Fixed,
    /// `seconds * n`.
    Linear,
    /// `seconds * multiplier^(n-1)`.
    Exponential(f64),
    /// `seconds * n^4`.
    Quartic,
    /// These, one after the other; the last goes on.
    List(Vec<f64>),
}

/// How long to wait after the n-th failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    pub shape: Shape,
    pub seconds: f64,
    /// No wait is longer than this.
    pub cap: Option<f64>,
    /// A share from 0 to 1 by which a wait may be longer or shorter, so that what failed together
    /// does not come back together.
    pub jitter: f64,
}

impl Backoff {
    pub fn doubling(base: i64) -> Backoff {
        Backoff { shape: Shape::Doubling, seconds: base as f64, cap: None, jitter: 0.0 }
    }

    /// Seconds to wait after this many failures; `chance` is a number from 0 to 1.
    pub fn wait(&self, failures: i32, chance: f64) -> f64 {
        let n = f64::from(failures.max(1));
        let wait = match &self.shape {
            Shape::Doubling => self.seconds * backoff_seconds(1, i64::from(failures)) as f64,
            Shape::Fixed => self.seconds,
            Shape::Linear => self.seconds * n,
            Shape::Exponential(multiplier) => self.seconds * multiplier.powf(n - 1.0),
            Shape::Quartic => self.seconds * n.powi(4),
            Shape::List(waits) => {
                let last = waits.len().saturating_sub(1);
                waits.get((failures.max(1) as usize - 1).min(last)).copied().unwrap_or_default()
            }
        };
        let capped = wait.min(self.cap.unwrap_or(LONGEST_WAIT));
        let shaken = capped * (1.0 + self.jitter * (2.0 * chance - 1.0));
        // Also what is no number, or too large for one.
        if shaken.is_finite() { shaken.clamp(0.0, LONGEST_WAIT) } else { LONGEST_WAIT }
    }
}

/// What the policies of kind, queue and default say together.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    pub backoff: Backoff,
    /// The only classes worth another try; None: all that the table calls retryable.
    pub retryable: Option<Vec<String>>,
    /// Classes that end a job, whatever the table says.
    pub non_retryable: Vec<String>,
}

/// What the worker wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Another try, if there may be one.
    Fail,
    /// No other try.
    Cancel,
    /// No other try, and nobody needs to look at it.
    Discard,
}

/// A failed attempt.
pub struct Failure<'a> {
    /// Failures so far, with this one.
    pub failures: i32,
    pub max_attempts: i32,
    /// Someone asked to cancel the job while it was held.
    pub cancel_requested: bool,
    pub verdict: Verdict,
    pub class: &'a str,
    /// What the table says of the class; one that it does not know is retryable.
    pub retryable: bool,
    /// Seconds that the worker asks to wait.
    pub retry_after: Option<f64>,
    pub chance: f64,
}

/// Why a job is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Exhausted,
    NonRetryable,
    Cancelled,
    Poison,
    Deadline,
    Manual,
}

impl Reason {
    pub const ALL: [Reason; 6] =
        [Reason::Exhausted, Reason::NonRetryable, Reason::Cancelled, Reason::Poison, Reason::Deadline, Reason::Manual];

    pub const fn name(self) -> &'static str {
        match self {
            Reason::Exhausted => "exhausted",
            Reason::NonRetryable => "non_retryable",
            Reason::Cancelled => "cancelled",
            Reason::Poison => "poison",
            Reason::Deadline => "deadline",
            Reason::Manual => "manual",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum After {
    /// Another try after this many seconds.
    Retry(f64),
    DeadLetter(Reason),
    /// Cancelled; with a dead letter if it was the worker that gave up.
    Cancelled {
        letter: bool,
    },
    /// Failed for good, and no dead letter.
    Failed,
}

/// Decides what follows. The order is the rule: who cancels wins, then the worker's verdict, then the
/// class of the error, then the number of attempts, and only then how long to wait.
pub fn after(failure: &Failure<'_>, policy: &Policy) -> After {
    if failure.cancel_requested {
        return After::Cancelled { letter: false };
    }
    match failure.verdict {
        Verdict::Discard => return After::Failed,
        Verdict::Cancel => return After::Cancelled { letter: true },
        Verdict::Fail => {}
    }
    if failure.class == error_class::POISON {
        return After::DeadLetter(Reason::Poison);
    }
    if !may_retry(failure, policy) {
        return After::DeadLetter(Reason::NonRetryable);
    }
    if failure.failures >= failure.max_attempts {
        return After::DeadLetter(Reason::Exhausted);
    }
    let asked = failure.retry_after.map(|seconds| seconds.clamp(0.0, LONGEST_WAIT));
    After::Retry(asked.unwrap_or_else(|| policy.backoff.wait(failure.failures, failure.chance)))
}

fn may_retry(failure: &Failure<'_>, policy: &Policy) -> bool {
    let listed = |classes: &Vec<String>| classes.iter().any(|class| class == failure.class);
    // A list of what a worker may report says nothing of workers that could not report.
    let wanted = policy.retryable.as_ref().is_none_or(listed) || error_class::SILENT.contains(&failure.class);
    failure.retryable && !listed(&policy.non_retryable) && wanted
}

/// Whether a job takes its workers down: at least `most` attempts in a row have ended with a silent worker.
pub fn is_poisonous(silent_in_a_row: i64, most: i64) -> bool {
    most > 0 && silent_in_a_row >= most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn backoff(shape: Shape) -> Backoff {
        Backoff { shape, seconds: 1.0, cap: None, jitter: 0.0 }
    }

    fn ladder(backoff: &Backoff) -> Vec<f64> {
        (1..=5).map(|n| backoff.wait(n, 0.5)).collect()
    }

    fn policy() -> Policy {
        Policy { backoff: Backoff::doubling(10), retryable: None, non_retryable: Vec::new() }
    }

    fn failure() -> Failure<'static> {
        Failure {
            failures: 1,
            max_attempts: 5,
            cancel_requested: false,
            verdict: Verdict::Fail,
            class: "timeout",
            retryable: true,
            retry_after: None,
            chance: 0.5,
        }
    }

    #[test]
    fn each_shape_has_its_ladder() {
        assert_eq!(ladder(&Backoff::doubling(10)), [10.0, 20.0, 40.0, 80.0, 160.0]);
        assert_eq!(ladder(&backoff(Shape::Fixed)), [1.0; 5]);
        assert_eq!(ladder(&backoff(Shape::Linear)), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(ladder(&backoff(Shape::Exponential(3.0))), [1.0, 3.0, 9.0, 27.0, 81.0]);
        assert_eq!(ladder(&backoff(Shape::Quartic)), [1.0, 16.0, 81.0, 256.0, 625.0]);
        assert_eq!(ladder(&backoff(Shape::List(vec![30.0, 120.0, 600.0]))), [30.0, 120.0, 600.0, 600.0, 600.0]);
        let capped = Backoff { cap: Some(30.0), ..backoff(Shape::Exponential(2.0)) };
        assert_eq!(capped.wait(10, 0.5), 30.0);
    }

    #[test]
    fn a_class_that_is_not_retryable_ends_the_job_whatever_the_numbers_say() {
        let failure = Failure { retryable: false, max_attempts: 1_000, retry_after: Some(1.0), ..failure() };
        assert_eq!(after(&failure, &policy()), After::DeadLetter(Reason::NonRetryable));
    }

    #[test]
    fn a_policy_can_forbid_a_class_and_can_name_the_only_ones() {
        let forbids = Policy { non_retryable: vec!["timeout".to_owned()], ..policy() };
        assert_eq!(after(&failure(), &forbids), After::DeadLetter(Reason::NonRetryable));
        let only = |class: &str| Policy { retryable: Some(vec![class.to_owned()]), ..policy() };
        assert_eq!(after(&failure(), &only("rate_limited")), After::DeadLetter(Reason::NonRetryable));
        assert_eq!(after(&failure(), &only("timeout")), After::Retry(10.0));
        let silent = Failure { class: error_class::LEASE_EXPIRED, ..failure() };
        assert_eq!(after(&silent, &only("timeout")), After::Retry(10.0));
        // It cannot make retryable what the table says is not.
        let failure = Failure { retryable: false, ..failure() };
        assert_eq!(after(&failure, &only("timeout")), After::DeadLetter(Reason::NonRetryable));
    }

    #[test]
    fn the_last_attempt_ends_the_job_even_if_it_asks_for_another() {
        let failure = Failure { failures: 5, retry_after: Some(3.0), ..failure() };
        assert_eq!(after(&failure, &policy()), After::DeadLetter(Reason::Exhausted));
    }

    #[test]
    fn what_the_worker_asks_for_goes_before_what_is_computed() {
        let asked = |seconds| after(&Failure { retry_after: Some(seconds), ..failure() }, &policy());
        assert_eq!(asked(0.0), After::Retry(0.0));
        assert_eq!(asked(77.0), After::Retry(77.0));
        assert_eq!(asked(1e12), After::Retry(LONGEST_WAIT));
    }

    #[test]
    fn verdicts_come_before_classes_and_a_requested_cancel_before_both() {
        let with = |verdict| Failure { verdict, ..failure() };
        assert_eq!(after(&with(Verdict::Discard), &policy()), After::Failed);
        assert_eq!(after(&with(Verdict::Cancel), &policy()), After::Cancelled { letter: true });
        let asked = Failure { cancel_requested: true, ..with(Verdict::Discard) };
        assert_eq!(after(&asked, &policy()), After::Cancelled { letter: false });
    }

    #[test]
    fn poison_is_a_matter_of_silence_and_can_be_switched_off() {
        assert!(is_poisonous(3, 3) && is_poisonous(4, 3) && !is_poisonous(2, 3) && !is_poisonous(9, 0));
        let failure = Failure { class: error_class::POISON, retryable: false, ..failure() };
        assert_eq!(after(&failure, &policy()), After::DeadLetter(Reason::Poison));
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        prop_oneof![
            Just(Shape::Doubling),
            Just(Shape::Fixed),
            Just(Shape::Linear),
            (1.0_f64..1e9).prop_map(Shape::Exponential),
            Just(Shape::Quartic),
            proptest::collection::vec(0.0_f64..1e12, 0..5).prop_map(Shape::List),
        ]
    }

    proptest! {
        #[test]
        fn a_wait_is_a_number_within_its_bounds(
            shape in shapes(), seconds in 0.0_f64..1e12, cap in proptest::option::of(0.0_f64..1e9),
            jitter in 0.0_f64..=1.0, failures in 1_i32..2_000, chance in 0.0_f64..=1.0,
        ) {
            let wait = Backoff { shape, seconds, cap, jitter }.wait(failures, chance);
            prop_assert!((0.0..=LONGEST_WAIT).contains(&wait));
            if let Some(cap) = cap {
                prop_assert!(wait <= cap * (1.0 + jitter) + 1e-6);
            }
        }
    }
}
