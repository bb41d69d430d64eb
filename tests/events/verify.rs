//! Checking the log, with faults that only somebody with all rights could plant.

use crate::{assert_sound, emit, seal};
use agentq_tests::{Database, Session, Value, database, expect, refuse};

/// A sealed log of ten events, the fourth and the eighth of them audits.
fn sealed(db: &Database<'_>) -> Session {
    let mut s = db.session();
    for n in 1..=10 {
        let purpose = if n % 4 == 0 { "audit" } else { "event" };
        s.call(&format!(
            r#"fn_event_emit('k', 's{n}', '{{"n": {n}}}', '{{"purpose": "{purpose}", "tags": ["t"], "source": "here"}}')"#
        ));
    }
    seal(&mut s);
    assert_sound(&mut s);
    s
}

/// What is found after a change that no trigger sees.
#[track_caller]
fn after(change: &str) -> Value {
    let db = database();
    let mut s = sealed(&db);
    s.run(&format!("SET session_replication_role = replica; {change}; RESET session_replication_role"));
    let found = s.call("fn_event_verify()");
    assert_eq!(
        (found["ok"].clone(), found["code"].clone()),
        (Value::Bool(false), "broken".into()),
        "{change}: {found}"
    );
    found
}

#[track_caller]
fn assert_found(change: &str, fault: &str, place: &str, seq: i64) {
    let found = after(change);
    assert_eq!(found["fault"], fault, "{change}: {found}");
    assert_eq!(found["where"], place, "{change}: {found}");
    assert_eq!(found["seq"], seq, "{change}: {found}");
    assert!(found["message"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn whatever_is_changed_in_an_event_is_found() {
    for change in [
        "payload = payload || '{\"n\": 0}'",
        "subject = 'other'",
        "event_kind = 'other'",
        "source = NULL",
        "tags = '{t,t}'",
        "dedupe_key = 'd'",
        "correlation_id = gen_random_uuid()::text",
        "trace_id = 't'",
        "mission_id = gen_random_uuid()",
        "origin = 'agentq'",
        "origin = NULL",
        "actor = 'somebody else'",
        "target_type = 'job'",
        "target_id = '7'",
        "command_id = gen_random_uuid()",
        "agent_run_id = gen_random_uuid()",
        "swarm_run_id = gen_random_uuid()",
        "step_index = 1",
        "tool_name = 'search'",
        "latency_ms = 1",
        "token_usage = '{}'",
        "cost_units = 1",
        "event_at = event_at + interval '1 us'",
        "event_id = event_id",
    ] {
        let sql = format!("UPDATE agentq.event SET {change} WHERE subject = 's6'");
        if change == "event_id = event_id" {
            // Nothing has changed, and nothing is wrong.
            let db = database();
            let mut s = sealed(&db);
            s.run(&format!("SET session_replication_role = replica; {sql}"));
            assert_sound(&mut s);
        } else {
            assert_found(&sql, "altered", "event", 6);
        }
    }
    assert_found("UPDATE agentq.event SET purpose = 'agent_step' WHERE subject = 's6'", "altered", "event", 6);
}

#[test]
fn an_event_that_is_gone_is_missing() {
    assert_found("DELETE FROM agentq.event WHERE subject = 's3'", "missing", "event", 3);
    assert_found("DELETE FROM agentq.event WHERE subject = 's8'", "missing", "event", 8);
}

#[test]
fn a_row_of_the_log_that_is_gone_is_missing() {
    assert_found("DELETE FROM agentq.event_log WHERE seq = 6", "missing", "log", 6);
    assert_found("DELETE FROM agentq.event_log WHERE seq = 1", "missing", "log", 1);
    // At the end, nothing comes after it that could tell; the chain remembers.
    assert_found("DELETE FROM agentq.event_log WHERE seq = 10", "missing", "log", 10);
    assert_found("DELETE FROM agentq.event_log WHERE seq = 8", "missing", "log", 8);
}

#[test]
fn an_event_that_was_put_in_beside_the_log_is_found() {
    let found = after(
        "INSERT INTO agentq.event (event_id, event_kind, subject, xid) VALUES
         ('0190c1d2-0000-7000-8000-00000000000b', 'forged', 'x', (SELECT min(xid::text)::xid8 FROM agentq.event))",
    );
    assert_eq!((found["fault"].clone(), found["where"].clone()), ("inserted".into(), "event".into()), "{found}");
    assert_eq!(found["event_id"], "0190c1d2-0000-7000-8000-00000000000b");
}

#[test]
fn a_row_that_was_put_into_the_log_is_found() {
    let forged = |seq: i32, purpose: &str, place: i32| {
        format!(
            "INSERT INTO agentq.event_log SELECT {seq}, '{purpose}', {place}, gen_random_uuid(), event_at, digest, hash
             FROM agentq.event_log WHERE seq = 5"
        )
    };
    assert_found(&forged(11, "event", 9), "inserted", "log", 11);
    assert_found(&forged(5, "audit", 2), "inserted", "log", 5);
}

#[test]
fn rows_that_have_changed_places_are_reordered() {
    let swap = |columns: &str| {
        format!(
            "ALTER TABLE agentq_internal.event_log_usual_0 DROP CONSTRAINT event_log_usual_0_event_key;
             UPDATE agentq.event_log l SET ({columns}) = (SELECT {columns} FROM agentq.event_log o WHERE o.seq = 8 - l.seq)
             WHERE seq IN (3, 5)"
        )
    };
    assert_found(&swap("event_id, event_at, digest"), "reordered", "log", 3);
    assert_found(&swap("event_id, event_at, digest, hash"), "reordered", "log", 3);
}

#[test]
fn whatever_is_changed_in_the_log_is_found() {
    for change in [
        "digest = sha256('x')",
        "hash = sha256('x')",
        "event_at = event_at + interval '1 s'",
        "event_id = gen_random_uuid()",
    ] {
        assert_found(&format!("UPDATE agentq.event_log SET {change} WHERE seq = 7"), "altered", "log", 7);
    }
    // To forge an event one would have to forge all that follows.
    assert_found(
        "UPDATE agentq.event SET payload = '{}' WHERE subject = 's2';
         UPDATE agentq.event_log SET digest = sha256('x') WHERE seq = 2",
        "altered",
        "log",
        2,
    );
}

#[test]
fn the_last_row_of_a_chain_is_held_against_what_the_chain_remembers() {
    // As if the row had been altered together with its own hash.
    for (chain, seq) in [("usual", 10), ("audit", 8)] {
        let change = format!("UPDATE agentq.event_chain SET last_hash = sha256('x') WHERE chain = '{chain}'");
        assert_found(&change, "altered", "log", seq);
    }
}

#[test]
fn a_part_of_the_log_can_be_checked_alone() {
    let db = database();
    let mut s = sealed(&db);
    s.run("SET session_replication_role = replica; UPDATE agentq.event SET subject = 'x' WHERE subject = 's6'; RESET session_replication_role");
    for (range, code, checked) in
        [("1, 5", "sound", 5), ("7", "sound", 4), ("7, 8", "sound", 2), ("5, 7", "broken", 2), ("6, 6", "broken", 1)]
    {
        let found = s.call(&format!("fn_event_verify({range})"));
        assert_eq!(
            (found["code"].clone(), found["checked"].clone()),
            (code.into(), checked.into()),
            "{range}: {found}"
        );
    }
    assert_eq!(s.call("fn_event_verify(p_to => 5)")["code"], "sound");
}

#[test]
fn a_log_is_sound_while_it_is_written() {
    let db = database();
    let mut s = db.session();
    assert_eq!(expect(&mut s, "sound", "fn_event_verify()")["checked"], 0);
    emit(&mut s, "a", "x");
    expect(&mut s, "sound", "fn_event_verify()");
    let mut open = db.session();
    open.run("BEGIN");
    emit(&mut open, "open", "x");
    emit(&mut s, "b", "x");
    seal(&mut s);
    open.run("COMMIT");
    assert_eq!(expect(&mut s, "sound", "fn_event_verify()")["checked"], 2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    refuse(&mut s, "fn_event_verify(0)", "a place in the log is 1 or more, not 0");
    refuse(&mut s, "fn_event_verify(5, 4)", "p_from is 5, which comes after p_to, 4");
}
