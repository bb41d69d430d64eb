//! Missions: steps become jobs when those before them allow it, once, and in the transaction that ends them.

#[path = "missions_crash.rs"]
mod crash;
#[path = "missions_ends.rs"]
mod ends;
#[path = "missions_lists.rs"]
mod lists;
#[path = "missions_looks.rs"]
mod looks;
#[path = "missions_order.rs"]
mod order;
#[path = "missions_races.rs"]
mod races;
#[path = "missions_refused.rs"]
mod refused;
#[path = "missions_steered.rs"]
mod steered;
#[path = "missions_waits.rs"]
mod waits;

use agentq_tests::{Session, Value, expect, id, json};

/// Starts a mission, and returns its id.
#[track_caller]
pub fn start(s: &mut Session, template: &Value, more: &str) -> String {
    let call = format!("fn_mission_start($m${template}$m$ {more})");
    let answer = expect(s, "started", &call);
    answer["mission_id"].as_str().expect("an id").to_owned()
}

/// A mission whose steps have kinds of their own names, and depend on these.
pub fn template(steps: &[(&str, &[&str])]) -> Value {
    let steps: Vec<Value> =
        steps.iter().map(|(name, parents)| json!({"name": name, "kind": name, "depends_on": parents})).collect();
    json!({"steps": steps})
}

/// Name and status of every step, in the order of the template.
#[track_caller]
pub fn steps(s: &mut Session, mission: &str) -> String {
    s.text(&format!(
        "SELECT string_agg(name || ' ' || status, ', ' ORDER BY position) FROM agentq.v_mission_step WHERE mission_id = '{mission}'"
    ))
}

#[track_caller]
pub fn status(s: &mut Session, mission: &str) -> String {
    s.text(&format!("SELECT status FROM agentq.mission WHERE mission_id = '{mission}'"))
}

/// Claims the job of a kind, which must be there.
#[track_caller]
pub fn claim(s: &mut Session, kind: &str) -> Value {
    expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}')"))
}

/// Claims the job of a kind and acks it with this result.
#[track_caller]
pub fn done(s: &mut Session, kind: &str, result: &Value) -> String {
    let job = id(&claim(s, kind));
    expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob', $r${result}$r$)"));
    job
}

/// Claims the job of a kind and ends it as failed for good.
#[track_caller]
pub fn failed(s: &mut Session, kind: &str) -> String {
    let job = id(&claim(s, kind));
    expect(s, "failed", &format!("fn_job_fail_or_retry('{job}', 'bob', 'boom', p_verdict => 'discard')"));
    job
}

/// Does whatever can be claimed until nothing is left; returns the names of the steps in that order.
#[track_caller]
pub fn work_off(s: &mut Session) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let claim = s.claim("bob");
        if claim["code"] == "empty" {
            return names;
        }
        names.push(claim["target_ref"].as_str().unwrap_or_default().to_owned());
        expect(s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&claim)));
    }
}

/// What must hold for all missions, whatever has happened.
#[track_caller]
pub fn assert_whole(s: &mut Session) {
    let problems = s.texts(
        "SELECT 'an ended mission has open steps: ' || m.mission_id FROM agentq.mission m
         WHERE m.completed_at IS NOT NULL AND EXISTS (SELECT FROM agentq_internal.mission_step s
             WHERE s.mission_id = m.mission_id AND s.ended_at IS NULL)
         UNION ALL
         SELECT 'the counts are wrong: ' || m.mission_id FROM agentq.mission m
         WHERE coalesce((SELECT sum(active) FROM agentq_internal.mission_count c WHERE c.owner_id = m.mission_id), 0)
             <> (SELECT count(*) FROM agentq_internal.mission_step s WHERE s.mission_id = m.mission_id AND s.status = 'queued')
         UNION ALL
         SELECT 'the counts of a list are wrong: ' || s.step_id FROM agentq_internal.mission_step s
         WHERE s.item_count IS NOT NULL
           AND coalesce((SELECT sum(active) FROM agentq_internal.mission_count c WHERE c.owner_id = s.step_id), 0)
             <> (SELECT count(*) FROM agentq.mission_item i WHERE i.step_id = s.step_id AND i.status = 'queued')
         UNION ALL
         SELECT 'nothing is under way: ' || m.mission_id FROM agentq.mission m
         WHERE m.status IN ('running', 'cancelling') AND m.paused_at IS NULL
           AND NOT EXISTS (SELECT FROM agentq_internal.mission_step s WHERE s.mission_id = m.mission_id AND s.status = 'queued')
         UNION ALL
         SELECT 'the counters of a step are wrong: ' || s.step_id FROM agentq_internal.mission_step s
         JOIN agentq.mission m ON m.mission_id = s.mission_id
         CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE p.ended_at IS NULL) AS pending,
                 count(*) FILTER (WHERE p.ended_at IS NOT NULL AND e.required IN ('ended', p.status)) AS met
             FROM agentq_internal.mission_edge e JOIN agentq_internal.mission_step p ON p.step_id = e.parent_id
             WHERE e.child_id = s.step_id) c
         WHERE s.status = 'waiting' AND s.ready_at IS NULL AND m.status = 'running' AND m.last_error IS NULL
           AND ((s.pending, s.met) <> (c.pending, c.met) OR s.met >= s.need OR s.met + s.pending < s.need)
         UNION ALL
         SELECT 'a queued step has no job that is open: ' || s.step_id FROM agentq_internal.mission_step s
         LEFT JOIN agentq.job_queue j ON j.job_id = s.job_id
         WHERE s.status = 'queued' AND s.job_id IS NOT NULL AND (j.job_id IS NULL OR j.finished_at IS NOT NULL)
         UNION ALL
         SELECT 'a step has more than one job: ' || j.source_ref FROM agentq_internal.job j
         WHERE j.source_ref LIKE 'mission_step:%' AND j.on_end NOT LIKE 'mission:%:%'
         GROUP BY j.source_ref HAVING count(*) > 1 + (SELECT count(*) FROM agentq.event e WHERE e.event_kind = 'mission.retried')
         UNION ALL
         SELECT 'a step has more than one job that is open or done: ' || q.source_ref FROM agentq.job_queue q
         WHERE q.source_ref LIKE 'mission_step:%' AND (q.finished_at IS NULL OR q.state = 'succeeded')
           AND (SELECT j.on_end FROM agentq_internal.job j WHERE j.job_id = q.job_id) NOT LIKE 'mission:%:%'
         GROUP BY q.source_ref HAVING count(*) > 1",
    );
    assert!(problems.is_empty(), "{problems:?}");
}
