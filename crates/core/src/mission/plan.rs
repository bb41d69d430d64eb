//! Which step may begin, and which never will.
//!
//! Each step counts how many of the steps before it have not ended (`pending`), and how many have ended as it asks
//! (`met`). Steps are gone through by level, the longest way from a first step: every step comes after all before it,
//! so that whoever locks steps in this order never waits for one who waits for him.

use super::template::Template;
use std::collections::BTreeMap;

/// What is to become of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Begin,
    Wait,
    /// What it asks for can no longer come.
    Skip,
}

/// Decides by the counters of a step.
pub fn decide(need: i32, met: i32, pending: i32) -> Decision {
    if met >= need {
        Decision::Begin
    } else if met + pending < need {
        Decision::Skip
    } else {
        Decision::Wait
    }
}

/// What is to become of one step: it ends, or steps before it have ended.
#[derive(Debug)]
pub struct Change<E> {
    /// How its work ended, if it did.
    pub end: Option<E>,
    /// How many steps before it have ended.
    pub ended: i32,
    /// How many of them as it asks.
    pub met: i32,
}

/// Steps that have to change, the first level first. All of them stand in one order, those that end as well as those
/// behind them, because both are locked.
#[derive(Debug)]
pub struct Work<K, E> {
    levels: BTreeMap<i32, BTreeMap<K, Change<E>>>,
}

impl<K, E> Default for Work<K, E> {
    fn default() -> Self {
        Work { levels: BTreeMap::new() }
    }
}

impl<K: Ord + Copy, E> Work<K, E> {
    fn step(&mut self, level: i32, step: K) -> &mut Change<E> {
        let nothing = || Change { end: None, ended: 0, met: 0 };
        self.levels.entry(level).or_default().entry(step).or_insert_with(nothing)
    }

    /// The work of this step is over. `merge` puts together what is said of it twice: items of a list end one by one.
    pub fn end(&mut self, level: i32, step: K, end: E, merge: impl FnOnce(E, E) -> E) {
        let change = self.step(level, step);
        change.end = Some(match change.end.take() {
            None => end,
            Some(before) => merge(before, end),
        });
    }

    /// A step before this one has ended, as it asks or not.
    pub fn add(&mut self, level: i32, step: K, met: bool) {
        let change = self.step(level, step);
        change.ended += 1;
        change.met += i32::from(met);
    }

    /// All steps of the first level, in their order.
    pub fn next_level(&mut self) -> Option<Vec<(K, Change<E>)>> {
        Some(self.levels.pop_first()?.1.into_iter().collect())
    }
}

/// Over how many rows the open steps of a mission are counted, so that those who end them seldom meet.
pub fn shards(steps: usize) -> i32 {
    (steps / 64).clamp(1, 16) as i32
}

/// Which steps a fork runs anew: the one it begins with, those that did not end well, and all behind these.
pub fn anew(template: &Template<'_>, from: usize, ended_well: &[bool]) -> Vec<bool> {
    let mut anew = vec![false; template.steps.len()];
    for index in template.order() {
        let step = &template.steps[index];
        anew[index] = index == from || !ended_well[index] || step.parents.iter().any(|parent| anew[parent.step]);
    }
    anew
}
