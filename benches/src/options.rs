//! What to run and for how long: the environment and the command line.

use std::path::PathBuf;

pub const USAGE: &str = "\
usage: make bench, or cargo run --release -p agentq-bench -- [options] with
  AGENTQ_PG_BIN     folder of the PostgreSQL programs to measure, with agentq installed
  AGENTQ_BENCH_DIR  folder that AGENTQ_RUN_AS may write to
  AGENTQ_RUN_AS     user to run the server as; empty: the caller
  QUICK=1           a short run: fewer and shorter rounds, good for a first look only

  --rounds N        rounds of every workload
  --seconds N       seconds of every measurement
  --sync            commit with synchronous_commit on
  --only TEXT       only the workloads whose name contains TEXT (repeatable); implies --no-check
  --no-check        do not fail when a figure to reach is missed
  --help            this text";

/// The settings of a run.
pub struct Options {
    pub pg_bin: PathBuf,
    pub run_as: String,
    pub dir: PathBuf,
    pub quick: bool,
    pub rounds: usize,
    pub pinned_rounds: usize,
    pub seconds: u32,
    pub pinned_seconds: u32,
    /// Seconds of a window under the pinned snapshot.
    pub window: u32,
    /// Jobs whose WAL is measured.
    pub wal_jobs: u32,
    pub sync: bool,
    pub only: Vec<String>,
    pub check: bool,
}

impl Options {
    /// Reads the environment and the arguments. `Err` says what is wrong.
    pub fn read(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let quick = !std::env::var("QUICK").unwrap_or_default().is_empty();
        let mut options = Options {
            pg_bin: env("AGENTQ_PG_BIN")?.into(),
            run_as: std::env::var("AGENTQ_RUN_AS").unwrap_or_default(),
            dir: env("AGENTQ_BENCH_DIR")?.into(),
            quick,
            rounds: if quick { 2 } else { 3 },
            pinned_rounds: if quick { 1 } else { 3 },
            seconds: if quick { 3 } else { 10 },
            pinned_seconds: if quick { 20 } else { 60 },
            window: if quick { 5 } else { 10 },
            wal_jobs: if quick { 2_000 } else { 10_000 },
            sync: false,
            only: Vec::new(),
            check: true,
        };
        options.read_arguments(arguments)?;
        Ok(options)
    }

    fn read_arguments(&mut self, mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--rounds" => {
                    self.rounds = number(&value()?)?;
                    self.pinned_rounds = self.rounds;
                }
                "--seconds" => self.seconds = number(&value()?)?,
                "--sync" => self.sync = true,
                "--only" => {
                    self.only.push(value()?);
                    self.check = false;
                }
                "--no-check" => self.check = false,
                _ => return Err(format!("\"{argument}\" is not an option\n{USAGE}")),
            }
        }
        Ok(())
    }

    /// Whether a workload is wanted.
    pub fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| workload.contains(text.as_str()))
    }
}

fn env(name: &str) -> Result<String, String> {
    std::env::var(name)
        .ok()
        .filter(|value| !value.is_empty())
        .ok_or_else(|| format!("{name} is not set; `make bench` sets it\n{USAGE}"))
}

/// A whole number above zero.
fn number<N: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| *number >= N::from(1));
    number.ok_or_else(|| format!("\"{text}\" is not a whole number above zero"))
}
