//! Driving load: pgbench of the server under test, prepared statements, and what it reports.

use crate::Failure;
use crate::cluster::{Cluster, RUN, run};
use crate::payload::{self, array, payload};
use crate::systems::ENQUEUE_BATCH;

/// How long pgbench runs.
#[derive(Clone, Copy)]
pub enum Length {
    Seconds(u32),
    /// Of each client.
    Transactions(u32),
}

/// One run of pgbench. Its scripts may use `:payload` (one payload), `:payloads` (an array of them),
/// `:jobs` (the same as agentq's batch wants them), `:clients`, and, kept by each client from one run
/// of the script to the next, a counter `:n` from 0, `:held` and `:lease_token` ("none" at first) and
/// `:acks` ("[]" at first).
#[derive(Clone, Copy)]
pub struct Pgbench<'a> {
    pub database: &'a str,
    pub script: &'a str,
    pub clients: u32,
    pub length: Length,
    /// Whether commits wait for the disk.
    pub sync: bool,
    pub payload_bytes: usize,
    /// Scripts per second, all clients together; None: as many as there can be.
    pub rate: Option<u32>,
}

/// What pgbench found.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// Scripts that ran.
    pub transactions: u64,
    /// Scripts per second, not counting the time to connect.
    pub tps: f64,
    /// Scripts per second in every second.
    pub each_second: Vec<f64>,
}

impl<'a> Pgbench<'a> {
    /// A run in the database of the measurement, as most are.
    pub fn new(script: &'a str, clients: u32, length: Length) -> Pgbench<'a> {
        let payload_bytes = payload::ORDINARY;
        Pgbench { database: RUN, script, clients, length, sync: false, payload_bytes, rate: None }
    }

    pub fn run(&self, cluster: &Cluster) -> Result<Outcome, Failure> {
        let script = cluster.write("script.sql", self.script)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let mut command = cluster.program("pgbench");
        command.args(["--no-vacuum", "--protocol=prepared", "--progress=1", "--username=postgres"]);
        command.arg("--host").arg(cluster.socket_dir()).arg("--file").arg(script);
        command.arg(format!("--client={}", self.clients));
        command.arg(format!("--jobs={}", threads.min(self.clients)));
        command.arg(match self.length {
            Length::Seconds(seconds) => format!("--time={seconds}"),
            Length::Transactions(count) => format!("--transactions={count}"),
        });
        command.args(self.rate.map(|rate| format!("--rate={rate}")));
        if self.sync {
            command.env("PGOPTIONS", "-c synchronous_commit=on");
        }
        let used = |name: &str| self.script.contains(&format!(":{name}"));
        for (name, value) in variables(self).into_iter().filter(|(name, _)| used(name)) {
            command.arg(format!("--define={name}={value}"));
        }
        let (output, messages) = run(command.arg(self.database))?;
        read(&output, &messages).ok_or_else(|| format!("pgbench said:\n{output}{messages}").into())
    }
}

/// The variables that scripts may use.
fn variables(load: &Pgbench) -> Vec<(&'static str, String)> {
    let payloads = || (0..ENQUEUE_BATCH).map(|number| payload(number, load.payload_bytes));
    vec![
        ("payload", payload(0, load.payload_bytes)),
        ("payloads", array(payloads())),
        ("clients", load.clients.to_string()),
        ("n", "0".to_owned()),
        ("held", "none".to_owned()),
        ("lease_token", "none".to_owned()),
        ("acks", "[]".to_owned()),
    ]
}

fn read(output: &str, messages: &str) -> Option<Outcome> {
    let after = |start: &str| {
        let line = output.lines().find_map(|line| line.strip_prefix(start))?;
        line.split(['/', ' ']).next().map(str::to_owned)
    };
    Some(Outcome {
        transactions: after("number of transactions actually processed: ")?.parse().ok()?,
        tps: after("tps = ")?.parse().ok()?,
        each_second: messages.lines().filter_map(progress).collect(),
    })
}

/// Reads "progress: 7.0 s, 4321.0 tps, lat 0.925 ms stddev 0.3, 0 failed".
fn progress(line: &str) -> Option<f64> {
    let (_, rest) = line.strip_prefix("progress: ")?.split_once(" s, ")?;
    rest.split_once(" tps")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_with_and_without_a_planned_count_is_read() {
        let timed = "number of transactions actually processed: 45\nnumber of failed transactions: 0 (0.000%)\n\
                     initial connection time = 5.1 ms\ntps = 22.5 (without initial connection time)\n";
        let messages = "pgbench (15.9)\nprogress: 1.0 s, 20.0 tps, lat 1 ms stddev 0.1, 0 failed\n\
                        progress: 2.0 s, 25.0 tps, lat 1 ms stddev 0.1, 0 failed\n";
        let outcome = Outcome { transactions: 45, tps: 22.5, each_second: vec![20.0, 25.0] };
        assert_eq!(read(timed, messages), Some(outcome));
        let counted = timed.replace("45", "45/50");
        assert_eq!(read(&counted, "").map(|outcome| outcome.transactions), Some(45));
        assert_eq!(read("", messages), None);
    }
}
