//! Capabilities: a job runs where it can be run, and it is told when nobody can.

use agentq_tests::{Session, Value, claimed, database, expect, id, is_told, json, refuse, waiting_claim};

#[track_caller]
fn enqueue(s: &mut Session, requires: &str) -> String {
    id(&s.call(&format!("fn_job_enqueue('a', p_options => '{{\"requires\": {requires}}}')")))
}

#[track_caller]
fn announce(s: &mut Session, worker: &str, capabilities: &str) {
    s.call(&format!(
        "fn_queue_heartbeat_tick('{worker}', 'Agent', p_lease_owner => '{worker}', p_metadata => '{{\"capabilities\": {capabilities}}}')"
    ));
}

#[test]
fn a_job_goes_to_a_worker_that_can_run_it() {
    let db = database();
    let mut s = db.session();
    let both = enqueue(&mut s, "[\"web\", \"gpu\"]");
    let gpu = enqueue(&mut s, "[\"gpu\"]");
    let plain = s.enqueue("a");
    // Who has announced nothing gets what requires nothing.
    assert_eq!(id(&claimed(&mut s, "bob")), plain);
    assert_eq!(s.claim("bob")["code"], "empty");
    announce(&mut s, "ann", "[\"gpu\"]");
    assert_eq!(id(&claimed(&mut s, "ann")), gpu);
    assert_eq!(s.claim("ann")["code"], "empty");
    // With the claim itself, in place of what was announced.
    let claim = |list: &str| format!("fn_job_claim('ann', p_options => '{{\"capabilities\": {list}}}')");
    assert_eq!(s.call(&claim("[]"))["code"], "empty");
    let answer = s.call(&claim("[\"gpu\", \"more\", \"web\"]"));
    assert_eq!(answer["job_id"], json!(both));
    assert_eq!(s.call(&format!("fn_job_get('{both}')"))["job"]["requires"], json!(["gpu", "web"]));
    db.assert_sound();
}

#[test]
fn priority_decides_over_all_that_a_worker_can_run() {
    let db = database();
    let mut s = db.session();
    announce(&mut s, "ann", "[\"gpu\", \"web\"]");
    let mut enqueue = |requires: &str, priority: i32| {
        let options = format!("p_options => '{{\"requires\": {requires}}}'");
        id(&s.call(&format!("fn_job_enqueue('a', p_priority => {priority}, {options})")))
    };
    let jobs = [enqueue("[\"gpu\"]", 3), enqueue("[\"web\"]", 1), enqueue("[]", 2), enqueue("[\"gpu\", \"web\"]", 0)];
    let order: Vec<String> = (0..4).map(|_| id(&claimed(&mut s, "ann"))).collect();
    assert_eq!(order, [&jobs[3], &jobs[1], &jobs[2], &jobs[0]].map(Clone::clone));
}

#[test]
fn the_one_that_can_run_it_is_woken_whoever_waits_beside_it() {
    let db = database();
    let mut s = db.session();
    let wait =
        |capabilities: &str| waiting_claim(&db, &format!(", p_options => '{{\"capabilities\": {capabilities}}}'"));
    let mut beside = Vec::new();
    is_told(&db, || {
        beside.push(wait("[]"));
        let capable = wait("[\"gpu\"]");
        enqueue(&mut s, "[\"gpu\"]");
        capable
    });
    for plain in beside {
        s.enqueue("plain");
        assert_eq!(plain.join().expect("no panic").0["code"], "claimed");
    }
}

#[test]
fn a_job_that_nobody_can_run_raises_an_alert_once() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('queue.routing.alert_after_seconds', '60')");
    let job = enqueue(&mut s, "[\"quantum\"]");
    enqueue(&mut s, "[\"gpu\"]");
    let events = |s: &mut Session| {
        s.call("fn_engine_tick('watch_routing')");
        s.texts("SELECT subject FROM agentq.event WHERE event_kind = 'job.unroutable' ORDER BY event_id")
    };
    assert!(events(&mut s).is_empty());
    s.shift_clock(61);
    announce(&mut s, "ann", "[\"gpu\"]");
    assert_eq!(events(&mut s), ["quantum"]);
    assert_eq!(events(&mut s), ["quantum"], "once an hour");
    let payload: String = s.text("SELECT payload->>'job_id' FROM agentq.event WHERE event_kind = 'job.unroutable'");
    assert_eq!(payload, job);
    let answer = s.call(&format!("fn_job_explain('{job}')"));
    assert_eq!((answer["code"].clone(), answer["gates"][0]["gate"].clone()), (json!("waiting"), json!("capability")));
    assert_eq!(s.texts("SELECT executor_name FROM agentq.fn_capable_workers(ARRAY['gpu'])"), ["ann"]);
    // A worker that has gone silent can run nothing.
    s.shift_clock(3_700);
    assert_eq!(events(&mut s), ["quantum", "gpu", "quantum"]);
}

#[test]
fn a_capable_worker_takes_turns_between_tenants() {
    let db = database();
    let mut s = db.session();
    let options = |requires: &str, tenant: &str| {
        format!("p_options => '{{\"requires\": {requires}, \"fairness_key\": \"tenant:{tenant}\"}}'")
    };
    for _ in 0..4 {
        s.call(&format!("fn_job_enqueue('a', {})", options("[\"gpu\"]", "big")));
        s.call(&format!("fn_job_enqueue('a', {})", options("[]", "big")));
    }
    let small = id(&s.call(&format!("fn_job_enqueue('a', {})", options("[\"gpu\"]", "small"))));
    announce(&mut s, "ann", "[\"gpu\"]");
    let first: Vec<String> = (0..2).map(|_| id(&claimed(&mut s, "ann"))).collect();
    assert!(first.contains(&small), "one tenant has one turn, whatever its jobs require");
    // Who can do less gets what requires less.
    let plain = id(&claimed(&mut s, "bob"));
    assert_eq!(s.call(&format!("fn_job_get('{plain}')"))["job"]["requires"], Value::Null);
    db.assert_sound();
}

#[test]
fn requirements_that_make_no_sense_are_refused() {
    let db = database();
    let mut s = db.session();
    for (list, says) in
        [("3", "must be a list"), ("[1]", "must be a text"), ("[\"a,b\"]", "without commas"), ("[\"\"]", "empty")]
    {
        refuse(&mut s, &format!("fn_job_enqueue('a', p_options => '{{\"requires\": {list}}}')"), says);
        refuse(&mut s, &format!("fn_job_claim('a', p_options => '{{\"capabilities\": {list}}}')"), says);
    }
    let long = format!("[\"{}\", \"{}\"]", "a".repeat(60), "b".repeat(60));
    refuse(&mut s, &format!("fn_job_enqueue('a', p_options => '{{\"requires\": {long}}}')"), "longer than");
    expect(&mut s, "enqueued", "fn_job_enqueue('a', p_options => '{\"requires\": []}')");
}
