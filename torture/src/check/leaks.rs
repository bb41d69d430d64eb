//! Slots are counted as leases hold them; and when all work is done, nothing is taken any more.

use super::{Problem, Rule};
use postgres::{Client, Error};
use std::time::{Duration, Instant};

/// Counts that must be zero when every job has ended, each with what it counts.
const LEFT: [(&str, &str); 9] = [
    ("ends of steps that no mission was told of", "SELECT count(*) FROM agentq_internal.mission_end_due"),
    ("jobs that nobody can finish", "SELECT count(*) FROM agentq.job_queue WHERE finished_at IS NULL"),
    (
        "rows in a resting place",
        "SELECT (SELECT count(*) FROM agentq_internal.job_ready)
        + (SELECT count(*) FROM agentq_internal.job_waiting) + (SELECT count(*) FROM agentq_internal.job_line)",
    ),
    ("leases", "SELECT count(*) FROM agentq_internal.job_lease"),
    ("idempotency keys", "SELECT count(*) FROM agentq_internal.job_key"),
    ("ordering keys", "SELECT count(*) FROM agentq_internal.job_order"),
    ("deadlines", "SELECT count(*) FROM agentq_internal.job_deadline"),
    (
        "jobs of steps that no step has, or two",
        "SELECT count(*) FROM agentq_internal.job j WHERE job_kind IN ('step', 'book', 'pay')
           AND (SELECT count(*) FROM agentq.v_mission_step s WHERE s.job_id = j.job_id) <> 1",
    ),
    (
        "missions that succeeded without their steps",
        "SELECT count(*) FROM agentq.v_mission WHERE status = 'succeeded' AND succeeded <> step_count",
    ),
];

/// Missions that have not ended, with where their steps stand.
const MISSIONS: &str = "
    SELECT format('mission %s is %s: %s', m.mission_id, m.status, (
        SELECT string_agg(format('%s %s (job %s %s)', s.name, s.status, s.job_id, coalesce(q.state, 'none')), ', ')
        FROM agentq.v_mission_step s LEFT JOIN agentq.job_queue q USING (job_id) WHERE s.mission_id = m.mission_id))
    FROM agentq.v_mission m WHERE m.status NOT IN ('succeeded', 'failed', 'cancelled')";

/// What each tenant has used of its budget is what its succeeded jobs cost: one each.
const BUDGETS: &str = "
    SELECT b.limit_key || ' has used ' || b.used || ' for ' || coalesce(n.jobs, 0) || ' jobs'
    FROM agentq.v_budget b
    LEFT JOIN (SELECT k AS limit_key, count(*) AS jobs FROM agentq_internal.job j
               CROSS JOIN LATERAL unnest(j.limit_keys) k
               JOIN agentq_internal.job_done d USING (job_id) WHERE d.state IS NULL GROUP BY k) n USING (limit_key)
    WHERE b.used <> coalesce(n.jobs, 0)";

/// Every key that jobs have, with the leases that hold a slot of it and the slots that shared memory counts.
const SLOTS: &str = "
    SELECT format('%s: %s leases and %s slots counted', k, coalesce(h.leases, 0), agentq_internal.fn_limit_counted(k))
    FROM (SELECT DISTINCT unnest(limit_keys) AS k FROM agentq_internal.job) keys
    LEFT JOIN (SELECT unnest(limits) AS k, count(*) AS leases FROM agentq_internal.job_lease GROUP BY 1) h USING (k)
    WHERE coalesce(agentq_internal.fn_limit_counted(k), 0) <> coalesce(h.leases, 0)";

/// Slots in shared memory are those of the leases. The two are read one after the other, so they may need a moment. A server
/// that is not preloaded has none.
pub fn slots(client: &mut Client, patience: Duration) -> Result<Vec<Problem>, Error> {
    let libraries: String = client.query_one("SHOW shared_preload_libraries", &[])?.get(0);
    if !libraries.contains("agentq") {
        return Ok(Vec::new());
    }
    until_none(client, patience, SLOTS)
}

/// Leases that ran out this many seconds ago and are still there, and the seconds. Rows that somebody has locked do not count.
const OVERDUE: &str = "
    SELECT coalesce(max(extract(epoch FROM agentq.fn_clock_now() - lease_until)), 0)::float8
    FROM (SELECT lease_until FROM agentq_internal.job_lease WHERE lease_until < agentq.fn_clock_now() FOR UPDATE SKIP LOCKED) late";

/// For how many seconds the oldest lease that nobody has locked has been over.
pub fn overdue(client: &mut Client) -> Result<f64, Error> {
    Ok(client.query_one(OVERDUE, &[])?.get(0))
}

/// What is left after the last job has ended.
pub fn drained(client: &mut Client, patience: Duration) -> Result<Vec<Problem>, Error> {
    let mut problems = Vec::new();
    for (what, sql) in LEFT {
        let count: i64 = client.query_one(sql, &[])?.get(0);
        if count != 0 {
            problems.push(Problem::new(Rule::NothingLeaks, format!("{count} {what}")));
        }
    }
    problems.extend(until_none(client, patience, MISSIONS)?);
    problems.extend(until_none(client, patience, BUDGETS)?);
    Ok(problems)
}

/// Asks until there are no rows, for that long; what is there then is a problem.
fn until_none(client: &mut Client, patience: Duration, sql: &str) -> Result<Vec<Problem>, Error> {
    let deadline = Instant::now() + patience;
    loop {
        let rows = client.query(sql, &[])?;
        if rows.is_empty() || Instant::now() > deadline {
            return Ok(rows.iter().map(|row| Problem::new(Rule::NothingLeaks, row.get::<_, String>(0))).collect());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
