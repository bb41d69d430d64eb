//! sql/schema.txt says in full what an installation contains, so that a review sees every change.

use crate::catalog::{assert_generated, committed, describe, differences};
use agentq_tests::{database, major};

/// One file has every line as the oldest major version writes it, another the lines that those since 16 write differently.
#[test]
fn the_committed_schema_is_what_a_fresh_installation_has() {
    let db = database();
    let found = describe(&mut db.session());
    if major() == 15 {
        assert_generated("sql/schema.txt", &found);
    } else {
        assert_generated("sql/schema.since-16.txt", &differences(&committed("sql/schema.txt"), &found));
    }
}

#[test]
fn the_description_sees_every_kind_of_change() {
    let db = database();
    let mut s = db.session();
    let before = describe(&mut s);
    for (change, seen) in [
        ("ALTER TABLE agentq.queue ADD COLUMN colour text", "+ column agentq.queue 013 colour text"),
        ("ALTER TABLE agentq_internal.job ALTER COLUMN attempts SET DEFAULT 1", "default 1"),
        ("ALTER TABLE agentq_internal.job ALTER COLUMN actor DROP NOT NULL", "+ column agentq_internal.job 013 actor"),
        ("ALTER TABLE agentq_internal.job_lease SET (fillfactor = 71)", "fillfactor=71"),
        ("ALTER DOMAIN agentq_internal.job_payload SET NOT NULL", "+ type agentq_internal.job_payload"),
        ("ALTER DOMAIN agentq_internal.job_payload ADD CHECK (true)", "+ constraint agentq_internal.job_payload"),
        ("ALTER TABLE agentq.queue DROP CONSTRAINT queue_lease_check", "- constraint agentq.queue queue_lease_check"),
        (
            "DROP INDEX agentq_internal.job_ready_kind_idx",
            "- index agentq_internal.job_ready CREATE INDEX job_ready_kind_idx",
        ),
        ("ALTER VIEW agentq.v_job_queue_backlog SET (security_barrier)", "security_barrier=true"),
        ("ALTER VIEW agentq.job_queue ALTER COLUMN queue DROP DEFAULT", "- column agentq.job_queue 022 queue"),
        ("ALTER FUNCTION agentq.fn_job_ack SECURITY INVOKER", "security invoker"),
        ("ALTER FUNCTION agentq.fn_job_get RESET search_path", "+ function fn_job_get"),
        ("ALTER FUNCTION agentq.fn_job_get IMMUTABLE", "immutable"),
        ("DROP TRIGGER queue_take ON agentq.queue", "- trigger agentq.queue CREATE TRIGGER queue_take"),
        ("COMMENT ON COLUMN agentq.queue.queue IS NULL", "- comment on table column agentq.queue.queue"),
        ("GRANT SELECT ON agentq.queue TO PUBLIC", "+ acl relation agentq.queue PUBLIC=SELECT"),
        ("GRANT EXECUTE ON FUNCTION agentq.fn_job_ack TO PUBLIC", "PUBLIC=EXECUTE"),
        ("ALTER SEQUENCE agentq.queue_queue_id_seq CACHE 5", "cache 5"),
        ("ALTER EXTENSION agentq DROP TABLE agentq_internal.job_checkpoint", "- dumped agentq_internal.job_checkpoint"),
        ("DELETE FROM agentq.access_rule WHERE object = 'fn_job_ack'", "- access worker EXECUTE fn_job_ack"),
    ] {
        s.run(&format!("BEGIN; {change}"));
        let changes = differences(&before, &describe(&mut s));
        assert!(changes.iter().any(|line| line.contains(seen)), "{change}: {changes:#?}");
        s.run("ROLLBACK");
    }
    assert_eq!(describe(&mut s), before);
}
