//! Reading the log: filters, limits, and waiting for what comes.

use crate::{each, emit};
use agentq_tests::{Session, Value, database, expect, json, refuse, refused, sooner_than, timed};
use std::time::Duration;

const MISSION: &str = "0190c1d2-0000-7000-8000-00000000000a";

fn read(s: &mut Session, after: i64, limit: i32, options: &Value) -> Value {
    s.json("SELECT agentq.fn_event_read($1, $2, NULL, $3)", &[&after, &limit, options])
}

#[test]
fn a_reader_goes_on_with_next_after_until_nothing_is_left() {
    let db = database();
    let mut s = db.session();
    for n in 1..=5 {
        emit(&mut s, &format!("k{n}"), "x");
    }
    let first = expect(&mut s, "events", "fn_event_read(p_limit => 2)");
    assert_eq!(
        (each(&first, "event_kind"), &first["next_after"], &first["last_seq"]),
        (vec!["k1".to_owned(), "k2".to_owned()], &json!(2), &json!(5))
    );
    let rest = expect(&mut s, "events", "fn_event_read(2)");
    assert_eq!(
        (each(&rest, "event_kind"), &rest["next_after"]),
        (vec!["k3".to_owned(), "k4".to_owned(), "k5".to_owned()], &json!(5))
    );
    let none = expect(&mut s, "empty", "fn_event_read(5)");
    assert_eq!((none["events"].clone(), none["next_after"].clone()), (json!([]), json!(5)));
    let event = &first["events"][0];
    assert_eq!(
        (event["subject"].clone(), event["payload"].clone(), event["tags"].clone()),
        (json!("x"), json!({}), json!([]))
    );
}

#[test]
fn a_filter_leaves_out_the_rest_and_passes_over_it() {
    let db = database();
    let mut s = db.session();
    s.run("SELECT agentq.fn_event_emit('noise', 'n') FROM generate_series(1, 2500)");
    s.run(&format!(
        r#"SELECT agentq.fn_event_emit('a', 'one', p_options => '{{"purpose": "audit"}}');
           SELECT agentq.fn_event_emit('b', 'two', p_options => '{{"mission_id": "{MISSION}", "tags": ["x", "y"], "source": "shop"}}')"#
    ));
    crate::seal(&mut s);
    for (options, expected) in [
        (json!({"kinds": ["a", "b"]}), vec!["a", "b"]),
        (json!({"purposes": ["audit"]}), vec!["a"]),
        (json!({"subject": "two"}), vec!["b"]),
        (json!({"mission": MISSION}), vec!["b"]),
        (json!({"kinds": ["a"], "subject": "two"}), vec![]),
        (json!({"kinds": ["?"]}), vec!["a", "b"]),
        (json!({"kinds": ["n*e", "b*"], "subject": "two"}), vec!["b"]),
        (json!({"kinds": ["%", "_"]}), vec![]),
        (json!({"tags": ["y", "z"]}), vec!["b"]),
        (json!({"source": "shop"}), vec!["b"]),
        (json!({"mission": MISSION, "kinds": ["a"]}), vec![]),
        (json!({"mission": MISSION, "tags": ["z"]}), vec![]),
        (json!({"origin": "agentq"}), vec![]),
    ] {
        let answer = read(&mut s, 0, 100, &options);
        assert_eq!(each(&answer, "event_kind"), expected, "{options}");
        assert_eq!(answer["next_after"], 2502, "{options}: what it has looked through it need not look through again");
    }
    let one = read(&mut s, 0, 1, &json!({"kinds": ["a", "b"]}));
    assert_eq!((each(&one, "event_kind"), &one["next_after"]), (vec!["a".to_owned()], &json!(2501)));
}

#[test]
fn a_reader_that_waits_hears_of_the_next_event_soon_and_of_nothing_in_vain() {
    let db = database();
    let mut s = db.session();
    let (none, took) = timed(|| s.call("fn_event_read(0, 10, interval '0.3 s')"));
    assert_eq!(none["code"], "empty");
    assert!(took >= Duration::from_millis(300), "{took:?}");
    crate::hears_soon(&db);
}

#[test]
fn a_reader_that_has_sealed_what_it_does_not_want_lets_the_others_have_it() {
    let db = database();
    let mut s = db.session();
    let mut after = 0;
    sooner_than(Duration::from_secs(20), "it does not keep the sealer's row while it waits", || {
        emit(&mut s, "noise", "x");
        let read = format!("fn_event_read({after}, 10, interval '20 s', '{{\"kinds\": [\"a\"]}}')");
        let (answer, took) = timed(|| s.call(&read));
        after += 1;
        assert_eq!((answer["code"].clone(), answer["next_after"].clone()), (json!("empty"), json!(after)));
        took
    });
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let db = database();
    let mut s = db.session();
    refused(&mut s, "SELECT agentq.fn_event_read(NULL)", "22004", "p_after must not be NULL", "");
    refused(&mut s, "SELECT agentq.fn_event_read(0, NULL)", "22004", "p_limit must not be NULL", "");
    for (call, message) in [
        ("fn_event_read(0, 0)", "p_limit must be from 1 to 10000, but is 0"),
        ("fn_event_read(0, 10001)", "p_limit must be from 1 to 10000"),
        ("fn_event_read(0, 1, interval '61 s')", "p_wait must be from 0 to 60 seconds"),
        ("fn_event_read(0, 1, interval '-1 s')", "p_wait must be from 0 to 60 seconds"),
        ("fn_event_read(0, 1, NULL, '{\"kind\": \"a\"}')", "unknown key \"kind\""),
        ("fn_event_read(0, 1, NULL, '{\"purposes\": [\"fun\"]}')", "p_options.purposes[0] must be one of"),
        ("fn_event_read(0, 1, NULL, '{\"mission\": \"x\"}')", "mission must be a uuid"),
    ] {
        refuse(&mut s, call, message);
    }
    s.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    let failure = s.fails("SELECT agentq.fn_event_read(0, 1, interval '1 s')");
    assert!(failure.code == "22023" && failure.hint.contains("READ COMMITTED"), "{failure:?}");
}

#[test]
fn the_events_of_a_mission_are_read_page_by_page() {
    let db = database();
    let mut s = db.session();
    s.run(&format!(
        r#"SELECT agentq.fn_event_emit('of ' || n % 3, 's' || n, p_options => CASE WHEN n % 3 = 0 THEN
               jsonb_build_object('mission_id', '{MISSION}', 'purpose', CASE WHEN n % 2 = 0 THEN 'audit' ELSE 'event' END) ELSE '{{}}' END)
           FROM generate_series(1, 30) n"#
    ));
    crate::seal(&mut s);
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = read(&mut s, after, 4, &json!({"mission": MISSION}));
        seen.extend(each(&page, "subject"));
        after = page["next_after"].as_i64().unwrap();
        if page["code"] == "empty" {
            break;
        }
    }
    let all: Vec<String> = (1..=10).map(|n| format!("s{}", n * 3)).collect();
    assert_eq!((seen, after), (all, 30));
    // Nothing but what is asked for is looked at.
    let plan = s.texts(&format!("EXPLAIN SELECT event_kind FROM agentq.event WHERE mission_id = '{MISSION}'"));
    s.run("SET enable_seqscan = off");
    for (column, value) in [
        ("mission_id", MISSION),
        ("event_kind", "a"),
        ("command_id", MISSION),
        ("agent_run_id", MISSION),
        ("swarm_run_id", MISSION),
    ] {
        let plan =
            s.texts(&format!("EXPLAIN SELECT event_kind FROM agentq.event WHERE {column} = '{value}'")).join("\n");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
    assert!(!plan.is_empty());
}
