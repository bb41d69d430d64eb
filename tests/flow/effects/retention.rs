//! Old effects are removed when nobody needs them any more.

use super::{TRIP, carry_out, declare, held, plan};
use agentq_tests::{database, expect};

#[test]
fn old_effects_go_after_their_jobs_and_what_waits_for_a_person_stays() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    let job = held(&mut s, "trip");
    let effects = plan(
        &mut s,
        &job,
        r#"[{"effect_type": "hotel.book"}, {"effect_type": "mail.send"}, {"effect_type": "mail.send"}]"#,
    );
    carry_out(&mut s, &effects[0]);
    expect(&mut s, "run", &format!("fn_effect_begin('{}', 'bob')", effects[1]));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    let tick = "fn_engine_tick('clean_effects')";
    let left = "SELECT status FROM agentq_internal.effect ORDER BY seq";
    s.shift_clock(366 * 86_400);
    // As long as the job is there, so are its effects.
    s.call(tick);
    assert_eq!(s.texts(left), ["succeeded", "executing", "planned"]);
    s.call("fn_job_purge('1 day')");
    s.shift_clock(364 * 86_400);
    s.call(tick);
    assert_eq!(s.texts(left), ["succeeded", "executing", "planned"]);
    s.shift_clock(366 * 86_400);
    s.call(tick);
    // Whether the second happened, nobody has said.
    assert_eq!(s.texts(left), ["executing"]);
    assert_eq!(s.count("agentq_internal.effect_drift"), 0);
}

#[test]
fn chains_go_with_their_effects_and_a_failed_one_stays() {
    let db = database();
    let mut s = db.session();
    declare(&mut s, TRIP);
    for fails in [false, true] {
        let job = held(&mut s, "trip");
        let effect = plan(&mut s, &job, r#"[{"effect_type": "hotel.book"}]"#).remove(0);
        carry_out(&mut s, &effect);
        expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
        let answer = expect(&mut s, "compensating", &format!("fn_effect_compensate('{job}')"));
        let compensation = answer["compensation_job_id"].as_str().expect("a job").to_owned();
        expect(&mut s, "claimed", "fn_job_claim('bob')");
        if fails {
            expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{compensation}', 'bob', 'no')"));
        } else {
            expect(&mut s, "succeeded", &format!("fn_job_ack('{compensation}', 'bob')"));
        }
    }
    s.shift_clock(366 * 86_400);
    s.call("fn_job_purge('1 day')");
    s.call("fn_engine_tick('clean_effects')");
    assert_eq!(s.texts("SELECT status FROM agentq.effect_chain"), ["halted"]);
    assert_eq!(s.texts("SELECT status FROM agentq_internal.effect"), ["compensation_failed"]);
    db.assert_sound();
}
