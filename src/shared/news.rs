//! News of each database for its engine: what was committed there since the engine last looked.
//!
//! Each database that has told of itself has one word, at a place that it keeps. Looking takes no place. A database
//! that finds no place left counts as used, and as one that has news.

use super::is_preloaded;
use crate::server::my_database;
use pgrx::prelude::*;
use pgrx::{PgAtomic, pg_shmem_init};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const PLACES: usize = 1024;

/// What there can be news of.
#[derive(Clone, Copy)]
pub enum News {
    /// A session has written or read events since the server started.
    EventsUsed = 1,
    /// Events have been committed.
    Events = 2,
    /// A step without a worker has begun, or may end.
    StepWaits = 4,
    /// It is written down that events of this database were written here.
    OriginNoted = 8,
}

// SAFETY: the name is agentq's own.
static NEWS: PgAtomic<[AtomicU64; PLACES]> = unsafe { PgAtomic::new(c"agentq_news") };

pub fn init() {
    pg_shmem_init!(NEWS = [const { AtomicU64::new(0) }; PLACES]);
}

/// What is known of a database that has found no place: everything, so that nobody waits in vain.
const UNKNOWN: u64 = u32::MAX as u64;

/// The bits of a word, if it is this database's.
fn bits(word: u64, mine: u64) -> Option<u64> {
    (word >> 32 == mine).then_some(word & u64::from(u32::MAX))
}

/// Finds the word of a database, its number in the upper half: at the place that its number gives, or
/// the next one after it. A place once taken stays taken, so the first free one ends the search.
fn find(places: &[AtomicU64], mine: u64, wants_one: bool) -> Result<&AtomicU64, Absent> {
    let first = mine as usize % places.len();
    for place in places[first..].iter().chain(&places[..first]) {
        let mut word = place.load(SeqCst);
        if word == 0 {
            if !wants_one {
                return Err(Absent::New);
            }
            match place.compare_exchange(0, mine << 32, SeqCst, SeqCst) {
                Ok(_) => return Ok(place),
                Err(taken) => word = taken,
            }
        }
        if bits(word, mine).is_some() {
            return Ok(place);
        }
    }
    Err(Absent::Full)
}

/// Why a database has no word.
#[derive(Debug, PartialEq, Eq)]
enum Absent {
    /// Nobody has told of it yet.
    New,
    Full,
}

/// Changes the word of this database, for which it gets a place if it wants one. Returns what the word was before.
fn change(wants_one: bool, change: impl Fn(u64) -> u64) -> u64 {
    if !is_preloaded() {
        return 0;
    }
    let mine = u64::from(my_database());
    match find(NEWS.get(), mine, wants_one) {
        Ok(place) => {
            let now = |word: u64| bits(word, mine).unwrap_or_default();
            let update = |word: u64| Some(mine << 32 | change(now(word))).filter(|changed| *changed != word);
            now(place.fetch_update(SeqCst, SeqCst, update).unwrap_or_else(|word| word))
        }
        Err(_) => 0,
    }
}

/// Looks at the word of this database, and takes no place for it.
fn look() -> u64 {
    if !is_preloaded() {
        return 0;
    }
    let mine = u64::from(my_database());
    match find(NEWS.get(), mine, false) {
        Ok(place) => bits(place.load(SeqCst), mine).unwrap_or_default(),
        Err(Absent::New) => 0,
        Err(Absent::Full) => UNKNOWN,
    }
}

/// Brings news. True: the engine does not know it yet.
pub fn bring(news: News) -> bool {
    is_preloaded() && change(true, |bits| bits | news as u64) & news as u64 == 0
}

pub fn is_there(news: News) -> bool {
    look() & news as u64 != 0
}

/// Takes note of the news. To be called before the look for what they are about.
pub fn take(news: News) {
    change(false, |bits| bits & !(news as u64));
}

/// Says that all is new: the extension is being made.
pub fn begin_anew() {
    change(false, |_| 0);
}
