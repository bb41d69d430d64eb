//! A streaming standby: everything that reads works there, and what writes says why it cannot.

use agentq_tests::{Cluster, Database, Options, Session, Value, eventually_or, json};
use std::sync::{Arc, Mutex, PoisonError, Weak};

struct Pair {
    primary: Cluster,
    standby: Cluster,
}

/// The two servers, which the tests here share as long as one of them runs.
fn pair() -> Arc<Pair> {
    static PAIR: Mutex<Weak<Pair>> = Mutex::new(Weak::new());
    let mut shared = PAIR.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let primary = Cluster::start("primary", &Options::default());
        primary.make_template();
        let standby = Cluster::standby_of(&primary, "standby");
        let pair = Arc::new(Pair { primary, standby });
        *shared = Arc::downgrade(&pair);
        pair
    })
}

impl Pair {
    /// A new database of the primary that the standby has too.
    fn database(&self) -> Database<'_> {
        let db = self.primary.database();
        self.catch_up();
        db
    }

    fn on_standby(&self, db: &Database<'_>) -> Session {
        self.standby.session(&db.name)
    }

    /// Waits until the standby has replayed all that the primary has written.
    fn catch_up(&self) {
        let written = self.primary.session("postgres").text("SELECT pg_current_wal_flush_lsn()");
        let mut standby = self.standby.session("postgres");
        let followed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        eventually_or("the standby follows", || standby.text(&followed) == "t", || self.standby.log());
    }
}

fn without_times(mut answer: Value) -> Value {
    // What the check says of an executor's age depends on when it is asked.
    answer.as_object_mut().expect("an answer").remove("executors");
    answer
}

#[test]
fn a_standby_reads_what_the_primary_wrote() {
    let pair = pair();
    let db = pair.database();
    let (mut primary, mut standby) = (db.session(), pair.on_standby(&db));
    assert_eq!(standby.text("SELECT pg_is_in_recovery()"), "t");
    let queued = primary.enqueue("mail.send");
    primary.enqueue("mail.send");
    let held = primary.claim("w")["job_id"].as_str().expect("a claimed job").to_owned();
    assert_eq!(held, queued, "the first comes first");
    primary.call(&format!("fn_job_move_to_dead_letter('{held}', 'not deliverable')"));
    primary.call("fn_queue_heartbeat_tick('robot', 'Agent')");
    pair.catch_up();

    let get = format!("fn_job_get('{held}')");
    assert_eq!(standby.call(&get), primary.call(&get));
    assert_eq!(standby.call("fn_config_get('queue.lease.duration_sec')"), json!(300));
    let check = "fn_queue_stale_check(3600)";
    assert_eq!(standby.call(check)["fresh"], 1);
    assert_eq!(without_times(standby.call(check)), without_times(primary.call(check)));
    for view in ["job_queue", "job_attempt", "job_dead_letter", "v_job_queue_backlog", "v_job_dead_letter_summary"] {
        let rows = format!("SELECT to_jsonb(v) FROM agentq.{view} v ORDER BY to_jsonb(v)");
        let found = standby.texts(&rows);
        assert!(!found.is_empty(), "{view} shows something");
        assert_eq!(found, primary.texts(&rows), "{view}");
    }
    let health =
        "SELECT concat_ws(' ', executor_name, freshness, jobs_queued, jobs_dead_letter) FROM agentq.v_queue_health";
    assert_eq!(standby.text(health), "robot fresh 1 1");
    assert!(standby.texts("SELECT problem FROM agentq.fn_queue_verify()").is_empty());
}

#[test]
fn what_writes_is_refused_on_a_standby_and_the_session_goes_on() {
    let pair = pair();
    let db = pair.database();
    let job = db.session().enqueue("mail.send");
    pair.catch_up();
    let mut standby = pair.on_standby(&db);
    for call in [
        "fn_job_enqueue('mail.send')",
        "fn_job_enqueue('mail.send', 'with-a-key')",
        r#"fn_job_enqueue_batch('[{"job_kind": "a"}]')"#,
        "fn_job_enqueue_payloads('a', '[{}]')",
        "fn_job_claim('w')",
        "fn_job_claim_batch('w', 5)",
        &format!("fn_job_ack('{job}', 'w')"),
        &format!("fn_job_heartbeat('{job}', 'w')"),
        &format!("fn_job_fail_or_retry('{job}', 'w', 'no')"),
        &format!("fn_job_cancel('{job}')"),
        "fn_job_purge('1 day')",
        "fn_queue_heartbeat_tick('robot', 'Agent')",
        "fn_queue_set('more')",
        "fn_queue_pause('default')",
        "fn_config_set('queue.lease.duration_sec', '60')",
    ] {
        let failure = standby.fails(&format!("SELECT agentq.{call}"));
        assert_eq!(failure.code, "25006", "{call}: {failure:?}");
        assert!(failure.message.contains("read-only transaction"), "{call}: {failure:?}");
    }
    assert_eq!(standby.call("fn_config_get('queue.lease.duration_sec')"), json!(300), "the session goes on");
}

#[test]
fn a_changed_setting_reaches_an_open_session_of_the_standby() {
    let pair = pair();
    let db = pair.database();
    let (mut primary, mut standby) = (db.session(), pair.on_standby(&db));
    assert_eq!(standby.call("fn_queue_stale_check()")["threshold_seconds"], 300);
    for seconds in [60, 61, 62] {
        primary.call(&format!("fn_config_set('queue.heartbeat.stale_threshold_seconds', '{seconds}')"));
        pair.catch_up();
        assert_eq!(standby.call("fn_config_get('queue.heartbeat.stale_threshold_seconds')"), json!(seconds));
        assert_eq!(standby.call("fn_queue_stale_check()")["threshold_seconds"], seconds);
    }
}
