//! What claims ask of the board: what is left of a key, who stands in which line, and whose turn it is.

use super::board::{BOARD, has_fair_lines};
use super::changes::{entered, reusable};
use crate::queue::waking::waiters;
use crate::server::my_database;
use agentq_core::counters::CounterKey;
use agentq_core::line::{Fair, is_fair};
use agentq_core::turns::LineTurn;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// How much of a key is in use, but for what this transaction gives back and may take again.
pub fn active(key: &str) -> i64 {
    BOARD.share().counters.active(CounterKey { database: my_database(), key }) - reusable(key)
}

/// Whether there is not enough of a key for the job that was refused last, or for any.
pub fn is_full(key: &str, most: i64) -> bool {
    BOARD.share().counters.is_full(CounterKey { database: my_database(), key }, most, reusable(key))
}

/// Whether nothing is left of a key. If so, the board tells whoever waits when there is something again.
pub fn is_used_up(key: &str, most: i64) -> bool {
    let (counter, back) = (CounterKey { database: my_database(), key }, reusable(key));
    let (used_up, wanted) = {
        let board = BOARD.share();
        (board.counters.is_used_up(counter, most, back), board.counters.is_wanted(counter))
    };
    if !used_up || wanted {
        return used_up;
    }
    // It may have come back since.
    let mut board = BOARD.exclusive();
    let used_up = board.counters.is_used_up(counter, most, back);
    if used_up {
        board.counters.want(counter);
    }
    used_up
}

/// How much of this key is in use, and how many jobs stand in its line.
pub fn counted(key: &str) -> (i64, u32) {
    let (board, counter) = (BOARD.share(), CounterKey { database: my_database(), key });
    let in_line = if is_fair(key) { board.fair.in_line(counter) } else { board.counters.in_line(counter) };
    (board.counters.active(counter), in_line)
}

/// The keys for which jobs wait. None: there was no room to remember them all.
pub fn waited_for() -> Option<Vec<String>> {
    let (board, me) = (BOARD.share(), my_database());
    if board.is_crowded(me, false) {
        return None;
    }
    let mut keys: Vec<String> = board.counters.waited_for(me).map(str::to_owned).collect();
    for key in entered(|key| !is_fair(key)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Some(keys)
}

/// Whether jobs may stand in fair lines.
pub fn any_fair_line() -> bool {
    has_fair_lines() || !entered(is_fair).is_empty()
}

/// The fair lines of a queue that this worker may read and that may have jobs of these kinds, of at most `most` groups, those that have had least first; and
/// what those without a fairness key have had. `slots`: how many slots a fairness key has, if it has a limit. None: there
/// was no room to remember them all.
pub fn fair_lines(
    queue: i32,
    most: usize,
    kinds: u64,
    capabilities: &[String],
    slots: impl Fn(&str) -> Option<u32>,
) -> Option<(Vec<LineTurn>, (u64, u64))> {
    let (board, me) = (BOARD.share(), my_database());
    if board.is_crowded(me, true) {
        return None;
    }
    let full: RefCell<BTreeSet<String>> = RefCell::default();
    let is_full = |key: &str| {
        let counter = CounterKey { database: me, key };
        let most = if key.is_empty() { None } else { slots(key) };
        let is_full = most.is_some_and(|most| board.counters.is_used_up(counter, most.into(), reusable(key)));
        if is_full && !board.counters.is_wanted(counter) {
            full.borrow_mut().insert(key.to_owned());
        }
        is_full
    };
    let may = |fair: Fair<'_>| fair.admits(capabilities) && !is_full(fair.fairness_key);
    let mut found = board.fair.of_queue(me, queue, most, kinds, may);
    let turn = board.fair.turn_without_key(me, queue);
    for name in entered(is_fair) {
        if !found.iter().any(|other| other.line == name)
            && let Some(fair) = Fair::parse(&name).filter(|fair| fair.queue_id == queue)
            && may(fair)
        {
            found.push(LineTurn { had: turn, turn, group: fair.group(), line: name.clone() });
        }
    }
    let had = board.fair.had_without_key(me, queue);
    drop(board);
    // A waiting claim has to look again for what has come back in between.
    if full.take().into_iter().any(|key| !slots(&key).is_some_and(|most| is_used_up(&key, most.into()))) {
        waiters::wake_all();
    }
    Some((found, (had, turn)))
}

/// Jobs of a group of a queue's fair lines were given out, each with this share of its turn.
pub fn served(queue: i32, group: u32, share: u64, jobs: u64) {
    BOARD.exclusive().fair.served(my_database(), queue, group, share, jobs);
}

/// Those without a fairness key had nothing when their turn came.
pub fn passed_over(queue: i32) {
    BOARD.exclusive().fair.passed_over(my_database(), queue);
}
