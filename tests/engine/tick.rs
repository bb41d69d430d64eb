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

/// A measure that takes too long is a failure of that chore alone, also where somebody runs all of them by hand.
#[test]
fn a_measure_that_takes_too_long_undoes_nothing_of_the_other_chores() {
    let db = agentq_tests::database();
    let mut s = db.session();
    s.run(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NULL; END';
         CREATE TRIGGER slow BEFORE INSERT ON agentq.metric FOR EACH STATEMENT EXECUTE FUNCTION slow()",
    );
    let lost = s.enqueue("a");
    s.call("fn_job_claim('gone', 'a', 1)");
    s.run("SELECT pg_sleep(1.1)");
    let ticked = s.call("fn_engine_tick()");
    assert_eq!(ticked["failed"], 1, "{ticked}");
    let measured = ticked["chores"].as_array().expect("a list").iter().find(|chore| chore["chore"] == "measure");
    let error = measured.expect("it was run")["error"].to_string();
    assert!(error.contains("longer than 5000 ms"), "{error}");
    assert_eq!(s.state(&lost), "queued");
}
