//! A short soak: what would leak with every job shows after some thousands of them.

use agentq_torture::soak;
use agentq_torture::stage::{Regime, Stage};

#[test]
fn memory_and_open_files_stay_flat_while_jobs_pass() {
    let stage = Stage::new(Regime::Usual).expect("a server");
    let samples = soak::pass(&stage, 60_000).expect("the jobs pass");
    assert!(samples.len() >= 8, "too little was seen of it: {} samples", samples.len());
    println!("{}", soak::table(&samples));
    // Tables are judged by the long form: autovacuum has hardly begun here.
    for line in soak::LINES.iter().take(4) {
        assert!(line.is_flat(&samples), "{}: {:?}", line.name, line.quarters(&samples));
    }
}
