//! A server that dies in the middle of missions.

use super::{assert_whole, claim, start, status, template, work_off};
use agentq_tests::{Cluster, Options, expect, id, json};

const DATABASE: &str = "agentq_template";

#[test]
fn a_mission_goes_on_after_a_crash_where_it_was() {
    let mut cluster = Cluster::start("mission_crash", &Options::default());
    cluster.make_template();
    let mut s = cluster.session(DATABASE);
    let mission = start(&mut s, &template(&[("a", &[]), ("b", &[]), ("c", &["a", "b"]), ("d", &["c"])]), "");
    let (a, b) = (claim(&mut s, "a"), claim(&mut s, "b"));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob', '{{\"n\": 1}}')", id(&a)));
    // Ends b and begins c, but does not commit.
    let mut open = cluster.session(DATABASE);
    open.run("BEGIN");
    open.call(&format!("fn_job_ack('{}', 'bob')", id(&b)));
    assert_eq!(open.count("agentq_internal.job WHERE job_kind = 'c'"), 1);
    cluster.crash_and_restart();
    let mut s = cluster.session(DATABASE);
    assert_whole(&mut s);
    assert_eq!(s.count("agentq_internal.job WHERE job_kind = 'c'"), 0);
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&b)));
    let c = claim(&mut s, "c");
    cluster.crash_and_restart();
    // The worker is gone: its lease expires, and the step is tried again.
    let mut s = cluster.session(DATABASE);
    s.shift_clock(1000);
    let again = claim(&mut s, "c");
    assert_eq!((&again["job_id"], &again["attempt"]), (&c["job_id"], &json!(2)));
    expect(&mut s, "succeeded", &format!("fn_job_ack('{}', 'bob')", id(&again)));
    assert_eq!(work_off(&mut s), ["d"]);
    assert_eq!(status(&mut s, &mission), "succeeded");
    assert_eq!(s.text("SELECT result->>'n' FROM agentq_internal.mission_step WHERE name = 'a'"), "1");
    assert_whole(&mut s);
    assert_eq!(s.count("agentq.fn_queue_verify()"), 0);
}
