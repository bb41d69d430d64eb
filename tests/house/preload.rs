//! A server that does not preload the library: slower, but the same queue.

use agentq_tests::{Cluster, Options};

#[test]
fn the_queue_works_without_preloading() {
    let cluster = Cluster::start("bare", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let (mut producer, mut worker) = (db.session(), db.session());
    assert_eq!(producer.text("SHOW shared_preload_libraries"), "");
    let urgent = |s: &mut agentq_tests::Session, kind: &str, priority: i32| {
        s.call(&format!("fn_job_enqueue('{kind}', p_priority => {priority})"))["job_id"].clone()
    };
    let last = urgent(&mut producer, "a", 9);
    let first = urgent(&mut producer, "b", 1);
    for expected in [first, last] {
        let claimed = worker.claim("w");
        assert_eq!(claimed["job_id"], expected);
        let id = claimed["job_id"].as_str().expect("an id");
        assert_eq!(worker.call(&format!("fn_job_ack('{id}', 'w')"))["code"], "succeeded");
    }
    assert_eq!(worker.claim("w")["code"], "empty");
    producer.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    assert_eq!(worker.claim("w")["code"], "gate_closed", "settings reach other sessions");
    db.assert_sound();
}
