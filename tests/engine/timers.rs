//! The server's own limits on time do not end what the engine does, and the timers of a worker do not meet.

use agentq_tests::engine::{engine_cluster, running};
use agentq_tests::{Session, eventually, id, json};

/// The settings that this server has of those that end what takes too long.
fn limits(s: &mut Session) -> Vec<String> {
    s.texts(
        "SELECT name FROM pg_settings WHERE name IN
             ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout') ORDER BY 1",
    )
}

#[test]
fn limits_that_the_server_sets_for_everybody_do_not_end_what_the_engine_does() {
    let cluster = engine_cluster("timers", &["agentq.sql_workers = 1"]);
    let db = cluster.database();
    let mut s = db.session();
    let limits = limits(&mut s);
    assert!(limits.len() >= 2, "{limits:?}");
    for limit in &limits {
        // For this session they end nothing, however slow the machine is.
        s.run(&format!("SET {limit} = 0; ALTER DATABASE {} SET {limit} = '700ms'", db.name));
    }
    let db = running(db);
    s.call("fn_handler_register('slow', 'SELECT pg_sleep(2)')");
    let job = s.enqueue("slow");
    eventually("its attempt is over", || {
        s.count(&format!("agentq.job_attempt WHERE job_id = '{job}' AND outcome IS NOT NULL")) > 0
    });
    assert_eq!(s.state(&job), "succeeded", "{limits:?}");
    db.assert_sound();
}

/// Within the time of a handler there is that of a mission's path. Each has a timer of the server's.
#[test]
fn a_handler_that_has_met_the_limit_of_a_path_still_ends_by_its_own() {
    let cluster = engine_cluster("timers-meet", &["agentq.sql_workers = 1"]);
    let db = running(cluster.database());
    let mut s = db.session();
    s.call("fn_config_set('queue.retry.backoff_base_sec', '3600')");
    let template = json!({"title": "t", "steps": [{"name": "a", "kind": "x", "when": "$.input.n == 1"}]});
    let sql = format!(
        "DO $$ BEGIN
             PERFORM agentq.fn_mission_start('{template}', '{{\"input\": {{\"n\": 1}}}}');
             LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;
         END $$"
    );
    let answer =
        s.json("SELECT agentq.fn_handler_register('stubborn', $1, p_options => '{\"timeout_seconds\": 1}')", &[&sql]);
    assert_eq!(answer["ok"], true, "{answer}");
    let job = id(&s.call("fn_job_enqueue('stubborn', p_max_attempts => 1)"));
    eventually("the worker that does not heed the end of its time is ended, and its job with it", || {
        s.state(&job) == "dead_letter"
    });
}
