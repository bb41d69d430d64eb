//! Round after round: the load runs, a fault strikes, the load goes on, and the books are compared. Between the rounds nobody works; at
//! the end the rest is done, and nothing may be left.

use crate::Failure;
use crate::check::{self, Problem, Rule};
use crate::dice::Dice;
use crate::faults::{Fault, Length, reindex, upgrade};
use crate::ledger::now;
use crate::load::Manner;
use crate::load::fleet::{Crew, Fleet};
use crate::options::Options;
use crate::report::Report;
use crate::stage::{Regime, Scene, Stage};
use crate::ticker::Ticker;
use agentq_tests::PATIENCE;
use postgres::Client;
use std::time::{Duration, Instant};

/// How long the load runs before a fault, and after it, when it is under way.
const BEFORE: Duration = Duration::from_millis(1000);
const AFTER: Duration = Duration::from_millis(800);
/// After this many jobs the torture goes on in a new database.
const CHAPTER: usize = 40_000;
/// Work that is left at the end must be done in this time.
const DRAIN: Duration = Duration::from_secs(300);

pub struct Rounds {
    options: Options,
    stage: Stage,
    scene: Scene,
    dice: Dice,
    /// An open transaction with an old snapshot, as somebody may have forgotten one.
    pinned: Option<Client>,
    /// Where nothing happens by itself: who calls.
    ticker: Option<Ticker>,
    report: Report,
}

impl Rounds {
    pub fn new(options: Options) -> Result<Rounds, Failure> {
        let stage = Stage::beyond_a_network(options.regime)?;
        let scene = stage.scene("torture", None)?;
        let (dice, report) = (Dice::new(options.seed), Report::new(&options));
        let mut rounds = Rounds { options, stage, scene, dice, pinned: None, ticker: None, report };
        rounds.begin()?;
        Ok(rounds)
    }

    /// What goes on beside the load in a database.
    fn begin(&mut self) -> Result<(), Failure> {
        if self.stage.regime == Regime::Bare {
            self.ticker = Some(Ticker::start(&self.stage.url(&self.scene.database)));
        }
        self.pin()
    }

    fn length(&self) -> Length {
        if self.options.short { Length::Short } else { Length::Long }
    }

    /// Every fault once, in one order: the short form.
    pub fn each_once(mut self) -> Result<Report, Failure> {
        for fault in Fault::ALL {
            self.round(fault)?;
        }
        self.finish()
    }

    /// Until the time is over; every other round kills what can be killed, again and again.
    pub fn for_a_time(mut self) -> Result<Report, Failure> {
        let only = match &self.options.only {
            None => None,
            Some(name) => Some(
                *Fault::ALL
                    .iter()
                    .find(|fault| format!("{fault:?}") == *name)
                    .ok_or_else(|| format!("there is no fault {name}; there are {:?}", Fault::ALL))?,
            ),
        };
        let until = Instant::now() + self.options.time;
        let mut others: Vec<Fault> = Vec::new();
        // Where the clock jumps, times say nothing: these rounds come last.
        let jumps = until.checked_sub(self.options.time / 12).unwrap_or(until);
        let mut number = 0;
        while Instant::now() < until {
            number += 1;
            if others.is_empty() {
                others =
                    Fault::ALL.into_iter().filter(|fault| !matches!(fault, Fault::Barrage | Fault::Clock)).collect();
            }
            let fault = match only {
                Some(fault) => fault,
                None if Instant::now() > jumps => Fault::Clock,
                None if number % 2 == 0 => Fault::Barrage,
                None => others.swap_remove(self.dice.below(others.len() as u64) as usize),
            };
            self.round(fault)?;
            if self.scene.books.confirmed_jobs() > CHAPTER {
                self.turn_over()?;
            }
        }
        self.finish()
    }

    /// Does what is left, compares, and goes on in a new database: what is compared does not grow for ever.
    fn turn_over(&mut self) -> Result<(), Failure> {
        let problems = self.close()?;
        self.report.closed(problems, &self.scene.books);
        let done = self.scene.database.clone();
        self.scene = self.stage.scene(&format!("torture_{}", self.report.fleets), None)?;
        self.stage.connect_patiently("postgres")?.batch_execute(&format!("DROP DATABASE {done} WITH (FORCE)"))?;
        self.begin()
    }

    fn round(&mut self, fault: Fault) -> Result<(), Failure> {
        if let Some(why) = fault.missing(&self.stage) {
            self.report.left_out(fault, why);
            return Ok(());
        }
        if fault == Fault::Upgrade {
            return self.upgrade();
        }
        // A rebuild of an index waits for every old snapshot.
        if fault == Fault::Reindex {
            self.pinned = None;
        } else {
            self.pin()?;
        }
        let mut scene = self.take_scene();
        let outcome = self.strike(fault, &mut scene);
        self.scene = scene;
        let (stall, mut problems) = outcome?;
        problems.extend(self.scene.check(&self.stage)?);
        if fault == Fault::Reindex {
            problems.extend(self.indexes()?);
        }
        self.report.round(fault, stall, problems, &self.scene.books);
        self.report.kills = self.stage.kills;
        Ok(())
    }

    /// The scene, in the hands of a round. What is left in its place is empty.
    fn take_scene(&mut self) -> Scene {
        let empty = Scene::empty(&self.scene.database, &self.scene.ledgers);
        std::mem::replace(&mut self.scene, empty)
    }

    /// The load, with a fault in its middle. Returns for how many seconds nobody was told of an ack, at most.
    fn strike(&mut self, fault: Fault, scene: &mut Scene) -> Result<(f64, Vec<Problem>), Failure> {
        let mut fleet = self.fleet(scene, fault.crew());
        fleet.start();
        self.until_work_goes_on(scene, Instant::now())?;
        std::thread::sleep(BEFORE + Duration::from_millis(self.dice.below(400)));
        let struck = now();
        let length = self.length();
        let mut problems = fault.strike(&mut self.stage, scene, &mut fleet, &mut self.dice, length)?;
        self.until_work_goes_on(scene, Instant::now())?;
        let over = now();
        std::thread::sleep(AFTER);
        fleet.stop();
        scene.acks()?;
        let (stall, problem) = check::stall(&scene.books, struck, over, fault.longest_stall());
        // In the tests the machine may be busy with something else.
        problems.extend(problem.filter(|_| length == Length::Long));
        scene.crashed(&mut self.stage)?;
        Ok((stall, problems))
    }

    fn fleet(&mut self, scene: &Scene, mut crew: Crew) -> Fleet {
        crew.manner.forgiving = self.stage.regime == Regime::Async;
        self.report.fleets += 1;
        let name = format!("f{}", self.report.fleets);
        let seed = self.options.seed.wrapping_mul(1000).wrapping_add(self.report.fleets);
        Fleet::new(&self.options.program, &self.stage.url(&scene.database), &scene.ledgers, &name, seed, crew)
    }

    fn until_work_goes_on(&self, scene: &mut Scene, struck: Instant) -> Result<f64, Failure> {
        let before = scene.acks()?;
        while scene.acks()? == before {
            if struck.elapsed() > PATIENCE {
                return Err("nobody works any more".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(struck.elapsed().as_secs_f64())
    }

    /// In a database of its own, which begins with one version and goes on to the next.
    fn upgrade(&mut self) -> Result<(), Failure> {
        let ways = upgrade::ways(&self.stage)?;
        let (version, to) = self.dice.one_of(&ways).clone();
        self.report.upgrades += 1;
        let name = format!("upgraded_{}", self.report.upgrades);
        let mut scene = self.stage.scene(&name, Some((&version, &to)))?;
        let (stall, mut problems) = self.strike(Fault::Upgrade, &mut scene)?;
        self.drain(&mut scene)?;
        problems.extend(scene.check(&self.stage)?);
        let mut client = self.stage.connect_patiently(&name)?;
        problems.extend(check::drained(&mut client, check::PATIENCE)?);
        drop(client);
        for problem in &mut problems {
            problem.what = format!("upgraded from {version}: {}", problem.what);
        }
        self.report.aside(Fault::Upgrade, stall, problems, &scene.books);
        self.stage.connect_patiently("postgres")?.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))?;
        Ok(())
    }

    /// Opens a transaction with a snapshot, if there is none or the server has ended it.
    fn pin(&mut self) -> Result<(), Failure> {
        if self.pinned.as_mut().is_some_and(|client| client.simple_query("SELECT 1").is_ok()) {
            return Ok(());
        }
        let mut client = self.stage.connect_patiently(&self.scene.database)?;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM torture.own_row")?;
        self.pinned = Some(client);
        Ok(())
    }

    fn indexes(&mut self) -> Result<Vec<Problem>, Failure> {
        let mut client = self.stage.connect_patiently(&self.scene.database)?;
        reindex::tidy(&mut client)?;
        let found = reindex::verify(&mut client)?;
        Ok(found.into_iter().map(|text| Problem::new(Rule::States, text)).collect())
    }

    /// Dutiful workers do what is left.
    fn drain(&mut self, scene: &mut Scene) -> Result<(), Failure> {
        let manner = Manner { dutifully: true, ..Manner::default() };
        let mut fleet = self.fleet(scene, Crew { producers: 0, workers: 4, meddlers: 0, manner });
        fleet.start();
        let mut client = self.stage.connect_patiently(&scene.database)?;
        client.batch_execute("SELECT agentq.fn_schedule_pause('torture')")?;
        let until = Instant::now() + DRAIN;
        let left =
            "SELECT EXISTS (SELECT FROM agentq_internal.job_ready UNION ALL SELECT FROM agentq_internal.job_waiting
            UNION ALL SELECT FROM agentq_internal.job_line UNION ALL SELECT FROM agentq_internal.job_lease)
            OR EXISTS (SELECT FROM agentq.mission WHERE completed_at IS NULL)";
        while client.query_one(left, &[])?.get(0) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        fleet.stop();
        Ok(())
    }

    fn finish(mut self) -> Result<Report, Failure> {
        let problems = self.close()?;
        self.report.finish(problems, &self.scene.books);
        // A run in which nobody met these paths would prove nothing of them.
        for reason in ["poison", "exhausted"] {
            if self.options.only.is_none() && !self.report.letters.contains_key(reason) {
                return Err(format!("no job ended as {reason}: {:?}", self.report.letters).into());
            }
        }
        Ok(self.report)
    }

    /// Does all that is left; then nothing may be.
    fn close(&mut self) -> Result<Vec<Problem>, Failure> {
        self.pinned = None;
        let mut scene = self.take_scene();
        self.drain(&mut scene)?;
        self.scene = scene;
        let mut problems = self.scene.check(&self.stage)?;
        let mut client = self.stage.connect_patiently(&self.scene.database)?;
        problems.extend(check::drained(&mut client, check::PATIENCE)?);
        for row in client.query("SELECT reason, count(*) FROM agentq.job_dead_letter GROUP BY reason", &[])? {
            *self.report.letters.entry(row.get(0)).or_default() += row.get::<_, i64>(1);
        }
        problems.extend(self.indexes()?);
        self.ticker = None;
        Ok(problems)
    }
}
