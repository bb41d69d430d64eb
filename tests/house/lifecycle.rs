//! Installing, removing and installing again, also under sessions that are using the queue.

use crate::filled::{assert_works, fill};
use agentq_tests::programs::plain_database;
use agentq_tests::{Session, database, shared_cluster};

/// Takes one job of its own kind through its life.
#[track_caller]
fn use_queue(s: &mut Session, kind: &str) {
    let id = s.enqueue(kind);
    let claimed = s.call(&format!("fn_job_claim('w', '{kind}')"));
    assert_eq!(claimed["job_id"], id.as_str(), "{claimed}");
    assert_eq!(s.call(&format!("fn_job_heartbeat('{id}', 'w', p_checkpoint => '{{}}')"))["code"], "extended");
    assert_eq!(s.call(&format!("fn_job_ack('{id}', 'w')"))["code"], "succeeded");
    assert_eq!(s.state(&id), "succeeded");
    assert_eq!(s.call(&format!("fn_job_get('{id}')"))["job"]["state"], "succeeded");
}

#[test]
fn dropping_the_extension_leaves_nothing_behind() {
    let db = database();
    let mut s = db.session();
    fill(&mut s);
    let role = format!("{}_user", db.name);
    drop(db.session_of(&role));
    s.call(&format!("fn_access_grant('{role}', 'operator')"));
    s.run("DROP EXTENSION agentq");
    assert_eq!(
        s.count("pg_namespace WHERE nspname LIKE 'agentq%'"),
        0,
        "the schemas and all that was in them are gone"
    );
    let elsewhere = "pg_proc WHERE probin LIKE '%agentq%'";
    assert_eq!(s.count(elsewhere), 0, "no function of the library is left anywhere");
}

#[test]
fn a_session_goes_on_after_it_dropped_and_made_the_extension_anew() {
    let db = database();
    let mut s = db.session();
    for round in ["first", "second", "third"] {
        use_queue(&mut s, round);
        s.call("fn_config_set('queue.lease.duration_sec', '60')");
        s.run("DROP EXTENSION agentq; CREATE EXTENSION agentq");
        assert_eq!(s.count("agentq.job_queue"), 0, "the jobs went with it");
        let lease = s.call("fn_config_get('queue.lease.duration_sec')");
        assert_eq!(lease, 300, "nothing is remembered of the old settings");
    }
    let filled = fill(&mut s);
    assert_works(&mut s, &filled);
}

#[test]
fn a_session_goes_on_after_another_dropped_and_made_the_extension_anew() {
    let db = database();
    let (mut s, mut other) = (db.session(), db.session());
    use_queue(&mut s, "before");
    s.call("fn_queue_set('mail')");
    s.call(r#"fn_job_enqueue('letter', p_options => '{"queue": "mail"}')"#);
    other.run("DROP EXTENSION agentq");
    assert_eq!(s.fails("SELECT agentq.fn_job_enqueue('a')").code, "3F000", "there is no such schema now");
    other.run("CREATE EXTENSION agentq");
    let failure = s.fails(r#"SELECT agentq.fn_job_enqueue('a', p_options => '{"queue": "mail"}')"#);
    assert!(failure.message.contains("there is no queue \"mail\""), "{failure:?}");
    use_queue(&mut s, "after");
    use_queue(&mut other, "after too");
    db.assert_sound();
}

#[test]
fn a_drop_that_is_rolled_back_changes_nothing() {
    let db = database();
    let mut s = db.session();
    let filled = fill(&mut s);
    s.run("BEGIN; DROP EXTENSION agentq; CREATE EXTENSION agentq");
    assert_eq!(s.call("fn_config_get('queue.lease.duration_sec')"), 300);
    assert_eq!(s.claim("w")["code"], "empty", "the new queue is empty");
    s.enqueue("in vain");
    s.run("ROLLBACK");
    assert_eq!(s.call("fn_config_get('queue.lease.duration_sec')"), 7200);
    assert_works(&mut s, &filled);
    assert_eq!(s.claim("w")["code"], "claimed", "the old jobs are there to be claimed");
    db.assert_sound();
}

#[test]
fn only_a_superuser_can_install() {
    let db = plain_database(shared_cluster());
    let role = format!("{} owner", db.name);
    drop(db.session_of(&role));
    // Even one who owns the database and may make schemas in it.
    db.session().run(&format!("ALTER DATABASE {} OWNER TO \"{role}\"", db.name));
    let failure = db.session_of(&role).fails("CREATE EXTENSION agentq");
    assert_eq!(failure.code, "42501");
    assert_eq!(failure.message, "permission denied to create extension \"agentq\"");
    assert_eq!(failure.hint, "Must be superuser to create this extension.");
}

#[test]
fn a_schema_of_its_name_that_is_there_already_is_refused_and_left_alone() {
    for (schema, other) in [("agentq", "agentq_internal"), ("agentq_internal", "agentq")] {
        let db = plain_database(shared_cluster());
        let mut s = db.session();
        s.run(&format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.job (theirs int)"));
        let failure = s.fails("CREATE EXTENSION agentq");
        assert_eq!(failure.code, "42P06", "{failure:?}");
        assert!(failure.message.starts_with(&format!("there is a schema {schema} already, which belongs to")));
        assert!(failure.hint.contains("Look at what is in it, then rename or drop it."), "{failure:?}");
        assert_eq!(s.count(&format!("{schema}.job")), 0, "the table is there");
        assert_eq!(s.count(&format!("pg_namespace WHERE nspname = '{other}'")), 0, "nothing was made beside it");
        s.run(&format!("ALTER SCHEMA {schema} RENAME TO theirs; CREATE EXTENSION agentq"));
        use_queue(&mut s, "a");
    }
}

#[test]
fn its_objects_are_in_its_own_schemas_whatever_schema_is_asked_for() {
    let db = plain_database(shared_cluster());
    let mut s = db.session();
    s.run("CREATE SCHEMA elsewhere");
    s.run("CREATE EXTENSION agentq SCHEMA elsewhere");
    assert_eq!(s.count("pg_class WHERE relnamespace = 'elsewhere'::regnamespace"), 0);
    assert_eq!(s.fails("ALTER EXTENSION agentq SET SCHEMA public").code, "0A000");
    use_queue(&mut s, "a");
}

#[test]
fn the_version_of_the_library_is_that_of_the_extension() {
    let db = database();
    let mut s = db.session();
    let installed = s.text("SELECT extversion FROM pg_extension WHERE extname = 'agentq'");
    assert_eq!(s.text("SELECT agentq.fn_version()"), installed);
    assert_eq!(installed, env!("CARGO_PKG_VERSION"));
}

#[test]
fn two_databases_know_nothing_of_each_other() {
    // Queue and kind are the same in both, and so is what the server remembers them by, but for the
    // database: were it left out, the claims of one would hide the jobs of the other.
    let (one, two) = (database(), database());
    let (mut a, mut b) = (one.session(), two.session());
    for round in 0..20 {
        let in_a = a.enqueue("same");
        let early = b.call("fn_job_enqueue('same', p_scheduled_at => now() - interval '1 hour')");
        let in_b = b.enqueue("same");
        for (s, expected) in [(&mut a, in_a.as_str()), (&mut b, early["job_id"].as_str().expect("an id"))] {
            let claimed = s.call("fn_job_claim('w', 'same')");
            assert_eq!(claimed["job_id"], expected, "round {round}");
        }
        assert_eq!(a.claim("w")["code"], "empty", "round {round}");
        assert_eq!(b.claim("w")["job_id"], in_b.as_str(), "round {round}");
        assert_eq!(b.claim("w")["code"], "empty", "round {round}");
    }
    a.call("fn_config_set('queue.job_substrate.enabled', 'false')");
    assert_eq!(a.claim("w")["code"], "gate_closed");
    assert_eq!(b.claim("w")["code"], "empty", "the gate of the other is open");
    one.assert_sound();
    two.assert_sound();
}
