//! `agentq-torture` runs the torture; with the name of a role it is one process of the load.

use agentq_torture::check::books::Books;
use agentq_torture::check::snapshot::Snapshot;
use agentq_torture::check::{self, Moved};
use agentq_torture::dice::Dice;
use agentq_torture::faults::Fault;
use agentq_torture::load::client::Client;
use agentq_torture::load::{self, Manner, Role};
use agentq_torture::options::{Options, USAGE};
use agentq_torture::report::{self, Report, publish};
use agentq_torture::rounds::Rounds;
use agentq_torture::{Failure, soak, stage};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let first = arguments.peek().cloned().unwrap_or_default();
    if let Some(role) = Role::ALL.into_iter().find(|role| role.name() == first) {
        arguments.next();
        return ended(play(role, arguments));
    }
    match first.as_str() {
        "set-up" => return ended(set_up(arguments.skip(1))),
        "soak" => return ended(soak_for_an_hour(arguments.skip(1))),
        "check" => return ended(compare(arguments.skip(1))),
        "--help" => println!("{USAGE}"),
        "--list" => Fault::ALL.iter().for_each(|fault| println!("{fault:?}: {}", fault.name())),
        _ => return ended(torture(arguments)),
    }
    ExitCode::SUCCESS
}

fn ended(outcome: Result<bool, Failure>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            // What the server said is one level deeper.
            error.source().into_iter().for_each(|source| eprintln!("{source}"));
            ExitCode::FAILURE
        }
    }
}

/// One process of the load: url, name, ledger, seed, manner.
fn play(role: Role, mut arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let mut next = || arguments.next().ok_or("the load wants a url, a name, a ledger, a seed and a manner");
    let (url, name, ledger) = (next()?, next()?, next()?);
    let (seed, manner) = (next()?.parse()?, Manner::from_words(&next()?));
    let client = Client::new(&url, &name, Path::new(&ledger), Client::stop_with_stdin())?;
    load::run(role, client, Dice::new(seed), &manner);
    Ok(true)
}

/// An hour's worth of load; with --publish its figures go into docs/guarantees.md.
fn soak_for_an_hour(mut arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let samples = soak::run(soak::HOUR)?;
    if arguments.next().as_deref() == Some("--publish") {
        publish(&soak::table(&samples), "the last soak", "end of the soak")?;
    }
    Ok(soak::LINES.iter().all(|line| line.is_flat(&samples)))
}

/// Makes a database ready for the load: url.
fn set_up(mut arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let url = arguments.next().ok_or("set-up wants a url")?;
    stage::set_up(&mut postgres::Client::connect(&url, postgres::NoTls)?)?;
    Ok(true)
}

/// Compares ledgers with a database: url, folder, and --drained if all work has been done.
fn compare(mut arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let mut next = || arguments.next().ok_or("check wants a url and the folder of the ledgers");
    let (url, folder) = (next()?, next()?);
    let drained = arguments.next().as_deref() == Some("--drained");
    let books = Books::of(Path::new(&folder))?;
    let mut client = postgres::Client::connect(&url, postgres::NoTls)?;
    let mut problems = check::everything(&books, &Snapshot::read(&mut client)?, &Moved::default());
    problems.extend(check::slots(&mut client, check::PATIENCE)?);
    if drained {
        problems.extend(check::drained(&mut client, check::PATIENCE)?);
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    println!(
        "{} confirmed jobs, {} confirmed acks, {} confirmed cancels: {} problems",
        books.confirmed_jobs(),
        books.acks,
        books.cancelled.len(),
        problems.len()
    );
    Ok(problems.is_empty())
}

fn torture(arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let options = Options::parse(arguments, std::env::current_exe()?)?;
    let (short, published) = (options.short, options.publish);
    println!("Seed {}", options.seed);
    let rounds = Rounds::new(options)?;
    let report: Report = if short { rounds.each_once()? } else { rounds.for_a_time()? };
    println!("\n{}\n{}", report.table(), report.row());
    if published {
        publish(&report.table(), "the last long run", "end")?;
        report::note(&report.row())?;
    }
    let sound = report.problems.is_empty();
    println!("{}", if sound { "Nothing lost, nothing done twice." } else { "PROMISES WERE BROKEN: see above." });
    Ok(sound)
}
