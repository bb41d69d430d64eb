//! The ledgers, read into what is known of every job, claim and end.

use super::Moved;
use crate::ledger::{End, Entry, Line, Micros, Shelf};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::Path;
use uuid::Uuid;

/// What is known of the asks for one key.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub asks: usize,
    pub answers: usize,
    pub refusals: usize,
    pub told: BTreeSet<Uuid>,
}

impl Asked {
    /// Asks that may have happened or not.
    pub fn unknown(&self) -> usize {
        self.asks.saturating_sub(self.answers + self.refusals)
    }
}

/// What its holder knows of the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Ended(End),
    /// The lease was another's, or the job was over, when this was said.
    Lost(Micros),
    /// The end did not happen.
    NotEnded(End),
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub job: Uuid,
    pub owner: String,
    /// When its holder was told of it.
    pub at: Micros,
    /// Until when it holds, by the last extension that was confirmed.
    pub until: Micros,
    /// When its holder first asked for its end.
    pub ending_at: Option<Micros>,
    pub asked: Option<End>,
    pub told: Option<Told>,
    /// The last end was asked for together with a row of its own.
    pub with_own_row: bool,
    /// The answer came so shortly before a crash that the claim may have gone with it.
    pub doubted: bool,
}

/// What one process has asked for and not been told.
#[derive(Clone, Debug, Default)]
struct Open {
    claim: Option<u32>,
    unknown_claims: u64,
}

#[derive(Clone, Default)]
pub struct Books {
    pub keys: HashMap<String, Asked>,
    pub missions: HashMap<String, Asked>,
    /// The ordering key of every confirmed job that has one.
    pub orders: HashMap<Uuid, String>,
    pub claims: HashMap<Uuid, Claim>,
    pub cancelled: HashSet<Uuid>,
    pub surprises: Vec<String>,
    /// Errors that the faults explain, by their code.
    pub disturbed: BTreeMap<String, u64>,
    /// Confirmed acks, as they were told.
    pub acks: u64,
    /// When these were told, in no order.
    pub ack_times: Vec<Micros>,
    /// Times of which an answer says nothing, because a server without synchronous commits crashed right after.
    pub doubts: Moved,
    owners: HashMap<String, Open>,
}

impl Books {
    /// Takes over everything that was written since the last time.
    pub fn read(&mut self, shelf: &mut Shelf) -> io::Result<()> {
        for (owner, lines) in shelf.read()? {
            self.owners.entry(owner.clone()).or_default();
            for Line { noted, entry } in lines {
                if matches!(entry, Entry::Ended { end: End::Ack, .. }) {
                    self.ack_times.push(noted);
                }
                match self.doubts.touches(noted, noted) {
                    true => self.doubt(&owner, entry),
                    false => self.enter(&owner, entry),
                }
            }
        }
        Ok(())
    }

    /// Takes over an entry that may not have lasted: what it confirms is as if it had not been answered.
    fn doubt(&mut self, owner: &str, entry: Entry) {
        match entry {
            Entry::Claimed { token, .. } => {
                self.enter(owner, entry);
                self.about(token, |claim| claim.doubted = true);
            }
            Entry::Enqueued { .. }
            | Entry::Started { .. }
            | Entry::Ended { .. }
            | Entry::Lost { .. }
            | Entry::Extended { .. }
            | Entry::Cancelled { .. } => {}
            _ => self.enter(owner, entry),
        }
    }

    /// The longest time without a confirmed ack between these two, in seconds.
    pub fn longest_silence(&self, from: Micros, to: Micros) -> f64 {
        let mut times: Vec<Micros> = self.ack_times.iter().copied().filter(|at| (from..=to).contains(at)).collect();
        times.extend([from, to]);
        times.sort_unstable();
        times.windows(2).map(|two| two[1] - two[0]).max().unwrap_or(0) as f64 / 1e6
    }

    pub fn of(folder: &Path) -> io::Result<Books> {
        let mut books = Books::default();
        books.read(&mut Shelf::new(folder))?;
        Ok(books)
    }

    /// Empty books, for which answers at these times say nothing.
    pub fn doubting(doubts: Moved) -> Books {
        Books { doubts, ..Books::default() }
    }

    /// How many claims of this owner may be in the database without being in its ledger. None: nobody knows that owner.
    pub fn unknown_claims(&self, owner: &str) -> Option<u64> {
        self.owners.get(owner).map(|open| open.unknown_claims + u64::from(open.claim.unwrap_or(0)))
    }

    pub fn confirmed_jobs(&self) -> usize {
        self.keys.values().map(|asked| asked.told.len()).sum()
    }

    pub fn unknown_asks(&self) -> usize {
        let unanswered = self.claims.values().filter(|claim| claim.asked.is_some() && claim.told.is_none()).count();
        self.keys.values().map(Asked::unknown).sum::<usize>() + unanswered
    }

    pub fn enter(&mut self, owner: &str, entry: Entry) {
        match entry {
            Entry::Enqueueing { keys } => {
                for key in keys {
                    self.keys.entry(key).or_default().asks += 1;
                }
            }
            Entry::Enqueued { key, job, order, .. } => {
                let asked = self.keys.entry(key).or_default();
                asked.answers += 1;
                asked.told.insert(job);
                if let Some(order) = order {
                    self.orders.insert(job, order);
                }
            }
            Entry::NotEnqueued { keys } => {
                for key in keys {
                    self.keys.entry(key).or_default().refusals += 1;
                }
            }
            Entry::Starting { key } => self.missions.entry(key).or_default().asks += 1,
            Entry::Started { key, mission } => {
                let asked = self.missions.entry(key).or_default();
                asked.answers += 1;
                asked.told.insert(mission);
            }
            Entry::NotStarted { key } => self.missions.entry(key).or_default().refusals += 1,
            Entry::Claiming { most } => {
                let open = self.owners.entry(owner.to_owned()).or_default();
                open.unknown_claims += u64::from(open.claim.replace(most).unwrap_or(0));
            }
            Entry::NotClaimed => self.owners.entry(owner.to_owned()).or_default().claim = None,
            Entry::Claimed { job, token, until, at } => {
                let owner = owner.to_owned();
                let (ending_at, asked, told, with_own_row, doubted) = (None, None, None, false, false);
                self.claims
                    .insert(token, Claim { job, owner, at, until, ending_at, asked, told, with_own_row, doubted });
            }
            Entry::Ending { token, end, at, with_own_row, .. } => self.about(token, |claim| {
                claim.ending_at.get_or_insert(at);
                (claim.asked, claim.told, claim.with_own_row) = (Some(end), None, with_own_row);
            }),
            Entry::Ended { token, end, .. } => {
                self.acks += u64::from(end == End::Ack);
                self.about(token, |claim| claim.told = Some(Told::Ended(end)));
            }
            Entry::Lost { token, at, .. } => self.about(token, |claim| claim.told = Some(Told::Lost(at))),
            Entry::NotEnded { token, .. } => {
                self.about(token, |claim| claim.told = claim.asked.map(Told::NotEnded));
            }
            Entry::Extended { token, until, .. } => self.about(token, |claim| claim.until = claim.until.max(until)),
            Entry::Cancelling { .. } => {}
            Entry::Cancelled { job } => drop(self.cancelled.insert(job)),
            Entry::Surprised { code, message, during } => {
                self.surprises.push(format!("{owner} met {code}: {message} (during {during})"));
            }
            Entry::Disturbed { code } => *self.disturbed.entry(code).or_default() += 1,
        }
    }

    fn about(&mut self, token: Uuid, change: impl FnOnce(&mut Claim)) {
        if let Some(claim) = self.claims.get_mut(&token) {
            change(claim);
        }
    }
}
