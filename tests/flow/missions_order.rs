//! The order of steps: dependencies, joins, conditions, parameters.

use super::{assert_whole, claim, done, failed, start, status, steps, template, work_off};
use agentq_tests::{database, expect, id, json};

#[test]
fn a_diamond_goes_from_its_first_step_to_its_last() {
    let db = database();
    let mut s = db.session();
    let diamond = template(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])]);
    let mission = start(&mut s, &diamond, "");
    assert_eq!(steps(&mut s, &mission), "a queued, b waiting, c waiting, d waiting");
    let first = claim(&mut s, "a");
    assert_eq!(steps(&mut s, &mission), "a running, b waiting, c waiting, d waiting");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&first)));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b queued, c queued, d waiting");
    done(&mut s, "c", &json!(null));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b queued, c succeeded, d waiting");
    assert_eq!(s.claim("bob")["job_kind"], "b");
    assert_eq!(s.claim("bob")["code"], "empty");
    let job = s.text("SELECT job_id FROM agentq.v_mission_step WHERE name = 'b'");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_whole(&mut s);
    done(&mut s, "d", &json!({"x": 1}));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b succeeded, c succeeded, d succeeded");
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_eq!(s.count("agentq_internal.mission_count"), 0);
    let events = s.texts("SELECT event_kind FROM agentq.event ORDER BY event_id");
    assert_eq!(events.iter().filter(|kind| *kind == "step.succeeded").count(), 4);
    assert_eq!((events[0].as_str(), events[events.len() - 1].as_str()), ("mission.started", "mission.succeeded"));
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn steps_without_dependencies_run_beside_each_other_and_a_sequence_one_by_one() {
    let db = database();
    let mut s = db.session();
    let list = json!([{"kind": "a"}, {"kind": "b"}, {"kind": "c"}]);
    let together = start(&mut s, &json!({"steps": list}), "");
    assert_eq!(steps(&mut s, &together), "step_1 queued, step_2 queued, step_3 queued");
    assert_eq!(work_off(&mut s), ["step_1", "step_2", "step_3"]);
    assert_eq!(status(&mut s, &together), "succeeded");
    let sequence = start(&mut s, &json!({"steps": list, "sequential": true}), "");
    assert_eq!(steps(&mut s, &sequence), "step_1 queued, step_2 waiting, step_3 waiting");
    assert_eq!(work_off(&mut s), ["step_1", "step_2", "step_3"]);
    assert_eq!(status(&mut s, &sequence), "succeeded");
    db.assert_sound();
}

#[test]
fn what_a_job_is_told_comes_from_the_template() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let mission = start(
        &mut s,
        &json!({"title": "t", "steps": [{"name": "a", "kind": "k", "params": {"x": 1}, "executor": "noop", "queue": "mail",
            "priority": 7, "retry": {"max_attempts": 2}, "timeout_seconds": 60}]}),
        "",
    );
    let claim = expect(&mut s, "claimed", "fn_job_claim('bob', 'k', p_options => '{\"queues\": [\"mail\"]}')");
    assert_eq!(claim["payload_json"], json!({"x": 1, "executor": "noop"}));
    assert_eq!(claim["run_id"], json!(mission));
    assert_eq!(claim["target_ref"], json!("a"));
    let job = s.json("SELECT to_jsonb(j) FROM agentq_internal.job j", &[]);
    assert_eq!((&job["priority"], &job["max_attempts"], &job["actor"]), (&json!(7), &json!(2), &json!("mission")));
    assert_eq!(s.text("SELECT (finish_by - created_at)::text FROM agentq_internal.job"), "00:01:00");
    let step = s.json("SELECT to_jsonb(v) FROM agentq.v_mission_step v", &[]);
    assert_eq!(
        (&step["status"], &step["max_retries"], &step["failure_count"]),
        (&json!("running"), &json!(1), &json!(0))
    );
    assert!(!step["reserved_at"].is_null() && !step["lease_expires_at"].is_null());
    // A failed try leaves the step where it is.
    expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{}', 'bob', 'once')", id(&claim)));
    let step = s.json("SELECT to_jsonb(v) FROM agentq.v_mission_step v", &[]);
    assert_eq!(
        (&step["status"], &step["last_error"], &step["failure_count"]),
        (&json!("queued"), &json!("once"), &json!(1))
    );
    let runs = s.texts("SELECT concat_ws(' ', step, executor, status, error) FROM agentq.v_action_run");
    assert_eq!(runs, ["a noop failed once"]);
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn parameters_and_conditions_read_the_results_of_earlier_steps() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [
        {"name": "draft", "kind": "draft"},
        {"name": "good", "kind": "good", "depends_on": ["draft"], "when": "$.draft.score > 0.8",
         "params": {"url": {"$from": "$.draft.url"}, "deep": [{"all": {"$from": "$.draft"}}], "who": {"$from": "$.input.who"}}},
        {"name": "bad", "kind": "bad", "depends_on": ["draft"], "when": "$.draft.score <= 0.8"},
        {"name": "tags", "kind": "tags", "depends_on": ["draft"], "when": "$.draft.tags[*] ? (@ == \"x\")"},
        {"name": "last", "kind": "last", "depends_on": [{"step": "good", "status": "ended"}, {"step": "bad", "status": "ended"}],
         "params": {"url": {"$from": "$.draft.url"}, "none": {"$from": "$.good.nothing"}}},
        {"name": "after_bad", "kind": "k", "depends_on": ["bad"]}]});
    let mission = start(&mut s, &text, ", p_options => '{\"input\": {\"who\": \"me\"}}'");
    let result = json!({"score": 0.9, "url": "u", "tags": ["x", "y"]});
    done(&mut s, "draft", &result);
    assert_eq!(
        steps(&mut s, &mission),
        "draft succeeded, good queued, bad skipped, tags queued, last waiting, after_bad skipped"
    );
    let good = claim(&mut s, "good");
    assert_eq!(good["payload_json"], json!({"url": "u", "deep": [{"all": result}], "who": "me"}));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob', '{{}}')", id(&good)));
    done(&mut s, "tags", &json!(null));
    let last = claim(&mut s, "last");
    assert_eq!(last["payload_json"], json!({"url": "u", "none": null}));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&last)));
    assert_eq!(status(&mut s, &mission), "succeeded");
    let why = s
        .texts("SELECT name || ': ' || last_error FROM agentq_internal.mission_step WHERE status = 'skipped' ORDER BY position");
    assert_eq!(why, ["bad: its condition is not met", "after_bad: a step before it did not end as it asks"]);
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn any_and_quorum_begin_once_and_later_ends_change_nothing() {
    let db = database();
    let mut s = db.session();
    let mission = start(
        &mut s,
        &json!({"steps": [{"name": "a", "kind": "a"}, {"name": "b", "kind": "b"}, {"name": "c", "kind": "c", "on_failure": "continue"},
            {"name": "any", "kind": "any", "depends_on": ["a", "b", "c"], "join": "any"},
            {"name": "two", "kind": "two", "depends_on": ["a", "b", "c"], "join": {"quorum": 2}}]}),
        "",
    );
    failed(&mut s, "c");
    assert_eq!(steps(&mut s, &mission), "a queued, b queued, c failed, any waiting, two waiting");
    done(&mut s, "b", &json!(1));
    assert_eq!(steps(&mut s, &mission), "a queued, b succeeded, c failed, any queued, two waiting");
    done(&mut s, "any", &json!(1));
    done(&mut s, "a", &json!(1));
    assert_eq!(steps(&mut s, &mission), "a succeeded, b succeeded, c failed, any succeeded, two queued");
    done(&mut s, "two", &json!(1));
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut s);
    // A quorum that can no longer be reached is skipped at that moment.
    let mission = start(
        &mut s,
        &json!({"steps": [{"name": "a", "kind": "a", "on_failure": "continue"}, {"name": "b", "kind": "b", "on_failure": "continue"},
            {"name": "c", "kind": "c"}, {"name": "two", "kind": "two", "depends_on": ["a", "b", "c"], "join": {"quorum": 2}}]}),
        "",
    );
    failed(&mut s, "a");
    failed(&mut s, "b");
    assert_eq!(steps(&mut s, &mission), "a failed, b failed, c queued, two skipped");
    done(&mut s, "c", &json!(1));
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_condition_that_is_false_at_the_beginning_may_end_the_mission_at_once() {
    let db = database();
    let mut s = db.session();
    let text = json!({"steps": [{"name": "a", "kind": "a", "when": "$.input.go == true"}, {"name": "b", "kind": "b", "depends_on": ["a"]}]});
    let mission = start(&mut s, &text, ", p_options => '{\"input\": {\"go\": false}}'");
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_eq!(steps(&mut s, &mission), "a skipped, b skipped");
    let mission = start(&mut s, &text, ", p_options => '{\"input\": {\"go\": true}}'");
    assert_eq!(steps(&mut s, &mission), "a queued, b waiting");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn acks_of_many_and_ack_and_claim_let_the_next_steps_begin() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &[]), ("c", &["a", "b"]), ("d", &["c"])]), "");
    let jobs = s.call("fn_job_claim_batch('bob', 10)");
    let ids: Vec<String> = jobs["jobs"].as_array().unwrap().iter().map(id).collect();
    assert_eq!(ids.len(), 2);
    s.call(&format!("fn_job_ack_batch('bob', '{}')", json!(ids)));
    let third = claim(&mut s, "c");
    let both = s.call(&format!("fn_job_ack_and_claim('{}', 'bob', '{{\"n\": 3}}')", id(&third)));
    assert_eq!(both["job"]["job_kind"], "d", "{both}");
    let jobs = json!([both["job"]["job_id"]]);
    s.call(&format!("fn_job_ack_and_claim_batch('bob', '{jobs}', 5)"));
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_eq!(s.text("SELECT result->>'n' FROM agentq_internal.mission_step WHERE name = 'c'"), "3");
    assert_whole(&mut s);
    db.assert_sound();
}

#[test]
fn a_long_chain_and_a_wide_fan_end_with_their_last_step() {
    let db = database();
    let mut s = db.session();
    let chain: Vec<_> = (0..200).map(|n| json!({"kind": "k", "name": format!("s{n}")})).collect();
    let chain = start(&mut s, &json!({"sequential": true, "steps": chain}), "");
    assert_eq!(work_off(&mut s).len(), 200);
    assert_eq!(status(&mut s, &chain), "succeeded");
    let mut fan = vec![json!({"name": "first", "kind": "k"})];
    let names: Vec<String> = (0..1000).map(|n| format!("s{n}")).collect();
    fan.extend(names.iter().map(|name| json!({"kind": "k", "name": name, "depends_on": ["first"]})));
    fan.push(json!({"name": "last", "kind": "k", "depends_on": names}));
    let fan = start(&mut s, &json!({"steps": fan}), "");
    assert_eq!(s.count(&format!("agentq_internal.mission_count WHERE owner_id = '{fan}'")), 15);
    let first = claim(&mut s, "k");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&first)));
    assert_eq!(s.count("agentq_internal.mission_count WHERE active BETWEEN 60 AND 70"), 15);
    let jobs = s.call("fn_job_claim_batch('bob', 1000)");
    let ids: Vec<String> = jobs["jobs"].as_array().unwrap().iter().map(id).collect();
    assert_eq!(ids.len(), 1000);
    s.call(&format!("fn_job_ack_batch('bob', '{}')", json!(ids[..999])));
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_whole(&mut s);
    s.call(&format!("fn_job_ack('{}', 'bob')", ids[999]));
    assert_eq!(work_off(&mut s), ["last"]);
    assert_eq!(status(&mut s, &fan), "succeeded");
    assert_whole(&mut s);
    db.assert_sound();
}
