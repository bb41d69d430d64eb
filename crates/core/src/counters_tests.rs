use super::*;
use proptest::prelude::*;

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
    for number in 1..=3 {
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
    counters.change_line(counter(2), 3);
    counters.change_line(CounterKey { database: 2, key: "one" }, 1);
    counters.change_line(counter(4), 1);
    counters.change_line(counter(4), -1);
    assert_eq!(counters.waited_for(1).collect::<Vec<_>>(), ["two"]);
    counters.clear(1);
    assert_eq!((counters.waited_for(1).count(), counters.waited_for(2).count()), (0, 1));
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
    for number in 1..=3 {
        assert_eq!(counters.take(1, &[one(number, 9)]), Ok(()));
    }
    counters.change_line(counter(2), 1);
    counters.forget(1, |key| key == "one" || key == "two");
    assert_eq!((counters.active(counter(1)), counters.active(counter(2)), counters.active(counter(3))), (0, 1, 1));
    assert_eq!(counters.take(1, &[one(5, 9)]), Ok(()));
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

/// A flood of jobs that only wait leaves room for what is in use, and for keys that rules name.
#[test]
fn jobs_that_only_wait_do_not_use_up_the_counters() {
    let mut counters = Counters::<1024>::default();
    let key = |number: usize| format!("key:{number}");
    assert!(counters.name(counter(1)));
    let waiting =
        (0..5_000).filter(|number| counters.change_line(CounterKey { database: 1, key: &key(*number) }, 1)).count();
    assert!((300..=512).contains(&waiting), "{waiting}");
    let held = |counters: &mut Counters<1024>, database: u32, name: &str| {
        (0..5_000)
            .filter(|number| {
                let key = format!("{name}:{number}");
                counters.take(database, &[CounterDemand { key: &key, most: 1, amount: 1 }]).is_ok()
            })
            .count()
    };
    assert!(held(&mut counters, 1, "held") > 600, "of 768");
    assert_eq!(counters.take_forgotten(), Some(1), "and the lines are to be found in the tables");
    assert_eq!(counters.take_forgotten(), None);
    assert_eq!(counters.take(1, &[one(1, 1)]), Ok(()), "a rule has its place");
    // Another database has its own share, and gets all of it when the first one is gone.
    assert!(held(&mut counters, 2, "other") > 100);
    counters.clear(1);
    assert!(held(&mut counters, 2, "more") > 300);
    assert_eq!(counters.active(counter(1)), 0);
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
