//! What an operator looks at: health, backlog and the summary of the dead letters.

use agentq_tests::{Session, claimed, database, enqueue_all, eventually, id};

const HEALTH: [&str; 28] = [
    "executor_name",
    "executor_kind",
    "last_tick_at",
    "last_tick_status",
    "ticks_total",
    "current_job_id",
    "lease_owner",
    "seconds_since_tick",
    "freshness",
    "jobs_queued",
    "jobs_leased",
    "jobs_in_progress",
    "jobs_succeeded",
    "jobs_failed",
    "jobs_retry_waiting",
    "jobs_dead_letter",
    "jobs_cancelled",
    "jobs_cleaned",
    "dead_letters_pending",
    "dead_letters_open",
    "stale_threshold_seconds",
    "gate_job_substrate",
    "gate_worker",
    "gate_notify",
    "gate_heartbeat",
    "dead_rows",
    "vacuum_held_by",
    "vacuum_held_since",
];

/// One job in each state that a job can be in.
fn one_in_each_state(s: &mut Session) {
    let jobs = enqueue_all(s, &["a", "b", "c", "d", "e"], "");
    for kind in ["a", "b", "c", "d"] {
        s.call(&format!("fn_job_claim('bob', '{kind}')"));
    }
    s.call(&format!("fn_job_start('{}', 'bob')", jobs[1]));
    s.call(&format!("fn_job_ack('{}', 'bob')", jobs[2]));
    s.call(&format!("fn_job_fail_or_retry('{}', 'bob', 'boom')", jobs[3]));
    s.call(&format!("fn_job_cancel('{}')", jobs[4]));
    for job in enqueue_all(s, &["dead", "dead", "dead"], "") {
        s.call(&format!("fn_job_move_to_dead_letter('{job}', 'hopeless')"));
    }
    enqueue_all(s, &["queued", "queued"], "");
    s.call("fn_job_enqueue('queued', p_scheduled_at => agentq.fn_clock_now() + '1 hour')");
}

#[test]
fn the_health_view_has_these_columns() {
    let db = database();
    let columns = db.session().texts(
        "SELECT column_name FROM information_schema.columns
         WHERE table_schema = 'agentq' AND table_name = 'v_queue_health' ORDER BY ordinal_position",
    );
    assert_eq!(columns, HEALTH);
}

#[test]
fn without_executors_the_health_view_still_counts_the_jobs() {
    let db = database();
    let mut s = db.session();
    one_in_each_state(&mut s);
    let first = s.text("SELECT dead_letter_id FROM agentq.job_dead_letter LIMIT 1");
    s.call(&format!("fn_dead_letter_triage('{first}', 'closed')"));
    let second = s.text("SELECT dead_letter_id FROM agentq.job_dead_letter WHERE triage_status = 'pending' LIMIT 1");
    s.call(&format!("fn_dead_letter_triage('{second}', 'escalated')"));
    let row = s.text(
        "SELECT concat_ws('|', executor_name IS NULL, freshness IS NULL, jobs_queued, jobs_leased, jobs_in_progress,
             jobs_succeeded, jobs_failed, jobs_retry_waiting, jobs_dead_letter, jobs_cancelled, jobs_cleaned,
             dead_letters_pending, dead_letters_open, stale_threshold_seconds)
         FROM agentq.v_queue_health",
    );
    assert_eq!(row, "t|t|3|1|1|1|0|1|3|1|0|1|2|300");
}

#[test]
fn the_health_view_shows_the_gates() {
    let db = database();
    let mut s = db.session();
    let gates = "SELECT concat_ws(' ', gate_job_substrate, gate_worker, gate_notify, gate_heartbeat)
        FROM agentq.v_queue_health";
    assert_eq!(s.text(gates), "t t t t");
    for (key, shown) in [
        ("queue.job_substrate.enabled", "f t t t"),
        ("queue.worker.enabled", "t f t t"),
        ("queue.notify.enabled", "t t f t"),
        ("queue.heartbeat.enabled", "t t t f"),
    ] {
        s.call(&format!("fn_config_set('{key}', 'false')"));
        assert_eq!(s.text(gates), shown, "{key}");
        s.call(&format!("fn_config_set('{key}', 'true')"));
    }
}

#[test]
fn an_executor_is_fresh_up_to_the_threshold_then_in_warning_then_stale() {
    let db = database();
    let mut s = db.session();
    // A long threshold, so that half a minute on either side of a boundary is enough for any machine.
    s.call("fn_config_set('queue.heartbeat.stale_threshold_seconds', '10000')");
    for (name, seconds) in [
        ("from the future", -1000),
        ("now", 0),
        ("just fresh", 9970),
        ("just warning", 10_030),
        ("still warning", 19_970),
        ("just stale", 20_030),
        ("long stale", 1_000_000),
    ] {
        s.call(&format!("fn_queue_heartbeat_tick('{name}', 'Agent')"));
        s.run(&format!(
            "UPDATE agentq.queue_heartbeat SET last_tick_at = agentq.fn_clock_now() - interval '{seconds} s'
             WHERE executor_name = '{name}'"
        ));
    }
    let classes =
        s.texts("SELECT executor_name || ': ' || freshness FROM agentq.v_queue_health ORDER BY last_tick_at DESC");
    assert_eq!(
        classes,
        [
            "from the future: fresh",
            "now: fresh",
            "just fresh: fresh",
            "just warning: warning",
            "still warning: warning",
            "just stale: stale",
            "long stale: stale",
        ]
    );
    // The check function draws the same lines.
    let check = s.text(
        "SELECT string_agg(e->>'executor_name' || ': ' || (e->>'freshness'), ', ' ORDER BY e->>'last_tick_at' DESC)
         = (SELECT string_agg(executor_name || ': ' || freshness, ', ' ORDER BY last_tick_at DESC) FROM agentq.v_queue_health)
         FROM jsonb_array_elements(agentq.fn_queue_stale_check()->'executors') e",
    );
    assert_eq!(check, "t");
    let age = s.text(
        "SELECT seconds_since_tick BETWEEN 9970 AND 10000 FROM agentq.v_queue_health WHERE executor_name = 'just fresh'",
    );
    assert_eq!(age, "t");
}

#[test]
fn the_health_view_follows_the_clock_and_the_threshold() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_heartbeat_tick('w', 'Codex', 'warn', NULL, 'bob')");
    let freshness = |s: &mut Session| s.text("SELECT freshness FROM agentq.v_queue_health");
    assert_eq!(freshness(&mut s), "fresh");
    s.shift_clock(400);
    assert_eq!(freshness(&mut s), "warning");
    s.shift_clock(700);
    assert_eq!(freshness(&mut s), "stale");
    s.call("fn_config_set('queue.heartbeat.stale_threshold_seconds', '3600')");
    assert_eq!(freshness(&mut s), "fresh");
    let row = s.text(
        "SELECT concat_ws('|', executor_name, executor_kind, last_tick_status, ticks_total, lease_owner,
             stale_threshold_seconds) FROM agentq.v_queue_health",
    );
    assert_eq!(row, "w|Codex|warn|1|bob|3600");
}

#[test]
fn the_backlog_counts_by_kind_and_state() {
    let db = database();
    let mut s = db.session();
    one_in_each_state(&mut s);
    let rows = s.texts(
        "SELECT concat_ws(' ', job_kind, state, row_count, most_attempts) FROM agentq.v_job_queue_backlog
         ORDER BY job_kind, state",
    );
    assert_eq!(
        rows,
        [
            "a leased 1 0",
            "b in_progress 1 0",
            "c succeeded 1 0",
            "d retry_waiting 1 1",
            "dead dead_letter 3 0",
            "e cancelled 1 0",
            "queued queued 3 0",
        ]
    );
    let spans = s.text(
        "SELECT bool_and(b.oldest_created_at = q.oldest AND b.newest_created_at = q.newest
             AND b.next_scheduled_at IS NOT DISTINCT FROM q.next AND b.avg_attempts = q.attempts)
         FROM agentq.v_job_queue_backlog b
         JOIN (SELECT job_kind, min(created_at) AS oldest, max(created_at) AS newest, avg(attempts) AS attempts,
                   min(scheduled_at) FILTER (WHERE state IN ('queued', 'retry_waiting')) AS next
               FROM agentq.job_queue GROUP BY job_kind) q USING (job_kind)",
    );
    assert_eq!(spans, "t");
}

#[test]
fn the_summary_counts_dead_letters_by_kind_and_triage() {
    let db = database();
    let mut s = db.session();
    for _ in 0..2 {
        let job = id(&s.call("fn_job_enqueue('x', p_max_attempts => 1)"));
        claimed(&mut s, "bob");
        s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')"));
    }
    for job in enqueue_all(&mut s, &["x", "y"], "") {
        s.call(&format!("fn_job_move_to_dead_letter('{job}', 'hopeless')"));
    }
    let letter = s.text("SELECT dead_letter_id FROM agentq.job_dead_letter WHERE job_kind = 'y'");
    s.call(&format!("fn_dead_letter_triage('{letter}', 'closed')"));
    let rows = s.texts(
        "SELECT concat_ws(' ', job_kind, triage_status, row_count, avg_attempts, most_attempts, oldest_moved_at <= newest_moved_at)
         FROM agentq.v_job_dead_letter_summary ORDER BY job_kind",
    );
    assert_eq!(rows, ["x pending 3 0.67 1 t", "y closed 1 0.00 0 t"]);
}

#[test]
fn looking_writes_nothing() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    s.run("BEGIN READ ONLY");
    for view in ["v_queue_health", "v_job_queue_backlog", "v_job_dead_letter_summary", "job_queue", "job_attempt"] {
        s.count(&format!("agentq.{view}"));
    }
    s.call(&format!("fn_job_get('{job}')"));
    s.call("fn_queue_stale_check()");
    s.call("fn_config_get('queue.worker.enabled')");
    s.count("agentq.fn_queue_verify()");
    s.run("COMMIT");
}

#[test]
fn the_depth_of_each_queue_tells_ready_waiting_and_held_apart() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    s.call("fn_queue_pause('mail', 'maintenance')");
    enqueue_all(&mut s, &["a", "b", "c"], "");
    s.call("fn_job_enqueue('later', p_scheduled_at => agentq.fn_clock_now() + '1 hour')");
    s.call(r#"fn_job_enqueue('letter', p_options => '{"queue": "mail"}')"#);
    claimed(&mut s, "bob");
    let depth = "SELECT concat_ws(' ', queue, paused, ready, waiting, held) FROM agentq.v_queue_depth ORDER BY queue";
    assert_eq!(s.texts(depth), ["default f 2 1 1", "mail t 1 0 0"]);
    let ages = "SELECT oldest_ready_at = (SELECT min(scheduled_at) FROM agentq.job_queue WHERE state = 'queued')
            AND oldest_ready_seconds >= 0
            AND next_due_at = (SELECT max(scheduled_at) FROM agentq.job_queue)
        FROM agentq.v_queue_depth WHERE queue = 'default'";
    assert_eq!(s.text(ages), "t");
}

#[test]
fn who_keeps_vacuum_from_dead_rows_is_named_when_they_pile_up() {
    let db = database();
    let (mut s, mut idle) = (db.session(), db.session());
    idle.run("SET application_name = 'forgotten report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    let pid = idle.text("SELECT pg_backend_pid()");
    let health = "SELECT DISTINCT concat_ws('|', dead_rows > 10000, vacuum_held_by) FROM agentq.v_queue_health";
    assert_eq!(s.texts(health), ["f"]);
    s.run("INSERT INTO agentq_internal.job_checkpoint SELECT gen_random_uuid(), now(), '1' FROM generate_series(1, 10001)");
    s.run("DELETE FROM agentq_internal.job_checkpoint");
    s.run("SELECT pg_stat_force_next_flush()");
    let name = format!("t|session {pid} of postgres (forgotten report, idle in transaction)");
    assert_eq!(s.texts(health), [name.as_str()]);
    let held = format!("agentq.fn_vacuum_state() WHERE held_pid = {pid} AND held_since <= now()");
    assert_eq!(s.count(&held), 1);
    idle.run("ROLLBACK");
    // A vacuum may be at work itself for a moment.
    eventually("nobody is named", || s.texts(health) == ["t"]);
}
