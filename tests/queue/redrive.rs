//! Dead letters: their history, their resolution, trying them again, and throwing them away.

use agentq_tests::{Session, claimed, database, drain, expect, id, json, refused, text, until_someone_waits};

/// A job of this kind that has failed for good; returns job and letter.
#[track_caller]
fn buried(s: &mut Session, kind: &str, more: &str) -> (String, String) {
    let job = id(&s.call(&format!("fn_job_enqueue('{kind}', p_max_attempts => 1{more})")));
    expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}')"));
    let answer = expect(s, "dead_letter", &format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', 'timeout')"));
    (job, text(&answer, "dead_letter_id"))
}

#[test]
fn a_letter_has_the_whole_history_and_is_told() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call("fn_job_enqueue('x', p_max_attempts => 3)"));
    claimed(&mut s, "ann");
    s.call(&format!("fn_job_fail_or_retry('{job}', 'ann', 'first', 'timeout', p_retry_after => '0')"));
    claimed(&mut s, "bob");
    s.shift_clock(400);
    claimed(&mut s, "cat");
    s.call(&format!("fn_job_fail_or_retry('{job}', 'cat', 'last', 'rate_limited')"));
    let history = "SELECT concat_ws(' ', h->>'attempt', h->>'owner', h->>'outcome', h->>'error_class', h->>'ended_at' IS NOT NULL)
                   FROM agentq.job_dead_letter, jsonb_array_elements(error_history) h";
    let expected = ["1 ann failed timeout t", "2 bob lease_expired lease_expired t", "3 cat failed rate_limited t"];
    assert_eq!(s.texts(history), expected);
    let letter = s.text("SELECT concat_ws(' ', reason, error_class, final_error, attempts, resolution_status) FROM agentq.job_dead_letter");
    assert_eq!(letter, "exhausted rate_limited last 3 pending");
    let event =
        s.json("SELECT payload FROM agentq.event WHERE event_kind = 'job.dead_lettered' AND subject = $1", &[&job]);
    assert_eq!((event["job_kind"].clone(), event["attempts"].clone()), (json!("x"), json!(3)));
    // The letter outlives the job, with its history.
    s.shift_clock(4000);
    s.call("fn_job_purge('1 second')");
    assert_eq!(s.count("agentq_internal.job"), 0);
    assert_eq!(s.texts(history), expected);
}

#[test]
fn a_letter_is_assigned_and_resolved() {
    let db = database();
    let mut s = db.session();
    let (_, letter) = buried(&mut s, "x", "");
    let triage =
        |resolution: &str| format!("fn_dead_letter_triage('{letter}', 'acknowledged', NULL, 'ann', '{resolution}')");
    let answer = expect(&mut s, "triaged", &triage(r#"{"status": "investigating", "assigned_to": "bob"}"#));
    assert_eq!(
        (answer["resolution_status"].clone(), answer["assigned_to"].clone()),
        (json!("investigating"), json!("bob"))
    );
    assert_eq!(answer["resolved_at"], json!(null));
    let answer = expect(&mut s, "triaged", &triage(r#"{"status": "resolved", "notes": "a typo"}"#));
    assert_eq!((answer["assigned_to"].clone(), answer["resolution_notes"].clone()), (json!("bob"), json!("a typo")));
    assert!(answer["resolved_at"].is_string());
    // Opened again.
    let answer = expect(&mut s, "triaged", &triage(r#"{"status": "pending", "assigned_to": null}"#));
    assert_eq!((answer["assigned_to"].clone(), answer["resolved_at"].clone()), (json!(null), json!(null)));
    for (resolution, message) in [
        ("[]", "p_resolution must be a JSON object"),
        (r#"{"status": "done"}"#, "p_resolution.status must be one of"),
        (r#"{"state": "x"}"#, "unknown key \"state\""),
        (r#"{"notes": 1}"#, "notes must be a text"),
    ] {
        refused(&mut s, &format!("SELECT agentq.{}", triage(resolution)), "22023", message, "");
    }
}

#[test]
fn a_redriven_job_is_like_the_first_with_new_attempts_and_a_lineage() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let enqueue = "fn_job_enqueue('x', 'key', 'ann', '{\"a\": [1]}', 'from', 'to', 'ref', 7, p_max_attempts => 2,
        p_run_id => '00000000-0000-4000-8000-000000000001', p_options => '{\"queue\": \"mail\", \"external_effects\": true}')";
    let job = id(&s.call(enqueue));
    let claim = "fn_job_claim('bob', p_options => '{\"queues\": [\"mail\"]}')";
    expect(&mut s, "claimed", claim);
    let answer = s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', 'validation_error')"));
    let letter = text(&answer, "dead_letter_id");
    let allowed = "p_options => '{\"allow_non_idempotent\": true}'";
    let redrive = format!("fn_dead_letter_redrive('{letter}', {allowed})");
    let answer = expect(&mut s, "redriven", &redrive);
    assert_eq!(answer["replay_of"], json!(job));
    let again = id(&answer);
    let like = "SELECT (to_jsonb(q) - ARRAY['job_id', 'created_at', 'updated_at', 'scheduled_at', 'picked_at', 'finished_at', 'state',
        'attempts', 'last_error'])::text FROM agentq.job_queue q WHERE job_id = '";
    assert_eq!(s.text(&format!("{like}{again}'")), s.text(&format!("{like}{job}'")));
    let found = s.call(&format!("fn_job_get('{again}')"));
    let found = &found["job"];
    assert_eq!((found["attempts"].clone(), found["state"].clone()), (json!(0), json!("queued")));
    assert_eq!((found["replay_of"].clone(), found["replay_count"].clone()), (json!(job), json!(1)));
    assert_eq!(found["external_effects"], json!(true));
    let row =
        s.text("SELECT concat_ws(' ', triage_status, resolution_status, redriven_as) FROM agentq.job_dead_letter");
    assert_eq!(row, format!("manual_replay investigating {again}"));
    // Once, unless told.
    let answer = s.call(&redrive);
    assert_eq!(
        (answer["code"].clone(), answer["ok"].clone(), id(&answer)),
        (json!("already_redriven"), json!(false), again.clone())
    );
    // Its key is in use while the new one runs.
    let once_more = redrive.replace("true}", "true, \"again\": true}");
    assert_eq!(s.call(&once_more)["code"], "duplicate");
    expect(&mut s, "claimed", claim);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{again}', 'bob')"));
    expect(&mut s, "redriven", &once_more);
    db.assert_sound();
}

#[test]
fn many_are_redriven_by_filter_in_the_order_in_which_they_were_made() {
    let db = database();
    let mut s = db.session();
    let letters: Vec<(String, String)> = ["a", "b", "a", "a"].iter().map(|kind| buried(&mut s, kind, "")).collect();
    let younger = s.enqueue("a");
    let answer = expect(
        &mut s,
        "redriven",
        "fn_dead_letter_redrive(p_filter => '{\"job_kind\": \"a\"}', p_options => '{\"limit\": 2}')",
    );
    assert_eq!((answer["redriven"].clone(), answer["more"].clone()), (json!(2), json!(true)));
    let of: Vec<String> = answer["jobs"].as_array().expect("a list").iter().map(|job| text(job, "replay_of")).collect();
    assert_eq!(of, [letters[0].0.clone(), letters[2].0.clone()]);
    let answer = expect(&mut s, "redriven", "fn_dead_letter_redrive(p_filter => '{\"job_kind\": \"a\"}')");
    assert_eq!((answer["redriven"].clone(), answer["more"].clone()), (json!(1), json!(false)));
    // Before what is younger, as they stood.
    let claims = drain(&mut s, "fn_job_claim('cat', 'a')", "job_id");
    assert_eq!(claims.len(), 4);
    assert_eq!(claims[3], younger);
    let lineage = "SELECT j.replay_of FROM agentq_internal.job j JOIN agentq_internal.job_lease l USING (job_id) WHERE j.job_kind = 'a' AND j.replay_of IS NOT NULL ORDER BY l.picked_at";
    assert_eq!(s.texts(lineage), [letters[0].0.clone(), letters[2].0.clone(), letters[3].0.clone()]);
    // What was redriven is not again.
    let answer = expect(&mut s, "redriven", "fn_dead_letter_redrive(p_filter => '{}')");
    assert_eq!(answer["redriven"], json!(1));
    db.assert_sound();
}

#[test]
fn a_rate_spreads_what_is_redriven() {
    let db = database();
    let mut s = db.session();
    for _ in 0..5 {
        buried(&mut s, "x", "");
    }
    let answer = expect(
        &mut s,
        "redriven",
        "fn_dead_letter_redrive(p_filter => '{\"error_class\": \"timeout\"}', p_options => '{\"per_second\": 0.5}')",
    );
    assert_eq!(answer["redriven"], json!(5));
    let steps = "SELECT round(extract(epoch FROM scheduled_at - lag(scheduled_at) OVER (ORDER BY scheduled_at))) FROM agentq.job_queue WHERE state = 'queued' ORDER BY scheduled_at OFFSET 1";
    assert_eq!(s.texts(steps), ["2"; 4]);
    assert_eq!(drain(&mut s, "fn_job_claim('cat')", "job_id").len(), 1);
}

#[test]
fn a_filter_takes_every_condition_and_refuses_what_it_does_not_know() {
    let db = database();
    let mut s = db.session();
    let (job, _) = buried(&mut s, "a", "");
    buried(&mut s, "b", "");
    let count = |s: &mut Session, filter: &str| {
        s.run("BEGIN");
        let answer = s.call(&format!("fn_dead_letter_redrive(p_filter => '{filter}')"));
        s.run("ROLLBACK");
        answer["redriven"].as_i64().expect("a number")
    };
    for (filter, found) in [
        (r#"{"job_kind": "a"}"#.to_owned(), 1),
        (r#"{"queue": "default"}"#.to_owned(), 2),
        (r#"{"queue": "mail"}"#.to_owned(), 0),
        (r#"{"reason": "exhausted"}"#.to_owned(), 2),
        (r#"{"reason": "poison"}"#.to_owned(), 0),
        (r#"{"error_class": "timeout", "job_kind": "b"}"#.to_owned(), 1),
        (r#"{"triage_status": "pending"}"#.to_owned(), 2),
        (r#"{"resolution_status": "resolved"}"#.to_owned(), 0),
        (r#"{"assigned_to": "ann"}"#.to_owned(), 0),
        (r#"{"moved_after": "2020-01-01"}"#.to_owned(), 2),
        (r#"{"moved_before": "2020-01-01"}"#.to_owned(), 0),
        (format!(r#"{{"job_ids": ["{job}"]}}"#), 1),
        (format!(r#"{{"job_ids": ["{}"]}}"#, job.to_uppercase()), 1),
    ] {
        assert_eq!(count(&mut s, &filter), found, "{filter}");
    }
    for (arguments, message) in [
        ("", "name one dead letter, or give a filter"),
        ("p_filter => '[]'", "p_filter must be a JSON object"),
        ("p_filter => '{\"kind\": \"a\"}'", "unknown key \"kind\""),
        ("p_filter => '{\"job_kind\": 1}'", "p_filter.job_kind must be a text, not 1"),
        ("p_filter => '{\"moved_after\": \"soon\"}'", "moved_after must be a timestamp, not \"soon\""),
        ("p_filter => '{\"job_ids\": [\"x\"]}'", "job_ids[0] must be the id of a job"),
        (
            "p_filter => '{}', p_options => '{\"limit\": 0}'",
            "p_options.limit must be a whole number from 1 to 10000, not 0",
        ),
        (
            "p_filter => '{}', p_options => '{\"per_second\": -1}'",
            "per_second must be a number from 0.001 to 1000000, not -1",
        ),
        ("p_filter => '{}', p_options => '{\"again\": 1}'", "again must be true or false, not 1"),
        ("p_filter => '{}', p_options => '{\"rate\": 1}'", "unknown key \"rate\""),
    ] {
        refused(&mut s, &format!("SELECT agentq.fn_dead_letter_redrive({arguments})"), "22023", message, "");
    }
    let sql = "SELECT agentq.fn_dead_letter_redrive('00000000-0000-4000-8000-000000000001')";
    refused(&mut s, sql, "P0002", "there is no dead letter", "job_dead_letter");
}

#[test]
fn two_sessions_redrive_a_letter_once() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    let (_, letter) = buried(&mut a, "x", "");
    a.run("BEGIN");
    let first = id(&expect(&mut a, "redriven", &format!("fn_dead_letter_redrive('{letter}')")));
    // By filter it is skipped, by id it is waited for.
    assert_eq!(expect(&mut b, "redriven", "fn_dead_letter_redrive(p_filter => '{}')")["redriven"], json!(0));
    let waiting = std::thread::spawn(move || b.call(&format!("fn_dead_letter_redrive('{letter}')")));
    until_someone_waits(&mut db.session());
    a.run("COMMIT");
    let answer = waiting.join().expect("no panic");
    assert_eq!((answer["code"].clone(), id(&answer)), (json!("already_redriven"), first));
    assert_eq!(a.count("agentq_internal.job WHERE replay_of IS NOT NULL"), 1);
}

#[test]
fn letters_that_are_settled_are_purged_and_others_only_by_name() {
    let db = database();
    let mut s = db.session();
    let letters: Vec<String> = (0..4).map(|_| buried(&mut s, "x", "").1).collect();
    s.call(&format!("fn_dead_letter_triage('{}', 'closed')", letters[0]));
    s.call(&format!(
        "fn_dead_letter_triage('{}', 'pending', p_resolution => '{{\"status\": \"abandoned\"}}')",
        letters[1]
    ));
    let again = id(&s.call(&format!("fn_dead_letter_redrive('{}')", letters[2])));
    claimed(&mut s, "w");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{again}', 'w')"));
    assert_eq!(expect(&mut s, "purged", "fn_dead_letter_purge('1 day')")["purged"], json!(0));
    s.shift_clock(90_000);
    let answer = expect(&mut s, "purged", "fn_dead_letter_purge('1 day', p_limit => 2)");
    assert_eq!((answer["purged"].clone(), answer["more"].clone()), (json!(2), json!(true)));
    assert_eq!(expect(&mut s, "purged", "fn_dead_letter_purge('1 day')")["purged"], json!(1));
    assert_eq!(s.texts("SELECT dead_letter_id FROM agentq.job_dead_letter"), [letters[3].clone()]);
    assert_eq!(expect(&mut s, "purged", "fn_dead_letter_purge('1 day', '{\"job_kind\": \"y\"}')")["purged"], json!(0));
    assert_eq!(expect(&mut s, "purged", "fn_dead_letter_purge('1 day', '{\"job_kind\": \"x\"}')")["purged"], json!(1));
    refused(&mut s, "SELECT agentq.fn_dead_letter_purge('-1 day')", "22023", "must not be negative", "");
}

#[test]
fn a_job_that_dies_again_keeps_its_place_and_its_count() {
    let db = database();
    let mut s = db.session();
    buried(&mut s, "x", "");
    let younger = s.enqueue("x");
    let mut replays = Vec::new();
    for _ in 0..2 {
        expect(&mut s, "redriven", "fn_dead_letter_redrive(p_filter => '{}')");
        // Before the younger one, each time.
        let again = id(&expect(&mut s, "claimed", "fn_job_claim('bob', 'x')"));
        assert_ne!(again, younger);
        replays.push(s.text(&format!("SELECT replay_count FROM agentq_internal.job WHERE job_id = '{again}'")));
        expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{again}', 'bob', 'boom')"));
    }
    assert_eq!(replays, ["1", "2"]);
    // A replay counts them, too.
    let first = s.text(
        "SELECT job_id FROM agentq_internal.job WHERE replay_of IS NULL AND job_id IN (SELECT job_id FROM agentq_internal.job_done)",
    );
    let careful = format!("fn_job_replay('{first}', p_options => '{{\"require_approval\": true}}')");
    assert_eq!(s.call(&careful)["code"], "approval_required");
}

#[test]
fn a_redrive_and_a_replay_of_one_job_do_not_meet_crosswise() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    let (job, letter) = buried(&mut a, "x", ", p_idempotency_key => 'k'");
    a.run("BEGIN");
    let again = id(&expect(&mut a, "redriven", &format!("fn_dead_letter_redrive('{letter}')")));
    let replay = std::thread::spawn(move || b.call(&format!("fn_job_replay('{job}')")));
    until_someone_waits(&mut db.session());
    a.run("COMMIT");
    let answer = replay.join().expect("no deadlock");
    assert_eq!((answer["code"].clone(), id(&answer)), (json!("duplicate"), again));
}

#[test]
fn a_purge_does_not_wait_for_a_replay() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    let (job, _) = buried(&mut a, "x", "");
    a.run("BEGIN");
    expect(&mut a, "replayed", &format!("fn_job_replay('{job}')"));
    b.run("SET lock_timeout = '5s'");
    assert_eq!(expect(&mut b, "purged", "fn_job_purge('0 s')")["purged"], json!(0));
    a.run("COMMIT");
    assert_eq!(expect(&mut b, "purged", "fn_job_purge('0 s')")["purged"], json!(1));
}

/// How people see each letter: whose job it is, and how far it has come.
fn letters(s: &mut Session) -> Vec<String> {
    s.texts(
        "SELECT concat_ws(' ', resolution_status, resolved_at IS NOT NULL) FROM agentq.job_dead_letter ORDER BY job_id",
    )
}

#[test]
fn a_letter_is_resolved_when_the_job_that_was_made_of_it_ends_well() {
    let db = database();
    let mut s = db.session();
    let first = s.enqueue("a");
    expect(&mut s, "dead_letter", &format!("fn_job_move_to_dead_letter('{first}', 'no')"));
    let letter = s.text("SELECT dead_letter_id FROM agentq.job_dead_letter");
    let second = id(&expect(&mut s, "redriven", &format!("fn_dead_letter_redrive('{letter}')")));
    assert_eq!(letters(&mut s), ["investigating f"]);
    assert_eq!(s.call("fn_dead_letter_purge('0 seconds')")["purged"], 0, "nobody knows yet how it ends");
    // It dies, too: both letters are to be looked at.
    expect(&mut s, "dead_letter", &format!("fn_job_move_to_dead_letter('{second}', 'no')"));
    assert_eq!(letters(&mut s), ["pending f", "pending f"]);
    // A replay of the second is another run of it; a cancel is no good end either.
    let third = id(&expect(&mut s, "replayed", &format!("fn_job_replay('{second}')")));
    assert_eq!(letters(&mut s), ["pending f", "investigating f"]);
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{third}')"));
    assert_eq!(letters(&mut s), ["pending f", "pending f"]);
    let fourth = id(&expect(&mut s, "replayed", &format!("fn_job_replay('{second}')")));
    claimed(&mut s, "w");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{fourth}', 'w')"));
    assert_eq!(letters(&mut s), ["resolved t", "resolved t"], "the work of both is done");
    db.assert_sound();
}

#[test]
fn what_people_have_decided_about_a_letter_outlasts_the_end_of_its_job() {
    let db = database();
    let mut s = db.session();
    let first = s.enqueue("a");
    expect(&mut s, "dead_letter", &format!("fn_job_move_to_dead_letter('{first}', 'no')"));
    let letter = s.text("SELECT dead_letter_id FROM agentq.job_dead_letter");
    let second = id(&expect(&mut s, "redriven", &format!("fn_dead_letter_redrive('{letter}')")));
    s.call(&format!("fn_dead_letter_triage('{letter}', 'closed', p_resolution => '{{\"status\": \"abandoned\"}}')"));
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{second}')"));
    assert_eq!(letters(&mut s), ["abandoned t"]);
}

#[test]
fn a_redrive_refuses_a_job_with_effects_unless_somebody_allows_it() {
    let db = database();
    let mut s = db.session();
    let job = id(&s.call(r#"fn_job_enqueue('charge', p_options => '{"external_effects": true}')"#));
    // Its holder falls silent, and nobody knows whether it has charged.
    s.call("fn_job_claim('w', 'charge', 10)");
    s.shift_clock(11);
    s.call("fn_engine_tick('reap_leases')");
    expect(&mut s, "dead_letter", &format!("fn_job_move_to_dead_letter('{job}', 'nobody knows')"));
    let letter = s.text("SELECT dead_letter_id FROM agentq.job_dead_letter");
    let refusal = s.call(&format!("fn_dead_letter_redrive('{letter}')"));
    assert_eq!((&refusal["code"], &refusal["steps"]), (&json!("not_idempotent"), &json!(["the job as a whole"])));
    let many = s.call("fn_dead_letter_redrive(p_filter => '{}')");
    assert_eq!((&many["redriven"], &many["refused"]), (&json!(0), &json!(1)), "{many}");
    s.call("fn_job_purge('0 days')");
    assert_eq!(s.call(&format!("fn_dead_letter_redrive('{letter}')"))["code"], "not_idempotent");
    let allowed = format!("fn_dead_letter_redrive('{letter}', p_options => '{{\"allow_non_idempotent\": true}}')");
    expect(&mut s, "redriven", &allowed);
    db.assert_sound();
}
