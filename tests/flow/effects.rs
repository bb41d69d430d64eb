//! Effects: planned before they are done, carried out once, and known afterwards.

mod compensation;
mod drift;
mod manifest;
mod missions;
mod retention;

use agentq_tests::{Session, Value, claimed, database, expect, id, json, refused, text, token};

/// A trip: a hotel and a flight that can be undone, and a mail that cannot.
pub const TRIP: &str = r#"{
    "operations": {"book": {"produces": ["hotel.book", "flight.book"], "requires_compensation": true, "job_kind": "trip"}},
    "compensations": {
        "unbook_hotel": {"of": "book", "produces": ["hotel.cancel"], "counter_effects": true, "job_kind": "hotel.undo", "max_attempts": 1},
        "unbook_flight": {"of": "book", "produces": ["flight.cancel"], "counter_effects": true, "job_kind": "flight.undo", "max_attempts": 2}},
    "inverse_of": {"hotel.book": "hotel.cancel", "flight.book": "flight.cancel"},
    "idempotent": {"hotel.cancel": true, "flight.cancel": true}}"#;

pub fn declare(s: &mut Session, manifest: &str) -> Value {
    expect(s, "set", &format!("fn_effect_manifest_set('{manifest}')"))
}

/// Plans effects of a job that bob holds; returns their ids.
#[track_caller]
pub fn plan(s: &mut Session, job: &str, effects: &str) -> Vec<String> {
    let answer = expect(s, "planned", &format!("fn_effect_plan('{job}', 'bob', '{effects}')"));
    answer["effects"].as_array().expect("a list").iter().map(|effect| text(effect, "effect_id")).collect()
}

/// Begins an effect and ends it with success.
#[track_caller]
pub fn carry_out(s: &mut Session, effect: &str) {
    expect(s, "run", &format!("fn_effect_begin('{effect}', 'bob')"));
    expect(s, "succeeded", &format!("fn_effect_finish('{effect}', 'bob', '{{\"ref\": \"r-1\"}}')"));
}

pub fn status(s: &mut Session, effect: &str) -> String {
    s.text(&format!("SELECT status FROM agentq.v_effect WHERE effect_id = '{effect}'"))
}

/// A new job of this kind, which bob holds.
#[track_caller]
pub fn held(s: &mut Session, kind: &str) -> String {
    s.enqueue(kind);
    id(&expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}')")))
}

const BOTH: &str = r#"[{"effect_type": "hotel.book", "payload": {"room": 7}}, {"effect_type": "flight.book", "idempotency_key": "f-1"}]"#;

#[test]
fn effects_are_written_down_before_they_are_done() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let answer = expect(&mut s, "planned", &format!("fn_effect_plan('{job}', 'bob', '{BOTH}')"));
    assert_eq!((answer["planned"].clone(), answer["operation"].clone()), (json!(2), json!("book")));
    let effects = answer["effects"].as_array().expect("a list");
    assert_eq!(effects[0]["idempotency_key"], json!(format!("{job}:hotel.book:1")));
    assert_eq!(effects[1]["idempotency_key"], json!("f-1"));
    assert_eq!(effects[0]["declared_compensation"], json!("unbook_hotel"));
    assert!(effects[0]["seq"].as_i64() < effects[1]["seq"].as_i64());
    let rows = "SELECT concat_ws(' ', effect_type, status, declared_compensation, manifest_version, begun, job_kind, outcome_unknown)
                FROM agentq.v_effect ORDER BY seq";
    assert_eq!(
        s.texts(rows),
        ["hotel.book planned unbook_hotel 1 0 trip f", "flight.book planned unbook_flight 1 0 trip f"]
    );
    let hotel = text(&effects[0], "effect_id");
    let begun = expect(&mut s, "run", &format!("fn_effect_begin('{hotel}', 'bob')"));
    assert_eq!((begun["payload"].clone(), begun["begun"].clone()), (json!({"room": 7}), json!(1)));
    assert_eq!(status(&mut s, &hotel), "executing");
    // A second thread of the same attempt must not do it too.
    assert_eq!(s.call(&format!("fn_effect_begin('{hotel}', 'bob')"))["code"], "in_progress");
    expect(&mut s, "succeeded", &format!("fn_effect_finish('{hotel}', 'bob', '{{\"ref\": 1}}')"));
    let done = expect(&mut s, "done", &format!("fn_effect_begin('{hotel}', 'bob')"));
    assert_eq!(done["result"], json!({"ref": 1}));
    assert_eq!(s.call(&format!("fn_effect_finish('{hotel}', 'bob')"))["code"], "already_succeeded");
    assert_eq!(s.call(&format!("fn_effect_fail('{hotel}', 'bob', 'late')"))["code"], "already_succeeded");
    // What failed did not happen, and may be tried again.
    let flight = text(&effects[1], "effect_id");
    assert_eq!(s.call(&format!("fn_effect_finish('{flight}', 'bob')"))["code"], "not_begun");
    expect(&mut s, "run", &format!("fn_effect_begin('{flight}', 'bob')"));
    expect(&mut s, "failed", &format!("fn_effect_fail('{flight}', 'bob', 'full')"));
    assert_eq!(s.call(&format!("fn_effect_get('{flight}')"))["error"], "full");
    assert_eq!(expect(&mut s, "run", &format!("fn_effect_begin('{flight}', 'bob')"))["begun"], json!(2));
    db.assert_sound();
}

#[test]
fn a_later_attempt_does_not_repeat_what_was_done() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let first = plan(&mut s, &job, BOTH);
    carry_out(&mut s, &first[0]);
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', p_retry_after => '0')"));
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    let answer = expect(&mut s, "planned", &format!("fn_effect_plan('{job}', 'bob', '{BOTH}')"));
    assert_eq!(answer["planned"], json!(0));
    assert_eq!(answer["effects"][0]["result"], json!({"ref": "r-1"}));
    assert_eq!(plan(&mut s, &job, BOTH), first);
    expect(&mut s, "done", &format!("fn_effect_begin('{}', 'bob')", first[0]));
    expect(&mut s, "run", &format!("fn_effect_begin('{}', 'bob')", first[1]));
    // The same key is for the same effect.
    let other = r#"[{"effect_type": "flight.book", "idempotency_key": "f-1", "payload": {"seat": 2}}]"#;
    let sql = format!("SELECT agentq.fn_effect_plan('{job}', 'bob', '{other}')");
    refused(&mut s, &sql, "22023", "was planned with another payload", "another idempotency_key");
    assert_eq!(s.count("agentq_internal.effect"), 2);
}

#[test]
fn nobody_but_the_holder_touches_the_effects_of_a_job() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "x");
    let effect = plan(&mut s, &job, r#"[{"effect_type": "a"}]"#).remove(0);
    let wrong = "00000000-0000-4000-8000-000000000001";
    for call in [
        format!("fn_effect_plan('{job}', 'eve', '[{{\"effect_type\": \"b\"}}]')"),
        format!("fn_effect_plan('{job}', 'bob', '[{{\"effect_type\": \"b\"}}]', '{wrong}')"),
        format!("fn_effect_begin('{effect}', 'eve')"),
        format!("fn_effect_begin('{effect}', 'bob', '{wrong}')"),
        format!("fn_effect_finish('{effect}', 'eve', '{{}}')"),
        format!("fn_effect_fail('{effect}', 'bob', 'no', '{wrong}')"),
    ] {
        expect(&mut s, "lease_lost", &call);
    }
    assert_eq!((s.count("agentq_internal.effect"), status(&mut s, &effect).as_str()), (1, "planned"));
    // An old token is worth nothing after the job was given out again.
    let old = s.text("SELECT lease_token FROM agentq_internal.job_lease");
    expect(&mut s, "released", &format!("fn_job_release('{job}', 'bob')"));
    let new = token(&claimed(&mut s, "bob"));
    expect(&mut s, "lease_lost", &format!("fn_effect_begin('{effect}', 'bob', '{old}')"));
    expect(&mut s, "run", &format!("fn_effect_begin('{effect}', 'bob', '{new}')"));
    // Undone with the transaction.
    s.run("BEGIN");
    expect(&mut s, "succeeded", &format!("fn_effect_finish('{effect}', 'bob')"));
    plan(&mut s, &job, r#"[{"effect_type": "c"}]"#);
    s.run("ROLLBACK");
    assert_eq!((s.count("agentq_internal.effect"), status(&mut s, &effect).as_str()), (1, "executing"));
    db.assert_sound();
}

#[test]
fn a_crash_between_begin_and_finish_leaves_an_unknown_outcome() {
    let db = database();
    let mut s = db.session();
    let manifest = r#"{"operations": {"x": {"produces": ["pay", "ping"]}}, "idempotent": {"ping": true}}"#;
    declare(&mut s, manifest);
    let job = held(&mut s, "x");
    let effects = plan(&mut s, &job, r#"[{"effect_type": "pay"}, {"effect_type": "ping"}, {"effect_type": "pay"}]"#);
    for effect in &effects {
        expect(&mut s, "run", &format!("fn_effect_begin('{effect}', 'bob')"));
    }
    // Bob dies, and his lease runs out.
    s.shift_clock(301);
    assert_eq!(id(&claimed(&mut s, "cat")), job);
    assert_eq!(s.count("agentq.v_effect WHERE outcome_unknown"), 3);
    let answer = s.call(&format!("fn_effect_begin('{}', 'cat')", effects[0]));
    assert_eq!((answer["code"].clone(), answer["ok"].clone()), (json!("unknown_outcome"), json!(false)));
    assert_eq!(answer["idempotency_key"], json!(format!("{job}:pay:1")));
    // What may be repeated is.
    assert_eq!(expect(&mut s, "run", &format!("fn_effect_begin('{}', 'cat')", effects[1]))["again"], json!(true));
    // Cat has asked the other side: the first happened, the third did not.
    expect(&mut s, "succeeded", &format!("fn_effect_finish('{}', 'cat', '{{\"receipt\": 3}}')", effects[0]));
    expect(&mut s, "failed", &format!("fn_effect_fail('{}', 'cat', 'never arrived')", effects[2]));
    expect(&mut s, "run", &format!("fn_effect_begin('{}', 'cat')", effects[2]));
    // Bob comes back too late.
    expect(&mut s, "lease_lost", &format!("fn_effect_finish('{}', 'bob')", effects[2]));
    db.assert_sound();
}

#[test]
fn whoever_has_looked_says_what_became_of_an_effect() {
    let db = database();
    let mut s = db.session();
    let job = held(&mut s, "x");
    let effects = plan(&mut s, &job, r#"[{"effect_type": "pay"}, {"effect_type": "pay"}, {"effect_type": "pay"}]"#);
    for effect in &effects {
        expect(&mut s, "run", &format!("fn_effect_begin('{effect}', 'bob')"));
    }
    // While its holder is at it, nobody else knows better.
    let reconcile = |effect: &str, more: &str| format!("fn_effect_reconcile('{effect}', {more})");
    assert_eq!(s.call(&reconcile(&effects[0], "'done'"))["code"], "not_unknown");
    s.shift_clock(301);
    s.call("fn_engine_tick('reap_leases')");
    let answer = expect(&mut s, "reconciled", &reconcile(&effects[0], "'done', '{\"receipt\": 3}', 'saw it', 'ann'"));
    assert_eq!(answer["status"], "succeeded");
    expect(&mut s, "reconciled", &reconcile(&effects[1], "'not_done', p_note => 'nothing there'"));
    assert_eq!(s.call(&reconcile(&effects[0], "'not_done'"))["code"], "not_unknown");
    assert_eq!(s.call(&format!("fn_effect_get('{}')", effects[1]))["error"], "nothing there");
    let event = s.json(
        "SELECT payload FROM agentq.event WHERE event_kind = 'effect.reconciled' AND purpose = 'audit' AND subject = $1",
        &[&effects[0]],
    );
    assert_eq!(event, json!({"verdict": "done", "note": "saw it", "by": "ann"}));
    claimed(&mut s, "bob");
    assert_eq!(
        expect(&mut s, "done", &format!("fn_effect_begin('{}', 'bob')", effects[0]))["result"]["receipt"],
        json!(3)
    );
    expect(&mut s, "run", &format!("fn_effect_begin('{}', 'bob')", effects[1]));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    for (effects, message, hint) in [
        ("{}", "p_effects must be a JSON array", "For example"),
        ("[7]", "p_effects[0] must be a JSON object", ""),
        ("[{}]", "p_effects[0] has no effect_type", "hotel_booking.book"),
        (
            r#"[{"effect_type": "a"}, {"effect_type": 7}]"#,
            "p_effects[1].effect_type must be a text, not 7",
            "For example",
        ),
        (r#"[{"effect_type": " "}]"#, "p_effects[0].effect_type must not be empty", ""),
        (r#"[{"effect_type": "a", "when": "now"}]"#, "unknown key \"when\"", "effect_type, payload"),
        (r#"[{"effect_type": "a", "payload": []}]"#, "p_effects[0].payload must be a JSON object", ""),
        (r#"[{"effect_type": "a", "payload": {"token": 1}}]"#, "holds the key \"token\"", "payload_ref"),
        (r#"[{"effect_type": "a", "counter_effects": 1}]"#, "must be true or false", ""),
        (r#"[{"effect_type": "a", "declared_compensation": "undo"}]"#, "has no compensation \"undo\"", "manifest_set"),
    ] {
        let sql = format!("SELECT agentq.fn_effect_plan('{job}', 'bob', '{effects}')");
        refused(&mut s, &sql, "22023", message, hint);
    }
    let none = "00000000-0000-4000-8000-000000000001";
    for (call, code, message) in [
        ("fn_effect_plan(NULL, 'bob', '[]')".to_owned(), "22004", "p_job_id must not be NULL"),
        (format!("fn_effect_plan('{job}', 'bob', NULL)"), "22004", "p_effects must not be NULL"),
        (format!("fn_effect_plan('{none}', 'bob', '[]')"), "P0002", "there is no job"),
        (format!("fn_effect_begin('{none}', 'bob')"), "P0002", "there is no effect"),
        (format!("fn_effect_finish('{none}', NULL)"), "22004", "p_lease_owner must not be NULL"),
        (format!("fn_effect_get('{none}')"), "P0002", "there is no effect"),
        (format!("fn_effect_reconcile('{none}', 'maybe')"), "22023", "p_verdict \"maybe\" is not known"),
        ("fn_effect_compensate()".to_owned(), "22004", "p_job_id or p_mission_id must not be NULL"),
        (format!("fn_effect_compensate('{none}', '{none}')"), "22023", "were both given"),
        (format!("fn_effect_compensate('{none}')"), "P0002", "there is no job"),
        (format!("fn_effect_compensate('{none}', p_options => '{{\"all\": 1}}')"), "22023", "unknown key \"all\""),
        (
            format!("fn_effect_compensate('{none}', p_options => '{{\"include_unknown\": 1}}')"),
            "22023",
            "true or false",
        ),
    ] {
        refused(&mut s, &format!("SELECT agentq.{call}"), code, message, "");
    }
    assert_eq!((s.count("agentq_internal.effect"), s.count("agentq.effect_chain")), (0, 0));
    // An effect may name a compensation of its operation, and no other.
    declare(&mut s, r#"{"operations": {"other": {}}, "compensations": {"undo_other": {"of": "other"}}}"#);
    let sql = format!(
        "SELECT agentq.fn_effect_plan('{job}', 'bob', '[{{\"effect_type\": \"a\", \"declared_compensation\": \"undo_other\"}}]')"
    );
    refused(&mut s, &sql, "22023", "is the compensation of \"other\", not of \"book\"", "of the operation");
    // A job of no operation may name any.
    let free = held(&mut s, "free");
    plan(&mut s, &free, r#"[{"effect_type": "a", "declared_compensation": "undo_other"}]"#);
    assert_eq!(s.text("SELECT declared_compensation FROM agentq.v_effect"), "undo_other");
}
