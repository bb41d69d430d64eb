//! What happened stays as it was written, whoever asks.

use crate::{assert_sound, emit, seal};
use agentq_tests::database;

#[test]
fn nobody_changes_or_removes_what_is_written_in_whatever_partition_it_lies() {
    let db = database();
    let mut s = db.session();
    s.call("fn_engine_tick('keep_partitions')");
    s.shift_clock(86_400);
    emit(&mut s, "a", "x");
    s.call(r#"fn_event_emit('b', 'x', p_options => '{"purpose": "audit"}')"#);
    seal(&mut s);
    let leaves = s.texts("SELECT partition FROM agentq.v_event_partition");
    assert!(leaves.len() > 11, "{leaves:?}");
    let whole = ["event", "event_usual", "event_audit", "event_log", "event_log_usual", "event_log_audit"];
    for table in leaves.iter().map(String::as_str).chain(whole) {
        let table = s.qualified(table);
        let rows = s.count(&table);
        let column = if table.contains("log") { "place = 7" } else { "subject = 'other'" };
        for change in [format!("UPDATE {table} SET {column}"), format!("DELETE FROM {table}")] {
            if rows > 0 {
                let failure = s.fails(&change);
                assert_eq!(failure.code, "23001", "{change}: {failure:?}");
                assert!(failure.hint.contains("Write a new event"), "{failure:?}");
            }
        }
        let failure = s.fails(&format!("TRUNCATE {table}"));
        assert_eq!(failure.code, "23001", "TRUNCATE {table}: {failure:?}");
    }
    assert_eq!((s.count("agentq.event"), s.count("agentq.event_log")), (2, 2));
    assert_sound(&mut s);
}

#[test]
fn the_events_of_the_queue_are_in_the_log_too() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("a");
    s.call(&format!("fn_job_move_to_dead_letter('{job}', 'no use')"));
    let read = s.call("fn_event_read()");
    assert_eq!(read["events"][0]["event_kind"], "job.dead_lettered", "{read}");
    assert_eq!(read["events"][0]["subject"], job.as_str());
    assert_sound(&mut s);
    db.assert_sound();
}
