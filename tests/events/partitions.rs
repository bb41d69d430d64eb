//! Partitions: made ahead, dropped when their time is over.

use crate::{assert_sound, emit, seal};
use agentq_tests::{Session, database, expect, until_someone_waits};

const DAY: i64 = 86_400;

fn keep(s: &mut Session) {
    let ticked = s.call("fn_engine_tick('keep_partitions')");
    assert_eq!((ticked["ok"].clone(), ticked["failed"].clone()), (true.into(), 0.into()), "{ticked}");
}

fn parts(s: &mut Session, class: &str) -> Vec<String> {
    s.texts(&format!(
        "SELECT partition FROM agentq.v_event_partition WHERE holds = 'event' AND class = '{class}' AND lower IS NOT NULL ORDER BY lower"
    ))
}

#[test]
fn the_partitions_of_the_next_days_are_made_once_and_events_go_there() {
    let db = database();
    let mut s = db.session();
    keep(&mut s);
    let made = parts(&mut s, "usual");
    assert_eq!(made.len(), 7, "the week after today: {made:?}");
    let audits = parts(&mut s, "audit").len();
    assert!((1..=2).contains(&audits), "audits are divided by months: {audits}");
    keep(&mut s);
    assert_eq!(parts(&mut s, "usual"), made);
    // What may be written at this very moment gets no partition: the event would be refused.
    let present = "agentq.v_event_partition WHERE holds = 'event' AND lower::timestamptz <= now()";
    assert_eq!(s.count(present), 0);
    s.shift_clock(DAY);
    emit(&mut s, "a", "x");
    s.call(r#"fn_event_emit('b', 'x', p_options => '{"purpose": "audit"}')"#);
    s.call(r#"fn_event_emit('c', 'x', p_options => '{"purpose": "agent_step"}')"#);
    assert_eq!((s.count("agentq_internal.event_usual_rest"), s.count("agentq_internal.event_audit_rest")), (0, 0));
    assert_eq!(
        s.texts("SELECT tableoid::regclass::text FROM agentq.event WHERE event_kind IN ('a', 'c')"),
        vec![format!("agentq_internal.{}", made[0]); 2]
    );
    s.shift_clock(3 * DAY);
    keep(&mut s);
    assert_eq!(parts(&mut s, "usual").len(), 10);
}

#[test]
fn without_a_partition_an_event_goes_to_the_rest_and_stays_there() {
    let db = database();
    let mut s = db.session();
    emit(&mut s, "early", "x");
    keep(&mut s);
    let made = parts(&mut s, "usual");
    assert_eq!(made.len(), 7, "today has none");
    emit(&mut s, "still today", "x");
    assert_eq!(s.count("agentq_internal.event_usual_rest"), 2);
    // Nobody has looked for a month.
    s.shift_clock(29 * DAY);
    emit(&mut s, "much later", "x");
    keep(&mut s);
    assert_eq!(s.count("agentq_internal.event_usual_rest"), 3);
    seal(&mut s);
    expect(&mut s, "sound", "fn_event_verify()");
}

#[test]
fn what_has_outlived_its_time_goes_by_whole_partitions_and_the_log_stays_sound() {
    let db = database();
    let mut s = db.session();
    keep(&mut s);
    s.shift_clock(DAY);
    for _ in 0..3 {
        s.call(r#"fn_event_emit('old', 'x', p_options => '{"dedupe_key": "k"}')"#);
        s.call(r#"fn_event_emit('audit', 'x', p_options => '{"purpose": "audit"}')"#);
    }
    s.shift_clock(6 * DAY);
    emit(&mut s, "younger", "x");
    s.shift_clock(33 * DAY);
    // Not sealed yet: it gets its place before it goes.
    keep(&mut s);
    assert_eq!(
        s.texts("SELECT DISTINCT event_kind FROM agentq.event WHERE event_kind <> 'event.dropped' ORDER BY 1"),
        ["audit", "younger"]
    );
    let dropped = s.texts(
        "SELECT subject FROM agentq.event WHERE event_kind = 'event.dropped' AND purpose = 'audit' ORDER BY subject",
    );
    assert_eq!(dropped.len(), 2, "the two days whose end is 30 days ago: {dropped:?}");
    assert_eq!(s.count("agentq_internal.event_key"), 0, "the key goes with its event");
    expect(&mut s, "emitted", r#"fn_event_emit('old', 'x', p_options => '{"dedupe_key": "k"}')"#);
    seal(&mut s);
    expect(&mut s, "sound", "fn_event_verify()");
    // A reader that comes late passes over what is gone.
    let read = s.call("fn_event_read(0, 1)");
    assert_eq!(read["events"][0]["event_kind"], "audit", "{read}");
    // What is gone is no excuse for what should be there.
    s.run("SET session_replication_role = replica; DELETE FROM agentq.event WHERE event_kind = 'younger'; RESET session_replication_role");
    let broken = expect_broken(&mut s);
    assert_eq!(broken, "missing");
    s.shift_clock(450 * DAY);
    keep(&mut s);
    assert_eq!(s.count("agentq.event WHERE event_kind IN ('audit', 'younger')"), 0, "audits have gone too");
}

fn expect_broken(s: &mut Session) -> String {
    let found = s.call("fn_event_verify()");
    assert_eq!(found["code"], "broken", "{found}");
    found["fault"].as_str().expect("a fault").to_owned()
}

#[test]
fn the_rest_is_emptied_when_all_of_it_is_over() {
    let db = database();
    let mut s = db.session();
    emit(&mut s, "early", "x");
    s.shift_clock(DAY);
    emit(&mut s, "later", "x");
    s.shift_clock(31 * DAY - 3600);
    keep(&mut s);
    assert_eq!(s.count("agentq_internal.event_usual_rest"), 2, "one of them has time left");
    assert_eq!(s.fails("TRUNCATE agentq_internal.event_usual_rest").code, "23001");
    s.shift_clock(32 * DAY);
    keep(&mut s);
    assert_eq!(s.count("agentq_internal.event_usual_rest"), 0);
    seal(&mut s);
    expect(&mut s, "sound", "fn_event_verify()");
}

#[test]
fn nothing_is_dropped_when_events_are_kept_for_ever() {
    let db = database();
    let mut s = db.session();
    s.call("fn_config_set('events.retention_days', '0')");
    s.call("fn_config_set('events.audit_retention_days', '0')");
    emit(&mut s, "a", "x");
    keep(&mut s);
    assert!(parts(&mut s, "usual").len() <= 2, "by months");
    s.shift_clock(3000 * DAY);
    keep(&mut s);
    assert_eq!(s.count("agentq.event"), 1);
    let refused = s.fails("SELECT agentq.fn_config_set('events.retention_days', '-1')");
    assert_eq!(refused.code, "22023");
}

#[test]
fn days_and_months_do_not_overlap_when_the_time_to_keep_changes() {
    let db = database();
    let mut s = db.session();
    for (days, keep_days) in [(0, 30), (1, 0), (40, 30), (45, 365), (80, 7)] {
        s.call(&format!("fn_config_set('events.retention_days', '{keep_days}')"));
        s.shift_clock(days * DAY);
        keep(&mut s);
        s.shift_clock((days + 1) * DAY);
        emit(&mut s, "a", &days.to_string());
    }
    assert_eq!(s.count("agentq_internal.event_usual_rest"), 0, "each had its partition");
}

#[test]
fn a_part_of_the_log_goes_when_all_its_events_are_over_and_the_chain_goes_on() {
    let db = database();
    let mut s = db.session();
    keep(&mut s);
    s.shift_clock(DAY);
    emit(&mut s, "old", "x");
    seal(&mut s);
    // As if there had been nearly a million more.
    s.run("UPDATE agentq_internal.event_seal SET last_seq = 999998");
    emit(&mut s, "last of its part", "x");
    emit(&mut s, "first of the next", "x");
    s.call(r#"fn_event_emit('audit', 'x', p_options => '{"purpose": "audit"}')"#);
    seal(&mut s);
    let logs = "SELECT partition FROM agentq.v_event_partition WHERE holds = 'log' ORDER BY 1";
    assert_eq!(s.texts(logs), ["event_log_audit_1", "event_log_usual_0", "event_log_usual_1"]);
    expect(&mut s, "sound", "fn_event_verify()");
    // Their time is over, and the day is not: while an event is there, its place is, too.
    s.shift_clock(31 * DAY + 30);
    keep(&mut s);
    assert_eq!(s.texts(logs), ["event_log_audit_1", "event_log_usual_0", "event_log_usual_1"]);
    s.shift_clock(33 * DAY);
    emit(&mut s, "young", "x");
    keep(&mut s);
    assert_eq!(s.texts(logs), ["event_log_audit_1", "event_log_usual_1"]);
    seal(&mut s);
    let sound = expect(&mut s, "sound", "fn_event_verify()");
    assert!(sound["checked"].as_i64() >= Some(3), "{sound}");
    // The chain that is left is still a chain.
    s.run("SET session_replication_role = replica; UPDATE agentq.event_log SET digest = sha256('x') WHERE seq = 1000000; RESET session_replication_role");
    assert_eq!(expect_broken(&mut s), "altered");
}

#[test]
fn partitions_wait_for_nobody_for_long() {
    let db = database();
    let (mut reader, mut s) = (db.session(), db.session());
    emit(&mut s, "a", "x");
    reader.run("BEGIN; SELECT * FROM agentq.event");
    // Somebody reads the rest, so nothing can be attached beside it now; and nothing breaks.
    keep(&mut s);
    assert_eq!(parts(&mut s, "usual").len(), 0);
    emit(&mut s, "b", "x");
    reader.run("COMMIT");
    keep(&mut s);
    assert_eq!(parts(&mut s, "usual").len(), 7);
    db.assert_sound();
}

#[test]
fn an_event_gets_its_place_before_it_is_dropped_also_behind_one_that_takes_several_turns() {
    let db = database();
    let mut s = db.session();
    keep(&mut s);
    emit(&mut s, "first", "x");
    seal(&mut s);
    s.shift_clock(DAY);
    s.run("SELECT agentq.fn_event_emit('many', n::text) FROM generate_series(1, 2500) n");
    // One turn: the rest of them is what the next goes on with.
    s.call("fn_event_read(1, 1)");
    assert_eq!(s.text("SELECT target IS NOT NULL FROM agentq_internal.event_seal"), "t");
    let last = emit(&mut s, "last", "x");
    s.shift_clock(33 * DAY);
    keep(&mut s);
    assert_eq!(s.count("agentq.event WHERE event_kind IN ('many', 'last')"), 0, "their time is over");
    assert_eq!(s.count(&format!("agentq.event_log WHERE event_id = '{last}'")), 1);
    seal(&mut s);
    assert_sound(&mut s);
}

#[test]
fn an_event_that_is_committed_while_its_partition_waits_to_be_dropped_gets_its_place() {
    let db = database();
    let (mut late, mut s) = (db.session(), db.session());
    keep(&mut s);
    late.shift_clock(DAY);
    late.run("BEGIN");
    let last = emit(&mut late, "late", "x");
    let mut keeper = db.session();
    keeper.shift_clock(33 * DAY);
    let kept = std::thread::spawn(move || {
        keep(&mut keeper);
        keeper
    });
    until_someone_waits(&mut s);
    late.run("COMMIT");
    let mut keeper = kept.join().expect("it goes on");
    // It may have given up before; then this is the next time.
    keep(&mut keeper);
    assert_eq!(s.count("agentq.event WHERE event_kind = 'late'"), 0, "its time is over");
    assert_eq!(s.count(&format!("agentq.event_log WHERE event_id = '{last}'")), 1);
    seal(&mut s);
    assert_sound(&mut s);
}

#[test]
fn a_reader_does_not_look_for_ever_for_what_is_gone_or_never_was() {
    let db = database();
    let mut s = db.session();
    s.run("SET statement_timeout = '60s'");
    // Nothing was ever written, and the place lies before the first.
    assert_eq!(s.call("fn_event_read(-1)")["code"], "empty");
    keep(&mut s);
    s.shift_clock(DAY);
    emit(&mut s, "old", "x");
    seal(&mut s);
    s.shift_clock(40 * DAY);
    keep(&mut s);
    assert_eq!(s.count("agentq.event WHERE event_kind = 'old'"), 0, "it has outlived its time");
    let read = s.call(r#"fn_event_read(0, p_options => '{"kinds": ["old"]}')"#);
    assert_eq!(read["code"], "empty", "{read}");
    let waited = s.call(r#"fn_event_read(-5, p_wait => interval '50 ms', p_options => '{"kinds": ["old"]}')"#);
    assert_eq!(waited["code"], "empty", "{waited}");
}
