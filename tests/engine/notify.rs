//! What listeners hear.

use agentq_tests::engine::{after_a_turn, database};
use agentq_tests::{Session, Value};

fn heard(listener: &mut Session, enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    agentq_tests::heard(listener, "agentq_job_ready", enough)
}

fn count(heard: &[Value], queue: &str, kind: &str) -> i64 {
    heard.iter().filter(|n| n["queue"] == queue && n["kind"] == kind).filter_map(|n| n["count"].as_i64()).sum()
}

#[test]
fn listeners_hear_of_new_jobs_many_at_a_time() {
    let db = database();
    let (mut listener, mut s) = (db.session(), db.session());
    listener.run("LISTEN agentq_job_ready");
    // Long enough for many jobs, however slowly they come.
    s.call("fn_config_set('queue.notify.interval_ms', '1000')");
    s.run("SELECT agentq.fn_queue_set('mail')");
    for _ in 0..200 {
        s.enqueue("x");
    }
    s.run("SELECT agentq.fn_job_enqueue('y', p_options => '{\"queue\": \"mail\"}') FROM generate_series(1, 50)");
    let counts = |heard: &[Value]| (count(heard, "default", "x"), count(heard, "mail", "y"));
    let heard = heard(&mut listener, |heard| counts(heard) == (200, 50));
    assert_eq!(counts(&heard), (200, 50), "{heard:?}");
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
    let counts = |heard: &[Value]| ["due", "back", "rolled back"].map(|kind| count(heard, "default", kind));
    let heard = heard(&mut listener, |heard| counts(heard) == [1, 2, 0]);
    assert_eq!(counts(&heard), [1, 2, 0], "{heard:?}");
}

#[test]
fn with_the_gate_closed_nobody_hears_anything() {
    let db = database();
    let (mut listener, mut s) = (db.session(), db.session());
    listener.run("LISTEN agentq_job_ready");
    s.call("fn_config_set('queue.notify.enabled', 'false')");
    s.enqueue("unheard");
    after_a_turn(&mut s);
    s.call("fn_config_set('queue.notify.enabled', 'true')");
    s.enqueue("x");
    let heard = heard(&mut listener, |heard| count(heard, "default", "x") == 1);
    assert_eq!(heard.len(), 1, "{heard:?}");
}
