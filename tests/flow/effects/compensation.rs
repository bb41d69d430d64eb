//! Compensating what was done: in reverse order, one after the other, as far as it goes.

use super::{TRIP, carry_out, declare, held, plan, status};
use crate::missions::start;
use agentq_tests::{Session, Value, claimed, database, expect, id, json, text, until_someone_waits};

const THREE: &str = r#"[{"effect_type": "hotel.book", "payload": {"room": 7}}, {"effect_type": "flight.book"}, {"effect_type": "hotel.book"}]"#;

/// A finished trip with a hotel, a flight and a second hotel, all booked.
#[track_caller]
fn trip(s: &mut Session) -> (String, Vec<String>) {
    declare(s, TRIP);
    let job = held(s, "trip");
    let effects = plan(s, &job, THREE);
    effects.iter().for_each(|effect| carry_out(s, effect));
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    (job, effects)
}

/// Claims the compensation whose turn it is; there must be no other.
#[track_caller]
pub fn turn(s: &mut Session) -> Value {
    let claim = expect(s, "claimed", "fn_job_claim('bob')");
    assert_eq!(s.claim("cat")["code"], "empty", "compensations run one after the other");
    claim
}

/// Does what a compensation is for, and acks it.
#[track_caller]
pub fn undo(s: &mut Session, claim: &Value) {
    let effect = claim["payload_json"]["effect_type"].as_str().expect("a type").replace("book", "cancel");
    let planned = plan(s, &id(claim), &format!("[{{\"effect_type\": \"{effect}\"}}]"));
    carry_out(s, &planned[0]);
    expect(s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(claim)));
}

fn statuses(s: &mut Session, effects: &[String]) -> Vec<String> {
    effects.iter().map(|effect| status(s, effect)).collect()
}

fn chains(s: &mut Session) -> Vec<String> {
    s.texts(
        "SELECT concat_ws(' ', status, compensated || '/' || effects, unknown, irreversible, reason)
         FROM agentq.effect_chain ORDER BY chain_id",
    )
}

fn audited(s: &mut Session) -> Vec<String> {
    s.texts(
        "SELECT event_kind FROM agentq.event WHERE purpose = 'audit' AND event_kind ~ 'compensat' ORDER BY event_id",
    )
}

#[test]
fn effects_are_compensated_in_reverse_order_one_after_the_other() {
    let db = database();
    let mut s = db.session();
    let (job, effects) = trip(&mut s);
    let answer = expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}', p_reason => 'storm')"));
    assert_eq!((answer["effects"].clone(), answer["unknown"].clone()), (json!(3), json!([])));
    let mut order = Vec::new();
    for number in 0..3 {
        let claim = turn(&mut s);
        if number == 0 {
            assert_eq!(text(&answer, "compensation_job_id"), id(&claim));
        }
        let told = claim["payload_json"].clone();
        order.push(text(&told, "effect_id"));
        let kind = if told["effect_type"] == "hotel.book" { "hotel.undo" } else { "flight.undo" };
        assert_eq!(claim["job_kind"], kind);
        assert_eq!((told["result"].clone(), told["job_id"].clone()), (json!({"ref": "r-1"}), json!(job)));
        assert_eq!(told["outcome_unknown"], json!(false));
        let effect = text(&told, "effect_id");
        assert_eq!(claim["payload_ref"], json!(format!("effect:{effect}")));
        assert_eq!(status(&mut s, &effect), "compensating");
        undo(&mut s, &claim);
        assert_eq!(status(&mut s, &effect), "compensated");
    }
    order.reverse();
    assert_eq!(order, effects);
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(chains(&mut s), ["compensated 3/3 0 0 storm"]);
    assert_eq!(
        s.count("agentq.v_effect WHERE compensates IS NOT NULL AND counter_effects AND status = 'succeeded'"),
        3
    );
    assert_eq!(s.count("agentq.v_effect_drift"), 0);
    assert_eq!(
        audited(&mut s),
        [
            "compensation.started",
            "effect.compensated",
            "effect.compensated",
            "effect.compensated",
            "compensation.completed"
        ]
    );
    // Nothing is compensated twice.
    expect(&mut s, "nothing_to_compensate", &format!("fn_effect_compensate('{job}')"));
    assert_eq!(s.count("agentq.effect_chain"), 1);
    db.assert_sound();
}

#[test]
fn a_compensation_that_fails_for_good_halts_the_chain() {
    let db = database();
    let mut s = db.session();
    let (job, effects) = trip(&mut s);
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
    let first = turn(&mut s);
    undo(&mut s, &first);
    // The second has two attempts: the first failure is not the end.
    let second = id(&turn(&mut s));
    expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{second}', 'bob', 'busy', p_retry_after => '0')"));
    assert_eq!(status(&mut s, &effects[1]), "compensating");
    assert_eq!(id(&turn(&mut s)), second);
    expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{second}', 'bob', 'no such flight')"));
    assert_eq!(s.claim("bob")["code"], "empty");
    assert_eq!(statuses(&mut s, &effects), ["succeeded", "compensation_failed", "compensated"]);
    assert_eq!(chains(&mut s), ["halted 1/3 0 0"]);
    let error = s.text("SELECT error FROM agentq.effect_chain");
    assert!(error.contains(&second) && error.contains("no such flight"), "{error}");
    let event = s.json("SELECT payload FROM agentq.event WHERE event_kind = 'compensation.halted'", &[]);
    assert_eq!(
        (event["effects"].clone(), event["compensated"].clone(), event["effect_id"].clone()),
        (json!(3), json!(1), json!(effects[1]))
    );
    // When the reason is mended, another call goes on where it stopped.
    let answer = expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
    assert_eq!(answer["effects"], json!(2));
    for effect in [&effects[1], &effects[0]] {
        let claim = turn(&mut s);
        assert_eq!(text(&claim["payload_json"], "effect_id"), *effect);
        undo(&mut s, &claim);
    }
    assert_eq!(statuses(&mut s, &effects), ["compensated", "compensated", "compensated"]);
    assert_eq!(chains(&mut s), ["halted 1/3 0 0", "compensated 2/2 0 0"]);
    db.assert_sound();
}

#[test]
fn however_the_job_of_a_compensation_ends_the_chain_knows() {
    for (how, ends) in [
        ("fn_job_cancel('JOB', 'enough')", "halted"),
        ("fn_job_move_to_dead_letter('JOB', 'enough')", "halted"),
        ("fn_job_fail_or_retry('JOB', 'bob', 'never', p_verdict => 'discard')", "halted"),
        ("fn_job_ack_batch('bob', '[\"JOB\"]')", "running"),
        ("fn_job_ack_and_claim('JOB', 'bob')", "running"),
        ("expiry", "halted"),
    ] {
        let db = database();
        let mut s = db.session();
        let (job, effects) = trip(&mut s);
        let answer = expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
        let compensation = text(&answer, "compensation_job_id");
        if how == "expiry" {
            turn(&mut s);
            s.shift_clock(301);
            s.call("fn_engine_tick('reap_leases')");
        } else {
            if !how.contains("cancel") && !how.contains("move") {
                turn(&mut s);
            }
            s.call(&how.replace("JOB", &compensation));
        }
        assert_eq!(s.text("SELECT status FROM agentq.effect_chain"), ends, "{how}");
        let expected = if ends == "halted" { "compensation_failed" } else { "compensated" };
        assert_eq!(status(&mut s, &effects[2]), expected, "{how}");
        let next = if ends == "halted" { "succeeded" } else { "compensating" };
        assert_eq!(status(&mut s, &effects[1]), next, "{how}");
        db.assert_sound();
    }
}

#[test]
fn the_next_compensation_comes_with_the_transaction_that_ends_the_one_before() {
    let db = database();
    let mut s = db.session();
    let (job, effects) = trip(&mut s);
    s.run("BEGIN");
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
    s.run("ROLLBACK");
    assert_eq!((s.count("agentq.effect_chain"), s.claim("bob")["code"].clone()), (0, json!("empty")));
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
    let claim = turn(&mut s);
    s.run("BEGIN");
    undo(&mut s, &claim);
    s.run("ROLLBACK");
    assert_eq!(statuses(&mut s, &effects), ["succeeded", "succeeded", "compensating"]);
    assert_eq!(s.claim("cat")["code"], "empty");
    undo(&mut s, &claim);
    assert_eq!(statuses(&mut s, &effects), ["succeeded", "compensating", "compensated"]);
    db.assert_sound();
}

#[test]
fn of_two_sessions_that_compensate_the_same_one_starts_the_chain() {
    let db = database();
    let mut s = db.session();
    let (job, _) = trip(&mut s);
    let call = format!("fn_effect_compensate('{job}')");
    s.run("BEGIN");
    let answer = expect(&mut s, "compensating", &call);
    std::thread::scope(|scope| {
        let (mut other, call) = (db.session(), call.clone());
        let waiting = scope.spawn(move || other.call(&call));
        until_someone_waits(&mut db.session());
        s.run("COMMIT");
        let told = waiting.join().expect("the other session");
        assert_eq!(
            (told["code"].clone(), told["ok"].clone(), told["chain_id"].clone()),
            (json!("already_compensating"), json!(false), answer["chain_id"].clone())
        );
    });
    assert_eq!(s.count("agentq_internal.job WHERE job_kind LIKE '%.undo'"), 1);
    // Had it rolled back, the other would have started it.
    let claim = turn(&mut s);
    expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{}', 'bob', 'no')", id(&claim)));
    s.run("BEGIN");
    expect(&mut s, "compensating", &call);
    std::thread::scope(|scope| {
        let (mut other, call) = (db.session(), call.clone());
        let waiting = scope.spawn(move || other.call(&call));
        until_someone_waits(&mut db.session());
        s.run("ROLLBACK");
        assert_eq!(waiting.join().expect("the other session")["code"], "compensating");
    });
    assert_eq!(s.count("agentq.effect_chain WHERE status = 'running'"), 1);
    db.assert_sound();
}

#[test]
fn a_job_that_may_do_more_is_waited_for() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let effects = plan(&mut s, &job, THREE);
    carry_out(&mut s, &effects[0]);
    for _ in 0..2 {
        let answer = s.call(&format!("fn_effect_compensate('{job}')"));
        assert_eq!((answer["code"].clone(), answer["jobs"].clone()), (json!("not_finished"), json!([job])));
        // Neither held nor finished: it will run again.
        s.call(&format!("fn_job_release('{job}', 'bob')"));
    }
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{job}')"));
    assert_eq!(expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"))["effects"], json!(1));
    // What was only planned has not happened.
    assert_eq!(statuses(&mut s, &effects), ["compensating", "planned", "planned"]);
    db.assert_sound();
}

#[test]
fn an_unknown_outcome_is_told_and_not_compensated_blindly() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let effects = plan(&mut s, &job, r#"[{"effect_type": "hotel.book"}, {"effect_type": "mail.send"}]"#);
    expect(&mut s, "run", &format!("fn_effect_begin('{}', 'bob')", effects[0]));
    carry_out(&mut s, &effects[1]);
    expect(&mut s, "dead_letter", &format!("fn_job_move_to_dead_letter('{job}', 'lost')"));
    let answer = expect(&mut s, "nothing_to_compensate", &format!("fn_effect_compensate('{job}')"));
    assert_eq!((answer["unknown"].clone(), answer["irreversible"].clone()), (json!([effects[0]]), json!(1)));
    assert_eq!(status(&mut s, &effects[0]), "executing");
    let event = "agentq.event WHERE event_kind = 'compensation.unknown_outcome' AND purpose = 'audit'";
    assert_eq!(s.count(event), 1);
    // Asked for, it is compensated, and the worker is told that it may find nothing.
    let asked = format!("fn_effect_compensate('{job}', p_options => '{{\"include_unknown\": true}}')");
    expect(&mut s, "compensating", &asked);
    let claim = turn(&mut s);
    assert_eq!(claim["payload_json"]["outcome_unknown"], json!(true));
    undo(&mut s, &claim);
    assert_eq!(statuses(&mut s, &effects), ["compensated", "succeeded"]);
    assert_eq!(chains(&mut s), ["compensated 1/1 0 1"]);
    // Nor is it begun again.
    assert_eq!(s.count("agentq.effect_chain"), 1);
    db.assert_sound();
}

#[test]
fn the_settings_can_have_unknown_outcomes_compensated() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let effects = plan(&mut s, &job, r#"[{"effect_type": "hotel.book"}]"#);
    expect(&mut s, "run", &format!("fn_effect_begin('{}', 'bob')", effects[0]));
    expect(&mut s, "dead_letter", &format!("fn_job_move_to_dead_letter('{job}', 'lost')"));
    s.call("fn_config_set('flow.compensation.include_unknown', 'true')");
    let not = format!("fn_effect_compensate('{job}', p_options => '{{\"include_unknown\": false}}')");
    expect(&mut s, "nothing_to_compensate", &not);
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
}

#[test]
fn a_compensation_that_cannot_be_enqueued_harms_nobody() {
    let db = database();
    let mut s = db.session();
    let (job, effects) = trip(&mut s);
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
    let claim = turn(&mut s);
    // The compensation of the next effect is taken out meanwhile.
    declare(
        &mut s,
        r#"{"operations": {"book": {"produces": ["hotel.book", "flight.book"], "job_kind": "trip"}},
            "compensations": {"unbook_flight": null}, "inverse_of": {"flight.book": null}, "idempotent": {"flight.cancel": false}}"#,
    );
    undo(&mut s, &claim);
    assert_eq!(statuses(&mut s, &effects), ["succeeded", "compensation_failed", "compensated"]);
    assert_eq!(chains(&mut s), ["halted 1/3 0 0"]);
    assert!(s.text("SELECT error FROM agentq.effect_chain").contains("no compensation \"unbook_flight\""));
    // Declared again, the rest can follow.
    declare(&mut s, TRIP);
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
    db.assert_sound();
}

#[test]
fn what_is_too_large_for_a_payload_is_read_by_its_reference() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    s.call("fn_config_set('queue.payload.max_bytes', '2048')");
    let job = held(&mut s, "trip");
    let large = "x".repeat(1500);
    let effect = plan(&mut s, &job, &format!(r#"[{{"effect_type": "hotel.book", "payload": {{"note": "{large}"}}}}]"#))
        .remove(0);
    expect(&mut s, "run", &format!("fn_effect_begin('{effect}', 'bob')"));
    let sql = format!("SELECT agentq.fn_effect_finish('{effect}', 'bob', '{{\"note\": \"{large}{large}\"}}')");
    let failure = s.fails(&sql);
    assert_eq!(failure.code, "22023");
    assert!(failure.message.contains("p_result is") && failure.hint.contains("queue.payload.max_bytes"), "{failure:?}");
    expect(&mut s, "succeeded", &format!("fn_effect_finish('{effect}', 'bob', '{{\"note\": \"{large}\"}}')"));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
    let claim = turn(&mut s);
    assert_eq!(claim["payload_json"]["payload"], json!(null));
    let found = s.call(&format!("fn_effect_get('{}')", text(&claim["payload_json"], "effect_id")));
    assert_eq!((found["payload"]["note"].clone(), found["result"]["note"].clone()), (json!(large), json!(large)));
}

#[test]
fn the_effects_of_a_mission_are_one_chain_across_its_jobs() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let mission = start(&mut s, &json!({"steps": [{"name": "a", "kind": "trip"}, {"name": "b", "kind": "trip"}]}), "");
    let jobs = [id(&claimed(&mut s, "bob")), id(&claimed(&mut s, "bob"))];
    // By turns: what counts is the order in which they were declared, not whose they are.
    let mut effects = Vec::new();
    for (number, effect_type) in ["hotel.book", "flight.book", "hotel.book", "flight.book"].into_iter().enumerate() {
        let one = format!(r#"[{{"effect_type": "{effect_type}", "idempotency_key": "{number}"}}]"#);
        effects.push(plan(&mut s, &jobs[number % 2], &one).remove(0));
        carry_out(&mut s, &effects[number]);
    }
    let call = format!("fn_effect_compensate(p_mission_id => '{mission}')");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[0]));
    assert_eq!(s.call(&call)["jobs"], json!([jobs[1]]));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", jobs[1]));
    expect(&mut s, "compensating", &call);
    // What the chain has taken is nobody else's.
    let part = expect(&mut s, "nothing_to_compensate", &format!("fn_effect_compensate('{}')", jobs[0]));
    assert_eq!(part["unknown"], json!([]));
    for effect in effects.iter().rev() {
        let claim = turn(&mut s);
        assert_eq!(text(&claim["payload_json"], "effect_id"), *effect);
        assert_eq!(claim["run_id"], json!(mission));
        undo(&mut s, &claim);
    }
    assert_eq!(chains(&mut s), ["compensated 4/4 0 0"]);
    // The undoing belongs to the mission as well, and is not undone with it.
    assert_eq!(s.count(&format!("agentq.v_effect WHERE mission_id = '{mission}' AND compensates IS NOT NULL")), 4);
    expect(&mut s, "nothing_to_compensate", &call);
    db.assert_sound();
}

#[test]
fn a_chain_of_a_mission_and_one_of_its_jobs_do_not_take_the_same_effect() {
    let db = database();
    let mut s = db.session();
    let (job, effects) = trip(&mut s);
    let mission = start(&mut s, &json!({"steps": [{"name": "a", "kind": "a"}]}), "");
    let other = id(&claimed(&mut s, "bob"));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{other}', 'bob')"));
    s.run(&format!("UPDATE agentq_internal.effect SET mission_id = '{mission}'"));
    s.run("BEGIN");
    expect(&mut s, "compensating", &format!("fn_effect_compensate(p_mission_id => '{mission}')"));
    std::thread::scope(|scope| {
        let (mut other, call) = (db.session(), format!("fn_effect_compensate('{job}')"));
        let waiting = scope.spawn(move || other.call(&call));
        until_someone_waits(&mut db.session());
        s.run("COMMIT");
        assert_eq!(waiting.join().expect("the other session")["code"], "nothing_to_compensate");
    });
    assert_eq!(statuses(&mut s, &effects), ["succeeded", "succeeded", "compensating"]);
    assert_eq!((s.count("agentq.effect_chain"), s.count("agentq_internal.job WHERE job_kind LIKE '%.undo'")), (1, 1));
    db.assert_sound();
}

#[test]
fn a_compensation_of_a_compensation_undoes_what_that_has_changed() {
    let db = database();
    let mut s = db.session();
    declare(
        &mut s,
        r#"{"operations": {"pay": {"produces": ["card.charge"], "requires_compensation": true}},
            "compensations": {
                "refund": {"of": "pay", "produces": ["bank.transfer"], "requires_compensation": true},
                "recall": {"of": "refund", "produces": ["bank.recall"], "counter_effects": true}},
            "inverse_of": {"bank.transfer": "bank.recall"}}"#,
    );
    let job = held(&mut s, "pay");
    let paid = plan(&mut s, &job, r#"[{"effect_type": "card.charge"}]"#).remove(0);
    carry_out(&mut s, &paid);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
    let refund = id(&turn(&mut s));
    let transfer = plan(&mut s, &refund, r#"[{"effect_type": "bank.transfer"}]"#).remove(0);
    carry_out(&mut s, &transfer);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{refund}', 'bob')"));
    assert_eq!(statuses(&mut s, &[paid.clone(), transfer.clone()]), ["compensated", "succeeded"]);
    expect(&mut s, "compensating", &format!("fn_effect_compensate('{refund}')"));
    let recall = turn(&mut s);
    assert_eq!(
        (recall["job_kind"].clone(), text(&recall["payload_json"], "effect_id")),
        (json!("recall"), transfer.clone())
    );
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&recall)));
    assert_eq!(statuses(&mut s, &[paid, transfer]), ["compensated", "compensated"]);
    db.assert_sound();
}

#[test]
fn a_result_that_no_compensation_could_read_is_refused() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let effect = plan(&mut s, &job, r#"[{"effect_type": "hotel.book"}]"#).remove(0);
    expect(&mut s, "run", &format!("fn_effect_begin('{effect}', 'bob')"));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for result in [r#"{"n": 1e400}"#, deep.as_str()] {
        let failure = s.fails(&format!("SELECT agentq.fn_effect_finish('{effect}', 'bob', '{result}')"));
        assert_eq!(failure.code, "22023", "{failure:?}");
        assert!(failure.message.contains("p_result cannot be read"), "{failure:?}");
    }
    expect(&mut s, "succeeded", &format!("fn_effect_finish('{effect}', 'bob', '{{\"n\": 1}}')"));
}

#[test]
fn what_a_chain_is_about_to_compensate_is_not_reconciled_meanwhile() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let effects = plan(&mut s, &job, r#"[{"effect_type": "hotel.book"}, {"effect_type": "flight.book"}]"#);
    expect(&mut s, "run", &format!("fn_effect_begin('{}', 'bob')", effects[0]));
    carry_out(&mut s, &effects[1]);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    let call = format!("fn_effect_compensate('{job}', p_options => '{{\"include_unknown\": true}}')");
    expect(&mut s, "compensating", &call);
    let answer = s.call(&format!("fn_effect_reconcile('{}', 'not_done')", effects[0]));
    assert_eq!((answer["ok"].clone(), answer["code"].clone()), (json!(false), json!("compensating")), "{answer}");
}
