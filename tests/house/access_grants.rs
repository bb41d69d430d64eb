//! Giving and taking levels.

use crate::access::{LEVELS, access, with_levels};
use agentq_tests::{Session, database, json};

#[test]
fn taking_a_level_keeps_what_another_level_gives() {
    let db = database();
    let mut owner = db.session();
    let id = owner.enqueue("a");
    let get = format!("SELECT agentq.fn_job_get('{id}')");
    let (role, mut s) = with_levels(&db, "both", &["worker", "reader"]);
    assert_eq!(access(&mut owner, "revoke", &role, "worker")["code"], "revoked");
    assert_eq!(s.fails("SELECT agentq.fn_job_claim('w')").code, "42501", "only workers claim");
    s.run(&get);
    assert_eq!(s.count("agentq.job_queue"), 1, "readers still read");
    access(&mut owner, "revoke", &role, "reader");
    assert_eq!(s.fails(&get).code, "42501");
    assert_eq!(s.fails("SELECT * FROM agentq.job_queue").code, "42501");
    assert_eq!(owner.text(&format!("SELECT has_schema_privilege('{role}', 'agentq', 'USAGE')")), "f");
    assert_eq!(owner.count("agentq.access_grant"), 0);
}

#[test]
fn a_level_that_is_taken_leaves_no_privilege_behind() {
    let db = database();
    let mut owner = db.session();
    for level in LEVELS {
        let (role, _) = with_levels(&db, level, &[level]);
        access(&mut owner, "revoke", &role, level);
        // A role with any privilege left could not be dropped.
        owner.run(&format!("DROP ROLE \"{role}\""));
    }
}

#[test]
fn giving_twice_and_taking_what_was_never_given_change_nothing() {
    let db = database();
    let mut owner = db.session();
    let (role, mut s) = with_levels(&db, "twice", &["worker", "worker"]);
    assert_eq!(owner.count("agentq.access_grant"), 1);
    let answer = access(&mut owner, "revoke", &role, "operator");
    assert_eq!(answer, json!({"ok": true, "code": "revoked", "role": role, "level": "operator"}));
    assert_eq!(s.claim("w")["code"], "empty", "still a worker");
    assert_eq!(owner.text("SELECT level FROM agentq.access_grant"), "worker");
}

#[test]
fn a_level_given_to_a_group_is_its_members() {
    let db = database();
    let (group, _) = with_levels(&db, "group", &["worker"]);
    let (member, mut s) = with_levels(&db, "member", &[]);
    assert_eq!(s.fails("SELECT agentq.fn_job_claim('w')").code, "42501");
    db.session().run(&format!("GRANT \"{group}\" TO \"{member}\""));
    assert_eq!(s.claim("w")["code"], "empty");
}

#[test]
fn a_level_or_role_that_is_not_there_is_refused_with_a_hint() {
    let db = database();
    let mut owner = db.session();
    let (role, _) = with_levels(&db, "someone", &[]);
    for what in ["grant", "revoke"] {
        for (role, level, code, says, hint) in [
            (format!("'{role}'"), "'admin'", "22023", "\"admin\"", "producer, proposer, worker, operator, reader"),
            (format!("'{role}'"), "NULL", "22023", "NULL", "producer, proposer, worker, operator, reader"),
            ("'no such role'".to_owned(), "'worker'", "42704", "\"no such role\"", "CREATE ROLE"),
            ("NULL".to_owned(), "'worker'", "42704", "NULL", "CREATE ROLE"),
            // However it is spelt, PUBLIC is no role.
            ("'public'".to_owned(), "'reader'", "42704", "\"public\"", "PUBLIC"),
            ("'PUBLIC'".to_owned(), "'reader'", "42704", "\"PUBLIC\"", "PUBLIC"),
        ] {
            let call = format!("SELECT agentq.fn_access_{what}({role}, {level})");
            let failure = owner.fails(&call);
            assert_eq!(failure.code, code, "{call}: {failure:?}");
            assert!(failure.message.contains(says), "{call}: {failure:?}");
            assert!(failure.hint.contains(hint), "{call}: {failure:?}");
        }
    }
    assert_eq!(owner.count("agentq.access_grant"), 0);
}

#[test]
fn role_names_are_never_taken_for_sql() {
    let db = database();
    let mut owner = db.session();
    for name in
        ["two words", "with \"quotes\"", "it's", "Mixed.Case", "x; DROP TABLE agentq_internal.job", "%I %s", "select"]
    {
        let role = format!("{name} {}", db.name);
        owner.run(&format!("CREATE ROLE \"{}\" LOGIN", role.replace('"', "\"\"")));
        assert_eq!(access(&mut owner, "grant", &role, "worker")["role"], role.as_str());
        let mut config = postgres::Config::new();
        config.host("127.0.0.1").port(db.cluster.port).dbname(&db.name).user(&role);
        let mut s = Session(config.connect(postgres::NoTls).expect("the role may log in"));
        assert_eq!(s.claim("w")["code"], "empty", "{role}");
        access(&mut owner, "revoke", &role, "worker");
        assert_eq!(s.fails("SELECT agentq.fn_job_claim('w')").code, "42501", "{role}");
    }
    assert_eq!(owner.count("agentq_internal.job"), 0, "the table is there");
}

#[test]
fn only_the_owner_gives_and_takes() {
    let db = database();
    let (role, mut s) = with_levels(&db, "operator", &["operator"]);
    let (other, mut hopeful) = with_levels(&db, "hopeful", &[]);
    for what in ["grant", "revoke"] {
        let call = format!("SELECT agentq.fn_access_{what}('{other}', 'reader')");
        assert_eq!(s.fails(&call).code, "42501");
    }
    // Even with the function in hand the privileges themselves are not the operator's to give.
    let mut owner = db.session();
    owner.run(&format!("GRANT USAGE ON SCHEMA agentq_internal TO \"{role}\""));
    for function in ["agentq.fn_access_grant", "agentq_internal.fn_access_check", "agentq_internal.fn_access_targets"] {
        owner.run(&format!("GRANT EXECUTE ON FUNCTION {function} TO \"{role}\""));
    }
    let call = format!("SELECT agentq.fn_access_grant('{other}', 'reader')");
    assert_eq!(s.fails(&call).code, "42501");
    assert_eq!(hopeful.fails("SELECT agentq.fn_version()").code, "42501");
}
