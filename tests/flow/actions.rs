//! Idempotent actions: done once, whoever tries.

use agentq_tests::{Session, Value, claimed, database, expect, id, json, refused, text, token, until_someone_waits};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[track_caller]
fn begin(s: &mut Session, key: &str, holder: &str, more: &str) -> Value {
    s.call(&format!("fn_action_begin('{key}', 'charge', '{{\"eur\": 5}}', '{holder}'{more})"))
}

#[test]
fn the_first_wins_and_the_others_are_given_its_result() {
    let db = database();
    let mut s = db.session();
    let won = begin(&mut s, "k", "ann", "");
    assert_eq!((won["code"].clone(), won["attempt"].clone()), (json!("won"), json!(1)));
    let busy = begin(&mut s, "k", "bob", "");
    assert_eq!(
        (busy["code"].clone(), busy["ok"].clone(), busy["holder"].clone(), busy["lease_until"].clone()),
        (json!("in_progress"), json!(false), json!("ann"), won["lease_until"].clone())
    );
    let finish = format!("fn_action_finish('k', 'ann', '{{\"charge\": 7.10}}', '{}')", text(&won, "token"));
    expect(&mut s, "finished", &finish);
    assert_eq!(expect(&mut s, "finished", &finish)["again"], json!(true));
    for holder in ["ann", "bob"] {
        let done = begin(&mut s, "k", holder, "");
        assert_eq!((done["code"].clone(), done["result"].clone()), (json!("done"), json!({"charge": 7.1})));
    }
    // For 7 days, unless said otherwise.
    s.shift_clock(6 * 86_400);
    assert_eq!(begin(&mut s, "k", "bob", "")["code"], "done");
    s.shift_clock(7 * 86_400 + 10);
    assert_eq!(begin(&mut s, "k", "bob", "")["code"], "won");
    let short = begin(&mut s, "short", "bob", ", '{\"ttl\": 60}'");
    expect(&mut s, "finished", &format!("fn_action_finish('short', 'bob', NULL, '{}')", text(&short, "token")));
    s.shift_clock(7 * 86_400 + 100);
    s.call("fn_engine_tick('expire')");
    assert_eq!(s.texts("SELECT action_key FROM agentq.action"), ["k"]);
}

#[test]
fn a_failure_lets_the_next_one_win_and_a_lease_that_ran_out_too() {
    let db = database();
    let mut s = db.session();
    begin(&mut s, "k", "ann", "");
    expect(&mut s, "failed", "fn_action_fail('k', 'ann', 'card declined')");
    assert_eq!(s.text("SELECT status || ' ' || error FROM agentq.action"), "failed card declined");
    let won = begin(&mut s, "k", "bob", ", '{\"lease_seconds\": 10}'");
    assert_eq!((won["code"].clone(), won["attempt"].clone()), (json!("won"), json!(2)));
    s.shift_clock(11);
    // Late, but nobody has taken over: it counts. So try it in a transaction that is undone.
    let finish = format!("fn_action_finish('k', 'bob', '1', '{}')", text(&won, "token"));
    s.run("BEGIN");
    expect(&mut s, "finished", &finish);
    s.run("ROLLBACK");
    let taken = begin(&mut s, "k", "eve", "");
    assert_eq!((taken["code"].clone(), taken["taken_over_from"].clone()), (json!("won"), json!("bob")));
    for call in [finish.as_str(), "fn_action_fail('k', 'bob', 'no')", "fn_action_finish('k', 'bob')"] {
        let lost = s.call(call);
        assert_eq!(
            (lost["code"].clone(), lost["ok"].clone(), lost["holder"].clone()),
            (json!("action_lost"), json!(false), json!("eve"))
        );
    }
    // The same holder with an old token has lost it as well.
    s.shift_clock(1000);
    let again = begin(&mut s, "k", "eve", "");
    assert_eq!(again["code"], "won");
    assert_eq!(
        s.call(&format!("fn_action_finish('k', 'eve', '1', '{}')", text(&taken, "token")))["code"],
        "action_lost"
    );
    expect(&mut s, "finished", &format!("fn_action_finish('k', 'eve', '1', '{}')", text(&again, "token")));
}

#[test]
fn two_sessions_at_once_never_both_win() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    a.run("BEGIN");
    assert_eq!(begin(&mut a, "k", "ann", "")["code"], "won");
    // The second waits for the first one's transaction, and no longer.
    let code = "SELECT agentq.fn_action_begin('k', 'charge', '{\"eur\": 5}', 'bob')->>'code'";
    let waiting = std::thread::spawn(move || (b.text(code), b));
    until_someone_waits(&mut db.session());
    a.run("COMMIT");
    let (answer, mut b) = waiting.join().expect("no panic");
    assert_eq!(answer, "in_progress");
    // A rollback lets the second win.
    a.run("BEGIN");
    begin(&mut a, "other", "ann", "");
    let code = code.replace("'k'", "'other'");
    let waiting = std::thread::spawn(move || b.text(&code));
    until_someone_waits(&mut db.session());
    a.run("ROLLBACK");
    assert_eq!(waiting.join().expect("no panic"), "won");
    // Many at once, for many keys, with takeovers in between.
    for key in 0..20 {
        let wins = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for holder in 0..6 {
                let (db, wins) = (&db, &wins);
                scope.spawn(move || {
                    let mut s = db.session();
                    if begin(&mut s, &format!("race {key}"), &holder.to_string(), "")["code"] == "won" {
                        wins.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(wins.load(SeqCst), 1);
    }
}

#[test]
fn an_action_of_a_job_may_be_taken_over_when_its_attempt_has_ended() {
    let db = database();
    let mut s = db.session();
    s.enqueue("x");
    let claim = claimed(&mut s, "bob");
    let (job, old) = (id(&claim), token(&claim));
    let of =
        |token: &str| format!(", '{{\"lease_seconds\": 9000, \"job_id\": \"{job}\", \"lease_token\": \"{token}\"}}'");
    let won = begin(&mut s, "k", "bob", &of(&old));
    assert_eq!(won["code"], "won");
    assert_eq!(begin(&mut s, "k", "eve", "")["job_id"], json!(job));
    s.shift_clock(400);
    let new = token(&claimed(&mut s, "bob"));
    assert_eq!(begin(&mut s, "k", "bob", &of(&old))["code"], "lease_lost");
    // Long before the lease of the action would have run out.
    let again = begin(&mut s, "k", "bob", &of(&new));
    assert_eq!((again["code"].clone(), again["attempt"].clone()), (json!("won"), json!(2)));
    assert_eq!(s.call(&format!("fn_action_finish('k', 'bob', '1', '{}')", text(&won, "token")))["code"], "action_lost");
    expect(&mut s, "finished", &format!("fn_action_finish('k', 'bob', '1', '{}')", text(&again, "token")));
    assert_eq!(begin(&mut s, "k", "bob", &of(&new))["result"], json!(1));
    db.assert_sound();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    begin(&mut s, "k", "ann", "");
    for (arguments, code, message, hint) in [
        ("'k', 'charge', '{\"eur\": 6}'", "22023", "changed: \"eur\"", "another name"),
        ("'k', 'refund', '{\"eur\": 5}'", "22023", "is of the type \"charge\", not \"refund\"", "another key"),
        ("NULL, 'charge'", "22004", "p_key must not be NULL", ""),
        ("' ', 'charge'", "22023", "p_key must not be empty", ""),
        ("'n', ''", "22023", "p_type must not be empty", ""),
        (
            "'n', 'charge', p_options => '{\"job_id\": \"x\", \"lease_token\": \"y\"}'",
            "22023",
            "job_id must be a uuid",
            "",
        ),
        (
            "'n', 'charge', p_options => '{\"job_id\": \"00000000-0000-4000-8000-000000000001\"}'",
            "22023",
            "belong together",
            "Give both",
        ),
        ("'n', 'charge', p_options => '{\"ttl\": 0}'", "22023", "from 1 to 315360000", "ttl"),
        ("'n', 'charge', p_options => '{\"lease\": 5}'", "22023", "unknown key \"lease\"", "lease_seconds"),
    ] {
        refused(&mut s, &format!("SELECT agentq.fn_action_begin({arguments})"), code, message, hint);
    }
    refused(
        &mut s,
        "SELECT agentq.fn_action_finish('none')",
        "P0002",
        "there is no action \"none\"",
        "fn_action_begin",
    );
    s.call("fn_config_set('flow.result.max_bytes', '1024')");
    let large = "SELECT agentq.fn_action_finish('k', 'ann', to_jsonb(repeat('x', 2000)))";
    refused(&mut s, large, "22023", "more than the 1024 allowed", "flow.result.max_bytes");
    // The key of the same job, step and inputs is the same.
    let key = |s: &mut Session, inputs: &str| {
        s.text(&format!("SELECT agentq.fn_action_key('00000000-0000-4000-8000-000000000001', 'pay', '{inputs}')"))
    };
    assert_eq!(key(&mut s, r#"{"a": 1, "b": 2}"#), key(&mut s, r#"{"b": 2.0, "a": 1}"#));
    assert_ne!(key(&mut s, r#"{"a": 1}"#), key(&mut s, r#"{"a": 2}"#));
    assert_eq!(key(&mut s, "{}").len(), 64);
}
