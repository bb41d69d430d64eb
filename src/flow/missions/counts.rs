//! How many steps of a mission, or items of a step, are under way.
//!
//! The number is spread over several rows. A step is counted in the row of the step that let it begin; where many begin at
//! once, they are spread over all rows. So no row goes below nothing, and only a row that comes to nothing is a reason to
//! look at the others. Whoever brings one to nothing locks the owner, and then reads all rows as they are committed at that
//! moment. If two sessions bring the last two rows to nothing at the same time, one of them locks the owner after the other
//! has committed, and sees both. So one session sees the end, and sees it once.

use super::rows::mission_count;
use crate::db::{Db, statements};
use crate::table::{Moment, Row, Scan, Table};
use agentq_core::mission::status::CountState;
use pgrx::Uuid;
use std::collections::BTreeMap;

statements!("counts.sql": COUNT_ADD, COUNT_STATE, COUNT_GONE);

/// A row of the counts, after it was changed.
pub struct Count {
    pub active: i32,
    pub state: CountState,
}

pub fn create(owner: Uuid, shards: i32, active: impl Fn(i32) -> i32, state: CountState) {
    let rows: Vec<Row> = (0..shards)
        .map(|shard| {
            Row::of(&mission_count::TABLE)
                .set(mission_count::owner_id, owner)
                .set(mission_count::shard, shard)
                .set(mission_count::active, active(shard))
                .set(mission_count::state, state.name())
        })
        .collect();
    Table::open(&mission_count::TABLE).insert_all(&rows);
}

/// Adds to one row, and stops the mission if asked to. None: the owner has ended.
pub fn add(db: &Db, owner: Uuid, shard: i32, delta: i32, stop: bool) -> Option<Count> {
    let row = db.run(&COUNT_ADD, &[owner.into(), shard.into(), delta.into(), stop.into()]);
    (!row.is_empty()).then(|| Count { active: row.must("active"), state: row.word("state", CountState::parse) })
}

/// Adds to several rows, by number. True: one of them has come to nothing.
pub fn add_all(db: &Db, owner: Uuid, deltas: &BTreeMap<i32, i32>) -> bool {
    let counts = deltas.iter().filter_map(|(shard, delta)| add(db, owner, *shard, *delta, false));
    counts.fold(false, |nothing, count| nothing | (count.active == 0))
}

/// Locks all rows, and brings those in one of the states `from` into `state`. Returns how many are in `state` then. Rows in
/// other states are locked as well: the caller has to see what a session that is changing them decides.
pub fn set_state(db: &Db, owner: Uuid, state: CountState, from: &[CountState]) -> usize {
    let from: Vec<String> = from.iter().map(|state| state.name().to_owned()).collect();
    let mut in_it = 0;
    let rows = db.run(&COUNT_STATE, &[owner.into(), state.name().into(), from.into()]);
    rows.each(|row| in_it += usize::from(row.only::<bool>()));
    in_it
}

/// All rows as they are committed now, or written by this transaction.
pub fn latest(owner: Uuid) -> Vec<i32> {
    let (counts, moment) = (Table::open(&mission_count::TABLE), Moment::latest());
    let mut scan = Scan::by_id(&counts, &moment, c"mission_count_pkey", owner);
    let mut found = Vec::new();
    while scan.next() {
        found.push(scan.int(mission_count::active));
    }
    found
}

pub fn are_all_nothing(owner: Uuid) -> bool {
    latest(owner).iter().all(|active| *active == 0)
}

pub fn remove(db: &Db, owner: Uuid) {
    db.run(&COUNT_GONE, &[owner.into()]);
}
