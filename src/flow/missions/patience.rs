//! How long the paths of a template may take. Whoever ends a step evaluates what steps behind it ask, an ack or the engine,
//! and must not be held up by it.
//!
//! A mission has its own time, so that a slow one fails by itself. Where one transaction has to do with many missions, it has
//! a bound for all of them, too: beyond it nothing is decided, and whoever called takes fewer at once.

use crate::base::clock::real_now;
use crate::db;
use crate::error::raise;
use crate::server;
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;

/// Milliseconds for one path, for all paths of one mission in a transaction, and for all of a transaction.
struct Bounds {
    path: i64,
    mission: i64,
    all: i64,
}

const USUAL: Bounds = Bounds { path: 1_000, mission: 5_000, all: 20_000 };
/// The engine has others to look after.
const ENGINE: Bounds = Bounds { path: 1_000, mission: 2_000, all: 3_000 };

/// What this transaction has spent, in microseconds.
#[derive(Default)]
struct Spent {
    transaction: i64,
    all: i64,
    missions: HashMap<[u8; 16], i64>,
}

thread_local!(static SPENT: RefCell<Spent> = RefCell::default());

/// What was spent so far came to nothing: the caller takes fewer at once now.
pub fn begin_anew() {
    SPENT.take();
}

/// Runs `work`, which evaluates paths of a mission, as long as there is time for it. An error says what went wrong, or that it
/// took too long.
pub fn within<R>(mission: Uuid, work: impl FnOnce() -> R) -> Result<R, String> {
    let bounds = if server::is_background_worker() { &ENGINE } else { &USUAL };
    let transaction = server::transaction_began();
    let (all_us, mission_us) = SPENT.with_borrow_mut(|spent| {
        if spent.transaction != transaction {
            *spent = Spent { transaction, ..Spent::default() };
        }
        (spent.all, spent.missions.get(mission.as_bytes()).copied().unwrap_or_default())
    });
    if all_us >= bounds.all * 1_000 && all_us > mission_us {
        raise(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "the paths of the missions that this call goes on with took longer than {} ms together",
                bounds.all
            ),
            "Nothing was done. End fewer jobs at once.",
        )
    }
    let left_ms = bounds.mission - mission_us / 1_000;
    if left_ms <= 0 {
        return Err(format!(
            "the paths that were to be evaluated at once took longer than {} ms together",
            bounds.mission
        ));
    }
    let began = real_now();
    let result = db::attempt_within(left_ms.min(bounds.path) as i32, work);
    let took = (real_now() - began).max(0);
    SPENT.with_borrow_mut(|spent| {
        spent.all += took;
        *spent.missions.entry(*mission.as_bytes()).or_default() += took;
    });
    result.map_err(|error| error.message)
}
