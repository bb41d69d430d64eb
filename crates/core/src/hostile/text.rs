//! Arbitrary texts and numbers for every parser that takes some.

use super::{assert_clear, texts};
use crate::budget::{Budget, Counter, Period, Reserved};
use crate::jsonb::{self, Container, Item};
use crate::limits::{self, Rule as Limit, Rules};
use crate::line::{Fair, Line};
use crate::mission::path;
use crate::name::Name;
use crate::retry::{Backoff, LONGEST_WAIT, Shape};
use crate::schedule::{Missed, Rule};
use crate::snapshot::Snapshot;
use crate::{admission, config, error, error_class, input, partition, reaction, replay};
use proptest::prelude::*;

/// Rules that look like cron, and others.
fn rules() -> impl Strategy<Value = String> {
    let field = "[0-9*?,/#LW+JANMOSU-]{1,8}|[*]|[0-9]{1,2}|[*]/[0-9]{1,3}";
    prop_oneof![
        (field, field, field, field, field).prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}")),
        "@every [0-9]{0,25}[smhdx]?[0-9]{0,5}[smhd]?",
        "@[a-z]{0,9}",
        texts(),
        ".{0,250}",
    ]
}

fn zones() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("UTC".to_owned()),
        Just("Europe/Berlin".to_owned()),
        Just("Australia/Lord_Howe".to_owned()),
        Just("Pacific/Apia".to_owned()),
        texts(),
    ]
}

/// Moments, the first and last among them.
fn moments() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -1_000_000_000_000_000_i64..1_000_000_000_000_000,
        prop::sample::select(vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_schedule_is_read_or_refused_and_goes_forward(
        rule in rules(), zone in zones(), after in moments(), now in moments()
    ) {
        let Some(rule) = assert_clear(Rule::parse(&rule, &zone)) else { return Ok(()) };
        let upcoming = rule.upcoming(after, 3);
        prop_assert!(upcoming.iter().all(|slot| *slot > after) && upcoming.is_sorted());
        for missed in Missed::ALL {
            let firing = rule.due(after, now, missed, 5);
            prop_assert!(firing.slots.len() <= 5);
            prop_assert!(firing.slots.iter().all(|slot| (after..=now).contains(slot)));
            prop_assert!(firing.slots.iter().zip(firing.next).all(|(slot, next)| *slot < next));
        }
    }

    #[test]
    fn a_word_is_known_or_the_known_ones_are_told(text in texts(), longest in 0_usize..300) {
        assert_clear(Missed::parse(&text));
        assert_clear(replay::From::parse(&text, None));
        assert_clear(replay::From::parse("specific_step", Some(&text)));
        assert_clear(input::one_of("it", &text, &["a", "b"]));
        assert_clear(input::name("it", &text, longest));
        assert_clear(input::reference("it", Some(&text)));
        assert_clear(config::find(config::tests::KEYS.iter(), &text));
        let normal = error_class::normal(&text);
        prop_assert_eq!(error_class::normal(&normal), normal);
    }

    #[test]
    fn what_is_shown_of_a_text_is_short_and_begins_as_it_does(text in ".{0,4000}") {
        let shown = error::shown(&text);
        prop_assert!(shown.chars().count() < 90);
        let head = shown.split('…').next().unwrap_or_default();
        prop_assert!(shown == text || text.starts_with(head) || text.contains('…'));
        prop_assert!(error::clipped(text.clone()).len() <= text.len().max(3_030));
    }

    #[test]
    fn a_path_names_steps_or_is_refused(text in texts(), more in "[$.@\"\\\\a-zé() ]{0,30}") {
        for text in [text.clone(), more.clone(), format!("$.{text}"), format!("$.\"{more}")] {
            assert_clear(path::references(&text));
        }
    }

    #[test]
    fn a_glob_ends_and_a_star_fits_everything(pattern in "[a*?é]{0,200}", text in "[aé]{0,200}") {
        reaction::glob(&pattern, &text);
        let (longer, more) = (format!("{text}*"), format!("{text}?"));
        prop_assert!(reaction::glob("*", &text) && reaction::glob(&longer, &text));
        prop_assert!(!reaction::glob(&more, &text));
    }

    #[test]
    fn the_names_of_counters_lanes_and_reservations_are_read_as_they_were_written(
        key in texts(), unit in "[a-z0-9_]{1,30}", now in moments(), period in 0_usize..5, queue_id in any::<i32>(),
        amount in any::<i64>().prop_map(|n| n.saturating_abs()), needs in prop::collection::vec("[a-z]{1,5}", 0..4),
        is_told in any::<bool>()
    ) {
        let period = Period::parse(crate::budget::PERIODS[period]).expect("a period");
        period.ends(now);
        let counter = Budget { unit: unit.clone(), period, amount, refuses: false }.counter(&key, now);
        let read = Counter::parse(&counter).expect("a counter");
        prop_assert_eq!((read.unit, read.period, read.key), (unit.as_str(), period, key.as_str()));
        let reserved = Reserved { counter, amount, is_told };
        prop_assert_eq!(Reserved::parse(&reserved.text()), Some(reserved));
        if let Some(line) = Line::fair(queue_id, &needs, Some(&key)) {
            let (read, needs) = (Fair::parse(line.name()).expect("a fair line"), needs.join(","));
            prop_assert_eq!((read.queue_id, read.needs), (queue_id, needs.as_str()));
            prop_assert_eq!(read.fairness_key, key.as_str());
        }
    }

    #[test]
    fn what_is_no_name_of_a_counter_lane_reservation_or_snapshot_is_none(
        text in ".{0,60}", more in "[0-9:|, +a-z]{0,40}"
    ) {
        let begun = [format!("fair:{more}"), format!("budget:{more}"), format!("{more}{text}")];
        for text in begun.into_iter().chain([text.clone(), more.clone()]) {
            Fair::parse(&text);
            Counter::parse(&text);
            Reserved::parse(&text);
            if let Some(snapshot) = Snapshot::read(&text) {
                prop_assert_eq!(Snapshot::read(&snapshot.to_string()), Some(snapshot));
            }
        }
    }

    #[test]
    fn a_key_is_bounded_and_has_one_rule(
        kind in ".{0,300}", patterns in prop::collection::vec("[a-c:]{0,4}[*]?", 0..20)
    ) {
        for key in [limits::kind_key(&kind), limits::queue_key(&kind), limits::worker_key(&kind, &kind)] {
            prop_assert!(key.len() <= limits::LONGEST_KEY);
            prop_assert!(Name::new(&key).is_some_and(|name| name.is(&key) && name.as_str() == key));
        }
        let limit = || Limit { max_concurrent: Some(1), ..Limit::default() };
        let rules = Rules::new(patterns.iter().map(|key| (key.clone(), limit())));
        let is_of = |pattern: &String, key: &str| match pattern.strip_suffix('*') {
            Some(start) => key.starts_with(start),
            None => pattern == key,
        };
        let fits = |key: &str| patterns.iter().any(|pattern| is_of(pattern, key));
        for key in ["a", "ab:c", "", &kind] {
            prop_assert_eq!(rules.of(key).is_some(), fits(key), "{}", key);
        }
    }

    #[test]
    fn a_wait_is_within_its_bounds_whatever_the_numbers(
        seconds in any::<f64>(), factor in any::<f64>(), cap in any::<Option<f64>>(), jitter in any::<f64>(),
        failures in any::<i32>(), chance in any::<f64>()
    ) {
        let list = Shape::List(vec![seconds, factor]);
        for shape in [Shape::Doubling, Shape::Fixed, Shape::Linear, Shape::Exponential(factor), Shape::Quartic, list] {
            let wait = Backoff { shape, seconds, cap, jitter }.wait(failures, chance);
            prop_assert!((0.0..=LONGEST_WAIT).contains(&wait), "{}", wait);
        }
    }

    #[test]
    fn spans_are_found_at_any_moment(
        now in -62_000_000_000_000_000_i64..200_000_000_000_000_000, keep in 0_i64..100_000
    ) {
        if let Some(span) = partition::next_wanted(&[], now, now, keep) {
            prop_assert!(span.from <= now && now < span.to);
        }
        partition::horizon(now, keep);
        admission::aged("k", now as f64, keep as f64);
    }

    #[test]
    fn any_number_is_written_and_read_again(numbers in prop::collection::vec(any::<i64>(), 0..200)) {
        let array = jsonb::array(numbers.iter().map(|number| Item::Int(*number))).expect("small");
        let container = Container::new(&array);
        prop_assert_eq!(container.len(), numbers.len());
        prop_assert!(container.elements().all(|item| matches!(item, Item::Number(_))));
    }
}
