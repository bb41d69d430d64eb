//! Schedules on real dates, on days when the clock is changed, and against plain references that
//! look at every minute and at every slot.

use super::*;
use chrono::{Datelike, TimeDelta, Timelike};
use proptest::prelude::*;

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";
const MINUTE_US: i64 = 60 * SECOND_US;

fn rule(text: &str, zone: &str) -> Rule {
    Rule::parse(text, zone).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
}

fn at(rfc3339: &str) -> i64 {
    (DateTime::parse_from_rfc3339(rfc3339).unwrap().timestamp() - EPOCH_S) * SECOND_US
}

fn wall(at: i64, zone: Tz) -> NaiveDateTime {
    DateTime::from_timestamp_micros(at + EPOCH_S * SECOND_US).unwrap().with_timezone(&zone).naive_local()
}

/// The slots after a moment as the clock of the zone shows them, with the name of its time.
fn fires(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let show = |slot: i64| DateTime::from_timestamp_micros(slot + EPOCH_S * SECOND_US).unwrap();
    let slots = rule(text, zone).upcoming(at(after), count);
    slots.into_iter().map(|slot| show(slot).with_timezone(&zone.parse::<Tz>().unwrap()).to_string()).collect()
}

/// The days of the slots in UTC.
fn days(text: &str, after: &str, count: usize) -> Vec<String> {
    fires(text, "UTC", after, count).into_iter().map(|slot| slot[..10].to_owned()).collect()
}

fn refused(text: &str, zone: &str) -> (String, String) {
    let refusal = Rule::parse(text, zone).expect_err(text);
    (refusal.message, refusal.hint)
}

#[test]
fn a_slot_is_strictly_after_the_moment_asked_for() {
    let noon = at("2026-05-01T12:00:00Z");
    let every_five = rule("*/5 * * * *", "UTC");
    assert_eq!(every_five.next_after(noon - 1), Some(noon));
    assert_eq!(every_five.next_after(noon), Some(noon + 5 * MINUTE_US));
    assert_eq!(every_five.next_after(noon + 1), Some(noon + 5 * MINUTE_US));
    assert_eq!(at("2000-01-01T00:00:00Z"), 0);
}

#[test]
fn every_moment_has_an_answer() {
    for text in ["* * * * *", "30 2 * * *", "0 0 29 2 *", "@every 7s"] {
        let rule = rule(text, BERLIN);
        assert!(rule.next_after(i64::MIN).is_some(), "{text}");
        assert_eq!(rule.next_after(i64::MAX), None, "{text}");
        assert_eq!(rule.due(i64::MIN, 0, Missed::Once, 1).slots.len(), 1, "{text}");
    }
    assert_eq!(rule("* * * * *", BERLIN).next_after(LAST_US), Some(LAST_US + MINUTE_US));
}

#[test]
fn a_leap_day_comes_every_four_years_but_for_most_centuries() {
    assert_eq!(days("0 0 29 2 *", "2024-03-01T00:00:00Z", 2), ["2028-02-29", "2032-02-29"]);
    assert_eq!(days("0 0 29 2 *", "2096-03-01T00:00:00Z", 1), ["2104-02-29"]);
    assert_eq!(days("0 0 29 2 +MON", "2024-03-01T00:00:00Z", 1), ["2044-02-29"]);
}

#[test]
fn month_ends() {
    assert_eq!(days("0 0 31 * *", "2026-01-31T00:00:00Z", 3), ["2026-03-31", "2026-05-31", "2026-07-31"]);
    assert_eq!(days("0 0 L * *", "2028-01-31T00:00:00Z", 3), ["2028-02-29", "2028-03-31", "2028-04-30"]);
    // The 31st of May 2026 is a Sunday.
    assert_eq!(days("0 0 LW * *", "2026-05-01T00:00:00Z", 2), ["2026-05-29", "2026-06-30"]);
    assert_eq!(days("0 0 15W 8 *", "2026-01-01T00:00:00Z", 2), ["2026-08-14", "2027-08-16"]);
}

#[test]
fn weekdays_by_name_and_number() {
    let after = "2026-04-30T12:00:00Z"; // A Thursday.
    let working = ["2026-05-01", "2026-05-04", "2026-05-05"];
    for text in ["0 9 * * MON-FRI", "0 9 * * mon,Tue,wed,THU,fri", "0 9 * * 1-5", "0 9 ? * 1-5"] {
        assert_eq!(days(text, after, 3), working, "{text}");
    }
    assert_eq!(days("0 9 * may-Jun FRI#2", after, 3), ["2026-05-08", "2026-06-12", "2027-05-14"]);
    assert_eq!(days("0 9 * * FRIL", after, 2), ["2026-05-29", "2026-06-26"]);
    // Both days restricted: either will do, unless a plus asks for both.
    assert_eq!(days("0 9 13 * FRI", after, 3), ["2026-05-01", "2026-05-08", "2026-05-13"]);
    assert_eq!(days("0 9 13 * +FRI", after, 2), ["2026-11-13", "2027-08-13"]);
}

#[test]
fn sunday_is_0_and_7() {
    let after = "2026-04-30T12:00:00Z";
    for text in ["0 0 * * 0", "0 0 * * 7", "0 0 * * SUN", "0 0 * * 7-7", "@weekly"] {
        assert_eq!(days(text, after, 2), ["2026-05-03", "2026-05-10"], "{text}");
    }
    assert_eq!(days("0 0 * * SAT-SUN", after, 3), ["2026-05-02", "2026-05-03", "2026-05-09"]);
    for text in ["0 0 * * 0L", "0 0 * * 7L", "0 0 * * 7#L", "0 0 * * SUN#L"] {
        assert_eq!(days(text, after, 2), ["2026-05-31", "2026-06-28"], "{text}");
    }
    for text in ["0 0 * * 0#1", "0 0 * * 7#1"] {
        assert_eq!(days(text, after, 2), ["2026-05-03", "2026-06-07"], "{text}");
    }
    assert_eq!(days("0 0 * * 6-7#L", after, 2), ["2026-05-30", "2026-05-31"]);
}

#[test]
fn nicknames_stand_for_their_fields() {
    for (name, fields) in NICKNAMES {
        assert_eq!(rule(name, BERLIN), rule(fields, BERLIN), "{name}");
    }
    assert_eq!(
        fires("@midnight", BERLIN, "2026-07-01T12:00:00Z", 1),
        fires("@daily", BERLIN, "2026-07-01T12:00:00Z", 1)
    );
    assert_eq!(fires("@yearly", BERLIN, "2026-07-01T12:00:00Z", 1), ["2027-01-01 00:00:00 CET"]);
    assert_eq!(fires(" @hourly ", "UTC", "2026-07-01T12:00:00Z", 1), ["2026-07-01 13:00:00 UTC"]);
}

#[test]
fn every_is_anchored_at_the_unix_epoch() {
    let at_noon = |text: &str| rule(text, BERLIN).next_after(at("2026-05-01T12:00:07Z")).unwrap();
    assert_eq!(at_noon("@every 90s"), at("2026-05-01T12:01:30Z"));
    assert_eq!(at_noon("@every 5m"), at("2026-05-01T12:05:00Z"));
    assert_eq!(at_noon("@every 1h30m"), at("2026-05-01T13:30:00Z"));
    assert_eq!(at_noon("@every 1s"), at("2026-05-01T12:00:08Z"));
    assert_eq!(at_noon("@every 2d"), at("2026-05-03T00:00:00Z"));
    assert_eq!(at_noon("@every 366d") + EPOCH_S * SECOND_US, 57 * 366 * DAY_US);
    assert_eq!(at_noon("@every 1d1h1m1s"), at_noon("@every 90061s"));
    // Before 1970 too.
    assert_eq!(rule("@every 7s", "UTC").next_after(at("1969-12-31T23:59:50Z")), Some(at("1969-12-31T23:59:53Z")));
}

#[test]
fn a_fixed_time_in_the_gap_fires_once_right_after_it() {
    let spring = "2026-03-28T12:00:00Z";
    assert_eq!(fires("30 2 * * *", BERLIN, spring, 2), ["2026-03-29 03:00:00 CEST", "2026-03-30 02:30:00 CEST"]);
    // Several in the gap, and one at its end, are one.
    assert_eq!(
        fires("0,15,30 2,3 * * *", BERLIN, spring, 4),
        [
            "2026-03-29 03:00:00 CEST",
            "2026-03-29 03:15:00 CEST",
            "2026-03-29 03:30:00 CEST",
            "2026-03-30 02:00:00 CEST"
        ]
    );
    assert_eq!(
        fires("30 2 8 3 *", NEW_YORK, "2026-03-01T00:00:00Z", 2),
        ["2026-03-08 03:00:00 EDT", "2027-03-08 02:30:00 EST"]
    );
    assert_eq!(
        fires("15 2 * * *", LORD_HOWE, "2026-10-03T10:00:00Z", 2),
        ["2026-10-04 02:30:00 +11", "2026-10-05 02:15:00 +11"]
    );
    assert_eq!(
        fires("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", 2),
        ["2026-04-24 01:00:00 EEST", "2026-04-25 00:00:00 EEST"]
    );
    // A whole day that never was.
    assert_eq!(
        fires("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", 3),
        ["2011-12-29 12:00:00 -10", "2011-12-31 00:00:00 +14", "2011-12-31 12:00:00 +14"]
    );
}

#[test]
fn a_fixed_time_that_happens_twice_fires_the_first_time() {
    let autumn = "2026-10-24T12:00:00Z";
    assert_eq!(fires("30 2 * * *", BERLIN, autumn, 2), ["2026-10-25 02:30:00 CEST", "2026-10-26 02:30:00 CET"]);
    assert_eq!(
        fires("0,30 2,3 * * *", BERLIN, autumn, 5),
        [
            "2026-10-25 02:00:00 CEST",
            "2026-10-25 02:30:00 CEST",
            "2026-10-25 03:00:00 CET",
            "2026-10-25 03:30:00 CET",
            "2026-10-26 02:00:00 CET"
        ]
    );
    // Asked between the two, and in the second pass.
    for after in ["2026-10-25T00:45:00Z", "2026-10-25T01:10:00Z"] {
        assert_eq!(fires("30 2 * * *", BERLIN, after, 1), ["2026-10-26 02:30:00 CET"]);
    }
    assert_eq!(
        fires("30 1 * * *", NEW_YORK, "2026-10-31T12:00:00Z", 2),
        ["2026-11-01 01:30:00 EDT", "2026-11-02 01:30:00 EST"]
    );
    assert_eq!(
        fires("45 1 * * *", LORD_HOWE, "2026-04-04T12:00:00Z", 2),
        ["2026-04-05 01:45:00 +11", "2026-04-06 01:45:00 +1030"]
    );
}

#[test]
fn minutes_and_hours_go_on_evenly_over_a_clock_change() {
    for (zone, after) in [
        (BERLIN, "2026-03-28T12:00:00Z"),
        (BERLIN, "2026-10-24T12:00:00Z"),
        (NEW_YORK, "2026-03-07T20:00:00Z"),
        (NEW_YORK, "2026-10-31T20:00:00Z"),
    ] {
        for (text, step) in [("* * * * *", 1), ("*/15 * * * *", 15), ("@hourly", 60), ("20 * * * *", 60)] {
            let slots = rule(text, zone).upcoming(at(after), 2_000 / step as usize);
            assert!(slots.windows(2).all(|pair| pair[1] - pair[0] == step * MINUTE_US), "{text} {zone} {after}");
        }
    }
}

#[test]
fn a_wildcard_fires_whenever_the_wall_clock_matches() {
    assert_eq!(
        fires("0 */2 * * *", BERLIN, "2026-03-28T22:30:00Z", 3),
        ["2026-03-29 00:00:00 CET", "2026-03-29 04:00:00 CEST", "2026-03-29 06:00:00 CEST"]
    );
    assert_eq!(
        fires("*/30 2 * * *", BERLIN, "2026-10-24T12:00:00Z", 5),
        [
            "2026-10-25 02:00:00 CEST",
            "2026-10-25 02:30:00 CEST",
            "2026-10-25 02:00:00 CET",
            "2026-10-25 02:30:00 CET",
            "2026-10-26 02:00:00 CET"
        ]
    );
    assert_eq!(
        fires("*/30 2 * * *", BERLIN, "2026-03-28T12:00:00Z", 2),
        ["2026-03-30 02:00:00 CEST", "2026-03-30 02:30:00 CEST"]
    );
    // Half an hour is left out, or repeated.
    assert_eq!(
        fires("@hourly", LORD_HOWE, "2026-10-03T14:00:00Z", 3),
        ["2026-10-04 01:00:00 +1030", "2026-10-04 03:00:00 +11", "2026-10-04 04:00:00 +11"]
    );
    assert_eq!(
        fires("45 * * * *", LORD_HOWE, "2026-04-04T14:00:00Z", 3),
        ["2026-04-05 01:45:00 +11", "2026-04-05 01:45:00 +1030", "2026-04-05 02:45:00 +1030"]
    );
}

#[test]
fn nothing_is_due_before_its_time() {
    let (rule, next) = (rule("0 * * * *", "UTC"), at("2026-05-01T12:00:00Z"));
    for missed in Missed::ALL {
        assert_eq!(rule.due(next, next - 1, missed, 10), Firing { slots: vec![], next: Some(next) });
    }
}

#[test]
fn a_slot_counts_as_missed_after_the_grace() {
    let (rule, slot) = (rule("0 * * * *", "UTC"), at("2026-05-01T12:00:00Z"));
    let next = Some(slot + 60 * MINUTE_US);
    let firing = |slots: &[i64]| Firing { slots: slots.to_vec(), next };
    assert_eq!(rule.due(slot, slot, Missed::Skip, 10), firing(&[slot]));
    assert_eq!(rule.due(slot, slot + GRACE_US, Missed::Skip, 10), firing(&[slot]));
    assert_eq!(rule.due(slot, slot + GRACE_US + 1, Missed::Skip, 10), firing(&[]));
    assert_eq!(rule.due(slot, slot + GRACE_US + 1, Missed::Once, 10), firing(&[slot]));
    assert_eq!(rule.due(slot, slot + GRACE_US + 1, Missed::Backfill, 10), firing(&[slot]));
}

#[test]
fn after_years_of_missed_minutes_the_latest_is_found_at_once() {
    let (first, now) = (at("2006-01-01T00:00:00Z"), at("2026-05-01T12:00:30Z"));
    for (text, latest, next) in [
        ("* * * * *", "2026-05-01T12:00:00Z", "2026-05-01T12:01:00Z"),
        ("@every 1s", "2026-05-01T12:00:30Z", "2026-05-01T12:00:31Z"),
        ("* * * 1 *", "2026-01-31T22:59:00Z", "2026-12-31T23:00:00Z"),
        ("0 0 29 2 *", "2024-02-28T23:00:00Z", "2028-02-28T23:00:00Z"),
    ] {
        let began = std::time::Instant::now();
        let firing = rule(text, BERLIN).due(first, now, Missed::Once, 1);
        assert_eq!(firing, Firing { slots: vec![at(latest)], next: Some(at(next)) }, "{text}");
        assert!(began.elapsed().as_millis() < 2_000, "{text}");
    }
}

#[test]
fn a_backfill_takes_at_most_so_many_and_goes_on_from_there() {
    let (rule, first) = (rule("0 * * * *", "UTC"), at("2026-05-01T12:00:00Z"));
    let hour = |n: i64| first + n * 60 * MINUTE_US;
    let now = hour(2) + 1;
    let firing = |slots: &[i64], next| Firing { slots: slots.to_vec(), next: Some(next) };
    assert_eq!(rule.due(first, now, Missed::Backfill, 2), firing(&[hour(0), hour(1)], hour(2)));
    assert_eq!(rule.due(hour(2), now, Missed::Backfill, 2), firing(&[hour(2)], hour(3)));
    assert_eq!(rule.due(first, now, Missed::Backfill, 0), firing(&[], hour(0)));
}

#[test]
fn a_stored_time_that_is_no_slot_leads_to_the_next_one() {
    let (rule, slot) = (rule("0 * * * *", "UTC"), at("2026-05-01T12:00:00Z"));
    for missed in Missed::ALL {
        assert_eq!(rule.due(slot - 2 * MINUTE_US, slot - 1, missed, 10), Firing { slots: vec![], next: Some(slot) });
        assert_eq!(rule.due(slot - 2 * MINUTE_US, slot, missed, 10).slots, [slot]);
    }
}

#[test]
fn the_ways_to_treat_missed_slots_have_names() {
    for missed in Missed::ALL {
        assert_eq!(Missed::parse(missed.name()), Ok(missed));
    }
    let refusal = Missed::parse("Catchup").unwrap_err();
    assert_eq!(refusal.message, "\"Catchup\" is not a way to treat missed slots");
    assert_eq!(refusal.hint, "The accepted ones are: skip, once, backfill.");
}

#[test]
fn an_empty_or_long_schedule_is_refused() {
    let (message, hint) = refused("  ", "UTC");
    assert_eq!(message, "the schedule must not be empty or blank, but is \"  \"");
    assert!(hint.contains("five fields") && hint.contains("*/5 * * * *"));
    let (message, hint) = refused(&"1,".repeat(101), "UTC");
    assert!(message.starts_with("the schedule is 202 bytes long, more than the 200 allowed: \"1,1,"), "{message}");
    assert!(hint.contains("ranges and steps"));
}

#[test]
fn an_unknown_time_zone_is_refused() {
    for zone in ["", "Mars/Olympus", "CEST", "europe/berlin", "+02:00"] {
        let (message, hint) = refused("* * * * *", zone);
        assert_eq!(message, format!("there is no time zone \"{zone}\""));
        assert!(hint.contains("IANA name such as Europe/Berlin or UTC"));
    }
}

#[test]
fn seconds_and_years_are_refused() {
    for (text, count) in [("0 */5 * * * *", 6), ("0 0 0 1 1 * 2030", 7)] {
        let (message, hint) = refused(text, "UTC");
        assert_eq!(message, format!("the schedule \"{text}\" has {count} fields"));
        assert!(
            hint.contains("five fields") && hint.contains("Leave out seconds and years") && hint.contains("@every")
        );
    }
    let (message, hint) = refused("* * *", "UTC");
    assert_eq!(message, "the schedule \"* * *\" has 3 fields");
    assert!(hint.contains("five fields: minute, hour, day of month, month and day of week"));
}

#[test]
fn an_unknown_nickname_is_refused() {
    let (message, hint) = refused("@reboot", "UTC");
    assert_eq!(message, "the schedule \"@reboot\" names no time");
    assert!(hint.contains("not when a server starts") && hint.contains("@daily"));
    for text in ["@fortnightly", "@daily 5", "@Daily"] {
        let (message, hint) = refused(text, "UTC");
        assert_eq!(message, format!("there is no schedule nickname \"{text}\""));
        assert!(NICKNAMES.iter().all(|(name, _)| hint.contains(name)) && hint.contains("@every"));
    }
}

#[test]
fn an_unreadable_duration_is_refused() {
    for text in ["5", "m", "1.5h", "-5m", "5 m", "90sec", "1w", "5M", "", "1h30", "٣s"] {
        let (message, hint) = refused(&format!("@every {text}"), "UTC");
        let expected = match text {
            "" | "5 m" => format!("the schedule \"@every {text}\" must name one duration after @every"),
            _ => format!("the duration \"{text}\" of @every cannot be read"),
        };
        assert_eq!((message, hint.as_str()), (expected, DURATIONS), "{text}");
    }
    for text in ["0s", "0h0m"] {
        assert_eq!(
            refused(&format!("@every {text}"), "UTC").0,
            format!("the duration \"{text}\" of @every is shorter than 1 second")
        );
    }
    for text in ["367d", "366d1s", "99999999999999999999s", "9223372036854775807d1s"] {
        let (message, hint) = refused(&format!("@every {text}"), "UTC");
        assert_eq!(message, format!("the duration \"{text}\" of @every is longer than 366 days"));
        assert!(hint.contains("1 second to 366 days"));
    }
}

#[test]
fn an_unreadable_field_is_named() {
    for (text, name, field, accepts) in [
        ("60 * * * *", "minute", "60", "0 to 59"),
        ("SUN * * * *", "minute", "SUN", "0 to 59"),
        (", * * * *", "minute", ",", "0 to 59"),
        ("5,,6 * * * *", "minute", "5,,6", "0 to 59"),
        ("0/5 * * * *", "minute", "0/5", "*/2"),
        ("*/0 * * * *", "minute", "*/0", "*/2"),
        ("0 24 * * *", "hour", "24", "0 to 23"),
        ("0 18-6 * * *", "hour", "18-6", "0 to 23"),
        ("0 @daily * * *", "hour", "@daily", "0 to 23"),
        ("0 0 0 * *", "day of month", "0", "L for the last day"),
        ("0 0 15W3 * *", "day of month", "15W3", "L for the last day"),
        ("0 0 ſ * *", "day of month", "ſ", "L for the last day"),
        ("0 0 * 13 *", "month", "13", "JAN to DEC"),
        ("0 0 * JANFEB *", "month", "JANFEB", "JAN to DEC"),
        ("0 0 * * 8", "day of week", "8", "SUN to SAT"),
        ("0 0 * * MONDAY", "day of week", "MONDAY", "SUN to SAT"),
        ("0 0 * * L", "day of week", "L", "5L for the last"),
        ("0 0 * * +", "day of week", "+", "SUN to SAT"),
        ("0 0 * * MON#6", "day of week", "MON#6", "5#2 for the second Friday"),
    ] {
        let (message, hint) = refused(text, "UTC");
        assert_eq!(message, format!("the {name} \"{field}\" of the schedule \"{text}\" cannot be read"));
        assert!(hint.starts_with(&format!("The {name} is ")) && hint.contains(accepts), "{text}: {hint}");
    }
}

#[test]
fn a_schedule_that_never_fires_is_refused() {
    for text in ["0 0 30 2 *", "* * 31 4,6,9,11 *", "*/5 * 30-31 FEB +MON", "0 0 30 2 +*"] {
        let (message, hint) = refused(text, BERLIN);
        assert_eq!(message, format!("the schedule \"{text}\" never fires"));
        assert!(hint.contains("30th of February"));
    }
}

/// A field as text, and the values it stands for.
type Field = (String, Vec<u32>);

/// A field of `low` to `high`, where named values go only up to `to`.
fn field(low: u32, high: u32, to: u32) -> impl Strategy<Value = Field> {
    prop_oneof![
        3 => Just(("*".to_owned(), (low..=high).collect())),
        2 => (2_u32..=20).prop_map(move |n| (format!("*/{n}"), (low..=high).step_by(n as usize).collect())),
        2 => (low..=to, low..=to).prop_map(|(a, b)| {
            (format!("{}-{}", a.min(b), a.max(b)), (a.min(b)..=a.max(b)).collect())
        }),
        3 => prop::collection::vec(low..=to, 1..4).prop_map(|values| {
            (values.iter().map(u32::to_string).collect::<Vec<_>>().join(","), values)
        }),
    ]
}

#[derive(Clone, Debug)]
struct Pattern {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Pattern {
    fn text(&self) -> String {
        [&self.minute, &self.hour, &self.day, &self.month, &self.weekday].map(|field| field.0.as_str()).join(" ")
    }

    fn is_fixed(&self) -> bool {
        !self.minute.0.starts_with('*') && !self.hour.0.starts_with('*')
    }

    fn matches(&self, wall: NaiveDateTime) -> bool {
        let day = self.day.1.contains(&wall.day());
        let weekday = self.weekday.1.iter().any(|day| day % 7 == wall.weekday().num_days_from_sunday());
        let day_matches = if self.day.0 == "*" || self.weekday.0 == "*" { day && weekday } else { day || weekday };
        self.minute.1.contains(&wall.minute())
            && self.hour.1.contains(&wall.hour())
            && self.month.1.contains(&wall.month())
            && day_matches
    }

    /// The first slots in a span of whole minutes, found by looking at each of them.
    fn slots(&self, zone: Tz, after: i64, until: i64, most: usize) -> Vec<i64> {
        let mut slots = Vec::new();
        // What the wall clock has shown so far: fixed times go by it. No clock change reaches
        // further back than a day.
        let mut latest = wall(after - DAY_US, zone);
        let mut moment = after - DAY_US + MINUTE_US;
        while moment <= until && slots.len() < most {
            let shows = wall(moment, zone);
            let minutes = if self.is_fixed() { (shows - latest).num_minutes().max(0) } else { 1 };
            if (0..minutes).any(|back| self.matches(shows - TimeDelta::minutes(back))) && moment > after {
                slots.push(moment);
            }
            latest = latest.max(shows);
            moment += MINUTE_US;
        }
        slots
    }
}

/// Patterns with hours up to `hour`, most of them on many days.
fn pattern(hour: u32) -> impl Strategy<Value = Pattern> {
    let any = |low: u32, high: u32| Just(("*".to_owned(), (low..=high).collect::<Vec<u32>>()));
    let day = prop_oneof![any(1, 31), field(1, 31, 28)];
    let month = prop_oneof![any(1, 12), field(1, 12, 12)];
    (field(0, 59, 59), field(0, 23, hour), day, month, field(0, 7, 7))
        .prop_map(|(minute, hour, day, month, weekday)| Pattern { minute, hour, day, month, weekday })
}

/// Whether a rule finds the slots that the reference finds. `start` is `after` without its seconds.
fn agrees(p: &Pattern, zone: &str, start: i64, mut after: i64, until: i64, most: usize) -> Result<(), TestCaseError> {
    let (rule, expected) = (rule(&p.text(), zone), p.slots(zone.parse().unwrap(), start, until, most));
    for slot in &expected {
        prop_assert_eq!(rule.next_after(after), Some(*slot), "{} in {} after {}", p.text(), zone, after);
        after = *slot;
    }
    let ends = expected.len() == most || rule.next_after(after).is_none_or(|slot| slot > until);
    prop_assert!(ends, "{} in {} goes on after {}", p.text(), zone, after);
    Ok(())
}

const RULES: [&str; 9] = [
    "* * * * *",
    "*/7 * * * *",
    "@hourly",
    "30 2 * * *",
    "0,20,40 1,2,3 * * *",
    "*/20 2 * * SUN",
    "0 0 1 * *",
    "@every 90s",
    "@every 25h",
];

proptest! {
    #[test]
    fn the_next_slot_is_the_one_that_looking_at_every_minute_finds(
        pattern in pattern(23), start in 0_i64..20_000_000, offset in 0..MINUTE_US,
    ) {
        let start = start * MINUTE_US;
        agrees(&pattern, "UTC", start, start + offset, start + 35 * DAY_US, 20)?;
    }

    #[test]
    fn clock_changes_go_as_promised_on_the_days_around_them(
        pattern in pattern(4),
        (zone, change) in prop::sample::select(vec![
            (BERLIN, "2026-03-29T01:00:00Z"), (BERLIN, "2026-10-25T01:00:00Z"),
            (NEW_YORK, "2026-03-08T07:00:00Z"), (NEW_YORK, "2026-11-01T06:00:00Z"),
            (LORD_HOWE, "2026-10-03T15:30:00Z"), (LORD_HOWE, "2026-04-04T15:00:00Z"),
            ("Africa/Cairo", "2026-04-23T22:00:00Z"), ("Africa/Cairo", "2026-10-29T21:00:00Z"),
        ]),
        early in 0_i64..360, offset in 0..MINUTE_US,
    ) {
        let start = at(change) + (120 - early) * MINUTE_US;
        agrees(&pattern, zone, start, start + offset, start + 2 * DAY_US, 500)?;
    }

    #[test]
    fn a_backfill_neither_loses_nor_doubles_a_slot(
        text in prop::sample::select(RULES.to_vec()),
        start in 800_000_000_i64..900_000_000,
        steps in prop::collection::vec((0_i64..20_000, 0_usize..40), 1..30),
    ) {
        let rule = rule(text, BERLIN);
        let start = start * SECOND_US;
        let mut next = rule.next_after(start).unwrap();
        let (mut now, mut fired) = (start, Vec::new());
        for (seconds, most) in steps {
            now += seconds * SECOND_US;
            let firing = rule.due(next, now, Missed::Backfill, most);
            prop_assert!(firing.slots.len() <= most);
            prop_assert!(firing.slots.iter().all(|slot| (next..firing.next.unwrap()).contains(slot)));
            fired.extend(firing.slots);
            next = firing.next.unwrap();
        }
        fired.extend(rule.due(next, now, Missed::Backfill, usize::MAX).slots);
        let all: Vec<i64> = rule.slots_after(start).take_while(|slot| *slot <= now).collect();
        prop_assert_eq!(fired, all);
    }

    #[test]
    fn skip_and_once_agree_with_walking_over_every_slot(
        text in prop::sample::select(RULES.to_vec()),
        start in 800_000_000_i64..900_000_000,
        late in prop_oneof![0..5 * MINUTE_US, 0..3 * DAY_US],
    ) {
        let rule = rule(text, BERLIN);
        let stored = rule.next_after(start * SECOND_US).unwrap();
        let now = stored + late;
        let due: Vec<i64> = rule.slots_after(stored - 1).take_while(|slot| *slot <= now).collect();
        let next = rule.slots_after(stored - 1).find(|slot| *slot > now);
        let latest = *due.last().unwrap();
        prop_assert_eq!(rule.due(stored, now, Missed::Once, 0), Firing { slots: vec![latest], next });
        let slots = if now - latest > GRACE_US { vec![] } else { vec![latest] };
        prop_assert_eq!(rule.due(stored, now, Missed::Skip, 0), Firing { slots, next });
    }

    #[test]
    fn no_text_breaks_the_parser(
        fields in prop::collection::vec("[0-9*/,?LW#+@-]{1,5}|JAN|sun-SAT|é|ſ", 1..8), zone in "UTC|Europe/Berlin|.{0,9}",
    ) {
        if let Ok(rule) = Rule::parse(&fields.join(" "), &zone) {
            prop_assert!(rule.next_after(0).is_some_and(|slot| slot > 0));
        }
    }
}
