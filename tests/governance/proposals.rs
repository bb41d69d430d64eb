//! Proposals: gate, caps, hook, approval by policy and by people.

use crate::loops::{approve_all, policy, propose, refused, template};
use agentq_tests::{
    Session, Value, assert_unwritten, database, everything, expect, json, refusal, text, until_someone_waits,
};

fn status(s: &mut Session, answer: &Value) -> String {
    s.text(&format!("SELECT status FROM agentq.v_proposal WHERE proposal_id = '{}'", text(answer, "proposal_id")))
}

#[test]
fn a_proposal_waits_for_a_person_unless_the_policy_lets_it_through() {
    let db = database();
    let mut s = db.session();
    let waits = propose(&mut s, "pending", "a", "api", &template(&["noop"]));
    assert_eq!(waits["reason"], "auto_approve is not enabled");
    assert_eq!((s.count("agentq_internal.job"), status(&mut s, &waits)), (0, "pending".to_owned()));
    approve_all(&mut s, &["noop", "draft_*"]);
    let through = propose(&mut s, "auto_approved", "b", "api", &template(&["noop", "draft_tweet"]));
    assert!(through["mission_id"].is_string());
    assert!(s.count("agentq_internal.job") > 0);
    let waits = propose(&mut s, "pending", "c", "api", &template(&["noop", "post"]));
    assert_eq!(waits["reason"], "steps of kind post are not approved by themselves");
    // The same key is the same proposal, whatever it holds.
    let again = propose(&mut s, "duplicate", "b", "manual", &template(&["post"]));
    assert_eq!(
        (again["mission_id"].clone(), again["status"].clone()),
        (through["mission_id"].clone(), json!("auto_approved"))
    );
    let kinds =
        "SELECT purpose || ' ' || event_kind FROM agentq.event WHERE event_kind LIKE 'proposal.%' ORDER BY event_id";
    assert_eq!(s.texts(kinds), ["audit proposal.pending", "audit proposal.auto_approved", "audit proposal.pending"]);
    db.assert_sound();
}

#[test]
fn a_decision_records_the_policies_that_it_went_by() {
    let db = database();
    let mut s = db.session();
    approve_all(&mut s, &["noop"]);
    policy(&mut s, "proposal_caps", json!({"daily_limit": 10}));
    policy(&mut s, "proposal_caps", json!({"daily_limit": 20}));
    let id = text(&propose(&mut s, "auto_approved", "a", "api", &template(&["noop"])), "proposal_id");
    policy(&mut s, "proposal_caps", json!({"daily_limit": 30}));
    let got = expect(&mut s, "found", &format!("fn_proposal_get('{id}')"));
    assert_eq!(got["policy_snapshot"]["proposal_caps"], json!({"version": 2, "value": {"daily_limit": 20}}));
    assert_eq!(got["policy_snapshot"]["auto_approve"]["version"], 1);
    assert_eq!(got["policy_snapshot"]["worker_policy"]["version"], 0);
    assert_eq!((got["status"].clone(), got["decided_by"].clone()), (json!("auto_approved"), json!("policy")));
    // A person's decision goes by the worker policy of that moment.
    let id = text(&propose(&mut s, "pending", "b", "api", &template(&["post"])), "proposal_id");
    policy(&mut s, "worker_policy", json!({"max_retries": 1}));
    expect(&mut s, "approved", &format!("fn_proposal_approve('{id}', 'ann', 'looks fine')"));
    let got = expect(&mut s, "found", &format!("fn_proposal_get('{id}')"));
    assert_eq!(
        got["policy_snapshot"]["worker_policy"],
        json!({"version": 1, "value": {"lease_minutes": 5, "max_retries": 1, "stale_minutes": 30}})
    );
    assert_eq!(got["policy_snapshot"]["proposal_caps"]["version"], 3);
    assert_eq!(
        (got["status"].clone(), got["decided_by"].clone(), got["reason"].clone()),
        (json!("approved"), json!("ann"), json!("looks fine"))
    );
    assert_eq!(s.text("SELECT max_attempts FROM agentq.job_queue WHERE job_kind = 'post'"), "2");
    assert_eq!(s.text("SELECT max_attempts FROM agentq.job_queue WHERE job_kind = 'noop'"), "4");
}

#[test]
fn risk_and_source_may_need_a_person() {
    let db = database();
    let mut s = db.session();
    let rules = json!({"enabled": true, "allowed_step_kinds": ["*"], "max_risk": "medium", "sources": ["reaction"]});
    policy(&mut s, "auto_approve", rules);
    let with_risk = |risk: &str| {
        let mut template = template(&["x"]);
        template["risk_level"] = json!(risk);
        template
    };
    propose(&mut s, "auto_approved", "low", "reaction", &with_risk("low"));
    let high = propose(&mut s, "pending", "high", "reaction", &with_risk("high"));
    assert_eq!(high["reason"], "its risk is high, above medium");
    assert_eq!(
        propose(&mut s, "pending", "none", "reaction", &template(&["x"]))["reason"],
        "it does not say how risky it is"
    );
    assert_eq!(
        propose(&mut s, "pending", "api", "api", &with_risk("low"))["reason"],
        "proposals from api are not approved by themselves"
    );
    // Whoever proposes can make it riskier, and not safer.
    let said = "SELECT agentq.fn_proposal_create('said', 'reaction', $1, '{\"risk_level\": \"critical\"}')";
    assert_eq!(s.json(said, &[&with_risk("low")])["code"], "pending");
    assert_eq!(s.text("SELECT risk_level FROM agentq.v_proposal WHERE dedupe_key = 'said'"), "critical");
    let asked = "SELECT to_jsonb(agentq.fn_proposal_is_auto_approvable($1, 'reaction'))";
    assert_eq!(s.json(asked, &[&with_risk("low")]), json!(true));
    assert_eq!(s.json(asked, &[&with_risk("high")]), json!(false));
}

#[test]
fn the_kinds_of_a_template_are_those_of_all_its_steps() {
    let db = database();
    let mut s = db.session();
    let kinds = r#"SELECT agentq.fn_template_step_kinds('{"steps": [{"kind": "draft"}, {"kind": "post"}, {"kind": "draft"},
        {"mission": {"steps": [{"kind": "inner"}]}}]}')"#;
    assert_eq!(s.text(kinds), "{draft,post,inner}");
}

#[test]
fn a_cap_stops_what_comes_after_and_says_so() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "proposal_caps", json!({"daily_limit": 3, "per_source": {"api": 1}, "max_steps": 2}));
    propose(&mut s, "pending", "a", "api", &template(&["x"]));
    let gate = s.json("SELECT agentq.fn_proposal_gate($1, 'api')", &[&template(&["x"])]);
    assert_eq!((gate["ok"].clone(), gate["gate"].clone()), (json!(false), json!("per_source")));
    let stopped = propose(&mut s, "rejected", "b", "api", &template(&["x"]));
    assert_eq!(stopped["reason"], "the daily cap of 1 proposals from api is reached");
    let stopped = propose(&mut s, "rejected", "c", "manual", &template(&["x", "y", "z"]));
    assert_eq!(stopped["reason"], "it has 3 steps, and at most 2 are allowed");
    propose(&mut s, "pending", "d", "manual", &template(&["x"]));
    // What was rejected has not been counted.
    propose(&mut s, "pending", "e", "trigger", &template(&["x"]));
    assert_eq!(
        propose(&mut s, "rejected", "f", "manual", &template(&["x"]))["reason"],
        "the daily cap of 3 proposals is reached"
    );
    assert_eq!(propose(&mut s, "duplicate", "f", "manual", &template(&["x"]))["status"], "rejected");
    // Tomorrow is another day.
    s.shift_clock(86_400);
    propose(&mut s, "pending", "g", "api", &template(&["x"]));
}

#[test]
fn a_cap_that_is_set_at_noon_counts_the_morning() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "proposal_caps", json!({}));
    propose(&mut s, "pending", "a", "api", &template(&["x"]));
    propose(&mut s, "pending", "b", "manual", &template(&["x"]));
    policy(&mut s, "proposal_caps", json!({"daily_limit": 3, "per_source": {"api": 1}}));
    propose(&mut s, "rejected", "c", "api", &template(&["x"]));
    propose(&mut s, "pending", "d", "manual", &template(&["x"]));
    propose(&mut s, "rejected", "e", "manual", &template(&["x"]));
}

#[test]
fn many_that_propose_at_once_never_pass_the_cap_together() {
    // Of 60 proposals by the api and 60 by triggers: a cap of all binds, and then a cap of one source.
    assert_eq!(let_through(json!({"daily_limit": 25})).0, 25);
    let capped = let_through(json!({"daily_limit": 1000, "per_source": {"api": 10}}));
    assert_eq!(capped, (70, 10));
    // Where both bind, it is a matter of chance who is first.
    let (all, api) = let_through(json!({"daily_limit": 25, "per_source": {"api": 10}}));
    assert!(all == 25 && api <= 10, "{all} in all, {api} by the api");
}

/// How many of 120 proposals that come at once, half of them by the api, are let through: in all, and by the api.
fn let_through(caps: Value) -> (i64, i64) {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "proposal_caps", caps);
    let proposers: Vec<_> = (0..6)
        .map(|me| {
            let mut s = db.session();
            std::thread::spawn(move || {
                let source = if me % 2 == 0 { "api" } else { "trigger" };
                for n in 0..20 {
                    let sql = "SELECT agentq.fn_proposal_create($1, $2, $3)";
                    s.json(sql, &[&format!("{me}-{n}"), &source, &template(&["x"])]);
                }
            })
        })
        .collect();
    proposers.into_iter().for_each(|proposer| proposer.join().expect("no error"));
    assert_eq!(s.count("agentq.v_proposal"), 120);
    let pending = "agentq.v_proposal WHERE status = 'pending'";
    (s.count(pending), s.count(&format!("{pending} AND source = 'api'")))
}

#[test]
fn a_cap_counts_nothing_of_a_proposal_that_is_rolled_back() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    policy(&mut a, "proposal_caps", json!({"daily_limit": 1}));
    a.run("BEGIN");
    propose(&mut a, "pending", "a", "api", &template(&["x"]));
    let other = std::thread::spawn(move || propose(&mut b, "pending", "b", "api", &template(&["x"])));
    until_someone_waits(&mut db.session());
    a.run("ROLLBACK");
    other.join().expect("it is let through");
    propose(&mut a, "rejected", "c", "api", &template(&["x"]));
}

#[test]
fn what_has_ended_long_ago_is_removed_and_what_waits_is_kept() {
    let db = database();
    let mut s = db.session();
    let propose = |s: &mut Session, key: &str| {
        let call = format!(r#"fn_proposal_create('{key}', 'api', '{{"steps": [{{"kind": "a"}}]}}')"#);
        s.call(&call)["proposal_id"].as_str().expect("an id").to_owned()
    };
    let (pending, rejected) = (propose(&mut s, "pending"), propose(&mut s, "rejected"));
    s.call(&format!("fn_proposal_reject('{rejected}', 'no')"));
    let left = |s: &mut Session| s.texts("SELECT proposal_id FROM agentq.v_proposal ORDER BY proposal_id");
    s.shift_clock(399 * 86_400);
    s.call("fn_engine_tick('clean_governance')");
    assert_eq!(left(&mut s), [pending.clone(), rejected]);
    s.shift_clock(401 * 86_400);
    s.call("fn_engine_tick('clean_governance')");
    assert_eq!(left(&mut s), [pending]);
}

#[test]
fn two_that_propose_the_same_at_once_get_one_proposal() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    a.run("BEGIN");
    let first = propose(&mut a, "pending", "same", "api", &template(&["x"]));
    let other = std::thread::spawn(move || propose(&mut b, "duplicate", "same", "api", &template(&["x"])));
    until_someone_waits(&mut db.session());
    a.run("COMMIT");
    assert_eq!(other.join().expect("it answers")["proposal_id"], first["proposal_id"]);
}

#[test]
fn a_person_approves_or_rejects_once() {
    let db = database();
    let mut s = db.session();
    let id = text(&propose(&mut s, "pending", "a", "manual", &template(&["x"])), "proposal_id");
    let approved = expect(&mut s, "approved", &format!("fn_proposal_approve('{id}')"));
    assert!(approved["mission_id"].is_string());
    assert_eq!(s.text("SELECT decided_by FROM agentq.v_proposal"), "postgres");
    for call in [format!("fn_proposal_approve('{id}', 'bob')"), format!("fn_proposal_reject('{id}', 'no')")] {
        let told = s.call(&call);
        assert_eq!((told["ok"].clone(), told["code"].clone()), (json!(false), json!("already_decided")), "{told}");
        assert_eq!(told["mission_id"], approved["mission_id"]);
    }
    let id = text(&propose(&mut s, "pending", "b", "manual", &template(&["x"])), "proposal_id");
    expect(&mut s, "rejected", &format!("fn_proposal_reject('{id}', 'not now', 'ann')"));
    assert_eq!(s.call(&format!("fn_proposal_approve('{id}')"))["code"], "already_decided");
    let row = "SELECT concat_ws(' ', status, state, decided_by, reason, mission_id) FROM agentq.v_proposal WHERE dedupe_key = 'b'";
    assert_eq!(s.text(row), "rejected rejected ann not now");
    assert_eq!(s.count("agentq_internal.job"), 1);
    db.assert_sound();
}

#[test]
fn of_two_decisions_at_once_one_wins_and_the_other_is_told() {
    let db = database();
    for (first, second, told) in [("approve", "reject", "approved"), ("reject", "approve", "rejected")] {
        let (mut a, mut b) = (db.session(), db.session());
        let id = text(&propose(&mut a, "pending", first, "api", &template(&["x"])), "proposal_id");
        let call = |what: &str| match what {
            "approve" => format!("fn_proposal_approve('{id}')"),
            _ => format!("fn_proposal_reject('{id}', 'no')"),
        };
        a.run("BEGIN");
        a.call(&call(first));
        let later = call(second);
        let other = std::thread::spawn(move || b.call(&later));
        until_someone_waits(&mut db.session());
        a.run("COMMIT");
        let answer = other.join().expect("it answers");
        assert_eq!((answer["code"].clone(), answer["status"].clone()), (json!("already_decided"), json!(told)));
    }
    assert_eq!(db.session().count("agentq_internal.job"), 1);
    db.assert_sound();
}

#[test]
fn a_hook_is_asked_and_only_a_yes_lets_through() {
    let db = database();
    let mut s = db.session();
    s.run(
        "CREATE SCHEMA ops;
         CREATE TABLE ops.asked (source text, who text);
         CREATE FUNCTION ops.gate(p_template jsonb, p_source text) RETURNS jsonb LANGUAGE plpgsql AS $$
         BEGIN
             IF p_template->>'title' = 'broken' THEN RAISE EXCEPTION 'the gate is broken'; END IF;
             INSERT INTO ops.asked VALUES (p_source, current_user);
             RETURN jsonb_build_object('ok', p_template->>'title' = 'fine', 'reason', 'only fine ones');
         END $$;
         CREATE FUNCTION ops.plain(p_template jsonb, p_source text) RETURNS boolean LANGUAGE sql AS $$ SELECT false $$;
         CREATE FUNCTION ops.rows(jsonb, text, OUT ok boolean, OUT reason text) LANGUAGE sql AS $$ SELECT false, 'a row' $$;",
    );
    policy(&mut s, "proposal_caps", json!({"hook": "ops.gate"}));
    let titled = |title: &str| json!({"title": title, "steps": [{"name": "a", "kind": "x"}]});
    propose(&mut s, "pending", "a", "api", &titled("fine"));
    assert_eq!(propose(&mut s, "rejected", "b", "trigger", &titled("bad"))["reason"], "only fine ones");
    assert_eq!(s.texts("SELECT source FROM ops.asked ORDER BY 1"), ["api", "trigger"]);
    // Who cannot be asked has not said no: nothing is decided.
    let sql = "SELECT agentq.fn_proposal_create('c', 'api', '{\"title\": \"broken\", \"steps\": [{\"name\": \"a\", \"kind\": \"x\"}]}')";
    refused(&mut s, sql, "P0001", "the hook ops.gate of the policy proposal_caps failed: the gate is broken");
    assert_eq!(s.count("agentq.v_proposal WHERE dedupe_key = 'c'"), 0);
    policy(&mut s, "proposal_caps", json!({"hook": "ops.plain"}));
    assert_eq!(propose(&mut s, "rejected", "d", "api", &titled("fine"))["reason"], "ops.plain said no");
    policy(&mut s, "proposal_caps", json!({"hook": {"function": "ops.rows"}}));
    assert_eq!(propose(&mut s, "rejected", "e", "api", &titled("fine"))["reason"], "a row");
}

#[test]
fn a_hook_has_the_rights_of_its_role_and_leaves_nothing_behind() {
    let db = database();
    let mut s = db.session();
    let role = format!("gov_keeper_{}", db.name);
    let operator = format!("gov_operator_{}", db.name);
    drop((db.session_of(&role), db.session_of(&operator)));
    s.run(&format!(
        "CREATE SCHEMA ops AUTHORIZATION \"{role}\";
         CREATE TABLE public.secret (n int);
         SELECT agentq.fn_access_grant('{operator}', 'operator');
         SET ROLE \"{role}\";
         CREATE TABLE ops.asked (who text);
         CREATE TABLE ops.later (n int);
         CREATE FUNCTION ops.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM public.secret; RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER later AFTER INSERT ON ops.later DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION ops.fire();
         CREATE FUNCTION ops.gate(p_template jsonb, p_source text) RETURNS boolean LANGUAGE plpgsql AS $$
         BEGIN
             IF p_template->>'title' = 'secret' THEN PERFORM 1 FROM public.secret; END IF;
             IF p_template->>'title' = 'role' THEN EXECUTE 'RESET ROLE'; END IF;
             IF p_template->>'title' = 'later' THEN INSERT INTO ops.later VALUES (1); END IF;
             INSERT INTO ops.asked VALUES (current_user);
             RETURN true;
         END $$;
         RESET ROLE"
    ));
    // An operator cannot give rights away that he does not have.
    let mut o = db.session_of(&operator);
    let set = format!(
        r#"SELECT agentq.fn_policy_set('proposal_caps', '{{"hook": {{"function": "ops.gate", "role": "{role}"}}}}')"#
    );
    let before = everything(&mut s);
    refusal(&mut o, &set, "42501", "you are not a member of the role", "");
    let super_hook =
        r#"SELECT agentq.fn_policy_set('proposal_caps', '{"hook": {"function": "ops.gate", "role": "postgres"}}')"#;
    refusal(&mut o, super_hook, "42501", "not a member", "");
    assert_unwritten(&mut s, &before, "a hook of a role that is not the operator's");
    s.run(&format!("GRANT \"{role}\" TO \"{operator}\""));
    assert_eq!(o.text(&set.replace("')", "')->>'code'")), "set");
    // Whoever proposes, the hook runs as its role.
    let titled = |title: &str| json!({"title": title, "steps": [{"name": "a", "kind": "x"}]});
    propose(&mut s, "pending", "a", "api", &titled("fine"));
    assert_eq!(s.text("SELECT DISTINCT who FROM ops.asked"), role);
    assert_eq!(s.text("SELECT current_user"), "postgres");
    let create = |title: &str| format!("SELECT agentq.fn_proposal_create('{title}', 'api', '{}')", titled(title));
    refused(&mut s, &create("secret"), "42501", "permission denied for table secret");
    refused(&mut s, &create("role"), "42501", "within security-");
    // A trigger that would fire at the commit, with the caller's rights, cannot be left behind.
    s.run("INSERT INTO public.secret VALUES (1)");
    let left = s.fails(&create("later"));
    assert!(left.message.contains("deferred trigger") || left.message.contains("permission denied"), "{left:?}");
    assert_eq!(s.count("public.secret"), 1);
    // Who set it must still be a member of the role.
    s.run(&format!("REVOKE \"{role}\" FROM \"{operator}\""));
    refused(&mut s, &create("again"), "42501", "is no member of its role");
    s.run(&format!("SELECT agentq.fn_access_revoke('{operator}', 'operator')"));
}

#[test]
fn whoever_owns_a_hook_gains_no_rights_by_it() {
    let db = database();
    let mut s = db.session();
    let (role, other) = (format!("gov_owner_{}", db.name), format!("gov_other_{}", db.name));
    drop((db.session_of(&role), db.session_of(&other)));
    s.run(&format!(
        "CREATE SCHEMA ops AUTHORIZATION \"{role}\";
         GRANT USAGE ON SCHEMA ops TO PUBLIC;
         SET ROLE \"{role}\";
         CREATE FUNCTION ops.gate(jsonb, text) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$;
         RESET ROLE"
    ));
    let set = |role: &str| {
        format!(
            r#"SELECT agentq.fn_policy_set('proposal_caps', '{{"hook": {{"function": "ops.gate", "role": "{role}"}}}}')"#
        )
    };
    // The owner can change what it does at any time, and would then act as the superuser who set it.
    let plain = r#"SELECT agentq.fn_policy_set('proposal_caps', '{"hook": "ops.gate"}')"#;
    refused(&mut s, plain, "42501", "who does not have the rights of the role \"postgres\"");
    refused(&mut s, &set(&other), "42501", "who does not have the rights of the role");
    // A member of a superuser's role is none yet.
    s.run(&format!("GRANT postgres TO \"{role}\""));
    refused(&mut s, plain, "42501", "who does not have the rights of the role \"postgres\"");
    s.run(&format!("REVOKE postgres FROM \"{role}\""));
    s.run(&set(&role));
    propose(&mut s, "pending", "a", "api", &template(&["x"]));
    s.run(&format!("GRANT \"{other}\" TO \"{role}\""));
    s.run(&set(&other));
    propose(&mut s, "pending", "b", "api", &template(&["x"]));
    // It is asked again each time.
    s.run(&format!("REVOKE \"{other}\" FROM \"{role}\""));
    let create = |key: &str| format!("SELECT agentq.fn_proposal_create('{key}', 'api', '{}')", template(&["x"]));
    refused(&mut s, &create("c"), "42501", "cannot be asked: it belongs to");
    s.run("ALTER FUNCTION ops.gate(jsonb, text) OWNER TO postgres");
    propose(&mut s, "pending", "d", "api", &template(&["x"]));
    s.run("DROP FUNCTION ops.gate(jsonb, text)");
    refused(&mut s, &create("e"), "42883", "there is no function ops.gate(jsonb, text)");
}

#[test]
fn a_cap_that_is_taken_out_and_set_again_counts_what_passed_meanwhile() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "proposal_caps", json!({"daily_limit": 5}));
    propose(&mut s, "pending", "a", "api", &template(&["x"]));
    policy(&mut s, "proposal_caps", json!({}));
    propose(&mut s, "pending", "b", "api", &template(&["x"]));
    policy(&mut s, "proposal_caps", json!({"daily_limit": 2}));
    propose(&mut s, "rejected", "c", "api", &template(&["x"]));
    // Who waits for a counter that goes away opens it anew.
    policy(&mut s, "proposal_caps", json!({"daily_limit": 3}));
    propose(&mut s, "pending", "d", "api", &template(&["x"]));
    let mut b = db.session();
    s.run("BEGIN");
    policy(&mut s, "proposal_caps", json!({"daily_limit": 4}));
    let other = std::thread::spawn(move || propose(&mut b, "rejected", "e", "api", &template(&["x"])));
    until_someone_waits(&mut db.session());
    s.run("COMMIT");
    other.join().expect("it goes by the cap of 3");
    propose(&mut s, "pending", "f", "api", &template(&["x"]));
    propose(&mut s, "rejected", "g", "api", &template(&["x"]));
}

#[test]
fn a_proposal_that_makes_no_sense_is_refused() {
    let db = database();
    let mut s = db.session();
    let good = r#"'{"steps": [{"name": "a", "kind": "x"}]}'"#;
    for (arguments, code, message) in [
        (format!("'k', NULL, {good}"), "22004", "p_source must not be NULL"),
        ("'k', 'api', NULL".to_owned(), "22004", "p_template must not be NULL"),
        (format!("'k', 'web', {good}"), "22023", "p_source \"web\" is not known"),
        (format!("' ', 'api', {good}"), "22023", "p_dedupe_key must not be empty"),
        (format!("'k', 'api', {good}, '{{\"risk\": 1}}'"), "22023", "p_options has the unknown key \"risk\""),
        (format!("'k', 'api', {good}, '{{\"risk_level\": \"none\"}}'"), "22023", "p_options.risk_level must be one of"),
        (
            "'k', 'api', '{\"risk_level\": 1, \"steps\": [{\"name\": \"a\", \"kind\": \"x\"}]}'".to_owned(),
            "22023",
            "p_template.risk_level must be",
        ),
        ("'k', 'api', '{\"steps\": []}'".to_owned(), "22023", "steps"),
        ("'k', 'api', '{\"steps\": [{\"name\": \"a\"}]}'".to_owned(), "22023", "steps[0]"),
        ("'k', 'api', '[]'".to_owned(), "22023", ""),
    ] {
        refused(&mut s, &format!("SELECT agentq.fn_proposal_create({arguments})"), code, message);
    }
    assert_eq!(s.count("agentq.command"), 0);
    let none = "00000000-0000-4000-8000-000000000001";
    refused(&mut s, &format!("SELECT agentq.fn_proposal_approve('{none}')"), "P0002", "there is no proposal");
    refused(&mut s, &format!("SELECT agentq.fn_proposal_reject('{none}', 'x')"), "P0002", "there is no proposal");
    refused(&mut s, &format!("SELECT agentq.fn_proposal_reject('{none}', NULL)"), "22004", "p_reason must not be NULL");
    refused(&mut s, &format!("SELECT agentq.fn_proposal_reject('{none}', ' ')"), "22023", "p_reason must not be empty");
    refused(&mut s, &format!("SELECT agentq.fn_proposal_get('{none}')"), "P0002", "there is no proposal");
}

#[test]
fn an_approval_that_is_rolled_back_starts_nothing() {
    let db = database();
    let mut s = db.session();
    let id = text(&propose(&mut s, "pending", "a", "api", &template(&["x"])), "proposal_id");
    s.run("BEGIN");
    expect(&mut s, "approved", &format!("fn_proposal_approve('{id}')"));
    s.run("ROLLBACK");
    assert_eq!(
        (s.count("agentq_internal.job"), s.text("SELECT status FROM agentq.v_proposal")),
        (0, "pending".to_owned())
    );
    expect(&mut s, "approved", &format!("fn_proposal_approve('{id}')"));
    db.assert_sound();
}
