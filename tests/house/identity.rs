//! Who acts: a login that acts for others does what the role of its token may, in one transaction, and nothing else.

use crate::access::{LEVELS, access, calls, is_let_in, with_levels};
use agentq_tests::{Cluster, Database, Options, Session, Value, database, eventually, expect, id, json, text};

/// A session of a login that acts for others.
fn delegate(db: &Database<'_>) -> Session {
    with_levels(db, "console", &["delegate"]).1
}

/// A role with these levels, a session of it, and a token of this kind.
fn holder(db: &Database<'_>, name: &str, levels: &[&str], kind: &str, options: &Value) -> (String, Session, String) {
    let (role, mut s) = with_levels(db, name, levels);
    let token = issue(&mut s, kind, options);
    (role, s, token)
}

#[track_caller]
fn issue(s: &mut Session, kind: &str, options: &Value) -> String {
    text(&expect(s, "issued", &format!("fn_token_issue('{kind}', '{options}')")), "token").to_owned()
}

fn id_of(s: &mut Session, token: &str) -> String {
    s.text(&format!("SELECT token_id FROM agentq_internal.access_token WHERE hash = encode(sha256('{token}'), 'hex')"))
}

/// Begins a transaction that acts for whoever has this token.
#[track_caller]
fn act(s: &mut Session, token: &str) -> Value {
    s.run("BEGIN");
    expect(s, "acting", &format!("fn_act_as('{token}')"))
}

fn code(s: &mut Session, token: &str) -> String {
    text(&s.call(&format!("fn_act_as('{token}')")), "code").to_owned()
}

#[test]
fn without_a_token_a_delegate_may_say_for_whom_it_acts_and_nothing_else() {
    let db = database();
    let mut s = delegate(&db);
    for (call, _) in calls() {
        let failure = match s.0.simple_query(&format!("BEGIN; SELECT agentq.{call}")) {
            Ok(_) => panic!("{call} is let in"),
            Err(error) => error.as_db_error().expect("an error of the server").clone(),
        };
        s.run("ROLLBACK");
        let is_own = call.starts_with("fn_act_as");
        assert_eq!(failure.code().code(), if is_own { "22004" } else { "42501" }, "{call}: {failure:?}");
    }
    for relation in db.session().texts(
        "SELECT oid::regclass::text FROM pg_class
         WHERE relnamespace IN ('agentq'::regnamespace, 'agentq_internal'::regnamespace) AND relkind IN ('r', 'p', 'v')",
    ) {
        assert_eq!(s.fails(&format!("SELECT * FROM {relation}")).code, "42501", "{relation}");
    }
    let failure = s.fails("SELECT agentq.fn_job_enqueue('a')");
    assert!(failure.message.contains("has not said for whom"), "{failure:?}");
    assert!(failure.hint.contains("agentq.fn_act_as"), "{failure:?}");
    assert_eq!(code(&mut s, "agq_no"), "unknown_token");
    // Nor in the statement in which it says so: the server asks for all of it before it runs any.
    let (_, _, token) = holder(&db, "p", &["producer"], "api", &json!({}));
    let failure = s.fails(&format!("SELECT agentq.fn_act_as('{token}'), agentq.fn_job_enqueue('a')"));
    assert_eq!(failure.code, "42501", "{failure:?}");
    // Nor by the server's other ways to call a function.
    for statement in [
        "CREATE TEMPORARY TABLE t AS SELECT agentq.fn_version()",
        "PREPARE a AS SELECT agentq.fn_version(); EXECUTE a",
        "DO $$ BEGIN PERFORM agentq.fn_version(); END $$",
        "SELECT * FROM agentq.fn_queue_verify()",
        "SELECT 1 WHERE agentq.fn_node_of(gen_random_uuid()) IS NULL",
        "SELECT count(*) FROM generate_series(1, 3) n WHERE agentq.fn_clock_now() > now() + n * interval '1 s'",
        "COPY (SELECT agentq.fn_version()) TO STDOUT",
    ] {
        assert_eq!(s.fails(statement).code, "42501", "{statement}");
    }
}

#[test]
fn with_a_token_of_each_level_a_delegate_may_call_what_that_level_may() {
    let db = database();
    let mut s = delegate(&db);
    for level in LEVELS {
        let (_, _, token) = holder(&db, level, &[level], "api", &json!({}));
        let found: Vec<String> = calls()
            .into_iter()
            .map(|(call, _)| call)
            .filter(|call| !call.starts_with("fn_act_as"))
            .filter(|call| is_let_in(&mut s, &format!("SELECT agentq.fn_act_as('{token}'); SELECT agentq.{call}")))
            .collect();
        let expected: Vec<String> =
            calls().into_iter().filter(|(_, levels)| levels.contains(&level)).map(|(call, _)| call).collect();
        assert_eq!(found, expected, "{level}");
    }
    // What a level may read stays with its role: a delegate has no SELECT.
    let (_, _, token) = holder(&db, "reader", &["reader"], "api", &json!({}));
    act(&mut s, &token);
    assert_eq!(s.fails("SELECT * FROM agentq.v_queue_health").code, "42501");
}

#[test]
fn what_is_done_is_done_by_the_role_of_the_token() {
    let db = database();
    let (role, mut own, token) = holder(&db, "anna", &["producer"], "console", &json!({"label": "a laptop"}));
    let mut s = delegate(&db);
    let acting = act(&mut s, &token);
    assert_eq!((&acting["actor"], &acting["token"]["label"]), (&json!(role), &json!("a laptop")), "{acting}");
    let job = s.enqueue("a");
    s.call("fn_event_emit('seen', 'x')");
    let whoami = s.call("fn_whoami()");
    assert_eq!(
        (&whoami["actor"], &whoami["role"], &whoami["levels"]),
        (&json!(role), &json!(role), &json!(["producer"]))
    );
    s.run("COMMIT");
    let mut owner = db.session();
    assert_eq!(owner.text(&format!("SELECT enqueued_by FROM agentq_internal.job WHERE job_id = '{job}'")), "NULL");
    assert_eq!(owner.text(&format!("SELECT actor FROM agentq.job_queue WHERE job_id = '{job}'")), role);
    assert_eq!(owner.text("SELECT actor FROM agentq.event WHERE event_kind = 'seen'"), role);
    // The role sees its own job, over either way, and another's only the state of it.
    assert_eq!(own.call(&format!("fn_job_get('{job}')"))["job"]["job_kind"], "a");
    act(&mut s, &token);
    assert_eq!(s.call(&format!("fn_job_get('{job}')"))["job"]["job_kind"], "a");
    s.run("COMMIT");
    let (_, _, other) = holder(&db, "bert", &["producer"], "api", &json!({}));
    act(&mut s, &other);
    assert_eq!(s.call(&format!("fn_job_get('{job}')"))["job"], json!({"job_id": job, "state": "queued"}));
    s.run("COMMIT");
    // A function that runs with the rights of its caller has those of the role.
    let (operator, _, token) = holder(&db, "otto", &["operator"], "api", &json!({}));
    act(&mut s, &token);
    expect(&mut s, "created", "fn_handler_register('h', 'SELECT 1')");
    expect(&mut s, "set", "fn_policy_set('auto_approve', '{\"enabled\": false}')");
    expect(&mut s, "set", "fn_config_set('queue.lease.duration_sec', '301')");
    let refused = s.fails("SELECT agentq.fn_handler_register('h', 'SELECT 1', 'postgres')");
    assert_eq!(refused.code, "42501", "{refused:?}");
    s.run("ROLLBACK");
    act(&mut s, &token);
    expect(&mut s, "created", "fn_handler_register('h', 'SELECT 1')");
    s.run("COMMIT");
    assert_eq!(
        owner.text("SELECT role_name || registered_by FROM agentq.job_handler"),
        format!("{operator}{operator}")
    );
}

#[test]
fn a_token_holds_for_one_transaction_or_the_part_of_it_in_which_it_was_given() {
    let db = database();
    let (_, _, token) = holder(&db, "anna", &["producer"], "api", &json!({}));
    let (_, _, other) = holder(&db, "bert", &["producer"], "api", &json!({}));
    let mut s = delegate(&db);
    let is_nobody = |s: &mut Session| {
        let failure = s.fails("SELECT agentq.fn_job_enqueue('a')");
        assert!(failure.message.contains("has not said for whom"), "{failure:?}");
    };
    for end in ["COMMIT", "ROLLBACK"] {
        act(&mut s, &token);
        s.enqueue("a");
        s.run(end);
        is_nobody(&mut s);
    }
    s.call(&format!("fn_act_as('{token}')"));
    is_nobody(&mut s);
    // A part that is undone takes it along, and one that is kept leaves it.
    s.run("BEGIN; SAVEPOINT a");
    expect(&mut s, "acting", &format!("fn_act_as('{token}')"));
    s.run("SAVEPOINT b");
    s.enqueue("a");
    s.run("ROLLBACK TO b");
    s.enqueue("a");
    s.run("ROLLBACK TO a");
    is_nobody(&mut s);
    s.run("ROLLBACK; BEGIN; SAVEPOINT a; SAVEPOINT b");
    expect(&mut s, "acting", &format!("fn_act_as('{token}')"));
    s.run("RELEASE b");
    s.enqueue("a");
    s.run("RELEASE a");
    s.enqueue("a");
    // One transaction acts for one.
    expect(&mut s, "acting", &format!("fn_act_as('{token}')"));
    let failure = s.fails(&format!("SELECT agentq.fn_act_as('{other}')"));
    assert_eq!(failure.code, "55000", "{failure:?}");
    s.run("ROLLBACK");
    // An error in between leaves nobody, and so does a transaction that is prepared.
    act(&mut s, &token);
    s.fails("SELECT 1 / 0");
    s.run("ROLLBACK");
    is_nobody(&mut s);
}

#[test]
fn a_token_that_has_ended_meanwhile_ends_what_is_done_with_it() {
    let db = database();
    let mut owner = db.session();
    let (_, mut own, _) = holder(&db, "anna", &["producer"], "api", &json!({}));
    let mut s = delegate(&db);
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"] {
        let token = issue(&mut own, "api", &json!({}));
        let id = id_of(&mut owner, &token);
        s.run(begin);
        expect(&mut s, "acting", &format!("fn_act_as('{token}')"));
        s.enqueue("a");
        expect(&mut own, "revoked", &format!("fn_token_revoke('{id}', 'lost')"));
        let failure = s.fails("SELECT agentq.fn_job_enqueue('a')");
        assert_eq!(failure.code, "28000", "{failure:?}");
        assert!(failure.message.contains("token_revoked"), "{failure:?}");
        s.run("ROLLBACK");
        // Also where this transaction has a snapshot from before.
        assert_eq!(code(&mut s, &token), "token_revoked");
    }
    let token = issue(&mut own, "api", &json!({"seconds": 1}));
    s.run("SELECT pg_sleep(1.1)");
    assert_eq!(code(&mut s, &token), "token_expired");
    let token = issue(&mut own, "api", &json!({"seconds": 1}));
    act(&mut s, &token);
    s.run("SELECT pg_sleep(1.1)");
    let failure = s.fails("SELECT agentq.fn_job_enqueue('a')");
    assert!(failure.message.contains("token_expired"), "{failure:?}");
    s.run("ROLLBACK");
    // One statement that calls again and again is not spared.
    let token = issue(&mut own, "api", &json!({}));
    let id = id_of(&mut owner, &token);
    act(&mut s, &token);
    let endless = std::thread::spawn(move || {
        s.fails("DO $$ DECLARE x jsonb; BEGIN LOOP x := agentq.fn_job_enqueue('loop'); END LOOP; END $$")
    });
    own.run("SELECT pg_sleep(0.3)");
    expect(&mut own, "revoked", &format!("fn_token_revoke('{id}')"));
    assert_eq!(endless.join().expect("it ends").code, "28000");
}

#[test]
fn a_role_that_is_gone_or_has_become_more_is_not_acted_for() {
    let db = database();
    let mut owner = db.session();
    let mut s = delegate(&db);
    let (role, own, token) = holder(&db, "anna", &["producer"], "api", &json!({}));
    drop(own);
    // Under another name it is the same.
    owner.run(&format!("ALTER ROLE \"{role}\" RENAME TO \"renamed {role}\""));
    let acting = act(&mut s, &token);
    assert_eq!(acting["actor"], format!("renamed {role}"));
    s.enqueue("a");
    s.run("ROLLBACK");
    owner.run(&format!("ALTER ROLE \"renamed {role}\" RENAME TO \"{role}\""));
    act(&mut s, &token);
    owner.run(&format!("ALTER ROLE \"{role}\" SUPERUSER"));
    let failure = s.fails("SELECT agentq.fn_job_enqueue('a')");
    assert_eq!(failure.code, "28000", "{failure:?}");
    s.run("ROLLBACK");
    assert_eq!(code(&mut s, &token), "role_is_superuser");
    owner.run(&format!("ALTER ROLE \"{role}\" NOSUPERUSER"));
    assert_eq!(owner.call("fn_token_issue('api')")["code"], "role_is_superuser");
    // A delegate is nobody to act for.
    let (console, _) = with_levels(&db, "other console", &["delegate"]);
    assert_eq!(
        owner.call(&format!("fn_token_issue('api', '{{\"role\": \"{console}\"}}')"))["code"],
        "role_acts_for_others"
    );
    access(&mut owner, "revoke", &role, "producer");
    access(&mut owner, "grant", &role, "delegate");
    assert_eq!(code(&mut s, &token), "role_acts_for_others");
    access(&mut owner, "revoke", &role, "delegate");
    // One that is made again is another.
    owner.run(&format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\""));
    assert_eq!(code(&mut s, &token), "role_gone");
    owner.run(&format!("CREATE ROLE \"{role}\""));
    assert_eq!(code(&mut s, &token), "role_gone");
    owner.run(&format!("DROP ROLE \"{role}\""));
}

#[test]
fn a_level_that_is_taken_meanwhile_is_gone_at_the_next_call() {
    let db = database();
    let (role, _, token) = holder(&db, "anna", &["producer"], "api", &json!({}));
    let mut s = delegate(&db);
    s.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    expect(&mut s, "acting", &format!("fn_act_as('{token}')"));
    s.enqueue("a");
    access(&mut db.session(), "revoke", &role, "producer");
    let failure = s.fails("SELECT agentq.fn_job_enqueue('a')");
    assert_eq!(failure.code, "42501", "{failure:?}");
    assert!(failure.message.contains(&format!("\"{role}\", for whom this session acts")), "{failure:?}");
}

#[test]
fn scopes_limit_a_token_and_what_is_issued_with_it() {
    let db = database();
    let mut owner = db.session();
    let levels = ["producer", "worker", "reader"];
    let (_, mut own, console) = holder(&db, "anna", &levels, "console", &json!({"scopes": ["producer", "reader"]}));
    let mut s = delegate(&db);
    act(&mut s, &console);
    let job = s.enqueue("a");
    let failure = s.fails("SELECT agentq.fn_job_claim('w')");
    assert_eq!(failure.code, "42501", "{failure:?}");
    assert!(failure.hint.contains("scopes"), "{failure:?}");
    s.run("ROLLBACK");
    assert_eq!(own.fails(&format!("SELECT agentq.fn_job_get('{job}')")).code, "P0002", "it was rolled back");
    // What is issued with it may do no more, and goes with it.
    act(&mut s, &console);
    let child = issue(&mut s, "api", &json!({"agent": "clerk", "run_id": "r-1"}));
    assert_eq!(s.call("fn_token_issue('console')")["code"], "not_with_this_token");
    let failure = s.fails("SELECT agentq.fn_token_issue('api', '{\"scopes\": [\"worker\"]}')");
    assert_eq!(failure.code, "42501", "{failure:?}");
    s.run("ROLLBACK");
    act(&mut s, &console);
    let child_before = child;
    let child = issue(&mut s, "api", &json!({"agent": "clerk", "run_id": "r-1", "scopes": ["producer"]}));
    s.run("COMMIT");
    assert_eq!(code(&mut s, &child_before), "unknown_token", "it was rolled back");
    let acting = act(&mut s, &child);
    assert_eq!((&acting["token"]["agent"], &acting["token"]["scopes"]), (&json!("clerk"), &json!(["producer"])));
    assert_eq!(s.call("fn_token_issue('mcp')")["code"], "not_with_this_token");
    s.run("COMMIT");
    let id = id_of(&mut owner, &console);
    expect(&mut own, "revoked", &format!("fn_token_revoke('{id}')"));
    expect(&mut own, "already_revoked", &format!("fn_token_revoke('{id}')"));
    assert_eq!(code(&mut s, &child), "token_revoked");
    for (options, problem) in [
        (json!({"scopes": ["delegate"]}), "no level"),
        (json!({"seconds": 0}), "seconds"),
        (json!({"role": "nobody there"}), "there is no role"),
        (json!({"owner": "x"}), "owner"),
    ] {
        let failure = own.fails(&format!("SELECT agentq.fn_token_issue('api', '{options}')"));
        assert!(failure.message.contains(problem), "{options}: {failure:?}");
    }
    assert!(own.fails("SELECT agentq.fn_token_issue('root')").message.contains("p_kind"));
}

#[test]
fn tokens_are_seen_and_ended_by_their_role_and_by_operators() {
    let db = database();
    let mut owner = db.session();
    let (role, mut anna, token) = holder(&db, "anna", &["producer"], "api", &json!({"label": "nightly"}));
    let (_, mut bert, _) = holder(&db, "bert", &["worker"], "api", &json!({}));
    let (_, mut otto) = with_levels(&db, "otto", &["operator"]);
    let id = id_of(&mut owner, &token);
    let listed = |s: &mut Session, options: &str| s.call(&format!("fn_token_list({options})"))["tokens"].clone();
    let of_anna = listed(&mut anna, "");
    assert_eq!((of_anna.as_array().map(Vec::len), &of_anna[0]["token_id"]), (Some(1), &json!(id)), "{of_anna}");
    assert_eq!((&of_anna[0]["label"], &of_anna[0]["role"]), (&json!("nightly"), &json!(role)));
    assert!(!of_anna.to_string().contains(&token) && !of_anna.to_string().contains("hash"), "{of_anna}");
    assert_eq!(listed(&mut bert, "").as_array().map(Vec::len), Some(1));
    assert_eq!(listed(&mut otto, "").as_array().map(Vec::len), Some(2));
    let first = listed(&mut otto, "'{\"limit\": 1}'");
    let second = listed(&mut otto, &format!("'{{\"limit\": 1, \"after\": {}}}'", first[0]["token_id"]));
    assert_ne!(first[0]["token_id"], second[0]["token_id"]);
    assert_eq!(bert.call(&format!("fn_token_revoke('{id}')"))["code"], "unknown_token");
    expect(&mut otto, "revoked", &format!("fn_token_revoke('{id}', 'left the team')"));
    assert_eq!(listed(&mut anna, "").as_array().map(Vec::len), Some(0));
    assert_eq!(listed(&mut anna, "'{\"ended\": true}'")[0]["revoke_reason"], "left the team");
    // It is in the log who has issued and ended which, and never the token.
    let audits = owner.texts("SELECT concat_ws(' ', event_kind, actor, target_id) FROM agentq.event WHERE purpose = 'audit' ORDER BY event_id");
    assert_eq!(audits.iter().filter(|line| line.starts_with("access.token_issued")).count(), 2, "{audits:?}");
    assert!(audits.iter().any(|line| line.starts_with("access.token_revoked") && line.ends_with(&id)), "{audits:?}");
    let secret = format!("agentq.event e WHERE e::text LIKE '%{token}%'");
    assert_eq!(owner.count(&secret), 0);
    // A month after its end nobody knows it any more.
    owner.run("UPDATE agentq_internal.access_token SET issued_at = issued_at - interval '1 year', expires_at = now() - interval '31 days' WHERE revoked_at IS NOT NULL");
    owner.call("fn_engine_tick('expire')");
    assert_eq!(owner.count("agentq_internal.access_token"), 1);
    // A role has only so many.
    owner.run(&format!(
        "INSERT INTO agentq_internal.access_token (token_id, hash, role_oid, kind, issued_at, issued_by, expires_at)
         SELECT gen_random_uuid(), encode(sha256(n::text::bytea), 'hex'), '\"{role}\"'::regrole, 'api', now(), 'x', now() + interval '1 day' FROM generate_series(1, 1000) n"
    ));
    assert_eq!(anna.call("fn_token_issue('api')")["code"], "too_many_tokens");
}

#[test]
fn other_ways_round_the_guard_lead_nowhere() {
    let db = database();
    let mut owner = db.session();
    let (console, mut s) = with_levels(&db, "console", &["delegate"]);
    let (anna, _, token) = holder(&db, "anna", &["producer"], "api", &json!({}));
    // A member of the delegate is one; so is whoever takes its role.
    let (member, mut of_member) = with_levels(&db, "member", &[]);
    owner.run(&format!("GRANT \"{console}\" TO \"{member}\""));
    assert_eq!(of_member.fails("SELECT agentq.fn_version()").code, "42501");
    act(&mut of_member, &token);
    of_member.enqueue("a");
    of_member.run("COMMIT");
    let (operator, mut of_operator) = with_levels(&db, "both", &["operator"]);
    of_operator.call("fn_config_get('queue.lease.duration_sec')");
    owner.run(&format!("GRANT \"{console}\" TO \"{operator}\""));
    assert_eq!(of_operator.fails("SELECT agentq.fn_version()").code, "42501", "it acts for others now");
    owner.run(&format!("REVOKE \"{console}\" FROM \"{operator}\""));
    of_operator.call("fn_config_get('queue.lease.duration_sec')");
    // The levels themselves cannot be mixed.
    let refused = owner.fails(&format!("SELECT agentq.fn_access_grant('{console}', 'reader')"));
    assert_eq!(refused.code, "55000", "{refused:?}");
    let refused = owner.fails(&format!("SELECT agentq.fn_access_grant('{anna}', 'delegate')"));
    assert_eq!(refused.code, "55000", "{refused:?}");
    // Settings and clocks of the session's own make no difference.
    for setting in ["SET session_replication_role = replica", "SET agentq.clock_offset = -86400"] {
        assert_eq!(s.fails(setting).code, "42501", "{setting}");
    }
    s.fails("SET SESSION AUTHORIZATION postgres");
    assert_eq!(s.fails(&format!("SET ROLE \"{anna}\"")).code, "42501");
    // A function of the delegate's own, which others call with its rights, says for nobody either.
    owner.run("CREATE SCHEMA lent");
    owner.run(&format!("GRANT CREATE, USAGE ON SCHEMA lent TO \"{console}\"; GRANT USAGE ON SCHEMA lent TO PUBLIC"));
    s.run("CREATE FUNCTION lent.f() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN agentq.fn_job_enqueue(''x''); END'");
    let (_, mut stranger) = with_levels(&db, "stranger", &[]);
    assert_eq!(stranger.fails("SELECT lent.f()").code, "42501");
    assert_eq!(s.fails("SELECT lent.f()").code, "42501");
    // A function that somebody else lends has that one's rights, as it always had; who acts is still known.
    let (lender, mut of_lender) = with_levels(&db, "lender", &["operator"]);
    owner.run(&format!("GRANT CREATE, USAGE ON SCHEMA lent TO \"{lender}\""));
    of_lender.run("CREATE FUNCTION lent.g() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN agentq.fn_job_enqueue(''lent''); END'");
    let job = id(&s.json("SELECT lent.g()", &[]));
    assert_eq!(owner.text(&format!("SELECT actor FROM agentq.job_queue WHERE job_id = '{job}'")), console);
    // The token of one transaction is not that of another session's.
    act(&mut s, &token);
    let mut other = db.session_of(&console);
    assert_eq!(other.fails("SELECT agentq.fn_version()").code, "42501");
    s.run("ROLLBACK");
}

#[test]
fn a_server_without_the_preload_sends_delegates_away() {
    let cluster = Cluster::start("delegates", &Options { without_preload: true, ..Options::default() });
    cluster.make_template();
    let db = cluster.database();
    let mut owner = db.session();
    let refused = owner.fails("SELECT agentq.fn_access_grant('pg_monitor', 'delegate')");
    assert_eq!(refused.code, "55000", "{refused:?}");
    // A dump of a server that had the preload gives nothing.
    let role = format!("console of {}", db.name);
    let mut s = db.session_of(&role);
    owner.run(&format!("INSERT INTO agentq.access_grant (role_name, level) VALUES ('{role}', 'delegate')"));
    assert_eq!(s.fails("SELECT agentq.fn_act_as('x')").code, "42501");
    // As a server has it that was restarted without the preload.
    owner.run(&format!(
        "GRANT USAGE ON SCHEMA agentq TO \"{role}\"; GRANT EXECUTE ON FUNCTION agentq.fn_act_as(text), agentq.fn_version() TO \"{role}\""
    ));
    for call in ["fn_version()", "fn_act_as('x')", "fn_version()"] {
        let failure = s.fails(&format!("SELECT agentq.{call}"));
        assert_eq!(failure.code, "55000", "{call}: {failure:?}");
        assert!(failure.message.contains("preloaded"), "{failure:?}");
    }
    // A session that has the library already guards this login, too.
    let mut both = db.session();
    both.run("SELECT agentq.fn_version()");
    both.run(&format!("SET ROLE \"{role}\""));
    assert_eq!(both.fails("SELECT agentq.fn_version()").code, "42501");
}

#[test]
fn a_standby_knows_tokens_too() {
    let cluster = Cluster::start("identity_primary", &Options::default());
    cluster.make_template();
    let db = cluster.database();
    let (_, mut own, token) = holder(&db, "anna", &["reader"], "api", &json!({}));
    let (console, _) = with_levels(&db, "console", &["delegate"]);
    let id = id_of(&mut db.session(), &token);
    let standby = Cluster::standby_of(&cluster, "identity_standby");
    let there = Database { cluster: &standby, name: db.name.clone() };
    let mut s = Session(
        postgres::Client::connect(&format!("{} options='-c role=none'", there.url()), postgres::NoTls)
            .expect("the standby accepts"),
    );
    s.run(&format!("SET SESSION AUTHORIZATION \"{console}\""));
    assert_eq!(s.fails("SELECT agentq.fn_version()").code, "42501");
    s.run("BEGIN");
    expect(&mut s, "acting", &format!("fn_act_as('{token}')"));
    assert_eq!(s.call("fn_whoami()")["levels"], json!(["reader"]));
    s.run("COMMIT");
    expect(&mut own, "revoked", &format!("fn_token_revoke('{id}')"));
    eventually("the standby hears of it", || code(&mut s, &token) == "token_revoked");
    std::mem::forget(there);
}
