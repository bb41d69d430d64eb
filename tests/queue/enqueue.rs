//! Putting jobs into the queue.

use agentq_tests::{database, json};

#[test]
fn an_enqueued_job_is_queued_with_the_defaults() {
    let db = database();
    let mut s = db.session();
    let answer = s.call("fn_job_enqueue('mail.send')");
    assert_eq!(answer["ok"], json!(true));
    assert_eq!(answer["code"], "enqueued");
    assert_eq!(answer["duplicate"], json!(false));
    let job = answer["job_id"].as_str().expect("an id").to_owned();
    assert_eq!(s.state(&job), "queued");
    let row = s.text(&format!(
        "SELECT concat_ws('|', priority, attempts, max_attempts, payload_json, actor, idempotency_key = job_id::text, queue)
         FROM agentq.job_queue WHERE job_id = '{job}'"
    ));
    assert_eq!(row, "100|0|5|{}|postgres|t|default");
    db.assert_sound();
}
