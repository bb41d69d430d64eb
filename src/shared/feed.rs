//! Which databases have had events written or read since the server started, and which have events that
//! nobody has sealed yet.
//!
//! One word for each database, at a place that its number gives. Two databases that share a place
//! push each other out, and are told of again with their next event.

use super::{is_preloaded, my_database};
use pgrx::prelude::*;
use pgrx::{PgAtomic, pg_shmem_init};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const PLACES: usize = 1024;
/// A session has written or read events.
const USED: u64 = 1;
/// Events have been committed since the sealer last looked.
const NEWS: u64 = 2;

// SAFETY: the name is agentq's own.
static FEED: PgAtomic<[AtomicU64; PLACES]> = unsafe { PgAtomic::new(c"agentq_feed") };

pub fn init() {
    pg_shmem_init!(FEED = [const { AtomicU64::new(0) }; PLACES]);
}

/// The word of this database, its number in the upper half.
fn change(change: impl Fn(u64) -> u64) -> u64 {
    if !is_preloaded() {
        return 0;
    }
    let mine = u64::from(my_database()) << 32;
    let place = &FEED.get()[my_database() as usize % PLACES];
    let bits = |word: u64| if word & !u64::from(u32::MAX) == mine { word & u64::from(u32::MAX) } else { 0 };
    let update = |word: u64| Some(mine | change(bits(word))).filter(|changed| *changed != word);
    bits(place.fetch_update(SeqCst, SeqCst, update).unwrap_or_else(|word| word))
}

/// Whether this process is one of the engine's.
pub fn is_engine() -> bool {
    // SAFETY: a plain flag of the server's.
    unsafe { pg_sys::IsBackgroundWorker }
}

/// Says that a session uses events. What the engine writes of itself does not count.
pub fn use_it() {
    if !is_engine() {
        change(|bits| bits | USED);
    }
}

/// Says that events were used here before.
pub fn go_on() {
    change(|bits| bits | USED);
}

/// Says that all is new: the extension is being made.
pub fn begin_anew() {
    change(|_| 0);
}

/// Whether a session has used events since the server started.
pub fn is_used() -> bool {
    change(|bits| bits) & USED != 0
}

/// Says that events have been committed. True: the sealer does not know it yet.
pub fn bring_news() -> bool {
    use_it();
    is_preloaded() && change(|bits| bits | NEWS) & NEWS == 0
}

pub fn has_news() -> bool {
    change(|bits| bits) & NEWS != 0
}

/// Takes note of the news, before what they are about is looked for.
pub fn take_news() {
    change(|bits| bits & !NEWS);
}
