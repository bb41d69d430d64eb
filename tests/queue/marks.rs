//! The marks from which claims scan: whatever comes back behind them, or commits late, is found.

use agentq_tests::{
    Database, Session, claimed, database, drain, enqueue_all, eventually, expect, id, json, sooner_than, timed,
};
use std::time::Duration;

/// The shapes of a claim, each of which reads another lane, or several.
const SHAPES: [&str; 3] = [
    "fn_job_claim('bob')",
    "fn_job_claim('bob', 'x')",
    "fn_job_claim('bob', p_options => '{\"kinds\": [\"x\", \"y\"]}')",
];

/// Another session takes a job out of the middle with `take`, and a session that has been claiming
/// goes on behind it. After `give_back` that job must be its very next one.
#[track_caller]
fn comes_back_first(
    take: impl Fn(&Database<'_>, &mut Session, &str),
    give_back: impl Fn(&Database<'_>, &mut Session, &str),
) {
    let db = database();
    let mut worker = db.session();
    for claim in SHAPES {
        let mut holder = db.session();
        let jobs = enqueue_all(&mut holder, &["x"; 12], "");
        let next = |worker: &mut Session| id(&expect(worker, "claimed", claim));
        for job in &jobs[..3] {
            assert_eq!(next(&mut worker), *job);
        }
        take(&db, &mut holder, &jobs[3]);
        for job in &jobs[4..7] {
            assert_eq!(next(&mut worker), *job, "{claim}");
        }
        give_back(&db, &mut holder, &jobs[3]);
        assert_eq!(next(&mut worker), jobs[3], "{claim}");
        assert_eq!(drain(&mut worker, claim, "job_id"), jobs[7..], "{claim}");
    }
    db.assert_sound();
}

fn claim(_: &Database<'_>, s: &mut Session, job: &str) {
    assert_eq!(id(&claimed(s, "ann")), job);
}

fn begin_and_claim(db: &Database<'_>, s: &mut Session, job: &str) {
    s.run("BEGIN");
    claim(db, s, job);
}

#[test]
fn a_claim_that_is_rolled_back_leaves_its_job_next_in_line() {
    comes_back_first(begin_and_claim, |_, s, _| s.run("ROLLBACK"));
}

#[test]
fn a_claim_that_is_rolled_back_to_a_savepoint_leaves_its_job_next_in_line() {
    comes_back_first(
        |db, s, job| {
            s.run("BEGIN; SAVEPOINT here");
            claim(db, s, job);
        },
        // The transaction itself is still open.
        |_, s, _| s.run("ROLLBACK TO here"),
    );
}

#[test]
fn claims_in_a_block_that_failed_leave_their_jobs_next_in_line() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    let jobs = enqueue_all(&mut s, &["x"; 8], "");
    assert_eq!(id(&claimed(&mut worker, "bob")), jobs[0]);
    s.run(
        "DO $$ BEGIN
             PERFORM agentq.fn_job_claim('ann') FROM generate_series(1, 3);
             RAISE EXCEPTION 'no';
         EXCEPTION WHEN OTHERS THEN
             -- Still in the same transaction, the block's claims undone.
             PERFORM agentq.fn_job_claim('ann');
         END $$",
    );
    assert_eq!(s.state(&jobs[1]), "leased");
    assert_eq!(drain(&mut worker, "fn_job_claim('bob')", "job_id"), jobs[2..]);
    db.assert_sound();
}

#[test]
fn a_session_that_dies_leaves_its_job_next_in_line() {
    comes_back_first(begin_and_claim, |db, s, _| {
        let pid = s.text("SELECT pg_backend_pid()");
        let mut other = db.session();
        other.run(&format!("SELECT pg_terminate_backend({pid})"));
        eventually("the backend is gone", || other.count(&format!("pg_stat_activity WHERE pid = {pid}")) == 0);
    });
}

#[test]
fn a_released_job_is_next_in_line() {
    comes_back_first(claim, |_, s, job| {
        expect(s, "released", &format!("fn_job_release('{job}', 'ann')"));
    });
}

#[test]
fn a_release_that_commits_later_puts_its_job_next_in_line_then() {
    comes_back_first(
        |db, s, job| {
            claim(db, s, job);
            s.run("BEGIN");
            expect(s, "released", &format!("fn_job_release('{job}', 'ann')"));
        },
        |_, s, _| s.run("COMMIT"),
    );
}

#[test]
fn a_job_snoozed_into_the_past_is_next_in_line() {
    comes_back_first(claim, |_, s, job| {
        expect(s, "snoozed", &format!("fn_job_snooze('{job}', 'ann', '2020-01-01')"));
    });
}

#[test]
fn a_retry_that_is_brought_forward_is_next_in_line() {
    comes_back_first(claim, |_, s, job| {
        expect(s, "retry_waiting", &format!("fn_job_fail_or_retry('{job}', 'ann', 'boom')"));
        s.call(&format!("fn_job_change('{job}', '{{\"scheduled_at\": \"2020-01-01\"}}')"));
    });
}

#[test]
fn a_retried_job_is_found_in_its_new_place() {
    let db = database();
    let (mut holder, mut worker) = (db.session(), db.session());
    holder.call("fn_config_set('queue.retry.backoff_base_sec', '0')");
    for claim in SHAPES {
        let jobs = enqueue_all(&mut holder, &["x"; 6], "");
        assert_eq!(id(&claimed(&mut holder, "ann")), jobs[0]);
        assert_eq!(id(&expect(&mut worker, "claimed", claim)), jobs[1]);
        expect(&mut holder, "retry_waiting", &format!("fn_job_fail_or_retry('{}', 'ann', 'boom')", jobs[0]));
        // It is due from the moment of its failure, so behind those that were there and before these.
        let more = enqueue_all(&mut holder, &["x"; 2], "");
        let mut order = jobs[2..].to_vec();
        order.push(jobs[0].clone());
        order.extend(more);
        assert_eq!(drain(&mut worker, claim, "job_id"), order, "{claim}");
    }
    db.assert_sound();
}

/// Its transaction is older than others that have come and gone when it commits.
#[test]
fn a_job_that_is_redriven_or_replayed_late_is_next_in_line() {
    let db = database();
    let (mut keeper, mut producer, mut worker) = (db.session(), db.session(), db.session());
    for claim in SHAPES {
        for again in ["fn_dead_letter_redrive('{letter}')", "fn_job_replay('{job}')"] {
            let job = id(&producer.call("fn_job_enqueue('x')"));
            let buried = expect(&mut producer, "dead_letter", &format!("fn_job_move_to_dead_letter('{job}', 'no')"));
            let letter = buried["dead_letter_id"].as_str().expect("a letter");
            expect(&mut worker, "empty", claim);
            keeper.run("BEGIN");
            keeper.call(&again.replace("{letter}", letter).replace("{job}", &job));
            let jobs = enqueue_all(&mut producer, &["x"; 4], "");
            for job in &jobs[..3] {
                assert_eq!(id(&expect(&mut worker, "claimed", claim)), *job, "{claim}");
            }
            keeper.run("COMMIT");
            let found = id(&expect(&mut worker, "claimed", claim));
            assert!(!jobs.contains(&found), "{claim}, {again}: not the one that was made first");
            assert_eq!(drain(&mut worker, claim, "job_id"), jobs[3..], "{claim}, {again}");
        }
    }
    db.assert_sound();
}

#[test]
fn a_job_whose_lease_expired_is_next_in_line_once_anyone_has_recovered_it() {
    comes_back_first(
        |_, s, job| {
            let claim = expect(s, "claimed", "fn_job_claim('ann', NULL, 10)");
            assert_eq!(id(&claim), job);
        },
        |db, _, _| {
            let mut other = db.session();
            other.shift_clock(60);
            // It asks for another kind, so it recovers the job without taking it.
            expect(&mut other, "empty", "fn_job_claim('cat', 'nothing of this kind')");
        },
    );
}

#[test]
fn a_recovery_that_is_rolled_back_can_be_made_again() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let job = s.enqueue("x");
    expect(&mut s, "claimed", "fn_job_claim('ann', NULL, 10)");
    s.shift_clock(60);
    other.shift_clock(60);
    s.run("BEGIN");
    assert_eq!(id(&claimed(&mut s, "bob")), job);
    assert_eq!(other.claim("cat")["code"], "empty");
    s.run("ROLLBACK");
    assert_eq!(s.state(&job), "leased");
    assert_eq!(id(&claimed(&mut other, "cat")), job);
    db.assert_sound();
}

#[test]
fn a_cancel_a_change_or_a_burial_that_is_rolled_back_leaves_the_job_next_in_line() {
    for call in [
        "fn_job_cancel('$job')",
        "fn_job_change('$job', '{\"priority\": 900}')",
        "fn_job_move_to_dead_letter('$job', 'hopeless')",
    ] {
        comes_back_first(
            |_, s, job| {
                s.run("BEGIN");
                s.call(&call.replace("$job", job));
            },
            |_, s, _| s.run("ROLLBACK"),
        );
    }
}

/// A job is enqueued by `insert` in a transaction that stays open while others are enqueued and
/// claimed, and at times nothing is left to claim; after the commit it is the next one.
#[track_caller]
fn late_commit_is_next(begin: &str, insert: &str, pause: Duration) {
    let db = database();
    let (mut late, mut producer, mut worker) = (db.session(), db.session(), db.session());
    for claim in SHAPES {
        late.run(begin);
        late.run(insert);
        for _ in 0..10 {
            let job = producer.enqueue("x");
            assert_eq!(id(&expect(&mut worker, "claimed", claim)), job);
            assert_eq!(worker.call(claim)["code"], "empty");
        }
        std::thread::sleep(pause);
        let rest = enqueue_all(&mut producer, &["x"; 3], "");
        assert_eq!(id(&expect(&mut worker, "claimed", claim)), rest[0]);
        late.run("COMMIT");
        let next = expect(&mut worker, "claimed", claim);
        assert_eq!(next["source_ref"], "late", "{claim}: {next}");
        assert_eq!(drain(&mut worker, claim, "job_id"), rest[1..]);
    }
    db.assert_sound();
}

const ENQUEUE_LATE: &str = "SELECT agentq.fn_job_enqueue('x', p_source_ref => 'late')";

#[test]
fn an_enqueue_that_commits_late_is_next_in_line() {
    late_commit_is_next("BEGIN", ENQUEUE_LATE, Duration::ZERO);
}

#[test]
fn an_enqueue_that_commits_very_late_is_next_in_line() {
    // Longer than the marks wait for a transaction in flight.
    late_commit_is_next("BEGIN", ENQUEUE_LATE, Duration::from_millis(1100));
}

#[test]
fn an_enqueue_under_repeatable_read_that_commits_late_is_next_in_line() {
    late_commit_is_next("BEGIN ISOLATION LEVEL REPEATABLE READ", ENQUEUE_LATE, Duration::ZERO);
}

#[test]
fn a_late_enqueue_of_a_priority_never_seen_is_next_in_line() {
    let insert = "SELECT agentq.fn_job_enqueue('x', p_source_ref => 'late', p_priority => 3)";
    late_commit_is_next("BEGIN", insert, Duration::ZERO);
}

#[test]
fn a_late_batch_or_insert_is_next_in_line() {
    let batch = "SELECT agentq.fn_job_enqueue_batch('[{\"job_kind\": \"x\", \"source_ref\": \"late\"}]')";
    late_commit_is_next("BEGIN", batch, Duration::ZERO);
    let insert = "SAVEPOINT a; INSERT INTO agentq.job_queue (job_kind, source_ref) VALUES ('x', 'late'); RELEASE a";
    late_commit_is_next("BEGIN", insert, Duration::ZERO);
}

#[test]
fn an_enqueue_by_a_clock_that_is_behind_is_next_in_line() {
    late_commit_is_next("SET agentq.clock_offset = -3600; BEGIN", ENQUEUE_LATE, Duration::ZERO);
}

#[test]
fn a_job_scheduled_in_a_late_transaction_is_found_when_due() {
    let db = database();
    let (mut late, mut worker) = (db.session(), db.session());
    late.run("BEGIN");
    let job = id(&late.call("fn_job_enqueue('x', p_scheduled_at => agentq.fn_clock_now() + '10 ms')"));
    for _ in 0..20 {
        assert_eq!(worker.claim("bob")["code"], "empty");
        std::thread::sleep(Duration::from_millis(2));
    }
    late.run("COMMIT");
    assert_eq!(id(&claimed(&mut worker, "bob")), job);
    db.assert_sound();
}

#[test]
fn a_queue_that_was_long_empty_gives_out_at_once_what_comes() {
    let db = database();
    let (mut producer, mut worker) = (db.session(), db.session());
    for round in 0..100 {
        let claim = SHAPES[round % SHAPES.len()];
        assert_eq!(worker.call(claim)["code"], "empty");
        let job = id(&producer.call(&format!("fn_job_enqueue('x', p_priority => {})", round % 7)));
        assert_eq!(id(&expect(&mut worker, "claimed", claim)), job);
    }
}

#[test]
fn a_repeatable_read_session_hides_nothing_from_the_others() {
    let db = database();
    let (mut old, mut producer, mut worker) = (db.session(), db.session(), db.session());
    let first = producer.enqueue("x");
    assert_eq!(id(&claimed(&mut worker, "bob")), first);
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    for claim in SHAPES {
        let job = producer.enqueue("x");
        // Its snapshot is older than the job, so for it there is nothing.
        assert_eq!(old.call(claim)["code"], "empty");
        assert_eq!(id(&expect(&mut worker, "claimed", claim)), job);
    }
    old.run("COMMIT");
    let job = producer.enqueue("x");
    assert_eq!(id(&claimed(&mut old, "bob")), job);
    db.assert_sound();
}

#[test]
fn jobs_of_a_prepared_transaction_are_found_after_it_commits() {
    let db = database();
    let (mut late, mut producer, mut worker) = (db.session(), db.session(), db.session());
    let name = format!("enqueue in {}", db.name);
    late.run("BEGIN");
    let job = late.enqueue("x");
    late.run(&format!("PREPARE TRANSACTION '{name}'"));
    for _ in 0..5 {
        producer.enqueue("x");
        assert_ne!(id(&claimed(&mut worker, "bob")), job);
        assert_eq!(worker.claim("bob")["code"], "empty");
    }
    producer.run(&format!("COMMIT PREPARED '{name}'"));
    eventually("the job is found", || worker.claim("bob")["job_id"] == json!(job));
    db.assert_sound();
}

/// The lane has been looked at in full a moment ago, so that for a second nobody looks behind the marks by himself.
#[test]
fn a_prepared_job_is_soon_next_in_line_when_it_is_committed() {
    let db = database();
    let (mut late, mut producer, mut worker) = (db.session(), db.session(), db.session());
    let name = format!("late in {}", db.name);
    sooner_than(Duration::from_millis(700), "its commit casts doubt on the marks", || {
        late.run("BEGIN");
        let job = late.enqueue("x");
        late.run(&format!("PREPARE TRANSACTION '{name}'"));
        assert_eq!(worker.claim("bob")["code"], "empty");
        producer.run("SELECT agentq.fn_job_enqueue('x') FROM generate_series(1, 200)");
        assert_ne!(id(&claimed(&mut worker, "bob")), job);
        producer.run(&format!("COMMIT PREPARED '{name}'"));
        let (others, took) = timed(|| {
            (0..).find(|_| {
                std::thread::sleep(Duration::from_millis(20));
                id(&claimed(&mut worker, "bob")) == job
            })
        });
        println!("{} others came before it, in {took:?}", others.unwrap_or_default());
        drain(&mut worker, "fn_job_claim('bob')", "job_id");
        took
    });
    db.assert_sound();
}

#[test]
fn a_job_claimed_in_a_prepared_transaction_comes_back_when_that_is_rolled_back() {
    let db = database();
    let (mut holder, mut worker) = (db.session(), db.session());
    let jobs = enqueue_all(&mut worker, &["x"; 6], "");
    let name = format!("claim in {}", db.name);
    holder.run("BEGIN");
    assert_eq!(id(&claimed(&mut holder, "ann")), jobs[0]);
    holder.run(&format!("PREPARE TRANSACTION '{name}'"));
    assert_eq!(drain(&mut worker, "fn_job_claim('bob')", "job_id"), jobs[1..]);
    worker.run(&format!("ROLLBACK PREPARED '{name}'"));
    eventually("the job is found", || worker.claim("bob")["job_id"] == json!(jobs[0]));
    db.assert_sound();
}

#[test]
fn more_kinds_than_the_marks_remember_are_all_served() {
    const KINDS: usize = 1300;
    let db = database();
    let (mut producer, mut worker) = (db.session(), db.session());
    // Two of each kind, the second of which is found by a mark, if it is still there.
    for _ in 0..2 {
        producer.run(&format!("SELECT agentq.fn_job_enqueue('kind ' || n) FROM generate_series(1, {KINDS}) n"));
    }
    for _ in 0..2 {
        let served = worker.text(&format!(
            "SELECT count(DISTINCT agentq.fn_job_claim('bob', 'kind ' || n)->>'job_id') FROM generate_series(1, {KINDS}) n"
        ));
        assert_eq!(served, KINDS.to_string());
    }
    assert_eq!(worker.claim("bob")["code"], "empty");
    db.assert_sound();
}

#[test]
fn databases_of_one_server_do_not_share_marks() {
    let (here, there) = (database(), database());
    let (mut h, mut t) = (here.session(), there.session());
    let waiting = enqueue_all(&mut t, &["x"; 3], "");
    assert_eq!(id(&claimed(&mut t, "bob")), waiting[0]);
    for _ in 0..10 {
        let job = h.enqueue("x");
        assert_eq!(id(&claimed(&mut h, "bob")), job);
        assert_eq!(h.claim("bob")["code"], "empty");
    }
    assert_eq!(drain(&mut t, "fn_job_claim('bob')", "job_id"), waiting[1..]);
}
