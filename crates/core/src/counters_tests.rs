use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const KEYS: [&str; 6] = ["", "one", "two", "three", "four", "five"];

fn counter(number: usize) -> CounterKey<'static> {
    CounterKey { database: 1, key: KEYS[number] }
}

fn one(number: usize, most: i64) -> CounterDemand<'static> {
    CounterDemand { key: KEYS[number], most, amount: 1 }
}

#[test]
fn all_is_taken_or_nothing() {
    let mut counters = Counters::<16>::default();
    assert_eq!(counters.take(1, &[one(1, 2), one(2, 1)]), Ok(()));
    assert_eq!(counters.take(1, &[one(1, 2), one(2, 1)]), Err(1));
    assert_eq!((counters.active(counter(1)), counters.active(counter(2))), (1, 1));
    counters.add_active(counter(2), -1);
    assert_eq!(counters.take(1, &[one(1, 2), one(2, 1)]), Ok(()));
    assert_eq!(counters.take(1, &[one(1, 2)]), Err(0));
    // Another database has its own.
    assert_eq!(counters.take(2, &[one(1, 1)]), Ok(()));
    counters.clear(1);
    assert_eq!((counters.active(counter(1)), counters.active(CounterKey { database: 2, key: "one" })), (0, 1));
}

#[test]
fn a_full_table_gives_nothing_away() {
    let mut counters = Counters::<4>::default();
    for number in 1..=4 {
        assert_eq!(counters.take(1, &[one(number, 9)]), Ok(()));
    }
    assert_eq!(counters.take(1, &[one(5, 9)]), Err(0));
    counters.add_active(counter(3), -1);
    assert_eq!(counters.take(1, &[one(5, 9)]), Ok(()));
    // Nor does a key that it cannot hold.
    let long = "k".repeat(crate::name::LONGEST_NAME + 1);
    assert_eq!(counters.take(1, &[CounterDemand { key: &long, most: 9, amount: 1 }]), Err(0));
}

#[test]
fn what_is_waited_for_is_found() {
    let mut counters = Counters::<64>::default();
    assert_eq!(counters.is_waited(), (false, false));
    counters.change_line(counter(2), 3);
    counters.change_line(CounterKey { database: 2, key: "one" }, 1);
    counters.change_line(counter(4), 1);
    counters.change_line(counter(4), -1);
    assert_eq!(counters.waited_for(1).collect::<Vec<_>>(), ["two"]);
    counters.change_line(CounterKey { database: 1, key: "fair:1||a" }, 1);
    assert_eq!(counters.is_waited(), (true, true));
    assert_eq!(counters.waited_for(1).collect::<Vec<_>>(), ["two"], "a fair line is no key");
    counters.clear(1);
    counters.clear(2);
    assert_eq!(counters.is_waited(), (false, false));
}

#[test]
fn who_wants_much_is_waited_for() {
    let mut counters = Counters::<16>::default();
    let wanted = |amount| [CounterDemand { key: "one", most: 100, amount }];
    assert_eq!(counters.take(1, &wanted(60)), Ok(()));
    assert!(!counters.is_full(counter(1), 100, 0));
    assert_eq!(counters.take(1, &wanted(50)), Err(0));
    assert!(counters.is_full(counter(1), 100, 0), "for the one who wanted 50");
    assert!(!counters.is_full(counter(1), 100, 10), "but not if 10 come back");
    counters.add_active(counter(1), -10);
    assert!(!counters.is_full(counter(1), 100, 0));
    assert_eq!(counters.take(1, &wanted(50)), Ok(()));
    // When it goes, those behind it are looked at.
    counters.change_line(counter(1), 2);
    assert_eq!(counters.take(1, &wanted(30)), Err(0));
    counters.add_active(counter(1), -10);
    assert!(!counters.is_full(counter(1), 100, 0));
    assert_eq!(counters.take(1, &wanted(30)), Err(0));
    assert!(counters.is_full(counter(1), 100, 0));
    counters.change_line(counter(1), -1);
    assert!(!counters.is_full(counter(1), 100, 0));
    counters.add_active(counter(1), 10);
    // Who wants nothing waits too when nothing is left.
    assert_eq!(counters.take(1, &wanted(0)), Err(0));
}

#[test]
fn what_nobody_needs_any_more_makes_room() {
    let mut counters = Counters::<4>::default();
    for number in 1..=4 {
        assert_eq!(counters.take(1, &[one(number, 9)]), Ok(()));
    }
    counters.change_line(counter(2), 1);
    counters.forget(1, |key| key == "one" || key == "two");
    assert_eq!((counters.active(counter(1)), counters.active(counter(2)), counters.active(counter(3))), (0, 1, 1));
    assert_eq!(counters.take(1, &[one(5, 9)]), Ok(()));
}

/// Serves a queue whose groups always have jobs, so often, and counts who got how many.
fn serve(counters: &mut Counters<64>, weights: &BTreeMap<u32, f64>, times: usize) -> BTreeMap<u32, usize> {
    let mut got = BTreeMap::new();
    for _ in 0..times {
        let line = counters.fair_lines(1, 3, 1, |_, _| true).remove(0);
        *got.entry(line.group).or_default() += 1;
        counters.served(1, 3, line.group, share(weights.get(&line.group).copied().unwrap_or(1.0)), 1);
    }
    got
}

fn fair_line(key: &str) -> (String, u32) {
    let line = Line::fair(3, &[], Some(key)).expect("a line");
    let group = Fair::parse(line.name()).expect("a fair line").group();
    (line.name().to_owned(), group)
}

#[test]
fn each_gets_its_share_and_who_comes_late_does_not_catch_up() {
    let mut counters = Counters::<64>::default();
    let (a, b, late) = (fair_line("a"), fair_line("b"), fair_line("late"));
    for name in [&a.0, &b.0] {
        counters.change_line(CounterKey { database: 1, key: name }, 1_000);
    }
    let weights = BTreeMap::from([(b.1, 3.0)]);
    let got = serve(&mut counters, &weights, 400);
    assert_eq!((got[&a.1], got[&b.1]), (100, 300));
    counters.change_line(CounterKey { database: 1, key: &late.0 }, 1_000);
    let got = serve(&mut counters, &weights, 500);
    assert!(got[&late.1].abs_diff(100) <= 1 && got[&a.1].abs_diff(100) <= 1, "{got:?}");
    // Other queues and databases have other turns.
    assert!(
        counters.fair_lines(1, 4, 9, |_, _| true).is_empty() && counters.fair_lines(2, 3, 9, |_, _| true).is_empty()
    );
}

#[test]
fn those_without_a_key_are_a_group_as_well() {
    let mut counters = Counters::<64>::default();
    let (a, _) = fair_line("a");
    counters.change_line(CounterKey { database: 1, key: &a }, 10);
    counters.served(1, 3, fair_line("a").1, TURN, 5);
    assert_eq!(counters.turn_without_key(1, 3), 4 * TURN, "where the last job stood that was given out");
    counters.served(1, 3, 0, TURN, 1);
    assert_eq!(counters.turn_without_key(1, 3), 5 * TURN);
    counters.served(1, 3, fair_line("a").1, TURN, 5);
    counters.passed_over(1, 3);
    assert_eq!(counters.turn_without_key(1, 3), 10 * TURN, "nothing is made up for");
}

#[test]
fn who_cannot_be_served_holds_nobody_up_and_does_not_catch_up() {
    let mut counters = Counters::<64>::default();
    let (full, busy, late) = (fair_line("full"), fair_line("busy"), fair_line("late"));
    for name in [&full.0, &busy.0] {
        counters.change_line(CounterKey { database: 1, key: name }, 1_000);
    }
    let may = |_: &Counters<64>, fair: Fair<'_>| fair.fairness_key != "full";
    let serve = |counters: &mut Counters<64>, times: usize, all: bool| {
        let mut got: BTreeMap<u32, usize> = BTreeMap::new();
        for _ in 0..times {
            let line = counters.fair_lines(1, 3, 1, |counters, fair| all || may(counters, fair)).remove(0);
            *got.entry(line.group).or_default() += 1;
            counters.served(1, 3, line.group, TURN, 1);
        }
        got
    };
    serve(&mut counters, 500, false);
    // Who comes now takes turns with the one that was served, not with the one that could not be.
    counters.change_line(CounterKey { database: 1, key: &late.0 }, 1_000);
    let got = serve(&mut counters, 20, false);
    assert!(got[&late.1].abs_diff(10) <= 1, "{got:?}");
    // And when that one can be served, it does too.
    let got = serve(&mut counters, 30, true);
    assert!(got.values().all(|jobs| jobs.abs_diff(10) <= 1), "{got:?}");
}

#[test]
fn what_somebody_was_kept_from_is_told_when_it_is_free_again() {
    let mut counters = Counters::<16>::default();
    assert_eq!(counters.take(1, &[one(1, 1)]), Ok(()));
    assert!(counters.is_used_up(counter(1), 1, 0) && !counters.is_used_up(counter(1), 1, 1));
    assert!(!counters.give_back(counter(1), 1), "nobody has asked");
    assert_eq!(counters.take(1, &[one(1, 1)]), Ok(()));
    counters.want(counter(1));
    assert!(counters.is_wanted(counter(1)));
    assert!(counters.give_back(counter(1), 1) && !counters.is_wanted(counter(1)));
}

#[test]
fn much_too_much_is_not_nothing() {
    let mut counters = Counters::<16>::default();
    for _ in 0..3 {
        counters.add_active(counter(1), i64::MAX / 2);
    }
    assert!(counters.is_used_up(counter(1), i64::MAX, 0));
}

#[test]
fn a_worker_sees_the_fair_lines_that_it_may_read() {
    let mut counters = Counters::<64>::default();
    for needs in ["gpu", "web"] {
        let line = Line::fair(3, &[needs.to_owned()], None).expect("a line");
        counters.change_line(CounterKey { database: 1, key: line.name() }, 1);
    }
    let found = counters.fair_lines(1, 3, 9, |_, fair| fair.admits(&["gpu".to_owned()]));
    assert_eq!(found.iter().map(|turn| turn.line.as_str()).collect::<Vec<_>>(), ["fair:3|gpu|"]);
}

proptest! {
    #[test]
    fn counts_agree_with_a_plain_model(
        steps in proptest::collection::vec((0_usize..40, 0_i64..9, 1_i64..4, proptest::bool::ANY), 1..400),
    ) {
        let keys: Vec<String> = (0..40).map(|number| format!("key:{number}")).collect();
        let mut counters = Counters::<256>::default();
        let mut model = [0; 40];
        for (number, most, amount, free) in steps {
            let (counter, held) = (CounterKey { database: 7, key: &keys[number] }, &mut model[number]);
            if free && *held >= amount {
                counters.add_active(counter, -amount);
                *held -= amount;
            } else if !free {
                let taken = counters.take(7, &[CounterDemand { key: &keys[number], most, amount }]).is_ok();
                prop_assert_eq!(taken, *held + amount <= most);
                *held += if taken { amount } else { 0 };
            }
            prop_assert_eq!(counters.active(counter), *held);
        }
    }
}
