//! Finished jobs and events go to another server by logical replication, as docs/history.md says, and stay there when they
//! are removed here.

use crate::{new, old};
use agentq_tests::engine::running;
use agentq_tests::programs::plain_database;
use agentq_tests::{Cluster, Options, eventually, expect, id, project_root};

/// The blocks of SQL of the document, in their order: here, there, there, here.
fn blocks() -> [String; 4] {
    let text = std::fs::read_to_string(project_root().join("docs/history.md")).expect("the document");
    let blocks = text.split("```sql\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let blocks: Vec<String> = blocks.map(|(block, _)| block.to_owned()).collect();
    blocks.try_into().expect("four blocks")
}

#[test]
fn what_has_finished_is_told_to_another_server_and_stays_there_when_it_is_removed_here() {
    let here = Cluster::start("here", &old(&["wal_level = logical"]));
    here.make_template();
    let db = running(here.database());
    let mut s = db.session();
    let there = Cluster::start("there", &Options { engine: false, ..new() });
    let history = plain_database(&there);
    let mut h = history.session();
    let [publish, subscribe, ask, publish_again] = blocks();
    let finish = |s: &mut agentq_tests::Session, kind: &str| {
        s.call(&format!("fn_job_enqueue('{kind}', p_payload_json => '{{\"n\": 1}}')"));
        let job = id(&expect(s, "claimed", &format!("fn_job_claim('bob', '{kind}')")));
        expect(s, "succeeded", &format!("fn_job_ack('{job}', 'bob', '{{\"sum\": 42}}')"));
        job
    };

    // Some of it is there before.
    s.call("fn_queue_set('mail', '{\"keep_seconds\": 1}')");
    let early = finish(&mut s, "early");
    s.call("fn_event_emit('early', 'x', '{\"n\": 1}')");
    s.run(&publish);
    let connection = format!("'{}'", db.url());
    let (before, rest) = subscribe.split_once("CONNECTION ").expect("a connection");
    let (_, after) = rest.split_once(" PUBLICATION").expect("a publication");
    // A subscription is made in no transaction, and so not in one call with others.
    for statement in
        format!("{before}CONNECTION {connection} PUBLICATION{after}").replace("-- not run\n", "").split(';')
    {
        h.run(statement);
    }
    let finished = |job: &str| format!("agentq.job_queue WHERE job_id = '{job}' AND state = 'succeeded'");
    eventually("the first copy is there", || h.count(&finished(&early)) == 1);
    let late = finish(&mut s, "late");
    s.call("fn_event_emit('late', 'x', '{\"n\": 2}')");
    s.call("fn_event_emit('audited', 'x', '{}', '{\"purpose\": \"audit\"}')");
    s.call("fn_job_enqueue('failing', p_max_attempts => 1, p_options => '{\"queue\": \"mail\"}')");
    let failing = id(&s.call("fn_job_claim('bob', 'failing', p_options => '{\"queues\": [\"mail\"]}')"));
    s.call(&format!("fn_job_fail_or_retry('{failing}', 'bob', 'no such tool')"));
    eventually("what came later follows", || h.count(&finished(&late)) == 1);
    let row = |job: &str| {
        format!(
            "SELECT concat_ws(' ', job_kind, state, attempts, queue, payload_json, finished_at, last_error)
             FROM agentq.job_queue WHERE job_id = '{job}'"
        )
    };
    eventually("the failure, too", || h.text(&row(&failing)) == s.text(&row(&failing)));
    for job in [&early, &late] {
        assert_eq!(h.text(&row(job)), s.text(&row(job)));
        assert_eq!(
            h.text(&format!("SELECT result->>'sum' FROM agentq_internal.job_done WHERE job_id = '{job}'")),
            "42"
        );
    }
    let events = "SELECT concat_ws(' ', event_id, event_kind, purpose, subject, payload, event_at) FROM agentq.event ORDER BY event_id";
    eventually("all events are there", || h.texts(events) == s.texts(events));
    assert_eq!(h.count("agentq_internal.job_done WHERE lease_token IS NOT NULL"), 0, "tokens stay here");
    h.run(&ask);

    // Nothing that is removed here goes there.
    s.run("SET agentq.clock_offset = 864000");
    let purged = s.call("fn_job_purge(interval '1 second')");
    assert!(purged["purged"].as_i64() >= Some(3), "{purged}");
    s.run("RESET agentq.clock_offset");
    let last = finish(&mut s, "last");
    eventually("it goes on", || h.count(&finished(&last)) == 1);
    assert_eq!((s.count(&finished(&early)), h.count(&finished(&early))), (0, 1));
    assert_eq!(h.call("fn_job_claim('eve')")["code"], "empty");

    s.run(&publish_again);
    h.run("ALTER SUBSCRIPTION agentq_history REFRESH PUBLICATION");
    let again = finish(&mut s, "again");
    eventually("it goes on with the publication made anew", || h.count(&finished(&again)) == 1);
    h.run("DROP SUBSCRIPTION agentq_history");
    db.assert_sound();
}
