//! One unfinished job per idempotency key, whoever tries and when.

use agentq_tests::{Session, claimed, database, expect, id, json, until_someone_waits};
use std::sync::Barrier;

/// Enqueues with the key `k` and returns whether that was a duplicate, and of which job.
#[track_caller]
fn enqueue(s: &mut Session, key: &str) -> (bool, String) {
    let answer = s.json("SELECT agentq.fn_job_enqueue('mail.send', $1)", &[&key]);
    assert_eq!(answer["ok"], json!(true), "{answer}");
    let duplicate = answer["duplicate"] == json!(true);
    assert_eq!(answer["code"], if duplicate { "duplicate" } else { "enqueued" });
    (duplicate, id(&answer))
}

#[test]
fn a_second_enqueue_with_the_key_answers_with_the_first_job() {
    let db = database();
    let mut s = db.session();
    let (duplicate, first) = enqueue(&mut s, "k");
    assert!(!duplicate);
    assert_eq!(enqueue(&mut s, "k"), (true, first.clone()));
    assert_eq!(enqueue(&mut db.session(), "k"), (true, first));
    assert_eq!(s.count("agentq.job_queue"), 1);
}

/// Keys of agentq's own: nobody can take one first, and so keep agentq from what it stands for.
#[test]
fn a_key_that_begins_as_those_of_agentq_is_refused_wherever_one_is_given() {
    let db = database();
    let mut s = db.session();
    for statement in [
        "SELECT agentq.fn_job_enqueue('a', 'agentq:x')",
        "INSERT INTO agentq.job_queue (job_kind, idempotency_key) VALUES ('a', 'agentq:x')",
        r#"SELECT agentq.fn_proposal_create('agentq:x', 'api', '{"title": "t", "steps": [{"name": "a", "kind": "a"}]}')"#,
    ] {
        let failure = s.fails(statement);
        assert_eq!(failure.code, "22023", "{statement}: {failure:?}");
        assert!(failure.message.contains("agentq:"), "{statement}: {failure:?}");
    }
    let batch = s.call(r#"fn_job_enqueue_batch('[{"job_kind": "a", "idempotency_key": "agentq:x"}]')"#);
    assert!(batch.to_string().contains("begins with agentq:"), "{batch}");
    assert_eq!(s.count("agentq.job_queue"), 0);
}

#[test]
fn the_answer_to_a_duplicate_shows_where_the_first_job_stands() {
    let db = database();
    let mut s = db.session();
    s.call("fn_queue_set('mail')");
    let first = id(&s.call("fn_job_enqueue('mail.send', 'k', p_options => '{\"queue\": \"mail\"}')"));
    s.call("fn_job_claim('bob', p_options => '{\"queues\": [\"mail\"]}')");
    let answer = expect(&mut s, "duplicate", "fn_job_enqueue('other.kind', 'k', p_priority => 1)");
    assert_eq!(answer["job_id"], json!(first));
    assert_eq!(answer["state"], "leased");
    assert_eq!(answer["queue"], "mail");
    // The second call changed nothing of the first job.
    let job = &s.call(&format!("fn_job_get('{first}')"))["job"];
    assert_eq!((job["job_kind"].clone(), job["priority"].clone()), (json!("mail.send"), json!(100)));
}

#[test]
fn a_key_is_in_use_in_every_unfinished_state() {
    let db = database();
    let mut s = db.session();
    let (_, job) = enqueue(&mut s, "k");
    let taken = |s: &mut Session, state: &str| {
        assert_eq!(s.state(&job), state);
        assert_eq!(enqueue(s, "k"), (true, job.clone()), "{state}");
    };
    taken(&mut s, "queued");
    claimed(&mut s, "bob");
    taken(&mut s, "leased");
    s.call(&format!("fn_job_start('{job}', 'bob')"));
    taken(&mut s, "in_progress");
    s.call(&format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')"));
    taken(&mut s, "retry_waiting");
    s.shift_clock(100);
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_snooze('{job}', 'bob', agentq.fn_clock_now() + '1 hour')"));
    taken(&mut s, "queued");
    s.shift_clock(10_000);
    claimed(&mut s, "bob");
    s.call(&format!("fn_job_release('{job}', 'bob')"));
    taken(&mut s, "queued");
    // An expired lease that someone recovered.
    claimed(&mut s, "bob");
    s.shift_clock(20_000);
    assert_eq!(claimed(&mut s, "cat")["attempt"], json!(3));
    taken(&mut s, "leased");
    db.assert_sound();
}

#[test]
fn a_finished_job_frees_its_key() {
    let db = database();
    let mut s = db.session();
    let mut finish = |state: &str, ways: &[&str]| {
        let (duplicate, job) = enqueue(&mut s, "k");
        assert!(!duplicate, "before {state}");
        for way in ways {
            s.call(&way.replace("$job", &job));
        }
        assert_eq!(s.state(&job), state);
    };
    finish("succeeded", &["fn_job_claim('bob')", "fn_job_ack('$job', 'bob')"]);
    finish("succeeded", &["fn_job_claim('bob')", "fn_job_ack_batch('bob', '[\"$job\"]')"]);
    finish("cancelled", &["fn_job_cancel('$job')"]);
    finish("cancelled", &["fn_job_claim('bob')", "fn_job_cancel('$job')", "fn_job_release('$job', 'bob')"]);
    finish("dead_letter", &["fn_job_move_to_dead_letter('$job', 'hopeless')"]);
    finish(
        "dead_letter",
        &[
            "fn_job_change('$job', '{\"max_attempts\": 1}')",
            "fn_job_claim('bob')",
            "fn_job_fail_or_retry('$job', 'bob', 'boom')",
        ],
    );
    finish("queued", &[]);
    db.assert_sound();
}

#[test]
fn a_hundred_sessions_with_the_same_key_at_the_same_instant_make_one_job() {
    const SESSIONS: usize = 100;
    let db = database();
    let start = Barrier::new(SESSIONS);
    let answers: Vec<(bool, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut s = db.session();
                    start.wait();
                    enqueue(&mut s, "k")
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no error")).collect()
    });
    let first = answers.iter().find(|(duplicate, _)| !duplicate).expect("one is the first");
    assert_eq!(answers.iter().filter(|(duplicate, _)| *duplicate).count(), SESSIONS - 1);
    assert!(answers.iter().all(|(_, job)| *job == first.1));
    assert_eq!(db.session().count("agentq.job_queue"), 1);
    db.assert_sound();
}

#[test]
fn two_batches_with_the_same_keys_in_opposite_order_do_not_deadlock() {
    const KEYS: usize = 300;
    let db = database();
    let batch = |keys: &mut dyn Iterator<Item = usize>| {
        json!(keys.map(|k| json!({"job_kind": "x", "idempotency_key": format!("key {k}")})).collect::<Vec<_>>())
    };
    for round in 0..5 {
        let first = round * KEYS;
        let forth = batch(&mut (first..first + KEYS));
        let back = batch(&mut (first..first + KEYS).rev());
        let start = Barrier::new(4);
        let created: Vec<i64> = std::thread::scope(|scope| {
            let threads: Vec<_> = [&forth, &back, &forth, &back]
                .into_iter()
                .map(|jobs| {
                    let (db, start) = (&db, &start);
                    scope.spawn(move || {
                        let mut s = db.session();
                        start.wait();
                        let answer = s.json("SELECT agentq.fn_job_enqueue_batch($1)", &[jobs]);
                        assert_eq!(answer["refused"], json!(0), "{answer}");
                        answer["created"].as_i64().expect("a number")
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no deadlock")).collect()
        });
        assert_eq!(created.iter().sum::<i64>(), KEYS as i64);
    }
    assert_eq!(db.session().count("agentq.job_queue"), 5 * KEYS as i64);
    db.assert_sound();
}

/// A second session tries the key of a first one's uncommitted job; `end` is how that one ends.
fn enqueue_behind(end: &str) -> ((bool, String), String) {
    let db = database();
    let mut first = db.session();
    first.run("BEGIN");
    let (_, job) = enqueue(&mut first, "k");
    let second = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| enqueue(&mut db.session(), "k"));
        until_someone_waits(&mut db.session());
        first.run(end);
        waiting.join().expect("it answers")
    });
    assert_eq!(db.session().count("agentq.job_queue"), 1);
    db.assert_sound();
    (second, job)
}

#[test]
fn an_enqueue_that_waited_for_one_that_rolled_back_wins_the_key() {
    let ((duplicate, second), first) = enqueue_behind("ROLLBACK");
    assert!(!duplicate && second != first);
}

#[test]
fn an_enqueue_that_waited_for_one_that_committed_is_its_duplicate() {
    let (second, first) = enqueue_behind("COMMIT");
    assert_eq!(second, (true, first));
}

#[test]
fn a_batch_waits_for_an_uncommitted_key_too() {
    let db = database();
    let mut first = db.session();
    first.run("BEGIN");
    enqueue(&mut first, "k");
    let answer = std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| db.session().call("fn_job_enqueue_batch('[{\"job_kind\": \"x\", \"idempotency_key\": \"k\"}]')"));
        until_someone_waits(&mut db.session());
        first.run("ROLLBACK");
        waiting.join().expect("it answers")
    });
    assert_eq!(answer["created"], json!(1));
    db.assert_sound();
}

#[test]
fn a_key_is_freed_by_the_commit_of_an_ack_and_not_before() {
    let db = database();
    let (mut worker, mut producer) = (db.session(), db.session());
    let (_, job) = enqueue(&mut producer, "k");
    claimed(&mut worker, "bob");
    worker.run("BEGIN");
    expect(&mut worker, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(enqueue(&mut producer, "k"), (true, job));
    worker.run("COMMIT");
    assert!(!enqueue(&mut producer, "k").0);
    db.assert_sound();
}

#[test]
fn a_key_is_free_again_when_its_savepoint_is_rolled_back() {
    let db = database();
    let mut s = db.session();
    s.run("BEGIN; SAVEPOINT here");
    let (_, gone) = enqueue(&mut s, "k");
    assert_eq!(enqueue(&mut s, "k"), (true, gone.clone()));
    s.run("ROLLBACK TO here");
    let (duplicate, kept) = enqueue(&mut s, "k");
    assert!(!duplicate && kept != gone);
    s.run("COMMIT");
    assert_eq!(enqueue(&mut s, "k"), (true, kept));
    db.assert_sound();
}

#[test]
fn under_repeatable_read_a_key_taken_meanwhile_is_a_serialization_failure() {
    let db = database();
    let (mut old, mut new) = (db.session(), db.session());
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    enqueue(&mut new, "k");
    let failure = old.fails("SELECT agentq.fn_job_enqueue('mail.send', 'k')");
    assert_eq!(failure.code, "40001", "{failure:?}");
}

#[test]
fn the_id_of_a_job_without_a_key_is_its_key() {
    let db = database();
    let mut s = db.session();
    let job = s.enqueue("mail.send");
    assert_eq!(enqueue(&mut s, &job), (true, job.clone()));
    let listed = json!([{"job_kind": "x", "idempotency_key": job}]);
    let answer = s.json("SELECT agentq.fn_job_enqueue_batch($1)", &[&listed]);
    assert_eq!(answer["jobs"][0]["job_id"], json!(job));
    assert_eq!(answer["duplicates"], json!(1));

    claimed(&mut s, "bob");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert!(!enqueue(&mut s, &job).0);
    db.assert_sound();
}

#[test]
fn the_id_of_a_job_that_has_a_key_is_not_its_key() {
    let db = database();
    let mut s = db.session();
    let (_, job) = enqueue(&mut s, "k");
    assert!(!enqueue(&mut s, &job).0);
}

#[test]
fn a_single_enqueue_and_a_batch_agree_on_what_a_duplicate_is() {
    let db = database();
    let mut s = db.session();
    // The same uuid in other letters: whatever it counts as, it must count as that everywhere.
    let shouted = s.enqueue("mail.send").to_uppercase();
    let single = enqueue(&mut s, &shouted).0;
    let again = s.enqueue("mail.send").to_uppercase();
    let listed = json!([{"job_kind": "x", "idempotency_key": again}]);
    let answer = s.json("SELECT agentq.fn_job_enqueue_batch($1)", &[&listed]);
    assert_eq!(answer["jobs"][0]["duplicate"], json!(single), "{answer}");
}

#[test]
fn keys_are_compared_letter_by_letter() {
    let db = database();
    let mut s = db.session();
    for key in ["k", "K", "k ", " k", "ｋ", "k\u{301}"] {
        assert!(!enqueue(&mut s, key).0, "{key:?}");
        assert!(enqueue(&mut s, key).0, "{key:?}");
    }
}
