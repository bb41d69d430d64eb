//! Driving load: pgbench of the server under test, prepared statements, and what it reports.

use crate::Failure;
use crate::cluster::{Cluster, run};
use crate::systems::ENQUEUE_BATCH;

/// How long pgbench runs.
#[derive(Clone, Copy)]
pub enum Length {
    Seconds(u32),
    /// Of each client.
    Transactions(u32),
}

/// One run of pgbench. Its scripts may use the variables `:payload` (one payload), `:payloads` (an
/// array of them) and `:jobs` (the same payloads as agentq's batch wants them).
pub struct Pgbench<'a> {
    pub database: &'a str,
    pub script: &'a str,
    pub clients: u32,
    pub length: Length,
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

impl Pgbench<'_> {
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
        let used = |name: &str| self.script.contains(&format!(":{name}"));
        for (name, value) in variables().into_iter().filter(|(name, _)| used(name)) {
            command.arg(format!("--define={name}={value}"));
        }
        let (output, messages) = run(command.arg(self.database))?;
        read(&output, &messages).ok_or_else(|| format!("pgbench said:\n{output}{messages}").into())
    }
}

/// About 200 bytes, as a job's signal would be. No two payloads of a batch are the same.
fn payload(number: u32) -> String {
    format!(
        "{{\"task\": \"thumbnail.make\", \"object\": \"media/2026/10/{number:08}.jpg\", \"sizes\": [160, 640, 1280], \
         \"tenant\": \"7f0c2f4e-3a52-4c07-9a7e-51d9f1b0c3aa\", \"locale\": \"de_DE\", \"trace\": \"00-4bf92f3577b34da6\"}}"
    )
}

fn variables() -> [(&'static str, String); 3] {
    let payloads: Vec<String> = (0..ENQUEUE_BATCH).map(payload).collect();
    let jobs = payloads.iter().map(|payload| format!("{{\"job_kind\": \"k\", \"payload_json\": {payload}}}"));
    let jobs: Vec<String> = jobs.collect();
    let array = |items: &[String]| format!("[{}]", items.join(", "));
    [("payload", payload(0)), ("payloads", array(&payloads)), ("jobs", array(&jobs))]
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
    fn payloads_are_of_about_200_bytes_and_differ() {
        assert!((180..=220).contains(&payload(0).len()), "{}", payload(0).len());
        assert_ne!(payload(1), payload(2));
    }

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
