//! What the chores do by themselves.

use agentq_tests::engine::{after_a_turn, database, hurry, runs, shared};
use agentq_tests::{eventually, id, json, text};

#[test]
fn expired_leases_are_recovered_and_extended_ones_are_not() {
    let db = database();
    let mut s = db.session();
    let (lost, kept) = (s.enqueue("lost"), s.enqueue("kept"));
    // Nobody recovers the other lease before it is extended.
    s.call("fn_engine_chore_set('reap_leases', p_enabled => false)");
    s.call("fn_job_claim('gone', 'lost', 1)");
    let first = text(&s.call("fn_job_claim('alive', 'kept', 1)"), "lease_until");
    s.call(&format!("fn_job_heartbeat('{kept}', 'alive', 600)"));
    eventually("both had run out", || s.text(&format!("SELECT clock_timestamp() > '{first}'")) == "t");
    s.call("fn_engine_chore_set('reap_leases', p_enabled => true)");
    eventually("the lost one is back", || s.state(&lost) == "queued");
    after_a_turn(&mut s);
    assert_eq!(s.state(&kept), "leased");
    assert_eq!(s.text(&format!("SELECT outcome FROM agentq.job_attempt WHERE job_id = '{lost}'")), "lease_expired");
    db.assert_sound();
}

#[test]
fn a_job_whose_attempts_are_used_up_ends_in_the_dead_letters() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('x', p_max_attempts => 1)"));
    s.call("fn_job_claim('gone', p_lease_seconds => 1)");
    eventually("it is dead", || s.state(&job) == "dead_letter");
    assert_eq!(s.count(&format!("agentq.job_dead_letter WHERE job_id = '{job}'")), 1);
}

#[test]
fn more_expired_leases_than_a_batch_holds_are_all_recovered() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_job_enqueue('x') FROM generate_series(1, 1300)");
    for _ in 0..2 {
        s.call("fn_job_claim_batch('gone', 1000, p_lease_seconds => 1)");
    }
    eventually("all are back", || s.count("agentq_internal.job_ready") == 1300);
    assert_eq!(s.count("agentq_internal.job_lease"), 0);
    db.assert_sound();
}

#[test]
fn a_change_of_an_executors_class_is_an_event() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_heartbeat_tick('robot', 'Agent')");
    s.run("UPDATE agentq.queue_heartbeat SET last_tick_at = now() - interval '450 s'");
    hurry(&mut s, "check_executors");
    let events = |s: &mut agentq_tests::Session| {
        s.texts("SELECT event_kind FROM agentq.event WHERE subject = 'robot' ORDER BY event_id")
    };
    eventually("it is in warning", || events(&mut s) == ["executor.warning"]);
    s.run("UPDATE agentq.queue_heartbeat SET last_tick_at = now() - interval '700 s'");
    eventually("it is stale", || events(&mut s).last().map(String::as_str) == Some("executor.stale"));
    s.call("fn_queue_heartbeat_tick('robot', 'Agent')");
    eventually("it is fresh", || events(&mut s) == ["executor.warning", "executor.stale", "executor.fresh"]);
    assert_eq!(s.text("SELECT payload->>'was' FROM agentq.event ORDER BY event_id DESC LIMIT 1"), "stale");
}

#[test]
fn jobs_of_a_stale_executor_are_recovered_early_if_so_configured() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    s.call("fn_job_claim('silent', p_lease_seconds => 3600)");
    let late = s.enqueue("x");
    s.call("fn_queue_heartbeat_tick('robot', 'Agent', p_lease_owner => 'silent')");
    let busy = s.enqueue("x");
    s.call("fn_job_claim('busy', p_lease_seconds => 3600)");
    s.call("fn_queue_heartbeat_tick('other', 'Agent', p_lease_owner => 'busy')");
    s.run(
        "UPDATE agentq_internal.job_lease SET picked_at = now() - interval '1 hour';
         UPDATE agentq.queue_heartbeat SET last_tick_at = now() - interval '30 min'",
    );
    // It has not ticked, but it has claimed: it is there.
    s.run("UPDATE agentq_internal.job_lease SET picked_at = now() WHERE lease_owner = 'busy'");
    hurry(&mut s, "check_executors");
    eventually("it is stale", || s.count("agentq.queue_heartbeat WHERE freshness = 'stale'") == 2);
    assert_eq!(s.state(&job), "leased", "the option is off");
    s.call("fn_config_set('queue.heartbeat.reap_stale', 'true')");
    eventually("the job is back", || s.state(&job) == "queued");
    assert_eq!(s.text(&format!("SELECT error_class FROM agentq.job_attempt WHERE job_id = '{job}'")), "executor_stale");
    let held: Vec<String> = s.texts("SELECT job_id FROM agentq_internal.job_lease WHERE lease_owner = 'busy'");
    assert!(held == [late] || held == [busy], "{held:?}");
}

#[test]
fn finished_jobs_go_when_their_queue_no_longer_keeps_them() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_queue_set('brief', '{\"keep_seconds\": 0}'), agentq.fn_queue_set('long')");
    for queue in ["brief", "long"] {
        s.run(&format!(
            "SELECT agentq.fn_job_enqueue('x', p_options => '{{\"queue\": \"{queue}\"}}') FROM generate_series(1, 1500);
             SELECT agentq.fn_job_claim_batch('w', 1000, p_options => '{{\"queues\": [\"{queue}\"]}}') FROM generate_series(1, 2);
             SELECT agentq.fn_job_ack(job_id, 'w') FROM agentq_internal.job_lease"
        ));
    }
    let dead = id(&s.call("fn_job_enqueue('d', p_options => '{\"queue\": \"brief\"}')"));
    s.call(&format!("fn_job_move_to_dead_letter('{dead}', 'no use')"));
    hurry(&mut s, "clean_finished");
    eventually("the brief ones are gone", || s.count("agentq.job_queue WHERE queue = 'brief'") == 0);
    assert_eq!(s.count("agentq.job_queue WHERE queue = 'long' AND state = 'succeeded'"), 1500);
    assert_eq!(s.count(&format!("agentq.job_dead_letter WHERE job_id = '{dead}'")), 1);
    s.call("fn_config_set('queue.retention.keep_seconds', '0')");
    eventually("the others follow", || s.count("agentq_internal.job") == 0);
    db.assert_sound();
}

#[test]
fn what_has_expired_goes_and_what_has_not_stays() {
    let db = database();
    let mut s = db.session();
    let metric = "INSERT INTO agentq.metric SELECT now() - n * interval '1 day', 'q', 'k', 1, 0, 0, 0, 0, 0,
        NULL, NULL, NULL, NULL, NULL, NULL,";
    s.run(&format!("{metric} now() - interval '1 s' FROM generate_series(1, 1200) n"));
    s.run(&format!("{metric} now() + interval '1 day' FROM generate_series(2001, 2002) n"));
    hurry(&mut s, "expire");
    eventually("the old ones are gone", || s.count("agentq.metric WHERE queue = 'q'") == 2);
}

#[test]
fn the_metrics_count_what_has_happened() {
    let db = database();
    let mut s = db.session();
    hurry(&mut s, "measure");
    s.run("SELECT agentq.fn_job_enqueue('m') FROM generate_series(1, 7)");
    s.run("SELECT agentq.fn_job_enqueue('m', p_scheduled_at => now() + interval '1 day')");
    s.call("fn_job_claim_batch('w', 5, 'm')");
    s.run("SELECT pg_sleep(0.3)");
    s.run("SELECT agentq.fn_job_ack(job_id, 'w') FROM (SELECT job_id FROM agentq_internal.job_lease LIMIT 4) l");
    eventually("they are measured", || {
        s.text("SELECT coalesce(sum(finished), 0) FROM agentq.metric WHERE job_kind = 'm'") == "4"
    });
    let last = "FROM agentq.metric WHERE job_kind = 'm' AND finished = 4 ORDER BY taken_at DESC LIMIT 1";
    let depth = s.text(&format!("SELECT concat_ws(' ', queue, ready, waiting, held, succeeded) {last}"));
    assert_eq!(depth, "default 2 1 1 4");
    let times = s.text(&format!("SELECT run_p50 >= 0.3 AND run_p99 >= run_p50 AND wait_p50 >= 0 {last}"));
    assert_eq!(times, "t");
    s.run("UPDATE agentq.metric SET expires_at = now()");
    let ticked = s.call("fn_engine_tick('expire')");
    assert!(ticked["chores"][0]["rows"].as_i64() > Some(0), "{ticked}");
}

#[test]
fn a_broken_chore_is_named_backed_off_and_stops_no_other() {
    let db = database();
    let mut s = db.session();
    s.run("ALTER TABLE agentq.metric ADD CONSTRAINT broken_by_test CHECK (false) NOT VALID");
    s.enqueue("x");
    hurry(&mut s, "measure");
    eventually("its failure is shown", || {
        s.count("agentq.v_engine_chore WHERE chore = 'measure' AND failures > 1 AND last_error LIKE '%broken_by_test%'")
            == 1
    });
    eventually("it is in the log", || shared().log().contains("agentq: chore measure failed"));
    let paused =
        s.text("SELECT next_run_at > last_run_at + interval '1 s' FROM agentq.v_engine_chore WHERE chore = 'measure'");
    assert_eq!(paused, "t", "it is not backed off");
    let before = runs(&mut s, "reap_leases");
    eventually("the others go on", || runs(&mut s, "reap_leases") > before + 1);
    let ticked = s.call("fn_engine_tick()");
    assert_eq!((&ticked["ok"], &ticked["failed"]), (&json!(false), &json!(1)), "{ticked}");
    s.run("ALTER TABLE agentq.metric DROP CONSTRAINT broken_by_test");
    hurry(&mut s, "measure");
    eventually("it is well again", || s.count("agentq.v_engine_chore WHERE chore = 'measure' AND failures = 0") == 1);
}

#[test]
fn a_chore_can_be_switched_off_and_the_gate_closed() {
    let db = database();
    let mut s = db.session();
    s.call("fn_engine_chore_set('reap_leases', p_enabled => false)");
    let job = s.enqueue("x");
    s.call("fn_job_claim('gone', p_lease_seconds => 1)");
    eventually("its lease has run out", || {
        s.count("agentq_internal.job_lease WHERE lease_until < clock_timestamp()") == 1
    });
    hurry(&mut s, "promote_due");
    let others = runs(&mut s, "promote_due");
    eventually("the engine has gone on", || runs(&mut s, "promote_due") > others + 2);
    assert_eq!(s.state(&job), "leased");
    s.call("fn_config_set('queue.worker.enabled', 'false')");
    assert_eq!(s.call("fn_engine_tick()")["code"], "gate_closed");
    s.call("fn_engine_chore_set('reap_leases', p_enabled => true)");
    // Behind a closed gate nothing runs that could be waited for.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(s.state(&job), "leased");
    s.call("fn_config_set('queue.worker.enabled', 'true')");
    eventually("it runs again", || s.state(&job) == "queued");
    for (call, message) in [
        ("fn_engine_chore_set('dishes')", "there is no chore \"dishes\""),
        ("fn_engine_tick('dishes')", "there is no chore \"dishes\""),
        ("fn_engine_chore_set('expire', p_every_seconds => 0)", "p_every_seconds must be from 0.1 to 86400, but is 0"),
    ] {
        let failure = s.fails(&format!("SELECT agentq.{call}"));
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("22023", message), "{failure:?}");
        assert!(!failure.hint.is_empty());
    }
}
