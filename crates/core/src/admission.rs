//! Whether new work is let in.

/// What becomes of a job that someone wants to enqueue.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Accept,
    /// Not now: the caller may try again after this many seconds.
    Defer {
        reason: String,
        retry_after: i64,
    },
    /// Not as things are set.
    Refuse {
        reason: String,
    },
}

const SHORTEST_SECONDS: f64 = 1.0;
const LONGEST_SECONDS: f64 = 300.0;

/// Defers if as many jobs wait as may; `rate` is how many are finished per second.
pub fn bounded(key: &str, waiting: i64, most: i64, rate: f64) -> Option<Verdict> {
    if waiting < most {
        return None;
    }
    let excess = (waiting - most + 1) as f64;
    let seconds = if rate > 0.0 { excess / rate } else { LONGEST_SECONDS };
    Some(Verdict::Defer {
        reason: format!("{waiting} jobs wait under {key}, and no more than {most} may"),
        retry_after: seconds.clamp(SHORTEST_SECONDS, LONGEST_SECONDS).ceil() as i64,
    })
}

/// Defers if the oldest job that may run has waited longer than it may.
pub fn aged(key: &str, oldest: f64, most: f64) -> Option<Verdict> {
    (oldest > most).then(|| Verdict::Defer {
        reason: format!("the oldest job under {key} has waited {oldest:.0} seconds, and no more than {most} may pass"),
        retry_after: (oldest - most).clamp(SHORTEST_SECONDS, LONGEST_SECONDS).ceil() as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_deferred_until_there_should_be_room() {
        let after = |waiting, rate| match bounded("global", waiting, 10, rate) {
            Some(Verdict::Defer { retry_after, .. }) => Some(retry_after),
            _ => None,
        };
        assert_eq!(after(9, 1.0), None);
        assert_eq!(after(10, 100.0), Some(1));
        assert_eq!(after(109, 10.0), Some(10));
        assert_eq!(after(10, 0.0), Some(300));
        assert_eq!(after(1_000_000, 1.0), Some(300));
    }

    #[test]
    fn a_job_is_deferred_while_others_have_waited_too_long() {
        let after = |oldest| match aged("global", oldest, 60.0) {
            Some(Verdict::Defer { retry_after, .. }) => Some(retry_after),
            _ => None,
        };
        assert_eq!((after(60.0), after(60.5), after(100.0), after(9_999.0)), (None, Some(1), Some(40), Some(300)));
    }
}
