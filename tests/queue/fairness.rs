//! Turns: a tenant with many jobs does not delay another's first by more than a few claims.

use agentq_tests::{
    Cluster, Options, Session, claimed, database, drain, expect, id, is_told, json, refuse, waiting_claim,
};
use std::collections::BTreeMap;

/// Enqueues jobs of a tenant in one call.
#[track_caller]
fn enqueue(s: &mut Session, tenant: &str, count: usize) {
    let sql = format!(
        "SELECT agentq.fn_job_enqueue_batch(jsonb_agg(jsonb_build_object('job_kind', 'a', 'fairness_key', 'tenant:{tenant}')))
         FROM generate_series(1, {count})"
    );
    s.run(&sql);
}

/// Claims `count` jobs, one by one, and says of which tenant each is; - for none.
#[track_caller]
fn tenants(s: &mut Session, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..count {
        let job = id(&claimed(s, "bob"));
        let sql = format!(
            "SELECT coalesce(replace(fairness_key, 'tenant:', ''), '-') FROM agentq_internal.job WHERE job_id = '{job}'"
        );
        found.push(s.text(&sql));
    }
    found
}

fn counted(tenants: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    tenants.iter().for_each(|tenant| *counts.entry(tenant.as_str()).or_default() += 1);
    counts
}

#[test]
fn a_tenant_with_many_jobs_does_not_delay_another() {
    let db = database();
    let mut s = db.session();
    enqueue(&mut s, "big", 5_000);
    assert_eq!(counted(&tenants(&mut s, 10))["big"], 10, "alone it gets everything");
    for small in 0..20 {
        enqueue(&mut s, &format!("small{small}"), 2);
    }
    let order = tenants(&mut s, 42);
    assert_eq!(counted(&order)["big"], 2, "{order:?}");
    // Who comes later does not have to wait for what is there, nor does it catch up.
    enqueue(&mut s, "new", 100);
    let order = tenants(&mut s, 20);
    assert!(order[..2].iter().any(|tenant| tenant == "new"), "{order:?}");
    assert!((9..=11).contains(&counted(&order)["new"]), "{order:?}");
    db.assert_sound();
}

#[test]
fn a_weight_gives_a_larger_share() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('tenant:gold', '{\"weight\": 3}')");
    for tenant in ["gold", "tin"] {
        enqueue(&mut s, tenant, 200);
    }
    let order = tenants(&mut s, 80);
    assert_eq!((counted(&order)["gold"], counted(&order)["tin"]), (60, 20), "{order:?}");
    // In batches as well.
    let batch = s.call("fn_job_claim_batch('bob', 40)");
    let ids: Vec<&str> =
        batch["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["job_id"].as_str()).collect();
    let list = ids.join("','");
    assert_eq!(
        s.count(&format!("agentq_internal.job WHERE fairness_key = 'tenant:gold' AND job_id IN ('{list}')")),
        30
    );
    db.assert_sound();
}

#[test]
fn those_without_a_key_take_turns_as_one() {
    let db = database();
    let mut s = db.session();
    enqueue(&mut s, "a", 50);
    enqueue(&mut s, "b", 50);
    let plain: Vec<String> = (0..30).map(|_| s.enqueue("a")).collect();
    let order = tenants(&mut s, 30);
    assert_eq!(counted(&order), BTreeMap::from([("-", 10), ("a", 10), ("b", 10)]), "{order:?}");
    // When they have nothing for a while, they do not catch up.
    for job in &plain[10..] {
        expect(&mut s, "cancelled", &format!("fn_job_cancel('{job}')"));
    }
    tenants(&mut s, 20);
    (0..20).for_each(|_| drop(s.enqueue("a")));
    let order = tenants(&mut s, 9);
    assert!((2..=4).contains(&counted(&order)["-"]), "{order:?}");
    db.assert_sound();
}

#[test]
fn within_a_tenant_priority_and_time_decide() {
    let db = database();
    let mut s = db.session();
    let mut enqueue = |tenant: &str, more: &str| {
        let options = format!("p_options => '{{\"fairness_key\": \"tenant:{tenant}\"}}'");
        id(&s.call(&format!("fn_job_enqueue('a', {options}{more})")))
    };
    let late = enqueue("a", ", p_priority => 50");
    let urgent = enqueue("a", ", p_priority => 1");
    let other = enqueue("b", ", p_priority => 90");
    let mut found: Vec<String> = drain(&mut s, "fn_job_claim('bob', 'a')", "job_id");
    assert_eq!(found.pop(), Some(late));
    found.sort();
    let mut first = vec![urgent, other];
    first.sort();
    assert_eq!(found, first);
}

#[test]
fn every_way_back_leads_into_the_lane() {
    let db = database();
    let mut s = db.session();
    let option = "p_options => '{\"fairness_key\": \"tenant:a\", \"ordering_key\": \"k\"}'";
    let lane = |s: &mut Session| s.count("agentq_internal.job_line WHERE line LIKE 'fair:%|tenant:a'");
    s.call("fn_config_set('queue.retry.backoff_base_sec', '1')");
    let job = id(&s.call(&format!("fn_job_enqueue('a', {option})")));
    let second = id(&s.call(&format!("fn_job_enqueue('a', {option})")));
    assert_eq!((lane(&mut s), s.count("agentq_internal.job_ready")), (1, 0));
    for end in [
        "fn_job_release('JOB', 'bob')",
        "fn_job_fail_or_retry('JOB', 'bob', 'boom')",
        "fn_job_snooze('JOB', 'bob', now())",
    ] {
        assert_eq!(id(&claimed(&mut s, "bob")), job, "{end}");
        assert_eq!(lane(&mut s), 0);
        s.call(&end.replace("JOB", &job));
        s.shift_clock(5);
        s.call("fn_engine_tick('promote_due')");
        assert_eq!((lane(&mut s), s.count("agentq_internal.job_ready")), (1, 0), "{end}");
        s.shift_clock(0);
    }
    // Changed, expired, and behind the head of its ordering key.
    s.call(&format!("fn_job_change('{job}', '{{\"priority\": 7}}')"));
    assert_eq!(lane(&mut s), 1);
    s.shift_clock(5);
    assert_eq!(s.call("fn_job_claim('bob', p_lease_seconds => 1)")["job_id"], json!(job));
    s.shift_clock(20);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(lane(&mut s), 1);
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!((lane(&mut s), s.count("agentq_internal.job_ready")), (1, 0));
    assert_eq!(id(&claimed(&mut s, "bob")), second);
    s.call(&format!("fn_job_move_to_dead_letter('{second}', 'no')"));
    let letter = s.text("SELECT dead_letter_id::text FROM agentq.job_dead_letter");
    s.call(&format!("fn_dead_letter_redrive('{letter}')"));
    assert_eq!((lane(&mut s), s.count("agentq_internal.job_ready")), (1, 0));
    db.assert_sound();
}

#[test]
fn a_limit_of_the_fairness_key_holds_and_holds_up_nobody_else() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('tenant:*', '{\"max_concurrent\": 2}')");
    enqueue(&mut s, "a", 1_000);
    enqueue(&mut s, "b", 3);
    assert_eq!(counted(&tenants(&mut s, 4)), BTreeMap::from([("a", 2), ("b", 2)]));
    assert_eq!(s.claim("bob")["code"], "empty");
    // Its jobs were left where they are.
    assert_eq!(s.count("agentq_internal.job_line WHERE line NOT LIKE 'fair:%'"), 0);
    let held = s.text("SELECT l.job_id::text FROM agentq_internal.job_lease l JOIN agentq_internal.job j USING (job_id) WHERE j.fairness_key = 'tenant:b' LIMIT 1");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{held}', 'bob')"));
    assert_eq!(tenants(&mut s, 1), ["b"]);
    db.assert_sound();
}

#[test]
fn a_full_tenant_holds_up_nobody_and_does_not_catch_up() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('tenant:full', '{\"max_concurrent\": 1}')");
    enqueue(&mut s, "full", 500);
    enqueue(&mut s, "busy", 500);
    assert_eq!(counted(&tenants(&mut s, 101)), BTreeMap::from([("busy", 100), ("full", 1)]));
    enqueue(&mut s, "late", 500);
    let order = tenants(&mut s, 20);
    assert!(counted(&order)["busy"].abs_diff(10) <= 1, "{order:?}");
    s.call("fn_limit_remove('tenant:full')");
    let order = tenants(&mut s, 30);
    assert!(counted(&order)["busy"].abs_diff(10) <= 1, "{order:?}");
    db.assert_sound();
}

#[test]
fn a_slot_of_a_tenant_that_comes_back_is_passed_on_and_told_of() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('tenant:*', '{\"max_concurrent\": 1}')");
    is_told(&db, || {
        enqueue(&mut s, "a", 3);
        let first = id(&claimed(&mut s, "bob"));
        // Nobody gets in between.
        let next = s.call(&format!("fn_job_ack_and_claim('{first}', 'bob')"));
        let second = id(&next["job"]);
        assert_ne!(first, second);
        let waiter = waiting_claim(&db, "");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{second}', 'bob')"));
        waiter
    });
}

#[test]
fn jobs_in_lanes_that_a_rule_lets_go_are_counted_once() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('provider:x', '{\"max_concurrent\": 1}')");
    for _ in 0..4 {
        s.call(
            "fn_job_enqueue('a', p_options => '{\"fairness_key\": \"tenant:a\", \"limit_keys\": [\"provider:x\"]}')",
        );
    }
    claimed(&mut s, "bob");
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.count("agentq_internal.job_line WHERE line = 'provider:x'"), 3);
    // Two changes in one transaction: what the first has let go does not stand in the way of the second.
    s.run("BEGIN");
    s.call("fn_limit_remove('provider:x')");
    s.call("fn_limit_set('kind:z', '{\"max_concurrent\": 1}')");
    s.run("COMMIT");
    assert_eq!(drain(&mut s, "fn_job_claim('bob')", "job_id").len(), 3);
    db.assert_sound();
}

#[test]
fn turns_are_taken_by_eight_workers_at_once_and_nothing_is_lost() {
    let db = database();
    let mut s = db.session();
    enqueue(&mut s, "big", 2_000);
    for small in 0..9 {
        enqueue(&mut s, &format!("small{small}"), 10);
    }
    std::thread::scope(|scope| {
        for number in 0..8 {
            let db = &db;
            scope.spawn(move || {
                let mut s = db.session();
                loop {
                    let answer = s.call(&format!("fn_job_claim('w{number}')"));
                    if answer["code"] != "claimed" {
                        break;
                    }
                    s.call(&format!("fn_job_ack('{}', 'w{number}')", id(&answer)));
                }
            });
        }
    });
    assert_eq!(s.count("agentq_internal.job_done"), 2_090);
    // How many jobs had been begun when the last of the small ones was.
    let rank = s.text(
        "SELECT max(n)::text FROM (SELECT row_number() OVER (ORDER BY d.picked_at) AS n, j.fairness_key
         FROM agentq_internal.job_done d JOIN agentq_internal.job j USING (job_id)) r WHERE fairness_key LIKE 'tenant:small%'",
    );
    let rank: usize = rank.parse().expect("a number");
    // About a hundred where turns are taken, two thousand where they are not.
    assert!(rank <= 500, "the small ones were through only after {rank} jobs");
    db.assert_sound();
}

#[test]
fn what_is_rolled_back_is_there_again() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    enqueue(&mut s, "a", 1);
    s.run("BEGIN");
    claimed(&mut s, "bob");
    assert_eq!(other.claim("cat")["code"], "empty");
    s.run("ROLLBACK");
    claimed(&mut other, "cat");
    s.run("BEGIN");
    enqueue(&mut s, "b", 1);
    claimed(&mut s, "bob");
    s.run("ROLLBACK");
    assert_eq!(s.claim("bob")["code"], "empty");
    db.assert_sound();
}

#[test]
fn a_waiting_claim_is_woken_by_a_job_in_a_lane() {
    let db = database();
    let mut s = db.session();
    is_told(&db, || {
        let waiter = waiting_claim(&db, "");
        enqueue(&mut s, "a", 1);
        waiter
    });
}

#[test]
fn turns_are_taken_without_shared_memory_and_after_a_crash() {
    for preload in [true, false] {
        let name = if preload { "fairness" } else { "fairness_alone" };
        let mut cluster = Cluster::start(name, &Options { without_preload: !preload, ..Options::default() });
        cluster.make_template();
        {
            let mut s = cluster.session("agentq_template");
            enqueue(&mut s, "big", 300);
            enqueue(&mut s, "small", 3);
        }
        cluster.crash_and_restart();
        let mut s = cluster.session("agentq_template");
        let order = tenants(&mut s, 40);
        assert_eq!(counted(&order)["small"], 3, "{name}: {order:?}");
        assert_eq!(s.count("agentq.fn_queue_verify()"), 0);
    }
}

#[test]
fn keys_that_make_no_sense_are_refused() {
    let db = database();
    let mut s = db.session();
    for (key, says) in [("3", "must be a text"), ("\"\"", "empty"), ("\"queue:x\"", "cannot be given")] {
        refuse(&mut s, &format!("fn_job_enqueue('a', p_options => '{{\"fairness_key\": {key}}}')"), says);
    }
}

#[test]
fn those_without_a_key_have_one_turn_also_when_many_claim_at_once() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue_payloads('k', (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 400)))");
    s.call(
        "fn_job_enqueue_batch((SELECT jsonb_agg(jsonb_build_object('job_kind', 'k', 'fairness_key', 't' || t, 'source_ref', 't'))
             FROM generate_series(1, 5) n, generate_series(1, 200) t))",
    );
    std::thread::scope(|scope| {
        for number in 0..4 {
            let mut worker = db.session();
            scope.spawn(move || {
                for _ in 0..300 {
                    expect(&mut worker, "claimed", &format!("fn_job_claim('w{number}', 'k')"));
                }
            });
        }
    });
    // One of 201 turns is theirs, until the tenants are through.
    let without_key = s.count(
        "agentq_internal.job_lease l JOIN agentq_internal.job j USING (job_id) WHERE j.source_ref IS NULL AND l.picked_at <= (
             SELECT max(l.picked_at) FROM agentq_internal.job_lease l JOIN agentq_internal.job t USING (job_id) WHERE t.source_ref = 't')",
    );
    assert!((3..=40).contains(&without_key), "{without_key} instead of about 5");
    assert_eq!(
        s.count("agentq_internal.job_lease JOIN agentq_internal.job USING (job_id) WHERE source_ref = 't'"),
        1000
    );
}
