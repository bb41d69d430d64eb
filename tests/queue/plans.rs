//! Plans that cannot flip: whatever the statistics say, every statement of a job's life is run in
//! the same way. Enqueue, claim and ack have no plan at all; they open their indexes themselves.

use crate::helpers::{expect, id};
use agentq_tests::{Cluster, Database, Options, Session};

/// A server that logs the plan of every statement, also of those inside functions.
fn cluster() -> Cluster {
    let settings = [
        "session_preload_libraries = 'auto_explain'",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_nested_statements = on",
        "auto_explain.log_verbose = off",
        "plan_cache_mode = auto",
        "autovacuum = off",
    ];
    let settings = settings.map(str::to_owned).to_vec();
    let cluster = Cluster::start("plans", &Options { settings, ..Options::default() });
    cluster.make_template();
    cluster
}

/// One life with every turn that goes through SQL.
fn live(s: &mut Session) {
    expect(s, "enqueued", "fn_job_enqueue('probe', 'probe key')");
    expect(s, "duplicate", "fn_job_enqueue('probe', 'probe key')");
    let claim = "fn_job_claim('w', 'probe')";
    let job = id(&expect(s, "claimed", claim));
    expect(s, "started", &format!("fn_job_start('{job}', 'w')"));
    expect(s, "extended", &format!("fn_job_heartbeat('{job}', 'w', p_checkpoint => '1')"));
    expect(s, "released", &format!("fn_job_release('{job}', 'w')"));
    expect(s, "changed", &format!("fn_job_change('{job}', '{{\"priority\": 3}}')"));
    expect(s, "claimed", claim);
    expect(s, "retry_waiting", &format!("fn_job_fail_or_retry('{job}', 'w', 'boom')"));
    // Falls due, and is moved to the ready ones by the claim; then its lease expires.
    s.shift_clock(1000);
    expect(s, "claimed", claim);
    s.shift_clock(5000);
    expect(s, "claimed", claim);
    s.shift_clock(0);
    expect(s, "cancel_requested", &format!("fn_job_cancel('{job}')"));
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'w')"));
    let other = s.enqueue("probe");
    expect(s, "cancelled", &format!("fn_job_cancel('{other}')"));
    let letter = s.enqueue("probe");
    expect(s, "claimed", claim);
    expect(s, "dead_letter", &format!("fn_job_move_to_dead_letter('{letter}', 'no')"));
    expect(s, "found", &format!("fn_job_get('{job}')"));
}

/// The plans of one life in a new session, after enough lives for the server to think again.
fn plans(cluster: &Cluster, db: &Database<'_>) -> String {
    let mut s = db.session();
    for _ in 0..7 {
        live(&mut s);
    }
    s.run("SELECT 'the last life'");
    live(&mut s);
    s.run("SELECT 'is over'");
    let log = cluster.log();
    let from = log.rfind("'the last life'").expect("a mark");
    let last = &log[from..];
    let lines = last[..last.find("'is over'").expect("a mark")].lines();
    let lines = lines.filter(|line| line.starts_with('\t') && line.contains("(cost="));
    let shape = |line: &str| line.split("  (cost=").next().unwrap_or_default().to_owned();
    lines.map(shape).collect::<Vec<_>>().join("\n")
}

fn fill(s: &mut Session) {
    s.run(
        "SELECT agentq.fn_job_enqueue_batch((SELECT jsonb_agg(jsonb_build_object('job_kind', 'k' || n % 50, 'priority', n % 5,
            'idempotency_key', CASE WHEN n % 3 = 0 THEN 'key ' || b || n END,
            'scheduled_at', CASE WHEN n % 4 = 0 THEN '2100-01-01' END))
            FROM generate_series(1, 5000) n)) FROM generate_series(1, 4) b",
    );
    for _ in 0..5 {
        s.run("SELECT agentq.fn_job_claim_batch('w', 1000)");
    }
    s.run("SELECT agentq.fn_job_ack_batch('w', (SELECT jsonb_agg(job_id) FROM (SELECT job_id FROM agentq.job_lease LIMIT 2500) l))");
}

fn assert_by_index(plans: &str) {
    for way in ["Seq Scan", "Bitmap", "Hash Join", "Merge Join"] {
        assert!(!plans.contains(way), "{way} in\n{plans}");
    }
}

#[test]
fn no_statistics_change_a_plan() {
    let cluster = cluster();
    let db = cluster.database();
    let mut s = db.session();
    s.run("SET auto_explain.log_min_duration = -1");
    let reference = plans(&cluster, &db);
    assert!(reference.contains("Index Scan using job_lease_pkey"), "{reference}");
    assert_by_index(&reference);
    let mut pin = db.session();
    let compare = |what: &str| assert_eq!(plans(&cluster, &db), reference, "{what}");
    fill(&mut s);
    compare("full, never analysed");
    s.run("ANALYZE");
    compare("full and analysed");
    pin.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM agentq.job");
    s.run("DELETE FROM agentq.job_ready; DELETE FROM agentq.job_waiting; DELETE FROM agentq.job_lease; DELETE FROM agentq.job_done;
           DELETE FROM agentq.job_key; DELETE FROM agentq.job");
    compare("all rows dead, and the statistics those of before");
    let tables = "relnamespace = 'agentq'::regnamespace AND relkind IN ('r', 'i')";
    s.run(&format!("UPDATE pg_class SET reltuples = 1, relpages = 1 WHERE {tables}"));
    fill(&mut s);
    compare("full, and the statistics say empty");
    s.run(&format!("UPDATE pg_class SET reltuples = 1e9, relpages = 10000000 WHERE {tables}"));
    compare("the statistics say a billion");
    s.run(&format!("ALTER DATABASE {} SET plan_cache_mode = force_generic_plan", db.name));
    compare("generic plans forced");
    // Made anew for every call, such a plan knows the values and so may leave parts out.
    s.run(&format!("ALTER DATABASE {} SET plan_cache_mode = force_custom_plan", db.name));
    assert_by_index(&plans(&cluster, &db));
}
