//! What was done otherwise than declared is written down.

use super::{TRIP, carry_out, declare, held, plan};
use agentq_tests::{Session, claimed, database, expect, id, json};

fn drift(s: &mut Session) -> Vec<String> {
    s.texts(
        "SELECT concat_ws(' ', about, declared_by, drift, effect_type, job_kind, manifest_version)
         FROM agentq.v_effect_drift ORDER BY 1",
    )
}

/// A booked hotel whose compensation bob holds; returns that job and the effect.
#[track_caller]
fn compensating(s: &mut Session) -> (String, String) {
    let job = held(s, "trip");
    let effect = plan(s, &job, r#"[{"effect_type": "hotel.book"}]"#).remove(0);
    carry_out(s, &effect);
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    expect(s, "compensating", &format!("fn_effect_compensate('{job}')"));
    (id(&claimed(s, "bob")), effect)
}

#[test]
fn a_compensation_that_does_what_it_declares_drifts_nowhere() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let (job, _) = compensating(&mut s);
    let effect = plan(&mut s, &job, r#"[{"effect_type": "hotel.cancel"}]"#).remove(0);
    carry_out(&mut s, &effect);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(drift(&mut s), Vec::<String>::new());
    assert_eq!(s.count("agentq.event WHERE event_kind LIKE '%drift'"), 0);
}

#[test]
fn a_compensation_is_compared_with_the_manifest_both_ways() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let (job, compensated) = compensating(&mut s);
    // It writes a mail instead of cancelling the hotel.
    let effects = plan(&mut s, &job, r#"[{"effect_type": "mail.send"}, {"effect_type": "hotel.cancel"}]"#);
    carry_out(&mut s, &effects[0]);
    assert_eq!(s.count("agentq.event WHERE event_kind LIKE '%drift'"), 0);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(
        drift(&mut s),
        [
            "compensation unbook_hotel missing hotel.cancel hotel.undo 1",
            "compensation unbook_hotel undeclared mail.send hotel.undo 1"
        ]
    );
    let event = s.json(
        "SELECT payload FROM agentq.event WHERE event_kind = 'compensation.drift' AND purpose = 'audit' AND subject = $1",
        &[&job],
    );
    assert_eq!(
        (event["undeclared"].clone(), event["missing"].clone(), event["effect_id"].clone()),
        (json!(["mail.send"]), json!(["hotel.cancel"]), json!(compensated))
    );
    // It is recorded, and the chain goes on.
    assert_eq!(s.text("SELECT status FROM agentq.effect_chain"), "compensated");
    db.assert_sound();
}

#[test]
fn of_a_compensation_that_failed_nothing_is_missing_and_what_stands_is_told() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let (job, _) = compensating(&mut s);
    plan(&mut s, &job, r#"[{"effect_type": "mail.send"}]"#);
    expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{job}', 'bob', 'no')"));
    let found = ["standing hotel.book", "undeclared mail.send"]
        .map(|what| format!("compensation unbook_hotel {what} hotel.undo 1"));
    assert_eq!(drift(&mut s), found);
    let told =
        "SELECT payload->'standing' FROM agentq.event WHERE event_kind = 'compensation.drift' AND payload ? 'standing'";
    assert_eq!(s.json(told, &[]), agentq_tests::json!(["hotel.book"]));
}

#[test]
fn an_operation_that_plans_what_it_does_not_declare_is_told_of_at_once() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let effects = r#"[{"effect_type": "hotel.book"}, {"effect_type": "mail.send"}, {"effect_type": "mail.send"}]"#;
    plan(&mut s, &job, effects);
    let found = ["operation book undeclared mail.send trip 1"];
    assert_eq!(drift(&mut s), found);
    // No compensation is meant for what nobody has declared.
    assert_eq!(s.count("agentq_internal.effect WHERE effect_type = 'mail.send' AND declared_compensation IS NULL"), 2);
    let events = "agentq.event WHERE event_kind = 'operation.drift' AND purpose = 'audit'";
    assert_eq!(s.count(events), 1);
    // Once for a job, also if it is tried again or plans more of the same.
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', p_retry_after => '0')"));
    claimed(&mut s, "bob");
    plan(&mut s, &job, effects);
    plan(&mut s, &job, r#"[{"effect_type": "mail.send", "idempotency_key": "another"}]"#);
    assert_eq!((drift(&mut s).len(), s.count(events)), (1, 1));
    // Nothing is declared of jobs of other kinds.
    let free = held(&mut s, "free");
    plan(&mut s, &free, r#"[{"effect_type": "mail.send"}]"#);
    assert_eq!(drift(&mut s), found);
    db.assert_sound();
}
