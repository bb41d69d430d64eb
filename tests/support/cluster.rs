//! Private servers for the tests, run as an unprivileged user and gone when the tests are.
//!
//! The environment says where: `AGENTQ_PG_BIN` has the server's programs, `AGENTQ_TEST_DIR` is a
//! folder that `AGENTQ_RUN_AS` (empty: the caller) may write to. `make test` sets all three.

#![allow(unsafe_code, reason = "tying a server's life to the tests'")]

use crate::net::{Node, SUBNET};
use crate::patience::PATIENCE;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the tests with `make test`"))
}

/// A program of the server under test.
pub fn pg_bin(program: &str) -> PathBuf {
    Path::new(&env("AGENTQ_PG_BIN")).join(program)
}

/// The major version of the server under test.
pub fn major() -> u32 {
    let version = run_here(Command::new(pg_bin("pg_config")).arg("--version"));
    version.split([' ', '.']).nth(1).and_then(|major| major.trim().parse().ok()).expect("a version")
}

/// The programs of a server of an older major version, from which people upgrade; where there is none, those of the server
/// under test.
pub fn old_pg_bin() -> PathBuf {
    std::env::var("AGENTQ_OLD_PG_BIN").map_or_else(|_| pg_bin(""), PathBuf::from)
}

pub fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_owned()
}

/// A command that runs as the unprivileged user, without the tests' own environment quirks.
pub fn as_server_user(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE").current_dir("/");
    let user = std::env::var("AGENTQ_RUN_AS").unwrap_or_default();
    if !user.is_empty() {
        let id = |flag: &str| -> u32 {
            let out = Command::new("id").args([flag, &user]).output().expect("id");
            String::from_utf8_lossy(&out.stdout).trim().parse().expect("a numeric id")
        };
        command.uid(id("-u")).gid(id("-g"));
    }
    command
}

fn run(node: Option<&Node>, command: &mut Command) -> String {
    let mut run = || run_here(command);
    match node {
        Some(node) => node.within(run),
        None => run(),
    }
}

fn run_here(command: &mut Command) -> String {
    let out = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?} failed:\n{text}");
    text
}

/// How a cluster differs from the usual one.
#[derive(Clone, Default)]
pub struct Options {
    pub without_preload: bool,
    /// Whether the engine runs. Most tests move their session's clock, which it knows nothing of.
    pub engine: bool,
    /// Lines for postgresql.conf.
    pub settings: Vec<String>,
    /// Whether it is started by somebody who wants backtraces.
    pub backtraces: bool,
    /// Where its data lies; left out, beside that of the other test clusters.
    pub within: Option<PathBuf>,
    /// At which node of a network it is; left out, on this machine's loopback.
    pub node: Option<Node>,
    /// Its programs; left out, those of the server under test.
    pub programs: Option<PathBuf>,
    /// Whether its pages have checksums, whatever its major version does by itself.
    pub checksums: bool,
}

/// How a server is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Sessions are ended, and a checkpoint is made.
    Fast,
    /// Every process leaves at once; the next start recovers.
    Immediate,
    /// kill -9 of the postmaster alone: the others notice, each in its time.
    KillPostmaster,
    /// kill -9 of the postmaster and of every process of its.
    KillAll,
}

/// A running server. Stopped when dropped, and when the test process ends, however it ends.
pub struct Cluster {
    pub port: u16,
    pub data: PathBuf,
    backtraces: bool,
    node: Option<Node>,
    programs: PathBuf,
    server: Option<Child>,
}

impl Cluster {
    /// Makes a new cluster and starts it.
    pub fn start(name: &str, options: &Options) -> Cluster {
        let data = match &options.within {
            Some(folder) => folder.join(name),
            None => Self::new_folder(name),
        };
        let programs = options.programs.clone().unwrap_or_else(|| pg_bin(""));
        run_here(
            as_server_user(programs.join("initdb"))
                .args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"])
                .args(options.checksums.then_some("--data-checksums"))
                .arg("-D")
                .arg(&data),
        );
        let (backtraces, node) = (options.backtraces, options.node.clone());
        let mut cluster = Cluster { port: free_port(), data, backtraces, node, programs, server: None };
        if cluster.node.is_some() {
            cluster
                .append("pg_hba.conf", &format!("host all all {SUBNET} trust\nhost replication all {SUBNET} trust\n"));
        }
        let mut settings = vec![
            "fsync = off".to_owned(),
            "max_connections = 250".to_owned(),
            "shared_buffers = 128MB".to_owned(),
            "wal_level = replica".to_owned(),
            "max_prepared_transactions = 10".to_owned(),
            "autovacuum_naptime = 5s".to_owned(),
            "log_min_error_statement = warning".to_owned(),
        ];
        if !options.without_preload {
            settings.push("shared_preload_libraries = 'agentq'".to_owned());
            settings.push(format!("agentq.engine = {}", if options.engine { "on" } else { "off" }));
        }
        settings.extend(options.settings.iter().cloned());
        cluster.configure(&settings);
        cluster.spawn();
        cluster
    }

    /// The data of this server, which has stopped, in a server of the major version under test, by pg_upgrade.
    pub fn upgraded(&self, name: &str, options: &Options) -> Cluster {
        let mut new = Cluster::start(name, options);
        new.stop();
        // It writes its logs where it runs, and its servers listen there.
        let mut upgrade = as_server_user(pg_bin("pg_upgrade"));
        upgrade.current_dir(&new.data).args(["-U", "postgres", "--no-sync", "-b"]).arg(&self.programs).arg("-B");
        upgrade.arg(&new.programs).arg("-d").arg(&self.data).arg("-D").arg(&new.data);
        upgrade.args(["-p", &free_port().to_string(), "-P", &free_port().to_string()]);
        let out = upgrade.stdin(Stdio::null()).output().expect("pg_upgrade starts");
        assert!(out.status.success(), "{}\n{}", String::from_utf8_lossy(&out.stdout), logs_of_an_upgrade(&new.data));
        new.start_again();
        new
    }

    /// Copies a running cluster as a streaming standby and starts it.
    pub fn standby_of(primary: &Cluster, name: &str) -> Cluster {
        Self::standby_at(primary, name, None)
    }

    /// A standby at a node of the network of its primary.
    pub fn standby_at(primary: &Cluster, name: &str, node: Option<Node>) -> Cluster {
        let data = Self::new_folder(name);
        let copy = &mut as_server_user(pg_bin("pg_basebackup"));
        copy.args(["-R", "-X", "stream", "-c", "fast", "-d"]).arg(primary.far_url("postgres")).arg("-D").arg(&data);
        run(node.as_ref(), copy);
        let mut standby =
            Cluster { port: free_port(), data, backtraces: false, node, programs: pg_bin(""), server: None };
        standby.configure(&[]);
        standby.spawn();
        standby
    }

    fn new_folder(name: &str) -> PathBuf {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let folder = Path::new(&env("AGENTQ_TEST_DIR")).to_owned();
        if number == 0 {
            remove_leftovers(&folder);
        }
        folder.join(format!("{name}-{}-{number}", std::process::id()))
    }

    fn configure(&self, settings: &[String]) {
        let addresses = self.node.as_ref().map_or("127.0.0.1".to_owned(), |node| format!("127.0.0.1,{}", node.address));
        let own = format!(
            "port = {}\nlisten_addresses = '{addresses}'\nunix_socket_directories = ''\n{}\n",
            self.port,
            settings.join("\n")
        );
        self.append("postgresql.conf", &own);
    }

    fn append(&self, file: &str, text: &str) {
        use std::io::Write;
        let file = std::fs::OpenOptions::new().append(true).open(self.data.join(file));
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("the file is writable");
    }

    /// Starts the server and waits until it answers.
    fn spawn(&mut self) {
        self.launch();
        self.wait_until_up();
    }

    /// Starts the server from a thread that never ends: the kernel tells the server to stop when
    /// that thread dies, which is when the tests are over.
    fn launch(&mut self) {
        let path = self.data.join("server.log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a log file");
        let mut command = as_server_user(self.programs.join("postgres"));
        command.arg("-D").arg(&self.data).stdin(Stdio::null());
        if self.backtraces {
            command.env("RUST_BACKTRACE", "1").env("RUST_LIB_BACKTRACE", "1");
        }
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        // SAFETY: prctl is async-signal-safe and touches only the child.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGQUIT);
                Ok(())
            });
        }
        let (sender, receiver) = mpsc::channel();
        let node = self.node.clone();
        std::thread::spawn(move || {
            // Before the server's process is there: that has given up the right to.
            if let Some(node) = node {
                node.enter();
            }
            let server = command.spawn().expect("the server starts");
            // Its handles of the log would keep the file system busy on which it lies.
            drop(command);
            sender.send(server).expect("someone listens");
            loop {
                std::thread::park();
            }
        });
        self.server = Some(receiver.recv().expect("the keeper answers"));
    }

    fn wait_until_up(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.try_connect("postgres").is_err() {
            assert!(Instant::now() < deadline, "the server does not come up:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A connection that no cut of the network touches.
    pub fn try_connect(&self, database: &str) -> Result<postgres::Client, postgres::Error> {
        let connect = || postgres::Client::connect(&self.url(database), postgres::NoTls);
        match &self.node {
            Some(node) => node.within(connect),
            None => connect(),
        }
    }

    pub fn url(&self, database: &str) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname={database}", self.port)
    }

    /// Where other machines reach it.
    pub fn address(&self) -> &str {
        self.node.as_ref().map_or("127.0.0.1", |node| &node.address)
    }

    /// For another server. What it does not hear of for some seconds it gives up.
    fn far_url(&self, database: &str) -> String {
        let near = self.url(database).replace("127.0.0.1", self.address());
        format!("{near} connect_timeout=2 tcp_user_timeout=4000")
    }

    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.data.join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// kill -9 of the whole server, then a new start on the same data.
    pub fn crash_and_restart(&mut self) {
        self.end(Stop::KillPostmaster);
        self.start_again();
    }

    /// The process id of the postmaster, if it runs.
    pub fn pid(&self) -> Option<i32> {
        self.server.as_ref().map(|server| server.id() as i32)
    }

    /// Whether the postmaster is there.
    pub fn is_running(&mut self) -> bool {
        self.server.as_mut().is_some_and(|server| matches!(server.try_wait(), Ok(None)))
    }

    /// Ends the server, and returns when its postmaster is gone. The data stays.
    pub fn end(&mut self, how: Stop) {
        let Some(mut server) = self.server.take() else { return };
        let postmaster = server.id() as i32;
        let mut doomed = vec![postmaster];
        if how == Stop::KillAll {
            doomed.extend(children(postmaster));
        }
        let signal = match how {
            Stop::Fast => libc::SIGINT,
            Stop::Immediate => libc::SIGQUIT,
            Stop::KillPostmaster | Stop::KillAll => libc::SIGKILL,
        };
        for pid in doomed {
            // SAFETY: signals processes of a server that this process started and has not yet waited for.
            unsafe { libc::kill(pid, signal) };
        }
        server.wait().ok();
    }

    /// Starts the server again on the data it left. While processes of the last one are still there the
    /// server refuses to start, as it should; then it is tried again.
    pub fn start_again(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.launch();
            if self.is_up_before(deadline) {
                return;
            }
            assert!(Instant::now() < deadline, "the server does not recover:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts the server on the data it left, and kills it after that time, in the middle of its recovery.
    pub fn start_and_end(&mut self, after: Duration) {
        self.launch();
        std::thread::sleep(after);
        self.end(Stop::KillAll);
    }

    /// Waits until the server answers; false if it has ended instead.
    fn is_up_before(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if self.try_connect("postgres").is_ok() {
                return true;
            }
            if !self.is_running() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Turns a standby into a primary.
    pub fn promote(&self) {
        let mut admin = self.try_connect("postgres").expect("the standby answers");
        admin.batch_execute("SELECT pg_promote()").expect("it is promoted");
    }

    /// Makes a server that has ended, however it ended, a standby of the one that took its place, and starts it.
    /// What it alone had written is taken back; pg_rewind recovers it from its crash first.
    pub fn rejoin(&mut self, primary: &Cluster) {
        // Before its first checkpoint the new primary looks as if it had never been promoted, and pg_rewind would find
        // nothing to do.
        let mut admin = primary.try_connect("postgres").expect("the new primary answers");
        admin.batch_execute("CHECKPOINT").expect("a checkpoint");
        // It would put the other's log in the place of this one's.
        let (log, path) = (self.log(), self.data.join("server.log"));
        std::fs::remove_file(&path).ok();
        let rewind = &mut as_server_user(pg_bin("pg_rewind"));
        rewind.arg(format!("--target-pgdata={}", self.data.display()));
        rewind.arg(format!("--source-server={}", primary.far_url("postgres")));
        run(self.node.as_ref(), rewind.args(["--write-recovery-conf", "--no-sync"]));
        std::fs::remove_file(&path).ok();
        std::fs::write(&path, log).expect("a log file");
        // The settings have come over too, with the other's port.
        self.configure(&[]);
        self.start_again();
    }

    /// Stops the server in an orderly way.
    pub fn stop(&mut self) {
        self.end(Stop::Fast);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
        std::fs::remove_dir_all(&self.data).ok();
    }
}

/// What the programs that pg_upgrade ran have to say, its end.
fn logs_of_an_upgrade(data: &Path) -> String {
    let find = Command::new("find").arg(data.join("pg_upgrade_output.d")).args(["-name", "*.log"]).output();
    let files = String::from_utf8_lossy(&find.expect("find").stdout).into_owned();
    let end = |file: &str| {
        let text = std::fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let last: Vec<&str> = text.lines().rev().take(12).collect();
        format!("{file}:\n{}\n", last.into_iter().rev().collect::<Vec<&str>>().join("\n"))
    };
    files.lines().map(end).collect()
}

/// Removes the clusters of test runs that are over. Their names carry the run's process id.
fn remove_leftovers(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let run = name.rsplit('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
        if run.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// The processes that this one has started and that still run.
pub fn children(parent: i32) -> Vec<i32> {
    let is_child = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name of the program, in parentheses, may have blanks of its own.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        rest.split_whitespace().nth(1).and_then(|ppid| ppid.parse().ok()) == Some(parent)
    };
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| is_child(*pid))
        .collect()
}

/// A port that nobody listens at, and that no connection is given by chance: those get theirs from a range of their own,
/// and one of them might have it before the server does, or while the server is down.
pub fn free_port() -> u16 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 10_000;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let above = range.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(32_768);
    let count = above.max(FIRST + 1_000) - FIRST;
    // Test processes that run at once begin at different places.
    let mut ports = (0..count).map(|_| {
        let number = std::process::id().wrapping_mul(97).wrapping_add(NUMBER.fetch_add(1, Ordering::SeqCst));
        (FIRST + number % count) as u16
    });
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}
