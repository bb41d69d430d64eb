//! Signs of life of the executors.

use agentq_tests::{database, expect, json, refused, text};

#[test]
fn a_tick_makes_an_executor_known_and_further_ones_count() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    let answer = expect(
        &mut s,
        "ticked",
        &format!("fn_queue_heartbeat_tick('w', 'PG_worker', 'warn', '{job}', 'bob', '{{\"load\": 0.5}}')"),
    );
    assert_eq!((answer["executor_name"].clone(), answer["ticks_total"].clone()), (json!("w"), json!(1)));
    let row = s.text(&format!(
        "SELECT concat_ws('|', executor_kind, last_tick_status, ticks_total, current_job_id = '{job}', lease_owner,
             metadata, last_tick_at = '{}', created_at = last_tick_at)
         FROM agentq.queue_heartbeat WHERE executor_name = 'w'",
        text(&answer, "last_tick_at")
    ));
    assert_eq!(row, "PG_worker|warn|1|t|bob|{\"load\": 0.5}|t|t");

    // The next one says nothing of a job, so there is none any more.
    s.shift_clock(50);
    let answer = expect(&mut s, "ticked", "fn_queue_heartbeat_tick('w', 'Agent')");
    assert_eq!(answer["ticks_total"], json!(2));
    let row = s.text(
        "SELECT concat_ws('|', executor_kind, last_tick_status, ticks_total, current_job_id IS NULL, lease_owner IS NULL,
             metadata, last_tick_at - created_at >= interval '50 s', updated_at >= last_tick_at)
         FROM agentq.queue_heartbeat",
    );
    assert_eq!(row, "Agent|ok|2|t|t|{}|t|t");
}

#[test]
fn every_kind_and_status_can_tick() {
    let db = database();
    let mut s = db.session();
    for kind in ["DOT", "Agent", "Hermes", "Codex", "PG_worker", "external_worker", "future_Kestra_adapter"] {
        for status in ["ok", "warn", "error"] {
            expect(&mut s, "ticked", &format!("fn_queue_heartbeat_tick('{kind}', '{kind}', '{status}')"));
        }
    }
    assert_eq!(s.count("agentq.queue_heartbeat WHERE ticks_total = 3 AND last_tick_status = 'error'"), 7);
}

#[test]
fn a_tick_that_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    for (arguments, message, hint) in [
        ("' ', 'Agent'", "p_executor_name must not be empty", "visible character"),
        ("repeat('n', 201), 'Agent'", "201 bytes long", "short name"),
        (
            "'w', 'robot'",
            "executor kind \"robot\" is not known",
            "DOT, Agent, Hermes, Codex, PG_worker, external_worker, future_Kestra_adapter",
        ),
        ("'w', 'agent'", "executor kind \"agent\" is not known", "DOT, Agent"),
        ("'w', 'Agent', 'fine'", "tick status \"fine\" is not known", "ok, warn, error"),
        ("'w', 'Agent', p_metadata => '{\"password\": 1}'", "holds the key \"password\"", "payload_ref"),
        ("'w', 'Agent', p_metadata => '[]'", "p_metadata must be a JSON object, not an array", "Wrap"),
        (
            "'w', 'Agent', p_metadata => jsonb_build_object('a', repeat('x', 300000))",
            "more than the 262144 allowed",
            "queue.payload.max_bytes",
        ),
    ] {
        let statement = format!("SELECT agentq.fn_queue_heartbeat_tick({arguments})");
        refused(&mut s, &statement, "22023", message, hint);
    }
    for (arguments, name) in [("NULL, 'Agent'", "p_executor_name"), ("'w', NULL", "p_executor_kind")] {
        let statement = format!("SELECT agentq.fn_queue_heartbeat_tick({arguments})");
        refused(&mut s, &statement, "22004", &format!("{name} must not be NULL"), name);
    }
}

#[test]
fn ticks_of_the_same_executor_from_many_sessions_are_all_counted() {
    let db = database();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut s = db.session();
                for _ in 0..25 {
                    s.call("fn_queue_heartbeat_tick('w', 'Agent')");
                }
            });
        }
    });
    assert_eq!(db.session().text("SELECT ticks_total FROM agentq.queue_heartbeat"), "200");
}

#[test]
fn a_tick_that_is_rolled_back_is_not_counted() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN");
    s.call("fn_queue_heartbeat_tick('w', 'Agent')");
    s.run("ROLLBACK");
    assert_eq!(s.count("agentq.queue_heartbeat"), 0);
}

#[test]
fn the_stale_check_counts_and_lists_the_executors_longest_silent_first() {
    let db = database();
    let mut s = db.session();
    let none = expect(&mut s, "checked", "fn_queue_stale_check()");
    assert_eq!(none["executors"], json!([]));
    for (name, ago) in [("stale", 1000), ("warning", 400), ("fresh", 100), ("fresher", 10)] {
        s.shift_clock(-ago);
        s.call(&format!("fn_queue_heartbeat_tick('{name}', 'DOT', 'error')"));
    }
    s.shift_clock(0);
    let answer = expect(&mut s, "checked", "fn_queue_stale_check()");
    assert_eq!(answer["threshold_seconds"], json!(300));
    assert_eq!(
        (answer["fresh"].clone(), answer["warning"].clone(), answer["stale"].clone()),
        (json!(2), json!(1), json!(1))
    );
    let listed: Vec<String> = answer["executors"]
        .as_array()
        .expect("executors")
        .iter()
        .map(|e| {
            format!(
                "{} {} {} {}",
                text(e, "executor_name"),
                text(e, "freshness"),
                text(e, "executor_kind"),
                text(e, "last_tick_status")
            )
        })
        .collect();
    assert_eq!(
        listed,
        ["stale stale DOT error", "warning warning DOT error", "fresh fresh DOT error", "fresher fresh DOT error"]
    );

    // A threshold of the caller's own.
    let answer = expect(&mut s, "checked", "fn_queue_stale_check(60)");
    assert_eq!(answer["threshold_seconds"], json!(60));
    assert_eq!(
        (answer["fresh"].clone(), answer["warning"].clone(), answer["stale"].clone()),
        (json!(1), json!(1), json!(2))
    );
    s.call("fn_config_set('queue.heartbeat.stale_threshold_seconds', '5000')");
    assert_eq!(expect(&mut s, "checked", "fn_queue_stale_check()")["fresh"], json!(4));
}

#[test]
fn a_stale_check_without_a_threshold_to_check_by_is_refused() {
    let db = database();
    let mut s = db.session();
    for seconds in ["0", "-5"] {
        refused(
            &mut s,
            &format!("SELECT agentq.fn_queue_stale_check({seconds})"),
            "22023",
            &format!("p_threshold_seconds must be 1 or more, but is {seconds}"),
            "queue.heartbeat.stale_threshold_seconds",
        );
    }
}
