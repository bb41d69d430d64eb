//! What listeners hear.

use agentq_tests::engine::database;
use agentq_tests::{Session, Value};
use postgres::fallible_iterator::FallibleIterator;
use std::time::Duration;

/// Everything heard until nothing comes for a second.
fn heard(listener: &mut Session) -> Vec<Value> {
    let mut notifications = listener.0.notifications();
    let mut found = Vec::new();
    let mut waiting = notifications.timeout_iter(Duration::from_secs(1));
    while let Some(notification) = waiting.next().expect("the connection holds") {
        assert_eq!(notification.channel(), "agentq_job_ready");
        found.push(serde_json::from_str(notification.payload()).expect("it is JSON"));
    }
    found
}

fn count(heard: &[Value], queue: &str, kind: &str) -> i64 {
    heard.iter().filter(|n| n["queue"] == queue && n["kind"] == kind).filter_map(|n| n["count"].as_i64()).sum()
}

#[test]
fn listeners_hear_of_new_jobs_many_at_a_time() {
    let db = database();
    let (mut listener, mut s) = (db.session(), db.session());
    listener.run("LISTEN agentq_job_ready");
    s.run("SELECT agentq.fn_queue_set('mail')");
    for _ in 0..200 {
        s.enqueue("x");
    }
    s.run("SELECT agentq.fn_job_enqueue('y', p_options => '{\"queue\": \"mail\"}') FROM generate_series(1, 50)");
    let heard = heard(&mut listener);
    assert_eq!((count(&heard, "default", "x"), count(&heard, "mail", "y")), (200, 50), "{heard:?}");
    assert!(heard.len() < 150, "{} notifications for 250 jobs", heard.len());
}

#[test]
fn listeners_hear_of_jobs_that_fall_due_or_come_back_and_of_nothing_else() {
    let db = database();
    let (mut listener, mut s) = (db.session(), db.session());
    listener.run("LISTEN agentq_job_ready");
    s.run("BEGIN");
    s.enqueue("rolled back");
    s.run("ROLLBACK");
    s.call("fn_job_enqueue('due', p_scheduled_at => clock_timestamp() + interval '0.3 s')");
    let job = s.enqueue("back");
    s.call("fn_job_claim('w', 'back')");
    s.call(&format!("fn_job_release('{job}', 'w')"));
    let heard = heard(&mut listener);
    assert_eq!(count(&heard, "default", "due"), 1, "{heard:?}");
    assert_eq!(count(&heard, "default", "back"), 2, "{heard:?}");
    assert_eq!(count(&heard, "default", "rolled back"), 0, "{heard:?}");
}

#[test]
fn with_the_gate_closed_nobody_hears_anything() {
    let db = database();
    let (mut listener, mut s) = (db.session(), db.session());
    listener.run("LISTEN agentq_job_ready");
    s.call("fn_config_set('queue.notify.enabled', 'false')");
    s.enqueue("x");
    assert_eq!(heard(&mut listener), Vec::<Value>::new());
    s.call("fn_config_set('queue.notify.enabled', 'true')");
    s.enqueue("x");
    assert_eq!(count(&heard(&mut listener), "default", "x"), 1);
}
