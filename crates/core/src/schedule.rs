//! When a schedule fires.
//!
//! A rule is five cron fields read in a time zone, a nickname for such fields, or `@every` with a
//! duration. Times are microseconds since 2000-01-01 00:00:00 UTC, as PostgreSQL counts them.
//!
//! Where the clock is changed, the minute and the hour field decide what happens:
//! * Neither is `*` or `*/n`: these are fixed times. Those that fall into the gap in spring fire at
//!   the first moment after it, all of them together once. One that happens twice in autumn fires
//!   the first time.
//! * Either is: the rule fires whenever the clock on the wall shows a matching time. What falls
//!   into the gap is left out, and what happens twice fires twice, so that "every minute" and
//!   "every hour" go on evenly over a change of a whole hour.
//! * `@every` counts elapsed time, and no clock or time zone touches it.
//!
//! croner by itself takes only a single minute of a single hour for a fixed time, so `0,30 2 * * *`
//! would lose a day in spring and fire twice in autumn. This is why fixed times are searched on the
//! wall clock alone, and placed in time here.
//!
//! The clock changes are those compiled into chrono-tz, not those of the server, and end with 2099.

use crate::error::{Refusal, shown};
use chrono::{DateTime, NaiveDateTime, TimeZone};
use chrono_tz::{GapInfo, Tz};
use croner::{Cron, parser::CronParser};

/// A slot further back than this counts as missed, in microseconds.
pub const GRACE_US: i64 = 60 * SECOND_US;
/// The longest schedule, in bytes.
pub const LONGEST_RULE: usize = crate::bounds::CRON;

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
/// From 1970 to 2000, in seconds.
const EPOCH_S: i64 = 946_684_800;
/// From here to there croner searches, with a little room: from the year 1 to the year 4997.
const FIRST_US: i64 = -730_000 * DAY_US;
const LAST_US: i64 = 1_095_000 * DAY_US;
const LONGEST_INTERVAL_S: i64 = 366 * 86_400;

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// The fields in order: what they are called, what they accept, and the names they know.
const FIELDS: [(&str, &str, &[&str]); 5] = [
    ("minute", "0 to 59", &[]),
    ("hour", "0 to 23", &[]),
    ("day of month", "1 to 31, L for the last day, or 15W for the working day nearest to the 15th", &[]),
    (
        "month",
        "1 to 12 or JAN to DEC",
        &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    ),
    (
        "day of week",
        "0 to 7 or SUN to SAT (0 and 7 are Sunday), 5#2 for the second Friday, or 5L for the last",
        &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    ),
];

const FIVE_FIELDS: &str = "A schedule has five fields: minute, hour, day of month, month and day of week";
const DURATIONS: &str = "@every takes from 1 second to 366 days, such as @every 90s, @every 1h30m or @every 2d.";

/// A schedule that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    when: When,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum When {
    /// At the multiples of this many microseconds since 1970, so that the slots do not depend on when the schedule was
    /// made.
    Every(i64),
    Cron {
        cron: Box<Cron>,
        zone: Tz,
    },
}

/// What becomes of the slots that nobody was there to fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// They are dropped.
    Skip,
    /// The latest of them is fired, and stands for all.
    Once,
    /// Each is fired.
    Backfill,
}

/// The slots to fire now, oldest first, and the next fire time to store. None: never again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    pub slots: Vec<i64>,
    pub next: Option<i64>,
}

impl Missed {
    pub const ALL: [Missed; 3] = [Missed::Skip, Missed::Once, Missed::Backfill];

    pub const fn name(self) -> &'static str {
        match self {
            Missed::Skip => "skip",
            Missed::Once => "once",
            Missed::Backfill => "backfill",
        }
    }

    pub fn parse(text: &str) -> Result<Self, Refusal> {
        Self::ALL.into_iter().find(|missed| missed.name() == text).ok_or_else(|| {
            Refusal::new(
                format!("\"{}\" is not a way to treat missed slots", shown(text)),
                format!("The accepted ones are: {}.", Self::ALL.map(Self::name).join(", ")),
            )
        })
    }
}

impl Rule {
    /// Understands a schedule, whose fields are read in the time zone.
    pub fn parse(text: &str, timezone: &str) -> Result<Rule, Refusal> {
        if text.len() > LONGEST_RULE {
            return Err(Refusal::new(
                format!(
                    "the schedule is {} bytes long, more than the {LONGEST_RULE} allowed: \"{}\"",
                    text.len(),
                    shown(text)
                ),
                "Use ranges and steps such as 0-30/5 in place of long lists, or several schedules.",
            ));
        }
        let zone: Tz = timezone.parse().map_err(|_| {
            Refusal::new(
                format!("there is no time zone \"{}\"", shown(timezone)),
                "Use an IANA name such as Europe/Berlin or UTC, spelled as there.",
            )
        })?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let when = match words[..] {
            [] => {
                return Err(Refusal::new(
                    format!("the schedule must not be empty or blank, but is \"{text}\""),
                    format!("{FIVE_FIELDS}, such as \"*/5 * * * *\"."),
                ));
            }
            ["@every", duration] => When::Every(interval(duration)?),
            ["@every", ..] => {
                return Err(Refusal::new(
                    format!("the schedule \"{}\" must name one duration after @every", shown(text)),
                    DURATIONS,
                ));
            }
            [word, ..] if word.starts_with('@') => When::Cron { cron: nickname(&words)?, zone },
            _ => When::Cron { cron: cron(&words)?, zone },
        };
        Ok(Rule { when })
    }

    /// The first slot strictly after a moment. None: none before about the year 5000.
    pub fn next_after(&self, after: i64) -> Option<i64> {
        match &self.when {
            When::Every(interval) => {
                let (interval, epoch) = (i128::from(*interval), i128::from(EPOCH_S * SECOND_US));
                let since_1970 = i128::from(after) + epoch;
                i64::try_from((since_1970.div_euclid(interval) + 1) * interval - epoch).ok()
            }
            When::Cron { .. } if after > LAST_US => None,
            When::Cron { cron, zone } => {
                let second = after.max(FIRST_US).div_euclid(SECOND_US) + EPOCH_S;
                let after = DateTime::from_timestamp(second, 0)?.with_timezone(zone);
                let next = if cron.pattern.minutes.from_wildcard || cron.pattern.hours.from_wildcard {
                    cron.find_next_occurrence(&after, false).ok()?
                } else {
                    next_fixed(cron, *zone, &after)?
                };
                Some((next.timestamp() - EPOCH_S) * SECOND_US)
            }
        }
    }

    /// The first slots strictly after a moment.
    pub fn upcoming(&self, after: i64, count: usize) -> Vec<i64> {
        self.slots_after(after).take(count).collect()
    }

    fn slots_after(&self, after: i64) -> impl Iterator<Item = i64> {
        std::iter::successors(self.next_after(after), |slot| self.next_after(*slot))
    }

    /// Which slots are to be fired now, and when to look again.
    ///
    /// Only slots of this rule are fired: a stored time that is none (the clock changes of its zone
    /// were amended, say) leads to the first slot after it. `most` bounds a backfill, which then
    /// goes on from `next`, even if that is in the past. Every slot is at or after `next_fire_at`
    /// and before `next`, so that none is fired twice.
    pub fn due(&self, next_fire_at: i64, now: i64, missed: Missed, most: usize) -> Firing {
        if next_fire_at > now {
            return Firing { slots: Vec::new(), next: Some(next_fire_at) };
        }
        let before = next_fire_at.saturating_sub(1);
        if missed == Missed::Backfill {
            let slots: Vec<i64> = self.slots_after(before).take_while(|slot| *slot <= now).take(most).collect();
            let next = self.next_after(slots.last().copied().unwrap_or(before));
            return Firing { slots, next };
        }
        let latest = self.next_after(before).filter(|first| *first <= now).map(|first| self.latest(first, now));
        let fired = latest.filter(|slot| missed == Missed::Once || now.saturating_sub(*slot) <= GRACE_US);
        Firing { slots: fired.into_iter().collect(), next: self.next_after(now) }
    }

    /// The last slot not after `now`, given one. Halving the time between them takes some fifty
    /// rounds even where years of minutes were missed, and one where a single slot is due.
    fn latest(&self, first: i64, now: i64) -> i64 {
        // No slot up to `now` lies after `end`.
        let (mut latest, mut end) = (first, now);
        loop {
            match self.next_after(latest) {
                Some(slot) if slot <= now => latest = slot,
                _ => return latest,
            }
            let middle = latest + (end.abs_diff(latest) / 2) as i64;
            match self.next_after(middle) {
                Some(slot) if slot <= now => latest = slot,
                _ => end = middle,
            }
        }
    }
}

/// The first fixed time after a moment. In the order of the wall clock the moments never go back,
/// so the first that lies ahead is the next.
fn next_fixed(cron: &Cron, zone: Tz, after: &DateTime<Tz>) -> Option<DateTime<Tz>> {
    let mut wall: NaiveDateTime = after.naive_local();
    loop {
        wall = cron.find_next_occurrence(&wall, false).ok()?;
        let moment = match zone.from_local_datetime(&wall).earliest() {
            Some(moment) => moment,
            None => GapInfo::new(&wall, &zone)?.end?,
        };
        if moment > *after {
            return Some(moment);
        }
    }
}

fn nickname(words: &[&str]) -> Result<Box<Cron>, Refusal> {
    let text = words.join(" ");
    if let Some((_, fields)) = NICKNAMES.iter().find(|(name, _)| *name == text) {
        return cron(&fields.split(' ').collect::<Vec<_>>());
    }
    let names: Vec<_> = NICKNAMES.iter().map(|(name, _)| *name).collect();
    let hint = format!("The nicknames are: {}, and @every with a duration.", names.join(", "));
    Err(match words[0] {
        "@reboot" => Refusal::new(
            "the schedule \"@reboot\" names no time",
            format!("A schedule fires at times, not when a server starts. {hint}"),
        ),
        _ => Refusal::new(format!("there is no schedule nickname \"{}\"", shown(&text)), hint),
    })
}

/// The duration after `@every` in microseconds: numbers, each with its unit.
fn interval(text: &str) -> Result<i64, Refusal> {
    let refuse = |what: &str| Refusal::new(format!("the duration \"{}\" of @every {what}", shown(text)), DURATIONS);
    let mut seconds = 0_i64;
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let (number, unit) = part.split_at(part.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
        let unit = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(refuse("cannot be read")),
        };
        if number.is_empty() {
            return Err(refuse("cannot be read"));
        }
        // Only digits: a number that does not fit is too large.
        seconds = seconds.saturating_add(number.parse().unwrap_or(i64::MAX).saturating_mul(unit));
    }
    match seconds {
        1..=LONGEST_INTERVAL_S => Ok(seconds * SECOND_US),
        ..1 => Err(refuse("is shorter than 1 second")),
        _ => Err(refuse("is longer than 366 days")),
    }
}

fn cron(fields: &[&str]) -> Result<Box<Cron>, Refusal> {
    let text = fields.join(" ");
    if fields.len() != FIELDS.len() {
        let hint = match fields.len() {
            6 | 7 => "Leave out seconds and years. @every 30s fires more often than each minute.",
            _ => "An example is \"*/5 * * * *\"; @daily and @every 90s are others.",
        };
        return Err(Refusal::new(
            format!("the schedule \"{}\" has {} fields", shown(&text), fields.len()),
            format!("{FIVE_FIELDS}. {hint}"),
        ));
    }
    // One field at a time, so that the refusal can name it.
    for (place, field) in fields.iter().enumerate() {
        let mut alone = ["*"; FIELDS.len()];
        alone[place] = field;
        if !is_plain(place, field) || CronParser::new().parse(&alone.join(" ")).is_err() {
            let (name, accepts, _) = FIELDS[place];
            return Err(Refusal::new(
                format!("the {name} \"{}\" of the schedule \"{}\" cannot be read", shown(field), shown(&text)),
                format!("The {name} is {accepts}; * is any, and 1-5, 1,3,5, */2 and 1-9/2 select several."),
            ));
        }
    }
    let mut cron = CronParser::new().parse(&text).expect("each field was parsed before");
    let weekdays = &mut cron.pattern.days_of_week;
    // croner takes 7 for Sunday everywhere but in 7L. This is its bit for L.
    const LAST: u8 = 1 << 6;
    if weekdays.is_bit_set(7, LAST).unwrap_or(false) {
        weekdays.set_bit(0, LAST).expect("Sunday accepts what 7 accepts");
    }
    let start = DateTime::UNIX_EPOCH.naive_utc();
    if cron.find_next_occurrence(&start, true).is_err() {
        return Err(Refusal::new(
            format!("the schedule \"{}\" never fires", shown(&text)),
            "No day ever matches its day of month, month and day of week, as with the 30th of February.",
        ));
    }
    Ok(Box::new(cron))
}

/// Whether a field is made of numbers, and of the names that it knows. croner replaces names wherever they stand and
/// passes over empty parts, so that `JANFEB` would be December, and `,` would never fire.
fn is_plain(place: usize, field: &str) -> bool {
    let field = field.to_ascii_uppercase();
    let (name, _, names) = FIELDS[place];
    let field = if name == "day of week" { field.strip_prefix('+').unwrap_or(&field) } else { &field };
    field.split(',').all(|item| {
        let item = match name {
            "day of month" if ["L", "LW"].contains(&item) => return true,
            "day of month" => item.strip_suffix('W').unwrap_or(item),
            "day of week" => item.strip_suffix("#L").or(item.strip_suffix('L')).unwrap_or(item),
            _ => item,
        };
        item.split(['-', '/', '#']).all(|part| {
            ["*", "?"].contains(&part)
                || names.contains(&part)
                || (!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        })
    })
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
