//! Where schedules are played: a database, two sessions that meet, and one that prepares and looks.

use crate::operations::{Operation, Subject};
use crate::outcome::Said;
use agentq_tests::{Cluster, Database, PATIENCE, Session, eventually};
use postgres::Client;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    /// As the server calls it.
    pub fn sql(self) -> &'static str {
        match self {
            Level::ReadCommitted => "READ COMMITTED",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::Serializable => "SERIALIZABLE",
        }
    }

    /// Whether a transaction keeps its first snapshot.
    pub fn is_fixed(self) -> bool {
        self != Level::ReadCommitted
    }
}

/// How the two transactions lie to each other. Both have a snapshot before the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overlap {
    /// The second calls while the first is open, waits for it if it must, and the first commits.
    Commit,
    /// The second calls while the first is open, waits for it if it must, and the first rolls back.
    Rollback,
    /// The first has committed when the second calls, with a snapshot from before.
    Before,
    /// Each is a statement by itself, and both are sent at the same instant.
    Race,
}

/// What the two have come to.
#[derive(Debug)]
pub struct Outcome {
    pub first: Said,
    pub second: Said,
    /// What the server said to the COMMITs, if it refused.
    pub first_end: Option<Said>,
    pub second_end: Option<Said>,
    /// Whether the second had to wait for the first.
    pub waited: bool,
    pub left: String,
}

/// A session in a thread of its own, so that it may wait.
struct Other {
    pid: i32,
    calls: Sender<(String, Subject)>,
    answers: Receiver<(Said, Client)>,
    client: Option<Client>,
    clients: Sender<Client>,
}

impl Other {
    fn new(session: Session) -> Other {
        let mut client = session.0;
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).expect("a pid").get(0);
        let (calls, orders) = channel::<(String, Subject)>();
        let (clients, lent) = channel::<Client>();
        let (results, answers) = channel();
        std::thread::spawn(move || {
            while let (Ok((sql, about)), Ok(mut client)) = (orders.recv(), lent.recv()) {
                let said = Said::of(&mut client, &sql, &about);
                if results.send((said, client)).is_err() {
                    return;
                }
            }
        });
        Other { pid, calls, answers, client: Some(client), clients }
    }

    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("it is not under way")
    }

    fn begin(&mut self, sql: String, about: Subject) {
        self.calls.send((sql, about)).expect("its thread lives");
        self.clients.send(self.client.take().expect("it is not under way")).expect("its thread lives");
    }

    /// What the call has come to, if it has ended within this time.
    fn ended(&mut self, within: Duration) -> Option<Said> {
        let (said, client) = self.answers.recv_timeout(within).ok()?;
        self.client = Some(client);
        Some(said)
    }
}

/// The level, and the clock. Who looks for expired leases goes by what others have seen of them, and the leases of the
/// setup have come about too late to be known; a session with a clock of its own always looks.
fn settings(state: &str, level: Level) -> String {
    let offset = u8::from(state == "expired");
    let level = level.sql().to_lowercase();
    format!("SET agentq.clock_offset = {offset}; SET default_transaction_isolation = '{level}'")
}

pub struct Stage<'c> {
    look: Session,
    first: Session,
    second: Other,
    numbers: std::ops::RangeFrom<u32>,
    // Dropped last.
    _database: Database<'c>,
}

impl<'c> Stage<'c> {
    pub fn new(cluster: &'c Cluster) -> Stage<'c> {
        let database = cluster.database();
        let mut look = database.session();
        look.run(include_str!("start.sql"));
        let second = Other::new(database.session());
        Stage { first: database.session(), second, look, numbers: 1.., _database: database }
    }

    fn prepare(&mut self, state: &str) -> Subject {
        let number = self.numbers.next().expect("there are enough numbers").to_string();
        let sql = format!("SELECT iso.clear(); SELECT iso.start('{number}', '{state}')");
        let ids = self.look.texts(&sql).pop().expect("ids");
        let [job, token, letter, head] = ids.split(' ').collect::<Vec<_>>()[..] else { panic!("four ids: {ids}") };
        Subject { number, job: job.into(), token: token.into(), letter: letter.into(), head: head.into() }
    }

    fn left(&mut self, about: &Subject) -> String {
        // An end that somebody was in the way of leaves the next head of its ordering key to the engine.
        eventually("every ordering key has its head", || {
            self.look.call("fn_engine_tick('pass_on_order')");
            self.look.count("agentq_internal.job_order_due") == 0
        });
        self.look.text(&format!("SELECT iso.look('{}', '{}', '{}')", about.number, about.job, about.head))
    }

    /// What these calls come to, one after the other.
    pub fn in_turn(&mut self, state: &str, calls: &[(&Operation, &str)]) -> (Vec<String>, String) {
        let about = self.prepare(state);
        self.first.run(&settings(state, Level::ReadCommitted));
        let said = calls.iter().map(|(op, me)| Said::of(&mut self.first.0, &op.sql(&about, me), &about).short());
        (said.collect(), self.left(&about))
    }

    /// Plays one schedule.
    pub fn play(&mut self, state: &str, level: Level, overlap: Overlap, a: &Operation, b: &Operation) -> Outcome {
        let about = self.prepare(state);
        let (call_a, call_b) = (a.sql(&about, "a"), b.sql(&about, "b"));
        let copy = Subject {
            number: about.number.clone(),
            job: about.job.clone(),
            token: about.token.clone(),
            letter: about.letter.clone(),
            head: about.head.clone(),
        };
        let (mut waited, mut second) = (false, None);
        let (mut first_end, mut second_end) = (None, None);
        let first;
        if overlap == Overlap::Race {
            self.first.run(&settings(state, level));
            self.second.client().batch_execute(&settings(state, level)).expect("a setting");
            self.second.begin(call_b, copy);
            first = Said::of(&mut self.first.0, &call_a, &about);
        } else {
            let begin = format!("{}; BEGIN; SELECT count(*) FROM agentq.queue", settings(state, level));
            self.first.run(&begin);
            self.second.client().batch_execute(&begin).expect("a transaction");
            first = Said::of(&mut self.first.0, &call_a, &about);
            let end = if overlap == Overlap::Rollback { "ROLLBACK" } else { "COMMIT" };
            if overlap == Overlap::Before {
                first_end = Said::of_end(&mut self.first.0, end);
                self.second.begin(call_b, copy);
            } else {
                self.second.begin(call_b, copy);
                second = self.until_it_waits();
                waited = second.is_none();
                first_end = Said::of_end(&mut self.first.0, end);
            }
        }
        let second = second.or_else(|| self.second.ended(PATIENCE));
        let second = second.unwrap_or_else(|| panic!("{} against {} in {state} does not end", b.name, a.name));
        if overlap != Overlap::Race {
            second_end = Said::of_end(self.second.client(), "COMMIT");
        }
        Outcome { first, second, first_end, second_end, waited, left: self.left(&about) }
    }

    /// Waits until the second session's call has ended, or waits for a lock. None: it waits.
    fn until_it_waits(&mut self) -> Option<Said> {
        let deadline = Instant::now() + PATIENCE;
        let waits = format!("SELECT cardinality(pg_blocking_pids({})) > 0", self.second.pid);
        let mut pause = Duration::from_millis(2);
        loop {
            if let Some(said) = self.second.ended(pause) {
                return Some(said);
            }
            if self.look.text(&waits) == "t" {
                return None;
            }
            assert!(Instant::now() < deadline, "the second session neither answers nor waits for a lock");
            pause = Duration::from_millis(1);
        }
    }
}
