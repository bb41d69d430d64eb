//! What jobs carry stays in the tables. Every text and JSON of every function is tried with a mark in
//! it, in good calls and bad ones, with the engine at work and much being logged; then the server's log,
//! what its processes say they do, and what listeners hear are searched for the marks.

use crate::every_call::{Argument, Call, World, every_call};
use agentq_tests::{Cluster, Options, Session, eventually, heard};
use std::sync::OnceLock;

/// What an error never names, whoever gave it: what jobs carry, what came of them, what people wrote about
/// them, and the tokens of leases. Of all else an error may name what was wrong: kinds, keys, queues,
/// names, options.
const NEVER: [&str; 17] = [
    "p_payload_json",
    "p_payload",
    "p_payload_ref",
    "p_result",
    "p_checkpoint",
    "p_inputs",
    "p_error",
    "p_final_error",
    "p_reason",
    "p_note",
    "p_triage_note",
    "p_description",
    "p_resolution",
    "p_sql",
    "p_metadata",
    "p_source_ref",
    "p_target_ref",
];

/// A token that is easily found again.
const TOKEN: &str = "feedface-dead-4bad-8bad-feedfacecafe";

/// A server that logs what servers may log, and nothing of what clients send.
fn talkative() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(start)
}

fn start() -> Cluster {
    let settings = [
        "log_min_messages = debug1",
        "log_statement = none",
        "log_min_error_statement = panic",
        "log_parameter_max_length = 0",
        "log_parameter_max_length_on_error = 0",
        "log_lock_waits = on",
        "deadlock_timeout = 100ms",
        "max_worker_processes = 30",
    ];
    let settings = settings.map(str::to_owned).to_vec();
    let cluster = Cluster::start("secrets", &Options { engine: true, settings, ..Options::default() });
    cluster.make_template();
    cluster
}

/// The values to try for an argument: the mark alone, and where JSON is meant, in all its places.
fn marked(argument: &Argument, mark: &str) -> Vec<String> {
    match argument.kind.as_str() {
        "jsonb" => {
            let inside = argument.value.as_deref().and_then(|value| {
                let mut value: agentq_tests::Value = serde_json::from_str(value).ok()?;
                value.as_object_mut()?.insert("extra".to_owned(), mark.into());
                Some(value.to_string())
            });
            let plain = [
                format!("\"{mark}\""),
                format!("[\"{mark}\"]"),
                format!("{{\"a\": {{\"b\": \"{mark}\"}}}}"),
                format!("{{\"password\": \"{mark}\"}}"),
                // Too large for a payload.
                format!("{{\"a\": \"{mark}{}\"}}", "x".repeat(300_000)),
            ];
            plain.into_iter().chain(inside).collect()
        }
        "_text" => vec![format!("{{{mark}}}")],
        // Also too long for a name.
        _ => vec![mark.to_owned(), format!("{mark}{}", "y".repeat(1_100))],
    }
}

/// Calls every function with marks; answers which argument has which mark.
fn try_all(s: &mut Session, calls: &[Call]) -> Vec<(String, String)> {
    let mut marks = Vec::new();
    for call in calls {
        for argument in call.arguments.iter().filter(|argument| argument.is_text()) {
            let mark = format!("mark{}mark", marks.len());
            for value in marked(argument, &mark) {
                let sql = call.with(&argument.name, &value);
                s.0.simple_query(&format!("BEGIN; SELECT {sql}; ROLLBACK")).ok();
                s.run("ROLLBACK");
            }
            marks.push((mark, format!("{}.{}", call.function, argument.name)));
        }
        for argument in call.arguments.iter().filter(|argument| argument.name.ends_with("token")) {
            let sql = call.with(&argument.name, TOKEN);
            s.0.simple_query(&format!("BEGIN; SELECT {sql}; ROLLBACK")).ok();
            s.run("ROLLBACK");
        }
    }
    marks
}

/// Calls with what a job carries inside a larger document, most of them refused. MARK and TOKEN stand for it.
const INSIDE: [&str; 19] = [
    r#"fn_job_enqueue_batch('[{"job_kind": "b", "payload_json": "MARK"}]')"#,
    r#"fn_job_enqueue_batch('[{"job_kind": 7, "payload_json": {"password": "MARK"}}]', '{"all_or_nothing": true}')"#,
    r#"fn_job_enqueue_payloads('b', '["MARK"]')"#,
    r#"fn_job_enqueue_payloads('b', '[{"password": "MARK"}]', '{"all_or_nothing": true}')"#,
    r#"fn_job_change('JOB', '{"payload_json": "MARK"}')"#,
    r#"fn_job_change('JOB', '{"payload_json": {"secret": "MARK"}}')"#,
    r#"fn_schedule_set('s', '@daily', '{"job_kind": "s", "payload_json": {"secret": "MARK"}}')"#,
    r#"fn_schedule_set('s', '@daily', '{"job_kind": "s", "payload_json": ["MARK"]}')"#,
    r#"fn_job_ack_batch('w', '[{"job_id": "no", "lease_token": "TOKEN", "result": "MARK"}]')"#,
    r#"fn_job_ack_batch('w', '[{"job_id": "JOB", "lease_token": "TOKEN", "results": "MARK"}]')"#,
    r#"fn_job_ack_batch('w', '[{"job_id": "JOB", "lease_token": "TOKEN-", "result": "MARK"}]')"#,
    r#"fn_effect_plan('JOB', 'w', '[{"effect_type": 7, "payload": {"a": "MARK"}}]')"#,
    r#"fn_effect_plan('JOB', 'w', '[{"effect_type": "mail", "payload": "MARK"}]')"#,
    r#"fn_mission_start('{"steps": [{"name": "a", "kind": 7, "params": {"a": "MARK"}}]}')"#,
    r#"fn_mission_start('{"steps": [{"name": "a", "kind": "a", "params": "MARK"}]}')"#,
    r#"fn_mission_start('{"steps": [{"name": "a", "kind": "a"}]}', '{"input": "MARK"}')"#,
    r#"fn_action_begin('k', 't', '{"a": "MARK"}', p_options => '{"job_id": "JOB", "lease_token": "TOKEN"}')"#,
    r#"fn_action_begin('k', 't', p_options => '{"job_id": "JOB", "lease_token": "TOKEN-"}')"#,
    r#"fn_signal_send('s', 'k', '{"secret": "MARK"}', '{"ttl": "x"}')"#,
];

#[test]
fn a_part_of_a_document_that_is_refused_is_not_shown_either() {
    const MARK: &str = "withinwithin";
    let cluster = talkative();
    let db = cluster.database();
    let mut s = db.session();
    let world = World::make(&mut s);
    let (mut refused, mut told) = (0, Vec::new());
    let mut hear = |outcome: Result<_, postgres::Error>, sql: &str| {
        if let Err(error) = outcome {
            refused += 1;
            if format!("{error:?}").contains(MARK) || format!("{error:?}").contains(&TOKEN[..30]) {
                told.push(format!("{sql}: {error:?}"));
            }
        }
    };
    for call in INSIDE {
        let sql = call.replace("JOB", &world.job).replace("MARK", MARK).replace("TOKEN", TOKEN);
        hear(s.0.simple_query(&format!("SELECT agentq.{sql}")), &sql);
    }
    for sql in [
        "INSERT INTO agentq.job_queue (job_kind, payload_json) VALUES ('a', '{\"password\": \"MARK\"}')",
        "INSERT INTO agentq.job_queue (job_kind, payload_json) VALUES (' ', '{\"a\": \"MARK\"}')",
        "UPDATE agentq.job_queue SET payload_json = '[\"MARK\"]' WHERE job_kind = 'waits'",
    ] {
        let sql = sql.replace("MARK", MARK);
        hear(s.0.simple_query(&sql), &sql);
    }
    assert!(refused > 12, "only {refused} were refused");
    assert!(told.is_empty(), "{told:#?}");
    let log = cluster.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains(MARK) || line.contains(TOKEN)).collect();
    assert!(told.is_empty(), "{told:#?}");
}

#[test]
fn an_error_names_what_was_wrong_and_never_what_a_job_carries() {
    let cluster = talkative();
    let db = cluster.database();
    let mut s = db.session();
    let world = World::make(&mut s);
    let calls = every_call(&mut s, &world);
    let marks = try_all(&mut s, &calls);
    assert!(marks.len() > 200, "{}", marks.len());
    let log = cluster.log();
    assert!(log.lines().any(|line| line.contains("ERROR:  ")), "errors are logged");
    let told: Vec<&(String, String)> = marks.iter().filter(|(mark, _)| log.contains(mark.as_str())).collect();
    assert!(!told.is_empty(), "an error names a value");
    let leaked: Vec<&str> = told
        .iter()
        .map(|(_, argument)| argument.as_str())
        .filter(|argument| NEVER.iter().any(|never| argument.ends_with(&format!(".{never}"))))
        .collect();
    let show = |argument: &str| {
        let mark = &marks.iter().find(|(_, a)| a == argument).expect("a mark").0;
        log.lines().find(|line| line.contains(mark.as_str())).unwrap_or_default().chars().take(300).collect::<String>()
    };
    assert!(leaked.is_empty(), "{:#?}", leaked.iter().map(|argument| show(argument)).collect::<Vec<_>>());
    assert!(!log.contains(TOKEN), "the token of a lease is in the log");
}

/// What happens without a caller: the engine, handlers, hooks, missions, reactions, schedules, failures.
#[test]
fn what_goes_wrong_behind_the_scenes_tells_the_log_nothing_of_what_jobs_carry() {
    const MARK: &str = "hushhush";
    let cluster = talkative();
    let db = cluster.database();
    let mut s = db.session();
    let mut ear = db.session();
    ear.run("LISTEN agentq_job_ready");
    for chore in ["run_schedules", "react", "propose", "reap_leases", "enforce_deadlines", "tend_missions"] {
        s.call(&format!("fn_engine_chore_set('{chore}', p_every_seconds => 0.1)"));
    }
    // A handler that fails with what it was given, and one that takes too long.
    s.call("fn_handler_register('fails', 'SELECT ($1->''payload_json''->>''note'')::int')");
    s.call(r#"fn_handler_register('slow', 'SELECT pg_sleep(60)', p_options => '{"timeout_seconds": 1}')"#);
    s.call("fn_handler_register('well', 'SELECT $1')");
    let payload = format!(r#"{{"note": "{MARK}", "deep": {{"a": ["{MARK}"]}}}}"#);
    let enqueue = |kind: &str| {
        format!("fn_job_enqueue('{kind}', '{MARK} key {kind}', p_payload_json => '{payload}', p_max_attempts => 1)")
    };
    // What the processes of the engine say they do.
    let mut shown = Vec::new();
    let mut look = |s: &mut Session| {
        shown.extend(s.texts(
            "SELECT query || ' ' || application_name FROM pg_stat_activity WHERE backend_type LIKE 'agentq%' AND query <> ''",
        ));
        shown.iter().any(|line| line.contains("of kind slow"))
    };
    s.call(&enqueue("slow"));
    eventually("the slow one is seen", || {
        let seen = look(&mut s);
        // It may have been over before anybody looked.
        if !seen && s.count("agentq.job_queue WHERE job_kind = 'slow' AND finished_at IS NULL") == 0 {
            s.call(&enqueue("slow"));
        }
        seen
    });
    for kind in ["fails", "well", "by hand", "lost"] {
        s.call(&enqueue(kind));
    }
    // By hand: failed with a text, a checkpoint and a result; and one whose lease runs out.
    let held = s.call("fn_job_claim('w', 'by hand')");
    let (job, token) = (held["job_id"].as_str().expect("a job"), held["lease_token"].as_str().expect("a token"));
    s.call(&format!("fn_checkpoint_save('{job}', 'w', '{payload}')"));
    s.call(&format!("fn_job_fail_or_retry('{job}', 'w', '{MARK} happened')"));
    s.call("fn_job_claim('w', 'lost', 1)");
    // A schedule whose job is not accepted any more, a hook that fails, a reaction that cannot be worked out.
    let large = format!(r#"{{"note": "{MARK}", "more": "{}"}}"#, "x".repeat(2_000));
    s.call(&format!(r#"fn_schedule_set('s', '@every 1s', '{{"job_kind": "s", "payload_json": {large}}}')"#));
    s.call("fn_config_set('queue.payload.max_bytes', '1024')");
    s.run(
        "CREATE SCHEMA gate; CREATE FUNCTION gate.keep(t jsonb, s text) RETURNS boolean LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no: %', t; END $$",
    );
    let template = format!(r#"{{"steps": [{{"name": "a", "kind": "a", "params": {{"x": "{MARK}"}}}}]}}"#);
    let matrix = format!(r#"[{{"id": "p", "type": "asked", "template": {template}}}]"#);
    s.call(&format!("fn_policy_set('reaction_matrix', '{matrix}')"));
    s.call(r#"fn_policy_set('proposal_caps', '{"hook": {"function": "gate.keep"}}')"#);
    s.call(&format!(r#"fn_event_emit('asked', '{MARK}', '{{"a": "{MARK}"}}')"#));
    // A mission whose step fails, and one whose condition cannot be worked out.
    s.call(&format!("fn_mission_start('{template}')"));
    let step = s.call("fn_job_claim('w', 'a')");
    s.call(&format!(
        "fn_job_fail_or_retry('{}', 'w', '{MARK}', p_verdict => 'discard')",
        step["job_id"].as_str().expect("a job")
    ));

    for (what, from) in [
        ("the handler failed", "agentq.job_queue WHERE job_kind = 'fails' AND state = 'dead_letter'"),
        ("the slow one was ended", "agentq.job_queue WHERE job_kind = 'slow' AND state = 'dead_letter'"),
        ("the other went well", "agentq.job_queue WHERE job_kind = 'well' AND state = 'succeeded'"),
        ("the lease ran out", "agentq.job_queue WHERE job_kind = 'lost' AND state = 'dead_letter'"),
        ("the schedule failed", "agentq.event WHERE event_kind = 'schedule.failed'"),
        ("the hook failed", "agentq.reaction WHERE status = 'failed'"),
        ("the mission failed", "agentq.mission WHERE status = 'failed'"),
    ] {
        eventually(what, || {
            look(&mut s);
            s.count(from) > 0
        });
    }
    let stored = s.text(
        "SELECT error FROM agentq.job_attempt a JOIN agentq.job_queue q USING (job_id) WHERE q.job_kind = 'fails'",
    );
    assert!(stored.contains(MARK), "the table has what the log must not have: {stored}");
    eventually("the engine tells of its troubles", || cluster.log().contains("schedule \"s\" could not fire"));
    let log = cluster.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains(MARK) || line.contains(token)).collect();
    assert!(told.is_empty(), "{told:#?}");
    // What processes say they do, and what everybody may listen to.
    shown.sort();
    shown.dedup();
    assert!(!shown.iter().any(|line| line.contains(MARK)), "{shown:#?}");
    for notice in heard(&mut ear, "agentq_job_ready", |heard| !heard.is_empty()) {
        let keys: Vec<&String> = notice.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["count", "kind", "queue"]);
    }
}

#[test]
fn an_error_shows_no_backtrace_whatever_the_server_was_started_with() {
    for without_preload in [false, true] {
        let options = Options { backtraces: true, without_preload, ..Options::default() };
        let cluster = Cluster::start("backtraces", &options);
        let mut s = cluster.session("postgres");
        s.run("CREATE EXTENSION agentq");
        let failure = s.fails("SELECT agentq.fn_job_ack(gen_random_uuid(), 'bob')");
        assert_eq!((failure.code.as_str(), failure.detail.as_str()), ("P0002", ""));
        let failure = s.fails("SELECT agentq.fn_job_enqueue('')");
        assert_eq!((failure.code.as_str(), failure.detail.as_str()), ("22023", ""));
        assert!(!cluster.log().contains("stack backtrace"), "{}", cluster.log());
    }
}
