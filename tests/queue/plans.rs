//! Plans that cannot flip: whatever the statistics say, every statement of a job's life is run in
//! the same way. Enqueue, claim and ack have no plan at all; they open their indexes themselves.

use agentq_tests::{Cluster, Database, Options, Session, expect, id};
use std::collections::{BTreeMap, BTreeSet};

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

/// Statements, and the plans that they had.
type Plans = BTreeMap<String, BTreeSet<String>>;

/// The plans of one life in a new session, after enough lives for the server to think again.
fn plans(cluster: &Cluster, db: &Database<'_>) -> Plans {
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
    let mut found = Plans::new();
    for logged in last[..last.find("'is over'").expect("a mark")].split("Query Text: ").skip(1) {
        // Each line of what was logged begins with a tab.
        let lines = logged.lines().enumerate().take_while(|(number, line)| *number == 0 || line.starts_with('\t'));
        let lines: Vec<&str> = lines.map(|(_, line)| line).collect();
        let is_plan = |line: &&str| line.contains("(cost=");
        let shape = |line: &&str| line.split("  (cost=").next().unwrap_or_default().to_owned();
        let plan = lines.iter().copied().filter(is_plan).map(|line| shape(&line)).collect::<Vec<_>>().join("\n");
        // From 16 on the values that it ran with follow.
        let is_text = |line: &&str| !is_plan(line) && !line.starts_with("\tQuery Parameters: ");
        let query = lines.iter().copied().take_while(is_text).collect::<Vec<_>>().join("\n");
        // What the test itself has called is another text each time.
        if !query.starts_with("SELECT agentq.fn_") {
            found.entry(query).or_default().insert(plan);
        }
    }
    assert!(found.len() > 10, "{found:#?}");
    found
}

/// What both have run, they have run in the same way. (Whether a claim looks for jobs that have fallen due is a
/// matter of the moment.)
#[track_caller]
fn assert_same(found: &Plans, reference: &Plans, what: &str) {
    let both = reference.keys().filter(|query| found.contains_key(*query)).count();
    assert!(both + 3 > reference.len(), "{what}: {found:#?}\nand before\n{reference:#?}");
    for (query, plans) in found {
        let before = reference.get(query);
        assert!(before.is_none_or(|before| before == plans), "{what}: {query}\n{plans:#?}\nand before\n{before:#?}");
    }
    assert_by_index(found);
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
    s.run("SELECT agentq.fn_job_ack_batch('w', (SELECT jsonb_agg(job_id) FROM (SELECT job_id FROM agentq_internal.job_lease LIMIT 2500) l))");
}

#[track_caller]
fn assert_by_index(found: &Plans) {
    for (query, plans) in found {
        for way in ["Seq Scan", "Bitmap", "Hash Join", "Merge Join"] {
            assert!(!plans.iter().any(|plan| plan.contains(way)), "{way} in {query}\n{plans:#?}");
        }
    }
}

#[test]
fn no_statistics_change_a_plan() {
    let cluster = cluster();
    let db = cluster.database();
    let mut s = db.session();
    s.run("SET auto_explain.log_min_duration = -1");
    let reference = plans(&cluster, &db);
    let all = reference.values().flatten().any(|plan| plan.contains("Index Scan using job_lease_pkey"));
    assert!(all, "{reference:#?}");
    assert_by_index(&reference);
    let mut pin = db.session();
    let compare = |what: &str| assert_same(&plans(&cluster, &db), &reference, what);
    fill(&mut s);
    compare("full, never analysed");
    s.run("ANALYZE");
    compare("full and analysed");
    pin.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM agentq_internal.job");
    s.run("DELETE FROM agentq_internal.job_ready; DELETE FROM agentq_internal.job_waiting; DELETE FROM agentq_internal.job_lease; DELETE FROM agentq_internal.job_done;
           DELETE FROM agentq_internal.job_key; DELETE FROM agentq_internal.job");
    compare("all rows dead, and the statistics those of before");
    let tables = "relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind IN ('r', 'i')";
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
