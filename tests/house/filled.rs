//! A queue with something of everything in it, made through the public functions alone, so that it
//! can be made on any version.

use agentq_tests::{Session, id, token};
use std::collections::BTreeMap;

pub const OWNER: &str = "worker-1";

/// A job that somebody holds.
pub struct Held {
    pub job: String,
    pub token: String,
}

/// What the filled queue has that a test may want to go on with.
pub struct Filled {
    pub leased: Held,
    pub in_progress: Held,
    /// Has a checkpoint, and waits for its next attempt.
    pub retry_waiting: String,
    /// The key of a job that is queued.
    pub key_in_use: &'static str,
    /// The key of a job that has succeeded.
    pub key_free: &'static str,
}

/// Claims the one job of that kind.
fn hold(s: &mut Session, kind: &str) -> Held {
    let claimed = s.call(&format!("fn_job_claim('{OWNER}', '{kind}')"));
    assert_eq!(claimed["code"], "claimed", "{kind}: {claimed}");
    Held { job: id(&claimed), token: token(&claimed) }
}

/// Fills an empty queue: a job in every state, changed settings, a queue more and one paused.
pub fn fill(s: &mut Session) -> Filled {
    // Long enough that nothing falls due or expires while the test runs.
    s.call("fn_config_set('queue.lease.duration_sec', '7200')");
    s.call("fn_config_set('queue.retry.backoff_base_sec', '3600')");
    s.call(r#"fn_queue_set('mail', '{"lease_seconds": 900, "priority": 7, "description": "letters"}')"#);
    s.call("fn_queue_set('parked')");
    s.call("fn_queue_pause('parked', 'for the night')");

    for state in ["succeeded", "cancelled", "retry", "leased", "begun", "asked", "released", "snoozed"] {
        s.call(&format!(
            r#"fn_job_enqueue('{state}', 'key-{state}', 'filler', '{{"was": "{state}"}}',
                'from/{state}', 'to/{state}', 'at/{state}', p_run_id => gen_random_uuid())"#
        ));
    }
    s.call("fn_job_enqueue('dead', 'key-dead', p_max_attempts => 1)");

    let done = hold(s, "succeeded");
    s.call(&format!(r#"fn_job_ack('{}', '{OWNER}', '{{"sum": 42}}')"#, done.job));
    let dead = hold(s, "dead");
    let buried = s.call(&format!("fn_job_fail_or_retry('{}', '{OWNER}', 'no such tool', 'tool_error')", dead.job));
    let letter = buried["dead_letter_id"].as_str().expect("a dead letter");
    s.call(&format!("fn_dead_letter_triage('{letter}', 'escalated', 'ask the vendor', 'eve')"));
    let cancelled = s.text("SELECT job_id FROM agentq.job_queue WHERE job_kind = 'cancelled'");
    s.call(&format!("fn_job_cancel('{cancelled}', 'not wanted')"));

    let retry = hold(s, "retry");
    s.call(&format!(r#"fn_job_heartbeat('{}', '{OWNER}', p_checkpoint => '{{"page": 3}}')"#, retry.job));
    s.call(&format!("fn_job_fail_or_retry('{}', '{OWNER}', 'timed out', 'timeout')", retry.job));
    let leased = hold(s, "leased");
    let in_progress = hold(s, "begun");
    s.call(&format!("fn_job_start('{}', '{OWNER}')", in_progress.job));
    let asked = hold(s, "asked");
    s.call(&format!("fn_job_cancel('{}', 'second thoughts')", asked.job));
    let released = hold(s, "released");
    s.call(&format!("fn_job_release('{}', '{OWNER}')", released.job));
    let snoozed = hold(s, "snoozed");
    s.call(&format!("fn_job_snooze('{}', '{OWNER}', now() + interval '1 day')", snoozed.job));

    s.call("fn_job_enqueue('later', 'key-later', p_scheduled_at => now() + interval '1 day')");
    for (kind, priority) in [("c", 50), ("a", 100), ("b", 5), ("a", 50), ("b", 0)] {
        s.call(&format!("fn_job_enqueue('{kind}', p_priority => {priority})"));
    }
    s.call("fn_job_enqueue('a', 'key-queued', p_scheduled_at => now() - interval '1 hour')");
    for queue in ["mail", "mail", "parked"] {
        s.call(&format!(r#"fn_job_enqueue('a', p_options => '{{"queue": "{queue}"}}')"#));
    }
    s.call(&format!(
        "fn_queue_heartbeat_tick('one', 'Agent', 'warn', '{}', '{OWNER}', '{{\"host\": \"a\"}}')",
        leased.job
    ));
    s.call("fn_queue_heartbeat_tick('two', 'PG_worker')");
    s.call("fn_queue_heartbeat_tick('two', 'PG_worker')");
    Filled { leased, in_progress, retry_waiting: retry.job, key_in_use: "key-queued", key_free: "key-succeeded" }
}

/// Every row that a user can see, by relation.
pub fn rows(s: &mut Session) -> BTreeMap<&'static str, Vec<String>> {
    let relations = [
        "job_queue",
        "job_attempt",
        "job_dead_letter",
        "queue",
        "config",
        "queue_heartbeat",
        "job_checkpoint",
        "access_grant",
    ];
    relations
        .into_iter()
        .map(|relation| {
            let named = s.qualified(relation);
            let rows = s.texts(&format!("SELECT to_jsonb(r) FROM {named} r ORDER BY to_jsonb(r)"));
            (relation, rows)
        })
        .collect()
}

/// Claims until nothing is left, and returns the jobs in the order in which they came.
pub fn claim_all(s: &mut Session) -> Vec<String> {
    let mut jobs = Vec::new();
    loop {
        let claimed = s.call(r#"fn_job_claim('emptier', p_options => '{"queues": ["default", "mail", "parked"]}')"#);
        if claimed["code"] == "empty" {
            return jobs;
        }
        jobs.push(id(&claimed));
    }
}

/// Checks that the queue goes on where the filled one stopped.
pub fn assert_works(s: &mut Session, filled: &Filled) {
    let states = "queued, leased, in_progress, succeeded, retry_waiting, dead_letter, cancelled";
    for state in states.split(", ") {
        assert_ne!(s.count(&format!("agentq.job_queue WHERE state = '{state}'")), 0, "no job is {state}");
    }
    for held in [&filled.leased, &filled.in_progress] {
        let answer = s.call(&format!("fn_job_ack('{}', '{OWNER}', p_lease_token => '{}')", held.job, held.token));
        assert_eq!(answer["code"], "succeeded", "an old token still acks: {answer}");
    }
    let again = s.call(&format!("fn_job_enqueue('a', '{}')", filled.key_in_use));
    assert_eq!(again["code"], "duplicate", "a key in use still blocks");
    let anew = s.call(&format!("fn_job_enqueue('a', '{}')", filled.key_free));
    assert_eq!(anew["code"], "enqueued", "the key of a finished job is free");
    let kept = s.call(&format!("fn_job_get('{}')", filled.retry_waiting));
    assert_eq!(kept["job"]["checkpoint"]["page"], 3, "the checkpoint is still there");
    let paused = s.call(r#"fn_job_claim('emptier', p_options => '{"queues": ["parked"]}')"#);
    assert_eq!(paused["paused"][0], "parked", "the paused queue still gives nothing out");
    let highest = s.text("SELECT max(queue_id) FROM agentq.queue");
    s.call("fn_queue_set('made afterwards')");
    let fresh = s.text("SELECT queue_id FROM agentq.queue WHERE queue = 'made afterwards'");
    let number = |text: String| text.parse::<i32>().expect("a queue's number");
    assert!(number(fresh) > number(highest), "a new queue gets a number of its own");
    assert!(s.texts("SELECT problem FROM agentq.fn_queue_verify()").is_empty(), "the queue is sound");
}
