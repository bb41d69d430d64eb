//! Every function of the schema, called thousands of times with what nobody meant it to be called with.
//!
//! What a call may do is answer, or raise a fitting error (`judge`). It may not end the session, take longer than ten
//! seconds, or leave the queue unsound. A seed to try again is given as AGENTQ_SEED, more calls as AGENTQ_FUZZ_CALLS.

use crate::catalog::{self, Function};
use crate::corpus::{Lexicon, Maker};
use crate::judge;
use crate::world::World;
use agentq_tests::dice::{self, Dice};
use agentq_tests::process::memory_of_kb;
use agentq_tests::{Database, Session, database, json, shared_cluster};
use std::collections::{BTreeMap, BTreeSet};

/// By how much the memory of a session may grow from the first half of its calls to the last, in kB.
const GROWTH_KB: i64 = 64 * 1024;
/// What would change how everything else behaves is undone.
const UNDONE: [&str; 12] = [
    "_set",
    "_remove",
    "_pause",
    "_resume",
    "_register",
    "_grant",
    "_revoke",
    "_purge",
    "_preset",
    "concurrency",
    "_tick",
    "_report",
];

struct Fuzzer {
    s: Session,
    world: World,
    dice: Dice,
    lexicon: Lexicon,
    /// What was wrong, each kind of it once, with the call.
    wrong: BTreeMap<String, String>,
    codes: BTreeMap<String, usize>,
    /// Functions that were called so that they did answer.
    answered: BTreeSet<String>,
}

impl Fuzzer {
    fn new(db: &Database<'_>, seed: u64) -> Fuzzer {
        let mut s = db.session();
        let world = World::new(&mut s);
        s.run("SET statement_timeout = '10s'");
        let (dice, lexicon) = (Dice::new(seed), Lexicon::default());
        Fuzzer { s, world, dice, lexicon, wrong: BTreeMap::new(), codes: BTreeMap::new(), answered: BTreeSet::new() }
    }

    fn run(&mut self, functions: &[Function], calls: usize) {
        for number in 0..calls {
            if number % 250 == 0 {
                self.world.look(&mut self.s);
            }
            let mut function = self.dice.one_of(functions).clone();
            // Those for the owner alone are tried less often: most of them change tables.
            if !function.is_public && self.dice.chance(75) {
                function = self.dice.one_of(functions).clone();
            }
            self.call(&function);
        }
    }

    fn call(&mut self, function: &Function) {
        let mut maker = Maker { world: &self.world, lexicon: &self.lexicon, dice: &mut self.dice };
        let arguments = maker.arguments(function);
        let call = format!("SELECT sum(length(f::text)) FROM {}({arguments}) f", function.qualified());
        let undone = !function.is_public || UNDONE.iter().any(|part| function.name.contains(part));
        let statement = match self.dice.below(8) {
            0 if undone && self.dice.chance(15) => format!("BEGIN; {call}; SELECT agentq.fn_engine_tick(); ROLLBACK"),
            0..4 if undone => format!("BEGIN; {call}; SELECT agentq.fn_job_enqueue('a'); ROLLBACK"),
            _ if undone => format!("BEGIN; {call}; ROLLBACK"),
            0 => format!("BEGIN; SAVEPOINT a; {call}; ROLLBACK TO a; COMMIT"),
            1 => format!("BEGIN; {call}; ROLLBACK"),
            _ => call.clone(),
        };
        let Err(error) = self.s.0.simple_query(&statement) else {
            self.answered.insert(function.name.clone());
            return;
        };
        let Some(error) = error.as_db_error() else { panic!("the session has ended: {error}\n{statement}") };
        *self.codes.entry(error.code().code().to_owned()).or_default() += 1;
        self.lexicon.learn(&function.name, error.hint().unwrap_or_default());
        if let Some(problem) = judge::unfit(function, error) {
            let kind = format!("{}: {problem}", function.name);
            self.wrong.entry(kind).or_insert_with(|| format!("{}\n    {statement:.400}", judge::told(error)));
        }
        if statement.starts_with("BEGIN") {
            self.s.run("ROLLBACK");
        }
    }

    fn assert_fit(&self, seed: u64) {
        let wrong: Vec<String> = self.wrong.iter().map(|(kind, call)| format!("{kind}\n    {call}")).collect();
        assert!(wrong.is_empty(), "with AGENTQ_SEED={seed}:\n{}", wrong.join("\n"));
    }
}

/// How many calls are made in all (AGENTQ_FUZZ_CALLS).
fn calls() -> usize {
    std::env::var("AGENTQ_FUZZ_CALLS").map_or(20_000, |calls| calls.parse().expect("AGENTQ_FUZZ_CALLS is a number"))
}

/// A job is enqueued, claimed and finished.
fn assert_works(s: &mut Session) {
    s.call("fn_job_enqueue('after all of that')");
    let claim = s.call("fn_job_claim('after', 'after all of that')");
    assert_eq!(claim["code"], json!("claimed"), "{claim}");
    let job = claim["job_id"].as_str().expect("a job");
    assert_eq!(s.call(&format!("fn_job_ack('{job}', 'after')->'code'")), json!("succeeded"));
}

fn fuzz(seed: u64, calls: usize) {
    println!("{calls} calls with AGENTQ_SEED={seed}");
    let db = database();
    let started = "SELECT pg_postmaster_start_time()";
    let before = db.session().text(started);
    let mut fuzzer = Fuzzer::new(&db, seed);
    let mut functions = catalog::functions(&mut fuzzer.s);
    functions.retain(|function| !function.is_trigger);
    fuzzer.run(&functions, calls / 2);
    let half = memory_of_kb(&mut fuzzer.s);
    fuzzer.run(&functions, calls - calls / 2);
    let grown = memory_of_kb(&mut fuzzer.s) - half;
    println!("seed {seed}: {:?}; the session has {half} kB, and {grown} more in the end", fuzzer.codes);
    fuzzer.assert_fit(seed);
    // Otherwise only doors were tried, and nothing behind them.
    let public = functions.iter().filter(|function| function.is_public);
    let (answered, never): (Vec<&str>, Vec<&str>) =
        public.map(|function| function.name.as_str()).partition(|name| fuzzer.answered.contains(*name));
    println!("seed {seed}: never answered: {never:?}");
    assert!(answered.len() > 9 * never.len(), "with AGENTQ_SEED={seed} these never answered: {never:?}");
    assert!(grown < GROWTH_KB, "with AGENTQ_SEED={seed} the session has grown by {grown} kB");
    assert_eq!(db.session().text(started), before, "the server has not restarted");
    db.assert_sound();
    assert_works(&mut fuzzer.s);
    judge::assert_calm(db.cluster);
}

#[test]
fn whatever_a_function_is_called_with_it_answers_or_refuses_clearly() {
    let seeds = dice::seeds_and_a_new_one(2);
    let calls = calls() / seeds.len();
    std::thread::scope(|scope| {
        for seed in seeds {
            scope.spawn(move || fuzz(seed, calls));
        }
    });
}

#[test]
fn a_trigger_function_that_is_called_by_hand_is_refused() {
    let db = database();
    let mut s = db.session();
    let functions = catalog::functions(&mut s);
    let triggers: Vec<&Function> = functions.iter().filter(|function| function.is_trigger).collect();
    assert!(triggers.len() > 5, "{triggers:?}");
    for function in triggers {
        let failure = s.fails(&format!("SELECT {}()", function.qualified()));
        // The one that is written in Rust says it in the words of its library.
        let code = if function.name == "fn_settings_changed" { "XX000" } else { "0A000" };
        assert_eq!(failure.code, code, "{}: {failure:?}", function.name);
        assert_eq!(s.text("SELECT 1"), "1");
    }
    judge::assert_calm(shared_cluster());
}
