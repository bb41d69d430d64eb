//! Named queues: their defaults, and pausing them.

use agentq_tests::{Session, claimed, database, expect, id, json, refused};

fn enqueue_in(s: &mut Session, queue: &str) -> String {
    id(&s.call(&format!("fn_job_enqueue('x', p_options => '{{\"queue\": \"{queue}\"}}')")))
}

#[test]
fn a_queue_is_made_and_then_changed_by_the_same_call() {
    let db = database();
    let mut s = db.session();
    let answer = expect(&mut s, "created", "fn_queue_set('mail')");
    for field in ["lease_seconds", "max_attempts", "priority", "description"] {
        assert_eq!(answer[field], json!(null), "{field}");
    }
    assert_eq!((answer["queue"].clone(), answer["paused"].clone()), (json!("mail"), json!(false)));
    let answer = expect(
        &mut s,
        "updated",
        "fn_queue_set('mail', '{\"lease_seconds\": 60, \"max_attempts\": 2, \"priority\": 9, \"description\": \"letters\"}')",
    );
    assert_eq!(answer["lease_seconds"], json!(60));
    // What is not named stays, and null takes a default away.
    let answer = expect(&mut s, "updated", "fn_queue_set('mail', '{\"priority\": null}')");
    for (field, value) in [
        ("lease_seconds", json!(60)),
        ("max_attempts", json!(2)),
        ("priority", json!(null)),
        ("description", json!("letters")),
    ] {
        assert_eq!(answer[field], value, "{field}");
    }
    assert_eq!(s.texts("SELECT queue FROM agentq.queue ORDER BY queue"), ["default", "mail"]);
}

#[test]
fn the_defaults_of_a_queue_go_before_those_of_the_settings() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail', '{\"lease_seconds\": 60, \"max_attempts\": 2, \"priority\": 9}')");
    s.call("fn_config_set('queue.retry.max_attempts_default', '7')");
    s.call("fn_config_set('queue.lease.duration_sec', '42')");
    let in_mail = enqueue_in(&mut s, "mail");
    let in_default = s.enqueue("x");
    let both = s.call("fn_job_claim_batch('bob', 2, p_options => '{\"queues\": [\"default\", \"mail\"]}')");
    assert_eq!(both["count"], json!(2));
    let mut row = |job: &str| {
        s.text(&format!(
            "SELECT concat_ws(' ', priority, max_attempts, extract(epoch FROM lease_until - picked_at)::int)
             FROM agentq.job_queue WHERE job_id = '{job}'"
        ))
    };
    assert_eq!(row(&in_mail), "9 2 60");
    assert_eq!(row(&in_default), "100 7 42");
}

#[test]
fn what_a_call_says_goes_before_the_defaults_of_its_queue() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('default', '{\"lease_seconds\": 60, \"max_attempts\": 2, \"priority\": 9}')");
    s.call("fn_job_enqueue('x', p_priority => 1, p_max_attempts => 8)");
    let claim = expect(&mut s, "claimed", "fn_job_claim('bob', NULL, 11)");
    assert_eq!((claim["priority"].clone(), claim["max_attempts"].clone()), (json!(1), json!(8)));
    let lease = "SELECT extract(epoch FROM lease_until - picked_at)::int FROM agentq.job_queue";
    assert_eq!(s.text(lease), "11");
}

#[test]
fn a_heartbeat_without_a_length_extends_by_the_default_of_the_queue() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail', '{\"lease_seconds\": 7000}')");
    let job = enqueue_in(&mut s, "mail");
    s.call("fn_job_claim('bob', p_options => '{\"queues\": [\"mail\"]}')");
    s.shift_clock(5);
    expect(&mut s, "extended", &format!("fn_job_heartbeat('{job}', 'bob')"));
    let long = "SELECT lease_until - picked_at >= interval '7005 s' FROM agentq.job_queue";
    assert_eq!(s.text(long), "t");
}

#[test]
fn a_paused_queue_gives_out_no_jobs_until_it_is_resumed() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    let job = s.enqueue("x");
    // The worker has a copy of the settings by now.
    s.enqueue("y");
    claimed(&mut worker, "bob");
    let answer = expect(&mut s, "paused", "fn_queue_pause('default', 'the mail server is down')");
    assert_eq!(
        (answer["queue"].clone(), answer["paused_reason"].clone()),
        (json!("default"), json!("the mail server is down"))
    );
    assert_eq!(worker.claim("bob"), json!({"ok": true, "code": "empty", "paused": ["default"]}));
    let batch = expect(&mut worker, "empty", "fn_job_claim_batch('bob', 5)");
    assert_eq!((batch["paused"].clone(), batch["count"].clone()), (json!(["default"]), json!(0)));

    // Jobs may be put in, and what is held goes on.
    s.enqueue("z");
    expect(&mut worker, "extended", &format!("fn_job_heartbeat('{job}', 'bob')"));
    expect(&mut worker, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));

    expect(&mut s, "resumed", "fn_queue_resume('default')");
    assert_eq!(claimed(&mut worker, "bob")["job_kind"], "y");
    assert_eq!(claimed(&mut worker, "bob")["job_kind"], "z");
    db.assert_sound();
}

#[test]
fn a_claim_of_several_queues_passes_over_the_paused_ones() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    s.call("fn_queue_set('sms')");
    let mail = enqueue_in(&mut s, "mail");
    let sms = enqueue_in(&mut s, "sms");
    s.call("fn_queue_pause('mail')");
    let claim = "fn_job_claim('bob', p_options => '{\"queues\": [\"mail\", \"sms\"], \"kinds\": [\"x\", \"y\"]}')";
    assert_eq!(id(&expect(&mut s, "claimed", claim)), sms);
    assert_eq!(s.call(claim), json!({"ok": true, "code": "empty", "paused": ["mail"]}));
    s.call("fn_queue_resume('mail')");
    assert_eq!(id(&expect(&mut s, "claimed", claim)), mail);
}

#[test]
fn a_pause_can_be_repeated_and_keeps_its_beginning() {
    let db = database();
    let mut s = db.session();
    let first = expect(&mut s, "paused", "fn_queue_pause('default', 'one')");
    s.shift_clock(100);
    let second = expect(&mut s, "paused", "fn_queue_pause('default', 'two')");
    assert_eq!(first["paused_at"], second["paused_at"]);
    assert_eq!(second["paused_reason"], "two");
    assert_eq!(expect(&mut s, "updated", "fn_queue_set('default')")["paused"], json!(true));
    let resumed = expect(&mut s, "resumed", "fn_queue_resume('default')");
    assert_eq!((resumed["paused_at"].clone(), resumed["paused_reason"].clone()), (json!(null), json!(null)));
    expect(&mut s, "resumed", "fn_queue_resume('default')");
}

#[test]
fn a_pause_that_is_rolled_back_never_was() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    s.run("BEGIN");
    expect(&mut s, "paused", "fn_queue_pause('default')");
    assert_eq!(s.claim("bob")["code"], "empty");
    s.run("ROLLBACK");
    assert_eq!(id(&claimed(&mut s, "bob")), job);
}

#[test]
fn a_queue_can_be_made_and_used_in_one_transaction() {
    let db = database();
    let mut s = db.session();
    s.enqueue("x");
    s.run("BEGIN");
    s.call("fn_queue_set('mail')");
    let job = enqueue_in(&mut s, "mail");
    let claim = expect(&mut s, "claimed", "fn_job_claim('bob', p_options => '{\"queues\": [\"mail\"]}')");
    assert_eq!(id(&claim), job);
    s.run("ROLLBACK");
    let failure = s.fails("SELECT agentq.fn_job_enqueue('x', p_options => '{\"queue\": \"mail\"}')");
    assert!(failure.message.contains("there is no queue \"mail\""), "{failure:?}");
    db.assert_sound();
}

#[test]
fn a_queue_that_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    for (call, message, hint) in [
        ("fn_queue_set(' ')", "p_queue must not be empty", "visible character"),
        ("fn_queue_set(repeat('q', 201))", "201 bytes long", "short name"),
        (
            "fn_queue_set('q', '{\"lease_seconds\": 0}')",
            "lease_seconds must be a whole number from 1 to 86400, not 0",
            "fn_job_heartbeat",
        ),
        (
            "fn_queue_set('q', '{\"lease_seconds\": 86401}')",
            "lease_seconds must be a whole number from 1 to 86400, not 86401",
            "fn_job_heartbeat",
        ),
        ("fn_queue_set('q', '{\"lease_seconds\": \"60\"}')", "must be a whole number", "fn_job_heartbeat"),
        ("fn_queue_set('q', '{\"max_attempts\": 0}')", "max_attempts must be a whole number from 1", "no retry"),
        ("fn_queue_set('q', '{\"priority\": -5}')", "priority must be a whole number from 0", "smaller number"),
        ("fn_queue_set('q', '{\"paused\": true}')", "unknown key \"paused\"", "lease_seconds, max_attempts"),
        ("fn_queue_set('q', '[]')", "must be a JSON object", "It accepts: lease_seconds"),
        ("fn_queue_pause('q')", "there is no queue \"q\"", "fn_queue_set"),
        ("fn_queue_resume('q')", "there is no queue \"q\"", "The queues are: default"),
    ] {
        refused(&mut s, &format!("SELECT agentq.{call}"), "22023", message, hint);
    }
    for call in ["fn_queue_set(NULL)", "fn_queue_pause(NULL)", "fn_queue_resume(NULL)"] {
        let message = "p_queue must not be NULL";
        refused(&mut s, &format!("SELECT agentq.{call}"), "22004", message, "Give p_queue a value");
    }
}

#[test]
fn whether_claims_are_durable_is_said_and_taken_back() {
    let db = database();
    let mut s = db.session();
    let set = |s: &mut Session, value: &str| s.call(&format!("fn_queue_set('q', '{{\"durable_claims\": {value}}}')"));
    assert_eq!(set(&mut s, "false")["durable_claims"], json!(false));
    s.call("fn_queue_set('q', '{\"priority\": 3}')");
    assert_eq!(s.text("SELECT durable_claims FROM agentq.queue WHERE queue = 'q'"), "f");
    assert_eq!(set(&mut s, "null")["durable_claims"], json!(true));
    let call = "SELECT agentq.fn_queue_set('q', '{\"durable_claims\": \"no\"}')";
    refused(&mut s, call, "22023", "durable_claims must be true or false, not \"no\"", "crash");
}
