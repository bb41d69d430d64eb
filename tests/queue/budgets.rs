//! Budgets: reserved at claim, settled with the real use, given back when an attempt comes to nothing.

use agentq_tests::{Cluster, Options, Session, claimed, database, expect, id, json, refuse};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[track_caller]
fn budget(s: &mut Session, key: &str, unit: &str, period: &str, budget: &str) {
    s.call(&format!("fn_budget_set('{key}', '{unit}', '{period}', '{budget}')"));
}

#[track_caller]
fn enqueue(s: &mut Session, cost: &str, count: usize) -> Vec<String> {
    let call = format!("fn_job_enqueue('a', p_options => '{{\"limit_keys\": [\"tenant:1\"], \"cost\": {cost}}}')");
    (0..count).map(|_| id(&s.call(&call))).collect()
}

/// Used, reserved and left of the present period.
#[track_caller]
fn state(s: &mut Session, unit: &str) -> String {
    s.text(&format!(
        "SELECT concat_ws(' ', trim_scale(used), trim_scale(reserved), trim_scale(remaining))
         FROM agentq.v_budget WHERE limit_key = 'tenant:1' AND unit = '{unit}' AND is_current"
    ))
}

/// What shared memory counts is what the tables say.
#[track_caller]
fn assert_counted(s: &mut Session) {
    let wrong = s.texts(
        "SELECT concat_ws(' ', limit_key, unit, used, reserved, c) FROM agentq.v_budget
         CROSS JOIN LATERAL agentq_internal.fn_limit_counted(concat_ws(':', 'budget', unit, period, period_start, limit_key)) AS c
         WHERE is_current AND rule IS NOT NULL AND c <> (used + reserved) * 1000000",
    );
    assert!(wrong.is_empty(), "tables and counts differ: {wrong:?}");
}

#[test]
fn what_is_reserved_is_settled_with_the_real_use() {
    let db = database();
    let mut s = db.session();
    budget(&mut s, "tenant:*", "usd", "day", "{\"amount\": 1}");
    budget(&mut s, "tenant:*", "tokens", "month", "{\"amount\": 100000}");
    let jobs = enqueue(&mut s, "{\"usd\": 0.4, \"tokens\": 1000}", 4);
    for job in &jobs[..2] {
        assert_eq!(id(&claimed(&mut s, "bob")), *job);
    }
    assert_eq!(state(&mut s, "usd"), "0 0.8 0.2");
    let answer = s.claim("bob");
    assert_eq!(answer["code"], "empty", "{answer}");
    assert!(answer["limited"][0].as_str().expect("a key").starts_with("budget:usd:day:"), "{answer}");
    // Less than expected was used, and then more than that.
    expect(&mut s, "counted", &format!("fn_job_usage('{}', 'bob', '{{\"usd\": 0.1}}')", jobs[0]));
    assert_eq!(state(&mut s, "usd"), "0.1 0.7 0.2");
    expect(&mut s, "counted", &format!("fn_job_usage('{}', 'bob', '{{\"usd\": 0.05}}')", jobs[0]));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
    assert_eq!(state(&mut s, "usd"), "0.15 0.4 0.45");
    // Of what nobody told, as much was used as was reserved.
    assert_eq!(state(&mut s, "tokens"), "1000 1000 98000");
    assert_counted(&mut s);
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[2]);
    expect(&mut s, "counted", &format!("fn_job_usage('{}', 'bob', '{{\"usd\": 2}}')", jobs[2]));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[2]));
    assert_eq!(state(&mut s, "usd"), "2.15 0.4 -1.55");
    // The engine adds up what was spent, and nothing changes.
    assert!(s.count("agentq_internal.budget_spent") > 0);
    s.call("fn_engine_tick('tend_limits')");
    assert_eq!(s.count("agentq_internal.budget_spent"), 0);
    assert_eq!(state(&mut s, "usd"), "2.15 0.4 -1.55");
    assert_counted(&mut s);
    expect(&mut s, "already_finished", &format!("fn_job_usage('{}', 'bob', '{{\"usd\": 2}}')", jobs[2]));
    db.assert_sound();
}

#[test]
fn what_comes_to_nothing_is_given_back() {
    let db = database();
    let mut s = db.session();
    let noon = s.to_noon();
    budget(&mut s, "tenant:1", "usd", "day", "{\"amount\": 1}");
    for end in [
        "fn_job_fail_or_retry('JOB', 'bob', 'boom')",
        "fn_job_snooze('JOB', 'bob', '2100-01-01')",
        "fn_job_move_to_dead_letter('JOB', 'no')",
        "fn_job_fail_or_retry('JOB', 'bob', 'boom', p_verdict => 'discard')",
    ] {
        let job = enqueue(&mut s, "{\"usd\": 1}", 1).remove(0);
        assert_eq!(id(&claimed(&mut s, "bob")), job, "{end}");
        s.call(&end.replace("JOB", &job));
        assert_eq!(state(&mut s, "usd"), "0 0 1", "{end}");
        assert_counted(&mut s);
    }
    // When the lease dies, too; but what its worker has told of is spent.
    let jobs = enqueue(&mut s, "{\"usd\": 0.9}", 2);
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "counted", &format!("fn_job_usage('{}', 'bob', '{{\"usd\": 0.1}}')", jobs[0]));
    s.shift_clock(noon + 301);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(state(&mut s, "usd"), "0.1 0 0.9");
    assert_counted(&mut s);
    // What is rolled back was never reserved, nor spent.
    s.run("BEGIN");
    let held = id(&claimed(&mut s, "bob"));
    expect(&mut s, "counted", &format!("fn_job_usage('{held}', 'bob', '{{\"usd\": 0.3}}')"));
    s.run("ROLLBACK");
    assert_eq!(state(&mut s, "usd"), "0.1 0 0.9");
    assert_counted(&mut s);
    db.assert_sound();
}

#[test]
fn who_waits_for_a_budget_runs_in_the_next_period_or_when_it_is_raised() {
    let db = database();
    let mut s = db.session();
    let noon = s.to_noon();
    budget(&mut s, "tenant:1", "usd", "hour", "{\"amount\": 1}");
    let jobs = enqueue(&mut s, "{\"usd\": 0.6}", 5);
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
    assert_eq!(s.claim("bob")["code"], "empty");
    let answer = s.call(&format!("fn_job_explain('{}')", jobs[1]));
    assert_eq!(answer["gates"][0]["gate"], "budget", "{answer}");
    assert_eq!(answer["gates"][0]["until"], answer["may_run_at"]);
    budget(&mut s, "tenant:1", "usd", "hour", "{\"amount\": 1.2}");
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[1]);
    assert_eq!(s.claim("bob")["code"], "empty");
    // What is held still counts in the hour in which it was reserved.
    s.call("fn_config_set('queue.lease.duration_sec', '7200')");
    s.call(&format!("fn_job_heartbeat('{}', 'bob', 7200)", jobs[0]));
    s.call(&format!("fn_job_heartbeat('{}', 'bob', 7200)", jobs[1]));
    s.shift_clock(noon + 3_600);
    for job in &jobs[2..4] {
        assert_eq!(id(&claimed(&mut s, "bob")), *job);
    }
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "removed", "fn_budget_remove('tenant:1', 'usd', 'hour')");
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[4]);
    db.assert_sound();
}

#[test]
fn a_budget_that_refuses_turns_new_work_away() {
    let db = database();
    let mut s = db.session();
    budget(&mut s, "tenant:*", "tool_calls", "total", "{\"amount\": 10, \"when_exhausted\": \"refuse\"}");
    enqueue(&mut s, "{\"tool_calls\": 10}", 1);
    let call = "fn_job_enqueue('a', p_options => '{\"limit_keys\": [\"tenant:1\"], \"cost\": {\"tool_calls\": 1}}')";
    expect(&mut s, "enqueued", call);
    claimed(&mut s, "bob");
    let answer = s.call(call);
    assert_eq!((answer["ok"].clone(), answer["code"].clone()), (json!(false), json!("refused")));
    assert!(answer["message"].as_str().expect("a text").contains("budget of tenant:1"), "{answer}");
    let check = s.call("fn_admission_check('{\"job_kind\": \"a\", \"limit_keys\": [\"tenant:1\"]}')");
    assert_eq!(check["verdict"], "refuse", "{check}");
    assert_eq!(
        s.call("fn_admission_check('{\"job_kind\": \"a\", \"limit_keys\": [\"tenant:2\"]}')")["verdict"],
        "accept"
    );
    // What could never run is refused by any budget.
    budget(&mut s, "global", "usd", "day", "{\"amount\": 5}");
    let answer = s.call("fn_job_enqueue('b', p_options => '{\"cost\": {\"usd\": 6}}')");
    assert_eq!(answer["code"], "refused", "{answer}");
    for (call, says) in [
        ("fn_budget_set('t', 'USD', 'day', '{\"amount\": 1}')", "no name of a unit"),
        ("fn_budget_set('t', 'usd', 'year', '{\"amount\": 1}')", "not known"),
        ("fn_budget_set('t', 'usd', 'day', '{}')", "amount must be"),
        (
            "fn_budget_set('t', 'usd', 'day', '{\"amount\": 1, \"when_exhausted\": \"cry\"}')",
            "when_exhausted must be one of",
        ),
        ("fn_job_enqueue('a', p_options => '{\"cost\": {\"usd\": -1}}')", "cost.usd must be"),
        ("fn_job_enqueue('a', p_options => '{\"cost\": 3}')", "cost must be"),
    ] {
        refuse(&mut s, call, says);
    }
}

#[test]
fn who_waits_behind_a_costlier_job_is_not_forgotten() {
    for preload in [true, false] {
        let cluster = Cluster::start("budgets_line", &Options { without_preload: !preload, ..Options::default() });
        cluster.make_template();
        let mut s = cluster.session("agentq_template");
        budget(&mut s, "tenant:1", "usd", "total", "{\"amount\": 10}");
        let held = enqueue(&mut s, "{\"usd\": 9}", 1).remove(0);
        assert_eq!(id(&claimed(&mut s, "bob")), held);
        let light = enqueue(&mut s, "{\"usd\": 2}", 1).remove(0);
        let heavy = enqueue(&mut s, "{\"usd\": 8}", 1).remove(0);
        // Others go on meanwhile.
        s.enqueue("b");
        expect(&mut s, "claimed", "fn_job_claim('bob', 'b')");
        s.enqueue("b");
        claimed(&mut s, "bob");
        // There is enough for the light one now, and then for the heavy one.
        expect(&mut s, "counted", &format!("fn_job_usage('{held}', 'bob', '{{\"usd\": 1}}')"));
        expect(&mut s, "succeeded", &format!("fn_job_ack('{held}', 'bob')"));
        assert_eq!(id(&claimed(&mut s, "bob")), light, "preload: {preload}");
        assert_eq!(s.claim("bob")["code"], "empty");
        s.call(&format!("fn_job_move_to_dead_letter('{light}', 'no')"));
        let last = enqueue(&mut s, "{\"usd\": 1}", 1).remove(0);
        assert_eq!(id(&claimed(&mut s, "bob")), heavy, "preload: {preload}");
        assert_eq!(id(&claimed(&mut s, "bob")), last, "preload: {preload}");
    }
}

#[test]
fn a_costly_job_does_not_stop_the_queue() {
    for preload in [true, false] {
        let cluster = Cluster::start("budgets_queue", &Options { without_preload: !preload, ..Options::default() });
        cluster.make_template();
        let mut s = cluster.session("agentq_template");
        budget(&mut s, "global", "usd", "total", "{\"amount\": 10}");
        let spent = enqueue(&mut s, "{\"usd\": 5}", 1).remove(0);
        claimed(&mut s, "bob");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{spent}', 'bob')"));
        enqueue(&mut s, "{\"usd\": 8}", 1);
        let light = enqueue(&mut s, "{\"usd\": 1}", 1).remove(0);
        s.enqueue("free");
        for _ in 0..2 {
            assert_eq!(id(&claimed(&mut s, "bob")), light, "preload: {preload}");
            s.call(&format!("fn_job_release('{light}', 'bob')"));
        }
        assert_eq!(id(&claimed(&mut s, "bob")), light);
        claimed(&mut s, "bob");
        assert_eq!(s.claim("bob")["code"], "empty");
    }
}

#[test]
fn a_claim_with_an_old_snapshot_keeps_to_the_budgets_of_now() {
    let db = database();
    let (mut s, mut old) = (db.session(), db.session());
    enqueue(&mut s, "{\"usd\": 5}", 1);
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM agentq_internal.job");
    budget(&mut s, "tenant:1", "usd", "day", "{\"amount\": 4.5}");
    assert_eq!(old.claim("ann")["code"], "empty");
    old.run("COMMIT");
    assert_counted(&mut s);
}

#[test]
fn more_than_can_be_counted_is_still_too_much() {
    let db = database();
    let mut s = db.session();
    budget(&mut s, "tenant:1", "usd", "total", "{\"amount\": 10}");
    let jobs = enqueue(&mut s, "{\"usd\": 1}", 3);
    let held = id(&claimed(&mut s, "bob"));
    for _ in 0..12 {
        expect(&mut s, "counted", &format!("fn_job_usage('{held}', 'bob', '{{\"usd\": 1000000000000}}')"));
    }
    s.call("fn_engine_tick('tend_limits')");
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.call(&format!("fn_job_explain('{}')", jobs[2]))["code"], "waiting");
    assert_eq!(s.count("agentq.v_budget WHERE remaining < 0"), 1);
}

#[test]
fn counters_of_past_periods_make_room() {
    let db = database();
    let mut s = db.session();
    let noon = s.to_noon();
    budget(&mut s, "tenant:*", "usd", "hour", "{\"amount\": 10}");
    let job = enqueue(&mut s, "{\"usd\": 2}", 1).remove(0);
    claimed(&mut s, "bob");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    let counter = s.text("SELECT counter FROM agentq_internal.budget_spent");
    let counted = |s: &mut Session| s.text(&format!("SELECT agentq_internal.fn_limit_counted('{counter}')::text"));
    s.call("fn_engine_tick('tend_limits')");
    assert_eq!(counted(&mut s), "2000000");
    s.shift_clock(noon + 3_600);
    s.call("fn_engine_tick('tend_limits')");
    assert_eq!(counted(&mut s), "0");
    assert_eq!(s.count("agentq.v_budget WHERE used = 2 AND NOT is_current"), 1, "what was spent is still known");
}

#[test]
fn sixteen_claimers_never_reserve_more_than_there_is() {
    const JOBS: usize = 300;
    let db = database();
    let mut s = db.session();
    budget(&mut s, "tenant:1", "usd", "total", "{\"amount\": 10}");
    enqueue(&mut s, "{\"usd\": 3}", JOBS);
    let (done, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (db, done, most) = (&db, &done, &most);
            scope.spawn(move || {
                let mut s = db.session();
                while done.load(SeqCst) < JOBS {
                    let answer = s.call(&format!("fn_job_claim('w{number}')"));
                    if answer["code"] != "claimed" {
                        continue;
                    }
                    let job = id(&answer);
                    let held = s.count("agentq_internal.job_lease") as usize;
                    most.fetch_max(held, SeqCst);
                    // It cost nothing in the end.
                    s.call(&format!("fn_job_usage('{job}', 'w{number}', '{{\"usd\": 0}}')"));
                    s.call(&format!("fn_job_ack('{job}', 'w{number}')"));
                    done.fetch_add(1, SeqCst);
                }
            });
        }
    });
    assert!(most.load(SeqCst) <= 3, "{} jobs of 3 were held under a budget of 10", most.load(SeqCst));
    assert_eq!(state(&mut s, "usd"), "0 0 10");
    assert_counted(&mut s);
    db.assert_sound();
}

#[test]
fn budgets_hold_after_a_crash_and_without_shared_memory() {
    for preload in [true, false] {
        let name = if preload { "budgets" } else { "budgets_alone" };
        let mut cluster = Cluster::start(name, &Options { without_preload: !preload, ..Options::default() });
        cluster.make_template();
        {
            let mut s = cluster.session("agentq_template");
            budget(&mut s, "tenant:1", "usd", "total", "{\"amount\": 10}");
            let jobs = enqueue(&mut s, "{\"usd\": 3}", 9);
            for job in &jobs[..3] {
                assert_eq!(id(&claimed(&mut s, "bob")), *job);
            }
            assert_eq!(s.claim("bob")["code"], "empty");
            expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
            s.call("fn_engine_tick('tend_limits')");
            expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[1]));
        }
        cluster.crash_and_restart();
        let mut s = cluster.session("agentq_template");
        assert_eq!(state(&mut s, "usd"), "6 3 1", "{name}");
        assert_eq!(s.claim("bob")["code"], "empty", "{name}");
        s.shift_clock(301);
        s.call("fn_engine_tick('reap_leases')");
        claimed(&mut s, "bob");
        assert_eq!(s.claim("bob")["code"], "empty", "{name}");
        assert_eq!(state(&mut s, "usd"), "6 3 1", "{name}");
    }
}

#[test]
fn a_holder_hears_that_its_budget_is_exceeded_and_so_does_the_log() {
    let db = database();
    let mut s = db.session();
    budget(&mut s, "tenant:*", "usd", "day", "{\"amount\": 1}");
    let jobs = enqueue(&mut s, "{\"usd\": 0.4}", 2);
    jobs.iter().for_each(|job| assert_eq!(id(&claimed(&mut s, "bob")), *job));
    let heartbeat = format!("fn_job_heartbeat('{}', 'bob')", jobs[0]);
    assert!(expect(&mut s, "extended", &heartbeat).get("over_budget").is_none());
    let told = expect(&mut s, "counted", &format!("fn_job_usage('{}', 'bob', '{{\"usd\": 0.9}}')", jobs[1]));
    assert_eq!(told["over_budget"][0]["unit"], "usd", "{told}");
    // Also who has used nothing of it: all of them spend of the same.
    let told = expect(&mut s, "extended", &heartbeat);
    assert_eq!(told["over_budget"][0]["amount"], 1.0, "{told}");
    assert!(told["over_budget"][0]["used"].as_f64() > Some(1.0), "{told}");
    s.call("fn_engine_tick('tend_limits')");
    assert_eq!(
        s.count("agentq.event WHERE event_kind = 'budget.exceeded'"),
        0,
        "0.9 of 1 is used, and the rest reserved"
    );
    expect(&mut s, "counted", &format!("fn_job_usage('{}', 'bob', '{{\"usd\": 0.2}}')", jobs[1]));
    s.call("fn_engine_tick('tend_limits')");
    expect(&mut s, "counted", &format!("fn_job_usage('{}', 'bob', '{{\"usd\": 0.2}}')", jobs[1]));
    s.call("fn_engine_tick('tend_limits')");
    let events = s.json("SELECT jsonb_agg(jsonb_build_array(subject, payload->'used')) FROM agentq.event WHERE event_kind = 'budget.exceeded'", &[]);
    assert_eq!(events, json!([["tenant:1", 1.1]]), "once, when it was passed");
    db.assert_sound();
}
