//! What is refused, and how: the place in the template, the SQLSTATE, a hint.

use super::{start, status, template};
use agentq_tests::{database, json, refused};

#[test]
fn a_template_that_cannot_run_is_refused_with_the_place_in_its_json() {
    let db = database();
    let mut s = db.session();
    let step =
        |more: &str| format!("{{\"steps\": [{{\"name\": \"a\", \"kind\": \"k\"}}, {{\"kind\": \"k\" {more}}}]}}");
    for (text, message, hint) in [
        ("[]".to_owned(), "a template must be a JSON object", "steps"),
        (step(", \"depends_on\": [\"drft\"]"), "steps[1].depends_on[0]: there is no step \"drft\"", "The steps are: a, step_2."),
        (step(", \"depnds_on\": []"), "steps[1] has the unknown key \"depnds_on\"", "depends_on"),
        (step(", \"depends_on\": [\"a\"], \"when\": \"$.a >> 1\""), "steps[1].when: \"$.a >> 1\" is not an SQL/JSON path", "$.draft"),
        (step(", \"when\": \"$.a.x > 1\""), "steps[1]: it reads the result of \"a\"", "depends_on"),
        (step(", \"depends_on\": [\"a\"], \"for_each\": \"$.a[\""), "steps[1].for_each: \"$.a[\" is not an SQL/JSON path", ""),
        (step(", \"depends_on\": [\"a\"], \"params\": {\"x\": [{\"$from\": \"$.b.c\"}]}"), "steps[1].params.x[0].$from: there is no step \"b\"", ""),
        (step(", \"params\": {\"password\": 1}"), "steps[1].params: ", ""),
        (step(", \"queue\": \"nowhere\""), "steps[1].queue: there is no queue \"nowhere\"", "fn_queue_set"),
        (step(", \"mission\": {\"steps\": [{}]}"), "steps[1].mission.steps[0].kind: the step has no kind", ""),
        ("{\"steps\": [{\"name\": \"a\", \"kind\": \"k\", \"depends_on\": [\"b\"]}, {\"name\": \"b\", \"kind\": \"k\", \"depends_on\": [\"a\"]}]}".to_owned(),
            "these steps wait for each other", "Leave out"),
    ] {
        refused(&mut s, &format!("SELECT agentq.fn_mission_start($m${text}$m$)"), "22023", message, hint);
    }
    assert_eq!(s.count("agentq.mission"), 0);
    db.assert_sound();
}

#[test]
fn wrong_arguments_say_what_is_wrong() {
    let db = database();
    let mut s = db.session();
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &["a"])]), "");
    let none = "01900000-0000-7000-8000-000000000000";
    let one = json!({"steps": [{"kind": "k"}]});
    for (call, code, message, hint) in [
        ("fn_mission_start(NULL)".to_owned(), "22004", "p_template must not be NULL", ""),
        (format!("fn_mission_start('{one}', '{{\"titel\": 1}}')"), "22023", "unknown key \"titel\"", "idempotency_key"),
        (
            format!("fn_mission_start('{one}', '{{\"title\": 1}}')"),
            "22023",
            "p_options.title must be a text, not 1",
            "leave it out",
        ),
        (
            format!("fn_mission_start('{one}', '{{\"paused\": 1}}')"),
            "22023",
            "p_options.paused must be true or false",
            "",
        ),
        (format!("fn_mission_start('{one}', '{{\"timeout_seconds\": -1}}')"), "22023", "p_options.timeout_seconds", ""),
        (format!("fn_mission_cancel('{none}')"), "P0002", "there is no mission", "fn_mission_start"),
        (
            format!("fn_mission_cancel('{mission}', p_mode => 'hard')"),
            "22023",
            "p_mode \"hard\" is not known",
            "graceful",
        ),
        (format!("fn_mission_pause('{none}')"), "P0002", "there is no mission", ""),
        (format!("fn_mission_resume('{none}')"), "P0002", "there is no mission", ""),
        (format!("fn_mission_get('{none}')"), "P0002", "there is no mission", ""),
        (format!("fn_mission_explain('{none}')"), "P0002", "there is no mission", ""),
        (format!("fn_mission_graph('{none}')"), "P0002", "there is no mission", ""),
        (
            format!("fn_mission_graph('{mission}', 'svg')"),
            "22023",
            "p_format \"svg\" is not known",
            "mermaid, graphviz",
        ),
        (format!("fn_mission_fork('{none}', 'a')"), "P0002", "there is no mission", ""),
        (format!("fn_mission_fork('{mission}', 'x')"), "22023", "there is no step \"x\"", "v_mission_step"),
        (format!("fn_mission_fork('{mission}', 'a')"), "55000", "step \"a\" of mission", "Wait"),
        (
            format!("fn_mission_fork('{mission}', 'a', '{{\"params\": {{\"z\": {{}}}}}}')"),
            "22023",
            "there is no step \"z\"",
            "",
        ),
        ("fn_mission_cancel(NULL)".to_owned(), "22004", "p_mission must not be NULL", ""),
    ] {
        refused(&mut s, &format!("SELECT agentq.{call}"), code, message, hint);
    }
    assert_eq!(status(&mut s, &mission), "running");
    s.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    assert_eq!(s.call(&format!("fn_mission_start('{one}')"))["code"], "gate_closed");
    db.assert_sound();
}

#[test]
fn impossible_rows_cannot_be_stored() {
    let db = database();
    let mut s = db.session();
    start(&mut s, &template(&[("a", &[])]), "");
    for (statement, constraint) in [
        ("UPDATE agentq.mission SET status = 'succeeded'", "mission_completed_check"),
        ("UPDATE agentq.mission SET status = 'approved'", "mission_started_check"),
        ("UPDATE agentq.mission SET status = 'failed', completed_at = now()", "mission_failed_check"),
        ("UPDATE agentq_internal.mission_step SET status = 'running'", "mission_step_status"),
        ("UPDATE agentq_internal.mission_step SET pending = -1", "mission_number"),
        ("UPDATE agentq_internal.mission_count SET active = -1", "mission_number"),
        ("UPDATE agentq_internal.mission_count SET state = 'slow'", "mission_count_state"),
    ] {
        let failure = s.fails(statement);
        assert_eq!(failure.code, "23514", "{statement}: {failure:?}");
        assert!(failure.message.contains(constraint), "{statement}: {failure:?}");
    }
    db.assert_sound();
}

#[test]
fn a_mission_whose_steps_need_an_idempotency_key_needs_one_itself() {
    let db = database();
    let mut s = db.session();
    s.call("fn_retry_policy_set('kind', 'pay', '{\"requires_idempotency_key\": true}')");
    let text = json!({"steps": [{"name": "a", "kind": "k"}, {"name": "p", "kind": "pay"}]});
    let call = format!("SELECT agentq.fn_mission_start('{text}')");
    refused(&mut s, &call, "22023", "steps[1]: jobs of the kind \"pay\" need an idempotency key", "idempotency_key");
    let first = start(&mut s, &text, ", '{\"idempotency_key\": \"bill 7\"}'");
    let again = s.call(&format!("fn_mission_start('{text}', '{{\"idempotency_key\": \"bill 7\"}}')"));
    assert_eq!((again["code"].as_str(), again["mission_id"].as_str()), (Some("duplicate"), Some(first.as_str())));
    // A proposal has its own key, or none.
    let call = format!("SELECT agentq.fn_proposal_create(NULL, 'api', '{text}')");
    refused(&mut s, &call, "22023", "steps[1]: jobs of the kind \"pay\"", "idempotency_key");
    s.call(&format!("fn_proposal_create('bill 8', 'api', '{text}')"));
}
