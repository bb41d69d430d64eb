//! Rate limits: no more is begun in a time than may be, and what the other side says holds for all at once.

use agentq_tests::{Cluster, Options, Session, Value, claimed, database, expect, id, json, refuse};

#[track_caller]
fn limit(s: &mut Session, key: &str, limit: &str) {
    s.call(&format!("fn_limit_set('{key}', '{limit}')"));
}

/// Enqueues jobs with these limit keys and returns their ids.
#[track_caller]
fn enqueue(s: &mut Session, kind: &str, keys: &str, count: usize) -> Vec<String> {
    let call = format!("fn_job_enqueue('{kind}', p_options => '{{\"limit_keys\": {keys}}}')");
    (0..count).map(|_| id(&s.call(&call))).collect()
}

/// How many jobs a claim of many gets.
#[track_caller]
fn claim(s: &mut Session) -> i64 {
    s.call("fn_job_claim_batch('bob', 100)")["count"].as_i64().expect("a number")
}

/// No lease runs out while the clock is moved.
#[track_caller]
fn long_leases(s: &mut Session) {
    s.call("fn_config_set('queue.lease.duration_sec', '86400')");
}

const KEY: &str = "[\"provider:x\"]";

#[test]
fn a_bucket_lets_a_burst_through_and_then_an_even_rate() {
    let db = database();
    let mut s = db.session();
    long_leases(&mut s);
    limit(&mut s, "provider:x", "{\"rate\": 60, \"per_seconds\": 6000, \"burst\": 5}");
    enqueue(&mut s, "a", KEY, 20);
    assert_eq!(claim(&mut s), 5);
    let answer = s.call("fn_job_claim('bob')");
    assert_eq!((answer["code"].clone(), answer["limited"].clone()), (json!("empty"), json!(["provider:x"])));
    for (seconds, jobs) in [(110, 1), (310, 2), (10_000, 5)] {
        s.shift_clock(seconds);
        assert_eq!(claim(&mut s), jobs, "after {seconds} seconds");
        assert_eq!(claim(&mut s), 0, "after {seconds} seconds");
    }
    // Others are not held up, and nothing is lost.
    s.enqueue("b");
    claimed(&mut s, "bob");
    limit(&mut s, "provider:x", "{\"rate\": null}");
    assert_eq!(claim(&mut s), 7);
    db.assert_sound();
}

#[test]
fn a_window_lets_no_more_through_in_any_stretch() {
    let db = database();
    let mut s = db.session();
    long_leases(&mut s);
    limit(&mut s, "provider:*", "{\"rate\": 10, \"per_seconds\": 1600, \"algorithm\": \"sliding_window\"}");
    enqueue(&mut s, "a", KEY, 40);
    enqueue(&mut s, "a", "[\"provider:y\"]", 3);
    assert_eq!(claim(&mut s), 13, "each key of the pattern has its own");
    s.shift_clock(1_500);
    assert_eq!(claim(&mut s), 0);
    s.shift_clock(1_800);
    assert_eq!(claim(&mut s), 10);
    s.shift_clock(3_300);
    assert_eq!(claim(&mut s), 0);
    db.assert_sound();
}

#[test]
fn a_weight_takes_more_and_is_not_passed_by() {
    let db = database();
    let mut s = db.session();
    long_leases(&mut s);
    limit(&mut s, "provider:x", "{\"rate\": 1000, \"per_seconds\": 1000}");
    let light = enqueue(&mut s, "a", "{\"provider:x\": 600}", 1);
    let heavy = enqueue(&mut s, "a", "{\"provider:x\": 900}", 1);
    let late = enqueue(&mut s, "a", "{\"provider:x\": 100}", 1);
    assert_eq!(id(&claimed(&mut s, "bob")), light[0]);
    // 400 are left, which would do for the last; but the one before it has waited longer.
    assert_eq!(s.claim("bob")["code"], "empty");
    s.shift_clock(400);
    assert_eq!(s.claim("bob")["code"], "empty");
    s.shift_clock(600);
    assert_eq!(id(&claimed(&mut s, "bob")), heavy[0]);
    s.shift_clock(700);
    assert_eq!(id(&claimed(&mut s, "bob")), late[0]);
    let job = s.call(&format!("fn_job_get('{}')", heavy[0]))["job"].clone();
    assert_eq!((job["limit_keys"].clone(), job["limit_weights"].clone()), (json!(["provider:x"]), json!([900])));
    // What is redriven weighs as much.
    s.call(&format!("fn_job_move_to_dead_letter('{}', 'no')", heavy[0]));
    let letter = s.text("SELECT dead_letter_id::text FROM agentq.job_dead_letter");
    let again = s.call(&format!("fn_dead_letter_redrive('{letter}')"));
    let again = again["job_id"].as_str().expect("a job").to_owned();
    assert_eq!(s.call(&format!("fn_job_get('{again}')"))["job"]["limit_weights"], json!([900]));
    db.assert_sound();
}

#[test]
fn a_job_heavier_than_the_rate_runs_alone() {
    let db = database();
    let mut s = db.session();
    long_leases(&mut s);
    limit(&mut s, "provider:x", "{\"rate\": 10, \"per_seconds\": 1000}");
    let jobs = enqueue(&mut s, "a", "{\"provider:x\": 30}", 2);
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[0]);
    s.shift_clock(2_900);
    assert_eq!(s.claim("bob")["code"], "empty");
    s.shift_clock(3_100);
    assert_eq!(id(&claimed(&mut s, "bob")), jobs[1]);
}

#[test]
fn what_the_other_side_says_holds_for_all_at_once() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    enqueue(&mut s, "a", KEY, 3);
    claimed(&mut s, "bob");
    // Nobody heeds it where there is no rule, and any rule will do; also if the worker that tells of it rolls back.
    let told = other.call("fn_limit_report('provider:x', now() + interval '30 seconds')");
    assert_eq!((told["ok"].clone(), told["code"].clone()), (json!(false), json!("no_rule")));
    claimed(&mut s, "bob");
    limit(&mut s, "provider:*", "{}");
    enqueue(&mut s, "a", KEY, 1);
    other.run("BEGIN");
    let told = other.call("fn_limit_report('provider:x', now() + interval '30 seconds')");
    assert_eq!(told["code"], "reported", "{told}");
    other.run("COMMIT");
    assert_eq!(s.claim("bob")["limited"], json!(["provider:x"]));
    other.run("BEGIN");
    other.call("fn_limit_report('provider:x', now() + interval '60 seconds')");
    other.run("ROLLBACK");
    s.shift_clock(31);
    assert_eq!(s.claim("bob")["code"], "empty");
    s.shift_clock(61);
    claimed(&mut s, "bob");
    s.shift_clock(0);
    // A moment that has passed opens it.
    other.call("fn_limit_report('provider:x', now())");
    claimed(&mut s, "bob");
    db.assert_sound();
}

#[test]
fn what_remains_lowers_the_rate_and_never_raises_it() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "provider:x", "{\"rate\": 100, \"per_seconds\": 36000}");
    enqueue(&mut s, "a", KEY, 20);
    expect(&mut s, "reported", "fn_limit_report('provider:x', p_remaining => 4)");
    assert_eq!(s.text("SELECT rate_left::text FROM agentq.v_limit WHERE limit_key = 'provider:x'"), "4");
    expect(&mut s, "reported", "fn_limit_report('provider:x', p_remaining => 90)");
    assert_eq!(claim(&mut s), 4);
    // Without a rate there is nothing to lower.
    limit(&mut s, "provider:y", "{}");
    let told = s.call("fn_limit_report('provider:y', p_remaining => 4)");
    assert_eq!((told["ok"].clone(), told["code"].clone()), (json!(false), json!("not_heeded")));
    for (call, says) in [
        ("fn_limit_report('provider:x')", "told nothing"),
        ("fn_limit_report('provider:*', now())", "no key that a job is given"),
        ("fn_limit_report('global', now())", "no key that a job is given"),
        ("fn_limit_report('queue:default', now())", "no key that a job is given"),
        ("fn_limit_report('kind:a', now())", "no key that a job is given"),
        ("fn_limit_report('provider:x', p_remaining => -1)", "0 or more"),
        ("fn_limit_set('provider:x', '{\"rate\": -1}')", "rate must be a whole number from 0"),
        ("fn_limit_set('provider:x', '{\"per_seconds\": 0}')", "per_seconds must be"),
        ("fn_limit_set('provider:x', '{\"algorithm\": \"magic\"}')", "algorithm must be one of"),
        ("fn_limit_set('provider:x', '{\"weight\": 0}')", "weight must be"),
        (
            "fn_job_enqueue('a', p_options => '{\"limit_keys\": {\"k\": 0}}')",
            "limit_keys.k must be a whole number from 1",
        ),
        ("fn_job_enqueue('a', p_options => '{\"limit_keys\": 3}')", "must be a list"),
        ("fn_job_enqueue('a', p_options => '{\"limit_keys\": [\"fair:1\"]}')", "cannot be given"),
    ] {
        refuse(&mut s, call, says);
    }
}

/// A worker cannot close anything for longer than a day, nor leave anything behind but a gauge.
#[test]
fn a_worker_reports_a_day_ahead_at_most_and_makes_no_rules() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "provider:*", "{}");
    let told = s.call("fn_limit_report('provider:x', 'infinity')");
    assert_eq!(told["code"], "reported", "{told}");
    enqueue(&mut s, "a", KEY, 1);
    assert_eq!(claim(&mut s), 0);
    s.shift_clock(86_399);
    assert_eq!(claim(&mut s), 0);
    s.shift_clock(86_410);
    assert_eq!(claim(&mut s), 1);
    for number in 0..50 {
        assert_eq!(s.call(&format!("fn_limit_report('junk:{number}', now() + interval '1 hour')"))["code"], "no_rule");
    }
    assert_eq!(s.count("agentq.limit_rule"), 1);
}

#[test]
fn a_rate_of_nothing_lets_nothing_through() {
    let db = database();
    let mut s = db.session();
    for rule in ["{\"rate\": 0}", "{\"rate\": 0, \"burst\": 5}", "{\"rate\": 0, \"algorithm\": \"sliding_window\"}"] {
        limit(&mut s, "provider:*", rule);
        enqueue(&mut s, "a", KEY, 2);
        assert_eq!(claim(&mut s), 0, "{rule}");
    }
    limit(&mut s, "provider:*", "{\"rate\": null}");
    assert_eq!(claim(&mut s), 6);
}

#[test]
fn a_claim_that_waits_hears_when_a_rate_opens() {
    let db = database();
    let mut s = db.session();
    limit(&mut s, "provider:x", "{\"rate\": 5, \"per_seconds\": 1, \"burst\": 1}");
    enqueue(&mut s, "a", KEY, 2);
    claimed(&mut s, "bob");
    // The second is put aside by a claim, which is over when it has done so.
    assert_eq!(s.claim("bob")["code"], "empty");
    expect(&mut s, "claimed", "fn_job_claim('bob', p_wait => '20 seconds')");
}

#[test]
fn rates_hold_over_a_restart() {
    let mut cluster = Cluster::start("rates", &Options::default());
    cluster.make_template();
    let mut s = cluster.session("agentq_template");
    limit(&mut s, "provider:x", "{\"rate\": 3, \"per_seconds\": 3600}");
    enqueue(&mut s, "a", KEY, 9);
    assert_eq!(claim(&mut s), 3);
    limit(&mut s, "provider:y", "{}");
    s.call("fn_limit_report('provider:y', now() + interval '1 hour')");
    s.call("fn_engine_tick('tend_limits')");
    assert_eq!(s.count("agentq_internal.limit_gauge"), 2);
    cluster.crash_and_restart();
    let mut s = cluster.session("agentq_template");
    assert_eq!(claim(&mut s), 0);
    enqueue(&mut s, "b", "[\"provider:y\"]", 1);
    assert_eq!(s.call("fn_job_claim('bob', 'b')")["limited"], json!(["provider:y"]));
    s.shift_clock(1_201);
    assert_eq!(claim(&mut s), 1);
}

#[test]
fn rates_hold_without_shared_memory() {
    let cluster = Cluster::start("rates_alone", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let (mut s, mut other) = (cluster.session("agentq_template"), cluster.session("agentq_template"));
    limit(&mut s, "provider:x", "{\"rate\": 3, \"per_seconds\": 3600}");
    enqueue(&mut s, "a", KEY, 9);
    let one = |s: &mut Session| -> Value { s.call("fn_job_claim('bob')")["code"].clone() };
    assert_eq!(
        [one(&mut s), one(&mut other), one(&mut s), one(&mut other)],
        ["claimed", "claimed", "claimed", "empty"]
    );
    other.shift_clock(1_201);
    assert_eq!(one(&mut other), "claimed");
    other.call("fn_limit_report('provider:x', now() + interval '2 hours')");
    other.shift_clock(7_000);
    assert_eq!(one(&mut other), "empty");
    other.shift_clock(7_300);
    assert_eq!(one(&mut other), "claimed");
    assert_eq!(s.count("agentq.fn_queue_verify()"), 0);
}
