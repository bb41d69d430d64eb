//! Who sees what of a job: tokens nobody, and producers of others' jobs the state alone.

use crate::access::{NONE, calls};
use agentq_tests::{Database, Session, database, expect, id, json, token};
use postgres::SimpleQueryMessage;

/// A role with this level, and a session of it.
fn role(db: &Database<'_>, level: &str) -> Session {
    let name = format!("sight_{level}_{}", db.name);
    let s = db.session_of(&name);
    db.session().call(&format!("fn_access_grant('{name}', '{level}')"));
    s
}

/// A held job with a step and an action that it has begun, and its token.
fn held(s: &mut Session) -> (String, String) {
    s.call("fn_mission_start('{\"title\": \"t\", \"steps\": [{\"name\": \"a\", \"kind\": \"work\"}]}')");
    let claim = expect(s, "claimed", "fn_job_claim('bob', 'work', 600)");
    let (job, token) = (id(&claim), token(&claim));
    let held = format!("p_lease_token => '{token}'");
    s.call(&format!("fn_job_start('{job}', 'bob', {held})"));
    s.call(&format!("fn_step_begin('{job}', 'bob', 'one', {held})"));
    s.call(&format!("fn_action_begin('key', 'type', '{{}}', 'bob', p_options => '{{\"job_id\": \"{job}\", \"lease_token\": \"{token}\"}}')"));
    s.call(&format!("fn_job_heartbeat('{job}', 'bob', 600, p_checkpoint => '{{\"page\": 1}}', {held})"));
    (job, token)
}

#[test]
fn a_token_is_in_the_answer_of_its_claim_alone() {
    let db = database();
    let mut s = db.session();
    let (job, token) = held(&mut s);
    assert_eq!(s.count(&format!("agentq_internal.job_lease WHERE lease_token = '{token}'")), 1);
    for level in ["producer", "proposer", "worker", "reader", "operator"] {
        let mut own = role(&db, level);
        let readable = own.texts(
            "SELECT format('SELECT to_jsonb(t)::text FROM (SELECT %s FROM %s) t', string_agg(quote_ident(a.attname), ', '), c.oid::regclass)
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             WHERE c.relnamespace = 'agentq'::regnamespace AND c.relkind IN ('r', 'v', 'p')
               AND has_column_privilege(c.oid, a.attnum, 'SELECT')
             GROUP BY c.oid",
        );
        assert_eq!(readable.len() > 30, ["reader", "operator"].contains(&level), "{level}: {}", readable.len());
        for sql in readable {
            let found = own.texts(&sql).into_iter().find(|row| row.contains(&token));
            assert_eq!(found, None, "{level}: {sql}");
        }
        // Nor does any function tell it that the level may call, whatever it is asked.
        let calls = calls();
        let mut told = 0;
        for (call, _) in calls.iter().filter(|(_, levels)| levels.contains(&level)) {
            let call = call.replace(NONE, &format!("'{job}'"));
            let Ok(rows) = own.0.simple_query(&format!("BEGIN; SELECT to_jsonb(f)::text FROM agentq.{call} f")) else {
                own.run("ROLLBACK");
                continue;
            };
            own.run("ROLLBACK");
            for row in &rows {
                if let SimpleQueryMessage::Row(row) = row {
                    told += 1;
                    assert!(!row.get(0).is_some_and(|answer| answer.contains(&token)), "{level}: {call}");
                }
            }
        }
        assert!(told > 5, "{level}: {told}");
    }
    // Who has the token finds its attempt.
    let attempt = format!("agentq.job_attempt WHERE job_id = '{job}' AND attempt_id = agentq.fn_attempt_id('{token}')");
    assert_eq!(s.count(&attempt), 1);
    let running = "agentq.v_job_step v JOIN agentq.job_attempt a USING (job_id, attempt_id) WHERE v.status = 'running'";
    assert_eq!(s.count(running), 1);
}

#[test]
fn a_producer_sees_its_own_jobs_and_of_others_the_state() {
    let db = database();
    let (mut s, mut one) = (db.session(), role(&db, "producer"));
    let other = format!("sight_other_{}", db.name);
    let mut two = db.session_of(&other);
    s.call(&format!("fn_access_grant('{other}', 'producer')"));
    s.call("fn_limit_set('kind:x', '{\"max_concurrent\": 1}')");
    let own = id(
        &one.call("fn_job_enqueue('x', p_payload_json => '{\"amount\": 1}', p_options => '{\"ordering_key\": \"k\"}')")
    );
    // Also under the name of somebody else, and in a batch.
    let named = id(&one.call("fn_job_enqueue('x', p_actor => 'web', p_payload_json => '{\"amount\": 2}')"));
    let behind = id(&two.call("fn_job_enqueue('x', p_options => '{\"ordering_key\": \"k\"}')"));
    for job in [&own, &named] {
        let whole = one.call(&format!("fn_job_get('{job}')"));
        assert!(whole["job"]["payload_json"]["amount"].is_number(), "{whole}");
        assert_eq!(
            two.call(&format!("fn_job_get('{job}')")),
            json!({"ok": true, "code": "found", "job": {"job_id": job, "state": "queued"}})
        );
        let told = two.call(&format!("fn_job_explain('{job}')"));
        assert_eq!((&told["code"], &told["state"]), (&json!("not_yours"), &json!("queued")), "{told}");
        assert_eq!(s.call(&format!("fn_job_get('{job}')"))["job"]["job_kind"], "x");
    }
    expect(&mut s, "claimed", "fn_job_claim('bob', 'x')");
    // What is in its way it hears, and not whose it is.
    let told = two.call(&format!("fn_job_explain('{behind}')"));
    assert_eq!(told["gates"][0]["gate"], "ordering_key", "{told}");
    assert!(!told.to_string().contains(&own), "{told}");
    assert!(s.call(&format!("fn_job_explain('{behind}')")).to_string().contains(&own));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{own}', 'bob', '{{\"sum\": 42}}')"));
    assert_eq!(one.call(&format!("fn_job_wait('{own}', '0 s')"))["result"]["sum"], 42);
    let waited = two.call(&format!("fn_job_wait('{own}', '0 s')"));
    assert_eq!(waited, json!({"ok": true, "code": "succeeded", "job_id": own, "state": "succeeded"}));
}
