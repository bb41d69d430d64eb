//! The search for the best jobs that may run now.
//!
//! A search goes round by round. In a round it reads lanes part by part, until it has what is wanted or has met jobs that
//! it had to put aside: those it gives up or moves into a line, and looks again. Before it ends with nothing it recovers
//! expired leases.

use super::document::Claimed;
use super::lanes::{Cursor, Lane, Taken};
use super::options::Request;
use super::turns::{self, Group, Part, Turns};
use super::unflushed;
use crate::base::clock::{self, Micros};
use crate::queue::capacity::gates::{self, Gates, Refused};
use crate::queue::capacity::limits::OPEN_AT_ONCE;
use crate::queue::ends::{hooks, late_ends, reap};
use crate::queue::rows::{job_lease, job_line, job_ready};
use crate::queue::rules::Rulebook;
use crate::queue::storage::marks::{self, Look, Reading};
use crate::queue::storage::promote::{Due, promote_due};
use crate::queue::storage::{Place, order};
use crate::shared::seats;
use crate::table::{Moment, Table};
use agentq_core::counters::Order;
use agentq_core::marks::{Mark, Position};
use std::collections::{BTreeMap, BTreeSet};

/// A claim moves at most this many jobs from waiting to ready. Enough to get the order right when many fall due
/// together; bounded, because others see them only when the claim commits.
const PROMOTE_AT_MOST: i64 = 1_000;
/// After this many rounds a claim that has only met jobs it had to put aside leaves the rest to the engine, or to the
/// next claim. Rounds are fewer in a transaction that may go on for long, since others do not see meanwhile what it has
/// put aside.
const MOST_ROUNDS: usize = 100;
const MOST_ROUNDS_LINGERING: usize = 16;
/// An answer names at most this many lines without capacity, and a claim looks into at most this many for jobs that it
/// asks for.
const NAMED_AT_MOST: usize = 10;
const ASKED_AT_MOST: usize = 100;

/// What came of a search.
#[derive(Default)]
pub struct Outcome {
    pub claimed: Vec<Claimed>,
    /// Whether it has moved jobs that it did not take: others see them when it commits.
    pub moved: bool,
    /// The names of limits and budgets that kept it from jobs.
    pub limited_by: BTreeSet<String>,
}

/// A search under way.
pub struct Search<'a> {
    pub request: &'a Request<'a>,
    lanes: Vec<Lane>,
    pub now: Micros,
    /// How long a lease lasts where neither the claim nor the queue says, in seconds.
    pub default_lease: i32,
    /// Whether the transaction may go on for long after the claim.
    lingers: bool,
    /// Ready jobs that its transaction's snapshot does not show, each with whether it has a key.
    pub unseen: Vec<(Place, bool)>,
    pub limited_by: BTreeSet<String>,
    /// Lanes that a gate closed as a whole in the last round, each with the name of that gate.
    closed: Vec<(Lane, String)>,
    /// The names of lines that let no job through in the last round.
    full: Vec<String>,
}

/// What one reading of lanes came to.
#[derive(Default)]
pub struct Round {
    pub claimed: Vec<Claimed>,
    /// Whether it met jobs that have missed their deadline, or that did not pass their gates.
    pub put_aside: bool,
}

impl Round {
    fn found_any(&self) -> bool {
        self.put_aside || !self.claimed.is_empty()
    }

    fn add(&mut self, other: Round) {
        self.claimed.extend(other.claimed);
        self.put_aside |= other.put_aside;
    }
}

/// What the parts of a round have in common.
pub struct Ground<'a, 'b> {
    pub leases: &'a Table,
    /// None: there is nothing to pass.
    pub gates: Option<Gates<'b>>,
    /// How many jobs this worker may take.
    room: usize,
    /// Whether the search reads lanes from the front, because the marks do not know all rows.
    full: bool,
}

impl Ground<'_, '_> {
    fn is_done(&self, round: &Round) -> bool {
        round.put_aside || round.claimed.len() >= self.room
    }
}

impl<'a> Search<'a> {
    pub fn new(request: &'a Request<'a>, lanes: Vec<Lane>, default_lease: i32, lingers: bool) -> Search<'a> {
        let (unseen, limited_by, closed, full) = Default::default();
        Search { request, lanes, now: clock::now(), default_lease, lingers, unseen, limited_by, closed, full }
    }

    pub fn run(self) -> Outcome {
        if self.lanes.iter().all(|lane| !lane.queue.durable_claims) {
            return unflushed::claim(|| hooks::together(|| self.go()));
        }
        hooks::together(|| self.go())
    }

    fn go(mut self) -> Outcome {
        // Others see what this claim recovers or promotes beside its own jobs only when it commits. If that may take
        // long, it touches no more than it takes. Where the engine is at work, it recovers expired leases every second,
        // and a claim does so only before it says "empty".
        let most_recovered = if self.lingers { self.request.limit as i64 } else { reap::AT_MOST };
        if !self.lingers && !seats::engine_runs() {
            late_ends::tend_when_due(self.now);
        }
        let mut moved = !self.lingers && (clock::is_shifted() || !seats::engine_runs()) && reap::when_due(self.now) > 0;
        moved |= promote_due(self.now, || self.due()) > 0;
        moved |= self.may_pass_on() && order::pass_on_when_due(self.now, most_recovered) > 0;
        let refused = Refused::default();
        let mut round = self.round(&refused, moved || marks::has_entered());
        let most_rounds = if self.lingers { MOST_ROUNDS_LINGERING } else { MOST_ROUNDS };
        let mut rounds = 0;
        while round.claimed.is_empty() {
            if round.put_aside && rounds < most_rounds {
                rounds += 1;
                // All that it made ready may be what it put aside: there may be more jobs whose time has come.
                if self.lingers {
                    promote_due(self.now, || self.due());
                }
            // A job whose holder died may be the next one, or one that has come to the head of its ordering key. Not every
            // recovered job is: some end in the dead letters.
            } else if reap::now(self.now, most_recovered) == 0
                && (!self.may_pass_on() || order::pass_on(self.now, most_recovered) == 0)
            {
                break;
            }
            moved = true;
            round = self.round(&refused, true);
        }
        if round.claimed.is_empty() {
            self.name_what_was_met();
        }
        // It leaves them to claims that see them.
        std::mem::take(&mut self.unseen).iter().for_each(|(place, keyed)| place.enter_unseen(*keyed, self.now));
        Outcome { claimed: round.claimed, moved, limited_by: self.limited_by }
    }

    /// Whether it puts jobs at the head of their ordering key: not if others would see them late, and earlier from the
    /// engine.
    fn may_pass_on(&self) -> bool {
        !self.lingers || !seats::engine_runs()
    }

    /// Whether the worker has these capabilities.
    pub fn can_do(&self, required: &[String]) -> bool {
        required.is_empty() || {
            let has =
                self.request.capabilities.clone().unwrap_or_else(|| turns::announced(self.request.owner, self.now));
            required.iter().all(|one| has.contains(one))
        }
    }

    /// Leases one job that was taken for this claim, if it passes its gates.
    pub fn lease_given(mut self, lane: Lane, taken: Taken) -> Outcome {
        let leases = Table::open(&job_lease::TABLE);
        let rulebook = Rulebook::current();
        let (newer_limits, newer_budgets) = (gates::newer_limits(), gates::newer_budgets());
        let limits = newer_limits.as_ref().unwrap_or(&rulebook.limits);
        let budgets = newer_budgets.as_ref().unwrap_or(&rulebook.budgets);
        let refused = Refused::default();
        let has_gates = !limits.is_empty() || !budgets.is_empty();
        let gates = has_gates.then(|| Gates::open(&leases, limits, budgets, &refused, self.now));
        let mut ground = Ground { leases: &leases, gates, room: 1, full: false };
        let moment = Moment::latest();
        let round = self.lease(&mut ground, std::slice::from_ref(&lane), vec![(0, taken)], &moment);
        drop(ground);
        std::mem::take(&mut self.unseen).iter().for_each(|(place, keyed)| place.enter_unseen(*keyed, self.now));
        Outcome { claimed: round.claimed, moved: round.put_aside, limited_by: self.limited_by }
    }

    fn due(&self) -> Due {
        if !self.lingers {
            return Due::All(PROMOTE_AT_MOST);
        }
        let queues = self.lanes.iter().map(|lane| lane.queue.queue_id).collect();
        Due::Best(self.request.limit as i64, queues, self.lanes.iter().map(|lane| lane.kind.clone()).collect())
    }

    /// Reads the lanes once: those that all share, those of the groups whose turn it is, and those of jobs that waited
    /// for capacity which is free now.
    fn round(&mut self, refused: &Refused, full: bool) -> Round {
        // Opened before the rules are read, so that a change of rules either waits for this claim or is seen by it.
        let leases = Table::open(&job_lease::TABLE);
        let rulebook = Rulebook::current();
        let (newer_limits, newer_budgets) = (gates::newer_limits(), gates::newer_budgets());
        let limits = newer_limits.as_ref().unwrap_or(&rulebook.limits);
        let budgets = newer_budgets.as_ref().unwrap_or(&rulebook.budgets);
        let has_gates = !limits.is_empty() || !budgets.is_empty();
        let gates = has_gates.then(|| Gates::open(&leases, limits, budgets, refused, self.now));
        let (lanes, lines, room) = match &gates {
            None => (self.lanes.clone(), Vec::new(), self.request.limit),
            Some(gates) => self.open_lanes(gates),
        };
        let turns = Turns {
            leases: leases.id(),
            rules: limits,
            capabilities: self.request.capabilities.as_deref(),
            owner: self.request.owner,
            now: self.now,
        };
        let mut ground = Ground { leases: &leases, gates, room, full };
        let mut round = Round::default();
        let own = turns.first_part(&lanes, room);
        let takes_turns = own.is_some();
        let mut first = own.unwrap_or_else(|| Part::of(lanes.clone()));
        let mut waited_for = lines.chunks(OPEN_AT_ONCE).map(|lines| Lane::in_lines(&lanes, lines));
        first.lanes.extend(waited_for.next().into_iter().flatten());
        self.read(&mut ground, first, &mut round);
        // If it was the turn of jobs without a fairness key, and there were none, it is the turn of another group.
        if takes_turns && !ground.is_done(&round) {
            turns.first_part(&lanes, room).into_iter().for_each(|part| self.read(&mut ground, part, &mut round));
        }
        for lanes in waited_for {
            self.read(&mut ground, Part::of(lanes), &mut round);
        }
        if takes_turns && !ground.is_done(&round) {
            let mut parts = turns.all_parts(&lanes);
            // Others have emptied the last fair line meanwhile: nobody takes turns any more, but there may be jobs.
            if parts.is_empty() {
                parts.push(Part::of(lanes.clone()));
            }
            parts.into_iter().for_each(|part| self.read(&mut ground, part, &mut round));
        }
        drop(ground);
        if !round.found_any() {
            leases.let_go();
        }
        round
    }

    /// The lanes that no gate closes as a whole, the names of the lines whose jobs waited for capacity which is free
    /// now, and how many jobs this worker may take.
    fn open_lanes(&mut self, gates: &Gates<'_>) -> (Vec<Lane>, Vec<String>, usize) {
        let worker = self.request.worker();
        let mut open = Vec::with_capacity(self.lanes.len());
        self.closed.clear();
        for lane in &self.lanes {
            match gates.closed(&worker.wide_keys(&lane.queue.queue, lane.kind.as_deref())) {
                Some(key) => self.closed.push((lane.clone(), key)),
                None => open.push(lane.clone()),
            }
        }
        let room = gates.room(&worker.own_keys());
        let (mut free, full) = gates.waited_for();
        self.full = full;
        // Claims begin with different lines, so that none is passed over for ever.
        let turn = self.now as usize % free.len().max(1);
        free.rotate_left(turn);
        (open, free, self.request.limit.min(room.unwrap_or(usize::MAX)))
    }

    /// Notes the limits and budgets that kept this claim from jobs. A gate that is closed, or a line that is full, counts
    /// only if there are jobs behind it that the claim asks for.
    fn name_what_was_met(&mut self) {
        if self.closed.is_empty() && self.full.is_empty() {
            return;
        }
        let (ready, in_line) = (Table::open(&job_ready::TABLE), Table::open(&job_line::TABLE));
        let moment = Moment::now();
        let has_any = |lane: &Lane| lane.has_any(if lane.line.is_some() { &in_line } else { &ready }, &moment);
        let rulebook = Rulebook::current();
        let leases = Table::open(&job_lease::TABLE).id();
        let (capabilities, owner) = (self.request.capabilities.as_deref(), self.request.owner);
        let turns = Turns { leases, rules: &rulebook.limits, capabilities, owner, now: self.now };
        for (lane, key) in std::mem::take(&mut self.closed) {
            let fair = || turns.first_part(std::slice::from_ref(&lane), usize::MAX);
            if !self.limited_by.contains(&key)
                && (has_any(&lane) || fair().is_some_and(|part| part.lanes.iter().any(&has_any)))
            {
                self.limited_by.insert(key);
            }
        }
        for name in std::mem::take(&mut self.full).into_iter().take(ASKED_AT_MOST) {
            if self.limited_by.len() >= NAMED_AT_MOST {
                break;
            }
            if Lane::in_lines(&self.lanes, std::slice::from_ref(&name)).iter().any(&has_any) {
                self.limited_by.insert(name);
            }
        }
    }

    /// Reads a part of a round from the marks; in full if there are none, or if this transaction has put rows in that
    /// the marks do not know. A reading that finds nothing is made again in full.
    fn read(&mut self, ground: &mut Ground<'_, '_>, mut part: Part, round: &mut Round) {
        if part.lanes.is_empty() || ground.is_done(round) {
            return;
        }
        let wanted = ground.room - round.claimed.len();
        let mut readings: Vec<Reading> = part.lanes.iter().map(|lane| Reading::of(lane.name())).collect();
        let marks: Vec<Option<Vec<Mark>>> =
            readings.iter_mut().map(|reading| reading.marks.take().filter(|_| !ground.full)).collect();
        let looked = marks.iter().all(Option::is_none);
        let found = self.take(ground, &mut part, &mut readings, marks, wanted);
        if found.found_any() || looked || !readings.iter().all(|reading| reading.may_look) {
            return round.add(found);
        }
        let none = vec![None; part.lanes.len()];
        round.add(self.take(ground, &mut part, &mut readings, none, wanted));
    }

    /// Takes the first jobs from these marks on, and leases them. A lane without marks is looked at first.
    fn take(
        &mut self,
        ground: &mut Ground<'_, '_>,
        part: &mut Part,
        readings: &mut [Reading],
        marks: Vec<Option<Vec<Mark>>>,
        wanted: usize,
    ) -> Round {
        let lanes = &part.lanes;
        let looks: Vec<Option<Look>> = readings
            .iter_mut()
            .zip(&marks)
            .map(|(reading, marks)| marks.is_none().then(|| reading.begin_look()))
            .collect();
        let ready = Table::open(&job_ready::TABLE);
        let in_line = lanes.iter().any(|lane| lane.line.is_some()).then(|| Table::open(&job_line::TABLE));
        let table = |lane: &Lane| match &in_line {
            Some(in_line) if lane.line.is_some() => in_line,
            _ => &ready,
        };
        let moment = Moment::now();
        let marks: Vec<Vec<Mark>> = marks
            .into_iter()
            .zip(lanes.iter().zip(&*readings).zip(&looks))
            .map(|(marks, ((lane, reading), look))| {
                marks.unwrap_or_else(|| {
                    let found = lane.look(table(lane), &moment);
                    look.iter().for_each(|look| reading.learn(look, &found));
                    found
                })
            })
            .collect();
        let mut cursors: Vec<Cursor<'_>> = lanes
            .iter()
            .zip(&marks)
            .map(|(lane, marks)| Cursor::new(lane, table(lane), &moment, marks, wanted == 1))
            .collect();
        let taken = best_of(&mut cursors, lanes, &mut part.order, wanted);
        for (number, (reading, marks)) in readings.iter().zip(&marks).enumerate() {
            match taken.iter().rev().find(|(lane, _)| *lane == number) {
                Some((_, last)) => raise(reading, marks, &last.place),
                // There were fewer jobs than wanted, so each lane was read to its end.
                None if taken.len() < wanted => reading.raise_all(marks),
                None => {}
            }
        }
        drop(cursors);
        self.lease(ground, lanes, taken, &moment)
    }
}

/// The first ready jobs over all cursors, taken one after the other; each with its lane. Whose turn it is decides
/// first, then priority, schedule and age.
fn best_of(cursors: &mut [Cursor<'_>], lanes: &[Lane], order: &mut Order<Group>, wanted: usize) -> Vec<(usize, Taken)> {
    let group = |lane: usize| lanes[lane].group.map(|group| (lanes[lane].queue.queue_id, group));
    let mut heads: Vec<Option<Mark>> = cursors.iter_mut().map(Cursor::next).collect();
    let mut shares: BTreeMap<Group, (u64, u64)> = BTreeMap::new();
    let mut taken = Vec::new();
    while taken.len() < wanted {
        pgrx::check_for_interrupts!();
        let turn = |lane: usize| group(lane).map_or(0, |group| order.turn(&group));
        let next = heads.iter().enumerate().filter_map(|(lane, head)| head.map(|head| (lane, head)));
        let Some((lane, _)) = next.min_by_key(|(lane, head)| (turn(*lane), head.priority, head.from, *lane)) else {
            break;
        };
        if let Some(job) = cursors[lane].take() {
            taken.push((lane, job));
            if let Some(group) = group(lane) {
                let (share, jobs) = shares.entry(group).or_default();
                (*share, *jobs) = (order.taken(&group), *jobs + 1);
            }
        }
        if taken.len() < wanted {
            heads[lane] = cursors[lane].next();
        }
    }
    turns::served(&shares, lanes.iter().zip(&heads).filter(|(_, head)| head.is_none()).map(|(lane, _)| lane));
    taken
}

/// The lane was read up to this job: nothing is left before it.
fn raise(reading: &Reading, marks: &[Mark], last: &Place) {
    for mark in marks.iter().filter(|mark| mark.priority < last.priority) {
        reading.raise(mark.priority, Position::at(Micros::MAX));
    }
    reading.raise(last.priority, last.position());
}
