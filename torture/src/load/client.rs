//! A connection that comes back, and what a failed call means for what was asked.

use crate::ledger::{Entry, Ledger};
use postgres::types::ToSql;
use postgres::{NoTls, Row};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Why a call gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It may have happened, or not: the connection was lost, or the server was going down.
    Unknown,
    /// It did not happen: the server refused it.
    Refused,
    /// The process is to end.
    Over,
}

/// SQLSTATEs that the faults explain.
const EXPLAINED: [&str; 12] = [
    "57014", // cancelled, or timed out
    "53100", // disk full
    "53200", // out of memory
    "53300", // too many connections
    "53400", // a limit of the configuration
    "58030", // an error of the disk
    "40P01", // a deadlock that a meddler has made
    "40001", // a job or key that keeps changing hands
    "55P03", // a lock that was not to be waited for
    "25006", // a standby, or a primary that is being demoted
    "26000", // a statement that was prepared before the schema changed
    "0A000", // "cached plan must not change result type", for the same reason
];

pub struct Client {
    url: String,
    pub name: String,
    pub ledger: Ledger,
    folder: PathBuf,
    session: Option<postgres::Client>,
    /// Between BEGIN and COMMIT a lost connection is not made again: what follows would not be in that transaction.
    in_transaction: bool,
    stop: Arc<AtomicBool>,
    /// Statements at the start of each session.
    pub greeting: String,
    /// SQLSTATEs that the client's own manners explain.
    pub own_fault: &'static [&'static str],
}

impl Client {
    pub fn new(url: &str, name: &str, ledger: &Path, stop: Arc<AtomicBool>) -> std::io::Result<Client> {
        let url = format!("{url} application_name='torture {name}' connect_timeout=5");
        let greeting = "SET TimeZone = 'UTC'".to_owned();
        let folder = ledger.parent().unwrap_or(Path::new(".")).to_owned();
        let ledger = Ledger::open(ledger)?;
        Ok(Client {
            url,
            name: name.to_owned(),
            ledger,
            folder,
            session: None,
            in_transaction: false,
            stop,
            greeting,
            own_fault: &[],
        })
    }

    /// Set once standard input is closed: whoever started the process wants it to end, or has died.
    pub fn stop_with_stdin() -> Arc<AtomicBool> {
        let stop = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut nothing = [0; 64];
            while std::io::stdin().read(&mut nothing).is_ok_and(|bytes| bytes > 0) {}
            raised.store(true, SeqCst);
        });
        stop
    }

    /// Where the ledgers are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(SeqCst)
    }

    pub fn rest(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.is_over() {
            let step = left.min(Duration::from_millis(50));
            std::thread::sleep(step);
            left -= step;
        }
    }

    pub fn write(&mut self, entries: &[Entry]) {
        self.ledger.write(entries).expect("the ledger can be written");
    }

    /// The session, made anew if it was lost.
    fn session(&mut self) -> Result<&mut postgres::Client, Trouble> {
        while self.session.as_ref().is_none_or(postgres::Client::is_closed) {
            if self.in_transaction {
                return Err(Trouble::Unknown);
            }
            if self.is_over() {
                return Err(Trouble::Over);
            }
            self.session = postgres::Client::connect(&self.url, NoTls).ok();
            let greeted = self.session.as_mut().is_some_and(|session| session.batch_execute(&self.greeting).is_ok());
            if !greeted {
                self.session = None;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        self.session.as_mut().ok_or(Trouble::Unknown)
    }

    /// Makes one call that answers with one row.
    pub fn ask(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Trouble> {
        self.session()?.query_one(sql, params).map_err(|error| self.failed(&error, sql))
    }

    /// Runs statements that answer nothing of interest.
    pub fn run(&mut self, sql: &str) -> Result<(), Trouble> {
        self.session()?.batch_execute(sql).map_err(|error| self.failed(&error, sql))
    }

    /// Begins a transaction with this statement.
    pub fn begin(&mut self, first: &str) -> Result<(), Trouble> {
        self.run("BEGIN")?;
        self.in_transaction = true;
        self.run(first)
    }

    pub fn commit(&mut self) -> Result<(), Trouble> {
        let committed = self.run("COMMIT");
        self.in_transaction = false;
        if committed == Err(Trouble::Refused) {
            // Cancelled before it began: the transaction is still there.
            self.roll_back();
        }
        committed
    }

    /// Gives up the transaction, if there is one.
    pub fn roll_back(&mut self) {
        self.in_transaction = false;
        if let Some(session) = self.session.as_mut()
            && session.batch_execute("ROLLBACK").is_err()
        {
            self.session = None;
        }
    }

    fn failed(&mut self, error: &postgres::Error, during: &str) -> Trouble {
        let Some(error) = error.as_db_error() else {
            let is_loss =
                error.is_closed() || std::error::Error::source(error).is_some_and(|e| e.is::<std::io::Error>());
            self.session = None;
            self.note(is_loss, "lost", &error.to_string(), during);
            return Trouble::Unknown;
        };
        let code = error.code().code().to_owned();
        // The server is being shut down or has crashed: a commit may have been under way.
        if code.starts_with("57P") {
            self.session = None;
            self.note(true, &code, "", during);
            return Trouble::Unknown;
        }
        let explained = EXPLAINED.iter().chain(self.own_fault).any(|known| *known == code);
        self.note(explained, &code, error.message(), during);
        Trouble::Refused
    }

    fn note(&mut self, explained: bool, code: &str, message: &str, during: &str) {
        let code = code.to_owned();
        self.write(&[match explained {
            true => Entry::Disturbed { code },
            false => Entry::Surprised { code, message: message.to_owned(), during: during.chars().take(200).collect() },
        }]);
    }
}
