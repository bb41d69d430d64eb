//! A trace and a correlation go from the event to the proposal, to the mission, to the job, to its worker, and to every event
//! that any of them causes.

use crate::loops::{approve_all, emit, pattern, policy, propose, template, tick};
use agentq_tests::{Session, Value, database, expect, id, json, text};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Kinds of the events of agentq's own that have this trace, this correlation, this command and this mission.
fn traced(s: &mut Session, trace: &str, correlation: &str, command: &str, mission: &str) -> Vec<String> {
    s.texts(&format!(
        "SELECT event_kind FROM agentq.event WHERE trace_id = '{trace}' AND correlation_id = '{correlation}'
         AND command_id = '{command}' AND mission_id = '{mission}' AND origin = 'agentq' ORDER BY event_id"
    ))
}

#[test]
fn a_trace_goes_from_an_event_to_all_that_it_causes() {
    let db = database();
    let mut s = db.session();
    approve_all(&mut s, &["noop", "inner"]);
    let inner = json!({"title": "t", "steps": [{"name": "in", "mission": {"steps": [{"name": "x", "kind": "inner"}]}},
        {"name": "after", "kind": "noop", "depends_on": ["in"]}]});
    policy(&mut s, "reaction_matrix", json!([pattern("p", "order.paid", json!({"template": inner}))]));
    emit(&mut s, "order.paid", json!({}), json!({"trace_id": "trace 7", "correlation_id": "order 9"}));
    tick(&mut s);
    let proposal = s.json("SELECT to_jsonb(p) FROM agentq.v_proposal p", &[]);
    assert_eq!((&proposal["trace_id"], &proposal["correlation_id"]), (&json!("trace 7"), &json!("order 9")));
    assert_eq!(proposal["state"], "auto_approved");
    let (command, mission) = (text(&proposal, "proposal_id"), text(&proposal, "mission_id"));
    let missions = s.texts("SELECT concat_ws(' ', trace_id, correlation_id, command_id) FROM agentq.v_mission");
    assert_eq!(missions, vec![format!("trace 7 order 9 {command}"); 2], "the mission inside has them, too");
    let held = expect(&mut s, "claimed", "fn_job_claim('bob', 'inner')");
    assert_eq!(
        (&held["trace_id"], &held["correlation_id"], &held["command_id"]),
        (&json!("trace 7"), &json!("order 9"), &json!(command))
    );
    assert_eq!(s.text("SELECT state FROM agentq.v_proposal"), "running");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&held)));
    // The job that the end of the mission inside has begun.
    let held = expect(&mut s, "claimed", "fn_job_claim('bob', 'noop')");
    assert_eq!((&held["trace_id"], &held["correlation_id"]), (&json!("trace 7"), &json!("order 9")));
    s.call(&format!("fn_job_move_to_dead_letter('{}', 'no', 'ann')", id(&held)));
    let told = traced(&mut s, "trace 7", "order 9", &command, &mission);
    assert_eq!(
        told,
        [
            "mission.started",
            "proposal.auto_approved",
            "step.succeeded",
            "step.failed",
            "mission.failed",
            "job.dead_lettered"
        ]
    );
    // Redriven, it is the same trace.
    let letter = s.text("SELECT dead_letter_id FROM agentq.job_dead_letter");
    s.call(&format!("fn_dead_letter_redrive('{letter}')"));
    let again = expect(&mut s, "claimed", "fn_job_claim('bob', 'noop')");
    assert_eq!((&again["trace_id"], &again["correlation_id"]), (&json!("trace 7"), &json!("order 9")));
    assert_eq!(
        s.text("SELECT trace_id || ' ' || correlation_id FROM agentq.event WHERE event_kind = 'job.redriven'"),
        "trace 7 order 9"
    );
    db.assert_sound();
}

#[test]
fn a_traceparent_is_handed_to_the_worker_whole() {
    let db = database();
    let mut s = db.session();
    approve_all(&mut s, &["k"]);
    let given = json!({"traceparent": PARENT, "correlation_id": "c"});
    let claim = |s: &mut Session| expect(s, "claimed", "fn_job_claim('bob', 'k')");
    let check = |held: &Value| {
        assert_eq!(
            (&held["trace_id"], &held["traceparent"], &held["correlation_id"]),
            (&json!(TRACE), &json!(PARENT), &json!("c")),
            "{held}"
        );
    };
    s.call(&format!("fn_job_enqueue('k', p_options => '{given}')"));
    check(&claim(&mut s));
    s.call(&format!(r#"fn_job_enqueue_batch('[{{"job_kind": "k", "trace_id": "{PARENT}", "correlation_id": "c"}}]')"#));
    check(&claim(&mut s));
    s.call(&format!("fn_mission_start('{}', '{given}')", template(&["k"])));
    check(&claim(&mut s));
    s.json("SELECT agentq.fn_proposal_create('key', 'api', $1, $2)", &[&template(&["k"]), &given]);
    check(&claim(&mut s));
    // One that a person approves later has kept it.
    policy(&mut s, "auto_approve", json!({"enabled": false}));
    let waits = s.json("SELECT agentq.fn_proposal_create('later', 'api', $1, $2)", &[&template(&["k"]), &given]);
    s.call(&format!("fn_proposal_approve('{}')", text(&waits, "proposal_id")));
    check(&claim(&mut s));
    // Without one there is none.
    propose(&mut s, "pending", "plain", "api", &template(&["k"]));
    s.call("fn_job_enqueue('k')");
    let held = claim(&mut s);
    assert!(held.get("trace_id").is_none() && held.get("correlation_id").is_none(), "{held}");
    db.assert_sound();
}

#[test]
fn an_expired_lease_is_told_with_the_trace_of_its_job() {
    let db = database();
    let mut s = db.session();
    s.call(r#"fn_job_enqueue('k', p_options => '{"trace_id": "t"}')"#);
    let held = expect(&mut s, "claimed", "fn_job_claim('bob', 'k', 5)");
    assert_eq!((&held["lease_seconds"], held["claimed_at"].is_string()), (&json!(5), true));
    s.shift_clock(10);
    expect(&mut s, "claimed", "fn_job_claim('ann', 'k')");
    let told = s.json("SELECT to_jsonb(e) FROM agentq.event e WHERE event_kind = 'job.lease_expired'", &[]);
    assert_eq!(
        (&told["trace_id"], &told["target_id"], &told["origin"]),
        (&json!("t"), &held["job_id"], &json!("agentq"))
    );
    assert_eq!(
        (&told["payload"]["lease_owner"], &told["payload"]["error_class"]),
        (&json!("bob"), &json!("lease_expired"))
    );
}

#[test]
fn what_people_do_to_a_mission_is_audited_with_who_did_it() {
    let db = database();
    let mut s = db.session();
    let role = format!("operator of {}", db.name);
    s.run(&format!("CREATE ROLE \"{role}\" LOGIN"));
    s.call(&format!("fn_access_grant('{role}', 'operator')"));
    let mut operator = db.session_of(&role);
    let mission = text(&s.call(&format!("fn_mission_start('{}')", template(&["k"]))), "mission_id");
    let held = expect(&mut s, "claimed", "fn_job_claim('bob', 'k')");
    for call in ["pause", "resume", "cancel"] {
        operator.call(&format!("fn_mission_{call}('{mission}')"));
    }
    // The holder's last word ends it, and the operator has cancelled it all the same.
    s.call(&format!("fn_job_release('{}', 'bob')", id(&held)));
    let told = s.texts("SELECT concat_ws(' ', event_kind, purpose, actor) FROM agentq.event WHERE event_kind LIKE 'mission.%' AND purpose = 'audit' ORDER BY event_id");
    let expected = ["paused", "resumed", "cancelled"].map(|what| format!("mission.{what} audit {role}"));
    assert_eq!(told, expected);
    s.run(&format!("DROP OWNED BY \"{role}\""));
}
