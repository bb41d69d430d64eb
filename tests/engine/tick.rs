//! Ticks by hand.

use agentq_tests::engine::database;

#[test]
fn a_tick_runs_every_chore_and_says_what_each_did() {
    let db = database();
    let mut s = db.session();
    let ticked = s.call("fn_engine_tick()");
    assert_eq!(ticked["ok"], true, "{ticked}");
    let names: Vec<&str> =
        ticked["chores"].as_array().expect("a list").iter().filter_map(|chore| chore["chore"].as_str()).collect();
    let known = s.texts("SELECT chore FROM agentq.engine_chore ORDER BY chore");
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, known);
}

#[test]
fn a_tick_that_is_rolled_back_has_done_nothing() {
    // Where the engine runs, it would be left to that.
    let db = agentq_tests::database();
    let mut s = db.session();
    s.run("SET agentq.clock_offset = 100000");
    s.call("fn_schedule_set('s', '@every 1h', '{\"job_kind\": \"x\"}')");
    s.run("SET agentq.clock_offset = 200000");
    s.run("BEGIN");
    s.call("fn_engine_tick('run_schedules')");
    assert_eq!(s.count("agentq_internal.job"), 1);
    s.run("ROLLBACK");
    assert_eq!(s.count("agentq_internal.job"), 0);
    s.call("fn_engine_tick('run_schedules')");
    assert_eq!(s.count("agentq_internal.job"), 1);
}
