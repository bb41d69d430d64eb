//! What a run has done and found: a line for each round, and a table at the end.

use crate::Failure;
use crate::check::books::Books;
use crate::check::{Problem, Rule};
use crate::faults::Fault;
use crate::options::Options;
use crate::stage::Regime;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

/// What follows the table of all runs.
const RUNS_END: &str = "<!-- the runs end here -->";

pub struct Report {
    seed: u64,
    regime: Regime,
    started: Instant,
    pub fleets: u64,
    pub upgrades: u64,
    rounds: BTreeMap<Fault, usize>,
    left_out: BTreeMap<Fault, &'static str>,
    /// Of each fault, the longest time in which nobody was told of an ack, in each of its rounds.
    stalls: BTreeMap<Fault, Vec<f64>>,
    /// Processes of the server that were killed.
    pub kills: u64,
    pub problems: Vec<Problem>,
    /// Of the main database, and of those that were upgraded.
    jobs: usize,
    acks: u64,
    unknown: usize,
    aside: (usize, u64, usize),
    /// Dead letters of databases that are done with, by their reason.
    pub letters: BTreeMap<String, i64>,
    disturbed: BTreeMap<String, u64>,
    disturbed_before: BTreeMap<String, u64>,
}

impl Report {
    pub fn new(options: &Options) -> Report {
        Report {
            seed: options.seed,
            regime: options.regime,
            started: Instant::now(),
            fleets: 0,
            upgrades: 0,
            rounds: BTreeMap::new(),
            left_out: BTreeMap::new(),
            stalls: BTreeMap::new(),
            kills: 0,
            problems: Vec::new(),
            jobs: 0,
            acks: 0,
            unknown: 0,
            aside: (0, 0, 0),
            letters: BTreeMap::new(),
            disturbed: BTreeMap::new(),
            disturbed_before: BTreeMap::new(),
        }
    }

    pub fn round(&mut self, fault: Fault, stall: f64, problems: Vec<Problem>, books: &Books) {
        self.count(books);
        self.tell(fault, stall, problems);
    }

    /// A database is done with: what was counted in it stays.
    pub fn closed(&mut self, problems: Vec<Problem>, books: &Books) {
        self.keep(books);
        (self.jobs, self.acks, self.unknown) = (0, 0, 0);
        for (code, count) in std::mem::take(&mut self.disturbed) {
            *self.disturbed_before.entry(code).or_default() += count;
        }
        println!(
            "{:>5.0} s  all work is done, {} problems; a new database",
            self.started.elapsed().as_secs_f64(),
            problems.len()
        );
        self.add(problems);
    }

    fn keep(&mut self, books: &Books) {
        let (jobs, acks, unknown) = self.aside;
        self.aside = (jobs + books.confirmed_jobs(), acks + books.acks, unknown + books.unknown_asks());
    }

    /// A round in a database of its own.
    pub fn aside(&mut self, fault: Fault, stall: f64, problems: Vec<Problem>, books: &Books) {
        self.keep(books);
        self.tell(fault, stall, problems);
    }

    fn tell(&mut self, fault: Fault, stall: f64, problems: Vec<Problem>) {
        self.stalls.entry(fault).or_default().push(stall);
        *self.rounds.entry(fault).or_default() += 1;
        let number: usize = self.rounds.values().sum();
        println!(
            "{:>5.0} s  round {number}: {}, nobody was told of an ack for {stall:.2} s; {} jobs, {} acks, {} problems",
            self.started.elapsed().as_secs_f64(),
            fault.name(),
            self.jobs,
            self.acks,
            problems.len()
        );
        self.add(problems);
    }

    fn add(&mut self, problems: Vec<Problem>) {
        for problem in problems {
            // Most of them last, and are found again in every round.
            if !self.problems.contains(&problem) {
                println!("         {problem}");
                self.problems.push(problem);
            }
        }
    }

    pub fn left_out(&mut self, fault: Fault, why: &'static str) {
        if self.left_out.insert(fault, why).is_none() {
            println!("LEFT OUT: {}: {why}", fault.name());
        }
    }

    fn count(&mut self, books: &Books) {
        (self.jobs, self.acks, self.unknown) = (books.confirmed_jobs(), books.acks, books.unknown_asks());
        self.disturbed = books.disturbed.clone();
    }

    pub fn finish(&mut self, problems: Vec<Problem>, books: &Books) {
        self.count(books);
        self.add(problems);
    }

    pub fn count_of(&self, fault: Fault) -> usize {
        self.rounds.get(&fault).copied().unwrap_or(0)
    }

    fn broken(&self, rules: &[Rule]) -> usize {
        self.problems.iter().filter(|problem| rules.contains(&problem.rule)).count()
    }

    /// The figures, as a table for people.
    pub fn table(&self) -> String {
        let mut text = String::from("| | |\n| --- | --- |\n");
        let mut row = |name: &str, value: String| writeln!(text, "| {name} | {value} |").expect("text can be written");
        let (jobs, acks, unknown) = self.aside;
        row("seconds", format!("{:.0}", self.started.elapsed().as_secs_f64()));
        row("seed", self.seed.to_string());
        row("the server runs", self.regime.name().to_owned());
        row("rounds", self.rounds.values().sum::<usize>().to_string());
        row(
            "kill -9 of processes of the server: the postmaster, sessions, the engine, or all at once",
            self.kills.to_string(),
        );
        for (fault, count) in &self.rounds {
            row(fault.name(), format!("{count}{}", self.stall(*fault)));
        }
        for (fault, why) in &self.left_out {
            row(fault.name(), format!("left out: {why}"));
        }
        row("jobs whose enqueue was confirmed", (self.jobs + jobs).to_string());
        row("confirmed acks", (self.acks + acks).to_string());
        row("asks that were never answered", (self.unknown + unknown).to_string());
        let letters: Vec<String> = self.letters.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
        row("dead letters, by their reason", letters.join(", "));
        let mut all = self.disturbed_before.clone();
        for (code, count) in &self.disturbed {
            *all.entry(code.clone()).or_default() += count;
        }
        let disturbed: Vec<String> = all.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        row("errors that clients met, by SQLSTATE", disturbed.join(", "));
        row("jobs lost", self.broken(&[Rule::NothingLost]).to_string());
        row("jobs made or done twice", self.broken(&[Rule::NothingTwice, Rule::Together]).to_string());
        row("acks or cancels that did not last", self.broken(&[Rule::Final]).to_string());
        row("leases that overlapped", self.broken(&[Rule::OneHolder]).to_string());
        row("attempts that do not add up, states that do not exist", {
            self.broken(&[Rule::AttemptsAddUp, Rule::States]).to_string()
        });
        row("slots, budgets or keys that leaked", self.broken(&[Rule::NothingLeaks]).to_string());
        row("errors that no fault explains", self.broken(&[Rule::NoSurprise]).to_string());
        row("stalls that were too long", self.broken(&[Rule::NoStall]).to_string());
        text
    }

    /// The run as a row of the table of all runs.
    pub fn row(&self) -> String {
        let (jobs, ..) = self.aside;
        let broken: usize = self.problems.iter().filter(|problem| problem.rule != Rule::NoStall).count();
        let faults: usize = self.rounds.values().sum();
        let down = |fault: &Fault| fault.stops_the_server();
        let worst = |down: &dyn Fn(&Fault) -> bool| {
            let stalls = self.stalls.iter().filter(|(fault, _)| down(fault)).flat_map(|(_, stalls)| stalls);
            stalls.copied().fold(0.0_f64, f64::max)
        };
        format!(
            "| {} on {} | {} | {:.0} | {} | {} | {faults} | {} | {broken} | {:.2} s | {:.2} s |",
            agentq_tests::CURRENT,
            agentq_tests::major(),
            self.regime.name(),
            self.started.elapsed().as_secs_f64(),
            self.seed,
            self.kills,
            self.jobs + jobs,
            worst(&down),
            worst(&|fault| !down(fault)),
        )
    }

    /// For how long work stood still at this fault.
    fn stall(&self, fault: Fault) -> String {
        let mut sorted = self.stalls.get(&fault).cloned().unwrap_or_default();
        sorted.sort_by(f64::total_cmp);
        match (sorted.get(sorted.len() / 2), sorted.last()) {
            (Some(median), Some(worst)) => format!("; stall {median:.2} s, at most {worst:.2} s"),
            _ => String::new(),
        }
    }
}

/// Adds a row to the table of all runs in docs/guarantees.md.
pub fn note(row: &str) -> Result<(), Failure> {
    let path = agentq_tests::project_root().join("docs/guarantees.md");
    let page = std::fs::read_to_string(&path)?;
    let (before, after) = page.split_once(RUNS_END).ok_or("docs/guarantees.md has no mark for the end of the runs")?;
    Ok(std::fs::write(path, format!("{before}{row}\n{RUNS_END}{after}"))?)
}

/// Puts a table between two marks of docs/guarantees.md.
pub fn publish(table: &str, open: &str, close: &str) -> Result<(), Failure> {
    let path = agentq_tests::project_root().join("docs/guarantees.md");
    let page = std::fs::read_to_string(&path)?;
    let (open, close) = (format!("<!-- {open} -->\n"), format!("<!-- {close} -->"));
    let (before, rest) = page.split_once(&open).ok_or("docs/guarantees.md has no mark for the figures")?;
    let (_, after) = rest.split_once(&close).ok_or("docs/guarantees.md has no mark for their end")?;
    Ok(std::fs::write(path, format!("{before}{open}\n{table}\n{close}{after}"))?)
}
