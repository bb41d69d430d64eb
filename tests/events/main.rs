//! The events room, over real connections.

mod append_only;
mod crash;
mod emit;
mod feed;
mod log;
mod partitions;
mod read;
mod restore;
mod verify;

use agentq_tests::{Database, Session, Value, expect, sooner_than, text, timed, until_waiting};
use std::time::Duration;

/// Writes an event and returns its id.
#[track_caller]
fn emit(s: &mut Session, kind: &str, subject: &str) -> String {
    let answer = expect(s, "emitted", &format!("fn_event_emit('{kind}', '{subject}')"));
    text(&answer, "event_id")
}

/// Gives every committed event its place.
#[track_caller]
fn seal(s: &mut Session) {
    let ticked = s.call("fn_engine_tick('seal_events')");
    assert_eq!(ticked["ok"], true, "{ticked}");
}

/// A member of every event of an answer.
#[track_caller]
fn each(answer: &Value, member: &str) -> Vec<String> {
    let text = |event: &Value| match &event[member] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    answer["events"].as_array().unwrap_or_else(|| panic!("no events: {answer}")).iter().map(text).collect()
}

/// A reader that waits for 60 seconds has the next event long before they are over.
#[track_caller]
fn hears_soon(db: &Database<'_>) {
    let mut s = db.session();
    let mut after = s.call("fn_event_read()")["next_after"].clone();
    sooner_than(Duration::from_secs(20), "it hears of it when it is there", || {
        let read = format!("fn_event_read({after}, 10, interval '60 s')");
        let (heard, took) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| timed(|| db.session().call(&read)));
            until_waiting(&mut s);
            emit(&mut s, "now", "x");
            reader.join().expect("the reader answers")
        });
        assert_eq!(each(&heard, "event_kind"), ["now"]);
        after = heard["next_after"].clone();
        took
    });
}

/// Fails if anything is wrong with the log.
#[track_caller]
fn assert_sound(s: &mut Session) {
    let answer = s.call("fn_event_verify()");
    assert_eq!(answer["code"], "sound", "{answer}");
    let gaps = s.count("(SELECT seq - lag(seq) OVER (ORDER BY seq) AS step FROM agentq.event_log) l WHERE step <> 1");
    assert_eq!(gaps, 0, "the log has no gaps");
}
