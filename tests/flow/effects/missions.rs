//! A mission that is cancelled and compensates: what it has changed outside is undone before it has ended.

use super::compensation::{turn, undo};
use super::{TRIP, carry_out, declare, plan};
use crate::missions::{claim, start, status};
use agentq_tests::{Session, database, expect, id, json, text};

const BOTH: &str = r#"[{"effect_type": "hotel.book"}, {"effect_type": "flight.book"}]"#;

/// A mission that has booked a hotel and a flight, and whose second step is being worked on; with that step's job.
#[track_caller]
fn booked(s: &mut Session) -> (String, String) {
    declare(s, TRIP);
    let steps = json!([{"name": "book", "kind": "trip"}, {"name": "pay", "kind": "pay", "depends_on": ["book"]},
        {"name": "tell", "kind": "tell", "depends_on": ["pay"]}]);
    let mission = start(s, &json!({"title": "A trip", "steps": steps}), "");
    let job = id(&claim(s, "trip"));
    plan(s, &job, BOTH).iter().for_each(|effect| carry_out(s, effect));
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(s.count(&format!("agentq.v_effect WHERE mission_id = '{mission}' AND status = 'succeeded'")), 2);
    let paying = id(&claim(s, "pay"));
    (mission, paying)
}

#[track_caller]
fn cancel(s: &mut Session, mission: &str) {
    s.call(&format!("fn_mission_cancel('{mission}', 'storm', 'compensate_then_stop')"));
    assert_eq!(status(s, mission), "cancelling", "the step that runs is waited for");
}

fn told(s: &mut Session, mission: &str) -> Vec<String> {
    s.texts(&format!(
        "SELECT concat_ws(' ', event_kind, payload->>'outcome') FROM agentq.event
         WHERE subject = '{mission}' AND event_kind ~ '^mission\\.c' ORDER BY event_id"
    ))
}

#[test]
fn a_cancelled_mission_undoes_its_effects_before_it_ends() {
    let db = database();
    let mut s = db.session();
    let (mission, paying) = booked(&mut s);
    cancel(&mut s, &mission);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{paying}', 'bob')"));
    assert_eq!(status(&mut s, &mission), "compensating");
    for effect_type in ["flight.book", "hotel.book"] {
        let claim = turn(&mut s);
        assert_eq!(text(&claim["payload_json"], "effect_type"), effect_type);
        assert_eq!(status(&mut s, &mission), "compensating");
        undo(&mut s, &claim);
    }
    assert_eq!(status(&mut s, &mission), "cancelled");
    assert_eq!(told(&mut s, &mission), ["mission.compensated compensated", "mission.cancelled"]);
    assert_eq!(s.count(&format!("agentq.v_effect WHERE mission_id = '{mission}' AND status = 'compensated'")), 2);
    assert_eq!(s.claim("bob")["code"], "empty", "the last step never began");
    db.assert_sound();
}

#[test]
fn a_compensation_that_fails_ends_the_mission_and_says_so() {
    let db = database();
    let mut s = db.session();
    let (mission, paying) = booked(&mut s);
    cancel(&mut s, &mission);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{paying}', 'bob')"));
    let claim = turn(&mut s);
    undo(&mut s, &claim);
    // The hotel is tried once.
    let job = id(&turn(&mut s));
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'nobody answers')"));
    assert_eq!(status(&mut s, &mission), "cancelled");
    assert_eq!(told(&mut s, &mission), ["mission.compensated halted", "mission.cancelled"]);
    db.assert_sound();
}

#[test]
fn a_compensation_that_cannot_even_begin_does_not_keep_the_mission_open() {
    let db = database();
    let mut s = db.session();
    let (mission, paying) = booked(&mut s);
    expect(&mut s, "set", "fn_effect_manifest_set('{}', p_replace => true)");
    cancel(&mut s, &mission);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{paying}', 'bob')"));
    assert_eq!(status(&mut s, &mission), "cancelled");
    assert_eq!(told(&mut s, &mission), ["mission.compensated halted", "mission.cancelled"]);
    db.assert_sound();
}

#[test]
fn a_mission_without_effects_is_just_cancelled() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let mission = start(&mut s, &json!({"steps": [{"name": "book", "kind": "trip"}]}), "");
    s.call(&format!("fn_mission_cancel('{mission}', 'storm', 'compensate_then_stop')"));
    assert_eq!(status(&mut s, &mission), "cancelled");
    let failure = s.fails("SELECT agentq.fn_effect_compensate(p_mission_id => '00000000-0000-4000-8000-00000000000a')");
    assert_eq!(failure.code, "P0002", "{failure:?}");
    assert!(failure.hint.contains("fn_mission_start"), "{failure:?}");
}

#[test]
fn what_a_mission_inside_has_done_is_undone_as_well() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let steps = json!([{"name": "book", "mission": {"steps": [{"name": "in", "kind": "trip"}]}},
        {"name": "pay", "kind": "pay", "depends_on": ["book"]}]);
    let mission = start(&mut s, &json!({"steps": steps}), "");
    let job = id(&claim(&mut s, "trip"));
    plan(&mut s, &job, BOTH).iter().for_each(|effect| carry_out(&mut s, effect));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    let paying = id(&claim(&mut s, "pay"));
    cancel(&mut s, &mission);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{paying}', 'bob')"));
    assert_eq!(status(&mut s, &mission), "compensating");
    for effect_type in ["flight.book", "hotel.book"] {
        let claim = turn(&mut s);
        assert_eq!(text(&claim["payload_json"], "effect_type"), effect_type);
        undo(&mut s, &claim);
    }
    assert_eq!(status(&mut s, &mission), "cancelled");
    db.assert_sound();
}

#[test]
fn a_mission_that_goes_on_is_not_compensated_behind_its_back() {
    let db = database();
    let mut s = db.session();
    let (mission, _) = booked(&mut s);
    let answer = expect(&mut s, "not_finished", &format!("fn_effect_compensate(p_mission_id => '{mission}')"));
    assert!(answer["hint"].as_str().is_some_and(|hint| hint.contains("compensate_then_stop")), "{answer}");
}
