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
    assert_eq!(told(&mut s, &mission), ["mission.compensated", "mission.cancelled"]);
    assert_eq!(s.text("SELECT reason FROM agentq.effect_chain"), "storm");
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
    let explained = s.call(&format!("fn_mission_explain('{mission}')"));
    let at = &explained["compensation"]["at"];
    assert_eq!((&at["effect_type"], &at["status"]), (&json!("hotel.book"), &json!("compensating")), "{explained}");
    assert_eq!((&at["job_id"], &at["job"]["code"]), (&json!(job), &json!("held")), "{explained}");
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'nobody answers')"));
    assert_eq!(status(&mut s, &mission), "failed");
    assert_eq!(told(&mut s, &mission), ["mission.compensation_failed"]);
    let error = s.text("SELECT last_error FROM agentq.mission");
    assert!(error.starts_with("its compensation halted after 1 of 2 effects: job "), "{error}");
    let explained = s.call(&format!("fn_mission_explain('{mission}')"));
    let compensation = &explained["compensation"];
    assert_eq!((&explained["code"], &compensation["status"]), (&json!("ended"), &json!("halted")), "{explained}");
    assert_eq!(compensation["at"]["status"], "compensation_failed");
    assert!(compensation["hint"].as_str().is_some_and(|hint| hint.contains("fn_effect_skip")), "{explained}");
    // Tried again, it goes on from there; the mission has ended.
    expect(&mut s, "compensating", &format!("fn_effect_compensate(p_mission_id => '{mission}')"));
    let claim = turn(&mut s);
    undo(&mut s, &claim);
    assert_eq!(status(&mut s, &mission), "failed");
    assert_eq!(s.call(&format!("fn_mission_explain('{mission}')"))["compensation"]["status"], "compensated");
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
    assert_eq!(status(&mut s, &mission), "failed");
    assert_eq!(told(&mut s, &mission), ["mission.compensation_failed"]);
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

#[test]
fn an_effect_of_unknown_outcome_is_no_good_end_of_a_compensation() {
    for alone in [false, true] {
        let db = database();
        let mut s = db.session();
        declare(&mut s, TRIP);
        let steps =
            json!([{"name": "book", "kind": "trip", "retry": {"max_attempts": 1}}, {"name": "pay", "kind": "pay"}]);
        let mission = start(&mut s, &json!({"steps": steps}), "");
        let (job, paying) = (id(&claim(&mut s, "trip")), id(&claim(&mut s, "pay")));
        let effects = plan(&mut s, &job, BOTH);
        if !alone {
            carry_out(&mut s, &effects[0]);
        }
        expect(&mut s, "run", &format!("fn_effect_begin('{}', 'bob')", effects[1]));
        cancel(&mut s, &mission);
        // Nobody says what became of the flight.
        expect(&mut s, "cancelled", &format!("fn_job_fail_or_retry('{job}', 'bob', 'gone')"));
        expect(&mut s, "succeeded", &format!("fn_job_ack('{paying}', 'bob')"));
        if !alone {
            let claim = turn(&mut s);
            undo(&mut s, &claim);
        }
        assert_eq!(status(&mut s, &mission), "failed", "alone: {alone}");
        let error = s.text("SELECT last_error FROM agentq.mission");
        assert_eq!(error, "the outcome of 1 effect is not known, and nobody has undone it");
        let explained = s.call(&format!("fn_mission_explain('{mission}')"));
        assert_eq!(explained["unknown_effects"][0]["effect_id"], json!(effects[1]), "{explained}");
        db.assert_sound();
    }
}

#[test]
fn somebody_may_decide_that_an_effect_stays() {
    let db = database();
    let mut s = db.session();
    let (mission, paying) = booked(&mut s);
    cancel(&mut s, &mission);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{paying}', 'bob')"));
    let flight = s.text("SELECT effect_id FROM agentq.v_effect WHERE effect_type = 'flight.book'");
    assert_eq!(s.call(&format!("fn_effect_skip('{flight}', 'too late')"))["code"], "compensating");
    // The flight is tried twice.
    for _ in 0..2 {
        let job = id(&turn(&mut s));
        s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'taken off', p_retry_after => '0 s')"));
    }
    assert_eq!(status(&mut s, &mission), "failed");
    let skipped = expect(&mut s, "skipped", &format!("fn_effect_skip('{flight}', 'it has taken off', 'ann')"));
    assert_eq!(skipped["status"], "compensation_skipped");
    assert_eq!(s.call(&format!("fn_effect_skip('{flight}', 'again')"))["code"], "not_skippable");
    let told = "SELECT payload->>'reason' || ' ' || (payload->>'by') FROM agentq.event WHERE event_kind = 'effect.compensation_skipped'";
    assert_eq!(s.text(told), "it has taken off ann");
    // The others go on without it.
    let rest = expect(&mut s, "compensating", &format!("fn_effect_compensate(p_mission_id => '{mission}')"));
    assert_eq!(rest["effects"], 1);
    let claim = turn(&mut s);
    assert_eq!(text(&claim["payload_json"], "effect_type"), "hotel.book");
    undo(&mut s, &claim);
    let effects =
        "SELECT effect_type || ' ' || status FROM agentq.v_effect WHERE mission_id IS NOT NULL ORDER BY seq LIMIT 2";
    assert_eq!(s.texts(effects), ["hotel.book compensated", "flight.book compensation_skipped"]);
    db.assert_sound();
}

/// Whose effects these are: for each the name of the step, and whether it belongs to this mission.
fn owned(s: &mut Session, mission: &str) -> Vec<String> {
    s.texts(&format!(
        "SELECT concat_ws(' ', e.effect_type, p.name) FROM agentq_internal.effect e
         JOIN agentq_internal.mission_step p ON p.step_id = e.step_id AND p.mission_id = e.mission_id
         WHERE e.mission_id = '{mission}' ORDER BY e.seq"
    ))
}

#[test]
fn a_fork_answers_for_the_effects_of_what_it_takes_over_from_a_mission_that_failed() {
    let db = database();
    let mut s = db.session();
    let (mission, paying) = booked(&mut s);
    s.call(&format!("fn_job_fail_or_retry('{paying}', 'bob', 'no money', p_verdict => 'discard')"));
    assert_eq!(status(&mut s, &mission), "failed");
    let fork = text(&expect(&mut s, "forked", &format!("fn_mission_fork('{mission}', 'pay')")), "mission_id");
    assert_eq!(owned(&mut s, &fork), ["hotel.book book", "flight.book book"]);
    // The first mission has nothing left to undo, and the fork undoes all.
    expect(&mut s, "nothing_to_compensate", &format!("fn_effect_compensate(p_mission_id => '{mission}')"));
    s.call(&format!("fn_mission_cancel('{fork}', 'storm', 'compensate_then_stop')"));
    assert_eq!(status(&mut s, &fork), "compensating");
    for _ in 0..2 {
        let claim = turn(&mut s);
        undo(&mut s, &claim);
    }
    assert_eq!(status(&mut s, &fork), "cancelled");
    // What is undone is done anew by the next fork.
    let anew = text(&expect(&mut s, "forked", &format!("fn_mission_fork('{fork}', 'pay')")), "mission_id");
    assert_eq!(crate::missions::steps(&mut s, &anew), "book queued, pay waiting, tell waiting");
    assert_eq!(owned(&mut s, &anew), Vec::<String>::new());
    db.assert_sound();
}

#[test]
fn a_mission_that_succeeded_keeps_what_it_has_done_when_somebody_forks_it() {
    let db = database();
    let mut s = db.session();
    let (mission, paying) = booked(&mut s);
    // While it runs, too.
    expect(&mut s, "forked", &format!("fn_mission_fork('{mission}', 'book')"));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{paying}', 'bob')"));
    let telling = id(&claim(&mut s, "tell"));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{telling}', 'bob')"));
    assert_eq!(status(&mut s, &mission), "succeeded");
    let fork = text(&expect(&mut s, "forked", &format!("fn_mission_fork('{mission}', 'tell')")), "mission_id");
    assert_eq!(owned(&mut s, &fork), Vec::<String>::new());
    s.call(&format!("fn_mission_cancel('{fork}', 'storm', 'compensate_then_stop')"));
    assert_eq!(status(&mut s, &fork), "cancelled");
    assert_eq!(owned(&mut s, &mission), ["hotel.book book", "flight.book book"]);
    db.assert_sound();
}

/// As `booked`, with a template that says more.
#[track_caller]
fn booked_with(s: &mut Session, more: agentq_tests::Value) -> (String, String) {
    declare(s, TRIP);
    let mut template =
        json!({"steps": [{"name": "book", "kind": "trip"}, {"name": "pay", "kind": "pay", "depends_on": ["book"]}]});
    more.as_object().unwrap().iter().for_each(|(key, value)| template[key] = value.clone());
    let mission = start(s, &template, "");
    let job = id(&claim(s, "trip"));
    plan(s, &job, BOTH).iter().for_each(|effect| carry_out(s, effect));
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    let paying = id(&claim(s, "pay"));
    (mission, paying)
}

#[test]
fn a_mission_that_fails_undoes_its_effects_where_its_template_says_so() {
    let db = database();
    let mut s = db.session();
    let (mission, paying) = booked_with(&mut s, json!({"on_failure": "compensate"}));
    s.call(&format!("fn_job_fail_or_retry('{paying}', 'bob', 'no money', p_verdict => 'discard')"));
    assert_eq!(status(&mut s, &mission), "compensating");
    for _ in 0..2 {
        let claim = turn(&mut s);
        undo(&mut s, &claim);
    }
    assert_eq!(status(&mut s, &mission), "failed");
    let over = s.call(&format!("fn_mission_wait('{mission}')"));
    assert_eq!((&over["error"], &over["compensation"]["status"]), (&json!("no money"), &json!("compensated")));
    assert_eq!(s.count("agentq.event WHERE event_kind = 'mission.compensated'"), 1);
    assert_eq!(s.count("agentq.v_effect WHERE status = 'compensated'"), 2);
    db.assert_sound();
}

#[test]
fn a_mission_that_runs_out_of_time_undoes_its_effects_too_and_says_what_stands() {
    let db = database();
    let mut s = db.session();
    let (mission, paying) = booked_with(&mut s, json!({"on_failure": "compensate", "timeout_seconds": 60}));
    s.shift_clock(61);
    s.call("fn_engine_tick('tend_missions')");
    s.call(&format!("fn_job_release('{paying}', 'bob')"));
    s.call("fn_engine_tick('tend_missions')");
    assert_eq!(status(&mut s, &mission), "compensating");
    let claim = turn(&mut s);
    undo(&mut s, &claim);
    let hotel = id(&turn(&mut s));
    expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{hotel}', 'bob', 'no vacancy to give back')"));
    assert_eq!(status(&mut s, &mission), "failed");
    let over = s.call(&format!("fn_mission_wait('{mission}')"));
    assert!(text(&over, "error").contains("as its time-out asked"), "{over}");
    assert_eq!((&over["compensation"]["status"], &over["compensation"]["compensated"]), (&json!("halted"), &json!(1)));
    db.assert_sound();
}

#[test]
fn what_is_to_be_done_in_any_case_is_done_and_changes_no_outcome() {
    let finally =
        json!({"finally": [{"name": "clean", "kind": "clean", "params": {"how": {"$from": "$.input.outcome"}}}]});
    for (outcome, cleaned_well) in
        [("succeeded", true), ("failed", true), ("cancelled", true), ("succeeded", false), ("failed", false)]
    {
        let db = database();
        let mut s = db.session();
        let (mission, paying) = booked_with(&mut s, finally.clone());
        match outcome {
            "succeeded" => s.call(&format!("fn_job_ack('{paying}', 'bob', '7')")),
            "failed" => s.call(&format!("fn_job_fail_or_retry('{paying}', 'bob', 'no money', p_verdict => 'discard')")),
            _ => {
                s.call(&format!("fn_mission_cancel('{mission}', 'storm')"));
                s.call(&format!("fn_job_release('{paying}', 'bob')"))
            }
        };
        assert_eq!(status(&mut s, &mission), "finishing");
        assert_eq!(s.call(&format!("fn_mission_wait('{mission}', '0')"))["code"], "pending");
        let late = s.call(&format!("fn_mission_cancel('{mission}')"));
        assert_eq!(late["code"], "already_stopping", "nobody stops what is done in any case");
        let cleaning = claim(&mut s, "clean");
        assert_eq!(cleaning["payload_json"], json!({"how": outcome}));
        let end = if cleaned_well {
            "fn_job_ack('JOB', 'bob')"
        } else {
            "fn_job_fail_or_retry('JOB', 'bob', 'broom', p_verdict => 'discard')"
        };
        s.call(&end.replace("JOB", &id(&cleaning)));
        assert_eq!(status(&mut s, &mission), outcome);
        let over = s.call(&format!("fn_mission_wait('{mission}')"));
        assert_eq!((&over["code"], over["ok"].as_bool()), (&json!(outcome), Some(outcome == "succeeded")));
        assert_eq!(
            s.count(&format!("agentq.event WHERE event_kind = 'mission.{outcome}' AND subject = '{mission}'")),
            1
        );
        db.assert_sound();
    }
}

#[test]
fn what_is_done_in_any_case_comes_after_the_compensation() {
    let db = database();
    let mut s = db.session();
    let more =
        json!({"on_failure": "compensate", "finally": [{"kind": "clean"}, {"kind": "report", "name": "report"}]});
    let (mission, paying) = booked_with(&mut s, more);
    s.call(&format!("fn_job_fail_or_retry('{paying}', 'bob', 'no money', p_verdict => 'discard')"));
    assert_eq!(s.call("fn_job_claim('bob', 'clean')")["code"], "empty");
    for _ in 0..2 {
        let claim = turn(&mut s);
        undo(&mut s, &claim);
    }
    assert_eq!(status(&mut s, &mission), "finishing");
    for kind in ["clean", "report"] {
        let job = id(&claim(&mut s, kind));
        s.call(&format!("fn_job_ack('{job}', 'bob')"));
    }
    assert_eq!(status(&mut s, &mission), "failed");
    db.assert_sound();
}

#[test]
fn effects_of_missions_in_a_list_are_undone_with_the_mission_around_them() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let each =
        json!({"name": "each", "for_each": "$.input.all", "mission": {"steps": [{"name": "book", "kind": "trip"}]}});
    let template =
        json!({"on_failure": "compensate", "steps": [each, {"name": "pay", "kind": "pay", "depends_on": ["each"]}]});
    let mission = start(&mut s, &template, ", '{\"input\": {\"all\": [1, 2]}}'");
    for _ in 0..2 {
        let job = id(&claim(&mut s, "trip"));
        plan(&mut s, &job, BOTH).iter().for_each(|effect| carry_out(&mut s, effect));
        expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    }
    let paying = id(&claim(&mut s, "pay"));
    s.call(&format!("fn_job_fail_or_retry('{paying}', 'bob', 'no money', p_verdict => 'discard')"));
    assert_eq!(status(&mut s, &mission), "compensating");
    for _ in 0..4 {
        let claim = turn(&mut s);
        undo(&mut s, &claim);
    }
    assert_eq!(status(&mut s, &mission), "failed");
    assert_eq!(s.count("agentq.v_effect WHERE status = 'compensated'"), 4);
    db.assert_sound();
}
