//! The load against two servers, and what its ledgers say of the one that leads.

use crate::pair::Pair;
use agentq_tests::eventually;
use agentq_torture::check::books::Books;
use agentq_torture::check::snapshot::Snapshot;
use agentq_torture::check::{self, Moved, Problem};
use agentq_torture::ledger::Shelf;
use agentq_torture::load::Manner;
use agentq_torture::load::fleet::{Crew, Fleet};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The database that the load works in.
pub const DATABASE: &str = "torture";

pub struct Load {
    ledgers: PathBuf,
    shelf: Shelf,
    pub books: Books,
    fleets: u64,
}

impl Load {
    /// Makes the database on the primary, and a folder for the ledgers.
    pub fn prepare(name: &str, pair: &Pair) -> Load {
        pair.primary.session("postgres").run(&format!("CREATE DATABASE {DATABASE}"));
        let mut session = pair.primary.session(DATABASE);
        agentq_torture::stage::set_up(&mut session.0).expect("the database is made ready");
        let folder = std::env::var("AGENTQ_TEST_DIR").expect("AGENTQ_TEST_DIR");
        // With the number of this process, as the clusters have it, so that leftovers are found.
        let ledgers = Path::new(&folder).join(format!("{name}-ledgers-{}-0", std::process::id()));
        std::fs::create_dir_all(&ledgers).expect("a folder for the ledgers");
        Load { shelf: Shelf::new(&ledgers), ledgers, books: Books::default(), fleets: 0 }
    }

    fn fleet(&mut self, pair: &Pair, crew: Crew) -> Fleet {
        self.fleets += 1;
        let (program, name) = (Path::new(env!("CARGO_BIN_EXE_agentq-torture")), format!("f{}", self.fleets));
        let mut fleet = Fleet::new(program, &pair.url(DATABASE), &self.ledgers, &name, self.fleets, crew);
        fleet.start();
        fleet
    }

    pub fn start(&mut self, pair: &Pair) -> Fleet {
        self.fleet(pair, Crew { producers: 1, workers: 4, meddlers: 1, manner: Manner::default() })
    }

    /// How many acks were confirmed so far.
    pub fn acks(&mut self) -> u64 {
        self.books.read(&mut self.shelf).expect("the ledgers can be read");
        self.books.acks
    }

    /// Waits until `acks` more acks were confirmed.
    #[track_caller]
    pub fn work(&mut self, acks: u64) {
        let wanted = self.acks() + acks;
        eventually("workers are told of acks", || self.acks() >= wanted);
    }

    /// Changes the roles under load, and says how long nobody was told of an ack.
    #[track_caller]
    pub fn fail_over(&mut self, pair: &mut Pair) {
        let killed = Instant::now();
        pair.fail_over();
        let promoted = killed.elapsed();
        self.work(1);
        println!(
            "promoted {:.2} s after the kill, and the next ack was confirmed after {:.2} s",
            promoted.as_secs_f64(),
            killed.elapsed().as_secs_f64()
        );
    }

    /// What does not fit between the ledgers and the primary. Nobody may be at work.
    pub fn problems(&mut self, pair: &Pair) -> Vec<Problem> {
        self.acks();
        let mut session = pair.primary.session(DATABASE);
        let snapshot = Snapshot::read(&mut session.0).expect("a snapshot");
        let mut problems = check::everything(&self.books, &snapshot, &Moved::default());
        problems.extend(check::slots(&mut session.0, check::PATIENCE).expect("the slots"));
        problems
    }

    #[track_caller]
    pub fn assert_nothing_lost(&mut self, pair: &Pair) {
        let problems = self.problems(pair);
        assert!(problems.is_empty(), "{} promises were broken: {problems:#?}", problems.len());
        println!("{} jobs and {} acks were confirmed, and are there", self.books.confirmed_jobs(), self.books.acks);
    }

    /// Dutiful workers do what is left; returns what is then still there.
    pub fn drain(&mut self, pair: &Pair) -> Vec<Problem> {
        let manner = Manner { dutifully: true, ..Manner::default() };
        let mut fleet = self.fleet(pair, Crew { producers: 0, workers: 4, meddlers: 0, manner });
        let mut session = pair.primary.session(DATABASE);
        eventually("all jobs are done", || session.count("agentq.job_queue WHERE finished_at IS NULL") == 0);
        fleet.stop();
        check::drained(&mut session.0, check::PATIENCE).expect("what is left")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.ledgers).ok();
    }
}
