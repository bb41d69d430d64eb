//! Work on behalf of all that meets rows which strangers have locked. Each item is tried in a part of its own, which waits a
//! little, and all items of a turn together not much longer. What somebody was in the way of is put off for a while, so
//! that others come first, however many of these there are.

use super::parts::{Caught, attempt};
use super::settings::with_setting;
use crate::server::lock_timeout;
use agentq_core::backoff::backoff_seconds;
use pgrx::PgSqlErrorCode;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CString;
use std::hash::Hash;
use std::thread::LocalKey;
use std::time::{Duration, Instant};

/// How long a turn waits in all for rows that others have locked, and how long for one item, in milliseconds.
const TURN_MS: u64 = 250;
const ITEM_MS: u64 = 50;
/// An item that somebody was in the way of is put off this long, in milliseconds, and then ever longer.
const FIRST_MS: i64 = 100;
const LONGEST_MS: i64 = 5_000;
/// As many are remembered. Of more than these some are tried again at once.
const MOST: usize = 1_000;

impl Caught {
    /// Whether somebody had a row locked for longer than there was time to wait.
    pub fn is_in_the_way(&self) -> bool {
        self.code == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE
    }
}

/// What is left of the time that a turn may wait.
pub struct Patience {
    left: Cell<Duration>,
}

impl Patience {
    /// For one turn.
    pub const fn of_a_turn() -> Patience {
        Patience { left: Cell::new(Duration::from_millis(TURN_MS)) }
    }

    /// Begins another turn.
    pub fn renew(&self) {
        self.left.set(Duration::from_millis(TURN_MS));
    }

    /// Runs `work` in a subtransaction, in which no lock is waited for longer than there is patience. An error undoes what it
    /// did, and is returned.
    pub fn attempt<R>(&self, work: impl FnOnce() -> R) -> Result<R, Caught> {
        // Within another part, or where the caller has less patience, that holds.
        let most = lock_timeout().map_or(ITEM_MS, |most| ITEM_MS.min(most.as_millis() as u64));
        let wait = (self.left.get().as_millis() as u64).min(most).max(1);
        let wait = CString::new(format!("{wait}ms")).expect("digits");
        let began = Instant::now();
        let done = attempt(|| with_setting(c"lock_timeout", &wait, work));
        if done.as_ref().is_err_and(Caught::is_in_the_way) {
            self.left.set(self.left.get().saturating_sub(began.elapsed()));
        }
        done
    }
}

/// The items that this session has put off: for how long, and how often.
pub struct PutOff<K>(RefCell<HashMap<K, (Instant, i64)>>);

impl<K: Hash + Eq + Clone> PutOff<K> {
    pub fn new() -> PutOff<K> {
        PutOff(RefCell::default())
    }

    /// Leaves an item alone for a while.
    pub fn add(all: &'static LocalKey<PutOff<K>>, item: K) {
        all.with(|all| {
            let mut items = all.0.borrow_mut();
            let now = Instant::now();
            if items.len() >= MOST {
                items.retain(|_, (until, _)| *until > now);
            }
            if items.len() >= MOST {
                items.clear();
            }
            let (until, times) = items.entry(item).or_insert((now, 0));
            *times += 1;
            *until = now + Duration::from_millis(backoff_seconds(FIRST_MS, *times).min(LONGEST_MS) as u64);
        });
    }

    /// The items that are to be left alone now.
    pub fn current(all: &'static LocalKey<PutOff<K>>) -> Vec<K> {
        all.with(|all| {
            let now = Instant::now();
            let mut items = all.0.borrow_mut();
            // One that was put off long ago and has not come again is somebody else's by now.
            items.retain(|_, (until, _)| *until + Duration::from_secs(60) > now);
            items.iter().filter(|(_, (until, _))| *until > now).map(|(item, _)| item.clone()).collect()
        })
    }
}
