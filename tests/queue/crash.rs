//! A server that dies, and a server that was not told to preload the library.

use agentq_tests::{Cluster, Options, Session, Stop, claimed, drain, enqueue_all, expect, id, json, text, token};

const DATABASE: &str = "agentq_template";

fn assert_sound(s: &mut Session) {
    assert_eq!(s.count("agentq.fn_queue_verify()"), 0);
}

#[test]
fn what_was_confirmed_before_a_crash_is_there_after_it() {
    let mut cluster = Cluster::start("crash", &Options::default());
    cluster.make_template();
    let mut s = cluster.session(DATABASE);
    let mut jobs = enqueue_all(&mut s, &["x"; 30], "");
    jobs.push(id(&s.call("fn_job_enqueue('urgent', 'k', p_priority => 1)")));
    let later = id(&s.call("fn_job_enqueue('later', p_scheduled_at => agentq.fn_clock_now() + '1 hour')"));
    // The urgent one and nine others are held; five of those are done, one fails and waits.
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(claimed(&mut s, "bob"));
    }
    assert_eq!(held[0]["job_kind"], "urgent");
    for claim in &held[1..6] {
        expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(claim)));
    }
    expect(&mut s, "retry_waiting", &format!("fn_job_fail_or_retry('{}', 'bob', 'boom')", id(&held[6])));
    // What is not confirmed must be gone: an enqueue, a claim and an ack.
    let mut open = cluster.session(DATABASE);
    open.run("BEGIN");
    open.enqueue("unconfirmed");
    let unconfirmed = id(&claimed(&mut open, "ann"));
    open.call(&format!("fn_job_ack('{}', 'bob')", id(&held[7])));

    cluster.crash_and_restart();

    let mut s = cluster.session(DATABASE);
    assert_sound(&mut s);
    let states = s.texts("SELECT state || ' ' || count(*) FROM agentq.job_queue GROUP BY state ORDER BY state");
    assert_eq!(states, ["leased 4", "queued 22", "retry_waiting 1", "succeeded 5"]);
    assert_eq!(s.state(&unconfirmed), "queued");
    assert_eq!(s.count("agentq.job_queue WHERE job_kind = 'unconfirmed'"), 0);
    // The key is still in use, and its holder still holds the job.
    assert_eq!(expect(&mut s, "duplicate", "fn_job_enqueue('urgent', 'k')")["job_id"], held[0]["job_id"]);
    let ack = format!("fn_job_ack('{}', 'bob', NULL, '{}')", id(&held[0]), token(&held[0]));
    expect(&mut s, "succeeded", &ack);
    // The marks are new, and every job that was ready is given out, in order.
    assert_eq!(drain(&mut s, "fn_job_claim('cat')", "job_id"), jobs[9..30]);
    s.shift_clock(100);
    assert_eq!(id(&claimed(&mut s, "cat")), id(&held[6]));
    s.shift_clock(4000);
    let rest = drain(&mut s, "fn_job_claim('dan')", "job_id");
    // The one for later, and all whose leases have expired by then.
    assert!(rest.contains(&later));
    assert_eq!(rest.len(), 1 + 3 + 21 + 1);
    assert_sound(&mut s);
}

#[test]
fn without_preloading_everything_works_all_the_same() {
    let options = Options { without_preload: true, ..Options::default() };
    let cluster = Cluster::start("plain", &options);
    cluster.make_template();
    let db = cluster.database();
    let (mut s, mut other) = (db.session(), db.session());

    // Order, kinds and queues.
    s.call("fn_queue_set('mail')");
    for (kind, priority) in [("third", 100), ("fourth", 100), ("second", 5), ("first", 1)] {
        s.call(&format!("fn_job_enqueue('{kind}', p_priority => {priority})"));
    }
    s.call("fn_job_enqueue('letter', p_priority => 2, p_options => '{\"queue\": \"mail\"}')");
    let both = "fn_job_claim('bob', p_options => '{\"queues\": [\"default\", \"mail\"]}')";
    assert_eq!(text(&other.call(both), "job_kind"), "first");
    assert_eq!(text(&other.call(both), "job_kind"), "letter");
    assert_eq!(drain(&mut other, "fn_job_claim('bob', 'fourth')", "job_kind"), ["fourth"]);
    assert_eq!(drain(&mut other, "fn_job_claim('bob')", "job_kind"), ["second", "third"]);

    // Idempotency, schedule, retry, release, expiry, dead letter and cancel.
    let job =
        id(&s.call("fn_job_enqueue('x', 'k', p_scheduled_at => agentq.fn_clock_now() + '50 s', p_max_attempts => 2)"));
    assert_eq!(expect(&mut other, "duplicate", "fn_job_enqueue('x', 'k')")["job_id"], json!(job));
    assert_eq!(other.claim("bob")["code"], "empty");
    other.shift_clock(60);
    assert_eq!(id(&claimed(&mut other, "bob")), job);
    expect(&mut other, "released", &format!("fn_job_release('{job}', 'bob')"));
    assert_eq!(id(&claimed(&mut other, "bob")), job);
    let fail = format!("fn_job_fail_or_retry('{job}', 'bob', 'boom')");
    assert_eq!(expect(&mut other, "retry_waiting", &fail)["backoff_sec"], json!(10));
    other.shift_clock(120);
    assert_eq!(expect(&mut other, "claimed", "fn_job_claim('bob', NULL, 10)")["attempt"], json!(2));
    // Not so far that the default leases above would have expired too.
    other.shift_clock(180);
    assert_eq!(other.claim("cat")["code"], "empty");
    assert_eq!(other.state(&job), "dead_letter");
    let doomed = s.enqueue("y");
    expect(&mut s, "cancelled", &format!("fn_job_cancel('{doomed}')"));

    // A rolled back claim, a late commit, a prepared transaction.
    let jobs = enqueue_all(&mut s, &["z"; 4], "");
    s.run("BEGIN");
    assert_eq!(id(&claimed(&mut s, "ann")), jobs[0]);
    let late = s.enqueue("late");
    assert_eq!(id(&claimed(&mut other, "bob")), jobs[1]);
    s.run("ROLLBACK");
    assert_eq!(id(&claimed(&mut other, "bob")), jobs[0]);
    assert_eq!(s.count(&format!("agentq_internal.job WHERE job_id = '{late}'")), 0);
    s.run("BEGIN");
    let prepared = s.enqueue("prepared");
    s.run("PREPARE TRANSACTION 'p'");
    assert_eq!(drain(&mut other, "fn_job_claim('bob')", "job_id"), jobs[2..]);
    s.run("COMMIT PREPARED 'p'");
    assert_eq!(id(&claimed(&mut other, "bob")), prepared);

    // Batches and settings.
    s.call("fn_config_set('queue.lease.duration_sec', '42')");
    let batch = s.call("fn_job_enqueue_batch('[{\"job_kind\": \"b\"}, {\"job_kind\": \"b\"}]')");
    assert_eq!(batch["created"], json!(2));
    assert_eq!(other.call("fn_job_claim_batch('cat', 10)")["count"], json!(2));
    let lease =
        "SELECT DISTINCT extract(epoch FROM lease_until - picked_at)::int FROM agentq.job_queue WHERE job_kind = 'b'";
    assert_eq!(s.text(lease), "42");
    let held = "(SELECT jsonb_agg(job_id) FROM agentq.job_queue WHERE lease_owner = 'cat')";
    assert_eq!(other.call(&format!("fn_job_ack_batch('cat', {held})"))["acked"], json!(2));
    db.assert_sound();
}

/// A process that does nothing until this is dropped.
struct Frozen(String);

impl Frozen {
    /// The log is written by commits that wait for it, and by nobody else.
    fn wal_writer(s: &mut Session) -> Frozen {
        let frozen = Frozen(s.text("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"));
        assert!(frozen.signal("-STOP"), "the writer of the log is not to be stopped");
        frozen
    }

    fn signal(&self, signal: &str) -> bool {
        let mut kill = std::process::Command::new("kill");
        kill.args([signal, &self.0]).stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may be gone.
        self.signal("-CONT");
    }
}

/// One job of a kind of its own in this queue, claimed by this statement; returns its id.
fn claimed_by(s: &mut Session, queue: &str, kind: &str, statement: &str) -> String {
    let job = id(&s.call(&format!("fn_job_enqueue('{kind}', p_options => '{{\"queue\": \"{queue}\"}}')")));
    let claim = format!("agentq.fn_job_claim('bob', '{kind}', p_options => '{{\"queues\": [\"{queue}\"]}}')");
    let waiting = claim.replace("}')", "}', p_wait => '1 second')");
    s.run(&statement.replace("WAITING", &waiting).replace("CLAIM", &claim));
    assert_eq!(s.state(&job), "leased", "{statement}");
    job
}

#[test]
fn claims_of_a_queue_without_durable_claims_may_be_undone_by_a_crash_and_nothing_else_is() {
    let settings = vec!["autovacuum = off".to_owned()];
    let mut cluster = Cluster::start("unflushed", &Options { settings, ..Options::default() });
    cluster.make_template();
    let mut s = cluster.session(DATABASE);
    s.run("CREATE TABLE note (job text)");
    s.call("fn_queue_set('quick', '{\"durable_claims\": false}')");
    let writes = [
        "BEGIN; SELECT CLAIM; INSERT INTO note VALUES ('after'); COMMIT",
        "BEGIN; INSERT INTO note VALUES ('before'); SELECT CLAIM; COMMIT",
        "WITH n AS (INSERT INTO note VALUES ('beside')) SELECT CLAIM",
        "DO $$ BEGIN PERFORM CLAIM; INSERT INTO note VALUES ('in a block'); END $$",
    ];
    for (number, statement) in writes.iter().enumerate() {
        let before = s.count("note");
        let job = claimed_by(&mut s, "quick", &format!("w{number}"), statement);
        cluster.crash_and_restart();
        s = cluster.session(DATABASE);
        assert_eq!(s.state(&job), "leased", "{statement}");
        assert_eq!(s.count("note"), before + 1, "{statement}");
    }
    for (queue, state) in [("default", "leased"), ("quick", "queued")] {
        for (kind, statement) in
            [("single", "SELECT CLAIM"), ("waits", "SELECT WAITING"), ("block", "BEGIN; SELECT CLAIM; COMMIT")]
        {
            let frozen = Frozen::wal_writer(&mut s);
            let job = claimed_by(&mut s, queue, kind, statement);
            cluster.end(Stop::KillAll);
            drop(frozen);
            cluster.start_again();
            s = cluster.session(DATABASE);
            assert_eq!(s.state(&job), state, "{queue}: {statement}");
            assert_sound(&mut s);
        }
    }
    // The session waits for the disk again when its next transaction does.
    assert_eq!(s.text("SHOW synchronous_commit"), "on");
    let job = claimed_by(&mut s, "quick", "acked", "SELECT CLAIM");
    expect(&mut s, "succeeded", &format!("fn_job_ack('{job}', 'bob')"));
    cluster.crash_and_restart();
    assert_eq!(cluster.session(DATABASE).state(&job), "succeeded");
}
