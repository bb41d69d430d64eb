//! Whose turn it is: the lanes of their own that a claim reads beside the one that all share.
//!
//! Those with one fairness key are a group, and so are all without one. A claim reads the group of its queue that
//! has had least, for its weight; within a group priority and time decide. Shared memory knows the turns; where
//! there is none, groups are read in an order that changes with every claim.

use super::gates;
use super::lane::Lane;
use crate::base::clock::Micros;
use crate::db::{self, statement};
use crate::shared::{is_preloaded, slots};
use agentq_core::counters::{Order, Turn};
use agentq_core::lane;
use agentq_core::limits::Rules;
use pgrx::pg_sys;
use std::cell::RefCell;
use std::collections::BTreeMap;

statement!(CAPABILITIES, "sql/capabilities.sql", [TEXTOID], freely);

/// Groups that are read at once when the first have nothing.
const GROUPS_AT_ONCE: usize = 16;
/// For so long a session believes what a heartbeat has announced.
const BELIEVED_US: i64 = 1_000_000;

/// A group: its queue and its number.
pub type Group = (i32, u32);

/// Lanes to be read together, and their order.
pub struct Part {
    pub lanes: Vec<Lane>,
    pub order: Order<Group>,
}

impl Part {
    /// Lanes that take no turns.
    pub fn of(lanes: Vec<Lane>) -> Part {
        Part { lanes, order: Order::new([]) }
    }
}

/// Of these groups so many jobs were given out, each with such a share of its group's turn. Those without a fairness key that had nothing, in these lanes, do not
/// make up for it later.
pub fn served<'a>(shares: &BTreeMap<Group, (u64, u64)>, empty: impl Iterator<Item = &'a Lane>) {
    if !is_preloaded() {
        return;
    }
    for ((queue, group), (share, jobs)) in shares {
        slots::served(*queue, *group, *share, *jobs);
    }
    for lane in empty.filter(|lane| lane.group == Some(0) && lane.blocked_by.is_none()) {
        slots::passed_over(lane.queue.queue_id);
    }
}

/// How a claim reads lanes of their own.
pub struct Turns<'a> {
    /// The table of the leases, which the claim keeps open.
    pub leases: pg_sys::Oid,
    pub rules: &'a Rules,
    /// Given with the claim; None: as its worker's heartbeat has announced.
    pub capabilities: Option<&'a [String]>,
    pub owner: &'a str,
    pub now: Micros,
}

impl Turns<'_> {
    /// These lanes and those of their own in their queues, of the groups whose turn it is, so many. None: there are no
    /// lanes but these.
    pub fn first_part(&self, lanes: &[Lane], limit: usize) -> Option<Part> {
        self.parts(lanes, limit.clamp(1, GROUPS_AT_ONCE), false).into_iter().next()
    }

    /// All of them, in parts.
    pub fn all_parts(&self, lanes: &[Lane]) -> Vec<Part> {
        self.parts(lanes, GROUPS_AT_ONCE, true)
    }

    fn parts(&self, lanes: &[Lane], at_once: usize, all: bool) -> Vec<Part> {
        if lanes.is_empty() || !self.are_there_any() {
            return Vec::new();
        }
        let mut queues: Vec<i32> = lanes.iter().map(|lane| lane.queue.queue_id).collect();
        queues.dedup();
        let lanes_of = |queue: i32| {
            let (turns, without_key) = self.lanes_of(queue, if all { usize::MAX } else { at_once });
            (queue, turns, without_key)
        };
        let found: Vec<(i32, Vec<Turn>, (u64, u64))> = queues.into_iter().map(lanes_of).collect();
        if found.iter().all(|(_, turns, _)| turns.is_empty()) {
            return Vec::new();
        }
        let ranks = found.iter().map(|(queue, turns, without_key)| ranks(*queue, turns, *without_key));
        let ranks: Vec<Vec<(Group, u64)>> = ranks.collect();
        let longest = if all { ranks.iter().map(Vec::len).max().unwrap_or_default() } else { 1 };
        let part = |begin: usize| {
            let chosen: Vec<&(Group, u64)> = ranks.iter().flat_map(|r| r.iter().skip(begin).take(at_once)).collect();
            self.part(lanes, &found, &chosen)
        };
        (0..longest).step_by(at_once).map(part).collect()
    }

    fn part(&self, lanes: &[Lane], found: &[(i32, Vec<Turn>, (u64, u64))], chosen: &[&(Group, u64)]) -> Part {
        let mut part = Vec::new();
        let mut weights = Vec::new();
        for ((queue, group), turn) in chosen {
            let of_queue = lanes.iter().filter(|lane| lane.queue.queue_id == *queue);
            let turns = found.iter().filter(|(other, ..)| other == queue).flat_map(|(_, turns, _)| turns);
            let own = turns.filter(|turn| turn.group == *group);
            let mut weight = 1.0;
            for lane in of_queue {
                if *group == 0 {
                    part.push(Lane { group: Some(0), ..lane.clone() });
                }
                for turn in own.clone() {
                    let key = lane::Lane::parse(&turn.lane).map_or("", |lane| lane.fairness_key);
                    weight = if key.is_empty() { 1.0 } else { self.rules.weight(key) };
                    part.push(Lane { blocked_by: Some(turn.lane.clone()), group: Some(*group), ..lane.clone() });
                }
            }
            weights.push(((*queue, *group), *turn, weight));
        }
        Part { lanes: part, order: Order::new(weights) }
    }

    /// Whether jobs may wait in lanes of their own.
    fn are_there_any(&self) -> bool {
        !slots::ensure(self.leases, gates::count) || slots::has_lanes()
    }

    /// The lanes of a queue that this worker may read, and what those without a fairness key have had, and where their
    /// next turn begins.
    fn lanes_of(&self, queue: i32, most: usize) -> (Vec<Turn>, (u64, u64)) {
        let capabilities = match self.capabilities {
            Some(given) => given.to_vec(),
            None => announced(self.owner, self.now),
        };
        if is_preloaded()
            && slots::ensure(self.leases, gates::count)
            && let Some(found) = slots::lanes(queue, most, &capabilities, |key| self.rules.slots(key))
        {
            return found;
        }
        let may = |name: &String| {
            lane::Lane::parse(name).is_some_and(|lane| lane.queue_id == queue && lane.admits(&capabilities))
        };
        let mut names: Vec<String> = gates::blocked_keys(true).into_iter().filter(may).collect();
        // Not always the same first.
        let turn = self.now as usize % names.len().max(1);
        names.rotate_left(turn);
        let group = |name: &str| lane::Lane::parse(name).map_or(0, |lane| lane.group());
        let found = names.into_iter().enumerate();
        let turns = found.map(|(number, lane)| (number as u64, group(&lane), lane));
        let turns = turns.map(|(turn, group, lane)| Turn { had: turn, turn, group, lane }).collect();
        (turns, (turn as u64, turn as u64))
    }
}

/// The groups of a queue, who has had least first, each with where its turn begins, counted from the earliest. By where
/// turns begin alone all who are behind would be equal, and two claims that serve one group at once leave the others behind.
fn ranks(queue: i32, turns: &[Turn], without_key: (u64, u64)) -> Vec<(Group, u64)> {
    let mut groups: Vec<(u64, u32, u64)> = turns.iter().map(|turn| (turn.had, turn.group, turn.turn)).collect();
    groups.retain(|(_, group, _)| *group != 0);
    groups.push((without_key.0, 0, without_key.1));
    groups.sort_unstable();
    let mut known = Vec::new();
    groups.retain(|(_, group, _)| {
        !known.contains(group) && {
            known.push(*group);
            true
        }
    });
    let first = groups.iter().map(|(.., turn)| *turn).min().unwrap_or_default();
    groups.into_iter().map(|(_, group, turn)| ((queue, group), turn - first)).collect()
}

thread_local!(static ANNOUNCED: RefCell<(String, Micros, Vec<String>)> = RefCell::default());

/// The capabilities that a worker has announced with its heartbeat.
fn announced(owner: &str, now: Micros) -> Vec<String> {
    ANNOUNCED.with_borrow_mut(|(name, at, capabilities)| {
        if name != owner || !(*at..*at + BELIEVED_US).contains(&now) {
            let row = db::connect(|db| db.run(&CAPABILITIES, &[owner.into()]).get::<Vec<String>>(1));
            (*name, *at, *capabilities) = (owner.to_owned(), now, row.unwrap_or_default());
        }
        capabilities.clone()
    })
}
