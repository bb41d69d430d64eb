//! Input that makes no sense: each is refused with a SQLSTATE, a message that shows the value and a
//! HINT, and writes nothing.

use agentq_tests::{Session, claimed, database, everything, expect, id, json, refused};

pub const DENIED_KEYS: [&str; 10] =
    ["body", "content", "raw", "vector", "embedding", "secret", "token", "password", "ssn", "personal_data"];

const NOBODY: &str = "11111111-2222-3333-4444-555555555555";

/// Each of these calls must be refused as an invalid value.
#[track_caller]
fn all_refused(s: &mut Session, calls: &[(&str, &str, &str)]) {
    for (call, message, hint) in calls {
        refused(s, &format!("SELECT agentq.{call}"), "22023", message, hint);
    }
}

#[test]
fn an_enqueue_that_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    all_refused(
        &mut s,
        &[
            ("fn_job_enqueue('')", "p_job_kind must not be empty or blank, but is \"\"", "visible character"),
            ("fn_job_enqueue(' ')", "p_job_kind must not be empty or blank", "visible character"),
            ("fn_job_enqueue(E'\\t\\n')", "p_job_kind must not be empty or blank", "visible character"),
            ("fn_job_enqueue(repeat('k', 201))", "p_job_kind is 201 bytes long, more than the 200", "short name"),
            ("fn_job_enqueue(repeat('é', 101))", "p_job_kind is 202 bytes long", "short name"),
            ("fn_job_enqueue('x', '')", "p_idempotency_key must not be empty", "visible character"),
            ("fn_job_enqueue('x', repeat('k', 1001))", "p_idempotency_key is 1001 bytes long", "short name"),
            (
                "fn_job_enqueue('x', p_actor => ' ')",
                "p_actor must not be empty or blank, but is \" \"",
                "visible character",
            ),
            ("fn_job_enqueue('x', p_actor => repeat('a', 201))", "p_actor is 201 bytes long", "short name"),
            ("fn_job_enqueue('x', p_priority => -1)", "priority must be 0 or more, but is -1", "0 is the most urgent"),
            ("fn_job_enqueue('x', p_max_attempts => 0)", "max_attempts must be 1 or more, but is 0", "no retry"),
            ("fn_job_enqueue('x', p_max_attempts => -3)", "max_attempts must be 1 or more, but is -3", "no retry"),
            ("fn_job_enqueue('x', p_scheduled_at => 'infinity')", "must be a moment, not infinity", "pause its queue"),
            ("fn_job_enqueue('x', p_scheduled_at => '-infinity')", "must be a moment, not infinity", "pause its queue"),
            (
                "fn_job_enqueue('x', p_options => '{\"queue\": \"nowhere\"}')",
                "there is no queue \"nowhere\"",
                "fn_queue_set",
            ),
            (
                "fn_job_enqueue('x', p_options => '{\"queue\": 5}')",
                "p_options.queue must be a text, not 5",
                "For example",
            ),
            ("fn_job_enqueue('x', p_options => '{\"delay\": 5}')", "unknown key \"delay\"", "It accepts: queue"),
            ("fn_job_enqueue('x', p_options => '[]')", "p_options must be a JSON object", "It accepts: queue"),
        ],
    );
    refused(
        &mut s,
        "SELECT agentq.fn_job_enqueue(NULL)",
        "22004",
        "p_job_kind must not be NULL",
        "Give p_job_kind a value",
    );
    db.assert_sound();
}

#[test]
fn a_payload_that_is_no_small_signal_is_refused() {
    let db = database();
    let mut s = db.session();
    for (payload, message, hint) in [
        ("'5'", "p_payload_json must be a JSON object, not a number", "Wrap the value"),
        ("'\"text\"'", "p_payload_json must be a JSON object, not a string", "Wrap the value"),
        ("'null'", "p_payload_json must be a JSON object, not null", "Wrap the value"),
        ("'[{}]'", "p_payload_json must be a JSON object, not an array", "Wrap the value"),
        ("jsonb_build_object('a', repeat('x', 10485760))", "more than the 262144 allowed", "queue.payload.max_bytes"),
    ] {
        let statement = format!("SELECT agentq.fn_job_enqueue('x', p_payload_json => {payload})");
        refused(&mut s, &statement, "22023", message, hint);
    }
    for key in DENIED_KEYS {
        let statement = format!("SELECT agentq.fn_job_enqueue('x', p_payload_json => '{{\"a\": 1, \"{key}\": null}}')");
        let message = format!("p_payload_json holds the key \"{key}\"");
        refused(&mut s, &statement, "22023", &message, "point at it with payload_ref");
    }
}

#[test]
fn a_denied_key_is_named_however_deep_the_rest_of_the_payload_is() {
    let db = database();
    let mut s = db.session();
    let statement = "SELECT agentq.fn_job_enqueue('x', p_payload_json =>
        ('{\"token\": 1, \"a\": ' || repeat('[', 500) || repeat(']', 500) || '}')::jsonb)";
    refused(&mut s, statement, "22023", "holds the key \"token\"", "payload_ref");
}

#[test]
fn a_batch_takes_every_payload_that_a_single_enqueue_takes() {
    let db = database();
    let mut s = db.session();
    // A number larger than any float, and more nesting than most parsers allow.
    for payload in [
        "'{\"n\": 1e400}'::jsonb",
        "('{\"a\": ' || repeat('[', 500) || repeat(']', 500) || '}')::jsonb",
        "'{\"n\": 12345678901234567890.123456789012345678901234567890}'::jsonb",
    ] {
        let single = id(&expect(&mut s, "enqueued", &format!("fn_job_enqueue('x', p_payload_json => {payload})")));
        let batch = format!(
            "fn_job_enqueue_batch(jsonb_build_array(jsonb_build_object('job_kind', 'x', 'payload_json', {payload})))"
        );
        let listed = id(&expect(&mut s, "enqueued", &batch)["jobs"][0]);
        let same = s.text(&format!(
            "SELECT count(DISTINCT payload_json) FROM agentq.job_queue WHERE job_id IN ('{single}', '{listed}')"
        ));
        assert_eq!(same, "1", "{payload}");
        assert_eq!(s.call("fn_job_claim_batch('bob', 2)->'count'"), json!(2), "{payload}");
    }
}

#[test]
fn a_text_with_a_nul_is_refused_by_the_server() {
    let db = database();
    let mut s = db.session();
    let before = everything(&mut s);
    let failure = s.fails("SELECT agentq.fn_job_enqueue('x', p_payload_json => '{\"a\": \"\\u0000\"}')");
    assert_eq!(failure.code, "22P05", "{failure:?}");
    for call in [
        "SELECT agentq.fn_job_enqueue($1)",
        "SELECT agentq.fn_job_enqueue('x', $1)",
        "SELECT agentq.fn_job_claim($1)",
        "SELECT agentq.fn_job_fail_or_retry(gen_random_uuid(), 'bob', $1)",
    ] {
        let error = s.0.query(call, &[&"a\0b"]).expect_err("a NUL is no text");
        assert_eq!(error.code().map(postgres_code), Some("22021".to_owned()), "{call}");
    }
    assert_eq!(everything(&mut s), before);
}

fn postgres_code(code: &postgres::error::SqlState) -> String {
    code.code().to_owned()
}

#[test]
fn a_claim_that_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    s.enqueue("x");
    all_refused(
        &mut s,
        &[
            ("fn_job_claim('')", "p_lease_owner must not be empty", "visible character"),
            ("fn_job_claim(repeat('o', 201))", "p_lease_owner is 201 bytes long", "short name"),
            ("fn_job_claim('bob', ' ')", "job kind must not be empty", "visible character"),
            ("fn_job_claim('bob', repeat('k', 201))", "p_job_kind is 201 bytes long", "short name"),
            ("fn_job_claim('bob', NULL, 0)", "from 1 to 86400 seconds, but 0", "fn_job_heartbeat"),
            ("fn_job_claim('bob', NULL, -1)", "from 1 to 86400 seconds, but -1", "fn_job_heartbeat"),
            ("fn_job_claim('bob', NULL, 315360000)", "from 1 to 86400 seconds, but 315360000", "fn_job_heartbeat"),
            (
                "fn_job_claim('bob', p_options => '{\"queue\": \"default\"}')",
                "unknown key \"queue\"",
                "It accepts: queues, kinds",
            ),
            (
                "fn_job_claim('bob', p_options => '{\"queues\": \"default\"}')",
                "must be a list of 1 to 100 names, not \"default\"",
                "For example",
            ),
            (
                "fn_job_claim('bob', p_options => '{\"queues\": []}')",
                "must be a list of 1 to 100 names, not []",
                "For example",
            ),
            (
                "fn_job_claim('bob', p_options => '{\"queues\": [5]}')",
                "p_options.queues[0] must be a text, not 5",
                "For example",
            ),
            (
                "fn_job_claim('bob', p_options => '{\"queues\": [\"nowhere\"]}')",
                "there is no queue \"nowhere\"",
                "The queues are: default",
            ),
            (
                "fn_job_claim('bob', p_options => '{\"kinds\": []}')",
                "must be a list of 1 to 100 names, not []",
                "For example",
            ),
            (
                "fn_job_claim('bob', p_options => '{\"kinds\": [\"\"]}')",
                "p_options.kinds[0] must not be empty",
                "visible character",
            ),
            ("fn_job_claim('bob', 'x', p_options => '{\"kinds\": [\"y\"]}')", "were both given", "in one place"),
            ("fn_job_claim('bob', p_options => '5')", "p_options must be a JSON object", "It accepts: queues"),
            ("fn_job_claim_batch('bob', 0)", "from 1 to 1000 jobs, but 0", "several calls"),
            ("fn_job_claim_batch('', 5)", "p_lease_owner must not be empty", "visible character"),
            ("fn_job_claim_batch('bob', 5, NULL, 0)", "from 1 to 86400 seconds, but 0", "fn_job_heartbeat"),
        ],
    );
    for (call, name) in [
        ("fn_job_claim(NULL)", "p_lease_owner"),
        ("fn_job_claim_batch(NULL, 5)", "p_lease_owner"),
        ("fn_job_claim_batch('bob', NULL)", "p_limit"),
    ] {
        refused(&mut s, &format!("SELECT agentq.{call}"), "22004", &format!("{name} must not be NULL"), name);
    }
}

#[test]
fn a_holders_call_that_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    let large = "jsonb_build_object('a', repeat('x', 10485760))";
    for (call, message, hint) in [
        (format!("fn_job_heartbeat('{job}', 'bob', 0)"), "from 1 to 86400 seconds, but 0", "Take a lease of minutes"),
        (format!("fn_job_heartbeat('{job}', 'bob', 315360000)"), "but 315360000", "Take a lease of minutes"),
        (format!("fn_job_heartbeat('{job}', 'bob', NULL, {large})"), "p_checkpoint is", "queue.checkpoint.max_bytes"),
        (format!("fn_job_ack('{job}', 'bob', {large})"), "p_result is", "queue.payload.max_bytes"),
        (
            format!(
                "fn_job_ack_batch('bob', jsonb_build_array(jsonb_build_object('job_id', '{job}', 'result', {large})))"
            ),
            "result is",
            "queue.payload.max_bytes",
        ),
        (format!("fn_job_ack_batch('bob', '\"{job}\"')"), "p_jobs must be a JSON array", "For example"),
        (
            format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', ' ')"),
            "p_error_class must not be empty",
            "visible character",
        ),
        (
            format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', repeat('c', 201))"),
            "p_error_class is 201 bytes",
            "short name",
        ),
        (format!("fn_job_snooze('{job}', 'bob', 'infinity')"), "must be a moment, not infinity", "pause its queue"),
        (format!("fn_job_move_to_dead_letter('{job}', ' ')"), "p_final_error must not be empty", "visible character"),
        (
            format!("fn_job_move_to_dead_letter('{job}', 'hopeless', '')"),
            "p_moved_by must not be empty",
            "visible character",
        ),
        ("fn_job_enqueue_batch('{}')".to_owned(), "p_jobs must be a JSON array", "For example"),
        (
            "fn_job_enqueue_batch('[]', '{\"all_or_nothing\": 1}')".to_owned(),
            "must be true or false, not 1",
            "For example",
        ),
        (
            "fn_job_enqueue_batch('[]', '{\"atomic\": true}')".to_owned(),
            "unknown key \"atomic\"",
            "It accepts: all_or_nothing",
        ),
        (
            "fn_job_enqueue_batch('[]', '[]')".to_owned(),
            "p_options must be a JSON object",
            "It accepts: all_or_nothing",
        ),
    ] {
        refused(&mut s, &format!("SELECT agentq.{call}"), "22023", message, hint);
    }
    assert_eq!(s.state(&job), "leased");
}

#[test]
fn an_unknown_job_is_an_error_with_a_hint() {
    let db = database();
    let mut s = db.session();
    for call in [
        "fn_job_get('$job')",
        "fn_job_start('$job', 'bob')",
        "fn_job_heartbeat('$job', 'bob')",
        "fn_job_ack('$job', 'bob')",
        "fn_job_fail_or_retry('$job', 'bob', 'boom')",
        "fn_job_release('$job', 'bob')",
        "fn_job_snooze('$job', 'bob', now())",
        "fn_job_cancel('$job')",
        "fn_job_change('$job', '{\"priority\": 1}')",
        "fn_job_move_to_dead_letter('$job', 'hopeless')",
    ] {
        let statement = format!("SELECT agentq.{}", call.replace("$job", NOBODY));
        let message = format!("there is no job {NOBODY}");
        refused(&mut s, &statement, "P0002", &message, "Use the job_id that agentq.fn_job_enqueue");
    }
}

#[test]
fn what_must_be_given_may_not_be_null() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    for (call, name) in [
        ("fn_job_enqueue_batch(NULL)", "p_jobs"),
        ("fn_job_start(NULL, 'bob')", "p_job_id"),
        ("fn_job_start('$job', NULL)", "p_lease_owner"),
        ("fn_job_heartbeat(NULL, 'bob')", "p_job_id"),
        ("fn_job_heartbeat('$job', NULL)", "p_lease_owner"),
        ("fn_job_ack(NULL, 'bob')", "p_job_id"),
        ("fn_job_ack('$job', NULL)", "p_lease_owner"),
        ("fn_job_ack_batch(NULL, '[]')", "p_lease_owner"),
        ("fn_job_ack_batch('bob', NULL)", "p_jobs"),
        ("fn_job_fail_or_retry(NULL, 'bob', 'boom')", "p_job_id"),
        ("fn_job_fail_or_retry('$job', NULL, 'boom')", "p_lease_owner"),
        ("fn_job_release(NULL, 'bob')", "p_job_id"),
        ("fn_job_release('$job', NULL)", "p_lease_owner"),
        ("fn_job_snooze(NULL, 'bob', now())", "p_job_id"),
        ("fn_job_snooze('$job', 'bob', NULL)", "p_until"),
        ("fn_job_cancel(NULL)", "p_job_id"),
        ("fn_job_change(NULL, '{}')", "p_job_id"),
        ("fn_job_change('$job', NULL)", "p_changes"),
        ("fn_job_move_to_dead_letter(NULL, 'hopeless')", "p_job_id"),
        ("fn_job_move_to_dead_letter('$job', NULL)", "p_final_error"),
        ("fn_job_get(NULL)", "p_job_id"),
        ("fn_job_purge(NULL)", "p_older_than"),
        ("fn_dead_letter_triage(NULL, 'closed')", "p_dead_letter_id"),
        ("fn_dead_letter_triage('$job', NULL)", "p_triage_status"),
    ] {
        let statement = format!("SELECT agentq.{}", call.replace("$job", &job));
        refused(&mut s, &statement, "22004", &format!("{name} must not be NULL"), name);
    }
    assert_eq!(s.state(&job), "leased");
}

#[test]
fn a_limit_that_is_null_is_refused_like_any_other_null() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("x");
    s.call(&format!("fn_job_cancel('{job}')"));
    s.shift_clock(60);
    let statement = "SELECT agentq.fn_job_purge('0 s', NULL)";
    refused(&mut s, statement, "22004", "p_limit must not be NULL", "p_limit");
}

#[test]
fn an_error_leaves_the_session_fit_for_work() {
    let db = database();
    let mut s = db.session();
    for _ in 0..50 {
        s.fails("SELECT agentq.fn_job_enqueue('')");
        s.fails(&format!("SELECT agentq.fn_job_ack('{NOBODY}', 'bob')"));
        s.fails("SELECT agentq.fn_job_enqueue_batch('{}')");
    }
    s.run("BEGIN");
    let job = s.enqueue("x");
    s.run("SAVEPOINT here");
    s.fails("SELECT agentq.fn_job_claim('')");
    s.run("ROLLBACK TO here; COMMIT");
    let claim = claimed(&mut s, "bob");
    assert_eq!(claim["job_id"], json!(job));
    db.assert_sound();
}

#[test]
fn hints_work_when_they_are_followed() {
    let db = database();
    let mut s = db.session();
    s.call("fn_job_enqueue('a')");
    let held = claimed(&mut s, "bob");
    let (job, calls) = (id(&held), "fn_job_usage");
    for usage in ["3", "[]", "{\"tokens\": \"many\"}"] {
        let failure = s.fails(&format!("SELECT agentq.{calls}('{job}', 'bob', '{usage}')"));
        let hint = failure.hint;
        let example = &hint[hint.find('{').expect("an example")..=hint.rfind('}').expect("its end")];
        expect(&mut s, "counted", &format!("fn_job_usage('{job}', 'bob', '{example}')"));
    }
    // What is no object is told which keys there are, and each of these is one.
    for (call, code) in
        [("fn_job_enqueue('b', p_options => ", "enqueued"), ("fn_job_claim('bob', p_options => ", "claimed")]
    {
        let failure = s.fails(&format!("SELECT agentq.{call}'7')"));
        let hint = failure.hint;
        let keys = hint.split("It accepts: ").nth(1).expect("the keys").trim_end_matches('.').split(", ");
        let nothing: Vec<String> = keys.map(|key| format!("\"{key}\": null")).collect();
        expect(&mut s, code, &format!("{call}'{{{}}}')", nothing.join(", ")));
    }
}
