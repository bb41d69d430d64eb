//! The catalog of operations and compensations.

use super::{TRIP, declare};
use agentq_tests::{Session, database, expect, json, refused, until_someone_waits};

#[track_caller]
fn set_refused(s: &mut Session, manifest: &str, message: &str, hint: &str) {
    let before = s.count("agentq.effect_manifest");
    refused(s, &format!("SELECT agentq.fn_effect_manifest_set('{manifest}')"), "22023", message, hint);
    assert_eq!(s.count("agentq.effect_manifest"), before);
}

#[test]
fn a_manifest_has_versions_and_an_audit_trail() {
    let db = database();
    let mut s = db.session();
    assert_eq!(expect(&mut s, "sound", "fn_effect_manifest_check()")["version"], json!(null));
    let answer = declare(&mut s, TRIP);
    assert_eq!(
        (answer["version"].clone(), answer["operations"].clone(), answer["compensations"].clone()),
        (json!(1), json!(1), json!(2))
    );
    assert_eq!(expect(&mut s, "unchanged", &format!("fn_effect_manifest_set('{TRIP}')"))["version"], json!(1));
    let more = r#"{"operations": {"mail": {"produces": ["mail.send"]}}}"#;
    let answer = expect(&mut s, "set", &format!("fn_effect_manifest_set('{more}', p_note => 'letters')"));
    assert_eq!((answer["version"].clone(), answer["operations"].clone()), (json!(2), json!(2)));
    let rows = "SELECT concat_ws(' ', operation, produces, requires_compensation, job_kind) FROM agentq.effect_operation ORDER BY 1";
    assert_eq!(s.texts(rows), ["book {flight.book,hotel.book} t trip", "mail {mail.send} f mail"]);
    let rows =
        "SELECT concat_ws(' ', compensation, of_operation, produces, counter_effects, job_kind, queue, max_attempts)
                FROM agentq.effect_compensation ORDER BY 1";
    assert_eq!(
        s.texts(rows),
        [
            "unbook_flight book {flight.cancel} t flight.undo default 2",
            "unbook_hotel book {hotel.cancel} t hotel.undo default 1"
        ]
    );
    assert_eq!(s.count("agentq.effect_type WHERE inverse = 'hotel.cancel' OR idempotent"), 3);
    // Every version is kept, and who made it.
    assert_eq!(s.text("SELECT note || set_by FROM agentq.effect_manifest WHERE version = 2"), "letterspostgres");
    assert_eq!(s.count("agentq.effect_manifest WHERE manifest->'operations' ? 'mail'"), 1);
    let events = "SELECT subject FROM agentq.event WHERE event_kind = 'effect.manifest_set' AND purpose = 'audit' ORDER BY event_id";
    assert_eq!(s.texts(events), ["manifest:1", "manifest:2"]);
    // The whole anew: what is not named goes.
    let answer = expect(&mut s, "set", &format!("fn_effect_manifest_set('{more}', true)"));
    assert_eq!(
        (answer["version"].clone(), answer["operations"].clone(), answer["compensations"].clone()),
        (json!(3), json!(1), json!(0))
    );
    s.run("BEGIN");
    declare(&mut s, TRIP);
    s.run("ROLLBACK");
    assert_eq!(s.count("agentq.effect_operation"), 1);
    // What was rolled back is not remembered, though its version is used again.
    let other = r#"{"operations": {"other": {}}}"#;
    assert_eq!(declare(&mut s, other)["version"], json!(4));
    assert_eq!(s.texts("SELECT operation FROM agentq.effect_operation ORDER BY 1"), ["mail", "other"]);
    assert_eq!(declare(&mut s, r#"{"operations": {"mail": null}}"#)["operations"], json!(1));
}

#[test]
fn each_fault_is_refused_by_its_name_and_path() {
    let db = database();
    let mut s = db.session();
    for (manifest, message, hint) in [
        (
            r#"{"operations": {"a": {"produces": ["x"], "requires_compensation": true}}}"#,
            "operations.a.requires_compensation: the operation \"a\" requires a compensation and has none [missing_compensation]",
            "fn_effect_manifest_set",
        ),
        (
            r#"{"compensations": {"c": {"of": "a"}}}"#,
            "compensations.c.of: there is no operation or compensation \"a\" [unknown_operation]",
            "Declare the operation",
        ),
        (r#"{"operations": {"a": {"compensation": "c"}}}"#, "[unknown_compensation]", "same manifest"),
        (r#"{"inverse_of": {"x": "y"}}"#, "no operation and no compensation produces \"x\" [unknown_effect]", "Mend"),
        (
            r#"{"operations": {"a": {"produces": ["mail"]}}, "compensations": {"c": {"of": "a", "produces": ["mail"]}}}"#,
            "compensations.c: compensating would never end: c → mail → c [cycle]",
            "types of their own",
        ),
        (
            r#"{"compensations": {"b": {"of": "c"}, "c": {"of": "b"}}}"#,
            "compensating would never end: b → c → b [cycle]",
            "",
        ),
        (
            r#"{"operations": {"a": {}}, "compensations": {"b": {"of": "a"}, "c": {"of": "b"}, "d": {"of": "c"}}}"#,
            "a chain of 3 compensations is longer than the 2 allowed: a → b → c → d [too_deep]",
            "flow.compensation.max_depth",
        ),
        (
            r#"{"operations": {"a": {"produces": ["x"]}}, "compensations": {"c": {"of": "a", "produces": ["y"], "counter_effects": true}}}"#,
            "\"y\" is not the inverse of any effect of \"a\" [not_inverse]",
            "inverse_of",
        ),
        (
            r#"{"operations": {"a": {}}, "compensations": {"c": {"of": "a", "queue": "nowhere"}}}"#,
            "compensations.c.queue: there is no queue \"nowhere\" [unknown_queue]",
            "fn_queue_set",
        ),
        (r#"{"operations": {"a": {}}, "compensations": {"a": {"of": "a"}}}"#, "[duplicate_name]", "another name"),
        (r#"{"operations": {"a": {"produces": [1]}}}"#, "operations.a.produces[0] must be a text, not 1", ""),
        (r#"{"operation": {}}"#, "unknown key \"operation\"", "operations, compensations"),
        ("[]", "the manifest must be a JSON object", "For example"),
    ] {
        set_refused(&mut s, manifest, message, hint);
    }
    refused(&mut s, "SELECT agentq.fn_effect_manifest_set(NULL)", "22004", "p_manifest must not be NULL", "");
    // What is wrong with all of it is shown by a check, which changes nothing.
    let faulty = r#"{"operations": {"a": {"requires_compensation": true}, "b": {"compensation": "c"}}}"#;
    let answer = s.call(&format!("fn_effect_manifest_check('{faulty}')"));
    assert_eq!((answer["ok"].clone(), answer["code"].clone()), (json!(false), json!("faulty")));
    let codes: Vec<_> =
        answer["faults"].as_array().expect("a list").iter().map(|fault| fault["code"].clone()).collect();
    assert_eq!(codes, [json!("unknown_compensation"), json!("missing_compensation")]);
    set_refused(&mut s, faulty, "(1 more: agentq.fn_effect_manifest_check shows all)", "");
    assert_eq!((s.count("agentq.effect_operation"), s.count("agentq.event")), (0, 0));
    // Chains may be longer where somebody has said so; a catalog that has become faulty is shown.
    s.call("fn_config_set('flow.compensation.max_depth', '3')");
    declare(
        &mut s,
        r#"{"operations": {"a": {}}, "compensations": {"b": {"of": "a"}, "c": {"of": "b"}, "d": {"of": "c"}}}"#,
    );
    expect(&mut s, "sound", "fn_effect_manifest_check()");
    s.call("fn_config_set('flow.compensation.max_depth', '2')");
    let answer = s.call("fn_effect_manifest_check()");
    assert_eq!(answer["faults"][0]["chain"], json!(["a", "b", "c", "d"]));
}

#[test]
fn entries_can_be_set_and_taken_out_one_by_one() {
    let db = database();
    let mut s = db.session();
    expect(&mut s, "set", r#"fn_effect_operation_set('book', '{"produces": ["hotel.book"]}')"#);
    expect(&mut s, "set", r#"fn_effect_compensation_set('unbook', '{"of": "book", "produces": ["hotel.cancel"]}')"#);
    expect(
        &mut s,
        "set",
        r#"fn_effect_operation_set('book', '{"produces": ["hotel.book"], "requires_compensation": true}')"#,
    );
    let sql = "SELECT agentq.fn_effect_compensation_remove('unbook')";
    refused(&mut s, sql, "22023", "requires a compensation and has none", "");
    let sql = "SELECT agentq.fn_effect_operation_remove('book')";
    refused(&mut s, sql, "22023", "there is no operation or compensation \"book\" [unknown_operation]", "");
    expect(&mut s, "set", r#"fn_effect_operation_set('book', '{"produces": ["hotel.book"]}')"#);
    expect(&mut s, "set", "fn_effect_compensation_remove('unbook')");
    expect(&mut s, "set", "fn_effect_operation_remove('book')");
    for (call, code, message) in [
        ("fn_effect_operation_remove('book')", "P0002", "the manifest has no operation \"book\""),
        ("fn_effect_compensation_remove('unbook')", "P0002", "the manifest has no compensation \"unbook\""),
        ("fn_effect_operation_set('book', NULL)", "22004", "p_definition must not be NULL"),
        ("fn_effect_operation_set('book', 'null')", "22023", "p_definition must be a JSON object"),
        ("fn_effect_compensation_set(' ', '{}')", "22023", "p_compensation must not be empty"),
        ("fn_effect_compensation_set('c', '{}')", "22023", "compensations.c.of must be a text, not null"),
    ] {
        refused(&mut s, &format!("SELECT agentq.{call}"), code, message, "");
    }
}

#[test]
fn two_sessions_cannot_together_make_a_cycle() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, r#"{"operations": {"send": {"produces": ["mail"]}, "file": {"produces": ["note"]}}}"#);
    // Each is sound alone: a mail is corrected by a note, and a note by a mail.
    s.run("BEGIN");
    expect(&mut s, "set", r#"fn_effect_compensation_set('a', '{"of": "send", "produces": ["note"]}')"#);
    std::thread::scope(|scope| {
        let mut other = db.session();
        let waiting = scope.spawn(move || {
            other.fails(r#"SELECT agentq.fn_effect_compensation_set('b', '{"of": "file", "produces": ["mail"]}')"#)
        });
        until_someone_waits(&mut db.session());
        s.run("COMMIT");
        let failure = waiting.join().expect("the other session");
        assert_eq!(failure.code, "22023", "{failure:?}");
        assert!(failure.message.contains("a → note → b → mail → a [cycle]"), "{failure:?}");
    });
    assert_eq!(s.texts("SELECT compensation FROM agentq.effect_compensation"), ["a"]);
    // One with an old snapshot is told to come again.
    let mut old = db.session();
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    old.count("agentq.effect_manifest");
    declare(&mut s, r#"{"operations": {"more": {}}}"#);
    let failure = old.fails(r#"SELECT agentq.fn_effect_operation_set('other', '{}')"#);
    assert_eq!(failure.code, "40001", "{failure:?}");
}

#[test]
fn a_catalog_that_asks_for_what_the_runtime_cannot_do_is_refused() {
    let db = database();
    let mut s = db.session();
    let can = s.call("fn_runtime_capabilities()");
    assert_eq!(
        (&can["capabilities"]["SIGNALS"]["has"], &can["capabilities"]["SAGA_COMPENSATION_NATIVE"]["has"]),
        (&true.into(), &false.into())
    );
    s.call(r#"fn_effect_manifest_set('{"requires": ["QUEUES", "SIGNALS"]}')"#);
    assert_eq!(s.text("SELECT manifest->'requires' FROM agentq.effect_manifest"), r#"["QUEUES", "SIGNALS"]"#);
    let failure = s.fails(r#"SELECT agentq.fn_effect_manifest_set('{"requires": ["SAGA_COMPENSATION_NATIVE"]}')"#);
    assert!(failure.code == "22023" && failure.message.contains("missing_capability"), "{failure:?}");
    assert!(failure.hint.contains("fn_runtime_capabilities"), "{failure:?}");
}
