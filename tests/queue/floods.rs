//! A tenant that floods keys, lines or databases: others are served as ever, and a rule always has its place.

use agentq_tests::{Cluster, Options, Session, claimed, eventually, expect, id, json, timed};
use std::time::Duration;

/// Enqueues this many jobs, each with a key of its own as the option says.
fn flood(s: &mut Session, kind: &str, count: usize, option: &str) {
    for from in (0..count).step_by(1_000) {
        let upto = (from + 999).min(count - 1);
        s.run(&format!(
            "SELECT agentq.fn_job_enqueue_batch(jsonb_agg(jsonb_build_object('job_kind', '{kind}') || {option}))
             FROM generate_series({from}, {upto}) n"
        ));
    }
}

const TENANT: &str = "jsonb_build_object('fairness_key', 'tenant:' || n)";

/// Claims and acks so many jobs of a kind.
#[track_caller]
fn work(s: &mut Session, kind: &str, count: usize) {
    for _ in 0..count {
        let job = id(&expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}')")));
        expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    }
}

/// As many jobs as a limit allows, and not one more.
#[track_caller]
fn assert_limit_holds(s: &mut Session, kind: &str, most: usize) {
    let claims: Vec<String> =
        (0..most).map(|_| id(&expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}')")))).collect();
    let refused = s.call(&format!("fn_job_claim('bob', '{kind}')"));
    assert_eq!(refused["code"], "empty", "{refused}");
    for job in claims {
        expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    }
}

#[test]
fn lanes_that_only_wait_leave_room_for_limits() {
    let cluster = Cluster::start("floods_lanes", &Options::default());
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    s.call("fn_limit_set('global', '{\"max_concurrent\": 10}')");
    s.call("fn_limit_set('team:*', '{\"max_concurrent\": 1}')");
    flood(&mut s, "a", 20_000, TENANT);
    assert_limit_holds(&mut s, "a", 10);
    // Another kind, and another limit, beside them.
    flood(&mut s, "b", 3, "'{\"limit_keys\": [\"team:1\"]}'");
    assert_limit_holds(&mut s, "b", 1);
    flood(&mut s, "c", 2, "jsonb_build_object('fairness_key', 'late:' || n)");
    work(&mut s, "c", 2);
    // More lanes than there is room for: what is not in memory is found in the table, by every claim.
    flood(&mut s, "a", 60_000, "jsonb_build_object('fairness_key', 'more:' || n)");
    flood(&mut s, "d", 2, "jsonb_build_object('fairness_key', 'last:' || n)");
    assert_limit_holds(&mut s, "a", 10);
    work(&mut s, "b", 1);
    let mut found = 0;
    eventually("a kind with two jobs among eighty thousand lanes is found", || {
        let claim = s.call("fn_job_claim('bob', 'd')");
        if claim["code"] == "claimed" {
            expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&claim)));
            found += 1;
        }
        found == 2
    });
    // When few are left they are counted again, and take turns.
    s.run(
        "DELETE FROM agentq_internal.job_line WHERE line LIKE 'fair:%|more:%' OR line LIKE 'fair:%|tenant:1%';
           DELETE FROM agentq_internal.job j WHERE fairness_key LIKE 'more:%' OR fairness_key LIKE 'tenant:1%'
               AND NOT EXISTS (SELECT FROM agentq_internal.job_done d WHERE d.job_id = j.job_id)",
    );
    s.run("DELETE FROM agentq_internal.job_line WHERE line > 'fair:1||tenant:3'");
    s.run("DELETE FROM agentq_internal.job WHERE fairness_key > 'tenant:3' AND job_id NOT IN (SELECT job_id FROM agentq_internal.job_done)");
    let ticked = s.call("fn_engine_tick('tend_limits')");
    assert_eq!(ticked["failed"], json!(0), "{ticked}");
    work(&mut s, "a", 20);
    assert_limit_holds(&mut s, "a", 10);
}

#[test]
fn keys_that_a_worker_makes_up_and_closes_leave_room_for_others() {
    let cluster = Cluster::start("floods_reports", &Options::default());
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    for (key, limit) in [
        ("tenant:*", "{}"),
        ("team:*", "{}"),
        ("site:*", "{}"),
        ("provider:*", r#"{"rate": 100, "burst": 100}"#),
        ("one", "{}"),
    ] {
        s.call(&format!("fn_limit_set('{key}', '{limit}')"));
    }
    let tomorrow = "agentq.fn_clock_now() + interval '1 day'";
    let mut report = |pattern: &str| {
        let codes = format!(
            "SELECT agentq.fn_limit_report('{pattern}' || n, {tomorrow})->>'code' AS code FROM generate_series(1, 5000) n"
        );
        s.run(&format!("CREATE TEMPORARY TABLE told AS {codes}"));
        let heeded = s.count("told WHERE code = 'reported'");
        s.run("DROP TABLE told");
        heeded
    };
    let of_one = report("tenant:");
    assert!((500..1_000).contains(&of_one), "{of_one}");
    assert_eq!([report("team:"), report("site:")], [of_one, 0]);
    // What is refused says so, and what to do.
    let refused = s.call(&format!("fn_limit_report('tenant:5000', {tomorrow})"));
    assert_eq!((&refused["code"], &refused["closed_until"]), (&json!("not_heeded"), &json!(null)), "{refused}");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("rule of its own")), "{refused}");
    // A key that is closed stays so, and can be opened; one with a rule of its own can always be closed.
    assert_eq!(s.call("fn_limit_gauge('tenant:1')")["open"], json!(false));
    expect(&mut s, "reported", "fn_limit_report('tenant:1', agentq.fn_clock_now())");
    let own = s.call(&format!("fn_limit_report('one', {tomorrow})"));
    assert_eq!(own["code"], "reported", "{own}");
    // Rates of the same database count on.
    flood(&mut s, "r", 500, "jsonb_build_object('limit_keys', jsonb_build_array('provider:' || n))");
    assert_eq!(s.call("fn_job_claim_batch('bob', 1000, 'r')")["count"], json!(500));
}

#[test]
fn one_database_leaves_room_for_another() {
    let cluster = Cluster::start("floods_databases", &Options::default());
    cluster.make_template();
    let (one, other) = (cluster.database(), cluster.database());
    let (mut a, mut b) = (one.session(), other.session());
    // Jobs that wait for slots which nobody has, and jobs in lanes.
    a.call("fn_limit_set('none:*', '{\"max_concurrent\": 0}')");
    flood(&mut a, "a", 30_000, "jsonb_build_object('limit_keys', jsonb_build_array('none:' || n))");
    flood(&mut a, "b", 70_000, TENANT);
    for _ in 0..200 {
        assert_eq!(a.call("fn_job_claim_batch('bob', 1000, 'a')")["count"], json!(0));
    }
    b.call("fn_limit_set('team:*', '{\"max_concurrent\": 1}')");
    flood(&mut b, "b", 500, "jsonb_build_object('limit_keys', jsonb_build_array('team:' || n))");
    let held = b.call("fn_job_claim_batch('bob', 1000, 'b')");
    assert_eq!(held["count"], json!(500), "{held}");
    // The one that floods can still work itself.
    claimed(&mut a, "bob");
    drop((a, one));
}

/// Takes so many jobs, each with a limit key of its own of which there is one slot. Returns how many were given.
fn hold_keys(s: &mut Session, keys: usize) -> i64 {
    s.call("fn_limit_set('tenant:*', '{\"max_concurrent\": 1}')");
    flood(s, "a", keys, "jsonb_build_object('limit_keys', jsonb_build_array('tenant:' || n))");
    hold_more(s, keys)
}

fn hold_more(s: &mut Session, keys: usize) -> i64 {
    let claim = |_| s.call("fn_job_claim_batch('bob', 1000, 'a', 86400)")["count"].as_i64().expect("a number");
    (0..keys.div_ceil(1_000)).map(claim).sum()
}

/// A claim under a limit costs the same beside ten lines of another kind as beside tens of thousands: the fastest of many, in turns.
#[test]
fn lanes_that_have_nothing_to_give_cost_a_claim_nothing() {
    let cluster = Cluster::start("floods_cost", &Options::default());
    cluster.make_template();
    let databases = [cluster.database(), cluster.database()];
    let mut sessions = databases.each_ref().map(|db| db.session());
    for (s, lanes) in sessions.iter_mut().zip([10, 20_000]) {
        s.call("fn_limit_set('global', '{\"max_concurrent\": 10}')");
        flood(s, "idle", lanes, TENANT);
        flood(s, "b", 600, "jsonb_build_object('fairness_key', 'one:' || n % 3)");
    }
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..300 {
        for (s, fastest) in sessions.iter_mut().zip(&mut fastest) {
            let (claim, took) = timed(|| expect(s, "claimed", "fn_job_claim('bob', 'b')"));
            expect(s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&claim)));
            *fastest = took.min(*fastest);
        }
    }
    assert!(fastest[1] < 4 * fastest[0], "{fastest:?}");
}

#[test]
fn a_database_that_is_dropped_leaves_its_places_to_others() {
    let cluster = Cluster::start("floods_dropped", &Options::default());
    cluster.make_template();
    let (one, other) = (cluster.database(), cluster.database());
    assert_eq!(hold_keys(&mut one.session(), 1_000), 1_000);
    let mut s = other.session();
    let beside = hold_keys(&mut s, 8_000);
    assert!((1_000..8_000).contains(&beside), "{beside}");
    drop(one);
    let ticked = s.call("fn_engine_tick('tend_limits')");
    assert_eq!(ticked["failed"], json!(0), "{ticked}");
    assert_eq!(beside + hold_more(&mut s, 8_000), 8_000);
}

/// More slots are held than there is room to count when the server starts: then there is room again. No slot is given twice.
#[test]
fn limits_hold_when_more_is_held_at_a_restart_than_can_be_counted() {
    let mut cluster = Cluster::start("floods_restart", &Options::default());
    cluster.make_template();
    let names = [cluster.database(), cluster.database()].map(|db| {
        let name = db.name.clone();
        std::mem::forget(db);
        name
    });
    // Alone, the one has room for all of its keys; beside another it has not.
    for (name, keys) in names.iter().zip([8_000, 1_000]) {
        assert_eq!(hold_keys(&mut cluster.session(name), keys), keys as i64);
    }
    cluster.crash_and_restart();
    cluster.session(&names[1]).call("fn_job_claim('bob', 'a')");
    let mut s = cluster.session(&names[0]);
    // What was counted of the one is the first half of its keys, in their order. Now there is room for others.
    let ack = |s: &mut Session, beginning: &str| {
        s.call(&format!(
            "fn_job_ack_batch('bob', (SELECT jsonb_agg(jsonb_build_object('job_id', job_id, 'lease_token', lease_token))
             FROM agentq_internal.job_lease WHERE limits[1] ~ '^tenant:{beginning}'))"
        ))
    };
    s.call("fn_job_claim('bob', 'a')");
    assert_eq!(ack(&mut s, "[1-4]")["ok"], json!(true));
    s.run(
        "SELECT agentq.fn_job_enqueue_batch(jsonb_agg(jsonb_build_object('job_kind', 'b', 'limit_keys', jsonb_build_array('tenant:' || n))))
         FROM generate_series(7000, 7999) n",
    );
    let claim = |s: &mut Session| s.call("fn_job_claim_batch('eve', 1000, 'b', 86400)")["count"].as_i64();
    for round in 0..4 {
        assert_eq!(claim(&mut s), Some(0), "round {round}");
        if round > 1 {
            let ticked = s.call("fn_engine_tick('tend_limits')");
            assert_eq!(ticked["failed"], json!(0), "{ticked}");
        }
    }
    // It is counted again, and what becomes free is given out.
    assert_eq!(ack(&mut s, "7")["ok"], json!(true));
    let mut taken = 0;
    eventually("all that is free is given out", || {
        taken += claim(&mut s).expect("a number");
        taken == 1_000
    });
}
