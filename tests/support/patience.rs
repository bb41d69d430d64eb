//! Waiting for a fact. Nothing here measures time: a slow machine makes a test slower, never red.

use crate::database::Session;
use std::time::{Duration, Instant};

/// How long something may take before the run counts as broken.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Asks again and again until it holds.
#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    eventually_or(what, holds, String::new);
}

/// Asks again and again until it holds. If it never does, `more` adds to the message what there is to go on.
#[track_caller]
pub fn eventually_or(what: &str, mut holds: impl FnMut() -> bool, more: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "this never happened: {what} {}", more());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How often something may be slow before it counts as never quick.
const TRIES: usize = 8;

/// Something happens because somebody was told of it, and not only after the `limit`, when it would have happened by
/// itself. A busy machine may hold up one try or two: a single quick one shows that it was told.
#[track_caller]
pub fn sooner_than(limit: Duration, what: &str, mut once: impl FnMut() -> Duration) {
    let mut slow = Vec::new();
    while slow.len() < TRIES {
        let took = once();
        if took < limit {
            return;
        }
        slow.push(took);
    }
    panic!("{what}: never sooner than {limit:?}, but after {slow:?}");
}

/// What this comes to, and how long it takes.
pub fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let outcome = what();
    (outcome, began.elapsed())
}

/// Waits until a call of another session of this database sleeps in wait of something: a job, a signal, an event.
#[track_caller]
pub fn until_waiting(session: &mut Session) {
    eventually("a call waits", || sleeping_calls(session) > 0);
}

/// How many other sessions of this database sleep in wait of something.
#[track_caller]
pub fn sleeping_calls(session: &mut Session) -> i64 {
    session.count(
        "pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
         AND state = 'active' AND wait_event = 'Extension' AND pid <> pg_backend_pid()",
    )
}

/// Waits until some session of this database waits for another one's lock.
#[track_caller]
pub fn until_someone_waits(session: &mut Session) {
    until_lock_waits(session, 1);
}

/// Waits until this many sessions of this database wait for locks of others.
#[track_caller]
pub fn until_lock_waits(session: &mut Session, count: i64) {
    eventually("sessions wait for locks", || {
        session.count("pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") >= count
    });
}
