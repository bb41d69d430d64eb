//! The whole loop: event, reaction, proposal, gate, approval by policy, mission, steps, events of success
//! and failure, the end of the mission and of the proposal; with workers killed on the way.

use crate::loops::{approve_all, emit, pattern, policy, propose, tick};
use agentq_tests::{
    Cluster, Database, Options, Session, Value, database, eventually, expect, json, sooner_than, text, timed, token,
};
use std::time::Duration;

/// The rules of a small house: what is asked for is drafted and posted, and what fails is looked at.
#[track_caller]
fn set_up(s: &mut Session) {
    let answer = json!({"title": {"$event": "$.title"}, "risk_level": "low", "steps": [
        {"name": "draft", "kind": "draft_tweet", "params": {"topic": {"$event": "$.topic"}}},
        {"name": "post", "kind": "post_tweet", "depends_on": ["draft"]}]});
    let look = json!({"title": "look into it", "steps": [{"name": "look", "kind": "diagnose",
        "params": {"mission": {"$event": "$event.subject"}}}]});
    policy(
        s,
        "reaction_matrix",
        json!([
            {"id": "answer", "type": "user:request", "tags": ["tweet"], "dedupe": "request:{$.request}", "template": answer},
            {"id": "look", "type": "mission.failed", "template": look},
        ]),
    );
    let allowed = json!({"enabled": true, "allowed_step_kinds": ["*_tweet", "diagnose"], "sources": ["reaction"]});
    policy(s, "auto_approve", allowed);
    policy(s, "worker_policy", json!({"max_retries": 1}));
    policy(s, "proposal_caps", json!({"daily_limit": 10}));
}

/// Claims a job of a kind in a session of its own, which is killed: with the claim committed, or not.
#[track_caller]
fn claim_and_die(db: &Database<'_>, kind: &str, commits: bool) {
    let mut doomed = db.session();
    if !commits {
        doomed.run("BEGIN");
    }
    expect(&mut doomed, "claimed", &format!("fn_job_claim('doomed', '{kind}', 60)"));
    let pid = doomed.text("SELECT pg_backend_pid()");
    db.session().run(&format!("SELECT pg_terminate_backend({pid}, 5000)"));
}

#[track_caller]
fn work(s: &mut Session, kind: &str) -> Value {
    let job = expect(s, "claimed", &format!("fn_job_claim('worker', '{kind}', 60)"));
    let call =
        format!("fn_job_ack('{}', 'worker', '{{\"done\": \"{kind}\"}}', '{}')", text(&job, "job_id"), token(&job));
    expect(s, "succeeded", &call);
    job
}

/// The mission must have ended so.
#[track_caller]
fn mission_ended(s: &mut Session, mission: &str, how: &str) {
    assert_eq!(s.text(&format!("SELECT status FROM agentq.mission WHERE mission_id = '{mission}'")), how);
}

#[track_caller]
fn request(s: &mut Session, number: i32) -> String {
    let data = json!({"request": number, "title": format!("request {number}"), "topic": "pgrx"});
    emit(s, "user:request", data.clone(), json!({"source": "web", "tags": ["tweet"]}));
    // Sent twice by somebody impatient: the dedupe key tells.
    emit(s, "user:request", data, json!({"source": "web", "tags": ["tweet"]}));
    let ticked = tick(s);
    assert_eq!(ticked["triggerResult"]["queued"], 1, "{ticked}");
    assert_eq!(ticked["reactionResult"], json!({"processed": 1, "created": 1}), "{ticked}");
    assert_eq!(ticked["learningResult"], json!({"promoted": 0}));
    let row = format!(
        "SELECT mission_id FROM agentq.v_proposal WHERE title = 'request {number}' AND status = 'auto_approved'"
    );
    s.text(&row)
}

#[test]
fn from_an_event_to_the_end_of_its_mission_with_workers_killed_on_the_way() {
    let db = database();
    let mut s = db.session();
    set_up(&mut s);
    let mission = request(&mut s, 1);

    // One worker dies before its claim commits: the step is there again at once. Another dies with
    // the step in its hands: its lease runs out, and the next turn brings the step back.
    claim_and_die(&db, "draft_tweet", false);
    claim_and_die(&db, "draft_tweet", true);
    assert_eq!(s.call("fn_job_claim('worker', 'draft_tweet', 60)")["code"], "empty");
    s.shift_clock(61);
    assert_eq!(tick(&mut s)["leaseResult"], json!({"requeued_steps": 1, "failed_steps": 0}));
    let draft = work(&mut s, "draft_tweet");
    assert_eq!((draft["payload_json"]["topic"].clone(), draft["attempt"].clone()), (json!("pgrx"), json!(2)));
    work(&mut s, "post_tweet");
    mission_ended(&mut s, &mission, "succeeded");
    tick(&mut s);
    assert_eq!(s.text("SELECT state FROM agentq.v_proposal WHERE title = 'request 1'"), "succeeded");

    // The next one fails for good, and the failure is an event that calls for a mission of its own.
    let mission = request(&mut s, 2);
    for attempt in 1..=2 {
        let job = expect(&mut s, "claimed", "fn_job_claim('worker', 'draft_tweet', 60)");
        let code = if attempt == 2 { "dead_letter" } else { "retry_waiting" };
        let call = format!(
            "fn_job_fail_or_retry('{}', 'worker', 'no idea', p_retry_after => '0 seconds')",
            text(&job, "job_id")
        );
        expect(&mut s, code, &call);
    }
    mission_ended(&mut s, &mission, "failed");
    let ticked = tick(&mut s);
    assert_eq!(ticked["triggerResult"]["queued"], 1, "{ticked}");
    assert_eq!(s.text("SELECT state FROM agentq.v_proposal WHERE title = 'request 2'"), "failed");
    let look = "SELECT concat_ws(' ', status, state, depth, template->'steps'->0->'params'->>'mission') FROM agentq.v_proposal WHERE title = 'look into it'";
    assert_eq!(s.text(look), format!("auto_approved auto_approved 2 {mission}"));
    let diagnose = work(&mut s, "diagnose");
    assert_eq!(diagnose["payload_json"]["mission"], json!(mission));

    // Every decision can be traced: from the proposal to the reaction, the event and the policies.
    let trace =
        "SELECT string_agg(concat_ws(' ', r.pattern, r.status, p.status, p.policy_snapshot->'auto_approve'->>'version',
            p.policy_snapshot->'reaction_matrix'->>'version'), ', ' ORDER BY p.created_at)
        FROM agentq.v_proposal p JOIN agentq.reaction r USING (reaction_id) JOIN agentq.event e USING (event_id)";
    assert_eq!(
        s.text(trace),
        "answer done auto_approved 1 1, answer done auto_approved 1 1, look done auto_approved 1 1"
    );
    db.assert_sound();
}

#[test]
fn with_the_engine_the_loop_turns_by_itself() {
    let settings = vec!["max_worker_processes = 50".to_owned()];
    let cluster = Cluster::start("ops_loop", &Options { engine: true, settings, ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    policy(&mut s, "reaction_matrix", json!([pattern("all", "user:*", json!({}))]));
    approve_all(&mut s, &["noop"]);
    // The first call that reads the settings tells the launcher of the database.
    s.call("fn_config_get('queue.worker.enabled')");
    eventually("the engine runs", || s.text("SELECT mode FROM agentq.v_engine_status") == "running");
    let mut number = 0;
    sooner_than(Duration::from_secs(5), "from the event to its step", || {
        number += 1;
        let ((), took) = timed(|| {
            emit(&mut s, "user:request", json!({}), json!({}));
            eventually("the step is there", || s.count("agentq_internal.job WHERE job_kind = 'noop'") == number);
        });
        took
    });
    // A gate that does not answer does not keep the engine for ever.
    s.run(
        "CREATE SCHEMA ops;
         CREATE FUNCTION ops.asleep(jsonb, text) RETURNS boolean LANGUAGE sql AS $$ SELECT pg_sleep(60); SELECT true $$",
    );
    policy(&mut s, "proposal_caps", json!({"hook": "ops.asleep"}));
    emit(&mut s, "user:request", json!({}), json!({}));
    let gave_up = "agentq.reaction WHERE status = 'failed' AND reason LIKE '%took longer than 2 s%'";
    eventually("the engine gives up", || s.count(gave_up) == 1);
    db.assert_sound();
}

#[test]
fn a_turn_by_hand_answers_in_the_known_shape_and_keeps_to_the_gate() {
    let db = database();
    let mut s = db.session();
    let ticked = tick(&mut s);
    assert_eq!(ticked["triggerResult"], json!({"events": 0, "queued": 0}));
    assert_eq!(ticked["reactionResult"], json!({"processed": 0, "created": 0}));
    assert_eq!(ticked["leaseResult"], json!({"requeued_steps": 0, "failed_steps": 0}));
    assert_eq!(ticked["staleResult"], json!({"recovered": 0}));
    assert_eq!(ticked["errors"], json!([]));
    s.call("fn_config_set('queue.worker.enabled', 'false')");
    assert_eq!(s.call("fn_ops_tick()")["code"], "gate_closed");
    s.call("fn_config_set('queue.worker.enabled', 'true')");
    // A job that was not finished in time is stale.
    s.run("SELECT agentq.fn_job_enqueue('slow', p_options => jsonb_build_object('finish_by', agentq.fn_clock_now() + interval '10 seconds'))");
    s.shift_clock(11);
    assert_eq!(tick(&mut s)["staleResult"], json!({"recovered": 1}));
}

#[test]
fn a_governed_step_may_wait_for_long_and_not_be_held_for_long_without_progress() {
    let db = database();
    let mut s = db.session();
    approve_all(&mut s, &["a"]);
    let made =
        propose(&mut s, "auto_approved", "k", "api", &json!({"title": "t", "steps": [{"name": "a", "kind": "a"}]}));
    // The policy that nobody has set says 30 minutes. It is about those who hold a step.
    s.shift_clock(40 * 60);
    s.call("fn_engine_tick()");
    s.call("fn_ops_tick()");
    let state = "SELECT state FROM agentq.job_queue WHERE job_kind = 'a'";
    assert_eq!(s.text(state), "queued", "{made}");
    s.call("fn_job_claim('w', 'a', 86400)");
    s.shift_clock(69 * 60);
    s.call("fn_ops_tick()");
    assert_eq!(s.text(state), "leased");
    s.shift_clock(71 * 60);
    let ticked = s.call("fn_ops_tick()");
    assert_eq!(s.text(state), "queued", "{ticked}");
    assert_eq!(s.text("SELECT error_class FROM agentq.job_attempt"), "stalled");
}

#[test]
fn a_turn_takes_at_most_a_batch_and_thinks_aloud_when_it_has_done_something() {
    let db = database();
    let mut s = db.session();
    approve_all(&mut s, &["noop"]);
    policy(&mut s, "reaction_matrix", json!([pattern("p", "k", json!({}))]));
    s.call("fn_config_set('governance.event_batch', '4')");
    s.call("fn_config_set('governance.reaction_batch', '3')");
    for _ in 0..6 {
        emit(&mut s, "k", json!({}), json!({}));
    }
    let first = tick(&mut s);
    // The policies are events as well.
    assert_eq!((&first["triggerResult"]["events"], &first["reactionResult"]["processed"]), (&json!(4), &json!(2)));
    let second = tick(&mut s);
    assert_eq!((&second["triggerResult"]["events"], &second["reactionResult"]["processed"]), (&json!(4), &json!(3)));
    let thoughts =
        s.texts("SELECT payload->>'thought' FROM agentq.event WHERE event_kind = 'agent:thought' ORDER BY event_id");
    assert_eq!(thoughts[0], "2 reactions queued, 2 reactions processed, 2 proposals made");
    for _ in 0..20 {
        tick(&mut s);
    }
    assert_eq!(s.count("agentq.reaction WHERE status = 'done'"), 6);
    let before = s.count("agentq.event");
    tick(&mut s);
    assert_eq!(s.count("agentq.event"), before, "it does not think about its own thoughts");
    let lag = "SELECT consumer || ' ' || behind || ' ' || (oldest_unread_at IS NULL) FROM agentq.v_event_consumer";
    assert_eq!(s.texts(lag), ["react 0 true"]);
    emit(&mut s, "k", json!({}), json!({}));
    s.call("fn_engine_tick('seal_events')");
    assert_eq!(s.texts(lag), ["react 1 false"]);
}

#[test]
fn the_gate_answers_for_a_template_without_steps() {
    let db = database();
    let mut s = db.session();
    assert_eq!(s.call(r#"fn_proposal_gate('{"title": "Test", "steps": []}')"#)["code"], "passed");
    policy(&mut s, "proposal_caps", json!({"daily_limit": 0}));
    let stopped = s.call(r#"fn_proposal_gate('{"title": "Test", "steps": []}')"#);
    assert_eq!((&stopped["code"], &stopped["gate"]), (&json!("rejected"), &json!("daily_limit")));
}
