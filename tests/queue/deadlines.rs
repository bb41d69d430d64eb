//! Jobs that must be begun or finished by a time.

use agentq_tests::{Session, claimed, database, eventually, expect, id, json, refused};

/// Enqueues a job that must start and finish within these seconds from now.
#[track_caller]
fn enqueue(s: &mut Session, kind: &str, start: Option<i32>, finish: Option<i32>) -> String {
    let at = |seconds: Option<i32>| match seconds {
        None => "NULL".to_owned(),
        Some(seconds) => format!("agentq.fn_clock_now() + '{seconds} s'"),
    };
    let options = format!("jsonb_build_object('start_by', {}, 'finish_by', {})", at(start), at(finish));
    id(&s.call(&format!("fn_job_enqueue('{kind}', p_options => {options})")))
}

fn letter(s: &mut Session, job: &str) -> String {
    let sql = "SELECT concat_ws(' ', reason, error_class, moved_by) FROM agentq.job_dead_letter WHERE job_id = '";
    s.texts(&format!("{sql}{job}'")).concat()
}

#[test]
fn a_claim_never_hands_out_a_job_whose_deadline_has_passed() {
    let db = database();
    let mut s = db.session();
    let late = enqueue(&mut s, "x", Some(100), None);
    let later = enqueue(&mut s, "x", Some(100), Some(200));
    let fine = enqueue(&mut s, "x", Some(1000), None);
    s.shift_clock(300);
    // Both late ones are given up on the way to the first that is in time.
    assert_eq!(id(&claimed(&mut s, "bob")), fine);
    assert_eq!(letter(&mut s, &late), "deadline start_deadline_missed agentq");
    assert_eq!(letter(&mut s, &later), "deadline finish_deadline_missed agentq");
    assert_eq!(s.claim("bob")["code"], "empty");
    // Also when it is the only one, and in a batch.
    enqueue(&mut s, "y", Some(1), None);
    enqueue(&mut s, "y", None, None);
    s.shift_clock(360);
    assert_eq!(s.call("fn_job_claim_batch('bob', 1, 'y')")["count"], json!(1));
    assert_eq!(s.state(&late), "dead_letter");
    db.assert_sound();
}

#[test]
fn the_engine_gives_up_what_is_late() {
    let db = database();
    let mut s = db.session();
    let tick = "fn_engine_tick('enforce_deadlines')";
    let resting = enqueue(&mut s, "a", Some(100), None);
    let finished = enqueue(&mut s, "b", Some(100), Some(200));
    expect(&mut s, "claimed", "fn_job_claim('bob', 'b')");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{finished}', 'bob')"));
    let begun = enqueue(&mut s, "c", Some(100), None);
    expect(&mut s, "claimed", "fn_job_claim('bob', 'c')");
    s.call(&format!("fn_job_fail_or_retry('{begun}', 'bob', 'boom', p_retry_after => '1 hour')"));
    let held = enqueue(&mut s, "d", Some(100), Some(200));
    let claim = expect(&mut s, "claimed", "fn_job_claim('bob', 'd')");
    assert!(claim["finish_by"].is_string(), "{claim}");
    let scheduled = id(&s.call(
        "fn_job_enqueue('e', p_scheduled_at => agentq.fn_clock_now() + '50 s',
         p_options => jsonb_build_object('finish_by', agentq.fn_clock_now() + '60 s'))",
    ));
    s.call(tick);
    assert_eq!(s.count("agentq.job_dead_letter"), 0);
    s.shift_clock(150);
    s.call(tick);
    assert_eq!(letter(&mut s, &resting), "deadline start_deadline_missed agentq");
    assert_eq!(letter(&mut s, &scheduled), "deadline finish_deadline_missed agentq");
    // Begun in time, held or waiting for its next try.
    assert_eq!((s.state(&held).as_str(), s.state(&begun).as_str()), ("leased", "retry_waiting"));
    s.shift_clock(250);
    s.call(tick);
    assert_eq!(letter(&mut s, &held), "deadline finish_deadline_missed agentq");
    expect(&mut s, "lease_lost", &format!("fn_job_ack('{held}', 'bob')"));
    assert_eq!(s.state(&finished), "succeeded");
    assert_eq!(s.count("agentq_internal.job_deadline"), 0);
    db.assert_sound();
}

#[test]
fn deadlines_of_a_batch_are_kept_too() {
    let db = database();
    let mut s = db.session();
    let batch = s.call(
        r#"fn_job_enqueue_batch('[{"job_kind": "a", "start_by": "2100-01-01", "finish_by": "2100-01-02"},
            {"job_kind": "a", "start_by": "2000-01-02", "finish_by": "2000-01-01"}]')"#,
    );
    assert_eq!((batch["created"].clone(), batch["refused"].clone()), (json!(1), json!(1)));
    assert_eq!(s.texts("SELECT what FROM agentq_internal.job_deadline ORDER BY deadline_at"), ["start", "finish"]);
    let job = id(&batch["jobs"][0]);
    let found = s.call(&format!("fn_job_get('{job}')"));
    assert_eq!(found["job"]["start_by"].as_str().map(|at| &at[..10]), Some("2100-01-01"));
}

#[test]
fn deadlines_that_cannot_be_met_or_read_are_refused() {
    let db = database();
    let mut s = db.session();
    for (options, message) in [
        (r#"{"start_by": "2040-01-01"}"#, "start_by lies before scheduled_at"),
        (r#"{"finish_by": "2040-01-01"}"#, "finish_by lies before scheduled_at"),
        (r#"{"start_by": "2060-01-01", "finish_by": "2055-01-01"}"#, "finish_by lies before start_by"),
        (r#"{"start_by": "whenever"}"#, "start_by must be a timestamp, not \"whenever\""),
        (r#"{"start_by": "infinity"}"#, "not infinity"),
        (r#"{"finish_by": 5}"#, "finish_by must be a timestamp, not 5"),
        (r#"{"external_effects": "yes"}"#, "external_effects must be true or false"),
    ] {
        let sql =
            format!("SELECT agentq.fn_job_enqueue('x', p_scheduled_at => '2050-01-01', p_options => '{options}')");
        refused(&mut s, &sql, "22023", message, "");
    }
}

#[test]
fn nobody_waits_for_a_job_that_another_session_has_in_hand() {
    let db = database();
    let (mut s, mut open) = (db.session(), db.session());
    let claimed_late = enqueue(&mut s, "a", None, Some(100));
    let other = enqueue(&mut s, "b", None, Some(100));
    open.run("BEGIN");
    expect(&mut open, "claimed", "fn_job_claim('bob', 'a')");
    s.shift_clock(150);
    s.run("SET lock_timeout = '20s'");
    assert_eq!(s.call("fn_engine_tick('enforce_deadlines')")["failed"], json!(0));
    assert_eq!(s.state(&other), "dead_letter");
    assert_eq!(s.count("agentq_internal.job_deadline"), 1);
    // Its deadline is not forgotten.
    open.run("COMMIT");
    eventually("it is tried again", || {
        s.call("fn_engine_tick('enforce_deadlines')");
        s.state(&claimed_late) == "dead_letter"
    });
    assert_eq!(s.count("agentq_internal.job_deadline"), 0);
    db.assert_sound();
}

#[test]
fn a_holder_hears_of_its_deadline_and_of_the_verdict() {
    let db = database();
    let mut s = db.session();
    let job =
        id(&s
            .call("fn_job_enqueue('a', p_options => jsonb_build_object('finish_by', agentq.fn_clock_now() + '60 s'))"));
    claimed(&mut s, "bob");
    let heartbeat = format!("fn_job_heartbeat('{job}', 'bob', 300)");
    assert!(expect(&mut s, "extended", &heartbeat)["finish_by"].is_string());
    s.shift_clock(61);
    s.call("fn_engine_tick('enforce_deadlines')");
    for call in [heartbeat, format!("fn_job_ack('{job}', 'bob')"), format!("fn_job_start('{job}', 'bob')")] {
        let told = expect(&mut s, "lease_lost", &call);
        assert_eq!(
            (&told["why"], &told["error_class"]),
            (&json!("finished"), &json!("finish_deadline_missed")),
            "{told}"
        );
        assert!(told["error"].as_str().unwrap_or_default().starts_with("not finished by"), "{told}");
    }
    db.assert_sound();
}
