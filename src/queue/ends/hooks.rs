//! Being told that a job has finished.
//!
//! A job may name who is to be told (`job.on_end`): the name of a hook, a colon, and what it is about. The transaction
//! that ends the job, in whatever way, calls the hook after it has written the job's own rows. Upper rooms register
//! their hooks when the library is loaded; this room knows none of them.
//!
//! A hook locks rows of its own room. One call that ends several jobs tells of all of them together, at its end, so that
//! the hook can lock in an order that is the same for all. Nobody's open transaction holds up the end of a job: a hook that
//! would have to wait for longer than a moment is undone, and told later (`late_ends`).

use super::{late_ends, telling};
use crate::base::clock::{self, Micros};
use crate::base::settings::is_schema_previous;
use crate::db::{self, Db};
use crate::error::raise;
use crate::json::Jsonb;
use crate::queue::rows::job;
use crate::server::has_fixed_snapshot;
use crate::table::{Moment, Scan, Table};
use agentq_core::context::Context;
use pgrx::Uuid;
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};
use std::sync::Mutex;

/// A job that has finished.
pub struct Ended {
    pub job_id: Uuid,
    /// What stands behind the colon.
    pub about: String,
    /// succeeded, failed, dead_letter or cancelled.
    pub state: String,
    pub result: Option<Jsonb>,
    pub error: Option<String>,
    /// What its row has of what it belongs to.
    pub context: Context,
}

impl Ended {
    pub fn well(job_id: Uuid, result: Option<Jsonb>, context: Context) -> Ended {
        Ended { job_id, about: String::new(), state: "succeeded".to_owned(), result, error: None, context }
    }
}

pub type Hook = fn(&Db, &[Ended], Micros);

/// A hook, and whether the run of a job that names it is a mission.
type Registered = (&'static str, Hook, bool);

static HOOKS: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

thread_local! {
    /// What is left of the time for which a call, or a turn of those who end jobs on behalf of all, waits for rows that hooks
    /// lock.
    static PATIENCE: db::Patience = const { db::Patience::of_a_turn() };
    /// How many calls that tell together are under way, one inside the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static PENDING: RefCell<Vec<(String, Ended)>> = const { RefCell::new(Vec::new()) };
    /// Whether a call, or a turn on behalf of all, is under way. It has patience once, however many jobs it ends.
    static IN_TURN: Cell<bool> = const { Cell::new(false) };
}

struct Turn {
    is_outermost: bool,
}

impl Turn {
    fn begin() -> Turn {
        let is_outermost = !IN_TURN.replace(true);
        if is_outermost {
            PATIENCE.with(db::Patience::renew);
        }
        Turn { is_outermost }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_outermost {
            IN_TURN.set(false);
        }
    }
}

/// What is to be begun anew before an end that was left is told: it has what it would have had by itself.
static BEFORE_EACH: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Has this called before each end that was left and is told now. Called when the library is loaded.
pub fn before_each_that_was_left(begin_anew: fn()) {
    if let Ok(mut all) = BEFORE_EACH.lock() {
        all.push(begin_anew);
    }
}

/// Tells the hook of an end that was left.
pub fn tell_left(db: &Db, name: &str, ended: &Ended, now: Micros) {
    let before: Vec<fn()> = BEFORE_EACH.lock().map(|all| all.clone()).unwrap_or_default();
    before.iter().for_each(|begin_anew| begin_anew());
    tell_one(db, name, std::slice::from_ref(ended), now);
}

/// Makes a hook known. Called when the library is loaded.
pub fn register(name: &'static str, hook: Hook) {
    add((name, hook, false));
}

/// Makes a hook known of jobs that are part of a mission: their run is its id.
pub fn register_for_missions(name: &'static str, hook: Hook) {
    add((name, hook, true));
}

fn add(hook: Registered) {
    if let Ok(mut hooks) = HOOKS.lock() {
        hooks.push(hook);
    }
}

/// The hook of a job, as its row names it.
fn find(on_end: &str) -> Option<Registered> {
    let name = on_end.split_once(':').map_or(on_end, |(name, _)| name);
    HOOKS.lock().ok().and_then(|hooks| hooks.iter().find(|(known, ..)| *known == name).copied())
}

/// Whether the run of a job with this hook is a mission.
pub fn run_is_mission(on_end: &str) -> bool {
    find(on_end).is_some_and(|(.., is_mission)| is_mission)
}

/// Tells the hooks of jobs that have finished. Each job comes with the hook to tell and what to tell it about.
pub fn tell(ended: Vec<(String, Ended)>, now: Micros) {
    if ended.is_empty() {
        return;
    }
    if DEPTH.get() > 0 {
        return PENDING.with_borrow_mut(|pending| pending.extend(ended));
    }
    let mut by_hook: std::collections::BTreeMap<String, Vec<Ended>> = std::collections::BTreeMap::new();
    for (on_end, ended) in ended {
        let (name, about) = on_end.split_once(':').unwrap_or((&on_end, ""));
        by_hook.entry(name.to_owned()).or_default().push(Ended { about: about.to_owned(), ..ended });
    }
    // A hook may end further jobs: they share its patience.
    let _turn = Turn::begin();
    for (name, ended) in by_hook {
        db::connect(|db| tell_or_leave(db, &name, &ended, now));
    }
}

/// Tells a hook, or leaves that for later if somebody is in its way. Any other error of the hook goes on.
fn tell_or_leave(db: &Db, name: &str, ended: &[Ended], now: Micros) {
    // The version before has no place to leave word: there the end of a job waits.
    if is_schema_previous() {
        return tell_one(db, name, ended, now);
    }
    match PATIENCE.with(|patience| patience.attempt(|| tell_one(db, name, ended, now))) {
        Ok(()) => {}
        Err(error) if error.is_in_the_way() => late_ends::leave(db, name, ended),
        Err(error) => raise(error.code, error.message, error.hint),
    }
}

/// Tells a hook of ends.
fn tell_one(db: &Db, name: &str, ended: &[Ended], now: Micros) {
    match find(name) {
        Some((_, hook, _)) => hook(db, ended, now),
        None => {
            warning!(
                "job {} names \"{name}\" as the hook to tell of its end, but there is no such hook",
                ended[0].job_id
            )
        }
    }
}

/// Who is to be told of the end of a job, and what it belongs to.
fn of(job_id: Uuid) -> Option<(String, Context)> {
    let (jobs, moment) = (Table::open(&job::TABLE), Moment::latest());
    let mut body = Scan::by_id(&jobs, &moment, c"job_pkey", job_id);
    let on_end = if body.next() { body.maybe_bytes(job::on_end) } else { None };
    on_end.map(|name| (String::from_utf8_lossy(name).into_owned(), telling::kept(&body)))
}

/// Runs `work` in `part`, a subtransaction. There it tells hooks of what `work` ends, apart from what the calls around it have
/// gathered.
fn apart<R, W: FnOnce() -> R>(part: impl FnOnce(W) -> Result<R, db::Caught>, work: W) -> Result<R, db::Caught> {
    /// What the calls around it have gathered. It is put back even when an error goes on.
    struct Around(u32, Vec<(String, Ended)>);
    impl Drop for Around {
        fn drop(&mut self) {
            DEPTH.set(self.0);
            PENDING.set(std::mem::take(&mut self.1));
        }
    }
    let _around = Around(DEPTH.replace(0), PENDING.take());
    part(work)
}

/// Runs `work`, which ends jobs on behalf of all, and leaves those that others have changed since the snapshot, as
/// `db::leaving_what_changed` does. Hooks are told of all that it has ended.
pub fn skipping(work: impl FnOnce() -> usize) -> usize {
    let _turn = Turn::begin();
    if has_fixed_snapshot() { db::nothing_if_changed(apart(db::attempt, || together(work))) } else { together(work) }
}

/// Runs `work` in a subtransaction that waits for nobody for long. What `work` ends is told there.
pub fn apart_within<R>(patience: &db::Patience, work: impl FnOnce() -> R) -> Result<R, db::Caught> {
    apart(|work| patience.attempt(work), || together(work))
}

/// Runs `end`, which ends a job on behalf of all. Nobody else is to suffer from its hook: if that fails, or would have to
/// wait for long, what `end` did is undone, and it answers None. A job without a hook is just ended.
pub fn end_apart<R>(job_id: Uuid, end: impl FnOnce() -> R) -> Option<R> {
    if of(job_id).is_none() {
        return Some(end());
    }
    let ended = PATIENCE.with(|patience| apart_within(patience, end));
    ended.inspect_err(|error| log!("agentq: job {job_id} is left for later: {}", error.message)).ok()
}

/// Tells whoever wants to know that this job has finished.
pub fn finished(job_id: Uuid, state: &str, error: Option<&str>, now: Micros) {
    if let Some((on_end, context)) = of(job_id) {
        let (state, error) = (state.to_owned(), error.map(str::to_owned));
        tell(vec![(on_end, Ended { job_id, about: String::new(), state, result: None, error, context })], now);
    }
}

/// Runs `work`, and tells of all the jobs that it has ended when it is done. An error undoes both.
pub fn together<R>(work: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
            if std::thread::panicking() {
                PENDING.take();
            }
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let leave = Leave;
    let result = work();
    drop(leave);
    if DEPTH.get() == 0 {
        tell(PENDING.take(), clock::now());
    }
    result
}
