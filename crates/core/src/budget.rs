//! Budgets: how much of a unit may be spent in a period, by key.
//!
//! What is left of a budget is counted under a name that says which unit, which period, when it began and for which
//! key. So a new period begins with a new counter, at nothing. Amounts are millionths.

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, Timelike};
use std::collections::HashMap;

type Micros = i64;

/// From 1970 to 2000, in microseconds.
const EPOCH_US: i64 = 946_684_800_000_000;
/// An amount as it is counted.
pub fn millionths(amount: f64) -> i64 {
    (amount * 1e6).round() as i64
}

/// What the name of a counter begins with.
pub const START: &str = "budget:";
pub const PERIODS: [&str; 5] = ["hour", "day", "week", "month", "total"];

/// How long a budget lasts, in UTC; a week begins on Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    Hour,
    Day,
    Week,
    Month,
    /// For ever.
    Total,
}

impl Period {
    pub fn parse(name: &str) -> Option<Period> {
        Some(match name {
            "hour" => Period::Hour,
            "day" => Period::Day,
            "week" => Period::Week,
            "month" => Period::Month,
            "total" => Period::Total,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        PERIODS[self as usize]
    }

    /// When the period began in which this moment lies.
    fn began(self, now: Micros) -> Option<NaiveDateTime> {
        let now = DateTime::from_timestamp_micros(now.saturating_add(EPOCH_US))?.naive_utc();
        let (day, midnight) = (now.date(), |day: NaiveDate| day.and_hms_opt(0, 0, 0));
        match self {
            Period::Hour => day.and_hms_opt(now.hour(), 0, 0),
            Period::Day => midnight(day),
            Period::Week => midnight(day.checked_sub_days(Days::new(day.weekday().num_days_from_monday().into()))?),
            Period::Month => midnight(day.with_day(1)?),
            Period::Total => None,
        }
    }

    /// The name of the period in which this moment lies.
    pub fn start(self, now: Micros) -> String {
        let name = |began: NaiveDateTime| match self {
            Period::Hour => format!("{}T{:02}", began.date(), began.hour()),
            _ => began.date().to_string(),
        };
        self.began(now).map(name).unwrap_or_default()
    }

    /// When the next one begins; None: never.
    pub fn ends(self, now: Micros) -> Option<Micros> {
        let began = self.began(now)?;
        let end = match self {
            Period::Hour => began.checked_add_signed(chrono::TimeDelta::hours(1))?,
            Period::Day => began.checked_add_days(Days::new(1))?,
            Period::Week => began.checked_add_days(Days::new(7))?,
            Period::Month => began.checked_add_months(Months::new(1))?,
            Period::Total => return None,
        };
        Some(end.and_utc().timestamp_micros() - EPOCH_US)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    pub unit: String,
    pub period: Period,
    pub amount: i64,
    /// Whether new jobs are refused when it is exhausted, or wait.
    pub refuses: bool,
}

impl Budget {
    /// The name under which this budget is counted for a key, at this moment.
    pub fn counter(&self, key: &str, now: Micros) -> String {
        format!("{START}{}:{}:{}:{key}", self.unit, self.period.name(), self.period.start(now))
    }
}

/// What the name of a counter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter<'a> {
    pub unit: &'a str,
    pub period: Period,
    pub start: &'a str,
    pub key: &'a str,
}

impl<'a> Counter<'a> {
    pub fn parse(name: &'a str) -> Option<Counter<'a>> {
        let (unit, rest) = name.strip_prefix(START)?.split_once(':')?;
        let (period, rest) = rest.split_once(':')?;
        let (start, key) = rest.split_once(':')?;
        Some(Counter { unit, period: Period::parse(period)?, start, key })
    }
}

/// All budgets.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    exact: HashMap<String, Vec<Budget>>,
    /// By what a key begins with; the longest first.
    patterns: Vec<(String, Vec<Budget>)>,
}

impl Budgets {
    pub fn new(budgets: impl IntoIterator<Item = (String, Budget)>) -> Budgets {
        let mut by_key: HashMap<String, Vec<Budget>> = HashMap::new();
        budgets.into_iter().for_each(|(key, budget)| by_key.entry(key).or_default().push(budget));
        let mut all = Budgets::default();
        for (key, budgets) in by_key {
            match key.strip_suffix('*') {
                Some(start) => all.patterns.push((start.to_owned(), budgets)),
                None => drop(all.exact.insert(key, budgets)),
            }
        }
        all.patterns.sort_by_key(|(start, _)| std::cmp::Reverse(start.len()));
        all
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.patterns.is_empty()
    }

    /// The budgets of a key: for each unit and period its own, or that of the longest pattern.
    pub fn of<'a>(&'a self, key: &str) -> Vec<&'a Budget> {
        let patterns = self.patterns.iter().filter(|(start, _)| key.starts_with(start.as_str())).map(|(_, all)| all);
        let mut found: Vec<&Budget> = Vec::new();
        for budget in self.exact.get(key).into_iter().chain(patterns).flatten() {
            if !found.iter().any(|other| other.unit == budget.unit && other.period == budget.period) {
                found.push(budget);
            }
        }
        found
    }

    /// The budget that is counted under this name, if it still is.
    pub fn counted(&self, counter: &Counter<'_>, now: Micros) -> Option<&Budget> {
        let mut all = self.of(counter.key).into_iter();
        all.find(|budget| {
            budget.unit == counter.unit && budget.period == counter.period && budget.period.start(now) == counter.start
        })
    }
}

/// An amount that a lease has reserved, and of which counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    pub counter: String,
    pub amount: i64,
    /// Whether its worker has told what it really used: then what is left was not used.
    pub is_told: bool,
}

impl Reserved {
    pub fn parse(text: &str) -> Option<Reserved> {
        let end = text.find(|letter: char| !letter.is_ascii_digit())?;
        let (amount, rest) = text.split_at(end);
        let is_told = rest.starts_with('+');
        Some(Reserved { counter: rest.get(1..)?.to_owned(), amount: amount.parse().ok()?, is_told })
    }

    pub fn text(&self) -> String {
        format!("{}{}{}", self.amount, if self.is_told { '+' } else { ' ' }, self.counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-18 14:30 UTC, a Wednesday.
    const NOW: Micros = 1_795_012_200_000_000 - EPOCH_US;

    fn budget(unit: &str, period: Period, amount: i64) -> Budget {
        Budget { unit: unit.to_owned(), period, amount, refuses: false }
    }

    #[test]
    fn periods_begin_and_end_with_the_calendar() {
        for (period, start, end) in [
            (Period::Hour, "2026-11-18T14", Some("2026-11-18 15:00:00")),
            (Period::Day, "2026-11-18", Some("2026-11-19 00:00:00")),
            (Period::Week, "2026-11-16", Some("2026-11-23 00:00:00")),
            (Period::Month, "2026-11-01", Some("2026-12-01 00:00:00")),
            (Period::Total, "", None),
        ] {
            assert_eq!(period.start(NOW), start);
            let end_at = period.ends(NOW).and_then(|end| DateTime::from_timestamp_micros(end + EPOCH_US));
            assert_eq!(end_at.map(|end| end.naive_utc().to_string()), end.map(str::to_owned));
            assert_eq!(Period::parse(period.name()), Some(period));
        }
    }

    #[test]
    fn a_counter_is_found_in_its_name_again() {
        let name = budget("usd", Period::Day, 5).counter("tenant:42", NOW);
        assert_eq!(name, "budget:usd:day:2026-11-18:tenant:42");
        let counter = Counter::parse(&name).expect("a counter");
        assert_eq!((counter.unit, counter.start, counter.key), ("usd", "2026-11-18", "tenant:42"));
        assert_eq!(Counter::parse("budget:usd:total::global").expect("one").key, "global");
        assert_eq!(Counter::parse("tenant:42"), None);
    }

    #[test]
    fn a_key_has_its_own_budgets_before_those_of_patterns() {
        let budgets = Budgets::new([
            ("tenant:*".to_owned(), budget("usd", Period::Day, 5)),
            ("tenant:*".to_owned(), budget("tokens", Period::Day, 9)),
            ("tenant:42".to_owned(), budget("usd", Period::Day, 50)),
            ("tenant:42".to_owned(), budget("usd", Period::Month, 500)),
        ]);
        let mut amounts: Vec<i64> = budgets.of("tenant:42").iter().map(|budget| budget.amount).collect();
        amounts.sort_unstable();
        assert_eq!(amounts, [9, 50, 500]);
        assert_eq!(budgets.of("tenant:7").len(), 2);
        assert!(budgets.of("global").is_empty());
        let counter = |name: &str| budgets.counted(&Counter::parse(name).expect("a counter"), NOW).map(|b| b.amount);
        assert_eq!(counter("budget:usd:day:2026-11-18:tenant:42"), Some(50));
        assert_eq!(counter("budget:usd:day:2026-11-17:tenant:42"), None, "of yesterday");
        assert_eq!(counter("budget:usd:week:2026-11-16:tenant:42"), None, "there is none");
    }

    #[test]
    fn what_is_reserved_is_read_again() {
        for is_told in [false, true] {
            let reserved = Reserved { counter: "budget:usd:total::a b".to_owned(), amount: 1_500_000, is_told };
            assert_eq!(Reserved::parse(&reserved.text()), Some(reserved));
        }
        assert_eq!(Reserved::parse("nothing"), None);
    }
}
