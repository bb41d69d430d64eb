//! The checker finds what is wrong: faults of every kind are planted, in a database or in the ledgers of an honest run, and each must be
//! found as the breach that it is. The honest run itself has none.

use agentq_tests::{Cluster, Options};
use agentq_torture::check::books::{Books, Told};
use agentq_torture::check::snapshot::{Job, Snapshot};
use agentq_torture::check::{self, Moved, Problem, Rule};
use agentq_torture::ledger::{End, Entry};
use agentq_torture::load::Manner;
use agentq_torture::load::fleet::{Crew, Fleet};
use agentq_torture::stage;
use postgres::{Client, NoTls};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use uuid::Uuid;

const HONEST: &str = "honest";

struct Honest {
    cluster: Cluster,
    folder: PathBuf,
    books: Books,
}

impl Honest {
    /// Some seconds of work of every sort, and then the rest of it, with nobody disturbed.
    fn run() -> Honest {
        let cluster = Cluster::start("planted", &Options::default());
        let folder = Path::new(&std::env::var("AGENTQ_TEST_DIR").expect("make test sets it"))
            .join(format!("planted-ledgers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut admin = connect(&cluster, "postgres");
        admin.batch_execute(&format!("CREATE DATABASE {HONEST}")).expect("a database");
        let mut client = connect(&cluster, HONEST);
        stage::set_up(&mut client).expect("it is set up");
        let program = Path::new(env!("CARGO_BIN_EXE_agentq-torture"));
        let mut crew = Crew { producers: 2, workers: 3, meddlers: 1, manner: Manner::default() };
        let mut fleet = Fleet::new(program, &cluster.url(HONEST), &folder, "honest", 7, crew.clone());
        fleet.start();
        std::thread::sleep(Duration::from_secs(6));
        fleet.stop();
        (crew.producers, crew.meddlers, crew.manner.dutifully) = (0, 0, true);
        let mut fleet = Fleet::new(program, &cluster.url(HONEST), &folder, "rest", 8, crew);
        fleet.start();
        let deadline = Instant::now() + Duration::from_secs(60);
        let left = "SELECT count(*) FROM agentq.job_queue WHERE finished_at IS NULL";
        while client.query_one(left, &[]).expect("a count").get::<_, i64>(0) > 0 {
            assert!(Instant::now() < deadline, "the rest is never done");
            std::thread::sleep(Duration::from_millis(50));
        }
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
        // No trigger stands in the way.
        client.batch_execute("SET session_replication_role = replica").expect("a setting");
        client.batch_execute(plant).unwrap_or_else(|error| panic!("{plant}\n{error:?}"));
        client
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

fn check_all(books: &Books, client: &mut Client) -> Vec<Problem> {
    let snapshot = Snapshot::read(client).expect("a snapshot");
    let mut problems = check::everything(books, &snapshot, &Moved::default());
    let patience = Duration::from_millis(300);
    problems.extend(check::slots(client, patience).expect("slots"));
    problems.extend(check::drained(client, patience).expect("what is left"));
    problems
}

/// What is done to the database, and the breach it is.
const IN_THE_DATABASE: [(&str, Rule, &str); 25] = [
    ("a finished job is gone", Rule::NothingLost, "
        CREATE TEMP TABLE victim AS SELECT job_id FROM agentq.job_done LIMIT 1;
        DELETE FROM agentq.job WHERE job_id IN (TABLE victim); DELETE FROM agentq.job_done WHERE job_id IN (TABLE victim);
        DELETE FROM agentq.job_attempt_log WHERE job_id IN (TABLE victim);
        DELETE FROM agentq.job_dead_letter WHERE job_id IN (TABLE victim)"),
    ("a mission is gone", Rule::NothingLost, "
        CREATE TEMP TABLE victim AS SELECT mission_id FROM agentq.mission LIMIT 1;
        DELETE FROM agentq.mission WHERE mission_id IN (TABLE victim)"),
    ("a job that nobody asked for", Rule::NothingTwice, "SELECT agentq.fn_job_enqueue('plain', 'a phantom')"),
    ("a job made a second time", Rule::NothingTwice, "
        SELECT agentq.fn_job_enqueue('plain', (SELECT idempotency_key FROM agentq.job_queue
            WHERE job_kind = 'plain' AND state = 'succeeded' LIMIT 1))"),
    ("an ack that did not last", Rule::Final, "
        CREATE TEMP TABLE victim AS SELECT job_id FROM agentq.job_queue WHERE state = 'succeeded' LIMIT 1;
        DELETE FROM agentq.job_done WHERE job_id IN (TABLE victim);
        INSERT INTO agentq.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
        SELECT queue_id, queue_id, job_kind, priority, scheduled_at, job_id, false FROM agentq.job
        WHERE job_id IN (TABLE victim)"),
    ("a cancel that did not last", Rule::Final, "
        UPDATE agentq.job_done SET state = 'failed' WHERE job_id =
            (SELECT job_id FROM agentq.job_queue WHERE state = 'cancelled' AND job_kind <> 'step' LIMIT 1)"),
    ("a success under another's token", Rule::AttemptsAddUp, "
        UPDATE agentq.job_done SET lease_token = gen_random_uuid() WHERE job_id =
            (SELECT job_id FROM agentq.job_queue WHERE state = 'succeeded' LIMIT 1)"),
    ("an attempt that is not there", Rule::AttemptsAddUp, "
        DELETE FROM agentq.job_attempt_log WHERE lease_token =
            (SELECT lease_token FROM agentq.job_attempt_log WHERE outcome = 'released' LIMIT 1)"),
    ("an attempt by nobody", Rule::AttemptsAddUp, "
        INSERT INTO agentq.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner)
        SELECT job_id, gen_random_uuid(), created_at, created_at, 'released', 'a stranger' FROM agentq.job LIMIT 1"),
    ("one more attempt than its owner knows of", Rule::AttemptsAddUp, "
        INSERT INTO agentq.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner)
        SELECT job_id, gen_random_uuid(), began_at, began_at, outcome, lease_owner
        FROM agentq.job_attempt_log WHERE outcome = 'released' LIMIT 1"),
    ("a failure that was not counted", Rule::AttemptsAddUp, "
        UPDATE agentq.job SET attempts = attempts + 1 WHERE job_id = (SELECT job_id FROM agentq.job LIMIT 1)"),
    ("two attempts at once", Rule::OneHolder, "
        UPDATE agentq.job_attempt_log SET ended_at = ended_at + interval '1 hour' WHERE lease_token =
            (SELECT a.lease_token FROM agentq.job_attempt a JOIN agentq.job_attempt b USING (job_id)
             WHERE a.attempt_no = 1 AND b.attempt_no = 2 LIMIT 1)"),
    ("a lease taken too early", Rule::OneHolder, "
        UPDATE agentq.job_attempt_log SET ended_at = began_at + interval '0.1 s' WHERE lease_token =
            (SELECT lease_token FROM agentq.job_attempt_log WHERE outcome = 'lease_expired' LIMIT 1)"),
    ("a worker's row without its ack", Rule::Together, "
        INSERT INTO torture.own_row SELECT job_id, lease_token FROM agentq.job_attempt WHERE outcome = 'failed' LIMIT 1"),
    ("an ack without its worker's row", Rule::Together, "
        DELETE FROM torture.own_row WHERE token = (SELECT token FROM torture.own_row LIMIT 1)"),
    ("a job in two places", Rule::States, "
        INSERT INTO agentq.job_ready (queue_id, any_queue_id, job_kind, priority, scheduled_at, job_id, keyed)
        SELECT queue_id, queue_id, job_kind, priority, scheduled_at, job_id, false FROM agentq.job LIMIT 1"),
    ("a job in no place", Rule::States, "
        DELETE FROM agentq.job_done WHERE job_id =
            (SELECT job_id FROM agentq.job_queue WHERE state = 'cancelled' AND job_kind <> 'step' LIMIT 1)"),
    ("a dead letter without its letter", Rule::States, "
        DELETE FROM agentq.job_dead_letter WHERE job_id = (SELECT job_id FROM agentq.job_dead_letter LIMIT 1)"),
    (
        "a success with a token that nobody was told of",
        Rule::NothingTwice,
        "
        INSERT INTO agentq.job_attempt_log (job_id, lease_token, began_at, ended_at, outcome, lease_owner)
        SELECT job_id, gen_random_uuid(), began_at, began_at, 'failed', lease_owner
        FROM agentq.job_attempt_log WHERE outcome = 'failed' LIMIT 1",
    ),
    (
        "a mission that has succeeded although a step has not",
        Rule::NothingLeaks,
        "
        UPDATE agentq.mission_step SET status = 'cancelled' WHERE step_id = (SELECT s.step_id FROM agentq.mission_step s
            JOIN agentq.mission m USING (mission_id) WHERE m.status = 'succeeded' LIMIT 1)",
    ),
    (
        "a second job of a step",
        Rule::NothingLeaks,
        "
        SELECT agentq.fn_job_enqueue('step'); SELECT agentq.fn_job_ack(((SELECT c->>'job_id' FROM agentq.fn_job_claim('w', 'step') c))::uuid, 'w')",
    ),
    ("a slot that nobody gives back", Rule::NothingLeaks, "
        SELECT agentq.fn_job_enqueue('limited', 'leak', p_options => '{\"limit_keys\": [\"tenant:0\"]}');
        SELECT agentq.fn_job_claim('leaker', 'limited'); DELETE FROM agentq.job_lease"),
    ("a budget that is spent for nothing", Rule::NothingLeaks, "
        UPDATE agentq.budget_spent SET amount = amount + 1000000 WHERE ctid = (SELECT ctid FROM agentq.budget_spent LIMIT 1);
        UPDATE agentq.budget_use SET amount = amount + 1000000 WHERE ctid = (SELECT ctid FROM agentq.budget_use LIMIT 1)"),
    ("an idempotency key that stays taken", Rule::NothingLeaks, "
        INSERT INTO agentq.job_key (idempotency_key, job_id) SELECT 'leaked', job_id FROM agentq.job LIMIT 1"),
    ("an ordering key that stays taken", Rule::NothingLeaks, "
        INSERT INTO agentq.job_order (queue_id, ordering_key, job_id) SELECT queue_id, 'leaked', job_id FROM agentq.job LIMIT 1"),
];

fn assert_found(what: &str, rule: Rule, problems: &[Problem]) {
    assert!(problems.iter().any(|problem| problem.rule == rule), "{what} was not found as {rule:?}: {problems:#?}");
}

#[test]
fn planted_faults_are_found_and_an_honest_run_has_none() {
    let honest = Honest::run();
    let found = check_all(&honest.books, &mut connect(&honest.cluster, HONEST));
    assert!(found.is_empty(), "the honest run is not: {found:#?}");
    for (number, (what, rule, plant)) in IN_THE_DATABASE.iter().enumerate() {
        let mut client = honest.with(number, plant);
        let problems = check_all(&honest.books, &mut client);
        assert_found(what, *rule, &problems);
        if what.contains("slot") {
            // The job that was left behind is a leak, too.
            assert!(problems.iter().any(|problem| problem.what.contains("slots counted")), "{problems:#?}");
        }
    }
    in_the_ledgers(&honest);
}

/// The same for what the clients believe: the database is honest, and a ledger says otherwise.
fn in_the_ledgers(honest: &Honest) {
    let mut client = connect(&honest.cluster, HONEST);
    let snapshot = Snapshot::read(&mut client).expect("a snapshot");
    let plant = |what: &str, rule: Rule, change: &dyn Fn(&mut Books)| {
        let mut books = honest.books.clone();
        change(&mut books);
        assert_found(what, rule, &check::everything(&books, &snapshot, &Moved::default()));
    };
    let acked =
        *honest.books.claims.iter().find(|(_, claim)| claim.told == Some(Told::Ended(End::Ack))).expect("one").0;

    plant("an ask that was refused, and happened", Rule::NothingTwice, &|books| {
        let asked = books.keys.values_mut().find(|asked| asked.told.len() == 1).expect("one");
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
        books.orders = snapshot.jobs.keys().map(|job| (*job, "one".to_owned())).collect();
    });
    plant("an error that nothing explains", Rule::NoSurprise, &|books| {
        let (code, message, during) = ("XX000".to_owned(), "what?".to_owned(), "a claim".to_owned());
        books.enter("w", Entry::Surprised { code, message, during });
    });

    // Two jobs of one key at once, which both were confirmed: the second ask was told of the wrong one.
    let mut doubled = snapshot.clone();
    let mut ids = snapshot.jobs.keys();
    let (one, other) = (ids.next().expect("a job"), ids.next().expect("another"));
    let twin = Job { finished: None, ..doubled.jobs[one].clone() };
    doubled.jobs.extend([(*one, twin.clone()), (*other, twin)]);
    let problems = check::everything(&honest.books, &doubled, &Moved::default());
    assert!(problems.iter().any(|problem| problem.what.contains("two jobs at once")), "{problems:#?}");
}
