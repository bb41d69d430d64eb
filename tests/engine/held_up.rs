//! An end of a job, and the engine, wait for nobody's open transaction, whatever that has touched: each test leaves one open
//! and lets a worker, or the engine, go on with just what it has touched.

use agentq_tests::engine::{database, engine_cluster, hurry, running};
use agentq_tests::{Database, Session, eventually, expect, id, json, text};

/// A worker's session, which gives up where it would wait for a stranger.
fn worker(db: &Database<'_>) -> Session {
    let mut s = db.session();
    s.run("SET lock_timeout = '3s'");
    s
}

/// A session with an open transaction in which it has made these calls, whatever they have answered.
fn open(db: &Database<'_>, calls: &[&str]) -> Session {
    let mut s = db.session();
    s.run("BEGIN");
    for call in calls {
        s.call(call);
    }
    s
}

fn held(s: &mut Session, kind: &str) -> String {
    id(&expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}', 60, p_wait => '10 s')")))
}

fn ack(s: &mut Session, job: &str) {
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob', '{{\"well\": true}}')"));
}

fn mission(s: &mut Session, template: &serde_json::Value) -> String {
    text(&s.call(&format!("fn_mission_start('{template}')")), "mission_id").to_owned()
}

fn until_mission_is(s: &mut Session, mission: &str, status: &str) {
    let there = format!("agentq.mission WHERE mission_id = '{mission}' AND status = '{status}'");
    eventually("the mission hears of it", || s.count(&there) == 1);
}

#[test]
fn a_producer_that_asks_for_the_key_of_a_held_job_does_not_hold_up_its_holder() {
    let db = database();
    let mut s = worker(&db);
    for unique in ["{\"mode\": \"replace\"}", "{\"mode\": \"debounce\", \"seconds\": 5}"] {
        s.call("fn_job_enqueue('k', 'key')");
        let job = held(&mut s, "k");
        let mut producer =
            open(&db, &[&format!("fn_job_enqueue('k', 'key', p_options => '{{\"unique\": {unique}}}')")]);
        expect(&mut s, "extended", &format!("fn_job_heartbeat('{job}', 'bob', 60)"));
        ack(&mut s, &job);
        producer.run("COMMIT");
    }
    db.assert_sound();
}

#[test]
fn nobody_but_agentq_says_that_a_child_has_ended_and_who_waits_for_one_does_not_hold_up_its_end() {
    let db = database();
    let mut s = worker(&db);
    s.enqueue("parent");
    let parent = held(&mut s, "parent");
    expect(&mut s, "started", &format!("fn_child_start('{parent}', 'bob', 'one', 'child')"));
    let forged = format!("SELECT agentq.fn_signal_send('agentq.child', '{parent}/one', '{{\"ok\": true}}')");
    let refused = s.fails(&forged);
    assert!(refused.code == "22023" && refused.message.contains("begins with agentq."), "{refused:?}");
    let taken = s.fails(&format!("SELECT agentq.fn_signal_wait('{parent}', 'bob', 'agentq.child', '{parent}/one')"));
    assert_eq!(taken.code, "22023", "{taken:?}");
    let step = json!({"title": "t", "steps": [{"name": "a", "signal": {"name": "agentq.child", "key": "x"}}]});
    let refused = s.fails(&format!("SELECT agentq.fn_mission_start('{step}')"));
    assert!(refused.message.contains("begins with agentq."), "{refused:?}");
    // The parent waits for it, and does not commit.
    let child = held(&mut s, "child");
    let mut waiting = open(&db, &[&format!("fn_child_wait('{parent}', 'bob', 'one')")]);
    ack(&mut s, &child);
    assert_eq!(s.count("agentq_internal.job_end_due"), 1);
    waiting.run("COMMIT");
    let again = held(&mut s, "parent");
    assert_eq!(again, parent);
    let told = s.call(&format!("fn_child_wait('{parent}', 'bob', 'one')"));
    assert_eq!((&told["code"], &told["result"]), (&json!("succeeded"), &json!({"well": true})), "{told}");
    assert_eq!(s.count("agentq_internal.job_end_due"), 0);
    ack(&mut s, &parent);
    db.assert_sound();
}

#[test]
fn an_end_of_a_step_waits_for_nobody_who_ends_another_step_of_its_mission() {
    let db = database();
    let mut s = worker(&db);
    let steps = json!([{"name": "a", "kind": "a"}, {"name": "b", "kind": "b", "on_failure": "continue"}]);
    let template = json!({"title": "t", "steps": steps});
    for end in ["fn_job_cancel", "fn_job_move_to_dead_letter"] {
        let mission = mission(&mut s, &template);
        let (a, b) = (
            held(&mut s, "a"),
            s.text("SELECT job_id FROM agentq.job_queue WHERE job_kind = 'b' AND state = 'queued'"),
        );
        let mut operator = open(&db, &[&format!("{end}('{b}', 'no')")]);
        ack(&mut s, &a);
        assert_eq!(s.count("agentq_internal.job_end_due"), 1, "{end}");
        operator.run("COMMIT");
        let over = format!("agentq.mission WHERE mission_id = '{mission}' AND completed_at IS NOT NULL");
        eventually("the mission hears of both", || s.count(&over) == 1);
        assert_eq!(s.count("agentq_internal.job_end_due"), 0);
    }
    // Nor for a worker who has acked one, and goes on with other things first.
    let mission = mission(&mut s, &template);
    let (a, b) = (held(&mut s, "a"), held(&mut s, "b"));
    let mut other = open(&db, &[&format!("fn_job_ack('{a}', 'bob')")]);
    ack(&mut s, &b);
    other.run("COMMIT");
    until_mission_is(&mut s, &mission, "succeeded");
    db.assert_sound();
}

#[test]
fn an_end_of_a_redriven_job_waits_for_nobody_who_looks_into_its_letter() {
    let db = database();
    let mut s = worker(&db);
    s.call("fn_job_enqueue('k', p_max_attempts => 1)");
    let job = held(&mut s, "k");
    let letter = s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'no')"));
    let letter = text(&letter, "dead_letter_id");
    s.call(&format!("fn_dead_letter_redrive('{letter}')"));
    let again = held(&mut s, "k");
    let mut operator = open(&db, &[&format!("fn_dead_letter_triage('{letter}', 'escalated', 'look')")]);
    ack(&mut s, &again);
    operator.run("ROLLBACK");
    let resolved = "agentq.job_dead_letter WHERE resolution_status = 'resolved'";
    eventually("the letter hears of it", || s.count(resolved) == 1);
    db.assert_sound();
}

#[test]
fn a_failure_that_is_to_be_compensated_waits_for_nobody_who_decides_about_an_effect() {
    let db = database();
    let mut s = worker(&db);
    let manifest = json!({
        "operations": {"book": {"produces": ["hotel.book"], "requires_compensation": true, "job_kind": "trip"}},
        "compensations": {"unbook": {"of": "book", "produces": ["hotel.cancel"], "counter_effects": true, "job_kind": "undo"}},
        "inverse_of": {"hotel.book": "hotel.cancel"}, "idempotent": {"hotel.cancel": true}});
    expect(&mut s, "set", &format!("fn_effect_manifest_set('{manifest}')"));
    let steps = json!([{"name": "a", "kind": "trip"}, {"name": "b", "kind": "pay", "depends_on": ["a"]}]);
    let mission = mission(&mut s, &json!({"title": "t", "steps": steps, "on_failure": "compensate"}));
    let job = held(&mut s, "trip");
    let planned =
        expect(&mut s, "planned", &format!("fn_effect_plan('{job}', 'bob', '[{{\"effect_type\": \"hotel.book\"}}]')"));
    let effect = text(&planned["effects"][0], "effect_id").to_owned();
    expect(&mut s, "run", &format!("fn_effect_begin('{effect}', 'bob')"));
    expect(&mut s, "succeeded", &format!("fn_effect_finish('{effect}', 'bob')"));
    ack(&mut s, &job);
    let paying = held(&mut s, "pay");
    let mut operator = db.session();
    operator.run(&format!("BEGIN; SELECT FROM agentq_internal.effect WHERE effect_id = '{effect}' FOR UPDATE"));
    s.call(&format!("fn_job_fail_or_retry('{paying}', 'bob', 'no money', p_verdict => 'discard')"));
    assert_eq!(s.state(&paying), "failed");
    operator.run("COMMIT");
    until_mission_is(&mut s, &mission, "compensating");
    // One whose answer is no keeps nothing locked.
    let _operator = open(&db, &[&format!("fn_effect_reconcile('{effect}', 'done')")]);
    s.run(&format!("SELECT FROM agentq_internal.effect WHERE effect_id = '{effect}' FOR UPDATE NOWAIT"));
    db.assert_sound();
}

/// What the engine has to say of its chores.
fn failed(s: &mut Session) -> Vec<String> {
    s.texts("SELECT chore || ': ' || last_error FROM agentq.v_engine_chore WHERE failures > 0")
}

/// A job whose holder is gone is given back, and an event gets its place.
fn the_engine_goes_on(s: &mut Session) {
    let lost = s.enqueue("lost");
    expect(s, "claimed", "fn_job_claim('gone', 'lost', 1)");
    s.call("fn_event_emit('seen', 'x')");
    eventually("the lease is recovered", || s.state(&lost) == "queued");
    let unsealed = "agentq.event e WHERE NOT EXISTS (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id)";
    eventually("the event has its place", || s.count(unsealed) == 0);
    s.call(&format!("fn_job_cancel('{lost}')"));
}

#[test]
fn a_decision_that_is_left_open_stops_no_reaction() {
    let db = database();
    let mut s = worker(&db);
    let template = json!({"title": "answer", "risk_level": "low", "steps": [{"name": "a", "kind": "answer"}]});
    let matrix = json!([{"id": "answer", "type": "ask", "dedupe": "{$.n}", "template": template}]);
    s.call(&format!("fn_policy_set('reaction_matrix', '{matrix}')"));
    s.call("fn_policy_set('auto_approve', '{\"enabled\": true, \"allowed_step_kinds\": [\"*\"], \"sources\": [\"reaction\"]}')");
    s.call("fn_event_emit('ask', 'x', '{\"n\": 1}')");
    let job = held(&mut s, "answer");
    let proposal = s.text("SELECT command_id FROM agentq.command");
    // A decision that comes too late keeps nothing locked; somebody who has the row locked stops nobody else.
    let _late = open(&db, &[&format!("fn_proposal_reject('{proposal}', 'no')")]);
    s.run(&format!("SELECT FROM agentq.command WHERE command_id = '{proposal}' FOR UPDATE NOWAIT"));
    let mut operator = db.session();
    operator.run(&format!("BEGIN; SELECT FROM agentq.command WHERE command_id = '{proposal}' FOR UPDATE"));
    ack(&mut s, &job);
    s.call("fn_event_emit('ask', 'x', '{\"n\": 2}')");
    let next = held(&mut s, "answer");
    ack(&mut s, &next);
    assert_eq!(failed(&mut s), [] as [&str; 0]);
    operator.run("COMMIT");
    eventually("both commands have ended", || s.count("agentq.command WHERE state = 'succeeded'") == 2);
}

#[test]
fn chores_that_somebody_runs_by_hand_in_a_long_transaction_stop_no_chore() {
    let db = database();
    let mut s = worker(&db);
    s.call("fn_event_emit('first', 'x')");
    let mut by_hand = db.session();
    by_hand.run("BEGIN");
    for call in ["fn_engine_tick()", "fn_engine_tick('seal_events')", "fn_ops_tick()"] {
        expect(&mut by_hand, "left_to_the_engine", call);
    }
    let mut recorded = db.session();
    recorded.run("BEGIN; UPDATE agentq_internal.engine_chore_run SET runs = runs");
    for _ in 0..3 {
        the_engine_goes_on(&mut s);
    }
    assert_eq!(failed(&mut s), [] as [&str; 0]);
    by_hand.run("COMMIT");
    expect(&mut by_hand, "ticked", "fn_engine_tick()");
}

#[test]
fn a_worker_that_ticks_under_the_name_of_an_sql_worker_stops_nothing() {
    let db = database();
    let mut s = worker(&db);
    s.call("fn_handler_register('run', 'SELECT 1')");
    let one = s.enqueue("run");
    eventually("it runs", || s.state(&one) == "succeeded");
    let _open = open(
        &db,
        &[
            "fn_queue_heartbeat_tick('agentq-sql-1', 'PG_worker')",
            "fn_queue_heartbeat_tick('agentq-sql-2', 'PG_worker')",
        ],
    );
    hurry(&mut s, "keep_sql_workers");
    the_engine_goes_on(&mut s);
    let other = s.enqueue("run");
    eventually("another runs", || s.state(&other) == "succeeded");
    assert_eq!(failed(&mut s), [] as [&str; 0]);
}

#[test]
fn a_slow_mission_of_one_schedule_takes_no_slot_of_another() {
    let db = database();
    let mut s = worker(&db);
    // Each start takes its whole time for one path.
    let values: Vec<i32> = (0..30_000).collect();
    let slow = json!({"title": "slow", "steps": [{"name": "a", "kind": "slow",
        "when": "$.input.list[*] ? (@ > 0 && $.input.list[*] > 0 && $.input.list[*] > 40000)"}]});
    let quick = json!({"title": "quick", "steps": [{"name": "a", "kind": "quick", "when": "$.input.go == true"}]});
    let set = |s: &mut Session, name: &str, template: &serde_json::Value, input: &serde_json::Value| {
        let job = json!({"start": "mission", "template": template, "options": {"input": input}});
        let answer = s.json(
            "SELECT agentq.fn_schedule_set($1, '@every 2s', $2::text::jsonb, p_missed => 'backfill')",
            &[&name, &job.to_string()],
        );
        assert_eq!(answer["ok"], json!(true), "{answer}");
    };
    for name in ["a-slow", "b-slow"] {
        set(&mut s, name, &slow, &json!({"list": values}));
    }
    set(&mut s, "quick", &quick, &json!({"go": true}));
    eventually("the quick one has fired", || s.count("agentq.schedule WHERE schedule = 'quick' AND fired > 2") == 1);
    eventually("the slow ones too", || s.count("agentq.schedule WHERE schedule LIKE '%slow' AND fired > 0") == 2);
    assert_eq!(s.texts("SELECT subject FROM agentq.event WHERE event_kind = 'schedule.failed'"), [] as [&str; 0]);
    the_engine_goes_on(&mut s);
    for name in ["a-slow", "b-slow", "quick"] {
        s.call(&format!("fn_schedule_remove('{name}')"));
    }
}

#[test]
fn a_hook_that_sleeps_costs_its_reactions_and_nobody_elses_time() {
    let db = database();
    let mut s = worker(&db);
    s.run(
        "CREATE SCHEMA ops; CREATE FUNCTION ops.gate(jsonb, text) RETURNS jsonb LANGUAGE sql
         AS $$ SELECT '{\"allowed\": true}'::jsonb FROM pg_sleep(CASE WHEN $1->>'title' = 'slow' THEN 30 ELSE 0 END) $$",
    );
    s.call("fn_policy_set('proposal_caps', '{\"hook\": \"ops.gate\"}')");
    let answer = |kind: &str| json!({"id": kind, "type": kind, "template": {"title": kind, "steps": [{"name": "a", "kind": "x"}]}});
    s.call(&format!("fn_policy_set('reaction_matrix', '{}')", json!([answer("slow"), answer("quick")])));
    for _ in 0..6 {
        s.call("fn_event_emit('slow', 'x')");
    }
    s.call("fn_event_emit('quick', 'x')");
    the_engine_goes_on(&mut s);
    eventually("the quick one is proposed", || {
        s.count("agentq.reaction WHERE pattern = 'quick' AND status = 'done'") == 1
    });
    eventually("the slow ones have failed", || {
        s.count("agentq.reaction WHERE pattern = 'slow' AND status = 'failed'") == 6
    });
    assert_eq!(failed(&mut s), [] as [&str; 0]);
}

#[test]
fn a_flood_of_executors_and_of_needs_stops_no_chore_and_is_forgotten() {
    let db = database();
    let mut s = worker(&db);
    s.run("SELECT agentq.fn_queue_heartbeat_tick('flood-' || n, 'external_worker', p_metadata => '{\"capabilities\": [\"x\"]}') FROM generate_series(1, 20000) n");
    s.run("SELECT agentq.fn_job_enqueue('needs', p_options => jsonb_build_object('requires', jsonb_build_array('n' || n))) FROM generate_series(1, 5000) n");
    s.call("fn_config_set('queue.heartbeat.stale_threshold_seconds', '1')");
    s.call("fn_config_set('queue.heartbeat.keep_seconds', '60')");
    s.call("fn_config_set('queue.routing.alert_after_seconds', '1')");
    for chore in ["check_executors", "watch_routing"] {
        hurry(&mut s, chore);
    }
    eventually("each has been classed", || s.count("agentq.queue_heartbeat WHERE freshness <> 'stale'") == 0);
    eventually("needs are told of", || s.count("agentq.event WHERE event_kind = 'job.unroutable'") > 100);
    the_engine_goes_on(&mut s);
    s.run("UPDATE agentq.queue_heartbeat SET last_tick_at = last_tick_at - interval '1 hour'");
    eventually("they are forgotten", || s.count("agentq.queue_heartbeat") == 0);
    assert_eq!(failed(&mut s), [] as [&str; 0]);
}

/// The one exception: nobody can claim while a limit is being changed. So that is ended, also where its session is not idle.
#[test]
fn a_change_of_limits_whose_transaction_goes_on_is_ended() {
    let db = database();
    let mut s = db.session();
    for has_failed in [false, true] {
        let mut operator = db.session();
        operator.run("BEGIN; SELECT agentq.fn_limit_set('global', '{\"max_concurrent\": 50}'); SAVEPOINT a");
        // An error stops all timers of a session.
        if has_failed {
            operator.fails("SELECT 1 / 0");
            operator.run("ROLLBACK TO a");
        }
        let job = s.enqueue("x");
        let busy = std::thread::spawn(move || operator.fails("SELECT pg_sleep(300)"));
        let claim = expect(&mut s, "claimed", "fn_job_claim('bob', 'x')");
        assert_eq!(id(&claim), job);
        assert!(busy.is_finished() || busy.join().is_ok());
    }
    // One that is undone in a part of a transaction leaves the rest its time.
    let mut operator = db.session();
    operator.run("BEGIN; SAVEPOINT a; SELECT agentq.fn_limit_set('global', '{\"max_concurrent\": 50}'); ROLLBACK TO a");
    assert_eq!(operator.text("SHOW idle_in_transaction_session_timeout"), "0");
    operator.run("SELECT pg_sleep(11); COMMIT");
}

/// A chore that takes too long, for a reason that nobody has thought of: it is cancelled, and the others go on.
#[test]
fn a_chore_that_takes_too_long_is_cancelled_and_the_others_go_on() {
    let cluster = engine_cluster("chore_timeout", &["agentq.chore_timeout = 1"]);
    let db = running(cluster.database());
    let mut s = db.session();
    s.run(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN OLD; END';
         CREATE TRIGGER slow BEFORE DELETE ON agentq.signal FOR EACH ROW EXECUTE FUNCTION slow()",
    );
    s.call("fn_signal_send('a', 'b')");
    s.run("UPDATE agentq.signal SET expires_at = agentq.fn_clock_now() - interval '1 second'");
    hurry(&mut s, "expire");
    let failed = "agentq.v_engine_chore WHERE chore = 'expire' AND failures > 1 AND last_error LIKE '%timeout%'";
    eventually("it has failed, and was tried again", || s.count(failed) == 1);
    let lost = s.enqueue("a");
    expect(&mut s, "claimed", "fn_job_claim('gone', 'a', 1)");
    eventually("a lease is recovered", || s.state(&lost) == "queued");
    s.run("DROP TRIGGER slow ON agentq.signal");
    eventually("it is done", || s.count("agentq.signal") == 0);
}
