//! The life of jobs against the plain model in the core: random calls of several sessions, in open transactions and
//! savepoints, some rolled back. Every answer must be the model's, and so must be what is left after each commit.
//!
//! Here are the transactions; `calls` has what a session may do, `checks` what must hold, and `threads` the same
//! with all sessions at once.

mod calls;
mod checks;
mod threads;

use agentq_core::life::sessions::Sessions;
use agentq_core::life::{Terms, Worker};
use agentq_core::limits::{Rule, Rules};
use agentq_core::retry::{Backoff, Policy};
use agentq_tests::dice::{Dice, seeds};
use agentq_tests::{Cluster, Database, Options, Session, Value, database};
use calls::Wish;

const SESSIONS: usize = 5;
const RULES: [(&str, u32); 6] =
    [("global", 7), ("tenant:*", 2), ("tenant:2", 1), ("kind:a", 3), ("provider:x", 2), ("worker:crew:*", 1)];
const CRASHES: i64 = 2;
/// Leases and waits last a multiple of this, in seconds, and the clock is moved by twice as much: what passes while
/// the test runs never decides.
const PERIOD: i64 = 500;
/// Lines of the story that are told when something is wrong.
const TOLD: usize = 80;

/// What happened, told when a test fails.
struct Story {
    seed: u64,
    lines: Vec<String>,
}

impl Story {
    fn tell(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// The answer to the call that was told last.
    fn tell_answer(&mut self, answer: Option<&Value>) {
        let text = answer.map_or("would wait for too long".to_owned(), Value::to_string);
        self.tell(format!("    {}", text.chars().take(300).collect::<String>()));
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = &self.lines[self.lines.len().saturating_sub(TOLD)..];
            eprintln!("seed {}, the last of {} lines:\n{}", self.seed, self.lines.len(), last.join("\n"));
        }
    }
}

/// Sets the rules and settings that the walks go by.
fn prepare(s: &mut Session) {
    s.call(&format!("fn_config_set('queue.retry.backoff_base_sec', '{PERIOD}')"));
    s.call(&format!("fn_config_set('queue.poison.max_crashes', '{CRASHES}')"));
    for (key, most) in RULES {
        s.call(&format!("fn_limit_set('{key}', '{{\"max_concurrent\": {most}}}')"));
    }
}

fn is_preloaded(s: &mut Session) -> bool {
    s.text("SHOW shared_preload_libraries") == "agentq"
}

fn terms() -> Terms {
    let rule = |most| Rule { max_concurrent: Some(most), ..Rule::default() };
    Terms {
        rules: Rules::new(RULES.map(|(key, most)| (key.to_owned(), rule(most)))),
        policy: Policy { backoff: Backoff::doubling(PERIOD), retryable: None, non_retryable: Vec::new() },
        max_crashes: CRASHES,
    }
}

/// The server and the model side by side.
struct World {
    sessions: Vec<Session>,
    /// Sees what has committed.
    observer: Session,
    /// Whether slots are counted in shared memory. Else claims under limits go one after the other.
    preloaded: bool,
    model: Sessions,
    /// Seconds by which all sessions' clocks are moved.
    clock: i64,
    dice: Dice,
    /// Jobs and tokens of every claim, also of those whose lease has ended or never was.
    claims: Vec<(String, String)>,
    story: Story,
}

impl World {
    fn new(db: &Database<'_>, seed: u64) -> World {
        let mut observer = db.session();
        prepare(&mut observer);
        let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| db.session()).collect();
        sessions.iter_mut().for_each(|session| session.run("SET lock_timeout = '20ms'"));
        let preloaded = is_preloaded(&mut observer);
        World {
            sessions,
            observer,
            preloaded,
            model: Sessions::new(SESSIONS, terms()),
            clock: 2 * PERIOD,
            dice: Dice::new(seed),
            claims: Vec::new(),
            story: Story { seed, lines: Vec::new() },
        }
    }

    fn worker(&self, who: usize, worker_type: Option<&str>) -> Worker {
        Worker { name: format!("w{who}"), worker_type: worker_type.map(str::to_owned) }
    }

    /// Makes a call. None: it would have had to wait for another session's transaction, and was not made.
    fn call(&mut self, who: usize, call: &str) -> Option<Value> {
        self.story.tell(format!("w{who}: {call}"));
        let may_wait = self.model.is_open(who) && self.model.others_are_open(who);
        let session = &mut self.sessions[who];
        session.run(&format!("SET agentq.clock_offset = {}", self.clock));
        if may_wait {
            session.run("SAVEPOINT call");
        }
        let answer = match session.0.query_one(&format!("SELECT agentq.{call}"), &[]) {
            Ok(row) => Some(row.get(0)),
            Err(error) if error.code().is_some_and(|code| code.code() == "55P03") => None,
            Err(error) => panic!("{call}\n{error:?}"),
        };
        let waited = answer.is_none();
        assert!(!waited || self.model.others_are_open(who), "{call} waits, and there is nobody to wait for");
        if may_wait {
            session.run(if waited { "ROLLBACK TO call; RELEASE call" } else { "RELEASE call" });
        }
        self.story.tell_answer(answer.as_ref());
        answer
    }

    fn transaction(&mut self, who: usize, statement: &str) {
        self.story.tell(format!("w{who}: {statement}"));
        self.sessions[who].run(statement);
    }

    fn begin(&mut self, who: usize) {
        self.transaction(who, "BEGIN");
        self.model.begin(who);
    }

    fn end(&mut self, who: usize, commit: bool) {
        self.transaction(who, if commit { "COMMIT" } else { "ROLLBACK" });
        self.model.end(who, commit);
    }

    fn savepoint(&mut self, who: usize) {
        let depth = self.model.savepoints(who);
        self.transaction(who, &format!("SAVEPOINT s{depth}"));
        self.model.savepoint(who);
    }

    fn leave_savepoint(&mut self, who: usize, keep: bool) {
        let depth = self.model.savepoints(who) - 1;
        let undo = if keep { String::new() } else { format!("ROLLBACK TO s{depth}; ") };
        self.transaction(who, &format!("{undo}RELEASE s{depth}"));
        self.model.leave_savepoint(who, keep);
    }

    /// Opens, nests and ends transactions, and works in between.
    fn step(&mut self) {
        let who = self.dice.below(SESSIONS);
        let (is_open, savepoints) = (self.model.is_open(who), self.model.savepoints(who));
        match self.dice.below(16) {
            0 if !is_open => self.begin(who),
            0 if savepoints < 2 => self.savepoint(who),
            1..4 if savepoints > 0 => {
                let keep = self.dice.below(2) == 0;
                self.leave_savepoint(who, keep);
            }
            1..4 if is_open => {
                let commit = self.dice.below(3) > 0;
                self.end(who, commit);
            }
            _ => self.work(who),
        }
        if !self.model.is_open(who) {
            self.check();
        }
    }

    /// Ends every transaction, does all that is left, and counts.
    fn finish(&mut self) {
        for who in 0..SESSIONS {
            if self.model.is_open(who) {
                let commit = self.dice.below(2) == 0;
                self.end(who, commit);
                self.check();
            }
        }
        self.clock += 100 * PERIOD;
        while self.model.committed().jobs.values().any(|job| !job.state.is_finished()) {
            let found = self.claim_some(0, &Wish { most: 4, kind: None, worker_type: None, seconds: PERIOD });
            // What it did not find it may have recovered and given up.
            let left = self.model.committed().jobs.values().any(|job| !job.state.is_finished());
            assert!(!found.is_empty() || !left, "jobs are left that nobody can claim");
            for (job, token) in found {
                self.ack(0, &job, &token);
            }
            self.check();
        }
        self.check_drained();
    }
}

fn walk(db: &Database<'_>, seed: u64, steps: usize) {
    let mut world = World::new(db, seed);
    (0..steps).for_each(|_| world.step());
    world.finish();
    db.assert_sound();
}

#[test]
fn the_life_of_jobs_follows_the_model_in_open_transactions() {
    seeds(3).into_iter().for_each(|seed| walk(&database(), seed, 600));
}

#[test]
fn the_life_of_jobs_follows_the_model_without_the_preload() {
    let cluster = Cluster::start("life-bare", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    seeds(1).into_iter().for_each(|seed| walk(&cluster.database(), seed, 600));
}
