//! Signals: none is lost, each is taken once.

use crate::steps::{crash, held};
use agentq_tests::{
    Cluster, Options, Session, Value, attempts, claimed, database, eventually, expect, id, json, refused, token,
    until_someone_waits, until_waiting,
};
use std::sync::Mutex;

#[track_caller]
fn wait(s: &mut Session, job: &str, more: &str) -> Value {
    s.call(&format!("fn_signal_wait('{job}', 'bob', 'go', 'k'{more})"))
}

#[track_caller]
fn send(s: &mut Session, payload: &str) -> Value {
    expect(s, "sent", &format!("fn_signal_send('go', 'k', '{payload}')"))
}

#[test]
fn a_signal_sent_before_the_wait_is_there() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    for payload in ["1", "2", "3"] {
        assert_eq!(send(&mut s, payload)["delivered_to"], json!(null));
    }
    s.call("fn_signal_send('go', 'other', '9')");
    let repeat = ", p_options => '{\"repeat\": true}'";
    for payload in 1..=2 {
        let got = wait(&mut s, &job, repeat);
        assert_eq!((got["code"].clone(), got["payload"].clone()), (json!("received"), json!(payload)), "{got}");
        assert_eq!(got["sent_by"], "postgres");
    }
    // What was got is given again after a crash, in order; then comes the next.
    crash(&mut s, &job);
    for payload in 1..=3 {
        let got = wait(&mut s, &job, repeat);
        assert_eq!((got["payload"].clone(), got["again"].clone()), (json!(payload), json!(payload < 3)), "{got}");
    }
    assert_eq!(s.count("agentq.signal WHERE taken_by IS NULL"), 1);
    assert_eq!(s.count("agentq_internal.signal_channel"), 1);
    // Without repeat the wait is one step, however often it is asked.
    for _ in 0..2 {
        assert_eq!(s.call(&format!("fn_signal_wait('{job}', 'bob', 'go', 'other')"))["payload"], json!(9));
    }
    assert_eq!(s.count("agentq_internal.signal_channel"), 0);
    db.assert_sound();
}

#[test]
fn a_job_sleeps_until_its_signal_comes_and_is_back_at_once() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    let waiting = wait(&mut s, &job, ", '1 hour'");
    assert_eq!((waiting["code"].clone(), waiting["ok"].clone()), (json!("waiting"), json!(true)));
    assert_eq!(s.claim("bob")["code"], "empty");
    let gate = s.call(&format!("fn_job_explain('{job}')"))["gates"][0].clone();
    assert_eq!(
        (gate["gate"].clone(), gate["signal"].clone(), gate["until"].clone()),
        (json!("signal"), json!("go"), waiting["until"].clone())
    );
    assert_eq!(s.text("SELECT status FROM agentq.v_job_step"), "waiting");
    db.assert_sound();
    assert_eq!(send(&mut s, r#"{"yes": 1.50}"#)["delivered_to"], json!(job));
    db.assert_sound();
    // A second one is for somebody else.
    assert_eq!(send(&mut s, "2")["delivered_to"], json!(null));
    let claim = claimed(&mut s, "bob");
    assert_eq!((id(&claim), claim["attempt"].clone()), (job.clone(), json!(1)));
    for _ in 0..2 {
        let got = wait(&mut s, &job, ", '1 hour'");
        assert_eq!((got["code"].clone(), got["payload"].clone()), (json!("received"), json!({"yes": 1.5})));
    }
    crash(&mut s, &job);
    assert_eq!(wait(&mut s, &job, "")["payload"], json!({"yes": 1.5}));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(attempts(&mut s, &job)[0], "1 bob waiting");
    assert_eq!(s.count("agentq.signal_wait"), 0);
    db.assert_sound();
}

#[test]
fn a_claim_that_waits_is_given_the_job_when_the_signal_is_sent() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    let (job, _) = held(&mut s);
    assert_eq!(wait(&mut s, &job, "")["code"], "waiting");
    let waiting = std::thread::spawn(move || worker.call("fn_job_claim('bob', p_wait => '60 s')"));
    until_waiting(&mut s);
    send(&mut s, "1");
    assert_eq!(id(&waiting.join().expect("no panic")), job);
    db.assert_sound();
}

#[test]
fn a_time_out_is_an_outcome_that_stays() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    assert_eq!(wait(&mut s, &job, ", '1 hour'")["code"], "waiting");
    s.shift_clock(3601);
    claimed(&mut s, "bob");
    // What was said first counts, and what comes too late does not change it.
    let late = wait(&mut s, &job, ", '9 hours'");
    assert_eq!((late["code"].clone(), late["ok"].clone()), (json!("timed_out"), json!(true)));
    assert_eq!(send(&mut s, "1")["delivered_to"], json!(null));
    crash(&mut s, &job);
    let again = wait(&mut s, &job, ", '1 hour'");
    assert_eq!((again["code"].clone(), again["again"].clone()), (json!("timed_out"), json!(true)));
    // Another wait gets it; one with no time at all looks once.
    let options = ", p_options => '{\"step\": \"second\"}'";
    assert_eq!(wait(&mut s, &job, options)["payload"], json!(1));
    assert_eq!(wait(&mut s, &job, ", '0', p_options => '{\"step\": \"third\"}'")["code"], "timed_out");
    assert_eq!(s.count("agentq.signal_wait") + s.count("agentq_internal.signal_channel"), 0);
    db.assert_sound();
}

#[test]
fn who_has_waited_longest_is_served_first_and_who_is_gone_is_passed_over() {
    let db = database();
    let mut s = db.session();
    let jobs: Vec<String> = (0..3).map(|_| held(&mut s).0).collect();
    for job in &jobs {
        assert_eq!(wait(&mut s, job, "")["code"], "waiting");
    }
    // Without an end; a wait that is repeated keeps its place.
    let gate = s.call(&format!("fn_job_explain('{}')", jobs[1]))["gates"][0].clone();
    assert_eq!((gate["gate"].clone(), gate["until"].clone()), (json!("signal"), json!(null)));
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{}')", jobs[0]));
    expect(&mut s, "changed", &format!("fn_job_change('{}', '{{\"scheduled_at\": \"2020-01-01\"}}')", jobs[1]));
    claimed(&mut s, "bob");
    assert_eq!(wait(&mut s, &jobs[1], "")["code"], "waiting");
    assert_eq!(send(&mut s, "1")["delivered_to"], json!(jobs[1]));
    assert_eq!(send(&mut s, "2")["delivered_to"], json!(jobs[2]));
    assert_eq!(send(&mut s, "3")["delivered_to"], json!(null));
    for job in [&jobs[1], &jobs[2]] {
        assert_eq!(id(&claimed(&mut s, "bob")), *job);
    }
    db.assert_sound();
}

#[test]
fn a_wait_that_is_being_cleaned_away_does_not_hide_the_next() {
    let db = database();
    let (mut s, mut cleaner) = (db.session(), db.session());
    let (gone, next) = (held(&mut s).0, held(&mut s).0);
    for job in [&gone, &next] {
        assert_eq!(wait(&mut s, job, "")["code"], "waiting");
    }
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{gone}')"));
    // As the chore does it.
    cleaner.run(&format!("BEGIN; DELETE FROM agentq.signal_wait WHERE job_id = '{gone}'"));
    assert_eq!(send(&mut s, "1")["delivered_to"], json!(next), "nobody is waited for");
    cleaner.run("COMMIT");
    assert_eq!(id(&claimed(&mut s, "bob")), next);
    db.assert_sound();
}

#[test]
fn a_job_that_waits_for_its_next_try_is_not_woken() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    assert_eq!(wait(&mut s, &job, ", '1 hour'")["code"], "waiting");
    s.shift_clock(3601);
    claimed(&mut s, "bob");
    expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', p_retry_after => '1 day')"));
    // It is its signal all the same.
    assert_eq!(send(&mut s, "1")["delivered_to"], json!(job));
    assert_eq!(s.state(&job), "retry_waiting");
    let gate = s.call(&format!("fn_job_explain('{job}')"))["gates"][0].clone();
    assert_eq!(gate["gate"], "retry");
    s.shift_clock(100_000);
    claimed(&mut s, "bob");
    assert_eq!(wait(&mut s, &job, ", '1 hour'")["payload"], json!(1));
    db.assert_sound();
}

#[test]
fn a_send_that_commits_while_a_wait_goes_to_sleep_is_not_lost() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    // The wait is first: it has found nothing, and has not committed. The sender waits for it.
    let (job, _) = held(&mut a);
    a.run("BEGIN");
    assert_eq!(wait(&mut a, &job, ", '1 hour'")["code"], "waiting");
    let sender = std::thread::spawn(move || (send(&mut b, "1"), b));
    until_someone_waits(&mut db.session());
    a.run("COMMIT");
    let (sent, mut b) = sender.join().expect("no panic");
    assert_eq!(sent["delivered_to"], json!(job));
    assert_eq!(id(&claimed(&mut a, "bob")), job);
    assert_eq!(wait(&mut a, &job, "")["payload"], json!(1));
    // The send is first: the wait finds it when it has committed.
    let (job, _) = held(&mut a);
    b.run("BEGIN");
    send(&mut b, "2");
    let waiter = std::thread::spawn(move || (wait(&mut a, &job, ", '1 hour'"), a, job));
    until_someone_waits(&mut db.session());
    b.run("COMMIT");
    let (got, mut a, _) = waiter.join().expect("no panic");
    assert_eq!((got["code"].clone(), got["payload"].clone()), (json!("received"), json!(2)));
    // A send that is undone was never there.
    let (job, _) = held(&mut a);
    b.run("BEGIN");
    send(&mut b, "3");
    let waiter = std::thread::spawn(move || (wait(&mut a, &job, ", '1 hour'"), a));
    until_someone_waits(&mut db.session());
    b.run("ROLLBACK");
    let (got, _) = waiter.join().expect("no panic");
    assert_eq!(got["code"], "waiting");
    db.assert_sound();
}

#[test]
fn a_sender_does_not_wait_for_whoever_has_the_job() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let (job, _) = held(&mut s);
    assert_eq!(wait(&mut s, &job, ", '1 hour'")["code"], "waiting");
    // Somebody changes the job, and has not committed.
    other.run("BEGIN");
    expect(&mut other, "changed", &format!("fn_job_change('{job}', '{{\"priority\": 3}}')"));
    assert_eq!(send(&mut s, "1")["delivered_to"], json!(job));
    other.run("COMMIT");
    assert_eq!(s.claim("bob")["code"], "empty");
    // The engine sees to it.
    s.call("fn_engine_tick('clean_flow')");
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    assert_eq!(wait(&mut s, &job, ", '1 hour'")["payload"], json!(1));
    assert_eq!(s.count("agentq.signal WHERE wake_pending"), 0);
    // A claim in an open transaction waits for the channel, and the sender not for the claim.
    let (job, _) = held(&mut s);
    assert_eq!(wait(&mut s, &job, ", '1 hour'")["code"], "waiting");
    other.shift_clock(3601);
    other.run("BEGIN");
    claimed(&mut other, "bob");
    s.run("BEGIN");
    assert_eq!(send(&mut s, "2")["delivered_to"], json!(job));
    let waiter = std::thread::spawn(move || {
        let got = wait(&mut other, &job, ", '1 hour'");
        other.run("COMMIT");
        got
    });
    until_someone_waits(&mut db.session());
    s.run("COMMIT");
    assert_eq!(waiter.join().expect("no panic")["payload"], json!(2));
    db.assert_sound();
}

#[test]
fn every_signal_is_taken_once_when_many_send_and_wait() {
    let db = database();
    let mut s = db.session();
    const JOBS: usize = 40;
    for number in 0..JOBS {
        s.call(&format!("fn_job_enqueue('x', p_payload_json => '{{\"key\": {}}}')", number % 2));
    }
    let got: Mutex<Vec<i64>> = Mutex::default();
    std::thread::scope(|scope| {
        for sender in 0..2 {
            let db = &db;
            scope.spawn(move || {
                let mut s = db.session();
                for number in 0..JOBS / 2 {
                    s.call(&format!("fn_signal_send('go', '{}', '{}')", number % 2, sender * 1000 + number));
                }
            });
        }
        for worker in 0..3 {
            let (db, got) = (&db, &got);
            scope.spawn(move || {
                let mut s = db.session();
                let owner = format!("w{worker}");
                eventually("all jobs have their signal", || {
                    let claim = s.claim(&owner);
                    if claim["code"] == "claimed" {
                        let job = id(&claim);
                        let key = claim["payload_json"]["key"].clone();
                        let answer = s.call(&format!("fn_signal_wait('{job}', '{owner}', 'go', '{key}', '1 hour')"));
                        if answer["code"] == "received" {
                            got.lock().expect("no panic").push(answer["payload"].as_i64().expect("a number"));
                            expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', '{owner}')"));
                        }
                    }
                    got.lock().expect("no panic").len() == JOBS
                });
            });
        }
    });
    let mut got = got.into_inner().expect("no panic");
    got.sort_unstable();
    let expected: Vec<i64> = (0..JOBS as i64 / 2).chain((0..JOBS as i64 / 2).map(|n| 1000 + n)).collect();
    assert_eq!(got, expected);
    assert_eq!(s.count("agentq.signal WHERE taken_by IS NULL") + s.count("agentq.signal_wait"), 0);
    assert_eq!(s.count("agentq_internal.signal_channel"), 0);
    db.assert_sound();
}

#[test]
fn a_wait_in_the_server_gets_what_comes_meanwhile() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    let (job, _) = held(&mut a);
    let waiter = std::thread::spawn(move || {
        let got = wait(&mut a, &job, ", '1 hour', p_options => '{\"wait_seconds\": 60}'");
        (got, a)
    });
    until_waiting(&mut b);
    assert_eq!(send(&mut b, "1")["delivered_to"], json!(null));
    let (got, mut a) = waiter.join().expect("no panic");
    assert_eq!((got["code"].clone(), got["payload"].clone()), (json!("received"), json!(1)));
    // Nothing comes: it sleeps as usual.
    let (job, _) = held(&mut a);
    assert_eq!(wait(&mut a, &job, ", '1 hour', p_options => '{\"wait_seconds\": 0.1}'")["code"], "waiting");
}

#[test]
fn a_signal_is_sent_once_with_a_key_of_its_sender_and_expires() {
    let db = database();
    let mut s = db.session();
    let call = "fn_signal_send('go', 'k', '1', '{\"dedupe_key\": \"d\", \"ttl\": 100}')";
    let first = expect(&mut s, "sent", call);
    assert_eq!(expect(&mut s, "duplicate", call)["signal_id"], first["signal_id"]);
    s.shift_clock(101);
    // Nobody has taken it, and now nobody can.
    let (job, _) = held(&mut s);
    assert_eq!(wait(&mut s, &job, ", '0'")["code"], "timed_out");
    assert_ne!(expect(&mut s, "sent", call)["signal_id"], first["signal_id"]);
    send(&mut s, "2");
    s.shift_clock(500);
    s.call("fn_engine_tick('expire')");
    assert_eq!(s.texts("SELECT payload FROM agentq.signal"), ["2"]);
    s.shift_clock(8 * 86_400);
    s.call("fn_engine_tick('expire')");
    s.call("fn_engine_tick('clean_flow')");
    assert_eq!(s.count("agentq.signal") + s.count("agentq_internal.signal_channel"), 0);
}

#[test]
fn a_cancel_is_heard_instead_of_a_sleep_and_a_wait_that_is_over_is_forgotten() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    expect(&mut s, "cancel_requested", &format!("fn_job_cancel('{job}')"));
    assert_eq!(wait(&mut s, &job, "")["code"], "cancelled");
    assert_eq!(s.count("agentq.signal_wait"), 0);
    let (job, _) = held(&mut s);
    wait(&mut s, &job, "");
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{job}')"));
    s.call("fn_engine_tick('clean_flow')");
    assert_eq!(s.count("agentq.signal_wait") + s.count("agentq_internal.signal_channel"), 0);
    db.assert_sound();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    let (job, _) = held(&mut s);
    let wait = |arguments: &str| format!("SELECT agentq.fn_signal_wait('{job}', 'bob', {arguments})");
    for (sql, code, message) in [
        (wait("''"), "22023", "p_name must not be empty"),
        (wait("NULL"), "22004", "p_name must not be NULL"),
        (wait("'go', ' '"), "22023", "p_key must not be empty"),
        (wait("'go', 'k', '-1 s'"), "22023", "p_timeout must be from 0 to 3650 days"),
        (wait("'go', p_options => '{\"wait_seconds\": 61}'"), "22023", "from 0 to 60"),
        (wait("'go', p_options => '{\"idempotent\": true}'"), "22023", "unknown key \"idempotent\""),
        (
            "SELECT agentq.fn_signal_send('go', p_options => '{\"ttl\": \"1 day\"}')".to_owned(),
            "22023",
            "a number of seconds",
        ),
        (
            "SELECT agentq.fn_signal_send('go', p_options => '{\"dedupe_key\": 5}')".to_owned(),
            "22023",
            "dedupe_key must be a text, not 5",
        ),
        (
            "SELECT agentq.fn_signal_send('go', p_payload => to_jsonb(repeat('x', 300000)))".to_owned(),
            "22023",
            "262144",
        ),
    ] {
        refused(&mut s, &sql, code, message, "");
    }
    assert_eq!(
        s.count("agentq.signal") + s.count("agentq_internal.signal_channel") + s.count("agentq_internal.job_step"),
        0
    );
}

#[test]
fn it_all_holds_without_the_preload() {
    let cluster = Cluster::start("signals", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    let (job, token) = held(&mut s);
    let call = format!("fn_signal_wait('{job}', 'bob', 'go', 'k', '1 hour', '{token}')");
    expect(&mut s, "waiting", &call);
    assert_eq!(send(&mut s, "1")["delivered_to"], json!(job));
    let token = self::token(&claimed(&mut s, "bob"));
    let call = format!("fn_signal_wait('{job}', 'bob', 'go', 'k', '1 hour', '{token}')");
    assert_eq!(expect(&mut s, "received", &call)["payload"], json!(1));
    expect(&mut s, "slept", &format!("fn_job_sleep('{job}', 'bob', p_for => '1 s')"));
    s.shift_clock(2);
    claimed(&mut s, "bob");
    expect(&mut s, "woke", &format!("fn_job_sleep('{job}', 'bob', p_for => '1 s')"));
    db.assert_sound();
}
