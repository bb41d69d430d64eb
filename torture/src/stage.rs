//! The server that is tortured, the database in it, and the books.

use crate::Failure;
use crate::check::books::Books;
use crate::check::snapshot::Snapshot;
use crate::check::{self, Moved, Problem};
use crate::disk::{self, Disk};
use crate::ledger::{Micros, Shelf};
use crate::load::trip::MANIFEST;
use crate::outside::Outside;
use agentq_tests::net::{CLIENT_SETTINGS, Net, SERVER_SETTINGS};
use agentq_tests::{Cluster, Options as ClusterOptions, PATIENCE};
use postgres::Client;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SETTINGS: [&str; 12] = [
    // What was confirmed must be on disk: the tests' own clusters have this off.
    "fsync = on",
    "max_connections = 60",
    "shared_buffers = 128MB",
    "deadlock_timeout = 100ms",
    "checkpoint_timeout = 30s",
    "max_wal_size = 256MB",
    "autovacuum_naptime = 2s",
    "wal_log_hints = on",
    "max_worker_processes = 20",
    // One call for the whole file system, which is its own, instead of one for each of thousands of files.
    "recovery_init_sync_method = syncfs",
    "log_checkpoints = off",
    "log_error_verbosity = terse",
];

/// What the server promises, and so what is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Regime {
    #[default]
    Usual,
    /// With `synchronous_commit = off` a crash may take the last confirmed answers with it.
    Async,
    /// Without `shared_preload_libraries` nothing happens by itself: somebody calls `fn_engine_tick()`.
    Bare,
}

impl Regime {
    pub fn name(self) -> &'static str {
        match self {
            Regime::Usual => "as recommended",
            Regime::Async => "synchronous_commit = off",
            Regime::Bare => "not preloaded",
        }
    }
}

/// Before a crash without synchronous commits, answers of this long may have been lost, in microseconds. PostgreSQL says at most
/// three times `wal_writer_delay`, which is 0.6 seconds, on a machine that lets the WAL writer run in time.
const LOST_US: Micros = 1_500_000;
/// Processes of a server that is going down may still answer for this long, in microseconds.
pub const GOING_DOWN_US: Micros = 500_000;

/// Words of the server's log that mean trouble, and the lines with them that the faults explain.
const ALARMS: [&str; 7] =
    ["WARNING", "PANIC", "panicked", "invalid page", "corrupt", "TRAP", "was terminated by signal"];
const EXPECTED: [&str; 10] = [
    // The engine tries again what it had too little memory for.
    ": out of memory",
    // More databases than background workers: they take turns.
    "no background worker was free",
    // The torture's own kills; any other signal is a crash.
    "was terminated by signal 9",
    "terminating connection because of crash of another server process",
    "No space left on device",
    // The drop of an upgraded database, replayed after a crash.
    "could not open directory \"base/",
    "some useless files may be left behind in old database directory",
    "there is already a transaction in progress",
    "there is no transaction in progress",
    // A statement of the load that was cancelled while a disk was full, or a worker that was told to leave.
    "terminating connection due to",
];

/// What the load expects to find: rules and budgets for tenants, retries without a pause, and a table of its own.
const SCENE: &str = "
    CREATE SCHEMA torture;
    CREATE TABLE torture.own_row (job uuid NOT NULL, token uuid NOT NULL);
    CREATE EXTENSION amcheck";
const NO_BACKOFF: &str = "SELECT agentq.fn_config_set('queue.retry.backoff_base_sec', '0')";
const RULES: &str = "
    SELECT agentq.fn_limit_set('tenant:*', '{\"max_concurrent\": 2}');
    SELECT agentq.fn_budget_set('tenant:*', 'usd', 'total', '{\"amount\": 100000000}')";
/// A schedule, which strangers hold now and then.
const SCHEDULE: &str = "SELECT agentq.fn_schedule_set('torture', '@every 2s', '{\"job_kind\": \"scheduled\", \"ordering_key\": \"scheduled\"}')";

/// Makes a database ready for the load.
pub fn set_up(client: &mut Client) -> Result<(), postgres::Error> {
    client.batch_execute("CREATE EXTENSION IF NOT EXISTS agentq")?;
    client.batch_execute(SCENE)?;
    client.batch_execute(NO_BACKOFF)?;
    client.batch_execute(RULES)?;
    client.execute("SELECT agentq.fn_effect_manifest_set($1::text::jsonb)", &[&MANIFEST]).map(drop)
}

/// One database of the server, its ledgers and what is known of it.
pub struct Scene {
    pub database: String,
    /// The version to which its schema is to be brought; None: it stays as it is.
    pub upgrades_to: Option<String>,
    pub ledgers: PathBuf,
    pub shelf: Shelf,
    pub books: Books,
    pub moved: Moved,
    pub outside: Outside,
    /// Times of which answers say nothing.
    doubts: Moved,
}

pub struct Stage {
    pub cluster: Cluster,
    /// None: this machine allows none.
    pub disk: Option<Disk>,
    /// Between the load, at the first node, and the server. None: as for the disk.
    pub net: Option<Net>,
    pub regime: Regime,
    /// Processes of the server that were killed: the postmaster, sessions, the engine, all at once.
    pub kills: u64,
    /// When the server crashed in this round, and until when somebody may still have heard of the one that was.
    pub crashes: Vec<(Micros, Micros)>,
    folder: PathBuf,
}

impl Stage {
    /// A server that this process reaches as everybody does.
    pub fn new(regime: Regime) -> Result<Stage, Failure> {
        Stage::at(None, regime)
    }

    /// A server at one end of a network that can be cut. This thread is at the other end from now on, and so is the load.
    pub fn beyond_a_network(regime: Regime) -> Result<Stage, Failure> {
        let net = Net::new(2).inspect_err(|why| println!("No network of its own, so it cannot be cut: {why}")).ok();
        if let Some(net) = &net {
            net.node(0).enter();
        }
        Stage::at(net, regime)
    }

    fn at(net: Option<Net>, regime: Regime) -> Result<Stage, Failure> {
        let within = PathBuf::from(std::env::var("AGENTQ_TEST_DIR")?);
        let user = std::env::var("AGENTQ_RUN_AS").unwrap_or_default();
        disk::remove_leftovers(&within);
        let disk = Disk::mount(&within, &user)
            .inspect_err(|error| println!("No disk of its own, so it cannot be filled: {error}"))
            .ok();
        let mut settings: Vec<String> =
            SETTINGS.iter().chain(&SERVER_SETTINGS).map(|line| (*line).to_owned()).collect();
        if regime == Regime::Async {
            settings.push("synchronous_commit = off".to_owned());
        }
        let options = ClusterOptions {
            engine: true,
            without_preload: regime == Regime::Bare,
            settings,
            within: disk.as_ref().map(|disk| disk.folder.clone()),
            node: net.as_ref().map(|net| net.node(1).clone()),
            ..ClusterOptions::default()
        };
        let cluster = Cluster::start("torture", &options);
        // Ledgers are not on the disk that is filled. They stay, to be looked at, until the next run.
        remove_ledgers(&within);
        let folder = within.join(format!("ledgers-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Stage { cluster, disk, net, regime, kills: 0, crashes: Vec::new(), folder })
    }

    /// Makes a database with the extension, in this version or the newest, and an empty set of books.
    pub fn scene(&self, database: &str, versions: Option<(&str, &str)>) -> Result<Scene, Failure> {
        let ledgers = self.folder.join(database);
        std::fs::create_dir_all(&ledgers)?;
        self.connect("postgres")?.batch_execute(&format!("CREATE DATABASE {database}"))?;
        let mut client = self.connect(database)?;
        if let Some((version, _)) = versions {
            client.batch_execute(&format!("CREATE EXTENSION agentq VERSION '{version}'"))?;
        }
        set_up(&mut client)?;
        client.batch_execute(SCHEDULE)?;
        Outside::beside(&ledgers).open()?;
        let upgrades_to = versions.map(|(_, to)| to.to_owned());
        Ok(Scene { upgrades_to, ..Scene::empty(database, &ledgers) })
    }

    /// For the load.
    pub fn url(&self, database: &str) -> String {
        let (address, port) = (self.cluster.address(), self.cluster.port);
        format!("host={address} port={port} user=postgres dbname={database} {CLIENT_SETTINGS}")
    }

    /// For the torture itself: no cut is in its way.
    pub fn connect(&self, database: &str) -> Result<Client, Failure> {
        Ok(self.cluster.try_connect(database)?)
    }

    /// A connection as soon as the server has one to give: after a crash it may take a while to recover.
    pub fn connect_patiently(&self, database: &str) -> Result<Client, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.connect(database) {
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
                found => return found,
            }
        }
    }

    /// Lines of the server's log that no fault explains: what agentq warns of, panics, corruption.
    pub fn alarms(&self) -> Vec<String> {
        let is_alarm = |line: &&str| ALARMS.iter().any(|alarm| line.contains(alarm));
        let is_fault = |line: &&str| EXPECTED.iter().any(|expected| line.contains(expected));
        self.cluster.log().lines().filter(is_alarm).filter(|line| !is_fault(line)).map(str::to_owned).collect()
    }

    /// Where ledgers and figures are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Removes the ledgers of runs that are over.
fn remove_ledgers(within: &Path) {
    for entry in std::fs::read_dir(within).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix("ledgers-").is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}

impl Scene {
    /// Nothing is known of this one.
    pub fn empty(database: &str, ledgers: &Path) -> Scene {
        let (shelf, outside) = (Shelf::new(ledgers), Outside::beside(ledgers));
        let (books, moved, doubts) = Default::default();
        let (database, ledgers) = (database.to_owned(), ledgers.to_owned());
        Scene { database, upgrades_to: None, ledgers, shelf, books, moved, outside, doubts }
    }

    /// Reads what the load has written, and compares it with the database.
    pub fn check(&mut self, stage: &Stage) -> Result<Vec<Problem>, Failure> {
        self.books.read(&mut self.shelf)?;
        let mut client = stage.connect_patiently(&self.database)?;
        let snapshot = Snapshot::read(&mut client)?;
        let mut problems = check::everything(&self.books, &snapshot, &self.moved);
        problems.extend(check::slots(&mut client, check::PATIENCE)?);
        // What lies outside does not go back with a commit that is lost.
        if stage.regime != Regime::Async {
            problems.extend(check::effects(&mut client, &self.outside)?);
        }
        problems.extend(stage.alarms().into_iter().map(|line| Problem::new(check::Rule::NoSurprise, line)));
        Ok(problems)
    }

    /// The server has crashed: without synchronous commits, answers shortly before may not have lasted.
    pub fn crashed(&mut self, stage: &mut Stage) -> Result<(), Failure> {
        let crashes = std::mem::take(&mut stage.crashes);
        if stage.regime == Regime::Async && !crashes.is_empty() {
            crashes.into_iter().for_each(|(at, until)| self.doubts.add(at - LOST_US, until));
            // What was read before it was in doubt is read again.
            self.shelf = Shelf::new(&self.ledgers);
            self.books = Books::doubting(self.doubts.clone());
            self.books.read(&mut self.shelf)?;
        }
        Ok(())
    }

    /// How many acks the workers have been told of, with what was written until now.
    pub fn acks(&mut self) -> Result<u64, Failure> {
        self.books.read(&mut self.shelf)?;
        Ok(self.books.acks)
    }
}
