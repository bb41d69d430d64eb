//! Ids say when they were made, and by which server.

use agentq_tests::{Cluster, Options, Session, database, eventually, json};
use std::collections::BTreeSet;

/// All ids of the storage that are time-ordered, of whatever they are.
const IDS: &str = "SELECT id FROM (SELECT job_id FROM agentq_internal.job UNION ALL SELECT event_id FROM agentq.event
    UNION ALL SELECT mission_id FROM agentq.mission UNION ALL SELECT step_id FROM agentq_internal.mission_step
    UNION ALL SELECT signal_id FROM agentq.signal UNION ALL SELECT dead_letter_id FROM agentq.job_dead_letter
    UNION ALL SELECT command_id FROM agentq.command) AS t(id)";

fn make_one_of_each(s: &mut Session) {
    let template =
        json!({"title": "t", "steps": [{"name": "a", "kind": "a"}, {"name": "b", "kind": "b", "depends_on": ["a"]}]});
    (0..3).for_each(|_| drop(s.enqueue("k")));
    s.call("fn_job_enqueue_batch('[{\"job_kind\": \"k\"}, {\"job_kind\": \"k\"}, {\"job_kind\": \"k\"}]')");
    s.call("fn_job_enqueue_payloads('k', '[{\"n\": 1}, {\"n\": 2}]')");
    s.run("INSERT INTO agentq.job_queue (job_kind) VALUES ('k'), ('k')");
    s.call(&format!("fn_mission_start('{template}')"));
    s.call(&format!("fn_proposal_create('one', 'api', '{template}')"));
    s.call("fn_event_emit('happened', 'x')");
    s.call("fn_signal_send('approved', 'x')");
    let job = s.enqueue("bad");
    s.call(&format!("fn_job_move_to_dead_letter('{job}', 'no')"));
}

#[test]
fn every_id_names_the_server_that_made_it_whatever_it_is_of() {
    let cluster =
        Cluster::start("node", &Options { settings: vec!["agentq.node = 777".to_owned()], ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let mut s = db.session();
    make_one_of_each(&mut s);
    let found = s.texts(&format!("SELECT DISTINCT agentq.fn_node_of(id)::text FROM ({IDS}) ids"));
    assert_eq!(found, ["777"]);
    assert!(s.count(&format!("({IDS}) ids")) >= 20);
    // Another number holds from the next id on, for sessions that are open too.
    s.run("ALTER SYSTEM SET agentq.node = 1023");
    s.run("SELECT pg_reload_conf()");
    eventually("the session has heard of it", || {
        let job = s.enqueue("k");
        s.text(&format!("SELECT agentq.fn_node_of('{job}')")) == "1023"
    });
    for (value, refused) in [("1024", "22023"), ("-1", "22023")] {
        assert_eq!(s.fails(&format!("ALTER SYSTEM SET agentq.node = {value}")).code, refused);
    }
    // It is the server's: no session may pretend.
    assert_eq!(s.fails("SET agentq.node = 5").code, "55P02");
    db.assert_sound();
}

#[test]
fn ids_of_a_session_rise_and_none_comes_twice_however_many_make_them() {
    let db = database();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut s = db.session();
                for _ in 0..10 {
                    s.run(
                        "SELECT agentq.fn_job_enqueue_payloads('k', jsonb_agg(jsonb_build_object('n', n)), '{\"answer\": \"ids\"}')
                         FROM generate_series(1, 500) n",
                    );
                    s.enqueue("single");
                }
            });
        }
    });
    let mut s = db.session();
    let ids = s.texts("SELECT job_id FROM agentq_internal.job ORDER BY job_id");
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (20_040, 20_040));
    // In the order in which a batch lists them.
    let answer = s.call(&format!("fn_job_enqueue_batch('{}')", json!(vec![json!({"job_kind": "k"}); 300])));
    let batch: Vec<&str> =
        answer["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["job_id"].as_str()).collect();
    assert!(batch.len() == 300 && batch.is_sorted(), "{answer}");
    assert_eq!(
        s.text("SELECT string_agg(DISTINCT agentq.fn_node_of(job_id)::text, ' ') FROM agentq_internal.job"),
        "0"
    );
}

#[test]
fn a_lease_token_names_no_server() {
    let db = database();
    let mut s = db.session();
    s.enqueue("k");
    let claim = s.call("fn_job_claim('bob', 'k')");
    let token = claim["lease_token"].as_str().expect("a token").to_owned();
    assert_eq!(s.text(&format!("SELECT agentq.fn_node_of('{token}') IS NULL")), "t");
}
