use super::*;
use crate::counters::{TURN, share};
use crate::line::Line;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Serves a queue whose groups always have jobs, so often, and counts who got how many.
fn serve(lines: &mut FairLines<64>, weights: &BTreeMap<u32, f64>, times: usize) -> BTreeMap<u32, usize> {
    let mut got = BTreeMap::new();
    for _ in 0..times {
        let line = lines.of_queue(1, 3, 1, u64::MAX, |_| true).remove(0);
        *got.entry(line.group).or_default() += 1;
        lines.served(1, 3, line.group, share(weights.get(&line.group).copied().unwrap_or(1.0)), 1);
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
    let mut lines = FairLines::<64>::default();
    let (a, b, late) = (fair_line("a"), fair_line("b"), fair_line("late"));
    for name in [&a.0, &b.0] {
        lines.change(CounterKey { database: 1, key: name }, 1_000, 1);
    }
    let weights = BTreeMap::from([(b.1, 3.0)]);
    let got = serve(&mut lines, &weights, 400);
    assert_eq!((got[&a.1], got[&b.1]), (100, 300));
    lines.change(CounterKey { database: 1, key: &late.0 }, 1_000, 1);
    let got = serve(&mut lines, &weights, 500);
    assert!(got[&late.1].abs_diff(100) <= 1 && got[&a.1].abs_diff(100) <= 1, "{got:?}");
    // Other queues and databases have other turns.
    assert!(
        lines.of_queue(1, 4, 9, u64::MAX, |_| true).is_empty()
            && lines.of_queue(2, 3, 9, u64::MAX, |_| true).is_empty()
    );
}

#[test]
fn those_without_a_key_are_a_group_as_well() {
    let mut lines = FairLines::<64>::default();
    let (a, _) = fair_line("a");
    lines.change(CounterKey { database: 1, key: &a }, 10, 1);
    lines.served(1, 3, fair_line("a").1, TURN, 5);
    assert_eq!(lines.turn_without_key(1, 3), 4 * TURN, "where the last job stood that was given out");
    lines.served(1, 3, 0, TURN, 1);
    assert_eq!(lines.turn_without_key(1, 3), 5 * TURN);
    lines.served(1, 3, fair_line("a").1, TURN, 5);
    lines.passed_over(1, 3);
    assert_eq!(lines.turn_without_key(1, 3), 10 * TURN, "nothing is made up for");
}

#[test]
fn who_cannot_be_served_holds_nobody_up_and_does_not_catch_up() {
    let mut lines = FairLines::<64>::default();
    let (full, busy, late) = (fair_line("full"), fair_line("busy"), fair_line("late"));
    for name in [&full.0, &busy.0] {
        lines.change(CounterKey { database: 1, key: name }, 1_000, 1);
    }
    let may = |fair: Fair<'_>| fair.fairness_key != "full";
    let serve = |lines: &mut FairLines<64>, times: usize, all: bool| {
        let mut got: BTreeMap<u32, usize> = BTreeMap::new();
        for _ in 0..times {
            let line = lines.of_queue(1, 3, 1, u64::MAX, |fair| all || may(fair)).remove(0);
            *got.entry(line.group).or_default() += 1;
            lines.served(1, 3, line.group, TURN, 1);
        }
        got
    };
    serve(&mut lines, 500, false);
    // Who comes now takes turns with the one that was served, not with the one that could not be.
    lines.change(CounterKey { database: 1, key: &late.0 }, 1_000, 1);
    let got = serve(&mut lines, 20, false);
    assert!(got[&late.1].abs_diff(10) <= 1, "{got:?}");
    // And when that one can be served, it does too.
    let got = serve(&mut lines, 30, true);
    assert!(got.values().all(|jobs| jobs.abs_diff(10) <= 1), "{got:?}");
}

#[test]
fn a_worker_sees_the_fair_lines_that_it_may_read() {
    let mut lines = FairLines::<64>::default();
    for needs in ["gpu", "web"] {
        let line = Line::fair(3, &[needs.to_owned()], None).expect("a line");
        lines.change(CounterKey { database: 1, key: line.name() }, 1, 1);
    }
    let found = lines.of_queue(1, 3, 9, u64::MAX, |fair| fair.admits(&["gpu".to_owned()]));
    assert_eq!(found.iter().map(|turn| turn.line.as_str()).collect::<Vec<_>>(), ["fair:3|gpu|"]);
}

fn key(name: &str) -> CounterKey<'_> {
    CounterKey { database: 1, key: name }
}

/// With more groups than the window shows, each still gets its turn, and more if it weighs more.
#[test]
fn many_groups_take_turns() {
    let mut lines = Box::new(FairLines::<2048>::default());
    let all: Vec<(String, u32)> = (0..1_000).map(|number| fair_line(&format!("tenant:{number}"))).collect();
    all.iter().for_each(|(name, _)| assert!(lines.change(key(name), 1_000, 1)));
    let heavy = all[500].1;
    let mut got: BTreeMap<u32, usize> = BTreeMap::new();
    for _ in 0..10_090 {
        let line = lines.of_queue(1, 3, 1, 1, |_| true).remove(0);
        *got.entry(line.group).or_default() += 1;
        lines.served(1, 3, line.group, share(if line.group == heavy { 10.0 } else { 1.0 }), 1);
    }
    assert_eq!(got.len(), 1_000, "nobody is left out");
    let others = got.iter().filter(|(group, _)| **group != heavy).map(|(_, jobs)| *jobs);
    assert!(
        others.clone().min() >= Some(9) && others.max() <= Some(12),
        "{:?}",
        got.values().fold(BTreeMap::<usize, usize>::new(), |mut all, jobs| {
            *all.entry(*jobs).or_default() += 1;
            all
        })
    );
    assert!((80..=130).contains(&got[&heavy]), "{}", got[&heavy]);
}

#[test]
fn a_line_without_jobs_of_a_kind_is_not_seen() {
    let mut lines = FairLines::<64>::default();
    let ((a, _), (b, _)) = (fair_line("a"), fair_line("b"));
    lines.change(key(&a), 1, 1);
    lines.change(key(&b), 1, 2);
    let names = |lines: &FairLines<64>, kinds| -> Vec<String> {
        lines.of_queue(1, 3, 9, kinds, |_| true).into_iter().map(|turn| turn.line).collect()
    };
    assert_eq!((names(&lines, 1), names(&lines, 2), names(&lines, 4)), (vec![a.clone()], vec![b.clone()], vec![]));
    lines.change(key(&a), -1, 0);
    assert_eq!((names(&lines, 1).len(), names(&lines, 3).len()), (0, 1));
    lines.change(key(&b), -1, 0);
    assert!(!lines.is_waited_in());
}

#[test]
fn a_full_table_says_so_and_another_database_has_its_share() {
    let mut lines = Box::new(FairLines::<1024>::default());
    let fill = |lines: &mut FairLines<1024>, database| {
        let one = |number: &i32| lines.change(CounterKey { database, key: &fair_line(&format!("t{number}")).0 }, 1, 1);
        (0..5_000).filter(one).count()
    };
    let first = fill(&mut lines, 1);
    assert!((600..=768).contains(&first), "{first}");
    assert!(fill(&mut lines, 2) > 100);
    lines.clear(1);
    assert!(fill(&mut lines, 2) > 300);
    lines.clear(2);
    assert!(!lines.is_waited_in() && lines.shares.is_empty());
    assert_eq!(lines.of_queue(2, 3, 9, 1, |_| true), []);
}

proptest! {
    /// Whatever comes and goes, the lists hold just the lines in which jobs wait.
    #[test]
    fn the_lists_agree_with_a_plain_model(
        steps in proptest::collection::vec((0_usize..30, -3_i32..4, proptest::bool::ANY), 1..300),
    ) {
        let names: Vec<String> = (0..30).map(|number| {
            let needs = [vec![], vec!["gpu".to_owned()], vec!["web".to_owned()]][number % 3].clone();
            Line::fair(1 + number as i32 % 2, &needs, Some(&format!("k{}", number / 6))).expect("a line").name().to_owned()
        }).collect();
        let mut lines = FairLines::<128>::default();
        let mut model = [0_i32; 30];
        for (number, change, serve) in steps {
            prop_assert!(lines.change(key(&names[number]), change, 1));
            model[number] += change;
            for queue in [1, 2] {
                let found = lines.of_queue(1, queue, usize::MAX, 1, |_| true);
                let mut seen: Vec<&str> = found.iter().map(|turn| turn.line.as_str()).collect();
                seen.sort_unstable();
                let of_queue = |number: &usize| Fair::parse(&names[*number]).is_some_and(|fair| fair.queue_id == queue);
                let waits = (0..30).filter(|number| model[*number] > 0).filter(of_queue);
                let mut expected: Vec<&str> = waits.map(|number| names[number].as_str()).collect();
                expected.sort_unstable();
                prop_assert_eq!(seen, expected);
                if serve && let Some(first) = found.first() {
                    lines.served(1, queue, first.group, TURN, 1);
                }
            }
            prop_assert_eq!(lines.waited_in, model.iter().filter(|jobs| **jobs > 0).count());
        }
        for (number, jobs) in model.into_iter().enumerate() {
            lines.change(key(&names[number]), -jobs, 0);
        }
        prop_assert!(lines.shares.is_empty() && !lines.is_waited_in());
    }
}
