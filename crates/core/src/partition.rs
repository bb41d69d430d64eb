//! Which spans of time events are divided into, which are wanted next, and which are over.
//!
//! Moments are microseconds since 1970, and days are those of UTC. Spans never overlap, also when
//! the time for which events are kept changes and with it the length of the spans.

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, Utc};

pub const DAY_US: i64 = 86_400_000_000;
/// Spans are made for this many days ahead.
pub const AHEAD_DAYS: i64 = 7;
/// Events that are kept for more than this many days are divided by months: a statement over all partitions must not
/// meet hundreds.
pub const LONGEST_BY_DAYS: i64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: i64,
    pub to: i64,
}

/// The end of the day, or month, in which a moment lies.
fn end_of(at: i64, by_days: bool) -> i64 {
    let date = DateTime::<Utc>::from_timestamp_micros(at).map_or(NaiveDate::MAX, |at| at.date_naive());
    let next = if by_days {
        date.checked_add_days(Days::new(1))
    } else {
        date.with_day(1).and_then(|first| first.checked_add_months(Months::new(1)))
    };
    next.map_or(i64::MAX, |date| date.and_time(NaiveTime::MIN).and_utc().timestamp_micros())
}

pub fn start_of_day(at: i64) -> i64 {
    at.div_euclid(DAY_US) * DAY_US
}

/// The next span that is wanted at or after `cursor` and is not there. `keep_days` 0: kept for ever.
pub fn next_wanted(there: &[Span], cursor: i64, now: i64, keep_days: i64) -> Option<Span> {
    let by_days = (1..=LONGEST_BY_DAYS).contains(&keep_days);
    let until = start_of_day(now) + AHEAD_DAYS * DAY_US;
    let mut from = start_of_day(cursor);
    // Each turn leaves at least one span behind.
    while let Some(span) = there.iter().find(|span| span.from <= from && from < span.to) {
        from = span.to;
    }
    let following = there.iter().map(|span| span.from).filter(|start| *start > from).min().unwrap_or(i64::MAX);
    (from <= until).then(|| Span { from, to: end_of(from, by_days).min(following) })
}

/// Before which moment events have outlived their time. None: never.
pub fn horizon(now: i64, keep_days: i64) -> Option<i64> {
    (keep_days > 0).then(|| now - keep_days * DAY_US)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> i64 {
        DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros()
    }

    /// All spans that are wanted, as they would be made one after the other.
    fn fill(there: &mut Vec<Span>, now: i64, keep_days: i64) -> usize {
        let mut made = 0;
        while let Some(span) = next_wanted(there, now, now, keep_days) {
            assert!(span.from < span.to);
            there.push(span);
            made += 1;
        }
        made
    }

    #[test]
    fn what_is_kept_for_a_month_is_divided_by_days() {
        let mut there = Vec::new();
        assert_eq!(fill(&mut there, at("2026-02-26T13:00:00Z"), 30), 8);
        assert_eq!(there[0], Span { from: at("2026-02-26T00:00:00Z"), to: at("2026-02-27T00:00:00Z") });
        assert_eq!(there[7].from, at("2026-03-05T00:00:00Z"));
        assert_eq!(fill(&mut there, at("2026-02-26T23:59:59Z"), 30), 0);
        assert_eq!(fill(&mut there, at("2026-02-27T00:00:00Z"), 30), 1);
    }

    #[test]
    fn what_is_kept_for_long_or_for_ever_is_divided_by_months() {
        for days in [0, 61, 400] {
            let mut there = Vec::new();
            fill(&mut there, at("2026-12-28T13:00:00Z"), days);
            let first = Span { from: at("2026-12-28T00:00:00Z"), to: at("2027-01-01T00:00:00Z") };
            assert_eq!(there, [first, Span { from: first.to, to: at("2027-02-01T00:00:00Z") }]);
        }
    }

    #[test]
    fn a_horizon_lies_in_the_past_or_nowhere() {
        assert_eq!(horizon(10 * DAY_US, 3), Some(7 * DAY_US));
        assert_eq!(horizon(10 * DAY_US, 0), None);
    }

    proptest! {
        #[test]
        fn spans_never_overlap_and_leave_no_hole_however_the_time_to_keep_changes(
            steps in prop::collection::vec((0_i64..40, prop::sample::select(vec![0_i64, 1, 30, 60, 61, 400])), 1..12)
        ) {
            let (mut there, mut now) = (Vec::new(), at("2026-01-15T12:00:00Z"));
            for (days, keep) in steps {
                now += days * DAY_US;
                fill(&mut there, now, keep);
                for day in 0..=AHEAD_DAYS {
                    let noon = now + day * DAY_US;
                    prop_assert_eq!(there.iter().filter(|s| s.from <= noon && noon < s.to).count(), 1);
                }
            }
            there.sort_by_key(|span| span.from);
            for pair in there.windows(2) {
                prop_assert!(pair[0].to <= pair[1].from);
            }
        }
    }
}
