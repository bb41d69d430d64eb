//! The benchmark of agentq: the same work on agentq, on yardsticks and on its peers, side by side on
//! one private server. `README.md` says how to read it.
//!
//! Every round runs each workload on all systems, one right after another and each round beginning
//! with another, so that what disturbs the machine for a while disturbs all of them.

mod baseline;
mod calls;
mod cluster;
mod cpu;
mod databases;
mod engine;
mod fairness;
mod figures;
mod growth;
mod latency;
mod limits;
mod missions;
mod options;
mod payload;
mod pgbench;
mod pinned;
mod plot;
mod progress;
mod report;
mod results;
mod space;
mod stats;
mod systems;
mod text;
mod wal;
mod workloads;

use cluster::Cluster;
use databases::Databases;
use options::{Form, Options};
use progress::Task;
use results::Results;
use std::process::ExitCode;
use std::rc::Rc;
use systems::System;

/// Whatever ends a run early.
pub type Failure = Box<dyn std::error::Error>;

/// What every measurement needs.
pub struct Bench {
    pub options: Options,
    pub cluster: Cluster,
    pub databases: Databases,
    /// agentq first.
    pub systems: Vec<Rc<System>>,
}

impl Bench {
    pub fn agentq(&self) -> &System {
        &self.systems[0]
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    let options = match Options::read(arguments.into_iter()) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("agentq-bench: {problem}");
            return ExitCode::from(2);
        }
    };
    let check = options.check;
    match run(options) {
        Ok(well) if well || !check => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("agentq-bench: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Runs everything, and returns whether all is as it has to be.
fn run(options: Options) -> Result<bool, Failure> {
    let cluster = Cluster::start(&options)?;
    let systems = systems::own().into_iter().map(Rc::new).collect();
    let mut bench = Bench { options, cluster, databases: Databases::default(), systems };
    let server = bench.cluster.client("postgres")?.query_one("SHOW server_version", &[])?.get(0);
    let mut results = Results { server, ..Results::default() };
    println!("started PostgreSQL {}", results.server);
    add_peers(&mut bench, &mut results)?;
    let tasks = plan(&bench);
    if tasks.is_empty() {
        return Err("nothing has such a name; --list shows the names".into());
    }
    if bench.options.list {
        list(&tasks);
        return Ok(true);
    }
    progress::run(&bench, tasks, &mut results)?;
    if bench.options.form == Form::Ci && !bench.options.bless {
        measure_again(&bench, &mut results)?;
    }
    results.systems = bench.systems.clone();
    report::publish(&results, &bench.options)
}

/// Installs the peers, if they are wanted. One that cannot be installed is named now and at the end.
fn add_peers(bench: &mut Bench, results: &mut Results) -> Result<(), Failure> {
    let Some(packages) = &bench.options.peers else { return Ok(()) };
    for found in systems::find_peers(packages)? {
        let name = found.as_ref().map_or_else(|(name, _)| name, |peer| &peer.name);
        if bench.options.without.contains(name) {
            println!("left out {name}");
            continue;
        }
        let installed = found.and_then(|peer| match bench.databases.few(&bench.cluster, &peer) {
            Ok(_) => Ok(peer),
            Err(failure) => Err((peer.name, failure)),
        });
        match installed {
            Ok(peer) => {
                println!("installed {}", peer.version);
                bench.systems.push(Rc::new(peer));
            }
            Err((name, failure)) => {
                let trouble = format!("{name} could not be installed: {failure}");
                println!("TROUBLE: {trouble}");
                results.troubles.push(trouble);
            }
        }
    }
    Ok(())
}

/// Measures once more what has fallen below the baseline: something else may have disturbed the
/// machine just then. All rounds count.
fn measure_again(bench: &Bench, results: &mut Results) -> Result<(), Failure> {
    let fallen = baseline::fallen(results)?;
    let rounds = bench.options.rounds..2 * bench.options.rounds;
    progress::run(bench, workloads::tasks(bench, &fallen, rounds), results)
}

/// Everything that is to be measured, in order.
fn plan(bench: &Bench) -> Vec<Task> {
    let mut tasks = Vec::new();
    let rounds = 0..bench.options.rounds;
    if bench.options.form == Form::Ci {
        tasks.extend(workloads::tasks(bench, &baseline::WORKLOADS, rounds));
        tasks.extend(pinned::tasks(bench));
    } else {
        tasks.extend(workloads::tasks(bench, &workloads::ALL, rounds));
        tasks.extend(pinned::tasks(bench));
        tasks.extend(wal::tasks(bench));
        tasks.push(engine::task(bench));
        tasks.push(limits::task(bench));
        tasks.push(fairness::task(bench));
        tasks.push(missions::task(bench));
        tasks.extend(latency::tasks(bench));
        tasks.extend(growth::tasks(bench));
        tasks.push(space::task(bench));
    }
    tasks.retain(|task| bench.options.wants(&task.name));
    tasks
}

fn list(tasks: &[Task]) {
    let mut names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.iter().for_each(|name| println!("{name}"));
    println!("about {:.0} minutes", tasks.iter().map(|task| task.seconds).sum::<f64>() / 60.0);
}

/// The order of the systems in a round.
fn turn(systems: &[Rc<System>], round: usize) -> Vec<Rc<System>> {
    let mut order = systems.to_vec();
    order.rotate_left(round % systems.len().max(1));
    order
}
