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
/// fsync are on.
const SETTINGS: &str = "
shared_preload_libraries = 'agentq'
shared_buffers = 1GB
max_wal_size = 8GB
max_connections = 100
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
        let commit = if options.sync { "on" } else { "off" };
        let conf = fs::OpenOptions::new().append(true).open(cluster.data.join("postgresql.conf"));
        write!(
            conf?,
            "{SETTINGS}unix_socket_directories = '{}'\nsynchronous_commit = {commit}\n",
            cluster.dir.display()
        )?;
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
        let url = format!("host={} user=postgres dbname={database}", self.dir.display());
        Ok(Client::connect(&url, NoTls)?)
    }

    /// Writes a file that the server's user can read.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.data.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Copies a prepared database, on a server that has just made a checkpoint.
    pub fn copy_database(&self, from: &str, to: &str) -> Result<(), Failure> {
        let mut client = self.client("postgres")?;
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {to} WITH (FORCE)"))?;
        client.batch_execute(&format!("CREATE DATABASE {to} TEMPLATE {from} STRATEGY file_copy"))?;
        client.batch_execute("CHECKPOINT")?;
        Ok(())
    }

    /// CPUs that the whole server takes while nothing else is asked of it.
    pub fn cpu_during(&self, time: std::time::Duration) -> Result<f64, Failure> {
        let before = self.cpu_of_all()?;
        std::thread::sleep(time);
        Ok((self.cpu_of_all()? - before) / time.as_secs_f64())
    }

    /// Seconds of CPU of the server's processes.
    fn cpu_of_all(&self) -> Result<f64, Failure> {
        let server = self.server.as_ref().ok_or("the server does not run")?.id().to_string();
        let mut ticks = 0;
        for entry in fs::read_dir("/proc")? {
            let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else { continue };
            // What follows the name in brackets: state, parent, …, and at 11 and 12 the times.
            let Some((head, rest)) = stat.rsplit_once(") ") else { continue };
            let fields: Vec<&str> = rest.split(' ').collect();
            if head.starts_with(&format!("{server} (")) || fields.get(1) == Some(&server.as_str()) {
                let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
                ticks += number(11).unwrap_or_default() + number(12).unwrap_or_default();
            }
        }
        // SAFETY: a plain question.
        Ok(ticks as f64 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64)
    }

    /// Seconds of CPU that the sessions which have ended took, once all of the last ones have.
    pub fn cpu_of_sessions(&self) -> Result<f64, Failure> {
        std::thread::sleep(Duration::from_millis(200));
        let server = self.server.as_ref().ok_or("the server does not run")?.id();
        let stat = fs::read_to_string(format!("/proc/{server}/stat"))?;
        // After the name come state (field 3) and so on to cutime (16) and cstime (17).
        let (_, fields) = stat.rsplit_once(") ").ok_or("an odd /proc/<pid>/stat")?;
        let fields = fields.split(' ').skip(13).take(2).map(str::parse::<f64>);
        // SAFETY: sysconf only reads.
        let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
        Ok(fields.sum::<Result<f64, _>>()? / ticks_per_second)
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
