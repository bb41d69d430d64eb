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

/// Steps whose counters have to change, the first level first.
#[derive(Debug)]
pub struct Work<K> {
    levels: BTreeMap<i32, BTreeMap<K, (i32, i32)>>,
}

impl<K> Default for Work<K> {
    fn default() -> Self {
        Work { levels: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Work<K> {
    /// A step before this one has ended, as it asks or not.
    pub fn add(&mut self, level: i32, step: K, met: bool) {
        let counts = self.levels.entry(level).or_default().entry(step).or_default();
        counts.0 += 1;
        counts.1 += i32::from(met);
    }

    /// All steps of the first level, in their order, each with how many before it have ended, and how many as it asks.
    pub fn next_level(&mut self) -> Option<Vec<(K, i32, i32)>> {
        let (_, steps) = self.levels.pop_first()?;
        Some(steps.into_iter().map(|(step, (ended, met))| (step, ended, met)).collect())
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
