//! What the command line asks for.

use crate::Failure;
use crate::stage::Regime;
use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str =
    "usage: agentq-torture [--minutes N] [--seed N] [--only FAULT] [--async | --bare] [--short] [--publish]

  --minutes N    how long to go on (default 10)
  --async        with synchronous_commit = off: a crash may take the last answers with it, and nothing else
  --bare         without shared_preload_libraries: somebody calls fn_engine_tick()
  --seed N       the same choices again
  --only FAULT   this fault alone, in every round; --list names them
  --list         the faults there are
  --short        every fault once, as the tests do
  --publish      puts the figures of the run into docs/guarantees.md, and adds it to the list of all runs

agentq-torture soak [--publish]               an hour's worth of load: is everything flat?
agentq-torture set-up URL                     makes a database ready for the load
agentq-torture check URL FOLDER [--drained]   compares the ledgers in a folder with a database
";

#[derive(Clone, Debug)]
pub struct Options {
    pub time: Duration,
    pub seed: u64,
    pub only: Option<String>,
    pub short: bool,
    pub publish: bool,
    pub regime: Regime,
    /// The program whose processes make the load.
    pub program: PathBuf,
}

impl Options {
    pub fn parse(mut arguments: impl Iterator<Item = String>, program: PathBuf) -> Result<Options, Failure> {
        let seed = u64::from(std::process::id());
        let mut options = Options {
            time: Duration::from_secs(600),
            seed,
            only: None,
            short: false,
            publish: false,
            regime: Regime::Usual,
            program,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} wants a value\n\n{USAGE}"));
            match argument.as_str() {
                "--minutes" => options.time = Duration::from_secs_f64(value()?.parse::<f64>()? * 60.0),
                "--seed" => options.seed = value()?.parse()?,
                "--only" => options.only = Some(value()?),
                "--async" => options.regime = Regime::Async,
                "--bare" => options.regime = Regime::Bare,
                "--short" => options.short = true,
                "--publish" => options.publish = true,
                _ => return Err(format!("{argument} is not known\n\n{USAGE}").into()),
            }
        }
        Ok(options)
    }
}
