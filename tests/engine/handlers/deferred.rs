//! What is written down now and done later: with whose rights. A job carries no rights; whoever made it,
//! by whichever way, its handler runs as the handler's role. A gate's hook runs as its own role.

use super::{register, with_role};
use agentq_tests::engine::{database, hurry};
use agentq_tests::{Database, Session, eventually, expect};

/// A session of a role of this database with a level.
fn with_level(db: &Database<'_>, level: &str) -> (String, Session) {
    let role = format!("{level} of {}", db.name);
    let session = db.session_of(&role);
    db.session().json("SELECT agentq.fn_access_grant($1, $2)", &[&role, &level]);
    (role, session)
}

#[test]
fn whoever_makes_a_job_and_however_its_handler_runs_as_the_handlers_role() {
    let db = database();
    let (mut s, role) = with_role(&db);
    let (_, mut producer) = with_level(&db, "producer");
    let (_, mut operator) = with_level(&db, "operator");
    let sql = "INSERT INTO seen VALUES (current_user, $1->'payload_json'->>'way', $1) RETURNING 'done'";
    for kind in ["who", "undo"] {
        register(&mut s, kind, sql, &role, "{}");
    }
    for chore in ["run_schedules", "react", "propose"] {
        hurry(&mut s, chore);
    }
    let step = |way: &str| format!(r#"{{"steps": [{{"name": "a", "kind": "who", "params": {{"way": "{way}"}}}}]}}"#);
    // By hand, by a schedule, by a mission.
    expect(&mut producer, "enqueued", r#"fn_job_enqueue('who', p_payload_json => '{"way": "hand"}')"#);
    let job = r#"{"job_kind": "who", "payload_json": {"way": "schedule"}}"#;
    expect(&mut operator, "created", &format!("fn_schedule_set('s', '@every 1s', '{job}', p_overlap => false)"));
    expect(&mut producer, "started", &format!("fn_mission_start('{}')", step("mission")));
    // By a proposal that a person approves, and by an event whose proposal the policy approves.
    let proposal =
        expect(&mut producer, "pending", &format!("fn_proposal_create(NULL, 'api', '{}')", step("approved")));
    let proposal = proposal["proposal_id"].as_str().expect("an id").to_owned();
    assert_eq!(producer.fails(&format!("SELECT agentq.fn_proposal_approve('{proposal}')")).code, "42501");
    expect(&mut operator, "approved", &format!("fn_proposal_approve('{proposal}')"));
    let matrix = format!(r#"[{{"id": "p", "type": "asked", "template": {}}}]"#, step("reaction"));
    expect(&mut operator, "set", &format!("fn_policy_set('reaction_matrix', '{matrix}')"));
    let rule = r#"{"enabled": true, "allowed_step_kinds": ["who"]}"#;
    expect(&mut operator, "set", &format!("fn_policy_set('auto_approve', '{rule}')"));
    expect(&mut producer, "emitted", "fn_event_emit('asked', 'x')");
    // By a compensation.
    expect(&mut operator, "set", r#"fn_effect_operation_set('book', '{"produces": ["room"]}')"#);
    let undo = r#"{"of": "book", "produces": ["room.cancel"], "job_kind": "undo"}"#;
    expect(&mut operator, "set", &format!("fn_effect_compensation_set('unbook', '{undo}')"));
    expect(&mut producer, "enqueued", "fn_job_enqueue('book')");
    let held = expect(&mut operator, "claimed", "fn_job_claim('w', 'book')");
    let held = held["job_id"].as_str().expect("an id").to_owned();
    let plan = format!(r#"fn_effect_plan('{held}', 'w', '[{{"effect_type": "room"}}]')"#);
    let planned = expect(&mut operator, "planned", &plan);
    let effect = planned["effects"][0]["effect_id"].as_str().expect("an id").to_owned();
    expect(&mut operator, "run", &format!("fn_effect_begin('{effect}', 'w')"));
    expect(&mut operator, "succeeded", &format!("fn_effect_finish('{effect}', 'w')"));
    expect(&mut operator, "succeeded", &format!("fn_job_ack('{held}', 'w')"));
    expect(&mut operator, "compensating", &format!("fn_effect_compensate('{held}')"));
    // By a replay.
    eventually("the first has run", || s.count("seen WHERE session = 'hand'") == 1);
    let done = s.text("SELECT job->>'job_id' FROM seen WHERE session = 'hand'");
    eventually("its end is written", || s.state(&done) == "succeeded");
    expect(&mut operator, "replayed", &format!("fn_job_replay('{done}')"));

    eventually("the replay has run", || s.count("seen WHERE session = 'hand'") == 2);
    for way in ["schedule", "mission", "approved", "reaction"] {
        eventually(way, || s.count(&format!("seen WHERE session = '{way}'")) > 0);
    }
    eventually("the compensation has run", || s.count("seen WHERE job->>'job_kind' = 'undo'") == 1);
    assert_eq!(s.texts("SELECT DISTINCT who FROM seen"), [role]);
    operator.call("fn_schedule_remove('s')");
    db.assert_sound();
}

#[test]
fn a_gates_hook_runs_as_its_role_in_the_engine_too() {
    let db = database();
    let (mut s, _) = with_role(&db);
    let (operator_role, mut operator) = with_level(&db, "operator");
    s.run(&format!("GRANT CREATE ON DATABASE {} TO \"{operator_role}\"", db.name));
    for chore in ["react", "propose"] {
        hurry(&mut s, chore);
    }
    operator.run(
        "CREATE SCHEMA gate;
         CREATE TABLE gate.asked (who text, of text);
         CREATE FUNCTION gate.keep(template jsonb, source text) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO gate.asked VALUES (current_user, source); RETURN true; END $$",
    );
    expect(&mut operator, "set", r#"fn_policy_set('proposal_caps', '{"hook": {"function": "gate.keep"}}')"#);
    let template = r#"{"steps": [{"name": "a", "kind": "a"}]}"#;
    let matrix = format!(r#"[{{"id": "p", "type": "asked", "template": {template}}}]"#);
    expect(&mut operator, "set", &format!("fn_policy_set('reaction_matrix', '{matrix}')"));
    let (_, mut producer) = with_level(&db, "producer");
    expect(&mut producer, "emitted", "fn_event_emit('asked', 'x')");
    expect(&mut producer, "pending", &format!("fn_proposal_create(NULL, 'api', '{template}')"));
    eventually("the engine has asked", || s.count("gate.asked WHERE of = 'reaction'") == 1);
    assert_eq!(s.texts("SELECT DISTINCT who FROM gate.asked"), [operator_role]);
    assert_eq!(s.count("gate.asked"), 2);
}
