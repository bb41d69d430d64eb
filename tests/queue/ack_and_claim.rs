//! Ack and the next claim in one call.

use agentq_tests::{Session, Value, claimed, database, expect, id, json, refused, text};

fn next(s: &mut Session, job: &Value) -> Value {
    s.call(&format!("fn_job_ack_and_claim('{}', 'bob', p_lease_token => '{}')", id(job), text(job, "lease_token")))
}

#[test]
fn a_worker_goes_through_the_queue_with_one_call_per_job() {
    let db = database();
    let mut s = db.session();
    let jobs: Vec<String> = (0..3).map(|_| s.enqueue("x")).collect();
    let mut answer = s.call("fn_job_ack_and_claim(NULL, 'bob')");
    assert_eq!(answer["ack"], Value::Null);
    for job in &jobs {
        assert_eq!(answer["code"], "claimed");
        assert_eq!((text(&answer["job"], "job_id"), text(&answer["job"], "code")), (job.clone(), "claimed".to_owned()));
        let held = answer["job"].clone();
        answer = next(&mut s, &held);
        assert_eq!(answer["ack"]["code"], "succeeded");
        assert_eq!(text(&answer["ack"], "job_id"), *job);
    }
    assert_eq!(
        (answer["code"].clone(), answer["job"].clone(), answer["ok"].clone()),
        (json!("empty"), Value::Null, json!(true))
    );
    assert_eq!(s.count("agentq.job_queue WHERE state = 'succeeded'"), 3);
    db.assert_sound();
}

#[test]
fn the_result_the_kind_the_lease_and_the_options_count_as_in_the_single_calls() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let first = s.enqueue("x");
    s.call(r#"fn_job_enqueue('y', p_options => '{"queue": "mail"}')"#);
    s.enqueue("z");
    claimed(&mut s, "bob");
    let answer = s.call(&format!(
        r#"fn_job_ack_and_claim('{first}', 'bob', '{{"n": 1}}', p_job_kind => 'y', p_lease_seconds => 7,
            p_options => '{{"queues": ["mail"]}}')"#
    ));
    assert_eq!((text(&answer["job"], "job_kind"), text(&answer["job"], "queue")), ("y".to_owned(), "mail".to_owned()));
    assert_eq!(s.count("agentq.job_queue WHERE job_kind = 'y' AND lease_until - picked_at = '7 s'"), 1);
    assert_eq!(s.call(&format!("fn_job_get('{first}')"))["job"]["result"], json!({"n": 1}));
}

#[test]
fn an_ack_that_comes_too_late_does_not_keep_the_next_job_back() {
    let db = database();
    let mut s = db.session();
    let (first, second) = (s.enqueue("x"), s.enqueue("x"));
    let held = claimed(&mut s, "bob");
    s.call(&format!("fn_job_release('{first}', 'bob')"));
    expect(&mut s, "claimed", "fn_job_claim('eve')");
    let answer = next(&mut s, &held);
    assert_eq!((answer["ack"]["code"].clone(), answer["ack"]["ok"].clone()), (json!("lease_lost"), json!(false)));
    assert_eq!(text(&answer["job"], "job_id"), second);
    assert_eq!(s.count("agentq.job_queue WHERE state = 'leased'"), 2);
    db.assert_sound();
}

#[test]
fn a_call_that_is_refused_has_acked_nothing() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    let statement =
        format!(r#"SELECT agentq.fn_job_ack_and_claim('{job}', 'bob', p_options => '{{"queues": ["no"]}}')"#);
    refused(&mut s, &statement, "22023", "there is no queue \"no\"", "fn_queue_set");
    assert_eq!(s.count("agentq.job_queue WHERE state = 'leased'"), 1);
    s.run("BEGIN");
    assert_eq!(s.call(&format!("fn_job_ack_and_claim('{job}', 'bob')"))["ack"]["code"], "succeeded");
    s.run("ROLLBACK");
    assert_eq!(s.count("agentq.job_queue WHERE state = 'leased'"), 1);
    db.assert_sound();
}

#[test]
fn many_are_acked_and_claimed_in_one_call() {
    let db = database();
    let mut s = db.session();
    let jobs: Vec<String> = (0..5).map(|_| s.enqueue("x")).collect();
    let first = s.call("fn_job_ack_and_claim_batch('bob', NULL, 2)");
    assert_eq!((first["ack"].clone(), first["count"].clone()), (Value::Null, json!(2)));
    let acks: Vec<Value> = first["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| json!({"job_id": job["job_id"], "lease_token": job["lease_token"]}))
        .collect();
    let then = s.json("SELECT agentq.fn_job_ack_and_claim_batch('bob', $1, 10)", &[&json!(acks)]);
    assert_eq!((then["ack"]["acked"].clone(), then["code"].clone()), (json!(2), json!("claimed")));
    let claimed: Vec<String> = then["jobs"].as_array().expect("jobs").iter().map(id).collect();
    assert_eq!(claimed, jobs[2..]);
    let last = s.json("SELECT agentq.fn_job_ack_and_claim_batch('bob', $1, 10)", &[&json!(claimed)]);
    assert_eq!(
        (last["ack"]["acked"].clone(), last["code"].clone(), last["jobs"].clone()),
        (json!(3), json!("empty"), json!([]))
    );
    let again = s.json("SELECT agentq.fn_job_ack_and_claim_batch('bob', $1, 10)", &[&json!(claimed)]);
    assert_eq!((again["ack"]["acked"].clone(), again["ack"]["lease_lost"].clone()), (json!(0), json!(3)));
    db.assert_sound();
}

#[test]
fn a_paused_queue_is_named_and_a_closed_gate_does_neither_part() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    s.enqueue("x");
    s.call("fn_queue_pause('default')");
    s.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    let closed = s.call(&format!("fn_job_ack_and_claim('{job}', 'bob')"));
    assert_eq!(closed["code"], "gate_closed");
    s.call("fn_config_set('queue.job_substrate.enabled', 'true')");
    let answer = s.call(&format!("fn_job_ack_and_claim('{job}', 'bob')"));
    assert_eq!((answer["ack"]["code"].clone(), answer["code"].clone()), (json!("succeeded"), json!("empty")));
    assert_eq!(answer["paused"], json!(["default"]));
}
