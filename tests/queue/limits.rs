//! Limits on how many jobs are held at once: never passed, never leaking a slot.

use agentq_tests::{
    Cluster, Options, Session, Value, claimed, database, drain, enqueue_all, expect, id, is_told, json, refused, text,
    until_someone_waits, until_waiting, waiting_claim,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[track_caller]
fn limit(s: &mut Session, key: &str, max: i32) {
    s.call(&format!("fn_limit_set('{key}', '{{\"max_concurrent\": {max}}}')"));
}

/// Enqueues jobs with these limit keys and returns their ids.
#[track_caller]
fn enqueue(s: &mut Session, kind: &str, keys: &str, count: usize) -> Vec<String> {
    let call = format!("fn_job_enqueue('{kind}', p_options => '{{\"limit_keys\": [{keys}]}}')");
    (0..count).map(|_| id(&s.call(&call))).collect()
}

#[track_caller]
fn claim(s: &mut Session, arguments: &str) -> Value {
    s.call(&format!("fn_job_claim('bob'{arguments})"))
}

/// What shared memory counts is what the leases say.
#[track_caller]
fn assert_counted(s: &mut Session) {
    let wrong =
        s.texts("SELECT concat_ws(' ', limit_key, active, counted) FROM agentq.v_limit WHERE counted <> active");
    assert!(wrong.is_empty(), "leases and counts differ: {wrong:?}");
}

#[test]
fn every_scope_has_its_limit() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    for (key, enqueue, arguments) in [
        ("global", "'a'", ""),
        ("queue:mail", "'b', p_options => '{\"queue\": \"mail\"}'", ", p_options => '{\"queues\": [\"mail\"]}'"),
        ("kind:c", "'c'", ", 'c'"),
        ("kind:d", "'d'", ""),
        ("worker_type:crew", "'e'", ", 'e', p_options => '{\"worker_type\": \"crew\"}'"),
        ("worker:vp:bob", "'f'", ", 'f', p_options => '{\"worker_type\": \"vp\"}'"),
        ("worker:ceo:*", "'g'", ", 'g', p_options => '{\"worker_type\": \"ceo\"}'"),
        ("tenant:42", "'h', p_options => '{\"limit_keys\": [\"tenant:42\"]}'", ", 'h'"),
        ("venture:*", "'i', p_options => '{\"limit_keys\": [\"venture:7\"]}'", ", 'i'"),
    ] {
        limit(&mut s, key, 2);
        let jobs: Vec<String> = (0..4).map(|_| id(&s.call(&format!("fn_job_enqueue({enqueue})")))).collect();
        for job in &jobs[..2] {
            assert_eq!(id(&claim(&mut s, arguments)), *job, "{key}");
        }
        let answer = claim(&mut s, arguments);
        assert_eq!(answer["code"], "empty", "{key}: {answer}");
        let by = text(&json!({"by": answer["limited"][0]}), "by");
        assert!(by.starts_with(key.trim_end_matches('*')), "{key}: {answer}");
        assert_counted(&mut s);
        // Another worker, type of worker, tenant or kind has slots of its own.
        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
        assert_eq!(id(&claim(&mut s, arguments)), jobs[2], "{key}");
        assert_eq!(claim(&mut s, arguments)["code"], "empty", "{key}");
        for job in &jobs[1..3] {
            expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
        }
        assert_eq!(id(&claim(&mut s, arguments)), jobs[3], "{key}");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[3]));
        expect(&mut s, "removed", &format!("fn_limit_remove('{key}')"));
    }
    assert_counted(&mut s);
    db.assert_sound();
}

#[test]
fn every_end_of_a_lease_frees_its_slot() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "tenant:*", 1);
    for end in [
        "fn_job_ack('JOB', 'bob')",
        "fn_job_ack_batch('bob', '[\"JOB\"]')",
        "fn_job_ack_and_claim('JOB', 'bob', p_job_kind => 'none')",
        "fn_job_fail_or_retry('JOB', 'bob', 'boom')",
        "fn_job_fail_or_retry('JOB', 'bob', 'boom', 'validation_error')",
        "fn_job_fail_or_retry('JOB', 'bob', 'boom', p_verdict => 'discard')",
        "fn_job_fail_or_retry('JOB', 'bob', 'boom', p_verdict => 'cancel')",
        "fn_job_snooze('JOB', 'bob', '2100-01-01')",
        "fn_job_move_to_dead_letter('JOB', 'no')",
    ] {
        let jobs = enqueue(&mut s, "x", "\"tenant:1\"", 2);
        assert_eq!(id(&claim(&mut s, ", 'x'")), jobs[0], "{end}");
        assert_eq!(claim(&mut s, ", 'x'")["code"], "empty", "{end}");
        s.call(&end.replace("JOB", &jobs[0]));
        assert_counted(&mut s);
        assert_eq!(id(&claim(&mut s, ", 'x'")), jobs[1], "{end}");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[1]));
    }
    // Given back, it is the next again.
    let jobs = enqueue(&mut s, "y", "\"tenant:1\"", 2);
    assert_eq!(id(&claim(&mut s, ", 'y'")), jobs[0]);
    expect(&mut s, "released", &format!("fn_job_release('{}', 'bob')", jobs[0]));
    assert_eq!(id(&claim(&mut s, ", 'y'")), jobs[0]);
    // An expired lease, too.
    assert_eq!(claim(&mut s, ", 'y'")["code"], "empty");
    s.shift_clock(301);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(s.count("agentq_internal.job_lease"), 0);
    assert_counted(&mut s);
    assert_eq!(drain(&mut s, "fn_job_claim('cat', 'y')", "job_id").len(), 1);
    db.assert_sound();
}

#[test]
fn what_is_rolled_back_leaks_no_slot() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "tenant:*", 1);
    let jobs = enqueue(&mut s, "x", "\"tenant:1\"", 3);
    s.run("BEGIN");
    claimed(&mut s, "bob");
    assert_eq!(s.claim("bob")["code"], "empty");
    s.run("ROLLBACK");
    assert_counted(&mut s);
    s.run("BEGIN; SAVEPOINT a");
    claimed(&mut s, "bob");
    s.run("SAVEPOINT b; RELEASE b; ROLLBACK TO a");
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
    s.run("RELEASE a");
    assert_eq!(s.claim("cat")["code"], "empty");
    s.run("COMMIT");
    assert_counted(&mut s);
    assert_eq!(s.count("agentq_internal.job_lease"), 1);
    // An ack that is rolled back keeps it.
    s.run("BEGIN");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
    // It is free when the ack has committed, and not before.
    assert_eq!(db.session().claim("cat")["code"], "empty");
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[1]);
    assert_eq!(s.claim("bob")["code"], "empty");
    s.run("ROLLBACK");
    assert_eq!(s.claim("cat")["code"], "empty");
    s.run("BEGIN; SAVEPOINT a");
    s.call(&format!("fn_job_ack('{}', 'bob')", jobs[0]));
    s.run("ROLLBACK TO a; COMMIT");
    assert_counted(&mut s);
    assert_eq!(s.claim("cat")["code"], "empty");
    // A statement that fails after its claim.
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
    s.fails("SELECT 1 / (length(agentq.fn_job_claim('bob')::text) - length(agentq.fn_job_claim('bob')::text) * 0) / 0");
    assert_counted(&mut s);
    assert_eq!(drain(&mut s, "fn_job_claim('dan')", "job_id").len(), 1);
    let failure = s.fails(
        "BEGIN; SELECT agentq.fn_job_release(job_id, 'dan') FROM agentq_internal.job_lease; PREPARE TRANSACTION 'p'",
    );
    assert_eq!(failure.code, "0A000", "{failure:?}");
    s.run("ROLLBACK");
    assert_counted(&mut s);
    db.assert_sound();
}

#[test]
fn a_full_limit_hides_nothing_and_keeps_the_order() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "tenant:*", 1);
    let big = enqueue(&mut s, "x", "\"tenant:1\"", 300);
    let small = enqueue(&mut s, "x", "\"tenant:2\"", 1);
    let plain = s.enqueue("x");
    assert_eq!(id(&claimed(&mut s, "bob")), big[0]);
    // 299 are put aside on the way, in as many claims as that takes.
    let mut found = Vec::new();
    for _ in 0..10 {
        let answer = s.claim("bob");
        if answer["code"] == "claimed" {
            found.push(id(&answer));
        }
    }
    assert_eq!(found, [small[0].clone(), plain]);
    assert_eq!(
        s.text("SELECT concat_ws(' ', active, blocked) FROM agentq.v_limit WHERE limit_key = 'tenant:1'"),
        "1 299"
    );
    assert_eq!(
        s.text("SELECT concat_ws(' ', ready, blocked) FROM agentq.v_queue_depth WHERE queue = 'default'"),
        "0 299"
    );
    // The most urgent of those that wait is the next, also one that comes now.
    let urgent = id(&s.call("fn_job_enqueue('x', p_priority => 1, p_options => '{\"limit_keys\": [\"tenant:1\"]}')"));
    s.call(&format!("fn_job_change('{}', '{{\"priority\": 2}}')", big[200]));
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{}')", big[1]));
    let mut order = vec![big[0].clone()];
    for _ in 0..3 {
        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", order[order.len() - 1]));
        order.push(id(&claimed(&mut s, "bob")));
    }
    assert_eq!(order[1..], [urgent, big[200].clone(), big[2].clone()]);
    assert_counted(&mut s);
    db.assert_sound();
    // Without the rule, all may run.
    s.call("fn_limit_remove('tenant:*')");
    assert_eq!(s.count("agentq_internal.job_line"), 0);
    assert_eq!(s.call("fn_job_claim_batch('bob', 1000)")["count"], json!(296));
    db.assert_sound();
}

#[test]
fn thirty_two_claimers_never_pass_a_limit() {
    const JOBS: usize = 600;
    let db = database();
    let mut s = db.session();
    limit(&mut s, "global", 5);
    limit(&mut s, "tenant:*", 2);
    for tenant in 0..6 {
        enqueue(&mut s, "x", &format!("\"tenant:{tenant}\""), JOBS / 6);
    }
    let (done, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for number in 0..32 {
            let (mut s, done) = (db.session(), &done);
            scope.spawn(move || {
                let owner = format!("w{number}");
                while done.load(SeqCst) < JOBS {
                    // Some claims are rolled back, some jobs given back, the rest done.
                    s.run("BEGIN");
                    let answer = s.claim(&owner);
                    let found = answer["code"] == "claimed";
                    if done.load(SeqCst) % 7 == number % 7 {
                        s.run("ROLLBACK");
                        continue;
                    }
                    s.run("COMMIT");
                    if found && number % 5 == 0 && answer["attempt"] == json!(1) {
                        s.call(&format!(
                            "fn_job_fail_or_retry('{}', '{owner}', 'boom', p_retry_after => '0')",
                            id(&answer)
                        ));
                    } else if found {
                        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', '{owner}')", id(&answer)));
                        done.fetch_add(1, SeqCst);
                    }
                }
            });
        }
        let (mut s, done, over) = (db.session(), &done, &over);
        scope.spawn(move || {
            while done.load(SeqCst) < JOBS {
                let held = "SELECT count(*) > 5 OR max(c) > 2 FROM (SELECT job_id, count(*) OVER (PARTITION BY limits) AS c FROM agentq_internal.job_lease) l";
                if s.text(held) == "t" {
                    over.store(true, SeqCst);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    });
    assert!(!over.load(SeqCst), "more jobs were held at once than the limits allow");
    assert_eq!(s.count("agentq.job_queue WHERE state = 'succeeded'"), JOBS as i64);
    assert_eq!(s.count("agentq.v_limit WHERE active <> 0 OR counted <> 0 OR blocked <> 0"), 0);
    db.assert_sound();
}

#[test]
fn a_new_limit_counts_what_is_held_and_waits_for_claims_in_flight() {
    let db = database();
    let (mut s, mut open) = (db.session(), db.session());
    enqueue(&mut s, "x", "\"tenant:1\"", 5);
    claimed(&mut s, "bob");
    open.run("BEGIN");
    claimed(&mut open, "ann");
    let mut setter = db.session();
    let setting = std::thread::spawn(move || limit(&mut setter, "tenant:*", 3));
    until_someone_waits(&mut s);
    // Others go on meanwhile, under the rules as they are.
    claimed(&mut s, "cat");
    open.run("COMMIT");
    setting.join().expect("no panic");
    assert_eq!(s.claim("cat")["code"], "empty");
    assert_eq!(
        s.text("SELECT concat_ws(' ', active, counted) FROM agentq.v_limit WHERE limit_key = 'tenant:1'"),
        "3 3"
    );
    // Raised, there is room; lowered, those that hold go on.
    limit(&mut s, "tenant:*", 4);
    claimed(&mut s, "bob");
    limit(&mut s, "tenant:*", 1);
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_counted(&mut s);
    // A change that is rolled back changes nothing.
    s.run("BEGIN");
    limit(&mut s, "tenant:*", 9);
    s.run("ROLLBACK");
    assert_eq!(s.claim("bob")["code"], "empty");
}

#[test]
fn a_limit_of_workers_counts_what_they_held_before_it() {
    let db = database();
    let mut s = db.session();
    let jobs: Vec<String> = (0..4).map(|_| s.enqueue("x")).collect();
    let crew = ", p_options => '{\"worker_type\": \"crew\"}'";
    for job in &jobs[..2] {
        assert_eq!(id(&claim(&mut s, crew)), *job);
    }
    limit(&mut s, "worker_type:crew", 2);
    assert_eq!(claim(&mut s, crew)["code"], "empty");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
    assert_eq!(id(&claim(&mut s, crew)), jobs[2]);
    assert_eq!(claim(&mut s, crew)["code"], "empty");
    // Without any rule they come and go uncounted, and a new rule finds them again.
    expect(&mut s, "removed", "fn_limit_remove('worker_type:crew')");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[1]));
    assert_eq!(id(&claim(&mut s, crew)), jobs[3]);
    limit(&mut s, "worker:crew:*", 1);
    assert_counted(&mut s);
    db.assert_sound();
}

#[test]
fn a_freed_slot_wakes_a_waiting_claim() {
    freed_slot_is_told_of("tenant:*");
}

#[test]
fn a_slot_of_all_that_comes_back_wakes_a_waiting_claim() {
    freed_slot_is_told_of("global");
}

/// With one slot under this key, a claim that waits gets it when its holder is done.
fn freed_slot_is_told_of(key: &str) {
    let db = database();
    let mut s = db.session();
    limit(&mut s, key, 1);
    is_told(&db, || {
        let jobs = enqueue(&mut s, "x", "\"tenant:1\"", 2);
        claimed(&mut s, "bob");
        assert_eq!(s.claim("bob")["code"], "empty");
        let waiter = waiting_claim(&db, "");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
        waiter
    });
}

#[test]
fn slots_taken_by_hand_count() {
    let db = database();
    let mut s = db.session();
    let venture = "00000000-0000-4000-8000-000000000001";
    assert_eq!(s.text(&format!("SELECT agentq.fn_adjust_concurrency('venture', '{venture}', 1, 0)")), "f");
    limit(&mut s, &format!("venture:{venture}"), 2);
    enqueue(&mut s, "x", &format!("\"venture:{venture}\""), 3);
    assert_eq!(s.text(&format!("SELECT agentq.fn_adjust_concurrency('venture', '{venture}', 1, 0)")), "t");
    claimed(&mut s, "bob");
    assert_eq!(s.claim("bob")["code"], "empty");
    s.text(&format!("SELECT agentq.fn_adjust_concurrency('venture', '{venture}', -5, 0)"));
    claimed(&mut s, "bob");
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(s.text("SELECT agentq.fn_adjust_concurrency('global', NULL, 1, 1)"), "f");
    s.call("fn_limit_preset()");
    let rules = s.texts("SELECT concat_ws(' ', limit_key, max_concurrent, max_pending) FROM agentq.limit_rule WHERE limit_key NOT LIKE 'venture:0%' ORDER BY 1");
    let preset = [
        "global 200 1000",
        "stage:* 20",
        "venture:* 10 50",
        "worker:ceo_handler:* 5",
        "worker:crew_executor:* 1",
        "worker:vp_handler:* 10",
    ];
    assert_eq!(rules, preset);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let db = database();
    let mut s = db.session();
    for (call, code, message) in [
        ("fn_limit_set(NULL, '{}')", "22004", "p_key"),
        ("fn_limit_set('x', NULL)", "22004", "p_limit"),
        ("fn_limit_set(' ', '{}')", "22023", "p_key must not be empty"),
        ("fn_limit_set('ten*ant', '{}')", "22023", "is no key of a limit"),
        ("fn_limit_set('tenant*', '{}')", "22023", "is no key of a limit"),
        ("fn_limit_set('x', '[]')", "22023", "p_limit must be a JSON object"),
        ("fn_limit_set('x', '{\"max\": 1}')", "22023", "unknown key \"max\""),
        ("fn_limit_set('x', '{\"max_concurrent\": -1}')", "22023", "max_concurrent must be a whole number from 0"),
        ("fn_limit_set('x', '{\"max_pending\": \"many\"}')", "22023", "max_pending must be a whole number"),
        ("fn_job_enqueue('x', p_options => '{\"limit_keys\": \"a\"}')", "22023", "limit_keys must be a list"),
        ("fn_job_enqueue('x', p_options => '{\"limit_keys\": [\"queue:a\"]}')", "22023", "cannot be given to a job"),
        ("fn_job_enqueue('x', p_options => '{\"limit_keys\": [\"global\"]}')", "22023", "cannot be given to a job"),
        ("fn_job_enqueue('x', p_options => '{\"limit_keys\": [\"a:*\"]}')", "22023", "cannot be given to a job"),
        ("fn_job_enqueue('x', p_options => '{\"limit_keys\": [\"\"]}')", "22023", "a limit key must not be empty"),
        ("fn_job_claim('w', p_options => '{\"worker_type\": 1}')", "22023", "worker_type"),
    ] {
        refused(&mut s, &format!("SELECT agentq.{call}"), code, message, "");
    }
    assert_eq!(s.call("fn_limit_remove('x')")["code"], "not_found");
    // 0 stops them all.
    s.enqueue("x");
    limit(&mut s, "kind:x", 0);
    assert_eq!(s.claim("bob")["code"], "empty");
    let other = s.enqueue("y");
    assert_eq!(id(&claimed(&mut s, "bob")), other);
    // A limit is not changed half-way through the work that it counts.
    limit(&mut s, "kind:x", 1);
    s.run("BEGIN");
    claimed(&mut s, "bob");
    let failure = s.fails("SELECT agentq.fn_limit_set('kind:x', '{\"max_concurrent\": 5}')");
    assert_eq!(failure.code, "55000", "{failure:?}");
    s.run("ROLLBACK");
}

#[test]
fn limits_hold_after_a_crash_and_without_shared_memory() {
    let mut cluster = Cluster::start("limits", &Options::default());
    cluster.make_template();
    let mut s = cluster.session("agentq_template");
    limit(&mut s, "tenant:*", 3);
    let jobs = enqueue(&mut s, "x", "\"tenant:1\"", 8);
    claimed(&mut s, "bob");
    claimed(&mut s, "bob");
    let mut open = cluster.session("agentq_template");
    open.run("BEGIN");
    claimed(&mut open, "ann");
    assert_eq!(s.claim("bob")["code"], "empty");
    cluster.crash_and_restart();
    // The first call of all is an ack: what it frees is not counted twice.
    let mut s = cluster.session("agentq_template");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
    assert_counted(&mut s);
    claimed(&mut s, "bob");
    claimed(&mut s, "bob");
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(
        s.text("SELECT concat_ws(' ', active, counted) FROM agentq.v_limit WHERE limit_key = 'tenant:1'"),
        "3 3"
    );

    let cluster = Cluster::start("limits", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let mut s = cluster.session("agentq_template");
    limit(&mut s, "tenant:*", 2);
    let jobs = enqueue(&mut s, "x", "\"tenant:1\"", 6);
    let other = s.enqueue("x");
    s.run("BEGIN");
    claimed(&mut s, "bob");
    // Others wait for the claim to commit, and then count it.
    let mut second = cluster.session("agentq_template");
    let claiming = std::thread::spawn(move || second.call("fn_job_claim_batch('cat', 10)"));
    until_someone_waits(&mut cluster.session("agentq_template"));
    s.run("COMMIT");
    let answer = claiming.join().expect("no panic");
    let found: Vec<String> = answer["jobs"].as_array().expect("jobs").iter().map(id).collect();
    assert_eq!(found, [jobs[1].clone(), other]);
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[2]);
    assert_eq!(s.count("agentq.fn_queue_verify()"), 0);
}

#[test]
fn changes_of_limits_that_are_undone_in_part_leave_the_counts_right() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "other", 1);
    enqueue(&mut s, "x", "\"tenant:1\"", 3);
    claimed(&mut s, "bob");
    s.run("BEGIN");
    limit(&mut s, "tenant:1", 1);
    s.run("SAVEPOINT a");
    limit(&mut s, "x", 1);
    s.run("ROLLBACK TO a; COMMIT");
    assert_counted(&mut s);
    assert_eq!(s.claim("bob")["code"], "empty");
    // A claim in the transaction that changes a limit would not know what it changes.
    s.run("BEGIN");
    limit(&mut s, "tenant:1", 2);
    let failure = s.fails("SELECT agentq.fn_job_claim('bob')");
    assert_eq!(failure.code, "55000", "{failure:?}");
    s.run("ROLLBACK");
    // Nor would a change see all that is held.
    s.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    let failure = s.fails("SELECT agentq.fn_limit_set('tenant:1', '{\"max_concurrent\": 5}')");
    assert_eq!(failure.code, "55000", "{failure:?}");
    s.run("ROLLBACK");
}

#[test]
fn a_claim_with_an_old_snapshot_keeps_to_the_rules_of_now() {
    let db = database();
    let (mut s, mut old) = (db.session(), db.session());
    enqueue(&mut s, "x", "\"tenant:1\"", 3);
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM agentq_internal.job");
    limit(&mut s, "tenant:1", 1);
    claimed(&mut s, "bob");
    assert_eq!(old.claim("ann")["code"], "empty");
    old.run("COMMIT");
    assert_eq!(s.count("agentq_internal.job_lease"), 1);
    assert_counted(&mut s);
}

#[test]
fn a_rule_that_is_removed_uncovers_a_wider_one() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "tenant:*", 1);
    s.call("fn_limit_set('tenant:1', '{\"max_concurrent\": null}')");
    enqueue(&mut s, "x", "\"tenant:1\"", 4);
    claimed(&mut s, "bob");
    claimed(&mut s, "bob");
    expect(&mut s, "removed", "fn_limit_remove('tenant:1')");
    assert_counted(&mut s);
    assert_eq!(s.text("SELECT active FROM agentq.v_limit WHERE limit_key = 'tenant:1'"), "2");
    assert_eq!(s.claim("bob")["code"], "empty");
}

#[test]
fn the_extension_made_anew_counts_anew() {
    let db = database();
    let mut s = db.session();
    for _ in 0..2 {
        limit(&mut s, "tenant:*", 2);
        enqueue(&mut s, "x", "\"tenant:1\"", 3);
        claimed(&mut s, "bob");
        claimed(&mut s, "bob");
        assert_eq!(s.claim("bob")["code"], "empty");
        assert_counted(&mut s);
        s.run("DROP EXTENSION agentq; CREATE EXTENSION agentq");
    }
}

#[test]
fn no_key_is_too_long_and_none_is_passed_over() {
    let db = database();
    let mut s = db.session();
    let kind = "k".repeat(150);
    limit(&mut s, "kind:*", 1);
    let jobs: Vec<String> = (0..2).map(|_| s.enqueue(&kind)).collect();
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[1]);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[1]));
    s.call("fn_limit_remove('kind:*')");
    // Slots of many keys of a queue that is paused, and one of another.
    s.call("fn_queue_set('mail')");
    limit(&mut s, "tenant:*", 1);
    for tenant in 0..60 {
        for _ in 0..2 {
            s.call(&format!(
                "fn_job_enqueue('x', p_options => '{{\"queue\": \"mail\", \"limit_keys\": [\"tenant:{tenant}\"]}}')"
            ));
        }
    }
    let mine = enqueue(&mut s, "x", "\"tenant:mine\"", 2);
    let both = ", p_options => '{\"queues\": [\"mail\", \"default\"]}'";
    for _ in 0..70 {
        claim(&mut s, both);
    }
    assert_eq!(s.count("agentq_internal.job_line"), 61);
    s.call("fn_job_ack_batch('bob', (SELECT jsonb_agg(job_id) FROM agentq_internal.job_lease))");
    s.call("fn_queue_pause('mail')");
    assert_eq!(id(&claimed(&mut s, "bob")), mine[1]);
    db.assert_sound();
}

#[test]
fn a_worker_that_is_full_leaves_its_jobs_to_others() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "worker:crew:*", 1);
    enqueue(&mut s, "x", "", 5);
    let crew = |s: &mut Session, owner: &str| {
        s.call(&format!("fn_job_claim_batch('{owner}', 10, p_options => '{{\"worker_type\": \"crew\"}}')"))["count"]
            .clone()
    };
    assert_eq!((crew(&mut s, "w1"), crew(&mut s, "w1"), crew(&mut s, "w2")), (json!(1), json!(0), json!(1)));
    assert_eq!(s.call("fn_job_claim_batch('w3', 10)")["count"], json!(3));
    assert_eq!(s.count("agentq_internal.job_line"), 0);
    assert_counted(&mut s);
}

#[test]
fn an_ack_with_a_claim_passes_its_slot_on() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "tenant:*", 1);
    let jobs = enqueue(&mut s, "x", "\"tenant:1\"", 3);
    claimed(&mut s, "bob");
    let next = s.call(&format!("fn_job_ack_and_claim('{}', 'bob')", jobs[0]));
    assert_eq!(next["job"]["job_id"], json!(jobs[1]), "{next}");
    assert_counted(&mut s);
    assert_eq!(s.claim("cat")["code"], "empty");
    // Undone, both are as they were.
    s.run("BEGIN; SAVEPOINT a");
    s.call(&format!("fn_job_ack_and_claim('{}', 'bob')", jobs[1]));
    s.run("ROLLBACK TO a");
    s.call(&format!("fn_job_ack('{}', 'bob')", jobs[1]));
    s.run("SAVEPOINT b");
    claimed(&mut s, "bob");
    s.run("ROLLBACK TO b; COMMIT");
    assert_counted(&mut s);
    assert_eq!(id(&claimed(&mut s, "cat")), jobs[2]);
    assert_counted(&mut s);
    db.assert_sound();
}

#[test]
fn a_waiting_claim_does_not_keep_a_limit_from_being_set() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "other", 1);
    let mut waiting = db.session();
    let waiter = std::thread::spawn(move || waiting.call("fn_job_claim('cat', p_wait => '60 s')"));
    until_waiting(&mut s);
    s.run("SET lock_timeout = '30s'");
    limit(&mut s, "tenant:*", 1);
    let job = enqueue(&mut s, "x", "\"tenant:1\"", 1);
    assert_eq!(id(&waiter.join().expect("no panic")), job[0]);
    assert_counted(&mut s);
}

#[test]
fn a_cancel_and_a_change_of_limits_do_not_meet_crosswise() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "tenant:*", 1);
    let jobs = enqueue(&mut s, "x", "\"tenant:1\"", 30);
    claimed(&mut s, "bob");
    while s.count("agentq_internal.job_ready") > 0 {
        s.claim("bob");
    }
    let (mut a, mut b) = (db.session(), db.session());
    std::thread::scope(|scope| {
        scope.spawn(|| jobs[1..].iter().for_each(|job| drop(a.call(&format!("fn_job_cancel('{job}')")))));
        scope.spawn(|| {
            for turn in 0..15 {
                limit(&mut b, "tenant:*", 1 + turn % 2);
                limit(&mut b, "other:*", 1);
                b.call("fn_limit_remove('other:*')");
            }
        });
    });
    assert_eq!(s.count("agentq.v_limit WHERE blocked <> 0"), 0);
    assert_counted(&mut s);
    db.assert_sound();
}

#[test]
fn limited_names_only_what_the_claim_has_met() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "tenant:1", 1);
    let two = ", p_options => '{\"limit_keys\": [\"tenant:1\"]}'";
    enqueue_all(&mut s, &["a", "a"], two);
    claimed(&mut s, "bob");
    assert_eq!(s.claim("bob")["limited"], json!(["tenant:1"]), "the second job waits for its tenant");
    assert_eq!(s.call("fn_job_claim('bob', 'a')")["limited"], json!(["tenant:1"]));
    assert!(s.call("fn_job_claim('bob', 'b')").get("limited").is_none(), "no job of this kind is kept back");
    s.call("fn_queue_set('mail')");
    let elsewhere = "fn_job_claim('bob', p_options => '{\"queues\": [\"mail\"]}')";
    assert!(s.call(elsewhere).get("limited").is_none(), "no job of this queue is kept back");
    // A gate that lets nobody through keeps nobody back where there are no jobs.
    limit(&mut s, "global", 1);
    assert!(s.call(elsewhere).get("limited").is_none());
    assert_eq!(s.claim("bob")["limited"], json!(["tenant:1"]));
    s.call("fn_job_enqueue('b', p_options => '{\"queue\": \"mail\", \"fairness_key\": \"f:1\"}')");
    assert_eq!(s.call(elsewhere)["limited"], json!(["global"]));
    db.assert_sound();
}

#[test]
fn the_preset_leaves_rules_alone_that_somebody_has_tuned() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('global', '{\"max_concurrent\": 7, \"description\": \"ours\"}')");
    let set = s.call("fn_limit_preset()");
    assert_eq!((&set["code"], &set["rules"], &set["kept"]), (&json!("set"), &json!(5), &json!(["global"])));
    let rule = "SELECT concat_ws(' ', max_concurrent, max_pending, description) FROM agentq.limit_rule WHERE limit_key = 'global'";
    assert_eq!(s.text(rule), "7 ours");
    // All are there: nobody is waited for.
    let mut other = db.session();
    other.call("fn_job_enqueue('a')");
    other.run("BEGIN");
    claimed(&mut other, "bob");
    s.run("SET lock_timeout = '1s'");
    let set = s.call("fn_limit_preset()");
    assert_eq!((&set["code"], &set["rules"]), (&json!("unchanged"), &json!(0)));
    other.run("COMMIT");
    assert_counted(&mut s);
}

#[test]
fn a_rule_counts_thousands_of_leases_at_once() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_job_enqueue('k', p_options => jsonb_build_object('limit_keys', array['tenant:' || n % 7])) FROM generate_series(1, 2000) n");
    assert_eq!(s.call("fn_job_claim_batch('bob', 1000)")["count"], 1000);
    limit(&mut s, "tenant:*", 10);
    limit(&mut s, "global", 10);
    limit(&mut s, "kind:other", 10);
    let counts = "SELECT count(*) || ' ' || count(*) FILTER (WHERE 'global' = ANY (limits) AND cardinality(limits) = 2)
        FROM agentq_internal.job_lease";
    assert_eq!(s.text(counts), "1000 1000");
    assert_counted(&mut s);
}

#[test]
fn what_waits_and_is_no_job_counts_at_the_enqueue_and_is_shown() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('global', '{\"max_pending\": 5}')");
    assert_eq!(s.text("SELECT agentq.fn_adjust_concurrency('global', NULL, 0, 3)"), "t");
    for _ in 0..2 {
        expect(&mut s, "enqueued", "fn_job_enqueue('a')");
    }
    assert_eq!(s.call("fn_job_enqueue('a')")["code"], "deferred");
    assert_eq!(
        s.text("SELECT pending || ' of ' || max_pending FROM agentq.v_limit WHERE limit_key = 'global'"),
        "5 of 5"
    );
    s.text("SELECT agentq.fn_adjust_concurrency('global', NULL, 0, -1)");
    expect(&mut s, "enqueued", "fn_job_enqueue('a')");
    assert_eq!(s.call("fn_job_enqueue('a')")["code"], "deferred");
}

#[test]
fn an_admission_check_tells_what_will_wait_from_what_will_run() {
    let db = database();
    let mut s = db.session();
    let job = r#"{"job_kind": "a", "limit_keys": ["tenant:1"]}"#;
    let free = s.call(&format!("fn_admission_check('{job}')"));
    assert_eq!((&free["admitted"], &free["will"], &free["allowed"]), (&json!(true), &json!("run"), &Value::Null));
    limit(&mut s, "tenant:1", 2);
    limit(&mut s, "global", 9);
    s.call(&format!("fn_job_enqueue_batch('[{job}, {job}, {job}]')"));
    claimed(&mut s, "bob");
    let run = s.call(&format!("fn_admission_check('{job}')"));
    assert_eq!((&run["will"], &run["active"], &run["allowed"]), (&json!("run"), &json!(1), &json!(2)));
    assert_eq!(run["limits"][0], json!({"key": "global", "active": 1, "allowed": 9}));
    claimed(&mut s, "bob");
    let wait = s.call(&format!("fn_admission_check('{job}')"));
    assert_eq!((&wait["admitted"], &wait["will"], &wait["active"]), (&json!(true), &json!("wait"), &json!(2)));
    s.call("fn_limit_set('global', '{\"max_pending\": 0}')");
    let not = s.call(&format!("fn_admission_check('{job}')"));
    assert_eq!((&not["admitted"], &not["will"]), (&json!(false), &Value::Null));
    assert!(not["reason"].as_str().is_some_and(|reason| reason.contains("global")), "{not}");
}

#[test]
fn a_type_of_worker_that_no_rule_knows_is_warned_about_once() {
    let db = database();
    let mut s = db.session();
    s.call("fn_limit_set('worker:crew:*', '{\"max_concurrent\": 1}')");
    let claim =
        |worker_type: &str| format!("fn_job_claim('bob', p_options => '{{\"worker_type\": \"{worker_type}\"}}')");
    let unknown = format!("crw of {}", db.name);
    let warned = || db.cluster.log().matches(&format!("no limit is about the worker_type \"{unknown}\"")).count();
    s.call(&claim("crew"));
    assert!(!db.cluster.log().contains("no limit is about the worker_type \"crew\""));
    s.call(&claim(&unknown));
    assert_eq!(warned(), 1);
    s.call(&claim(&unknown));
    assert_eq!(warned(), 1, "once is enough");
}
