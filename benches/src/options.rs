//! What to run and for how long: the environment and the command line.

use std::path::PathBuf;

pub const USAGE: &str = "\
usage: make bench, or cargo run --release -p agentq-bench -- [options] with
  AGENTQ_PG_BIN     folder of the PostgreSQL programs to measure, with agentq installed
  AGENTQ_BENCH_DIR  folder that AGENTQ_RUN_AS may write to
  AGENTQ_RUN_AS     user to run the server as; empty: the caller
  AGENTQ_PEERS_DIR  folder for the packages of the peers
  PEERS=1           measure the peers too, installed from their package registries
  QUICK=1           a short run: fewer and shorter rounds, good for a first look only

  --rounds N        rounds of every workload
  --seconds N       seconds of every measurement
  --only TEXT       only what has TEXT in its name (repeatable); implies --no-check
  --without NAME    leave out a peer (repeatable)
  --publish         with --only: put what is measured into results/latest.csv and the plots, beside the rest
  --no-check        do not fail when a figure to reach is missed or a peer cannot be installed
  --ci              a run of about 90 seconds that fails when a ratio has fallen below baseline.csv
  --bless           with --ci: make the ratios of this run the baseline
  --save FILE       with --ci: write the ratios of this run to that file, too
  --list            list what there is to measure, and end
  --help            this text";

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Everything, for publishing.
    Full,
    /// A little of everything, for a first look.
    Quick,
    /// What can be compared with a baseline in a minute or two.
    Ci,
}

/// The settings of a run.
pub struct Options {
    pub pg_bin: PathBuf,
    pub run_as: String,
    pub dir: PathBuf,
    /// Where peers keep their packages; None: no peers.
    pub peers: Option<PathBuf>,
    pub form: Form,
    pub rounds: usize,
    pub seconds: u32,
    pub pinned_seconds: u32,
    /// Seconds of a window under the pinned snapshot.
    pub window: u32,
    pub only: Vec<String>,
    pub without: Vec<String>,
    pub publish: bool,
    pub check: bool,
    pub bless: bool,
    pub save: Option<PathBuf>,
    pub list: bool,
}

impl Options {
    /// Reads the environment and the arguments. `Err` says what is wrong.
    pub fn read(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let arguments: Vec<String> = arguments.collect();
        let form = if arguments.iter().any(|argument| argument == "--ci") {
            Form::Ci
        } else if is_set("QUICK") {
            Form::Quick
        } else {
            Form::Full
        };
        let with_peers = is_set("PEERS") && form != Form::Ci;
        let mut options = Options {
            pg_bin: env("AGENTQ_PG_BIN")?.into(),
            run_as: std::env::var("AGENTQ_RUN_AS").unwrap_or_default(),
            dir: env("AGENTQ_BENCH_DIR")?.into(),
            peers: if with_peers { Some(env("AGENTQ_PEERS_DIR")?.into()) } else { None },
            form,
            rounds: if form == Form::Quick { 2 } else { 3 },
            seconds: if form == Form::Full { 5 } else { 1 },
            pinned_seconds: if form == Form::Full { 120 } else { 9 },
            window: if form == Form::Full { 10 } else { 3 },
            only: Vec::new(),
            without: Vec::new(),
            publish: false,
            check: true,
            bless: false,
            save: None,
            list: false,
        };
        options.read_arguments(arguments.into_iter())?;
        Ok(options)
    }

    fn read_arguments(&mut self, mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--rounds" => self.rounds = number(&value()?)?,
                "--seconds" => self.seconds = number(&value()?)?,
                "--only" => {
                    self.only.push(value()?);
                    self.check = false;
                }
                "--without" => self.without.push(value()?),
                "--publish" => self.publish = true,
                "--no-check" => self.check = false,
                "--ci" => {}
                "--bless" => self.bless = true,
                "--save" => self.save = Some(value()?.into()),
                "--list" => self.list = true,
                _ => return Err(format!("\"{argument}\" is not an option\n{USAGE}")),
            }
        }
        if self.save.is_some() && self.form != Form::Ci {
            return Err("--save goes with --ci".to_owned());
        }
        if self.bless && (self.form != Form::Ci || !self.only.is_empty()) {
            return Err("--bless goes with --ci, and without --only".to_owned());
        }
        Ok(())
    }

    /// Whether something is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str()))
    }

    pub fn is_full(&self) -> bool {
        self.form == Form::Full
    }

    /// Whether the figures may be published: those of a whole full run, or of a part that was asked for.
    pub fn is_published(&self) -> bool {
        self.is_full() && (self.only.is_empty() || self.publish)
    }
}

fn is_set(name: &str) -> bool {
    !std::env::var(name).unwrap_or_default().is_empty()
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
