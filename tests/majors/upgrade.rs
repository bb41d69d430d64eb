//! pg_upgrade takes everything along, and what was going on goes on.

use crate::{new, old, rows};
use agentq_tests::engine::running;
use agentq_tests::{Cluster, Database, Session, eventually, expect, id, json, major, text, token};

/// What no upgrade may change: tables and views with all their rows.
const KEPT: [&str; 16] = [
    "agentq.job_queue",
    "agentq.job_attempt",
    "agentq.job_dead_letter",
    "agentq.queue",
    "agentq.limit_rule",
    "agentq.schedule",
    "agentq.access_grant",
    "agentq.event",
    "agentq.event_log",
    "agentq.event_chain",
    "agentq.mission",
    "agentq_internal.mission_step",
    "agentq_internal.job_ready",
    "agentq_internal.job_lease",
    "agentq_internal.job_line",
    "agentq_internal.job_key",
];

struct Held {
    job: String,
    token: String,
}

fn hold(s: &mut Session, kind: &str) -> Held {
    let claim = expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}', 7200)"));
    Held { job: id(&claim), token: token(&claim) }
}

/// Jobs in every place, a mission on its way, events with and without their place.
fn fill(s: &mut Session) -> (Held, Held) {
    s.call("fn_limit_set('tenant:busy', '{\"max_concurrent\": 1}')");
    s.call("fn_schedule_set('yearly', '30 4 1 1 *', '{\"job_kind\": \"x\"}')");
    for kind in ["done", "dead", "held"] {
        s.call(&format!("fn_job_enqueue('{kind}', 'key-{kind}', p_max_attempts => 1)"));
    }
    let done = hold(s, "done");
    expect(s, "succeeded", &format!("fn_job_ack('{}', 'bob', '{{\"sum\": 42}}')", done.job));
    let dead = hold(s, "dead");
    s.call(&format!("fn_job_fail_or_retry('{}', 'bob', 'no such tool')", dead.job));
    let held = hold(s, "held");
    (0..50).for_each(|n| drop(s.call(&format!("fn_job_enqueue('ready', 'ready-{n}', p_priority => {})", n % 5))));
    s.call("fn_job_enqueue('later', p_scheduled_at => now() + interval '1 day')");
    // One of two under a limit, and the second of two with an ordering key: both are blocked.
    (0..2).for_each(|_| drop(s.call("fn_job_enqueue('busy', p_options => '{\"limit_keys\": [\"tenant:busy\"]}')")));
    hold(s, "busy");
    assert_eq!(s.call("fn_job_claim('bob', 'busy')")["code"], "empty");
    (0..2).for_each(|_| drop(s.call("fn_job_enqueue('in order', p_options => '{\"ordering_key\": \"k\"}')")));
    s.call("fn_job_enqueue('fair', p_options => '{\"fairness_key\": \"tenant\"}')");
    let template = json!({"title": "trip", "steps": [{"name": "book", "kind": "book"}, {"name": "pay", "kind": "pay", "depends_on": ["book"]}]});
    s.call(&format!("fn_mission_start('{template}')"));
    let step = hold(s, "book");
    s.call("fn_event_emit('happened', 'x', '{\"n\": 1}')");
    s.call("fn_event_emit('decided', 'x', '{}', '{\"purpose\": \"audit\"}')");
    (held, step)
}

#[test]
fn pg_upgrade_loses_nothing_and_what_was_going_on_goes_on() {
    let mut before = Cluster::start("before", &old(&[]));
    before.make_template();
    let version = |cluster: &Cluster| cluster.session("postgres").text("SHOW server_version_num");
    let from = version(&before);
    let db = running(before.database());
    let mut s = db.session();
    let (held, step) = fill(&mut s);
    let unsealed = "agentq.event e WHERE NOT EXISTS (SELECT FROM agentq.event_log l WHERE l.event_id = e.event_id)";
    eventually("all events have their places", || s.count(unsealed) == 0);
    // From here on nothing changes by itself.
    s.run("ALTER SYSTEM SET agentq.engine = off");
    s.run("SELECT pg_reload_conf()");
    eventually("the engine has stopped", || s.count("pg_stat_activity WHERE backend_type LIKE 'agentq worker%'") == 0);
    s.call("fn_event_emit('late', 'x')");
    let kept: Vec<Vec<String>> = KEPT.iter().map(|relation| rows(&mut s, relation)).collect();
    for (relation, rows) in KEPT.iter().zip(&kept) {
        assert!(!rows.is_empty() || *relation == "agentq.access_grant", "{relation} has something to lose");
    }
    let name = db.name.clone();
    drop(s);
    std::mem::forget(db);
    before.stop();

    let after = before.upgraded("after", &new());
    let to = version(&after);
    println!("from {from} to {to}");
    // CI builds 15 before it comes to another.
    assert!(from < to || major() == 15 || std::env::var_os("CI").is_none(), "both servers are {to}");
    let db = Database { cluster: &after, name };
    let mut s = db.session();
    s.run("SELECT agentq.fn_version()");
    // The engine is at work here already, and gives the last event its place.
    for (relation, kept) in KEPT.iter().zip(&kept) {
        let found = rows(&mut s, relation);
        let missing: Vec<&String> = kept.iter().filter(|row| !found.contains(row)).collect();
        assert!(missing.is_empty() || *relation == "agentq.event_chain", "{relation} has lost {missing:?}");
    }
    let db = running(db);
    eventually("the late event has its place", || s.count(unsealed) == 0);
    db.assert_sound();
    // Who held a job before the upgrade holds it still.
    for held in [&held, &step] {
        let ack = format!("fn_job_ack('{}', 'bob', p_lease_token => '{}')", held.job, held.token);
        expect(&mut s, "succeeded", &ack);
    }
    expect(&mut s, "duplicate", "fn_job_enqueue('ready', 'ready-7')");
    let mut last = (0, String::new());
    for _ in 0..50 {
        let claim = expect(&mut s, "claimed", "fn_job_claim('eve', 'ready')");
        let key = (claim["priority"].as_i64().unwrap_or_default(), id(&claim));
        assert!(key > last, "{key:?} after {last:?}");
        last = key;
    }
    for kind in ["pay", "in order", "fair"] {
        // The next step comes with the end of the one before it, or a moment later by the engine.
        let claim = expect(&mut s, "claimed", &format!("fn_job_claim('eve', '{kind}', p_wait => '30 s')"));
        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'eve')", id(&claim)));
    }
    eventually("the mission has ended", || s.count("agentq.mission WHERE status = 'succeeded'") == 1);
    assert_eq!(s.call("fn_job_claim('eve', 'busy')")["code"], "empty", "its limit still holds");
    let busy = s.text("SELECT job_id FROM agentq.job_queue WHERE job_kind = 'busy' AND lease_owner IS NOT NULL");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{busy}', 'bob')"));
    expect(&mut s, "claimed", "fn_job_claim('eve', 'busy')");
    s.call("fn_event_emit('new', 'x')");
    eventually("new events have their places", || s.count(unsealed) == 0);
    let log = text(&s.call("fn_event_verify()"), "code").to_owned();
    assert_eq!(log, "sound");
    db.assert_sound();
}
