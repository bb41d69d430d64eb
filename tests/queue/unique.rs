//! What an enqueue does about an earlier one with the same key: push it back, keep others out, replace it.

use agentq_tests::{Session, Value, claimed, database, expect, id, json, refused, until_someone_waits};

#[track_caller]
fn enqueue(s: &mut Session, unique: &str, n: i32) -> Value {
    s.call(&format!(
        "fn_job_enqueue('x', 'key', p_payload_json => '{{\"n\": {n}}}', p_options => '{{\"unique\": {unique}}}')"
    ))
}

const DEBOUNCE: &str = r#"{"mode": "debounce", "seconds": 30}"#;

#[test]
fn a_debounced_job_runs_when_nobody_has_asked_for_a_while() {
    let db = database();
    let mut s = db.session();
    let first = enqueue(&mut s, DEBOUNCE, 1);
    assert_eq!(first["code"], "enqueued");
    for (at, n) in [(20, 2), (40, 3)] {
        s.shift_clock(at);
        assert_eq!(s.claim("bob")["code"], "empty");
        let again = enqueue(&mut s, DEBOUNCE, n);
        assert_eq!((again["code"].clone(), again["job_id"].clone()), (json!("debounced"), first["job_id"].clone()));
    }
    s.shift_clock(60);
    assert_eq!(s.claim("bob")["code"], "empty");
    s.shift_clock(75);
    let claim = claimed(&mut s, "bob");
    assert_eq!((claim["job_id"].clone(), claim["payload_json"].clone()), (first["job_id"].clone(), json!({"n": 3})));
    // A job in hand is left alone, and the next one after it is new.
    assert_eq!(enqueue(&mut s, DEBOUNCE, 4)["code"], "duplicate");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&first)));
    assert_eq!(enqueue(&mut s, DEBOUNCE, 5)["code"], "enqueued");
    db.assert_sound();
}

#[test]
fn a_debounce_may_have_an_end() {
    let db = database();
    let mut s = db.session();
    let bounded = r#"{"mode": "debounce", "seconds": 30, "max_seconds": 50}"#;
    let first = enqueue(&mut s, bounded, 1);
    for at in [20, 40] {
        s.shift_clock(at);
        enqueue(&mut s, bounded, at as i32);
    }
    s.shift_clock(51);
    assert_eq!(claimed(&mut s, "bob")["job_id"], first["job_id"]);
}

#[test]
fn a_throttle_lets_the_first_of_a_window_through() {
    let db = database();
    let mut s = db.session();
    let throttle = r#"{"mode": "throttle", "seconds": 60}"#;
    let first = enqueue(&mut s, throttle, 1);
    assert_eq!(first["code"], "enqueued");
    // While it is there it is a duplicate, as ever.
    assert_eq!(enqueue(&mut s, throttle, 2)["code"], "duplicate");
    claimed(&mut s, "bob");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&first)));
    let again = enqueue(&mut s, throttle, 3);
    assert_eq!(
        (again["code"].clone(), again["job_id"].clone(), again["ok"].clone()),
        (json!("throttled"), first["job_id"].clone(), json!(true))
    );
    assert_eq!(s.count("agentq_internal.job_key"), 0);
    // Others with the key that do not ask for it are not held up.
    let plain = id(&expect(&mut s, "enqueued", "fn_job_enqueue('x', 'key')"));
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{plain}')"));
    s.shift_clock(61);
    assert_eq!(enqueue(&mut s, throttle, 4)["code"], "enqueued");
    s.shift_clock(200);
    s.call("fn_engine_tick('expire')");
    assert_eq!(s.count("agentq_internal.job_throttle"), 0);
    db.assert_sound();
}

#[test]
fn two_sessions_throttle_each_other() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    let throttle = r#"{"mode": "throttle", "seconds": 60}"#;
    a.run("BEGIN");
    let first = enqueue(&mut a, throttle, 1);
    let second = std::thread::spawn(move || enqueue(&mut b, throttle, 2));
    until_someone_waits(&mut db.session());
    claimed(&mut a, "bob");
    expect(&mut a, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&first)));
    a.run("COMMIT");
    assert_eq!(second.join().expect("no panic")["code"], "throttled");
}

#[test]
fn a_replacement_gives_the_waiting_job_a_new_payload() {
    let db = database();
    let mut s = db.session();
    let replace = r#"{"mode": "replace"}"#;
    let first = enqueue(&mut s, replace, 1);
    let again = enqueue(&mut s, replace, 2);
    assert_eq!((again["code"].clone(), again["job_id"].clone()), (json!("replaced"), first["job_id"].clone()));
    let claim = claimed(&mut s, "bob");
    assert_eq!(claim["payload_json"], json!({"n": 2}));
    assert_eq!(enqueue(&mut s, replace, 3)["code"], "duplicate");
    assert_eq!(
        s.text(&format!("SELECT payload_json FROM agentq.job_queue WHERE job_id = '{}'", id(&first))),
        r#"{"n": 2}"#
    );
    db.assert_sound();
}

/// Somebody moves the job from one place to another just then, as the engine does with one that falls due: it is changed where
/// it is, and not taken for one that a worker holds.
#[test]
fn a_job_that_is_being_moved_is_replaced_where_it_comes_to_rest() {
    let db = database();
    let (mut s, mut mover) = (db.session(), db.session());
    let replace = |s: &mut Session, n: i32| {
        let options = r#"{"unique": {"mode": "replace"}}"#;
        s.call(&format!("fn_job_enqueue('x', 'k', p_payload_json => '{{\"n\": {n}}}', p_options => '{options}')"))
    };
    for what in ["promote_due", "pass_on_order"] {
        let job = if what == "promote_due" {
            id(&s.call("fn_job_enqueue('x', 'k', p_scheduled_at => agentq.fn_clock_now() + interval '0.2 s')"))
        } else {
            // Behind another, which ends.
            let keyed = r#"p_options => '{"ordering_key": "o"}'"#;
            let head = id(&s.call(&format!("fn_job_enqueue('head', {keyed})")));
            let job = id(&s.call(&format!("fn_job_enqueue('x', 'k', {keyed})")));
            expect(&mut s, "claimed", "fn_job_claim('bob', 'head')");
            mover.run("BEGIN");
            expect(&mut mover, "succeeded", &format!("fn_job_ack('{head}', 'bob')"));
            job
        };
        if what == "promote_due" {
            s.run("SELECT pg_sleep(0.3)");
            mover.run("BEGIN");
            let ticked = mover.call("fn_engine_tick('promote_due')");
            assert_eq!(ticked["chores"][0]["rows"], json!(1), "{ticked}");
        }
        let mut other = db.session();
        let answer = std::thread::scope(|scope| {
            let asking = scope.spawn(move || replace(&mut other, 7));
            until_someone_waits(&mut s);
            mover.run("COMMIT");
            asking.join().expect("an answer")
        });
        assert_eq!((&answer["code"], &answer["job_id"]), (&json!("replaced"), &json!(job)), "{what}: {answer}");
        let claim = expect(&mut s, "claimed", "fn_job_claim('bob', 'x')");
        assert_eq!(claim["payload_json"], json!({"n": 7}), "{what}");
        assert_eq!(replace(&mut mover, 8)["code"], "duplicate", "a worker holds it");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    }
    db.assert_sound();
}

#[test]
fn what_cannot_be_unique_is_refused() {
    let db = database();
    let mut s = db.session();
    for (arguments, unique, message) in [
        ("", r#"{"mode": "replace"}"#, "needs an idempotency key"),
        (", 'k'", r#"{"mode": "first"}"#, "p_options.unique.mode must be one of"),
        (", 'k'", r#"{"seconds": 3}"#, "unique.mode must be one of debounce, throttle, replace, not null"),
        (", 'k'", r#"{"mode": "debounce"}"#, "needs its seconds"),
        (", 'k'", r#"{"mode": "throttle", "seconds": 0}"#, "unique.seconds must be a number of seconds"),
        (", 'k'", r#"{"mode": "throttle", "for": 1}"#, "unknown key \"for\""),
        (", 'k'", "[]", "unique must be a JSON object"),
        (", 'k', p_scheduled_at => '2100-01-01'", DEBOUNCE, "and not at p_scheduled_at"),
    ] {
        let sql = format!("SELECT agentq.fn_job_enqueue('x'{arguments}, p_options => '{{\"unique\": {unique}}}')");
        refused(&mut s, &sql, "22023", message, "");
    }
}
