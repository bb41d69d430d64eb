//! Memory stays flat, however long the engine runs.

use agentq_tests::engine::{database, worker_pid};
use agentq_tests::eventually;
use agentq_tests::process::memory_kb;

#[test]
fn thousands_of_ticks_take_no_more_memory_than_hundreds() {
    let db = database();
    let mut s = db.session();
    let used = |s: &mut agentq_tests::Session| -> i64 {
        s.text("SELECT sum(used_bytes)::bigint FROM pg_backend_memory_contexts").parse().expect("a number")
    };
    let ticks = "DO $$ BEGIN FOR i IN 1..250 LOOP PERFORM agentq.fn_engine_tick(); END LOOP; END $$";
    s.run(ticks);
    s.run(ticks);
    let before = used(&mut s);
    for _ in 0..6 {
        s.run(ticks);
    }
    let after = used(&mut s);
    assert!(after <= before + 300_000, "from {before} to {after} bytes");
}

#[test]
fn the_worker_does_not_grow() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_engine_chore_set(chore, p_every_seconds => 0.1) FROM agentq.engine_chore");
    let runs = |s: &mut agentq_tests::Session| -> i64 {
        s.text("SELECT coalesce(sum(runs), 0)::bigint FROM agentq_internal.fn_engine_live()").parse().expect("a number")
    };
    eventually("it is warm", || (200..1_000_000).contains(&runs(&mut s)));
    let pid = worker_pid(&mut s);
    let (before, seen) = (memory_kb(&pid), runs(&mut s));
    eventually("a thousand runs more", || runs(&mut s) > seen + 1000);
    let after = memory_kb(&pid);
    assert!(after <= before + 1_000, "from {before} to {after} kB");
}
