//! Whose turn it is: the fair lines that a claim reads beside the lanes that all share.
//!
//! The fair lines with one fairness key are a group, and so are all jobs without such a key. A claim reads the group of
//! its queue that has had least, for its weight; within a group priority and time decide. Shared memory knows the
//! turns; where there is none, groups are read in an order that changes with every claim.

use super::lanes::Lane;
use crate::base::clock::Micros;
use crate::db::{self, statements};
use crate::queue::counting::{asking, board, tables};
use crate::shared::is_preloaded;
use agentq_core::counters::Order;
use agentq_core::limits::Rules;
use agentq_core::line::{Fair, Line};
use agentq_core::turns::{LineTurn, kind_bit};
use pgrx::pg_sys;
use std::cell::RefCell;
use std::collections::BTreeMap;

statements!("turns.sql": CAPABILITIES);

/// How many groups are read at once when the first have nothing.
const GROUPS_AT_ONCE: usize = 16;
/// How long a session believes what a heartbeat has announced, in microseconds.
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

/// Tells the board what a claim has given out: for each group its share of a turn and the number of jobs. `empty` are
/// the lanes that had no job. Jobs without a fairness key lose the turn that such a lane missed, and do not make up for
/// it later.
pub fn served<'a>(shares: &BTreeMap<Group, (u64, u64)>, empty: impl Iterator<Item = &'a Lane>) {
    if !is_preloaded() {
        return;
    }
    for ((queue, group), (share, jobs)) in shares {
        asking::served(*queue, *group, *share, *jobs);
    }
    for lane in empty.filter(|lane| lane.group == Some(0) && lane.line.is_none()) {
        asking::passed_over(lane.queue.queue_id);
    }
}

/// How a claim reads fair lines.
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
    /// These lanes and the fair lines of their queues, of at most `limit` groups whose turn it is. None: there are no
    /// fair lines.
    pub fn first_part(&self, lanes: &[Lane], limit: usize) -> Option<Part> {
        self.parts(lanes, limit.clamp(1, GROUPS_AT_ONCE), false).into_iter().next()
    }

    /// These lanes and all fair lines of their queues, in parts.
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
            let of_queue = lanes.iter().filter(|lane| lane.queue.queue_id == queue);
            let kinds = of_queue.fold(0, |kinds, lane| kinds | lane.kind.as_deref().map_or(u64::MAX, kind_bit));
            let (turns, without_key) = self.lanes_of(queue, if all { usize::MAX } else { at_once }, kinds);
            (queue, turns, without_key)
        };
        let found: Vec<(i32, Vec<LineTurn>, (u64, u64))> = queues.into_iter().map(lanes_of).collect();
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

    fn part(&self, lanes: &[Lane], found: &[(i32, Vec<LineTurn>, (u64, u64))], chosen: &[&(Group, u64)]) -> Part {
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
                    let key = Fair::parse(&turn.line).map_or("", |fair| fair.fairness_key);
                    weight = if key.is_empty() { 1.0 } else { self.rules.weight(key) };
                    part.push(Lane { line: Some(Line::parse(&*turn.line)), group: Some(*group), ..lane.clone() });
                }
            }
            weights.push(((*queue, *group), *turn, weight));
        }
        Part { lanes: part, order: Order::new(weights) }
    }

    /// Whether jobs may stand in fair lines.
    fn are_there_any(&self) -> bool {
        !board::ensure(self.leases, tables::count) || asking::any_fair_line()
    }

    /// The fair lines of a queue that this worker may read; and, of the jobs without a fairness key, how much they have
    /// had and where their next turn begins.
    fn lanes_of(&self, queue: i32, most: usize, kinds: u64) -> (Vec<LineTurn>, (u64, u64)) {
        let capabilities = match self.capabilities {
            Some(given) => given.to_vec(),
            None => announced(self.owner, self.now),
        };
        if is_preloaded()
            && board::ensure(self.leases, tables::count)
            && let Some(found) = asking::fair_lines(queue, most, kinds, &capabilities, |key| self.rules.slots(key))
        {
            return found;
        }
        let may = |name: &str| Fair::parse(name).is_some_and(|fair| fair.admits(&capabilities));
        let mut names = tables::fair_line_names(queue, most, may);
        // Claims begin with different lines.
        let turn = self.now as usize % names.len().max(1);
        names.rotate_left(turn);
        let group = |name: &str| Fair::parse(name).map_or(0, |fair| fair.group());
        let found = names.into_iter().enumerate();
        let turns = found.map(|(number, line)| (number as u64, group(&line), line));
        let turns = turns.map(|(turn, group, line)| LineTurn { had: turn, turn, group, line }).collect();
        (turns, (turn as u64, turn as u64))
    }
}

/// The groups of a queue, each with where its turn begins, counted from the earliest. The group that has had least
/// comes first. Where turns begin does not decide that: all groups that are behind begin at one point, so that two
/// claims could serve one of them at once and leave the others behind.
fn ranks(queue: i32, turns: &[LineTurn], without_key: (u64, u64)) -> Vec<(Group, u64)> {
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
pub fn announced(owner: &str, now: Micros) -> Vec<String> {
    ANNOUNCED.with_borrow_mut(|(name, at, capabilities)| {
        if name != owner || !(*at..*at + BELIEVED_US).contains(&now) {
            let row = db::connect(|db| db.run(&CAPABILITIES, &[owner.into()]).maybe_only::<Vec<String>>());
            (*name, *at, *capabilities) = (owner.to_owned(), now, row.unwrap_or_default());
        }
        capabilities.clone()
    })
}
