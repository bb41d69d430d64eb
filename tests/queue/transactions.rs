//! Jobs live and die with the transactions of their callers.

use agentq_tests::{
    Database, Session, attempts, claimed, database, drain, enqueue_all, eventually, expect, id, json,
    until_someone_waits,
};

/// A table of the caller's own, with one column.
fn own_table(s: &mut Session) {
    s.run("CREATE TABLE public.sent (what text)");
}

/// Ends a session from outside, as a crash of its client or an administrator would.
fn kill(db: &Database<'_>, victim: &mut Session) {
    let pid = victim.text("SELECT pg_backend_pid()");
    let mut s = db.session();
    s.run(&format!("SELECT pg_terminate_backend({pid})"));
    eventually("the backend is gone", || s.count(&format!("pg_stat_activity WHERE pid = {pid}")) == 0);
}

#[test]
fn an_enqueue_that_is_rolled_back_never_was() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    s.run("BEGIN");
    s.call("fn_job_enqueue('x', 'k')");
    s.call("fn_job_enqueue_batch('[{\"job_kind\": \"y\"}, {\"job_kind\": \"z\", \"idempotency_key\": \"k2\"}]')");
    s.run("ROLLBACK");
    assert_eq!(worker.claim("bob")["code"], "empty");
    assert_eq!(s.count("agentq.job_queue"), 0);
    assert_eq!(expect(&mut s, "enqueued", "fn_job_enqueue('x', 'k')")["duplicate"], json!(false));
    db.assert_sound();
}

#[test]
fn an_enqueue_is_seen_by_others_at_its_commit() {
    let db = database();
    let (mut s, mut worker) = (db.session(), db.session());
    s.run("BEGIN");
    let job = s.enqueue("x");
    assert_eq!(worker.claim("bob")["code"], "empty");
    s.run("COMMIT");
    assert_eq!(id(&claimed(&mut worker, "bob")), job);
}

#[test]
fn a_job_made_by_a_trigger_is_there_if_and_only_if_the_row_is() {
    let db = database();
    let mut s = db.session();
    s.run(
        "CREATE TABLE public.customer (name text PRIMARY KEY);
         CREATE FUNCTION public.welcome() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             PERFORM agentq.fn_job_enqueue('mail.welcome', 'welcome ' || NEW.name);
             RETURN NEW;
         END $$;
         CREATE TRIGGER welcome AFTER INSERT ON public.customer FOR EACH ROW EXECUTE FUNCTION public.welcome()",
    );
    s.run("INSERT INTO public.customer VALUES ('ann')");
    s.run("BEGIN; INSERT INTO public.customer VALUES ('bob'); ROLLBACK");
    // The second row fails, so neither is there.
    assert_eq!(s.fails("INSERT INTO public.customer VALUES ('cat'), ('ann')").code, "23505");
    assert_eq!(s.texts("SELECT idempotency_key FROM agentq.job_queue"), ["welcome ann"]);
    db.assert_sound();
}

#[test]
fn an_ack_and_the_writes_beside_it_happen_both_or_not_at_all() {
    let db = database();
    let mut s = db.session();
    own_table(&mut s);
    let job = s.enqueue("x");
    claimed(&mut s, "bob");
    let ack = format!("SELECT agentq.fn_job_ack('{job}', 'bob')");
    s.run(&format!("BEGIN; INSERT INTO public.sent VALUES ('a'); {ack}; ROLLBACK"));
    assert_eq!((s.count("public.sent"), s.state(&job)), (0, "leased".to_owned()));
    s.run(&format!("BEGIN; INSERT INTO public.sent VALUES ('a'); {ack}; COMMIT"));
    assert_eq!((s.count("public.sent"), s.state(&job)), (1, "succeeded".to_owned()));
    db.assert_sound();
}

#[test]
fn a_worker_killed_between_its_ack_and_its_commit_has_done_nothing() {
    let db = database();
    let (mut worker, mut other) = (db.session(), db.session());
    own_table(&mut other);
    let job = other.enqueue("x");
    claimed(&mut worker, "bob");
    worker.run(&format!("BEGIN; INSERT INTO public.sent VALUES ('a'); SELECT agentq.fn_job_ack('{job}', 'bob')"));
    kill(&db, &mut worker);
    assert_eq!((other.count("public.sent"), other.state(&job)), (0, "leased".to_owned()));
    other.shift_clock(1000);
    let claim = claimed(&mut other, "cat");
    assert_eq!((id(&claim), claim["attempts"].clone()), (job, json!(1)));
    db.assert_sound();
}

#[test]
fn a_worker_killed_in_the_transaction_of_its_claim_has_never_held_the_job() {
    let db = database();
    let (mut worker, mut other) = (db.session(), db.session());
    let jobs = enqueue_all(&mut other, &["x"; 5], "");
    worker.run("BEGIN");
    claimed(&mut worker, "bob");
    assert_eq!(id(&claimed(&mut other, "cat")), jobs[1]);
    kill(&db, &mut worker);
    let claim = claimed(&mut other, "cat");
    assert_eq!((id(&claim), claim["attempt"].clone()), (jobs[0].clone(), json!(1)));
    db.assert_sound();
}

#[test]
fn claim_work_and_ack_fit_into_one_transaction() {
    let db = database();
    let mut s = db.session();
    own_table(&mut s);
    let job = s.enqueue("x");
    for end in ["ROLLBACK", "COMMIT"] {
        s.run("BEGIN");
        claimed(&mut s, "bob");
        s.run("INSERT INTO public.sent VALUES ('a')");
        expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
        s.run(end);
    }
    assert_eq!((s.count("public.sent"), s.state(&job)), (1, "succeeded".to_owned()));
    // The rolled back claim left no trace.
    assert_eq!(attempts(&mut s, &job), ["1 bob succeeded"]);
    db.assert_sound();
}

#[test]
fn work_undone_to_a_savepoint_can_be_reported_as_a_failure_in_the_same_transaction() {
    let db = database();
    let mut s = db.session();
    own_table(&mut s);
    let job = s.enqueue("x");
    s.run("BEGIN");
    claimed(&mut s, "bob");
    s.run("SAVEPOINT work; INSERT INTO public.sent VALUES ('a')");
    let failure = s.fails("SELECT 1 / 0");
    s.run("ROLLBACK TO work");
    let call = format!("fn_job_fail_or_retry('{job}', 'bob', '{}')", failure.message);
    expect(&mut s, "retry_waiting", &call);
    s.run("COMMIT");
    assert_eq!((s.count("public.sent"), s.state(&job)), (0, "retry_waiting".to_owned()));
    assert_eq!(attempts(&mut s, &job), ["1 bob failed division by zero"]);
    db.assert_sound();
}

#[test]
fn a_job_may_hand_over_to_the_next_one_in_the_transaction_of_its_ack() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    let job = id(&s.call("fn_job_enqueue('poll', 'poll')"));
    claimed(&mut s, "bob");
    s.run("BEGIN");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    // The same key, free within this transaction.
    let next = expect(&mut s, "enqueued", "fn_job_enqueue('poll', 'poll')");
    assert_eq!(other.claim("cat")["code"], "empty");
    s.run("COMMIT");
    assert_eq!(id(&claimed(&mut other, "cat")), id(&next));
    db.assert_sound();
}

#[test]
fn of_two_acks_of_the_same_lease_one_wins() {
    let db = database();
    let mut first = db.session();
    let job = first.enqueue("x");
    claimed(&mut first, "bob");
    let ack = format!("fn_job_ack('{job}', 'bob')");
    first.run("BEGIN");
    expect(&mut first, "succeeded", &ack);
    let second = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| db.session().call(&ack));
        until_someone_waits(&mut db.session());
        first.run("COMMIT");
        waiting.join().expect("it answers")
    });
    assert_eq!((second["code"].clone(), second["state"].clone()), (json!("already_finished"), json!("succeeded")));
    assert_eq!(first.count("agentq.job_attempt"), 1);
    db.assert_sound();
}

#[test]
fn an_ack_that_waited_for_one_that_rolled_back_wins() {
    let db = database();
    let mut first = db.session();
    let job = first.enqueue("x");
    claimed(&mut first, "bob");
    let ack = format!("fn_job_ack('{job}', 'bob')");
    first.run("BEGIN");
    expect(&mut first, "succeeded", &ack);
    let second = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| db.session().call(&ack));
        until_someone_waits(&mut db.session());
        first.run("ROLLBACK");
        waiting.join().expect("it answers")
    });
    assert_eq!(second["code"], "succeeded", "{second}");
    db.assert_sound();
}

#[test]
fn an_ack_under_repeatable_read_works_on_what_it_sees() {
    let db = database();
    let (mut old, mut other) = (db.session(), db.session());
    let job = other.enqueue("x");
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(id(&claimed(&mut old, "bob")), job);
    other.enqueue("y");
    expect(&mut old, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    assert_eq!(old.claim("bob")["code"], "empty");
    old.run("COMMIT");
    assert_eq!(claimed(&mut old, "bob")["job_kind"], "y");
    db.assert_sound();
}

#[test]
fn under_repeatable_read_a_job_taken_meanwhile_is_not_taken_twice() {
    let db = database();
    let (mut old, mut other) = (db.session(), db.session());
    other.enqueue("x");
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    claimed(&mut other, "cat");
    // The server says that the transaction came too late, or there is simply nothing.
    match old.0.query_one("SELECT agentq.fn_job_claim('bob')->>'code'", &[]) {
        Ok(row) => assert_eq!(row.get::<_, String>(0), "empty"),
        Err(error) => assert_eq!(error.code().map(|code| code.code()), Some("40001")),
    }
    old.run("ROLLBACK");
    assert_eq!(other.count("agentq.job_attempt"), 1);
    db.assert_sound();
}

#[test]
fn a_claim_in_a_long_transaction_does_not_hide_the_jobs_that_fell_due_with_its_own() {
    let db = database();
    let (mut slow, mut other) = (db.session(), db.session());
    enqueue_all(&mut slow, &["x"; 5], ", p_scheduled_at => agentq.fn_clock_now() + '10 s'");
    slow.shift_clock(60);
    other.shift_clock(60);
    slow.run("BEGIN");
    claimed(&mut slow, "ann");
    // It holds one of the five; the others are anybody's.
    assert_eq!(drain(&mut other, "fn_job_claim('bob')", "job_id").len(), 4);
    slow.run("COMMIT");
    db.assert_sound();
}

#[test]
fn a_claim_in_a_long_transaction_does_not_hide_the_jobs_whose_leases_expired_with_its_own() {
    let db = database();
    let (mut slow, mut other) = (db.session(), db.session());
    enqueue_all(&mut slow, &["x"; 5], "");
    slow.call("fn_job_claim_batch('silent', 5, NULL, 10)");
    slow.shift_clock(60);
    other.shift_clock(60);
    slow.run("BEGIN");
    claimed(&mut slow, "ann");
    assert_eq!(drain(&mut other, "fn_job_claim('bob')", "job_id").len(), 4);
    slow.run("COMMIT");
    db.assert_sound();
}

/// Where no engine runs, claims tell what an end could not: one that keeps a snapshot leaves that to others, who may have done it.
#[test]
fn a_claim_that_keeps_a_snapshot_leaves_ends_to_others() {
    let db = database();
    let (mut s, mut old) = (db.session(), db.session());
    let job = s.enqueue("a");
    s.run(&format!(
        "INSERT INTO agentq_internal.job_end_due (end_id, hook, about, job_id, state) VALUES (gen_random_uuid(), 'nobody', 'x', '{job}', 'succeeded')"
    ));
    // Its snapshot is from before it waits, and the end is told meanwhile.
    old.run("SET default_transaction_isolation = 'repeatable read'");
    let claiming = std::thread::spawn(move || {
        old.text("SELECT agentq.fn_job_claim('bob')->>'job_id' FROM (SELECT pg_sleep(1) OFFSET 0) waited WHERE pg_sleep IS NOT NULL")
    });
    eventually("it waits", || {
        s.count("pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()") == 1
    });
    s.run("DELETE FROM agentq_internal.job_end_due");
    assert_eq!(claiming.join().expect("no error"), job);
}
