//! Reactions: which events call for one, and that each event is read once.

use crate::loops::{approve_all, emit, pattern, policy, propose, reactions, refused, seal, template, tick};
use agentq_tests::process::cpu_used;
use agentq_tests::{Value, database, eventually, expect, json, text};

#[test]
fn an_event_that_fits_by_type_tags_source_and_data_has_a_reaction() {
    let db = database();
    let mut s = db.session();
    policy(
        &mut s,
        "reaction_matrix",
        json!([
            pattern("any", "user:*", json!({})),
            pattern("grave", "user:*", json!({"when": "$.severity >= 3 && $event.subject == \"somebody\""})),
            pattern("web", "*", json!({"source": "web*", "tags": {"all": ["a", "b"]}})),
            pattern("off", "*", json!({"enabled": false})),
            // A condition that cannot be worked out does not hold.
            pattern("odd", "user:*", json!({"when": "$.severity.more + 1"})),
        ]),
    );
    emit(&mut s, "user:request", json!({"severity": 2}), json!({}));
    emit(&mut s, "user:request", json!({"severity": 3}), json!({"source": "web-1", "tags": ["a", "b", "c"]}));
    emit(&mut s, "other", json!({}), json!({"source": "web-1", "tags": ["a"]}));
    let ticked = tick(&mut s);
    assert_eq!(ticked["triggerResult"]["queued"], 4, "{ticked}");
    assert_eq!(
        s.texts(
            "SELECT pattern || ' ' || (payload->'event'->>'kind') FROM agentq.reaction ORDER BY event_seq, pattern"
        ),
        ["any user:request", "any user:request", "grave user:request", "web user:request"]
    );
    // Read once: another turn finds nothing of them.
    assert_eq!(tick(&mut s)["triggerResult"]["queued"], 0);
    assert_eq!(s.text("SELECT queued FROM agentq.reaction_pattern WHERE pattern = 'any'"), "2");
    db.assert_sound();
}

#[test]
fn the_values_of_the_event_come_into_the_template() {
    let db = database();
    let mut s = db.session();
    let template = json!({"title": {"$event": "$.title"}, "steps": [{"name": "one", "kind": "noop",
        "params": {"who": {"$event": "$.user.id"}, "all": {"$event": "$.user"}, "what": {"$event": "$event.kind"},
            "none": {"$event": "$.missing"}, "plain": 1}}]});
    policy(&mut s, "reaction_matrix", json!([{"id": "a", "type": "user:*", "template": template}]));
    approve_all(&mut s, &["noop"]);
    emit(&mut s, "user:request", json!({"title": "Hello", "user": {"id": 7}}), json!({}));
    tick(&mut s);
    assert_eq!(
        s.text("SELECT title || ' ' || status || ' ' || requested_by FROM agentq.v_proposal"),
        "Hello auto_approved pattern:a"
    );
    let params = s.json("SELECT template->'steps'->0->'params' FROM agentq.v_proposal", &[]);
    assert_eq!(params, json!({"who": 7, "all": {"id": 7}, "what": "user:request", "none": null, "plain": 1}));
    // What comes from outside is never read as a reference.
    emit(&mut s, "user:request", json!({"title": "x", "user": {"$from": "$.secret"}}), json!({}));
    tick(&mut s);
    let last = reactions(&mut s).pop().unwrap();
    assert!(last.starts_with("a failed the event's data at $.user holds a reference"), "{last}");
    assert_eq!(s.count("agentq.event WHERE event_kind = 'reaction.failed'"), 1);
    assert_eq!(s.count("agentq.v_proposal"), 1);
}

#[test]
fn chance_decides_the_same_each_time_and_is_counted() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "reaction_matrix", json!([pattern("half", "e", json!({"probability": 0.5}))]));
    s.call("fn_config_set('governance.event_batch', '100')");
    for _ in 0..60 {
        emit(&mut s, "e", json!({}), json!({}));
    }
    seal(&mut s);
    s.run("BEGIN");
    tick(&mut s);
    let first = s.texts("SELECT event_id FROM agentq.reaction ORDER BY 1");
    s.run("ROLLBACK");
    assert_eq!(s.count("agentq.reaction"), 0);
    tick(&mut s);
    assert_eq!(s.texts("SELECT event_id FROM agentq.reaction ORDER BY 1"), first);
    assert!((5..56).contains(&first.len()), "{}", first.len());
    assert_eq!(s.text("SELECT queued + unlucky FROM agentq.reaction_pattern"), "60");
}

#[test]
fn a_pattern_cools_down_between_two_reactions() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "reaction_matrix", json!([pattern("slow", "e", json!({"cooldown_seconds": 60}))]));
    emit(&mut s, "e", json!({}), json!({}));
    emit(&mut s, "e", json!({}), json!({}));
    tick(&mut s);
    s.shift_clock(30);
    emit(&mut s, "e", json!({}), json!({}));
    tick(&mut s);
    assert_eq!(reactions(&mut s).len(), 1);
    s.shift_clock(61);
    emit(&mut s, "e", json!({}), json!({}));
    tick(&mut s);
    assert_eq!(reactions(&mut s).len(), 2);
    assert_eq!(s.text("SELECT cooling FROM agentq.reaction_pattern"), "2");
}

#[test]
fn events_with_the_same_key_have_one_reaction() {
    let db = database();
    let mut s = db.session();
    policy(
        &mut s,
        "reaction_matrix",
        json!([
            pattern("path", "e", json!({"dedupe": "$.user"})),
            pattern("text", "e", json!({"dedupe": "{$event.subject}/{$.day}"})),
        ]),
    );
    for (user, day) in [(json!(1), 1), (json!(1), 2), (json!(2), 2), (json!(null), 3), (json!(null), 3)] {
        emit(&mut s, "e", json!({"user": user, "day": day}), json!({}));
    }
    tick(&mut s);
    let keys = "SELECT concat_ws(' ', pattern, dedupe_key) FROM agentq.reaction ORDER BY pattern, event_seq";
    // Without a value there is no key, and nothing to go by.
    assert_eq!(
        s.texts(keys),
        ["path 1", "path 2", "path", "path", "text somebody/1", "text somebody/2", "text somebody/3"]
    );
    assert_eq!(s.texts("SELECT duplicates FROM agentq.reaction_pattern ORDER BY pattern"), ["1", "2"]);
    emit(&mut s, "e", json!({"user": "x".repeat(2000), "day": 9}), json!({}));
    tick(&mut s);
    assert_eq!(
        s.count("agentq.reaction WHERE pattern = 'path' AND status = 'failed' AND reason LIKE '%dedupe key%'"),
        1
    );
    assert_eq!(s.count("agentq.reaction WHERE pattern = 'text' AND dedupe_key = 'somebody/9'"), 1);
}

#[test]
fn a_broken_template_stops_no_other() {
    let db = database();
    let mut s = db.session();
    // What kind of step it is comes from the event, and is not always one.
    let broken = json!({"id": "broken", "type": "e",
        "template": {"steps": [{"name": "one", "kind": {"$event": "$.kind"}}]}});
    policy(&mut s, "reaction_matrix", json!([broken, pattern("good", "e", json!({}))]));
    approve_all(&mut s, &["noop"]);
    emit(&mut s, "e", json!({"kind": 5}), json!({}));
    emit(&mut s, "e", json!({"kind": "noop"}), json!({}));
    let ticked = tick(&mut s);
    assert_eq!(ticked["reactionResult"], json!({"processed": 4, "created": 3}), "{ticked}");
    let found = reactions(&mut s);
    assert!(found[0].starts_with("broken failed ") && found[0].contains("steps[0].kind"), "{found:?}");
    assert_eq!(&found[1..], ["good done", "broken done", "good done"]);
    assert_eq!(s.count("agentq_internal.job"), 3);
    db.assert_sound();
}

/// What one pattern asks of one event takes for ever: that one fails, and the others go on, with this event and the next.
#[test]
fn a_pattern_that_takes_too_long_stops_no_other() {
    let db = database();
    let mut s = db.session();
    let slow = "$.v[*] ? (@ < 0 || exists ($.v[*] ? (@ < 0 || exists ($.v[*] ? (@ < 0)))))";
    let patterns: Vec<Value> = (0..4).map(|n| pattern(&format!("slow{n}"), "e", json!({"when": slow}))).collect();
    let all: Vec<Value> = patterns.into_iter().chain([pattern("well", "e", json!({}))]).collect();
    policy(&mut s, "reaction_matrix", json!(all));
    approve_all(&mut s, &["noop"]);
    let many: Vec<i32> = (0..10_000).collect();
    emit(&mut s, "e", json!({"v": many}), json!({}));
    emit(&mut s, "e", json!({"v": [1]}), json!({}));
    s.run("SET statement_timeout = '50s'");
    eventually("both events are read", || {
        tick(&mut s);
        s.count("agentq.reaction WHERE pattern = 'well' AND status = 'done'") == 2
    });
    let failed =
        s.texts("SELECT DISTINCT substring(reason FROM '^[a-z ]*') FROM agentq.reaction WHERE status = 'failed'");
    assert_eq!(failed, ["it took longer than "]);
    assert_eq!(s.count("agentq.reaction WHERE status = 'failed'"), 4);
    db.assert_sound();
}

#[test]
fn the_loop_does_not_feed_itself_for_ever() {
    let db = database();
    let mut s = db.session();
    // Everything calls for a reaction, also the events of the loop itself.
    policy(&mut s, "reaction_matrix", json!([pattern("echo", "*", json!({}))]));
    approve_all(&mut s, &["noop"]);
    s.call("fn_config_set('governance.max_depth', '3')");
    tick(&mut s);
    let before = s.count("agentq.reaction WHERE depth > 1");
    emit(&mut s, "start", json!({}), json!({}));
    eventually("the loop comes to rest", || tick(&mut s)["triggerResult"]["queued"] == 0);
    assert!(s.count("agentq.reaction WHERE depth > 1") > before);
    assert_eq!(s.text("SELECT max(depth) FROM agentq.reaction WHERE status <> 'skipped'"), "3");
    assert!(s.count("agentq.reaction WHERE status = 'skipped' AND reason LIKE '%caused this event itself%'") > 0);
    assert_eq!(s.text("SELECT max(depth) FROM agentq.v_proposal"), "3");
    db.assert_sound();
}

#[test]
fn a_condition_that_always_fails_is_not_told_of_for_ever() {
    let db = database();
    let mut s = db.session();
    for path in ["$payload.x == 1", "$.a ? (@ > $b.\"c\").d == 1"] {
        let matrix = json!([pattern("odd", "*", json!({"when": path}))]);
        let sql = format!("SELECT agentq.fn_policy_set('reaction_matrix', '{matrix}')");
        refused(&mut s, &sql, "22023", "which there is not");
    }
    // An error that nobody foresees, in every event: also in those that tell of it.
    let when = r#""2026-01-01".datetime() < "2026-01-01 12:00:00+00".datetime()"#;
    policy(&mut s, "reaction_matrix", json!([pattern("odd", "*", json!({"when": when}))]));
    s.call("fn_config_set('governance.max_depth', '3')");
    emit(&mut s, "start", json!({}), json!({}));
    let mut turns = 0;
    eventually("the loop comes to rest", || {
        turns += 1;
        assert!(turns < 20, "{:?}", reactions(&mut s).len());
        tick(&mut s)["triggerResult"]["events"] == 0
    });
    assert!(s.count("agentq.event WHERE event_kind = 'reaction.failed'") > 0);
    assert_eq!(s.text("SELECT max(depth) FROM agentq.reaction WHERE status = 'failed'"), "3");
    assert!(s.count("agentq.reaction WHERE status = 'skipped' AND depth = 4") > 0);
}

#[test]
fn a_failure_of_the_loops_own_job_is_as_deep_as_its_mission() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "reaction_matrix", json!([pattern("again", "job.dead_lettered", json!({}))]));
    policy(&mut s, "worker_policy", json!({"max_retries": 0}));
    approve_all(&mut s, &["noop"]);
    s.call("fn_config_set('governance.max_depth', '2')");
    s.call("fn_job_enqueue('noop', p_max_attempts => 1)");
    let mut failed = 0;
    loop {
        let job = s.call("fn_job_claim('worker', 'noop', 60)");
        if job["code"] != "claimed" {
            break;
        }
        failed += 1;
        assert!(failed < 10, "it goes on for ever");
        let id = text(&job, "job_id");
        expect(&mut s, "dead_letter", &format!("fn_job_fail_or_retry('{id}', 'worker', 'no')"));
        tick(&mut s);
        tick(&mut s);
    }
    assert_eq!(failed, 3, "the first one, and one for each level");
    assert_eq!(s.texts("SELECT status || depth FROM agentq.reaction ORDER BY depth"), ["done1", "done2", "skipped3"]);
    assert_eq!(
        s.count("agentq.event WHERE event_kind = 'job.dead_lettered' AND payload->>'on_end' LIKE 'mission:%'"),
        2
    );
}

#[test]
fn a_forged_end_of_a_mission_ends_no_proposal() {
    let db = database();
    let mut s = db.session();
    approve_all(&mut s, &["noop"]);
    let made = propose(&mut s, "auto_approved", "a", "api", &template(&["noop"]));
    let mission = text(&made, "mission_id");
    emit(&mut s, "mission.succeeded", json!({"mission_id": mission}), json!({"mission_id": mission}));
    tick(&mut s);
    tick(&mut s);
    assert_eq!(s.text("SELECT state || (finished_at IS NULL) FROM agentq.v_proposal"), "auto_approvedtrue");
    s.call(&format!("fn_mission_cancel('{mission}')"));
    tick(&mut s);
    tick(&mut s);
    assert_eq!(s.text("SELECT state FROM agentq.v_proposal"), "cancelled");
}

#[test]
fn events_that_were_dropped_are_passed_over_in_steps() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "reaction_matrix", json!([pattern("all", "e", json!({}))]));
    s.call("fn_config_set('governance.event_batch', '5')");
    tick(&mut s);
    s.run("SELECT agentq.fn_event_emit('gone', n::text) FROM generate_series(1, 1900) n");
    seal(&mut s);
    s.run("SET session_replication_role = replica; DELETE FROM agentq.event WHERE event_kind = 'gone'; RESET session_replication_role");
    let cursor = "SELECT seq FROM agentq.event_cursor WHERE consumer = 'react'";
    let before: i64 = s.text(cursor).parse().expect("a place");
    // One look brings the cursor on, though it finds nothing.
    s.call("fn_engine_tick('react')");
    let after: i64 = s.text(cursor).parse().expect("a place");
    assert!(after > before, "{before} {after}");
    emit(&mut s, "e", json!({}), json!({}));
    seal(&mut s);
    for _ in 0..5 {
        s.call("fn_engine_tick('react')");
    }
    assert_eq!(s.count("agentq.reaction WHERE pattern = 'all'"), 1);
    assert_eq!(s.text(cursor), s.text("SELECT last_seq FROM agentq_internal.event_seal"));
}

#[test]
fn two_that_read_at_once_read_each_event_once() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "reaction_matrix", json!([pattern("all", "e", json!({}))]));
    s.call("fn_config_set('governance.event_batch', '7')");
    for _ in 0..200 {
        emit(&mut s, "e", json!({}), json!({}));
    }
    seal(&mut s);
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let mut s = db.session();
            std::thread::spawn(move || {
                for _ in 0..60 {
                    s.call("fn_engine_tick('react')");
                    s.call("fn_engine_tick('propose')");
                }
            })
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().expect("no error"));
    tick(&mut s);
    assert_eq!(s.count("agentq.reaction"), 200);
    assert_eq!(s.count("agentq.reaction WHERE status = 'done'"), 200);
    assert_eq!(s.count("agentq.v_proposal"), 200);
    db.assert_sound();
}

#[test]
fn who_finds_the_cursor_locked_leaves_it_to_the_other_and_a_death_loses_nothing() {
    let db = database();
    let (mut a, mut b) = (db.session(), db.session());
    policy(&mut a, "reaction_matrix", json!([pattern("all", "e", json!({}))]));
    tick(&mut a);
    emit(&mut a, "e", json!({}), json!({}));
    seal(&mut a);
    a.run("BEGIN");
    assert_eq!(tick(&mut a)["triggerResult"]["queued"], 1);
    assert_eq!(tick(&mut b)["triggerResult"], json!({"events": 0, "queued": 0}));
    // The one that had read it is killed before its commit.
    let pid = a.text("SELECT pg_backend_pid()");
    b.run(&format!("SELECT pg_terminate_backend({pid}, 5000)"));
    assert_eq!(tick(&mut b)["triggerResult"]["queued"], 1);
    assert_eq!(b.count("agentq.reaction"), 1);
}

#[test]
fn a_new_matrix_holds_for_what_is_read_from_then_on() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "reaction_matrix", json!([pattern("old", "e", json!({}))]));
    emit(&mut s, "e", json!({}), json!({}));
    tick(&mut s);
    policy(&mut s, "reaction_matrix", json!([pattern("new", "e", json!({}))]));
    emit(&mut s, "e", json!({}), json!({}));
    // Another session has read no version yet; the first must not go by its old one.
    tick(&mut s);
    let versions = "SELECT pattern || ' ' || matrix_version FROM agentq.reaction ORDER BY event_seq";
    assert_eq!(s.texts(versions), ["old 1", "new 2"]);
}

#[test]
fn a_thousand_events_pass_the_matrix_in_a_second_of_cpu_time() {
    let db = database();
    let mut s = db.session();
    let patterns: Vec<_> =
        (0..50).map(|n| pattern(&format!("p{n}"), &format!("kind{n}:*"), json!({"when": "$.n > 5"}))).collect();
    policy(&mut s, "reaction_matrix", json!(patterns));
    s.run("SELECT agentq.fn_event_emit('kind' || (n % 100) || ':x', 'somebody', jsonb_build_object('n', n % 10)) FROM generate_series(1, 5000) n");
    (0..20).for_each(|_| seal(&mut s));
    let pid = s.text("SELECT pg_backend_pid()");
    let before = cpu_used(&pid);
    let mut events = 0;
    while events < 5000 {
        let ticked = expect(&mut s, "ticked", "fn_engine_tick('react')");
        let read = ticked["chores"][0]["rows"].as_i64().expect("a number");
        assert!(read > 0, "only {events} events came");
        events += read;
    }
    let used = cpu_used(&pid) - before;
    println!("{used} hundredths of a second for 5000 events");
    assert!(used < 500, "{used} hundredths of a second for 5000 events");
    assert!(s.count("agentq.reaction") > 0);
}

#[test]
fn a_turn_with_nothing_to_do_writes_nothing() {
    let db = database();
    let mut s = db.session();
    policy(&mut s, "reaction_matrix", json!([pattern("all", "e", json!({}))]));
    emit(&mut s, "e", json!({}), json!({}));
    tick(&mut s);
    // What the turn itself told is read, too; and then there is nothing more.
    tick(&mut s);
    s.run("BEGIN");
    assert_eq!(tick(&mut s)["triggerResult"]["events"], 0);
    assert_eq!(s.text("SELECT pg_current_xact_id_if_assigned() IS NULL"), "t");
    s.run("COMMIT");
}
