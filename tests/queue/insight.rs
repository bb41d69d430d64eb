//! Why a job waits, how hard the queue is pressed, and whether new work is let in.

use agentq_tests::{Session, Value, claimed, database, enqueue_all, expect, id, json, refuse, refused};

#[track_caller]
fn explain(s: &mut Session, job: &str) -> Value {
    s.call(&format!("fn_job_explain('{job}')"))
}

/// The one gate that holds the job.
#[track_caller]
fn gate(s: &mut Session, job: &str) -> Value {
    let answer = explain(s, job);
    assert_eq!(answer["code"], "waiting", "{answer}");
    assert_eq!(answer["gates"].as_array().map(Vec::len), Some(1), "{answer}");
    answer["gates"][0].clone()
}

#[test]
fn every_gate_in_the_way_of_a_claim_is_named() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_heartbeat_tick('robot', 'Agent')");
    let ahead = s.enqueue("x");
    let job = s.enqueue("x");
    let answer = explain(&mut s, &job);
    assert_eq!(
        (answer["code"].clone(), answer["ahead"].clone(), answer["gates"].clone()),
        (json!("ready"), json!(1), json!([]))
    );
    assert!(answer["may_run_at"].is_string());
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{ahead}')"));
    assert_eq!(explain(&mut s, &ahead)["code"], "finished");
    // The gates for all.
    s.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    assert_eq!(gate(&mut s, &job)["gate"], "gate_closed");
    s.call("fn_config_set('queue.job_substrate.enabled', 'true')");
    s.call("fn_queue_pause('default', 'deploy')");
    let held_by = gate(&mut s, &job);
    assert_eq!((held_by["gate"].clone(), held_by["reason"].clone()), (json!("paused"), json!("deploy")));
    s.call("fn_queue_resume('default')");
    // Its own time.
    let later = id(&s.call("fn_job_enqueue('x', p_scheduled_at => '2100-01-01')"));
    let held_by = gate(&mut s, &later);
    assert_eq!(held_by["gate"], "schedule");
    assert_eq!(held_by["until"], explain(&mut s, &later)["may_run_at"]);
    claimed(&mut s, "bob");
    let answer = explain(&mut s, &job);
    assert_eq!((answer["code"].clone(), answer["lease_owner"].clone()), (json!("held"), json!("bob")));
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')"));
    let held_by = gate(&mut s, &job);
    assert_eq!((held_by["gate"].clone(), held_by["error"].clone()), (json!("retry"), json!("boom")));
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{job}')"));
    // Others with its ordering key.
    let options = "p_options => '{\"ordering_key\": \"k\"}'";
    let ordered: Vec<String> = enqueue_all(&mut s, &["o", "o"], &format!(", {options}"));
    let held_by = gate(&mut s, &ordered[1]);
    assert_eq!((held_by["gate"].clone(), held_by["ahead"].clone()), (json!("ordering_key"), json!(ordered[0])));
    // A limit, with who holds its slots: found blocked, and found full before any claim.
    s.call("fn_limit_set('tenant:*', '{\"max_concurrent\": 1}')");
    let limited = enqueue_all(&mut s, &["l", "l"], ", p_options => '{\"limit_keys\": [\"tenant:1\"]}'");
    expect(&mut s, "claimed", "fn_job_claim('ann', 'l')");
    for _ in 0..2 {
        let held_by = gate(&mut s, &limited[1]);
        assert_eq!((held_by["gate"].clone(), held_by["limit_key"].clone()), (json!("limit"), json!("tenant:1")));
        assert_eq!(held_by["held_by"][0]["job_id"], json!(limited[0]));
        assert_eq!(held_by["held_by"][0]["lease_owner"], "ann");
        assert_eq!(s.call("fn_job_claim('ann', 'l')")["code"], "empty");
    }
    let job = s.enqueue("w");
    s.call("fn_limit_set('kind:w', '{\"max_concurrent\": 0}')");
    assert_eq!(gate(&mut s, &job)["limit_key"], "kind:w");
    // A rate, what the other side said, a budget, and capabilities that nobody has announced.
    s.call("fn_limit_set('provider:a', '{\"rate\": 1, \"per_seconds\": 3600}')");
    let rated = enqueue_all(&mut s, &["r", "r"], ", p_options => '{\"limit_keys\": [\"provider:a\"]}'");
    expect(&mut s, "claimed", "fn_job_claim('ann', 'r')");
    assert_eq!(gate(&mut s, &rated[1])["gate"], "rate", "also before a claim was refused");
    assert_eq!(s.call("fn_job_claim('ann', 'r')")["code"], "empty");
    let held_by = gate(&mut s, &rated[1]);
    assert_eq!((held_by["gate"].clone(), held_by["limit_key"].clone()), (json!("rate"), json!("provider:a")));
    assert_eq!(held_by["until"], explain(&mut s, &rated[1])["may_run_at"]);
    let closed = id(&s.call("fn_job_enqueue('r', p_options => '{\"limit_keys\": [\"provider:b\"]}')"));
    s.call("fn_limit_set('provider:b', '{}')");
    let told = s.call("fn_limit_report('provider:b', now() + interval '1 hour')");
    assert_eq!(gate(&mut s, &closed)["until"], told["closed_until"]);
    s.call("fn_limit_remove('provider:b')");
    assert_eq!(explain(&mut s, &closed)["code"], "ready", "without a rule nobody heeds it");
    s.call("fn_limit_set('provider:b', '{}')");
    s.call("fn_limit_report('provider:b', now() + interval '1 hour')");
    s.call("fn_budget_set('tenant:9', 'usd', 'day', '{\"amount\": 1}')");
    let costly =
        enqueue_all(&mut s, &["c", "c"], ", p_options => '{\"limit_keys\": [\"tenant:9\"], \"cost\": {\"usd\": 1}}'");
    expect(&mut s, "claimed", "fn_job_claim('ann', 'c')");
    s.call("fn_limit_set('tenant:9', '{\"max_concurrent\": 5}')");
    let held_by = gate(&mut s, &costly[1]);
    assert_eq!((held_by["gate"].clone(), held_by["unit"].clone()), (json!("budget"), json!("usd")));
    let routed = id(&s.call("fn_job_enqueue('g', p_options => '{\"requires\": [\"gpu\"]}')"));
    assert_eq!(gate(&mut s, &routed)["gate"], "capability");
    s.call("fn_queue_heartbeat_tick('robot', 'Agent', p_metadata => '{\"capabilities\": [\"gpu\"]}')");
    assert_eq!(explain(&mut s, &routed)["code"], "ready");
    // An unknown outcome, and a deadline.
    let unknown = id(&s.call("fn_job_enqueue('u', p_options => '{\"external_effects\": true}')"));
    expect(&mut s, "claimed", "fn_job_claim('bob', 'u', 1)");
    s.shift_clock(2);
    assert_eq!(s.call("fn_job_claim('bob', 'u')")["code"], "empty");
    assert_eq!(gate(&mut s, &unknown)["gate"], "parked");
    s.shift_clock(0);
    let soon = "fn_job_enqueue('d', p_options => jsonb_build_object('start_by', now() + interval '1 minute'))";
    let late = id(&s.call(soon));
    s.shift_clock(90);
    assert_eq!(gate(&mut s, &late)["gate"], "deadline");
    let sql = "SELECT agentq.fn_job_explain('00000000-0000-4000-8000-000000000001')";
    refused(&mut s, sql, "P0002", "there is no job", "purged");
}

#[test]
fn a_job_that_nobody_can_take_says_so() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    assert_eq!(gate(&mut s, &job)["gate"], "no_worker");
    s.call("fn_queue_heartbeat_tick('robot', 'Agent')");
    assert_eq!(explain(&mut s, &job)["code"], "ready");
    s.shift_clock(301);
    assert_eq!(gate(&mut s, &job)["gate"], "no_worker");
}

#[test]
fn pressure_rises_with_slots_taken_and_jobs_waiting() {
    let db = database();
    let mut s = db.session();
    let level = |s: &mut Session| s.call("fn_backpressure_status()")["level"].clone();
    // Without bounds there is no pressure, but there are figures.
    enqueue_all(&mut s, &["x"; 10], "");
    let status = s.call("fn_backpressure_status()");
    assert_eq!((status["level"].clone(), status["queue_depth"].clone()), (json!("normal"), json!(10)));
    assert_eq!(status["global_utilization"], json!(null));
    assert!(
        status["recommendations"][0].as_str().is_some_and(|advice| advice.contains("look whether workers run")),
        "{status}"
    );
    s.call("fn_limit_set('global', '{\"max_concurrent\": 10, \"max_pending\": 100}')");
    s.call("fn_job_claim_batch('bob', 7)");
    assert_eq!(level(&mut s), "normal");
    s.call("fn_job_claim_batch('bob', 1)");
    let status = s.call("fn_backpressure_status()");
    assert_eq!((status["level"].clone(), status["global_utilization"].clone()), (json!("elevated"), json!(80.0)));
    s.call("fn_job_claim_batch('bob', 9)");
    assert_eq!(level(&mut s), "critical");
    s.call("fn_job_ack_batch('bob', (SELECT jsonb_agg(job_id) FROM agentq_internal.job_lease))");
    assert_eq!(level(&mut s), "normal");
    enqueue_all(&mut s, &["x"; 51], "");
    assert_eq!(level(&mut s), "elevated");
    enqueue_all(&mut s, &["x"; 30], "");
    let status = s.call("fn_backpressure_status()");
    assert_eq!(status["level"], "critical");
    // Ten were finished in the last minute, so eighty-one take about eight.
    assert_eq!(status["estimated_wait_time_seconds"], json!(486.0));
    // A change is told once.
    for _ in 0..2 {
        s.call("fn_engine_tick('watch_pressure')");
    }
    s.call("fn_limit_remove('global')");
    for _ in 0..2 {
        s.call("fn_engine_tick('watch_pressure')");
    }
    let told = "SELECT (payload->>'before') || ' ' || (payload->>'level') FROM agentq.event WHERE event_kind = 'backpressure.changed' ORDER BY event_id";
    assert_eq!(s.texts(told), ["normal critical", "critical normal"]);
    // One queue alone.
    s.call("fn_queue_set('mail')");
    assert_eq!(s.call("fn_backpressure_status('mail')")["queue_depth"], json!(0));
    refused(&mut s, "SELECT agentq.fn_backpressure_status('none')", "22023", "there is no queue \"none\"", "");
}

#[test]
fn whoever_keeps_vacuum_back_is_named() {
    let db = database();
    let (mut s, mut pin) = (db.session(), db.session());
    pin.run("SET application_name = 'forgotten'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    s.run("SELECT agentq.fn_job_enqueue_batch((SELECT jsonb_agg(jsonb_build_object('job_kind', 'x')) FROM generate_series(1, 6000))) FROM generate_series(1, 2)");
    s.run("SELECT agentq.fn_job_claim_batch('w', 1000) FROM generate_series(1, 12)");
    agentq_tests::eventually("the dead rows are seen", || {
        s.run("SELECT pg_stat_force_next_flush()");
        s.call("fn_backpressure_status()")["vacuum_held_by"].as_str().is_some_and(|by| by.contains("forgotten"))
    });
    let status = s.call("fn_backpressure_status()");
    let advice = status["recommendations"].to_string();
    assert!(advice.contains("forgotten") && advice.contains("end its transaction"), "{status}");
}

#[test]
fn new_work_is_deferred_while_old_work_has_waited_too_long() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('kind:a', '{\"max_age_seconds\": 60}')");
    s.call("fn_limit_set('tenant:*', '{\"max_age_seconds\": 100}')");
    let old = s.enqueue("a");
    s.call("fn_job_enqueue('b', p_options => '{\"limit_keys\": [\"tenant:1\"]}')");
    s.shift_clock(61);
    let answer = s.call("fn_job_enqueue('a')");
    assert_eq!((answer["ok"].clone(), answer["code"].clone()), (json!(false), json!("deferred")), "{answer}");
    assert!(answer["retry_after_seconds"].as_i64().is_some_and(|seconds| seconds > 0), "{answer}");
    let tenant = |number: i32| format!("fn_job_enqueue('c', p_options => '{{\"limit_keys\": [\"tenant:{number}\"]}}')");
    expect(&mut s, "enqueued", &tenant(1));
    s.shift_clock(101);
    assert_eq!(s.call(&tenant(1))["code"], "deferred");
    expect(&mut s, "enqueued", &tenant(2));
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{old}')"));
    s.shift_clock(103);
    expect(&mut s, "enqueued", "fn_job_enqueue('a')");
    refuse(&mut s, "fn_limit_set('kind:a', '{\"max_age_seconds\": -1}')", "max_age_seconds must be");
}

#[test]
fn work_is_let_in_up_to_a_bound() {
    let db = database();
    let mut s = db.session();
    let check = |s: &mut Session, job: &str| s.call(&format!("fn_admission_check('{job}')"));
    let plain = r#"{"job_kind": "x"}"#;
    assert_eq!(check(&mut s, plain)["verdict"], "accept");
    s.call("fn_limit_set('kind:never', '{\"max_concurrent\": 0}')");
    assert_eq!(s.call("fn_job_enqueue('never')")["code"], "refused");
    s.call("fn_limit_set('queue:default', '{\"max_pending\": 3}')");
    s.call("fn_limit_set('tenant:*', '{\"max_pending\": 2}')");
    let tenant = ", p_options => '{\"limit_keys\": [\"tenant:1\"]}'";
    for _ in 0..2 {
        expect(&mut s, "enqueued", &format!("fn_job_enqueue('x'{tenant})"));
    }
    let answer = s.call(&format!("fn_job_enqueue('x'{tenant})"));
    assert_eq!((answer["ok"].clone(), answer["code"].clone()), (json!(false), json!("deferred")));
    assert!(answer["message"].as_str().is_some_and(|why| why.contains("tenant:1")), "{answer}");
    assert!(answer["retry_after_seconds"].as_i64().is_some_and(|seconds| (1..=300).contains(&seconds)), "{answer}");
    expect(&mut s, "enqueued", "fn_job_enqueue('x', 'key')");
    let answer = check(&mut s, plain);
    assert_eq!((answer["verdict"].clone(), answer["reason"].is_string()), (json!("defer"), true));
    // One that is there already is told of all the same.
    expect(&mut s, "duplicate", "fn_job_enqueue('x', 'key')");
    let batch = s.call("fn_job_enqueue_batch('[{\"job_kind\": \"x\"}]')");
    assert_eq!((batch["created"].clone(), batch["deferred"].clone()), (json!(0), json!(1)));
    assert_eq!(s.count("agentq_internal.job"), 3);
    // What was claimed does not wait any more, as a new session sees at once.
    claimed(&mut s, "bob");
    expect(&mut db.session(), "enqueued", "fn_job_enqueue('x')");
    s.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    assert_eq!(check(&mut s, plain)["verdict"], "refuse");
    refused(&mut s, "SELECT agentq.fn_admission_check('{}')", "22023", "job_kind", "");
}

#[test]
fn nobody_is_refused_for_jobs_that_are_not_there() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('kind:a', '{\"max_pending\": 5}')");
    s.run("BEGIN");
    for _ in 0..5 {
        s.enqueue("a");
    }
    assert_eq!(s.call("fn_job_enqueue('a')")["code"], "deferred", "they are there for this transaction");
    s.run("ROLLBACK");
    for _ in 0..4 {
        // Enqueued, claimed and acked at once, by one session: nothing waits.
        for _ in 0..5 {
            s.enqueue("a");
        }
        assert_eq!(s.call("fn_job_enqueue('a')")["code"], "deferred");
        for _ in 0..5 {
            let job = id(&s.call("fn_job_claim('w', 'a')"));
            s.call(&format!("fn_job_ack('{job}', 'w')"));
        }
    }
    db.assert_sound();
}
