//! The checker finds what is wrong: faults of every kind are planted, in a database or in the ledgers of an honest run, and each must be
//! found as the breach that it is. The honest run itself has none.

mod cast;
mod faults;

use agentq_tests::{Cluster, Options, eventually};
use agentq_torture::check::books::{Books, Claim, Told};
use agentq_torture::check::snapshot::{Job, Snapshot};
use agentq_torture::check::{self, Moved, PATIENCE, Problem, Rule};
use agentq_torture::ledger::{End, Entry};
use agentq_torture::load::Manner;
use agentq_torture::load::fleet::{Crew, Fleet};
use agentq_torture::outside::Outside;
use agentq_torture::stage;
use postgres::{Client, NoTls};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

const HONEST: &str = "honest";
/// The load goes on until its workers have been told of this many acks.
const ENOUGH: u64 = 400;
/// What is wrong on purpose need not be looked at for long.
const SHORT: Duration = Duration::from_millis(300);

struct Honest {
    cluster: Cluster,
    folder: PathBuf,
    books: Books,
}

impl Honest {
    /// One job of each fate, work of every sort, and then the rest of it, with nobody disturbed.
    fn run() -> Honest {
        let cluster = Cluster::start("planted", &Options::default());
        let folder = Path::new(&std::env::var("AGENTQ_TEST_DIR").expect("make test sets it"))
            .join(format!("planted-ledgers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut admin = connect(&cluster, "postgres");
        admin.batch_execute(&format!("CREATE DATABASE {HONEST}")).expect("a database");
        let mut client = connect(&cluster, HONEST);
        stage::set_up(&mut client).expect("it is set up");
        cast::play(&cluster.url(HONEST), &folder);
        let program = Path::new(env!("CARGO_BIN_EXE_agentq-torture"));
        let mut crew = Crew { producers: 2, workers: 3, meddlers: 1, manner: Manner::default() };
        let mut fleet = Fleet::new(program, &cluster.url(HONEST), &folder, "honest", 7, crew.clone());
        fleet.start();
        eventually("there was work", || Books::of(&folder).expect("ledgers").acks >= ENOUGH);
        fleet.stop();
        (crew.producers, crew.meddlers, crew.manner.dutifully) = (0, 0, true);
        let mut fleet = Fleet::new(program, &cluster.url(HONEST), &folder, "rest", 8, crew);
        fleet.start();
        let left = "SELECT count(*) FROM agentq.job_queue WHERE finished_at IS NULL";
        eventually("the rest is done", || {
            // No engine runs here.
            client.batch_execute("SELECT agentq.fn_engine_tick('end_waits')").expect("a tick");
            client.query_one(left, &[]).expect("a count").get::<_, i64>(0) == 0
        });
        fleet.stop();
        let books = Books::of(&folder).expect("ledgers");
        Honest { cluster, folder, books }
    }

    /// A copy of the database in which this has been done behind agentq's back.
    fn with(&self, number: usize, plant: &str) -> Client {
        let name = format!("planted_{number}");
        let mut admin = connect(&self.cluster, "postgres");
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {HONEST}")).expect("a copy");
        let mut client = connect(&self.cluster, &name);
        client.batch_execute(faults::PREPARE).expect("a settled session");
        client.batch_execute(plant).unwrap_or_else(|error| panic!("{plant}\n{error:?}"));
        client
    }

    /// The job of the cast with this fate.
    fn job(&self, fate: &str) -> Uuid {
        *self.books.keys[fate].told.first().expect("it was confirmed")
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn connect(cluster: &Cluster, database: &str) -> Client {
    Client::connect(&cluster.url(database), NoTls).expect("the server accepts")
}

fn check_all(honest: &Honest, client: &mut Client, patience: Duration) -> Vec<Problem> {
    let snapshot = Snapshot::read(client).expect("a snapshot");
    let mut problems = check::everything(&honest.books, &snapshot, &Moved::default());
    problems.extend(check::effects(client, &Outside::beside(&honest.folder)).expect("effects"));
    problems.extend(check::slots(client, patience).expect("slots"));
    problems.extend(check::drained(client, patience).expect("what is left"));
    problems
}

fn assert_found(what: &str, rule: Rule, problems: &[Problem]) {
    assert!(problems.iter().any(|problem| problem.rule == rule), "{what} was not found as {rule:?}: {problems:#?}");
}

#[test]
fn planted_faults_are_found_and_an_honest_run_has_none() {
    let honest = Honest::run();
    let found = check_all(&honest, &mut connect(&honest.cluster, HONEST), PATIENCE);
    assert!(found.is_empty(), "the honest run is not: {found:#?}");
    for (number, (what, rule, plant)) in faults::IN_THE_DATABASE.iter().enumerate() {
        let mut client = honest.with(number, plant);
        let problems = check_all(&honest, &mut client, SHORT);
        assert_found(what, *rule, &problems);
        if what.contains("slot") {
            // The job that was left behind is a leak, too.
            assert!(problems.iter().any(|problem| problem.what.contains("slots counted")), "{problems:#?}");
        }
    }
    in_the_ledgers(&honest);
}

/// What the clients believe: the database is honest, and a ledger says otherwise.
fn in_the_ledgers(honest: &Honest) {
    let mut client = connect(&honest.cluster, HONEST);
    let snapshot = Snapshot::read(&mut client).expect("a snapshot");
    let plant = |what: &str, rule: Rule, change: &dyn Fn(&mut Books)| {
        let mut books = honest.books.clone();
        change(&mut books);
        assert_found(what, rule, &check::everything(&books, &snapshot, &Moved::default()));
    };
    let (job, ended) = (honest.job("acked"), Some(Told::Ended(End::Ack)));
    let of_job = |claim: &&Claim| claim.job == job && claim.told == ended;
    let acked = *honest.books.claims.iter().find(|(_, claim)| of_job(claim)).expect("it was acked").0;

    plant("an ask that was refused, and happened", Rule::NothingTwice, &|books| {
        let asked = books.keys.get_mut("acked").expect("it was asked for");
        (asked.told, asked.answers, asked.refusals) = (BTreeSet::new(), 0, asked.asks);
    });
    plant("an ack that was rolled back, and happened", Rule::NothingTwice, &|books| {
        books.claims.get_mut(&acked).expect("it is there").told = Some(Told::NotEnded(End::Ack));
    });
    plant("a success of one who never asked for it", Rule::NothingTwice, &|books| {
        let claim = books.claims.get_mut(&acked).expect("it is there");
        (claim.told, claim.asked) = (None, None);
    });
    plant("a success of one whose lease was lost", Rule::OneHolder, &|books| {
        books.claims.get_mut(&acked).expect("it is there").told = Some(Told::Lost(i64::MAX));
    });
    plant("a holder who was sent away while it held the job", Rule::OneHolder, &|books| {
        let claim = books.claims.get_mut(&acked).expect("it is there");
        claim.told = Some(Told::Lost(claim.at));
    });
    plant("two who believe that they hold it", Rule::OneHolder, &|books| {
        let claim = books.claims[&acked].clone();
        let (job, until, at) = (claim.job, claim.until, claim.at);
        books.enter("another", Entry::Claimed { job, token: Uuid::from_u128(1), until, at });
    });
    plant("two jobs of one ordering key at once", Rule::OneHolder, &|books| {
        books.orders = ["one of two", "the other"].map(|fate| (honest.job(fate), "one".to_owned())).into();
    });
    plant("an error that nothing explains", Rule::NoSurprise, &|books| {
        let (code, message, during) = ("XX000".to_owned(), "what?".to_owned(), "a claim".to_owned());
        books.enter("w", Entry::Surprised { code, message, during });
    });

    // Work stands still for longer than is stated.
    let mut books = honest.books.clone();
    let (first, last) = (books.ack_times.iter().min().copied(), books.ack_times.iter().max().copied());
    let (from, to) = (first.expect("acks"), last.expect("acks"));
    let (usual, none) = check::stall(&books, from, to, f64::INFINITY);
    assert_eq!(none, None);
    assert_eq!(check::stall(&books, from, to, usual), (usual, None));
    let middle = from + (to - from) / 2;
    books.ack_times.retain(|at| *at < middle);
    let (stall, problem) = check::stall(&books, from, to + 60_000_000, usual);
    assert!(stall >= 60.0, "{stall}");
    assert_found("a minute in which nobody works", Rule::NoStall, &problem.into_iter().collect::<Vec<_>>());

    // Two jobs of one key at once, which both were confirmed: the second ask was told of the wrong one.
    let mut doubled = snapshot.clone();
    let (one, other) = (honest.job("one of two"), honest.job("the other"));
    let twin = Job { finished: None, ..doubled.jobs[&one].clone() };
    doubled.jobs.extend([(one, twin.clone()), (other, twin)]);
    let problems = check::everything(&honest.books, &doubled, &Moved::default());
    assert!(problems.iter().any(|problem| problem.what.contains("two jobs at once")), "{problems:#?}");
}
