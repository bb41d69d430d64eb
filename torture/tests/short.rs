//! The short form of the torture: every fault once, under load.

use agentq_torture::options::Options;
use agentq_torture::rounds::Rounds;
use agentq_torture::stage::Regime;
use std::time::Duration;

#[test]
fn nothing_is_lost_or_done_twice_whatever_fails() {
    let seed = std::env::var("AGENTQ_SEED").map_or(1, |seed| seed.parse().expect("AGENTQ_SEED is a number"));
    let options = Options {
        time: Duration::ZERO,
        seed,
        only: None,
        short: true,
        publish: false,
        regime: Regime::Usual,
        program: env!("CARGO_BIN_EXE_agentq-torture").into(),
    };
    let report = Rounds::new(options).and_then(Rounds::each_once).expect("the torture comes to its end");
    println!("{}", report.table());
    assert!(report.problems.is_empty(), "promises were broken:\n{:#?}", report.problems);
}
