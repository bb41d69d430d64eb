//! Finished jobs run once more.

use agentq_tests::{Session, claimed, database, expect, id, json, refused};

/// A job that has succeeded with this checkpoint; returns its id.
#[track_caller]
fn done(s: &mut Session, more: &str, checkpoint: &str) -> String {
    let job = id(&s.call(&format!("fn_job_enqueue('x'{more})")));
    claimed(s, "bob");
    if !checkpoint.is_empty() {
        expect(s, "extended", &format!("fn_job_heartbeat('{job}', 'bob', p_checkpoint => '{checkpoint}')"));
    }
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    job
}

const STEPS: &str = r#"{"completed_steps": ["search", "pay", "mail"], "non_idempotent_steps": ["pay"], "intermediate_state": {"n": 1}}"#;

#[test]
fn a_replay_is_a_new_job_that_counts() {
    let db = database();
    let mut s = db.session();
    let job = done(&mut s, ", 'key', p_payload_json => '{\"a\": 1}', p_priority => 3", "");
    let answer = expect(&mut s, "replayed", &format!("fn_job_replay('{job}')"));
    assert_eq!((answer["replay_of"].clone(), answer["replays"].clone()), (json!(job), json!(1)));
    let again = claimed(&mut s, "bob");
    assert_eq!(id(&again), id(&answer));
    assert_eq!((again["payload_json"].clone(), again["priority"].clone()), (json!({"a": 1}), json!(3)));
    assert_eq!((again["idempotency_key"].clone(), again["checkpoint"].clone()), (json!("key"), json!(null)));
    // Its key is in use now.
    assert_eq!(s.call(&format!("fn_job_replay('{job}')"))["code"], "duplicate");
    let sql = format!("SELECT agentq.fn_job_replay('{}')", id(&again));
    refused(&mut s, &sql, "55000", "only a finished job can be replayed", "Wait until");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&again)));
    // A replay of a replay, or of the first, is the next of the same work.
    assert_eq!(expect(&mut s, "replayed", &format!("fn_job_replay('{job}')"))["replays"], json!(2));
    let kinds = "SELECT event_kind FROM agentq.event WHERE event_kind LIKE 'job.replay%' ORDER BY event_id";
    assert_eq!(s.texts(kinds), ["job.replayed", "job.replayed"]);
    let sql = "SELECT agentq.fn_job_replay('00000000-0000-4000-8000-000000000001')";
    refused(&mut s, sql, "P0002", "there is no job", "");
    db.assert_sound();
}

#[test]
fn a_replay_begins_where_it_is_told() {
    let db = database();
    let mut s = db.session();
    let job = done(&mut s, "", STEPS);
    // From the beginning it would pay twice.
    let answer = s.call(&format!("fn_job_replay('{job}')"));
    assert_eq!(
        (answer["code"].clone(), answer["ok"].clone(), answer["steps"].clone()),
        (json!("not_idempotent"), json!(false), json!(["pay"]))
    );
    assert_eq!(s.count("agentq_internal.job"), 1);
    let allowed = format!("fn_job_replay('{job}', p_options => '{{\"allow_non_idempotent\": true}}')");
    expect(&mut s, "replayed", &allowed);
    assert_eq!(claimed(&mut s, "bob")["checkpoint"], json!(null));
    // From the last checkpoint, everything that was done stays done.
    expect(&mut s, "replayed", &format!("fn_job_replay('{job}', 'last_checkpoint')"));
    let steps: agentq_tests::Value = serde_json::from_str(STEPS).expect("JSON");
    assert_eq!(claimed(&mut s, "bob")["checkpoint"], steps);
    // From a step, what came before it.
    expect(&mut s, "replayed", &format!("fn_job_replay('{job}', 'specific_step', 'mail')"));
    let checkpoint = claimed(&mut s, "bob")["checkpoint"].clone();
    assert_eq!(
        (checkpoint["completed_steps"].clone(), checkpoint["step_index"].clone()),
        (json!(["search", "pay"]), json!(2))
    );
    assert_eq!(checkpoint["intermediate_state"], json!({"n": 1}));
    assert_eq!(s.call(&format!("fn_job_replay('{job}', 'specific_step', 'pay')"))["code"], "not_idempotent");
    for (arguments, message) in [
        ("'specific_step', 'fly'", "does not say that the step \"fly\" was done"),
        ("'specific_step'", "needs its name in p_step"),
        ("'beginning', 'pay'", "p_step is \"pay\""),
        ("'middle'", "cannot be from \"middle\""),
        ("p_options => '{\"force\": true}'", "unknown key \"force\""),
        ("p_options => '{\"require_approval\": 1}'", "must be true or false"),
    ] {
        refused(&mut s, &format!("SELECT agentq.fn_job_replay('{job}', {arguments})"), "22023", message, "");
    }
}

#[test]
fn a_job_with_external_effects_is_not_replayed_blindly() {
    let db = database();
    let mut s = db.session();
    let job = done(&mut s, ", p_options => '{\"external_effects\": true}'", "");
    assert_eq!(s.call(&format!("fn_job_replay('{job}')"))["code"], "not_idempotent");
    let allowed = format!("fn_job_replay('{job}', p_options => '{{\"allow_non_idempotent\": true}}')");
    expect(&mut s, "replayed", &allowed);
}

#[test]
fn a_second_replay_may_need_an_approval() {
    let db = database();
    let mut s = db.session();
    let job = done(&mut s, "", "");
    let careful = format!("fn_job_replay('{job}', p_options => '{{\"require_approval\": true}}')");
    // The first one is free.
    expect(&mut s, "replayed", &careful);
    let answer = s.call(&careful);
    assert_eq!(
        (answer["code"].clone(), answer["ok"].clone(), answer["replays"].clone()),
        (json!("approval_required"), json!(false), json!(1))
    );
    assert_eq!(s.count(&format!("agentq.event WHERE event_kind = 'job.replay_requested' AND subject = '{job}'")), 1);
    assert_eq!(s.count("agentq_internal.job"), 2);
    // So does everybody, once the setting says so.
    expect(&mut s, "replayed", &format!("fn_job_replay('{job}')"));
    s.call("fn_config_set('queue.replay.require_approval', 'true')");
    assert_eq!(s.call(&format!("fn_job_replay('{job}')"))["code"], "approval_required");
    let approved = format!("fn_job_replay('{job}', p_options => '{{\"approved_by\": \"ann\"}}')");
    assert_eq!(expect(&mut s, "replayed", &approved)["replays"], json!(3));
    let by = "SELECT payload->>'approved_by' FROM agentq.event WHERE event_kind = 'job.replayed' ORDER BY event_id DESC LIMIT 1";
    assert_eq!(s.text(by), "ann");
}
