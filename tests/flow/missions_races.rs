//! Two sessions at once.

use super::{assert_whole, claim, start, status, steps, template, work_off};
use agentq_tests::{
    Cluster, Options, PATIENCE, Session, Value, database, eventually, expect, id, json, until_someone_waits,
};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn ack(s: &mut Session, job: &Value) {
    expect(s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(job)));
}

#[test]
fn two_parents_that_end_at_the_same_instant_begin_their_child_once() {
    let db = database();
    let (mut s, mut look) = (db.session(), db.session());
    for order in [["a", "b"], ["b", "a"]] {
        for end in ["COMMIT", "ROLLBACK"] {
            let mission = start(&mut s, &template(&[("a", &[]), ("b", &[]), ("c", &["a", "b"])]), "");
            let (first, second) = (claim(&mut s, order[0]), claim(&mut s, order[1]));
            s.run("BEGIN");
            ack(&mut s, &first);
            let mut other = db.session();
            let waiting = std::thread::spawn(move || ack(&mut other, &second));
            until_someone_waits(&mut look);
            s.run(end);
            waiting.join().unwrap();
            if end == "ROLLBACK" {
                assert_eq!(look.count("agentq.job_queue WHERE job_kind = 'c' AND state = 'queued'"), 0);
                ack(&mut s, &first);
            }
            assert_eq!(steps(&mut look, &mission), "a succeeded, b succeeded, c queued", "{order:?} {end}");
            assert_whole(&mut look);
            assert_eq!(work_off(&mut s), ["c"]);
            assert_eq!(status(&mut s, &mission), "succeeded");
        }
    }
    assert_eq!(s.count("agentq_internal.job WHERE job_kind = 'c'"), 4);
    db.assert_sound();
}

#[test]
fn the_last_two_steps_that_end_at_the_same_instant_end_the_mission_once() {
    let db = database();
    let (mut s, mut look) = (db.session(), db.session());
    // Enough steps for two counts, so that the two do not meet there.
    let names: Vec<String> = (0..128).map(|n| format!("s{n}")).collect();
    let list: Vec<Value> = names.iter().map(|name| json!({"name": name, "kind": name})).collect();
    for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
        let mission = start(&mut s, &json!({"steps": list}), "");
        assert_eq!(s.count("agentq_internal.mission_count"), 2);
        let (one, two) = (claim(&mut s, "s0"), claim(&mut s, "s1"));
        work_off(&mut s);
        assert_eq!(s.texts("SELECT active FROM agentq_internal.mission_count"), ["1", "1"]);
        s.run(&format!("BEGIN ISOLATION LEVEL {isolation}"));
        ack(&mut s, &one);
        let mut other = db.session();
        other.run(&format!("BEGIN ISOLATION LEVEL {isolation}; SELECT count(*) FROM agentq.mission"));
        // Under a fixed snapshot it may have to be tried again, but is never lost.
        let waiting = std::thread::spawn(move || {
            let call = format!("fn_job_ack('{}', 'bob')", id(&two));
            if isolation == "READ COMMITTED" {
                expect(&mut other, "succeeded", &call);
                return other.run("COMMIT");
            }
            assert_eq!(other.fails(&format!("SELECT agentq.{call}")).code, "40001");
            other.run("ROLLBACK");
            expect(&mut other, "succeeded", &call);
        });
        until_someone_waits(&mut look);
        s.run("COMMIT");
        waiting.join().unwrap();
        assert_eq!(status(&mut look, &mission), "succeeded", "{isolation}");
        assert_whole(&mut look);
    }
    assert_eq!(s.count("agentq.event WHERE event_kind = 'mission.succeeded'"), 2);
    db.assert_sound();
}

#[test]
fn under_repeatable_read_a_child_that_changed_meanwhile_is_an_error_to_try_again() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &[]), ("c", &["a", "b"])]), "");
    let (a, b) = (claim(&mut s, "a"), claim(&mut s, "b"));
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM agentq.mission");
    ack(&mut s, &a);
    let failure = other.fails(&format!("SELECT agentq.fn_job_ack('{}', 'bob')", id(&b)));
    assert_eq!(failure.code, "40001", "{failure:?}");
    other.run("ROLLBACK");
    ack(&mut other, &b);
    assert_eq!(steps(&mut s, &mission), "a succeeded, b succeeded, c queued");
    db.assert_sound();
}

#[test]
fn a_step_that_would_begin_while_its_mission_is_cancelled_does_not() {
    let db = database();
    let (mut s, mut look) = (db.session(), db.session());
    for end in ["COMMIT", "ROLLBACK"] {
        // The cancel comes first: the end of the step waits for it.
        let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
        let held = claim(&mut s, "a");
        s.run("BEGIN");
        expect(&mut s, "cancelling", &format!("fn_mission_cancel('{mission}')"));
        let (mut other, job) = (db.session(), held.clone());
        let waiting = std::thread::spawn(move || ack(&mut other, &job));
        until_someone_waits(&mut look);
        s.run(end);
        waiting.join().unwrap();
        // The server lets go of the gate a moment after it has let go of the rows: then the end was left to the engine.
        s.call("fn_engine_tick('end_waits')");
        let cancelled = end == "COMMIT";
        assert_eq!(status(&mut look, &mission), if cancelled { "cancelled" } else { "running" });
        assert_eq!(work_off(&mut s).len(), usize::from(!cancelled));
        // The end of the step comes first: the cancel waits for it, and takes its job back.
        let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
        let held = claim(&mut s, "a");
        s.run("BEGIN");
        ack(&mut s, &held);
        let (mut other, id) = (db.session(), mission.clone());
        let waiting = std::thread::spawn(move || other.call(&format!("fn_mission_cancel('{id}')"))["code"].clone());
        until_someone_waits(&mut look);
        s.run(end);
        assert_eq!(waiting.join().unwrap(), if cancelled { "cancelled" } else { "cancelling" });
        if !cancelled {
            ack(&mut s, &held);
        }
        assert_eq!(steps(&mut look, &mission), "a succeeded, b cancelled");
        assert_eq!(s.claim("bob")["code"], "empty");
        assert_whole(&mut look);
    }
    db.assert_sound();
}

#[test]
fn a_step_that_a_pause_holds_back_while_the_mission_is_resumed_is_not_forgotten() {
    let db = database();
    let (mut s, mut look) = (db.session(), db.session());
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
    let held = claim(&mut s, "a");
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}')"));
    s.run("BEGIN");
    ack(&mut s, &held);
    let (mut other, id) = (db.session(), mission.clone());
    let waiting = std::thread::spawn(move || expect(&mut other, "resumed", &format!("fn_mission_resume('{id}')")));
    until_someone_waits(&mut look);
    s.run("COMMIT");
    waiting.join().unwrap();
    assert_eq!(steps(&mut s, &mission), "a succeeded, b queued");
    // And the other way round.
    let mission = start(&mut s, &template(&[("c", &[]), ("d", &["c"])]), "");
    let held = claim(&mut s, "c");
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}')"));
    s.run("BEGIN");
    expect(&mut s, "resumed", &format!("fn_mission_resume('{mission}')"));
    // The ack does not wait for the resume: the engine tells the mission of it later.
    ack(&mut look, &held);
    assert_eq!(steps(&mut look, &mission), "c queued, d waiting");
    s.run("COMMIT");
    expect(&mut s, "ticked", "fn_engine_tick('end_waits')");
    assert_eq!(steps(&mut s, &mission), "c succeeded, d queued");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn who_has_ended_a_step_may_cancel_its_mission_while_another_ends_one() {
    let db = database();
    let (mut s, mut look) = (db.session(), db.session());
    for steer in ["fn_mission_cancel", "fn_mission_pause"] {
        let mission = start(&mut s, &template(&[("a", &[]), ("b", &[]), ("c", &["a", "b"])]), "");
        let (first, second) = (claim(&mut s, "a"), claim(&mut s, "b"));
        s.run("BEGIN");
        ack(&mut s, &first);
        // It has passed the gate together with the first, and waits for its count.
        let mut other = db.session();
        let waiting = std::thread::spawn(move || ack(&mut other, &second));
        until_someone_waits(&mut look);
        let answer = s.call(&format!("{steer}('{mission}')"));
        assert_eq!(answer["ok"], json!(true), "{answer}");
        s.run("COMMIT");
        waiting.join().unwrap();
        expect(&mut s, "ticked", "fn_engine_tick('end_waits')");
        let steps = steps(&mut s, &mission);
        assert!(steps.starts_with("a succeeded, b succeeded, c "), "{steps}");
        assert_whole(&mut s);
    }
    db.assert_sound();
}

/// A mission of several layers, each step of which waits for some of the layer before.
fn layers(seed: usize) -> Value {
    let mut list: Vec<Value> = Vec::new();
    for layer in 0..5_usize {
        for place in 0..6_usize {
            let parents: Vec<Value> = (0..6_usize)
                .filter(|other| layer > 0 && (other * 7 + place * 3 + layer + seed).is_multiple_of(3))
                .map(|other| json!({"step": format!("{}_{other}", layer - 1), "status": if (other + seed).is_multiple_of(5) { "ended" } else { "succeeded" }}))
                .collect();
            let mut step = json!({"name": format!("{layer}_{place}"), "kind": "work", "on_failure": "continue", "depends_on": parents});
            if parents.len() > 1 && (place + seed).is_multiple_of(4) {
                step["join"] = json!("any");
            }
            list.push(step);
        }
    }
    json!({"steps": list})
}

#[test]
fn many_workers_end_many_missions_without_a_deadlock_and_each_step_runs_once() {
    let cluster = Cluster::start("missions", &Options::default());
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    let missions: Vec<String> = (0..24).map(|seed| start(&mut s, &layers(seed), "")).collect();
    let ended = AtomicUsize::new(0);
    let deadline = Instant::now() + PATIENCE;
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let (db, ended, missions) = (&db, &ended, &missions);
            scope.spawn(move || {
                let mut s = db.session();
                let name = format!("w{worker}");
                let mut idle = 0;
                let mut number = worker;
                while idle < 20 && Instant::now() < deadline {
                    let jobs = s.call(&format!("fn_job_claim_batch('{name}', {})", 1 + worker % 3));
                    let jobs = jobs["jobs"].as_array().unwrap().clone();
                    idle = if jobs.is_empty() { idle + 1 } else { 0 };
                    if jobs.is_empty() {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    number += 1;
                    if number % 5 == 4 {
                        for job in &jobs {
                            s.call(&format!(
                                "fn_job_fail_or_retry('{}', '{name}', 'boom', p_verdict => 'discard')",
                                id(job)
                            ));
                        }
                    } else {
                        let ids: Vec<String> = jobs.iter().map(id).collect();
                        s.call(&format!("fn_job_ack_batch('{name}', '{}')", json!(ids)));
                    }
                    ended.fetch_add(jobs.len(), SeqCst);
                    // Some are cancelled, paused and resumed on the way.
                    if worker == 0 && number % 8 == 0 {
                        let mission = &missions[number % missions.len()];
                        s.call(&format!("fn_mission_pause('{mission}')"));
                        s.call(&format!("fn_mission_resume('{mission}')"));
                    }
                    if worker == 1 && number % 16 == 0 {
                        s.call(&format!("fn_mission_cancel('{}')", missions[number % missions.len()]));
                    }
                }
            });
        }
    });
    // The engine tells missions of ends that came while somebody steered them, and such an end may let others begin.
    s.call("fn_engine_tick('end_waits')");
    ended.fetch_add(work_off(&mut s).len(), SeqCst);
    s.call("fn_engine_tick('tend_missions')");
    assert_whole(&mut s);
    let open = s.texts("SELECT status || ' ' || mission_id FROM agentq.mission WHERE completed_at IS NULL");
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(s.count("agentq.job_attempt WHERE outcome IN ('succeeded', 'failed')"), ended.load(SeqCst) as i64);
    assert_eq!(s.count("(SELECT source_ref FROM agentq_internal.job GROUP BY source_ref HAVING count(*) > 1) t"), 0);
    assert!(!cluster.log().contains("deadlock detected"));
    db.assert_sound();
}

#[test]
fn a_resume_that_meets_a_pause_waits_for_it_and_takes_it_back() {
    let db = database();
    let (mut s, mut look) = (db.session(), db.session());
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
    let first = claim(&mut s, "a");
    s.run("BEGIN");
    expect(&mut s, "paused", &format!("fn_mission_pause('{mission}')"));
    let (mut other, call) = (db.session(), format!("fn_mission_resume('{mission}')"));
    let waiting = std::thread::spawn(move || other.call(&call)["code"].clone());
    until_someone_waits(&mut look);
    s.run("COMMIT");
    assert_eq!(waiting.join().unwrap(), "resumed");
    ack(&mut s, &first);
    assert_eq!(steps(&mut look, &mission), "a succeeded, b queued");
    assert_eq!(work_off(&mut s), ["b"]);
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut look);
}

#[test]
fn batches_that_end_items_of_one_list_do_not_deadlock() {
    let db = database();
    let mut s = db.session();
    let mission = start(
        &mut s,
        &json!({"steps": [{"name": "find", "kind": "find"},
            {"name": "read", "kind": "read", "depends_on": ["find"], "for_each": "$.find"}]}),
        "",
    );
    let list: Vec<i32> = (0..600).collect();
    super::done(&mut s, "find", &json!(list));
    let jobs = s.call("fn_job_claim_batch('bob', 600, 'read')");
    let jobs: Vec<String> = jobs["jobs"].as_array().unwrap().iter().map(id).collect();
    assert!(s.count("agentq_internal.mission_count WHERE owner_id <> (SELECT mission_id FROM agentq.mission)") > 4);
    // Eight sessions, each with every eighth item and in batches: their counts lie crosswise.
    std::thread::scope(|scope| {
        for part in 0..8 {
            let (mut other, jobs) = (db.session(), &jobs);
            scope.spawn(move || {
                let mine: Vec<&String> = jobs.iter().skip(part).step_by(8).collect();
                for batch in mine.chunks(7) {
                    let acked = other.call(&format!("fn_job_ack_batch('bob', '{}')", json!(batch)));
                    assert_eq!(acked["acked"], json!(batch.len()), "{acked}");
                }
            });
        }
    });
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_mission_that_somebody_has_locked_holds_up_the_recovery_of_nobody_else() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &[]), ("c", &["a", "b"])]), "");
    s.run("UPDATE agentq_internal.job SET max_attempts = 1");
    let (first, _) = (claim(&mut s, "a"), expect(&mut s, "claimed", "fn_job_claim('bob', 'b', 1)"));
    let plain = s.enqueue("plain");
    expect(&mut s, "claimed", "fn_job_claim('bob', 'plain', 1)");
    // Its counts are locked for long, and the holder of b has died on its last try.
    let mut open = db.session();
    open.run("BEGIN");
    ack(&mut open, &first);
    s.shift_clock(100);
    s.call("fn_engine_tick('reap_leases')");
    assert_eq!(s.state(&plain), "queued", "the others are recovered");
    assert_eq!(s.count("agentq_internal.job_lease"), 1, "b has ended");
    assert_eq!(s.count("agentq_internal.job_end_due"), 1, "its mission hears of it later");
    open.run("COMMIT");
    // Where no engine runs, claims do it.
    eventually("it is told", || {
        s.call("fn_job_claim('eve', 'nothing')");
        status(&mut s, &mission) == "failed"
    });
    assert_whole(&mut s);
    db.assert_sound();
}
