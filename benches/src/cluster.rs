//! The private server that everything is measured on: made anew for a run, run as an unprivileged
//! user, and gone when the run is, however it ends.

#![allow(unsafe_code, reason = "tying the server's life to the benchmark's")]

use crate::Failure;
use crate::options::Options;
use postgres::{Client, NoTls};
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The database that each measurement runs in: a copy of a prepared one, dropped afterwards.
pub const RUN: &str = "run";

/// The same for every system, and otherwise PostgreSQL's defaults: full_page_writes, autovacuum and
/// fsync are on. Workloads that wait for their commits turn synchronous_commit on for themselves.
const SETTINGS: &str = "
shared_preload_libraries = 'agentq'
shared_buffers = 1GB
max_wal_size = 8GB
max_connections = 200
synchronous_commit = off
listen_addresses = ''
";

/// A running server.
pub struct Cluster {
    pg_bin: PathBuf,
    user: Option<(u32, u32)>,
    dir: PathBuf,
    data: PathBuf,
    server: Option<Child>,
}

impl Cluster {
    /// Makes a cluster and starts it.
    pub fn start(options: &Options) -> Result<Cluster, Failure> {
        let user = match options.run_as.as_str() {
            "" => None,
            name => Some((id("-u", name)?, id("-g", name)?)),
        };
        let dir = fs::canonicalize(&options.dir)
            .map_err(|error| format!("AGENTQ_BENCH_DIR {}: {error}", options.dir.display()))?;
        let data = dir.join("data");
        let mut cluster = Cluster { pg_bin: options.pg_bin.clone(), user, dir, data, server: None };
        cluster.remove_leftovers()?;
        let mut initdb = cluster.program("initdb");
        initdb.args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]);
        run(initdb.arg("-D").arg(&cluster.data))?;
        let conf = fs::OpenOptions::new().append(true).open(cluster.data.join("postgresql.conf"));
        writeln!(conf?, "{SETTINGS}unix_socket_directories = '{}'", cluster.dir.display())?;
        cluster.spawn()?;
        Ok(cluster)
    }

    /// What a run that was killed has left behind. Another run in the same folder is left alone.
    fn remove_leftovers(&self) -> Result<(), Failure> {
        if let Ok(pid) = fs::read_to_string(self.data.join("postmaster.pid")) {
            let pid = pid.lines().next().unwrap_or_default().to_owned();
            if Path::new("/proc").join(&pid).exists() {
                return Err(
                    format!("a server (process {pid}) runs in {}: another benchmark?", self.data.display()).into()
                );
            }
        }
        match fs::remove_dir_all(&self.data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// A program of the server under test, to be run as the server's user. The caller's
    /// RUST_BACKTRACE would add backtraces to the extension's errors.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.pg_bin.join(name));
        command.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE").current_dir("/");
        command.stdin(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Starts the server from a thread that never ends: the kernel stops the server when that
    /// thread dies, which is when the benchmark does.
    fn spawn(&mut self) -> Result<(), Failure> {
        let log = fs::File::create(self.log_path())?;
        let mut command = self.program("postgres");
        command.arg("-D").arg(&self.data).stdout(log.try_clone()?).stderr(log);
        // SAFETY: prctl is async-signal-safe and touches only the child.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGQUIT);
                Ok(())
            });
        }
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            if sender.send(command.spawn()).is_ok() {
                loop {
                    std::thread::park();
                }
            }
        });
        self.server = Some(receiver.recv()??);
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.client("postgres").is_err() {
            if Instant::now() > deadline {
                let log = fs::read_to_string(self.log_path()).unwrap_or_default();
                return Err(format!("the server does not come up:\n{log}").into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn log_path(&self) -> PathBuf {
        self.data.join("server.log")
    }

    /// Where the server listens.
    pub fn socket_dir(&self) -> &Path {
        &self.dir
    }

    pub fn client(&self, database: &str) -> Result<Client, Failure> {
        let mut config = postgres::Config::new();
        config.host_path(&self.dir).user("postgres").dbname(database);
        Ok(config.connect(NoTls)?)
    }

    /// Writes a file that the server's user can read.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.data.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    pub fn create_database(&self, name: &str) -> Result<(), Failure> {
        Ok(self.client("postgres")?.batch_execute(&format!("CREATE DATABASE \"{name}\""))?)
    }

    pub fn drop_database(&self, name: &str) -> Result<(), Failure> {
        Ok(self.client("postgres")?.batch_execute(&format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)"))?)
    }

    /// Copies a prepared database, on a server that has just made a checkpoint.
    pub fn copy_database(&self, from: &str, to: &str) -> Result<(), Failure> {
        self.drop_database(to)?;
        let mut client = self.client("postgres")?;
        client.batch_execute(&format!("CREATE DATABASE \"{to}\" TEMPLATE \"{from}\" STRATEGY file_copy"))?;
        client.batch_execute("CHECKPOINT")?;
        Ok(())
    }

    /// Leaves a prepared database to be copied only: nobody connects, and no engine runs in it.
    pub fn seal_database(&self, name: &str) -> Result<(), Failure> {
        self.client(name)?.batch_execute("VACUUM ANALYZE")?;
        let mut client = self.client("postgres")?;
        client.batch_execute(&format!("ALTER DATABASE \"{name}\" IS_TEMPLATE true ALLOW_CONNECTIONS false"))?;
        Ok(())
    }

    /// Bytes of WAL that the server has ever written.
    pub fn wal_position(&self) -> Result<i64, Failure> {
        let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8";
        Ok(self.client("postgres")?.query_one(sql, &[])?.get(0))
    }

    /// The number of the server's first process.
    pub fn pid(&self) -> Result<u32, Failure> {
        Ok(self.server.as_ref().ok_or("the server does not run")?.id())
    }

    /// Stops the server in an orderly way.
    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // SAFETY: signals a process that this one started and has not yet waited for.
            unsafe { libc::kill(server.id() as i32, libc::SIGINT) };
            server.wait().ok();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
        fs::remove_dir_all(&self.data).ok();
    }
}

/// Runs a program to its end and returns what it printed: its output and its messages.
pub fn run(command: &mut Command) -> Result<(String, String), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|error| format!("{program}: {error}"))?;
    let [output, messages] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    if !out.status.success() {
        return Err(format!("{program} failed:\n{output}{messages}").into());
    }
    Ok((output, messages))
}

/// The numeric id of a user or of its group.
fn id(flag: &str, name: &str) -> Result<u32, Failure> {
    let (output, _) = run(Command::new("id").args([flag, name]))?;
    Ok(output.trim().parse()?)
}
